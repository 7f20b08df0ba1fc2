"""What arrays mean: whole numbers are numbers, mantissas have a name, nothing is dropped unsaid."""

import warnings

import numpy as np
import pytest

import mantissa as mt

LARGEST = 128


def regression():
    result = mt.linear(mt.relu(mt.linear(mt.numbers(4, largest=LARGEST, name="x"), 16)), 1)
    return mt.Network(result, loss=mt.squared_error(result, "y", largest=LARGEST))


def trained(x, y, **options):
    trainer = mt.Trainer(regression(), batch_size=20, optimizer="adam", learning_rate=0.01, seed=1)
    trainer.fit({"x": x, "y": y}, epochs=3, progress=False)
    return trainer.weights_sha256


@pytest.fixture(scope="module")
def whole():
    rng = np.random.default_rng(1)
    x = rng.integers(-100, 101, (200, 4))
    return x, (x[:, :1] - x[:, 1:2]) // 2


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, ">i2", ">i4", "<i8",
                                  np.float16, np.float32, ">f8", object])
def test_whole_numbers_are_numbers(whole, kind):
    x, y = whole
    expected = trained(x.astype(np.float64), y.astype(np.float64))
    if kind is object:
        with pytest.raises(mt.InvalidInput, match="'x'.*object"):
            trained(x.astype(kind), y)
        return
    assert trained(x.astype(kind), y.astype(kind)) == expected
    assert trained(x.tolist(), y.astype(kind)) == expected


def test_positive_numbers_of_any_type(whole):
    x, y = abs(whole[0]), abs(whole[1])
    expected = trained(x.astype(float), y.astype(float))
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        assert trained(x.astype(kind), y.astype(kind)) == expected
    bits = x % 2 == 1
    assert trained(bits, y) == trained(bits.astype(float), y)


def test_steps_take_the_same_numbers(whole):
    x, y = whole[0] // 20, whole[1] // 20
    hashes = set()
    for cast in (np.float64, np.int16, np.int64, ">i2", ">f4", np.int8):
        trainer = mt.Trainer(regression(), batch_size=200)
        trainer.step(x.astype(cast), y.astype(cast), learning_rate=1e-4)
        trainer.observed_step(x.astype(cast), y.astype(cast), learning_rate=1e-4)
        hashes.add(trainer.weights_sha256)
    assert len(hashes) == 1


def test_numbers_that_do_not_fit_are_named(whole):
    x, y = whole
    for kind in (np.int16, np.int32, np.int64, np.uint16):
        with pytest.raises(mt.InvalidInput, match="'x': 300 at 0"):
            trained(np.where(np.arange(800).reshape(200, 4) == 0, 300, 1).astype(kind), y)
    with pytest.raises(mt.InvalidInput, match="'x'.*18446744073709551615"):
        trained(np.full((200, 4), 2**64 - 1, np.uint64), y)


def test_mantissas_have_a_name_of_their_own(whole):
    x, y = whole[0] // 20, whole[1] // 20
    exponent = regression().inputs[0].exponent
    mantissas = mt.mantissas((x * 2.0**-exponent).astype(np.int16))
    assert trained(mantissas, y) == trained(x, y)
    halves = mt.Data(x=mantissas, y=y)
    both = np.concatenate([np.arange(100), np.arange(100, 200)])
    trainer, other = (mt.Trainer(regression(), batch_size=200, learning_rate=1e-4) for _ in range(2))
    trainer.fit(halves[both], epochs=1, progress=False)
    other.fit({"x": x, "y": y}, epochs=1, progress=False)
    assert trainer.weights_sha256 == other.weights_sha256
    # Parts, copies and what they are put together to are mantissas.
    rows = mt.Data.from_iterable(list(zip(mantissas, y)))
    for same in (np.concatenate([mantissas[:50], mantissas[50:]]), np.vstack(list(mantissas)),
                 np.stack(list(mantissas)), mantissas.copy(), mantissas[np.arange(200)],
                 rows.arrays["0"]):
        assert trained(same, y) == trained(x, y)
    with pytest.raises(mt.InvalidInput, match="cannot be put into one array"):
        np.concatenate([mantissas, x])
    # Results of arithmetic on mantissas are numbers again.
    assert trained(mantissas * 2.0**exponent, y) == trained(x, y)
    for wrong in ([0.5], [40000], [-32768], np.array([2**40])):
        with pytest.raises(mt.InvalidInput, match="-32767 to 32767"):
            mt.mantissas(wrong)
    with pytest.raises(mt.InvalidInput, match="'x'.*mantissas are int16"):
        trained(mantissas.astype(np.float32), y)


def test_weights_of_a_loss_are_numbers(whole):
    logits = mt.linear(mt.numbers(4, largest=LARGEST, name="x"), 2)
    net = mt.Network(logits, loss=mt.cross_entropy(logits, "y", weights="w"))

    def of(weights):
        trainer = mt.Trainer(net, batch_size=20, seed=1)
        trainer.fit({"x": whole[0], "y": whole[0][:, 0] > 0, "w": weights}, epochs=1,
                    progress=False)
        return trainer.weights_sha256
    weights = 1 + np.arange(200) % 5
    assert of(weights) == of(weights.astype(np.int16)) == of(weights.astype(float))


def test_masks_are_not_lost(whole, network, digits):
    x, y = whole
    masked = np.ma.masked_array(x, mask=x > 90)
    with pytest.raises(mt.InvalidInput, match="'x' is a masked array"):
        trained(masked, y)
    with pytest.raises(mt.InvalidInput, match="masked"):
        mt.Trainer(regression(), batch_size=200).step(masked, y, learning_rate=0.1)
    assert trained(np.ma.masked_array(x), y) == trained(x, y)
    labels = np.ma.masked_equal(digits[1], 3)
    trainer = mt.Trainer(network, batch_size=40)
    with pytest.raises(mt.InvalidInput, match="masked"):
        trainer.fit((digits[0], labels), progress=False)
    with pytest.raises(mt.InvalidInput, match="masked"):
        next(iter(mt.Data.from_iterable([(digits[0][0], labels[labels.mask][0])]).batches(1)))


def binary():
    logits = mt.linear(mt.numbers(2, largest=4, name="x"), 2)
    return mt.Network(logits, loss=mt.cross_entropy(logits, "y"))


@pytest.fixture(scope="module")
def signs():
    x = np.random.default_rng(2).normal(size=(200, 2)).clip(-3.9, 3.9)
    return x, np.where(x[:, 0] > 0, 1, -1)


def test_labels_of_minus_one_and_one_are_refused(signs):
    x, y = signs
    trainer = mt.Trainer(binary(), batch_size=20)
    with pytest.raises(mt.InvalidInput, match="'y' has -1 and 1 alone.*no label"):
        trainer.fit({"x": x, "y": y}, progress=False)
    with pytest.raises(mt.InvalidInput, match="-1 everywhere"):
        trainer.fit({"x": x, "y": np.full(200, -1)}, progress=False)
    model = trainer.freeze({"x": x})
    with pytest.raises(mt.InvalidInput, match="'y' has -1 and 1 alone"):
        model.evaluate({"x": x, "y": y})
    with pytest.warns(UserWarning, match="'y' has -1 and 1 alone"):
        trainer.step(x[:20], y[:20], learning_rate=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.fit({"x": x, "y": (y > 0)}, progress=False)
        trainer.step(x[:20], y[:20] > 0, learning_rate=0.1)
        assert model.evaluate({"x": x, "y": y > 0}).uncounted == 0


def test_labels_that_do_not_count_are_counted(signs, capsys):
    x, y = signs
    some = np.where(np.arange(200) % 4 == 0, -1, y > 0)
    trainer = mt.Trainer(binary(), batch_size=20)
    with pytest.warns(UserWarning, match="50 of 200 labels in 'y' are -1"):
        history = trainer.fit({"x": x, "y": some})
    assert history[-1].uncounted == 50 and "50 labels do not count" in capsys.readouterr().err
    report = trainer.freeze({"x": x}).evaluate({"x": x, "y": some})
    assert report.uncounted == 50 and "50 labels do not count" in repr(report)


def test_labels_beyond_the_whole_numbers_are_refused(signs):
    x, y = signs
    labels = (y > 0).astype(np.uint64)
    labels[3] = 2**64 - 1
    for refused in (labels, labels.astype(float), y / 2, (y > 0).astype(complex)):
        with pytest.raises(mt.InvalidInput, match="'y'"):
            mt.Trainer(binary(), batch_size=20).fit({"x": x, "y": refused}, progress=False)
    with pytest.raises(mt.InvalidInput, match="18446744073709551615"):
        mt.class_weights(labels)


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -float("inf"), -1, 1e-320, 1e-40, 1e300,
                                  1001, None, "0.1", 1j, [0.1]])
def test_learning_rates_that_are_none(signs, rate):
    x, y = signs
    trainer = mt.Trainer(binary(), batch_size=20)
    before = trainer.weights_sha256
    for step in (trainer.step, trainer.observed_step):
        with pytest.raises(mt.InvalidInput, match="learning_rate"):
            step(x[:20], y[:20] > 0, learning_rate=rate)
    assert trainer.weights_sha256 == before and trainer.steps_done == 0


def test_learning_rates_that_are_some(signs):
    x, y = signs
    trainer = mt.Trainer(binary(), batch_size=20)
    before = trainer.weights_sha256
    trainer.step(x[:20], y[:20] > 0, learning_rate=0)
    assert trainer.weights_sha256 == before
    for rate in (np.float32(0.1), np.float64(0.1), 1, np.int64(1), 1000.0, 1e-30):
        trainer.step(x[:20], y[:20] > 0, learning_rate=rate)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("setting", [
    {"batch_size": 0}, {"batch_size": -3}, {"batch_size": 2.5}, {"batch_size": 2**40},
    {"seed": -1}, {"seed": 1.5}, {"seed": 2**70}, {"momentum": NAN}, {"momentum": -0.1},
    {"momentum": 1}, {"weight_decay": NAN}, {"weight_decay": -1}, {"weight_decay": INF},
    {"learning_rate": NAN}, {"learning_rate": INF}, {"learning_rate": -1}, {"learning_rate": 1e-320},
    {"learning_rate": 1e-39}, {"learning_rate": "fast"}, {"clip_norm": NAN}, {"clip_norm": -1},
    {"threads": -1}, {"threads": 1.5}, {"warmup": NAN}, {"warmup": 2},
    {"optimizer": "adam", "beta1": 1}, {"optimizer": "adam", "beta2": NAN},
    {"optimizer": "adam", "epsilon": NAN}, {"memory": -1}, {"memory": 1.5}, {"memory": NAN}])
def test_settings_that_are_no_numbers_of_theirs(setting):
    with pytest.raises(mt.InvalidInput, match=[*setting][-1].split("_")[0]):
        mt.Trainer(binary(), **setting)


@pytest.mark.parametrize("call", [
    lambda: mt.numbers(3, largest=NAN), lambda: mt.numbers(3, largest=INF),
    lambda: mt.numbers(3, largest=-1), lambda: mt.numbers(3, largest=0),
    lambda: mt.numbers(3, exponent=2**40), lambda: mt.numbers(0, largest=1),
    lambda: mt.numbers(-3, largest=1), lambda: mt.input(8, 8, 1, means=[300]),
    lambda: mt.input(8, 8, 1, means=[-1]), lambda: mt.input(0, 8, 1),
    lambda: mt.dropout(mt.numbers(3, largest=1), NAN),
    lambda: mt.dropout(mt.numbers(3, largest=1), -0.1),
    lambda: mt.layer_norm(mt.numbers(3, largest=1), epsilon=NAN),
    lambda: mt.linear(mt.numbers(3, largest=1), -1),
    lambda: mt.models.mlp(width=NAN), lambda: mt.models.mlp(width=-1),
    lambda: mt.models.mlp(label_smoothing=NAN), lambda: mt.models.mlp(classes=-1),
    lambda: mt.EarlyStop(0), lambda: mt.EarlyStop(NAN), lambda: mt.EarlyStop(-1),
    lambda: mt.Checkpoint("a", 0), lambda: mt.Data(np.zeros(9)).split(NAN),
    lambda: mt.Data(np.zeros(9)).split(2), lambda: mt.Data(np.zeros(9)).split(-0.5),
    lambda: mt.Data(np.zeros(9)).batches(0), lambda: mt.Data(np.zeros(9)).batches(-1),
    lambda: mt.class_weights([0, 1], {0: NAN, 1: 1}), lambda: mt.class_weights([0, 1], {0: -1, 1: 1}),
    lambda: mt.Trainer(binary(), batch_size=2).fit({"x": np.zeros((4, 2)), "y": [0, 1, 0, 1]}, epochs=1.5),
    lambda: mt.Trainer(binary(), batch_size=2).fit({"x": np.zeros((4, 2)), "y": [0, 1, 0, 1]}, epochs=-1),
    lambda: mt.Trainer(binary(), batch_size=2).fit({"x": np.zeros((4, 2)), "y": [0, 1, 0, 1]}, steps=NAN)])
def test_other_numbers_are_checked(call):
    with pytest.raises(mt.InvalidInput):
        call()


def test_sparse_ragged_and_other_things_are_named():
    class Sparse:
        def toarray(self):
            return np.zeros((2, 2))
    for wrong, words in ((Sparse(), "toarray"), ([[1], [1, 2]], "no array"), (None, "no numbers")):
        with pytest.raises(mt.InvalidInput, match=f"'x'.*{words}"):
            mt.Data(x=wrong)


def test_frames_name_their_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.array([1, 2, 3], "Int64"), "b": [True, False, True],
                              "c": pandas.array([0.5, 1.5, 2.5], "Float64")})
    array = mt.Data(x=frame).arrays["x"]
    assert array.dtype == np.float64 and array.tolist() == [[1, 1, 0.5], [2, 0, 1.5], [3, 1, 2.5]]
    assert mt.Data(y=frame["a"]).arrays["y"].dtype == np.int64
    for values, words in ((pandas.array([1, None, 3], "Int64"), "column 'c' has 1 missing"),
                          ([1.0, np.nan, np.nan], "column 'c' has 2 missing"),
                          (["u", "v", "w"], "column 'c' has elements of"),
                          (pandas.Categorical(["u", "v", "w"]), "column 'c' has elements of cat"),
                          (pandas.to_datetime(["2020-01-01"] * 3), "column 'c' has elements of date"),
                          (np.array([1j, 2, 3]), "column 'c' has elements of complex")):
        with pytest.raises(mt.InvalidInput, match=f"'x': {words}"):
            mt.Data(x=frame.assign(c=values))
    with pytest.raises(mt.InvalidInput, match="'y' has 1 missing"):
        mt.Data(y=pandas.Series(pandas.array([1, None], "Int64")))
    arrow = pytest.importorskip("pyarrow")
    with_arrow = frame.astype({"a": "int32[pyarrow]", "b": "bool[pyarrow]", "c": "double[pyarrow]"})
    assert (mt.Data(x=with_arrow).arrays["x"] == array).all()
    table = arrow.table({"a": [1, 2, 3], "c": [0.5, 1.5, 2.5]})
    assert (mt.Data(x=table).arrays["x"] == array[:, [0, 2]]).all()
    for kind, values in (("string[pyarrow]", ["u", "v", "w"]), ("int64[pyarrow]", [1, None, 3])):
        with pytest.raises(mt.InvalidInput, match="column 'c' has"):
            mt.Data(x=frame.assign(c=pandas.Series(values, dtype=kind)))
    with pytest.raises(mt.InvalidInput, match="column 'c' has 1 missing"):
        mt.Data(x=arrow.table({"a": [1, 2, 3], "c": [0.5, None, 2.5]}))
