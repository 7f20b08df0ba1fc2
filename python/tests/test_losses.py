"""Losses of all forms learn, from arrays."""

import numpy as np
import pytest

import mantissa as mt


def rows(seed=3):
    random = np.random.default_rng(seed)
    x = random.normal(size=(512, 6)).astype(np.float32)
    return x, x @ random.normal(size=(6, 3)).astype(np.float32)


def trained(outputs, loss, data, **settings):
    x = mt.numbers(6, largest=8.0)
    out = mt.linear(mt.relu(mt.linear(x, 32)), outputs)
    trainer = mt.Trainer(mt.Network(out, loss=loss(out)), batch_size=64, seed=1,
                         learning_rate=0.05, **settings)
    return trainer.fit(data, epochs=20, progress=False), trainer


@pytest.mark.parametrize("format", ["bfp8", "fp32"])
def test_forms_of_sigmoids_learn(format):
    x, scores = rows()
    labels = (scores > 0.5).astype(np.int32)
    for options in ({"focal": 2.0}, {"positive_weights": [1.0, 2.0, 0.5]}, {"label_smoothing": 0.1}):
        history, _ = trained(3, lambda z: mt.sigmoid_cross_entropy(z, **options),
                             mt.Data(numbers=x, labels=labels), format=format)
        assert history[-1].loss < 0.6 * history[0].loss, options
        assert history[-1].accuracy > 0.7, options
    ranks = (scores[:, 0] > -1).astype(np.int32) + (scores[:, 0] > 1)
    history, _ = trained(2, lambda z: mt.sigmoid_cross_entropy(z, ordinal=True),
                         mt.Data(numbers=x, labels=ranks), format=format)
    assert history[-1].accuracy > 0.8


@pytest.mark.parametrize("format", ["bfp8", "fp32"])
def test_penalties_of_numbers_learn(format):
    x, y = rows()
    for loss in (mt.absolute_error, mt.huber_error,
                 lambda z, **more: mt.huber_error(z, delta=0.25, **more)):
        history, _ = trained(3, lambda z: loss(z, largest=16.0), mt.Data(numbers=x, targets=y),
                             format=format)
        assert history[-1].loss < 0.4 * history[0].loss


def test_distributions_are_learned():
    x, scores = rows()
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    history, _ = trained(3, mt.soft_cross_entropy, mt.Data(numbers=x, targets=p))
    assert history[-1].loss < history[0].loss
    assert history[-1].accuracy > 0.85
    labels = p.argmax(1).astype(np.int32)
    history, trainer = trained(3, lambda z: mt.distilled_cross_entropy(z, temperature=2.0),
                               mt.Data(numbers=x, labels=labels, teacher=p))
    assert history[-1].accuracy > 0.85
    score = trainer.freeze(mt.Data(numbers=x)).evaluate(mt.Data(numbers=x, labels=labels))
    assert score.accuracy > 0.85
    with pytest.raises(mt.InvalidInput, match="below 0"):
        trained(3, mt.soft_cross_entropy, mt.Data(numbers=x, targets=-p))
    with pytest.raises(mt.InvalidInput, match="more than 2"):
        trained(3, mt.soft_cross_entropy, mt.Data(numbers=x, targets=1.9 * np.ones_like(p)))


def test_losses_refuse_numbers_out_of_range():
    z = mt.linear(mt.numbers(6, largest=8.0), 3)
    for loss in (mt.sigmoid_cross_entropy(z, focal=6.0),
                 mt.sigmoid_cross_entropy(z, positive_weights=[1, 2]),
                 mt.sigmoid_cross_entropy(z, positive_weights=32),
                 mt.huber_error(z, delta=0, largest=1.0),
                 mt.distilled_cross_entropy(z, temperature=0.5)):
        with pytest.raises(mt.InvalidInput):
            mt.Network(z, loss=loss)


def test_a_trainer_takes_a_loss_or_a_task():
    x, scores = rows()
    targets = {"classes": scores.argmax(1), "labels": (scores > 0), "numbers": scores / 4,
               "ordinal": (scores[:, 0] > -1).astype(int) + (scores[:, 0] > 1)}
    for task, y in targets.items():
        outputs = 2 if task == "ordinal" else 3
        net = mt.Network(mt.linear(mt.relu(mt.linear(mt.numbers(6, largest=8.0), 32)), outputs))
        trainer = mt.Trainer(net, task=task, batch_size=64, learning_rate=0.05, seed=1)
        y = y.astype(np.float32 if task == "numbers" else np.int32)
        history = trainer.fit(mt.Data(x, y), epochs=10, progress=False)
        assert history[-1].loss < 0.8 * history[0].loss, task
    net = mt.Network(mt.linear(mt.numbers(6, largest=8.0), 1), name="one")
    trainer = mt.Trainer(net, task="binary", batch_size=64)
    assert trainer.network.nodes[-1]["op"] == "sigmoid_cross_entropy"
    trainer = mt.Trainer(net, loss=lambda z: mt.huber_error(z, largest=2), batch_size=64)
    assert trainer.network.nodes[-1]["attributes"] == {"penalty": "huber"}
    with pytest.raises(mt.InvalidInput, match="either"):
        mt.Trainer(net, loss=mt.soft_cross_entropy, task="binary")
    with pytest.raises(mt.InvalidInput, match="none of classes"):
        mt.Trainer(net, task="segmentation")
    with pytest.raises(mt.InvalidInput, match="layer by layer"):
        mt.Trainer(mt.Network.from_json(net.to_json()), task="binary")
