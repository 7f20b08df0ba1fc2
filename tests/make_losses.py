#!/usr/bin/env python3
"""Writes tests/operators/pytorch_losses.inc: losses and gradients of PyTorch, summed over the rows.

  python3 tests/make_losses.py > tests/operators/pytorch_losses.inc
"""

import torch
import torch.nn.functional as F

LOGITS = [[1.5, -2.25, 0.5], [-0.75, 3.0, 4.125], [0.0, -6.5, 2.0]]
BITS = [[1, 0, 1], [0, 0, 1], [1, 1, 0]]
LABELS = [2, 0, 1]
TARGETS = [[1.0, -2.0, 3.5], [-0.5, 3.0, 1.125], [0.25, -4.5, 0.0]]
SHARES = [[0.25, 0.25, 0.5], [0.0, 1.0, 0.0], [0.625, 0.125, 0.25]]


def sigmoids(z, smoothing=0.0, gamma=0.0, weights=(1.0, 1.0, 1.0)):
    t = torch.tensor(BITS, dtype=z.dtype)
    one = -F.logsigmoid(z) * torch.sigmoid(-z) ** gamma * torch.tensor(weights, dtype=z.dtype)
    zero = -F.logsigmoid(-z) * torch.sigmoid(z) ** gamma
    t = t * (1 - smoothing) + smoothing / 2
    return (t * one + (1 - t) * zero).sum()


def focal_of_torchvision(z, gamma):
    """torchvision.ops.sigmoid_focal_loss without alpha."""
    t = torch.tensor(BITS, dtype=z.dtype)
    p = torch.sigmoid(z)
    p_t = p * t + (1 - p) * (1 - t)
    return (F.binary_cross_entropy_with_logits(z, t, reduction="none") * (1 - p_t) ** gamma).sum()


def weighed(z, weights):
    return F.binary_cross_entropy_with_logits(
        z, torch.tensor(BITS, dtype=z.dtype), reduction="sum",
        pos_weight=torch.tensor(weights, dtype=z.dtype))


def distilled(z, temperature, teacher):
    shares = torch.tensor(SHARES, dtype=z.dtype)
    soft = -(shares * F.log_softmax(z / temperature, 1)).sum()
    return ((1 - teacher) * F.cross_entropy(z, torch.tensor(LABELS), reduction="sum") +
            teacher * temperature ** 2 * soft)


def numbers(function):
    return lambda z: function(z, torch.tensor(TARGETS, dtype=z.dtype), reduction="none").mean(1).sum()


ROWS = [
    ("kSigmoidCrossEntropy", '{{"focal", 2.0}}', lambda z: focal_of_torchvision(z, 2.0)),
    ("kSigmoidCrossEntropy", '{{"focal", 0.75}}', lambda z: focal_of_torchvision(z, 0.75)),
    ("kSigmoidCrossEntropy", '{{"positive_weights", WholeList{2048, 512, 1024}}}',
     lambda z: weighed(z, (2.0, 0.5, 1.0))),
    ("kSigmoidCrossEntropy", '{{"smoothing", 0.125}}', lambda z: sigmoids(z, 0.125)),
    ("kSigmoidCrossEntropy",
     '{{"smoothing", 0.25}, {"focal", 1.5}, {"positive_weights", WholeList{3072}}}',
     lambda z: sigmoids(z, 0.25, 1.5, (3.0, 3.0, 3.0))),
    ("kRegressionError", "{}", numbers(F.mse_loss)),
    ("kRegressionError", '{{"penalty", "absolute"}}', numbers(F.l1_loss)),
    ("kRegressionError", '{{"penalty", "huber"}}', numbers(F.huber_loss)),
    ("kRegressionError", '{{"penalty", "huber"}, {"delta", 0.5}}',
     numbers(lambda *a, **k: F.huber_loss(*a, delta=0.5, **k))),
    ("kSoftCrossEntropy", "{}",
     lambda z: F.cross_entropy(z, torch.tensor(SHARES, dtype=z.dtype), reduction="sum")),
    ("kDistilledCrossEntropy", '{{"temperature", 4.0}, {"teacher_weight", 0.75}}',
     lambda z: distilled(z, 4.0, 0.75)),
]


def list_of(values, digits=9):
    return "{" + ", ".join(f"{float(value):.{digits}g}" for row in values for value in row) + "}"


print(f"// Written by tests/make_losses.py with PyTorch {torch.__version__.split('+')[0]}.")
print("// clang-format off")
for op, attributes, loss in ROWS:
    z = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    value = loss(z)
    value.backward()
    print(f"PYTORCH_LOSS({op}, ({attributes}), {value.item():.9g},\n"
          f"             ({list_of(z.grad.tolist())}))")
print("// clang-format on")
