"""Losses of sigmoids: one logit, and labels that exclude no other."""

import numpy as np
import pytest

import mantissa as mt


def points(count=400, seed=3):
    x = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    return x, np.stack([x[:, 0] > 0, x[:, 1] + x[:, 2] > 0, x[:, 3] > 1], axis=1).astype(np.int32)


def hidden():
    return mt.relu(mt.linear(mt.numbers(4, largest=8, name="x"), 16))


def trained(net, **arrays):
    trainer = mt.Trainer(net, batch_size=20, learning_rate=0.1, seed=1)
    trainer.fit(mt.Data(**arrays), epochs=10)
    return trainer


def test_a_sigmoid_at_the_end_belongs_to_the_loss():
    net = mt.Network(mt.sigmoid(mt.linear(hidden(), 3)))
    ops = [node["op"] for node in net.nodes]
    assert "sigmoid" not in ops and ops[-1] == "sigmoid_cross_entropy"
    assert net.inputs[-1].shape == (3,)
    assert mt.Network.from_json(net.to_json()) == net


def test_one_logit_and_several_labels_learn():
    x, labels = points()
    one = mt.Network(mt.sigmoid(mt.linear(hidden(), 1)))
    assert one.inputs[-1].shape == ()
    first = labels[:, 0].copy()
    trainer = trained(one, x=x, labels=first)
    assert trainer.freeze((x,)).evaluate(mt.Data(x=x, labels=first)).accuracy > 0.95
    guesses = trainer.freeze((x,)).predict(x)[:, 0] > 0
    assert (guesses == first).mean() > 0.95
    trainer = trained(mt.Network(mt.sigmoid(mt.linear(hidden(), 3))), x=x, labels=labels)
    guesses = trainer.freeze((x,)).predict(x) > 0
    assert (guesses == labels).mean() > 0.93
    # An example counts as correct if all its labels are.
    right = (guesses == labels).all(axis=1).mean()
    assert abs(trainer.freeze((x,)).evaluate(mt.Data(x=x, labels=labels)).accuracy - right) < 0.1


def test_unknown_labels_count_nothing():
    x, labels = points()
    other = labels.copy()
    other[::2, 1] = -1
    net = mt.Network(mt.sigmoid(mt.linear(hidden(), 3)))
    trainer = trained(net, x=x, labels=other)
    assert ((trainer.freeze((x,)).predict(x) > 0) == labels).mean() > 0.93


def test_labels_of_other_numbers_are_refused():
    x, labels = points(40)
    with pytest.raises(mt.InvalidInput, match="label 2: each output is 0 or 1"):
        trained(mt.Network(mt.sigmoid(mt.linear(hidden(), 3))), x=x, labels=labels * 2)
    with pytest.raises(mt.InvalidInput, match="label 2: each output is 0 or 1"):
        trained(mt.Network(mt.sigmoid(mt.linear(hidden(), 1))), x=x, labels=labels[:, 0] * 2)


def test_one_label_names_the_only_output_that_is_1():
    logits = mt.linear(hidden(), 3)
    net = mt.Network(logits, loss=mt.sigmoid_cross_entropy(logits, one_label=True))
    assert net.inputs[-1].shape == ()
    x, labels = points()
    trainer = trained(net, x=x, labels=labels[:, 0] + labels[:, 1])
    assert (trainer.freeze((x,)).predict(x).argmax(axis=1) == labels[:, :2].sum(axis=1)).mean() > 0.8
