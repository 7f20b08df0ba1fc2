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


@pytest.mark.parametrize("format", ["bfp8", "fp32"])
def test_losses_have_factors_in_their_sum(format):
    x, scores = rows()
    kinds, ages = scores.argmax(1).astype(np.int32), scores[:, :1] / 4
    h = mt.relu(mt.linear(mt.numbers(6, largest=8.0), 32))
    kind, age = mt.linear(h, 3), mt.linear(h, 1)

    def first_step(*factors):
        losses = (mt.cross_entropy(kind, "kind"), mt.squared_error(age, "age", largest=4.0))
        net = mt.Network(kind, age, loss=[f * loss for f, loss in zip(factors, losses)])
        assert mt.Network.from_json(net.to_json()) == net
        trainer = mt.Trainer(net, batch_size=512, seed=1, format=format)
        report = trainer.step(x, kinds, ages, learning_rate=0.05)
        (kind_loss, _), (age_loss, _) = report.losses
        assert report.loss == pytest.approx(factors[0] * kind_loss + factors[1] * age_loss, rel=1e-6)
        found = trainer.freeze((x,)).evaluate(mt.Data(numbers=x, kind=kinds, age=ages))
        (kind_now, _), (age_now, _) = found.losses
        assert found.loss == pytest.approx(factors[0] * kind_now + factors[1] * age_now, rel=1e-6)
        return net, (kind_loss, age_loss), trainer.state_dict()

    equal, losses, weights = first_step(1, 1)
    assert "attributes" not in equal.nodes[-1]
    halved, same_losses, halved_weights = first_step(1, 0.25)
    assert halved.nodes[-1]["attributes"] == {"loss_weight": 0.25}
    assert same_losses == losses
    # The kinds' own layer moves as before, the ages' own layer less.
    names = [name for name, numbers in weights.items() if len(numbers.shape) == 2]
    assert (weights[names[1]] == halved_weights[names[1]]).all()
    assert (weights[names[2]] != halved_weights[names[2]]).any()
    for loss, text in ((2 * mt.dice(kind, "kind"), "wants logits|takes no weight"),
                       (2 * mt.soft_cross_entropy(kind, "kind"), "takes no weight among several"),
                       (40 * mt.cross_entropy(kind, "kind"), "loss_weight"),
                       (0 * mt.cross_entropy(kind, "kind"), "loss_weight")):
        with pytest.raises(mt.InvalidInput, match=text):
            mt.Network(kind, age, loss=[loss, mt.squared_error(age, "age", largest=4.0)])
    with pytest.raises(mt.InvalidInput, match="its one loss has a loss_weight"):
        mt.Trainer(mt.Network(kind, loss=2 * mt.cross_entropy(kind)), batch_size=64)


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
    trainer = mt.Trainer(mt.Network.from_json(net.to_json()), task="binary", batch_size=64)
    assert [node["op"] for node in trainer.network.nodes] == [
        "input", "quantise_input", "linear", "input", "sigmoid_cross_entropy"]


def pixels(count=160):
    """Pictures of one bright square in noise, and a class for each pixel: 0 outside, 1 inside."""
    random = np.random.default_rng(4)
    x = random.integers(0, 90, (count, 12, 12, 1), dtype=np.uint8)
    y = np.zeros((count, 12, 12), np.int32)
    for picture, labels in zip(x, y):
        row, column = random.integers(0, 9, 2)
        picture[row:row + 3, column:column + 3] += 60
        labels[row:row + 3, column:column + 3] = 1
    return x, y


@pytest.mark.parametrize("format", ["bfp8", "fp32"])
@pytest.mark.parametrize("cross_entropy", [0.0, 1.0])
def test_dice_learns_small_parts_of_pictures(format, cross_entropy):
    x, y = pixels()
    h = mt.relu(mt.conv(mt.relu(mt.conv(mt.input(12, 12, 1), 12, 5, bias=True)), 12, 3, bias=True))
    z = mt.conv(h, 2, 1, bias=True)
    net = mt.Network(z, loss=mt.dice(z, cross_entropy=cross_entropy))
    trainer = mt.Trainer(net, batch_size=16, learning_rate=0.02, seed=1, format=format)
    history = trainer.fit((x, y), epochs=12, progress=False)
    assert history[-1].loss < 0.6 * history[0].loss
    guesses = trainer.freeze((x,)).predict(x).reshape(*y.shape, 2).argmax(-1)
    both, either = (guesses & y).sum(), (guesses | y).sum()
    assert both / either > 0.6
    # The loss of evaluation is the cross-entropy, of pixels.
    score = trainer.freeze((x,)).evaluate((x, y))
    assert score.accuracy == pytest.approx((guesses == y).mean(), abs=1e-9)


@pytest.mark.parametrize("loss", [lambda z: mt.contrastive(z, temperature=0.2),
                                  lambda z: mt.triplet(z, margin=0.5),
                                  lambda z: mt.triplet(z, margin=0.5, mining="semi-hard")])
@pytest.mark.parametrize("format", ["bfp8", "dfp8", "fp32"])
def test_losses_of_vectors_bring_those_of_a_label_together(format, loss):
    x, scores = rows()
    labels = scores.argmax(1) * 1000 - 1 * (np.arange(512) == 3)
    z = mt.linear(mt.relu(mt.linear(mt.numbers(6, largest=8.0), 32)), 8)
    trainer = mt.Trainer(mt.Network(z, loss=loss(z)), batch_size=64, learning_rate=0.05, seed=1, format=format)
    history = trainer.fit(mt.Data(numbers=x, labels=labels.astype(np.int32)), epochs=15,
                          progress=False)
    assert history[-1].loss < 0.9 * history[0].loss and history[-1].accuracy > 0.85
    model = trainer.freeze(mt.Data(numbers=x))
    vectors = model.predict(mt.Data(numbers=x))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    products, same = vectors @ vectors.T, labels[:, None] == labels
    np.fill_diagonal(same, False)
    assert products[same].mean() > products[~same].mean() + 0.5
    with pytest.raises(mt.InvalidInput, match="how they are cut into batches"):
        model.evaluate(mt.Data(numbers=x, labels=labels.astype(np.int32)))


def test_batch_losses_have_the_same_bits_on_any_number_of_threads():
    x, y = pixels(64)
    z = mt.conv(mt.relu(mt.conv(mt.input(12, 12, 1), 4, bias=True)), 2, 1, bias=True)
    vector = mt.linear(z, 6)
    for loss, labels in ((mt.dice(z, cross_entropy=0.5), y), (mt.contrastive(vector), y[:, 5, 5]),
                         (mt.triplet(vector, mining="all"), y[:, 5, 5]),
                         (mt.triplet(vector, mining="semi-hard"), y[:, 5, 5])):
        hashes = set()
        for threads in (1, 3):
            out = z if loss.kind == "dice" else vector
            trainer = mt.Trainer(mt.Network(out, loss=loss), batch_size=16, threads=threads)
            trainer.fit((x, np.ascontiguousarray(labels)), epochs=1, progress=False)
            hashes.add(trainer.weights_sha256)
        assert len(hashes) == 1


def test_micro_batches_change_nothing_of_dice_and_cut_contrast():
    x, y = pixels(16)
    y[3], y[5, :6] = -1, -1  # pictures count by their known pixels
    z = mt.conv(mt.relu(mt.conv(mt.input(12, 12, 1), 4, bias=True)), 2, 1, bias=True)
    vector = mt.linear(z, 6)
    found = {}
    for loss, out, labels in ((mt.dice(z), z, y), (mt.contrastive(vector), vector, np.arange(16) % 4)):
        for micro in (4, 16):
            trainer = mt.Trainer(mt.Network(out, loss=loss), batch_size=16, micro_batch_size=micro,
                                 format="fp32", optimizer="sgd", seed=2)
            report = trainer.step(x, np.ascontiguousarray(labels, np.int32), learning_rate=0.1)
            found[loss.kind, micro] = report.loss, trainer.values("convolution1.weights")
    assert found["dice", 4][0] == pytest.approx(found["dice", 16][0], rel=1e-6)
    assert np.abs(found["dice", 4][1] - found["dice", 16][1]).max() < 1e-6
    # In each micro-batch of four examples no two have a label.
    assert found["contrastive", 4][0] == 0 < found["contrastive", 16][0]


def test_built_in_networks_take_all_losses():
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (60, 28, 28, 1), dtype=np.uint8)
    classes = random.integers(0, 4, 60, dtype=np.int32)
    numbers = random.normal(size=(60, 4)).astype(np.float32)
    shares = np.full((60, 4), 0.25, np.float32)
    forms = {"cross-entropy": ({"label_smoothing": 0.1}, "softmax_cross_entropy", [classes]),
             "mse": ({}, "mean_squared_error", [classes]),
             "sigmoid": ({"by_output": True, "focal": 2.0, "positive_weights": 3.0},
                         "sigmoid_cross_entropy", [(numbers > 0).astype(np.int32)]),
             "ordinal": ({}, "sigmoid_cross_entropy", [classes]),
             "regression": ({}, "regression_error", [numbers]),
             "l1": ({}, "regression_error", [numbers]),
             "huber": ({"huber_delta": 0.5}, "regression_error", [numbers]),
             mt.soft_cross_entropy: ({}, "soft_cross_entropy", [shares]),
             mt.distilled_cross_entropy: ({}, "distilled_cross_entropy", [classes, shares]),
             mt.contrastive: ({}, "contrastive_loss", [classes]),
             mt.triplet: ({}, "triplet_loss", [classes])}
    for loss, (options, op, targets) in forms.items():
        net = mt.models.build("mlp", classes=4, loss=loss, **options)
        assert net.nodes[-1]["op"] == op, loss
        report = mt.Trainer(net, batch_size=60).step(x, *targets, learning_rate=0.01)
        assert report.loss > 0, loss
    two = mt.models.build("mlp", classes=2, loss="sigmoid")
    assert two.nodes[-3]["shape"] == [1] or two.nodes[-3]["attributes"]["channels"] == 1
    for options, text in (({"loss": "ctc"}, "ctc_loss"),
                          ({"loss": "contrastive"}, "contrastive_loss"),
                          ({"loss": "triplet"}, "triplet_loss"),
                          ({"loss": "hinge"}, "unknown loss 'hinge'"),
                          ({"loss": "mse", "focal": 1.0}, "focal goes with"),
                          ({"loss": "huber", "positive_weights": 2.0}, "positive_weights goes with"),
                          ({"loss": "l1", "huber_delta": 2.0}, "huber_delta goes with"),
                          ({"loss": "sigmoid", "positive_weights": 40.0}, "from 0 to 31"),
                          ({"loss": "dice"}, "wants logits")):
        with pytest.raises(mt.InvalidInput, match=text):
            mt.models.build("mlp", **options)


def test_a_network_keeps_its_weights_with_another_loss(tmp_path):
    x, y = pixels(32)
    z = mt.conv(mt.relu(mt.conv(mt.input(12, 12, 1), 4, bias=True)), 2, 1, bias=True)
    trainer = mt.Trainer(mt.Network(z), batch_size=16, seed=9)
    trainer.fit((x, y), epochs=1, progress=False)
    trainer.freeze((x,)).save(tmp_path / "model.safetensors")
    net = mt.Network.from_trained(tmp_path / "model.safetensors")
    again = mt.Trainer(net, loss=lambda z: mt.dice(z, smooth=2.0), batch_size=16, seed=10)
    for name, numbers in trainer.state_dict().items():
        assert (again.state_dict()[name] == numbers).all()
    assert again.network.nodes[-1]["attributes"] == {"smooth": 2}
    assert [one.name for one in again.network.inputs] == ["pixels", "labels"]
