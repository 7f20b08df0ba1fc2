"""Losses, which training makes small. docs/losses.md compares them with PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .values import Var, exponent_of


@dataclass(frozen=True)
class Loss:
    """The quantity that training minimises: see cross_entropy, sigmoid_cross_entropy,
    soft_cross_entropy, distilled_cross_entropy, dice, contrastive, triplet, ctc, squared_error,
    absolute_error and huber_error. Several are added up, each times its factor:
    `loss=[mt.cross_entropy(a, "kind"), 0.5 * mt.squared_error(b, "age")]`. Factors go from 1/1024 to
    31.999 in steps of 1/1024."""

    kind: str
    result: Var
    target: str
    label_smoothing: float = 0.0
    exponent: int = 0
    weights: str = ""
    by_output: bool = False
    ordinal: bool = False
    focal: float = 0.0
    positive_weights: tuple[float, ...] = ()
    penalty: str = "squared"
    delta: float = 1.0
    teacher: str = ""
    temperature: float = 1.0
    teacher_weight: float = 0.5
    smooth: float = 1.0
    cross_entropy: float = 0.0
    margin: float = 0.2
    mining: str = "all"
    most_labels: int = 1
    blank: int = 0
    lengths: str = ""
    factor: float = 1.0

    def __mul__(self, factor: float) -> Loss:
        return replace(self, factor=self.factor * factor)

    __rmul__ = __mul__


def cross_entropy(logits: Var, labels: str = "labels", *, label_smoothing: float = 0.0,
                  weights: str = "") -> Loss:
    """Softmax and cross-entropy of a linear layer's result [..., classes], against an input of labels,
    int32, one for each row. A label of -1 counts nothing. `weights` names one more input: numbers from 0
    to 31 in steps of 1/1024, one for each label; the loss of a batch is the weighted mean. See
    class_weights."""
    return Loss("cross_entropy", logits, labels, label_smoothing, weights=weights)


def sigmoid_cross_entropy(logits: Var, labels: str = "labels", *, one_label: bool = False,
                          ordinal: bool = False, label_smoothing: float = 0.0, focal: float = 0.0,
                          positive_weights: float | Sequence[float] = (),
                          weights: str = "") -> Loss:
    """Sigmoids and cross-entropy of a linear layer's result [..., outputs], against labels of 0 and 1,
    int32: of one output one for each row, of several one for each of them, [..., outputs], or with
    `one_label` for each row the number of the only output that is 1. A label of -1 counts nothing. The
    loss of a row is the sum over its outputs. `weights` as in cross_entropy.

    ordinal: labels are ranks from 0 to the number of outputs, one for each row: of a rank r the first r
        outputs are 1.
    label_smoothing: half of it is the target of 0, and as much is missing from the target of 1.
    focal: from 0 to 5: the loss of a probability p of the label is multiplied by (1 - p) ** focal.
    positive_weights: from 0 to 31: by which the loss of labels of 1 is multiplied, one number or one for
        each output."""
    by_output = logits.shape[-1:] != (1,) and not one_label and not ordinal
    positive = ((float(positive_weights),) if isinstance(positive_weights, (int, float)) else
                tuple(float(weight) for weight in positive_weights))
    return Loss("sigmoid_cross_entropy", logits, labels, label_smoothing, weights=weights,
                by_output=by_output, ordinal=ordinal, focal=focal, positive_weights=positive)


def soft_cross_entropy(logits: Var, targets: str = "targets", *, weights: str = "") -> Loss:
    """Softmax and cross-entropy of a linear layer's result [..., classes] against a distribution: an input
    of as many numbers, from 0 to 1 in steps of 2^-14, which add up to one. An example is right if its
    largest logit is that of its largest target. `weights` as in cross_entropy."""
    return Loss("soft_cross_entropy", logits, targets, weights=weights)


def distilled_cross_entropy(logits: Var, labels: str = "labels", targets: str = "teacher", *,
                            temperature: float = 1.0, teacher_weight: float = 0.5,
                            weights: str = "") -> Loss:
    """(1 - teacher_weight) * cross_entropy(logits, labels) + teacher_weight * temperature ** 2 * the
    cross-entropy of softmax(logits / temperature), from 1 to 100, against an input of probabilities
    [..., classes]: those of a teacher at the same temperature. `weights` as in cross_entropy."""
    return Loss("distilled_cross_entropy", logits, labels, weights=weights, teacher=targets,
                temperature=temperature, teacher_weight=teacher_weight)


def dice(logits: Var, labels: str = "labels", *, smooth: float = 1.0, cross_entropy: float = 0.0,
         weights: str = "") -> Loss:
    """Dice's loss of a layer's result [..., places, classes] against an input of labels, int32, one
    for each pixel or position: 1 - the mean over the classes of (2 sum p t + smooth) / (sum p +
    sum t + smooth), where p is the softmax and t is 1 for the label, summed over the places of an
    example. A label of -1 counts nothing, and examples count by the places that count. `weights`
    as in cross_entropy, one for each place.

    smooth: from 2^-20 to 65536, in places. A class that an example lacks costs little.
    cross_entropy: from 0 to 100: the factor of the mean cross-entropy of the places that is added."""
    return Loss("dice", logits, labels, weights=weights, smooth=smooth,
                cross_entropy=cross_entropy)


def contrastive(vectors: Var, labels: str = "labels", *, temperature: float = 0.1) -> Loss:
    """Supervised contrast of a layer's result [channels], the vectors of a batch, against labels,
    int32, one for each example: any whole numbers, and below 0 for none. With vectors brought to
    length 1, the loss of an example is the mean, over the others with its label, of -log of the
    softmax of their products / `temperature` (0.01 to 100) over all others. An example without
    others of its label has the loss 0. A micro-batch is compared in itself."""
    return Loss("contrastive", vectors, labels, temperature=temperature)


def triplet(vectors: Var, labels: str = "labels", *, margin: float = 0.2,
            mining: str = "all") -> Loss:
    """Triplets of a layer's result [channels], the vectors of a batch, against labels as for
    contrastive. With vectors brought to length 1, a triplet of an example, another one with its
    label and one with another label has the loss max(0, d+ - d- + margin): d are the squared
    distances of the example to both, from 0 to 4, and `margin` is from 0 to 4. An example without
    triplets has the loss 0. A micro-batch is compared in itself.

    mining: "all" takes the mean over all triplets of an example, "hard" the triplet with the largest
        loss. From random weights "hard" often brings all vectors to one point: begin with "all".
        "semi-hard" takes a triplet for each other example with the label, and the mean over these: with
        the nearest example of another label that is farther, or if none is, with the farthest."""
    return Loss("triplet", vectors, labels, margin=margin, mining=mining)


def ctc(logits: Var, labels: str = "labels", *, most_labels: int, blank: int = 0,
        lengths: str = "") -> Loss:
    """Connectionist temporal classification of a layer's result [positions, classes] against an
    input of labels, int32 [most_labels]: classes but the blank in their order, without their places,
    and -1 behind them. The loss of an example is -log of the probability of all paths, a class for
    each position, that spell its labels once classes that repeat become one and blanks are taken
    out. It is not divided by the number of labels.

    blank: the class that is no label.
    lengths: the name of an input of the positions that count, int32, one number for each example;
        added if the network has no such input. Left out: all positions count.

    A sequence that is too short for its labels is an error. best_path reads the labels from logits,
    label_error_rate compares them."""
    return Loss("ctc", logits, labels, most_labels=most_labels, blank=blank, lengths=lengths)


def squared_error(results: Var, targets: str = "targets", *, largest: float | None = None,
                  exponent: int | None = None, weights: str = "") -> Loss:
    """The mean square of the differences to an input of as many targets: numbers of 16 bits times
    2^exponent. Give the exponent, or the largest magnitude of the targets. `weights` names an input of
    numbers from 0 to 31, one for each example."""
    return Loss("number_error", results, targets,
                exponent=exponent_of("squared_error", largest, exponent), weights=weights)


def absolute_error(results: Var, targets: str = "targets", *, largest: float | None = None,
                   exponent: int | None = None, weights: str = "") -> Loss:
    """The mean magnitude of the differences to targets; otherwise as squared_error."""
    return Loss("number_error", results, targets,
                exponent=exponent_of("absolute_error", largest, exponent), weights=weights,
                penalty="absolute")


def huber_error(results: Var, targets: str = "targets", *, delta: float = 1.0,
                largest: float | None = None, exponent: int | None = None,
                weights: str = "") -> Loss:
    """The mean of Huber's penalty of the differences d to targets: d ** 2 / 2 up to delta, and
    delta * (abs(d) - delta / 2) beyond; otherwise as squared_error. delta: from 1/1024 to 1024."""
    return Loss("number_error", results, targets,
                exponent=exponent_of("huber_error", largest, exponent), weights=weights,
                penalty="huber", delta=delta)
