import tracemalloc

import numpy as np
import pytest

import mantissa as mt


def own_memory():
    """Bytes that belong to no file."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


def test_arrays_are_borrowed(tmp_path):
    """75 MiB, and a file of 400 MiB that is mapped: neither is copied."""
    net = mt.Network(mt.linear(mt.global_average_pool(mt.relu(mt.conv(mt.input(28, 28, 1), 4))), 10))
    trainer = mt.Trainer(net, batch_size=100, learning_rate=0.01, threads=1)
    x = np.random.default_rng(1).integers(0, 255, (100_000, 28, 28, 1), dtype=np.uint8)
    y = np.zeros(100_000, np.int32)
    trainer.fit((x[:1000], y[:1000]), steps=2, progress=False)
    before = own_memory()
    trainer.fit((x, y), steps=20, progress=False)
    assert own_memory() - before <= 2**20  # 0.4 MiB of it the order of the examples
    big = np.memmap(tmp_path / "big", np.uint8, "w+", shape=(500_000, 28, 28, 1))
    labels = np.zeros(500_000, np.int32)
    labels[:] = 1
    before = own_memory()
    trainer.fit((big, labels), steps=3, progress=False)
    assert own_memory() - before <= 3 * 2**20  # 2 MiB of it the order of the examples


def test_what_is_no_contiguous_array_is_refused_or_copied():
    x = np.zeros((10, 8, 8, 1), np.uint8)
    with pytest.raises(mt.InvalidInput, match="copy=True"):
        mt.Data(x[:, ::2], np.zeros(10))
    assert len(mt.Data(x[:, ::2], np.zeros(10), copy=True)) == 10
    with pytest.raises(mt.InvalidInput, match="different numbers"):
        mt.Data(x, np.zeros(9))
    with pytest.raises(mt.InvalidInput, match="no numbers"):
        mt.Data(np.array(["a"]))
    with pytest.raises(mt.InvalidInput, match="no array"):
        mt.Data()


def test_labels_of_any_whole_type(network, digits):
    x, y = digits
    hashes = set()
    for kind in (np.int8, np.uint8, np.uint16, np.int32, np.int64, np.uint64):
        trainer = mt.Trainer(network, batch_size=40, learning_rate=0.05)
        trainer.fit((x, y.astype(kind)), steps=4, progress=False)
        hashes.add(trainer.weights_sha256)
    trainer = mt.Trainer(network, batch_size=40, learning_rate=0.05)
    trainer.fit(mt.Data(x.tolist() and x, y.tolist()), steps=4, progress=False)
    assert len(hashes | {trainer.weights_sha256}) == 1


def test_floats_are_rounded_the_same_way_everywhere():
    x = np.linspace(-3, 3, 64 * 5).reshape(64, 5)
    y = x.sum(axis=1, keepdims=True) / 5
    def run(cast):
        h = mt.relu(mt.linear(mt.numbers(5, largest=4, name="x"), 16))
        out = mt.linear(h, 1)
        net = mt.Network(out, loss=mt.squared_error(out, "y", largest=4))
        trainer = mt.Trainer(net, batch_size=16, optimizer="adam", learning_rate=0.01)
        trainer.fit(mt.Data(x=cast(x), y=cast(y)), epochs=60, progress=False)
        return trainer.weights_sha256, trainer.freeze(mt.Data(x=x)).predict(mt.Data(x=x))
    mantissas = run(lambda a: mt.mantissas(np.rint(a * 2.0**12).astype(np.int16)))
    doubles = run(lambda a: a)
    assert mantissas[0] == doubles[0]
    assert np.abs(doubles[1] - y).mean() < 0.15
    with pytest.raises(mt.InvalidInput, match="is not a number below"):
        run(lambda a: 100 * a)


def test_names_order_slices_and_iterables(digits):
    x, y = digits
    data = mt.Data(pixels=x, labels=y)
    assert len(data[10:30]) == 20 and data[10:30].arrays["labels"][0] == y[10]
    assert np.shares_memory(data[:5].arrays["pixels"], x)
    first, second = data.split(0.25, seed=3)
    assert (len(first), len(second)) == (300, 100)
    batches = list(data.batches(64, seed=2))
    assert len(batches) == 6 and batches[0][0].shape == (64, 8, 8, 1)
    pairs = mt.Data.from_iterable((x[i], y[i]) for i in range(50))
    assert (pairs.arrays["0"] == x[:50]).all() and (pairs.arrays["1"] == y[:50]).all()
    named = mt.Data.from_iterable([{"pixels": x[i], "labels": y[i]} for i in range(5)])
    assert set(named.arrays) == {"pixels", "labels"}


def test_batches_of_a_generator(network, digits):
    x, y = digits
    trainer = mt.Trainer(network, batch_size=40)
    losses = trainer.fit_batches(((x[i:i + 40], y[i:i + 40]) for i in range(0, 400, 40)),
                                 learning_rate=lambda step: 0.05 / (1 + step))
    assert len(losses) == 10 and losses[-1] < losses[0]


def test_dlpack_and_frames(network, digits):
    x, y = digits

    class Tensor:  # as PyTorch's: an object with DLPack that is no ndarray
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()
    data = mt.Data(Tensor(x), Tensor(y))
    assert np.shares_memory(data.arrays["0"], x)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert mt.Data(frame[["a", "b"]], frame["a"]).arrays["0"].shape == (2, 2)


def test_nothing_is_allocated_in_python_by_a_step(trainer, digits):
    x, y = digits
    batch = (x[:40], y[:40])
    trainer.step(*batch, learning_rate=0.01)
    tracemalloc.start()
    first = tracemalloc.take_snapshot()
    for _ in range(50):
        trainer.step(*batch, learning_rate=0.01)
    grown = sum(line.size_diff for line in tracemalloc.take_snapshot().compare_to(first, "lineno"))
    tracemalloc.stop()
    assert grown < 20_000


def test_data_sets_of_the_command_line(idx_folder):
    folder, arrays = idx_folder
    data = mt.Data.load(folder)
    assert (data.train.arrays["pixels"] == arrays["train"][0]).all()
    assert (data.test.arrays["labels"] == arrays["t10k"][1]).all()
    assert data.kind == "IDX files" and data.validation is None and len(data.class_names) == 10
    part = data.train[:50]
    del data  # the arrays keep their memory
    assert (part.arrays["pixels"] == arrays["train"][0][:50]).all()
    net = mt.models.lenet5(part)
    trainer = mt.Trainer(net, batch_size=25, learning_rate=0.01)
    trainer.fit(part, epochs=1, progress=False)
    with pytest.raises(mt.InvalidInput, match="nowhere"):
        mt.Data.load("nowhere")
    assert mt.describe_data(folder)["train_examples"] == 600


def test_tables_of_the_command_line(tmp_path):
    rows = [f"{i},{i % 7},{'yes' if i % 7 > 3 else 'no'}" for i in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,answer", *rows]) + "\n")
    data = mt.Data.load(tmp_path / "t.csv")
    assert data.class_names == ["no", "yes"] and data.train.arrays["numbers"].dtype == np.int16
    h = mt.relu(mt.linear(mt.numbers(2, exponent=data.number_exponent), 16))
    net = mt.Network(mt.linear(h, 2))
    trainer = mt.Trainer(net, optimizer="adam", learning_rate=0.02, batch_size=20)
    history = trainer.fit(data.train, epochs=20, progress=False)
    assert history[-1].accuracy > 0.9


def test_rows_of_a_table_have_weights(tmp_path):
    rows = [f"{i % 7},{i % 5},{2 if i % 7 > 3 else 0.5},{'yes' if i % 7 > 3 else 'no'}" for i in range(200)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,w,answer", *rows]) + "\n")
    data = mt.Data.load(tmp_path / "t.csv", row_weights="w")
    assert data.table["weights"] == "w" and "weights" not in data.test.arrays
    arrays = data.train.arrays
    assert (arrays["weights"] == np.where(arrays["labels"] == 1, 2048, 512)).all()

    def trained(examples):
        result = mt.linear(mt.relu(mt.linear(mt.numbers(2, exponent=data.number_exponent, name="numbers"),
                                             16)), 2)
        net = mt.Network(result, loss=mt.cross_entropy(result, weights="weights"))
        trainer = mt.Trainer(net, batch_size=20, learning_rate=0.05)
        trainer.fit(examples, epochs=2, progress=False)
        return trainer.weights_sha256

    by_class = {**arrays, "weights": mt.class_weights(arrays["labels"], {0: 0.5, 1: 2.0})}
    assert trained(data.train) == trained(by_class)
    assert trained(data.train) != trained({**arrays, "weights": np.ones(len(arrays["labels"]))})
    with pytest.raises(mt.InvalidInput, match="line 2: column 'answer' has 'no'; weights of rows"):
        mt.Data.load(tmp_path / "t.csv", target="a", row_weights="answer")


def test_class_weights():
    labels = np.array([0, 0, 0, 1, -1], np.int32)
    weights = mt.class_weights(labels)
    assert weights == pytest.approx([2 / 3, 2 / 3, 2 / 3, 2, 0])
    assert mt.class_weights(labels, {0: 1, 1: 4})[3] == 4
    rare = mt.class_weights(np.array([0] * 999 + [1]))
    assert rare.max() <= 31 and rare[-1] / rare[0] == pytest.approx(999)
    for bad in ("some", {0: 1}, {0: float("nan"), 1: 1}, {0: 0, 1: 0}):
        with pytest.raises(mt.InvalidInput):
            mt.class_weights(labels, bad)
    with pytest.raises(mt.InvalidInput):
        mt.class_weights(np.array([0.5]))
