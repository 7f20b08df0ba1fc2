#!/usr/bin/env python3
"""Writes tests/operators/pytorch_losses.inc: losses and gradients of PyTorch, summed over the rows.
With --batch pytorch_batch_losses.inc: losses that look at more than one row.
With --ctc pytorch_ctc.inc: losses of sequences of labels.

  python3 tests/make_losses.py > tests/operators/pytorch_losses.inc
  python3 tests/make_losses.py --batch > tests/operators/pytorch_batch_losses.inc
  python3 tests/make_losses.py --ctc > tests/operators/pytorch_ctc.inc
"""

import sys

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


def dice(z, smooth, factor):
    """Soft Dice of two examples of two places, and cross-entropy, for each place."""
    labels = torch.tensor([[0, 2], [2, 1]])
    p, t = torch.softmax(z, 1).reshape(2, 2, 3), F.one_hot(labels, 3).to(z.dtype)
    quotients = (2 * (p * t).sum(1) + smooth) / (p.sum(1) + t.sum(1) + smooth)
    return (2 * (1 - quotients.mean(1))).sum() + factor * F.cross_entropy(z, labels.flatten(),
                                                                         reduction="sum")


def contrastive(z, temperature):
    """Supervised contrast as in Khosla's own code, L_out, with the base temperature 1."""
    labels = torch.tensor([0, 1, 1, 0])
    u = F.normalize(z, dim=1)
    products = u @ u.T / temperature
    others = 1 - torch.eye(4, dtype=z.dtype)
    friends = (labels[:, None] == labels).to(z.dtype) * others
    log = products - (products.exp() * others).sum(1, keepdim=True).log()
    return -((friends * log).sum(1) / friends.sum(1)).sum()


def semi_hard(u, labels, a, margin):
    """The mean over the examples p with the label of a, as TensorFlow Addons' triplet_semihard_loss
    takes the other label's example: the nearest that is farther than p, or else the farthest."""
    distance = [(u[a] - u[j]).square().sum() for j in range(len(labels))]
    others = sorted((distance[n] for n in range(len(labels)) if labels[n] != labels[a]),
                    key=lambda d: d.item())
    own = [distance[p] for p in range(len(labels)) if p != a and labels[p] == labels[a]]
    return torch.stack([F.relu(d - next((n for n in others if n > d), others[-1]) + margin)
                        for d in own]).mean()


def triplet(z, margin, form):
    """FaceNet's triplets of squared distances, as PyTorch Metric Learning has them: of each anchor
    the hardest one, the mean over all, or the semi-hard ones."""
    labels, u, total = [0, 1, 1, 0], F.normalize(z, dim=1), 0
    for a in range(4):
        if form == 2:
            total = total + semi_hard(u, labels, a, margin)
            continue
        distance = [(u[a] - u[j]).square().sum() for j in range(4)]
        lost = [F.relu(distance[p] - distance[n] + margin)
                for p in range(4) if p != a and labels[p] == labels[a]
                for n in range(4) if labels[n] != labels[a]]
        total = total + (torch.stack(lost).mean() if form == 1 else torch.stack(lost).max())
    return total


# Blank, positions, classes, labels and lengths of examples.
CTC = [(0, 6, 4, [[1, 2, 3], [2, 2, -1], [-1, -1, -1]], []),
       (3, 6, 4, [[0, 1, 2], [1, 1, -1], [2, -1, -1]], [6, 3, 5]),
       (1, 40, 6, [[0, 2, 2, 3, 4, 5, 0, 0, 3, 2, 4, 5]], [37])]


def print_ctc_losses():
    """Logits: ((37 i^2 + 101 i) mod 97 - 48) / 16."""
    print("const std::vector<PyTorchCtc> ctc_losses = {")
    for blank, positions, classes, labels, lengths in CTC:
        count = len(labels) * positions * classes
        z = torch.tensor([((37 * i * i + 101 * i) % 97 - 48) / 16 for i in range(count)],
                         dtype=torch.float64).reshape(len(labels), positions, classes)
        z.requires_grad_()
        targets = [[label for label in row if label >= 0] for row in labels]
        value = F.ctc_loss(
            F.log_softmax(z, 2).transpose(0, 1),
            torch.tensor([label for row in targets for label in row], dtype=torch.long),
            torch.tensor(lengths or [positions] * len(labels)),
            torch.tensor([len(row) for row in targets]), blank=blank, reduction="sum")
        value.backward()
        print(f"    {{{blank}, {positions}, {classes}, {list_of(labels)}, {list_of([lengths])}, "
              f"{value.item():.9g},\n     {list_of(z.grad.reshape(1, -1).tolist())}}},")
    print("};")


def print_batch_losses():
    logits = LOGITS + [[0.25, 1.0, -1.0]]
    functions = {"contrastive_losses": lambda z, a, _: contrastive(z, a),
                 "triplet_losses": triplet, "dice_losses": dice}
    forms = {"contrastive_losses": [(0.1, 0.0), (0.5, 0.0), (2.0, 0.0)],
             "triplet_losses": [(0.2, 0.0), (0.2, 1.0), (4.0, 0.0), (4.0, 1.0),
                                (0.2, 2.0), (4.0, 2.0)],
             "dice_losses": [(1.0, 0.0), (0.25, 0.0), (1.0, 1.0), (4.0, 0.5)]}
    for name, settings in forms.items():
        print(f"const std::vector<PyTorchBatchLoss> {name} = {{")
        for a, b in settings:
            z = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
            value = functions[name](z, a, b)
            value.backward()
            print(f"    {{{a}, {b}, {value.item():.9g},\n     {list_of(z.grad.tolist())}}},")
        print("};")


print(f"// Written by tests/make_losses.py with PyTorch {torch.__version__.split('+')[0]}.")
print("// clang-format off")
if sys.argv[1:] == ["--batch"]:
    print_batch_losses()
    ROWS = []
if sys.argv[1:] == ["--ctc"]:
    print_ctc_losses()
    ROWS = []
for op, attributes, loss in ROWS:
    z = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    value = loss(z)
    value.backward()
    print(f"PYTORCH_LOSS({op}, ({attributes}), {value.item():.9g},\n"
          f"             ({list_of(z.grad.tolist())}))")
print("// clang-format on")
