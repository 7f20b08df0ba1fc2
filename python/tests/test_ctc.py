"""Sequences of labels without places: training, evaluation, the best path."""

import numpy as np
import pytest

import mantissa as mt


def spoken(count=256, positions=24, most=4, seed=5):
    """Sequences of frames in noise. Each label is one or more frames with a channel of its own, and
    there is silence between labels. Also the labels, filled up with -1, and the lengths."""
    random = np.random.default_rng(seed)
    x = random.normal(0, 0.15, (count, positions, 3)).astype(np.float32)
    labels = np.full((count, most), -1, np.int32)
    lengths = np.full(count, positions, np.int32)
    for n in range(count):
        place = 0
        for i in range(random.integers(1, most + 1)):
            place += random.integers(1, 3)
            labels[n, i] = random.integers(1, 4)
            held = random.integers(1, 4)
            x[n, place:place + held, labels[n, i] - 1] += 1
            place += held
        lengths[n] = min(positions, place + random.integers(0, 3))
    return x, labels, lengths


def speech_network():
    h = mt.numbers(24, 3, largest=4.0)
    h = mt.relu(mt.linear(h, 32))
    z = mt.linear(h, 4)
    return mt.Network(z, loss=mt.ctc(z, most_labels=4, lengths="lengths"))


def named(x, labels, lengths):
    return mt.Data(numbers=x, labels=labels, lengths=lengths)


@pytest.mark.parametrize("format", ["bfp8", "dfp8", "fp32"])
def test_ctc_learns_labels_without_places(format):
    data, held = spoken(), spoken(64, seed=6)
    trainer = mt.Trainer(speech_network(), batch_size=32, learning_rate=0.05, seed=1, format=format)
    history = trainer.fit(named(*data), epochs=20, progress=False)
    assert history[-1].loss < 0.3 * history[0].loss
    model = trainer.freeze(mt.Data(numbers=data[0], lengths=data[2]))
    logits = model.predict(mt.Data(numbers=held[0], lengths=held[2]))
    found = mt.best_path(logits, 4, lengths=held[2])
    assert mt.label_error_rate(found, held[1]) < 0.1
    score = model.evaluate(named(*held))
    right = np.mean([list(a) == [l for l in b if l >= 0] for a, b in zip(found, held[1])])
    assert score.accuracy == pytest.approx(right, abs=1e-9)
    assert 0 < score.loss < history[0].loss


def test_ctc_has_the_same_bits_on_any_number_of_threads():
    hashes = set()
    for threads in (1, 3):
        trainer = mt.Trainer(speech_network(), batch_size=32, threads=threads)
        trainer.fit(named(*spoken(64)), epochs=1, progress=False)
        hashes.add(trainer.weights_sha256)
    assert len(hashes) == 1


def test_ctc_refuses_labels_that_do_not_fit():
    x, labels, lengths = spoken(4)

    def refuses(text, change):
        many = labels.copy(), lengths.copy()
        change(*many)
        trainer = mt.Trainer(speech_network(), batch_size=4)
        with pytest.raises(mt.InvalidInput, match=text):
            trainer.step(x, *many, learning_rate=0.1)

    def put(row, values):
        def change(labels, lengths):
            labels[row] = values
        return change

    refuses("labels are from 0 to 3, without the blank 0", put(1, [1, 0, -1, -1]))
    refuses("without the blank 0", put(1, [4, -1, -1, -1]))
    refuses("behind -1, which ends them", put(2, [1, -1, 2, -1]))
    refuses("the length 25", lambda labels, lengths: lengths.__setitem__(0, 25))

    def short(labels, lengths):
        labels[3], lengths[3] = [2, 2, 1, 1], 5
    refuses("example 3 of a batch: has 4 labels, which take 6 positions", short)


def test_best_path_and_label_error_rate():
    logits = np.zeros((2, 5, 3))
    for n, path in enumerate(([1, 1, 0, 1, 2], [0, 2, 2, 1, 1])):
        logits[n, np.arange(5), path] = 1
    assert [row.tolist() for row in mt.best_path(logits)] == [[1, 1, 2], [2, 1]]
    assert [row.tolist() for row in mt.best_path(logits.reshape(2, 15), 3)] == [[1, 1, 2], [2, 1]]
    assert [row.tolist() for row in mt.best_path(logits, lengths=[2, 0])] == [[1], []]
    assert [row.tolist() for row in mt.best_path(logits, blank=1)] == [[0, 2], [0, 2]]
    assert mt.label_error_rate([[1, 1, 2], [2, 1]], [[1, 2, -1], [2, 1, 1]]) == pytest.approx(2 / 5)
    assert mt.label_error_rate([[], [2]], [[1, 2], [2]]) == pytest.approx(2 / 3)
    for wrong in (lambda: mt.best_path(logits[0]), lambda: mt.best_path(logits, blank=3),
                  lambda: mt.best_path(logits, lengths=[6, 1]),
                  lambda: mt.label_error_rate([[1]], [[-1]]),
                  lambda: mt.label_error_rate([[1]], [[1], [2]])):
        with pytest.raises(mt.InvalidInput):
            wrong()
