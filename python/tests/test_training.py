import json
import pickle
import subprocess

import numpy as np
import pytest

import mantissa as mt


def test_learns_and_predicts(trainer, digits, tmp_path):
    x, y = digits
    history = trainer.fit(mt.Data(x, y), epochs=6, validation=(x[:80], y[:80]), progress=False)
    assert history.column("epoch") == [1, 2, 3, 4, 5, 6]
    assert history[-1].accuracy > 0.95 and history[-1].validation_accuracy > 0.95
    assert history[-1].loss < history[0].loss
    model = trainer.freeze((x,))
    model.save(tmp_path / "corners.safetensors")
    loaded = mt.Model.load(tmp_path / "corners.safetensors")
    logits = loaded.predict(x)
    assert logits.shape == (400, 4) and logits.dtype == np.float64
    assert (logits == model.predict(x)).all()
    assert (logits.argmax(1) == y).mean() == pytest.approx(loaded.evaluate((x, y)).accuracy)
    assert model.weights_sha256 == trainer.weights_sha256
    assert (pickle.loads(pickle.dumps(model)).predict(x[:9]) == logits[:9]).all()
    assert loaded.network == model.network


def test_validation_threads_and_callbacks_change_no_bit(network, digits):
    def run(threads, **options):
        trainer = mt.Trainer(network, batch_size=40, learning_rate=0.05, threads=threads)
        trainer.fit(digits, epochs=2, progress=False, **options)
        return trainer.weights_sha256
    assert len({run(1), run(2), run(3, validation=digits),
                run(2, callbacks=[mt.EarlyStop(5)])}) == 1


def test_step_by_step_is_fit(network, digits):
    x, y = digits
    settings = {"batch_size": 400, "learning_rate": 0.05, "lr_schedule": "constant"}
    whole, single = mt.Trainer(network, **settings), mt.Trainer(network, **settings)
    whole.fit((x, y), epochs=1, progress=False)
    report = single.step(x, y, learning_rate=0.05)
    assert report.examples == 400 and report.losses[0][0] == report.loss
    # A batch is summed exactly, in whatever order.
    assert single.weights_sha256 == whole.weights_sha256


@pytest.mark.parametrize("model,settings", [
    ("resnet8", {"format": "bfp8"}), ("lenet5", {"format": "dfp8", "optimizer": "adam"}),
    ("mlp", {"format": "bfp:g=8,gr=stochastic"})])
def test_the_command_line_ends_with_the_same_weights(program, idx_folder, tmp_path, model, settings):
    folder, arrays = idx_folder
    settings = {**settings, "batch_size": 60, "seed": 5}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    subprocess.run([program, "train", "--model", model, "--data", folder, "--epochs", "2", "--out",
                    tmp_path / "run", "--quiet", *words], check=True)
    expected = json.loads((tmp_path / "run/summary.json").read_text())["weights_sha256"]
    data = mt.Data(*arrays["train"])
    trainer = mt.Trainer(mt.models.build(model, data), **settings,
                         learning_rate=_rate_of(tmp_path / "run"))
    trainer.fit(data, epochs=2, progress=False)
    assert trainer.weights_sha256 == expected
    summary = mt.train(model=model, data=folder, epochs=2, out=tmp_path / "python", **settings)
    assert summary["weights_sha256"] == expected


def _rate_of(run):
    rate = json.loads((run / "summary.json").read_text()).get("learning_rate")
    if rate is not None:
        return rate
    line = next(line for line in (run / "config.toml").read_text().splitlines()
                if line.startswith("learning-rate"))
    return line.split("=")[1].strip().strip('"')


def test_an_interrupted_fit_goes_on_with_the_same_bits(network, digits, tmp_path):
    def make():
        return mt.Trainer(network, batch_size=40, learning_rate=0.05)
    whole = make()
    whole.fit(digits, epochs=4, progress=False)

    class Stop(mt.Callback):
        def on_epoch(self, trainer, epoch):
            if epoch.epoch == 2:
                raise KeyboardInterrupt
    state = tmp_path / "state.safetensors"
    with pytest.raises(KeyboardInterrupt):
        make().fit(digits, epochs=4, progress=False, checkpoint=state, callbacks=[Stop()])
    resumed = make()
    history = resumed.fit(digits, epochs=4, progress=False, checkpoint=state, resume=True)
    assert history.column("epoch") == [3, 4]
    assert resumed.weights_sha256 == whole.weights_sha256
    half = make()
    half.fit(digits, steps=13, progress=False)
    half.save(state)
    resumed = make()
    resumed.load(state)
    assert resumed.steps_done == 13


def test_callbacks(trainer, digits, tmp_path):
    seen = []

    class Watch(mt.Callback):
        def on_begin(self, trainer):
            seen.append("begin")

        def on_step(self, trainer, now):
            assert 1 <= now.step <= now.steps == 30 and now.training.examples > 0

        def on_epoch(self, trainer, epoch):
            seen.append(epoch.epoch)
            return epoch.epoch < 2  # False ends it

        def on_end(self, trainer, history):
            seen.append(len(history))
    trainer.fit(digits, epochs=3, progress=False,
                callbacks=[Watch(), mt.Checkpoint(str(tmp_path / "{epoch}.safetensors"))])
    assert seen == ["begin", 1, 2, 2]
    assert (tmp_path / "1.safetensors").exists() and (tmp_path / "2.safetensors").exists()

    class Fail(mt.Callback):
        def on_epoch(self, trainer, epoch):
            raise ZeroDivisionError("own")
    with pytest.raises(ZeroDivisionError, match="own"):
        trainer.fit(digits, epochs=1, progress=False, callbacks=[Fail()])


def test_parameters_are_readable_and_writable(trainer):
    name = "convolution1.weights"
    mantissas, exponents = trainer.mantissas(name), trainer.exponents(name)
    assert mantissas.shape == (8, 3, 3, 1) and mantissas.dtype == np.int32
    assert np.abs(mantissas).max() <= 127 and exponents.shape == (1,)
    trainer.set_values(name, np.full((8, 3, 3, 1), 0.25))
    assert (trainer.values(name) == 0.25).all()
    with pytest.raises(mt.InvalidInput, match=r"\[8, 3, 3, 1\]"):
        trainer.set_values(name, np.zeros(72))
    with pytest.raises(mt.InvalidInput, match="there are convolution1.weights"):
        trainer.values("nothing")


def test_errors(network, trainer, digits):
    x, y = digits
    with pytest.raises(mt.InvalidInput, match="did you mean 'batch_size'"):
        mt.Trainer(network, bach_size=3)
    with pytest.raises(mt.InvalidInput, match="batch-size 40"):
        trainer.step(x[:30], y[:30], learning_rate=0.1)
    with pytest.raises(mt.InvalidInput, match="pixels, labels"):
        trainer.step(x[:40], learning_rate=0.1)
    with pytest.raises(mt.InvalidInput, match=r"8, 8, 1"):
        trainer.step(np.ascontiguousarray(x[:40, :4]), y[:40], learning_rate=0.1)
    with pytest.raises(mt.InvalidInput, match="contiguous"):
        trainer.step(x[:80:2], y[:40], learning_rate=0.1)
    with pytest.raises(mt.OverBudget, match="over the budget") as error:
        mt.Trainer(network, memory=1000)
    assert isinstance(error.value, MemoryError)
    with pytest.raises(mt.InvalidInput, match="either"):
        trainer.fit(digits, epochs=1, steps=1)
    for nothing in ({"epochs": 0}, {"steps": 0}):
        with pytest.raises(mt.InvalidInput, match="1 or more"):
            trainer.fit(digits, progress=False, **nothing)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(trainer)
    with pytest.raises(mt.Error):
        mt.Model.load("/nowhere.safetensors")


def test_trained_weights_are_taken(network, trainer, digits, tmp_path):
    trainer.fit(digits, epochs=1, progress=False)
    model = trainer.freeze(digits)
    model.save(tmp_path / "m.safetensors")
    again = mt.Trainer(network, batch_size=40)
    taken = again.take(tmp_path / "m.safetensors")
    assert "linear1.weights [4, 16]" in taken.taken
    assert (again.mantissas("linear1.weights") == trainer.mantissas("linear1.weights")).all()
    started = mt.Network.from_trained(tmp_path / "m.safetensors")
    third = mt.Trainer(started.frozen("convolution1*,batch_norm1*"), batch_size=40)
    assert (third.mantissas("linear1.weights") == trainer.mantissas("linear1.weights")).all()


def test_export_and_import_of_onnx(trainer, digits, tmp_path):
    x, _ = digits
    trainer.fit(digits, epochs=2, progress=False)
    model = trainer.freeze(digits)
    model.export_onnx(tmp_path / "m.onnx")
    assert (mt.Model.load(tmp_path / "m.onnx").predict(x) == model.predict(x)).all()


def test_history_is_shown(trainer, digits):
    history = trainer.fit(digits, epochs=2, progress=False)
    assert "epoch 2/2  loss" in repr(history) and "<table>" in history._repr_html_()
    matplotlib = pytest.importorskip("matplotlib")
    figure = history.plot()
    assert len(figure.axes) == 2 and matplotlib
    assert figure._repr_png_().startswith(b"\x89PNG")  # in a notebook


def test_a_plan_is_text_that_notebooks_show_as_printed(trainer):
    assert "\n" in trainer.plan and repr(trainer.plan) == trainer.plan
    assert trainer.plan._repr_html_().startswith("<pre>")


def test_progress_is_a_line_for_each_epoch(trainer, digits, capsys):
    trainer.fit(digits, epochs=3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and lines[2].startswith("epoch 3/3  loss")


def test_an_observed_step_is_a_step(network, digits):
    x, y = digits
    plain, seen = (mt.Trainer(network, batch_size=40) for _ in range(2))
    plain.step(x[:40], y[:40], learning_rate=0.05)
    tensors = seen.observed_step(x[:40], y[:40], learning_rate=0.05)
    assert seen.weights_sha256 == plain.weights_sha256
    weights = next(t for t in tensors if (t.name, t.kind) == ("linear1.weights", "parameter"))
    mantissas = np.abs(seen.mantissas("linear1.weights"))
    assert weights.exponent == seen.exponents("linear1.weights")[0] and weights.bits == 7
    assert weights.lengths[0] == (mantissas == 0).sum() and sum(weights.lengths) == 64
    assert {t.kind for t in tensors} == {"value", "gradient", "parameter", "parameter gradient"}


def weighted_network() -> mt.Network:
    logits = mt.linear(mt.numbers(2, largest=4, name="x"), 2)
    return mt.Network(logits, loss=mt.cross_entropy(logits, "y", weights="w"))


def trained_sha(x, y, w) -> str:
    trainer = mt.Trainer(weighted_network(), batch_size=16, seed=1)
    trainer.fit(mt.Data(x=x, y=y, w=w), epochs=3, progress=False)
    return trainer.weights_sha256


def test_weights_of_the_loss():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(64, 2)).clip(-3.9, 3.9)
    y = (x[:, 0] > 1).astype(np.int32)
    even = np.ones(64)
    heavy = np.where(y == 1, 8.0, 0.5)
    assert trained_sha(x, y, even) == trained_sha(x, y, 4 * even)  # ratios alone matter
    assert trained_sha(x, y, even) != trained_sha(x, y, heavy)
    # A label that is ignored and a weight of 0 are the same, whatever the label was.
    hidden, zero = y.copy(), even.copy()
    hidden[::3], zero[::3] = -1, 0
    other = y.copy()
    other[::3] = 1 - other[::3]
    assert trained_sha(x, hidden, even) == trained_sha(x, y, zero) == trained_sha(x, other, zero)
    with pytest.raises(mt.InvalidInput, match="weight"):
        trained_sha(x, y, -even)
    with pytest.raises(mt.InvalidInput, match="-1 is for those to be ignored"):
        trained_sha(x, y - 2, even)


def test_a_rare_class_is_found_with_weights():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(2000, 2)).clip(-3.9, 3.9)
    y = (x[:, 0] + generator.normal(size=2000) > 2.2).astype(np.int32)

    def found(w) -> float:
        trainer = mt.Trainer(weighted_network(), batch_size=50, seed=1)
        trainer.fit(mt.Data(x=x, y=y, w=w), epochs=5, progress=False)
        predicted = trainer.freeze(mt.Data(x=x, y=y)).predict({"x": x}).argmax(1)
        return float((predicted[y == 1] == 1).mean())

    assert found(mt.class_weights(y)) > found(np.ones(2000)) + 0.3


class Losses(mt.Callback):
    """Gives epochs validation losses of its own, and keeps the weights that they had."""

    def __init__(self, losses):
        self.losses, self.weights = losses, []

    def on_epoch(self, trainer, epoch):
        object.__setattr__(epoch, "validation_loss", self.losses[epoch.epoch - 1])
        self.weights.append(trainer.weights_sha256)


@pytest.mark.parametrize("losses,kept,epochs", [
    ([3, 2, 1, 4, 5, 6, 7], 3, 5), ([3, 1, 2], 2, 3), ([3, 2, 1], 3, 3),
    ([1, float("nan"), float("nan")], 1, 3), ([float("nan")] * 3, None, 2)])
def test_early_stop_keeps_the_best(trainer, digits, tmp_path, losses, kept, epochs):
    watch = Losses(losses)
    history = trainer.fit(digits, epochs=len(losses), progress=False,
                          callbacks=[watch, mt.EarlyStop(2)], checkpoint=tmp_path / "last")
    assert history.kept == kept and len(history) == epochs
    assert trainer.weights_sha256 == watch.weights[(kept or epochs) - 1]
    assert trainer.steps_done == 10 * (kept or epochs)
    last = mt.Trainer(trainer.network, batch_size=40, learning_rate=0.05, seed=1)
    last.load(tmp_path / "last")
    assert last.weights_sha256 == watch.weights[-1]


def test_early_stop_keeps_the_best_where_another_callback_ends_it(trainer, digits):
    class End(mt.Callback):
        def on_epoch(self, trainer, epoch):
            return epoch.epoch < 3
    watch = Losses([1, 2, 3])
    stop = mt.EarlyStop(9)
    history = trainer.fit(digits, epochs=9, progress=False, callbacks=[watch, stop, End()])
    assert history.kept == 1 and trainer.weights_sha256 == watch.weights[0]

    class Fail(mt.Callback):
        def on_epoch(self, trainer, epoch):
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(digits, epochs=2, progress=False, callbacks=[stop, Fail()])
    assert trainer.fit(digits, epochs=1, progress=False, callbacks=[stop]).kept == 1


def test_smaller_batches_are_left_out_and_said(network, digits):
    x, y = digits
    trainer, plain = (mt.Trainer(network, batch_size=40) for _ in range(2))
    batches = [(x[:40], y[:40]), (x[40:50], y[40:50]), (x[50:90], y[50:90])]
    with pytest.warns(UserWarning, match="1 batches .* 10 in all, were left out"):
        losses = trainer.fit_batches(batches, learning_rate=lambda i: 0.01 * (i + 1))
    for i, (a, b) in enumerate((batches[0], batches[2])):
        assert plain.step(a, b, learning_rate=0.01 * (i + 1)).loss == losses[i]
    assert trainer.weights_sha256 == plain.weights_sha256
    with pytest.raises(mt.InvalidInput, match="batch-size 40"):
        trainer.fit_batches([(x[:50], y[:50])], learning_rate=0.01)


def test_nothing_shows_an_address(trainer, network, digits, tmp_path):
    seen = []

    class See(mt.Callback):
        def on_step(self, trainer, now):
            seen.append(now)

        def on_epoch(self, trainer, epoch):
            seen.append(epoch)
    history = trainer.fit(digits, epochs=1, progress=False, callbacks=[See()])
    model = trainer.freeze(digits)
    model.save(tmp_path / "m.safetensors")
    report = model.evaluate(digits)
    assert repr(report).startswith("<400 examples: loss ") and "accuracy" in repr(report)
    image = mt.input(8, 8, 1)
    shown = [*seen, history, model, report, trainer, network, image, mt.Data(*digits),
             trainer.observed_step(*(a[:40] for a in digits), learning_rate=0.1)[0],
             trainer.take(tmp_path / "m.safetensors"), mt.EarlyStop(), mt.Checkpoint("a"), See(),
             mt.ProgressLine(), mt.Sequential(mt.relu), mt.cross_entropy(image), mt.bfp(), mt.fp32,
             model._core, trainer._core, network._core, network.inputs, network.parameters,
             mt._core.TrainedParameters.read(str(tmp_path / "m.safetensors")),
             mt._core.Builder("b"), mt.settings("train")[0], mt.mantissas([1, 2])]
    for one in shown:
        assert " at 0x" not in repr(one) and "object" not in repr(one), repr(one)
