"""Your own networks: values, operators that compute values from values, and networks.

    >>> import mantissa as mt
    >>> image = mt.input(8, 8, 1)
    >>> h = mt.relu(mt.batch_norm(mt.conv(image, 16)))
    >>> net = mt.Network(mt.linear(mt.global_average_pool(h), 10), name="digits")

Shapes are for one example, without the batch. An operator that does not fit its inputs raises
InvalidInput when it is called.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast

from . import _core
from .errors import InvalidInput

Setting = Union[bool, int, float, str, Sequence[int]]
_order = itertools.count()


@dataclass(frozen=True, eq=False)
class _Node:
    """A layer, or an input (`op` is then pixels, numbers or indices)."""

    op: str
    inputs: tuple[Var, ...]
    settings: Mapping[str, Setting]
    name: str
    shares: Var | None = None
    order: int = field(default_factory=lambda: next(_order))


@dataclass(frozen=True, eq=False)
class Var:
    """A value of a network: the result of an operator, or an input. `shape` is for one example;
    () is a single number."""

    shape: tuple[int, ...]
    node: _Node
    result: int = 0
    is_index: bool = False

    def __add__(self, other: Var) -> Var:
        return add(self, other)

    def __sub__(self, other: Var) -> Var:
        return subtract(self, other)

    def __mul__(self, other: Var) -> Var:
        return multiply(self, other)

    def __repr__(self) -> str:
        return f"<{self.node.name or self.node.op} {list(self.shape)}>"


@dataclass(frozen=True)
class Loss:
    """The quantity that training minimises: see cross_entropy, sigmoid_cross_entropy,
    soft_cross_entropy, distilled_cross_entropy, squared_error, absolute_error and huber_error."""

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


# --- inputs ---------------------------------------------------------------------------------------


def _input(kind: str, shape: Sequence[int], name: str, **settings: Setting) -> Var:
    node = _Node(kind, (), {**settings, "shape": tuple(shape)}, name)
    _add(_core.Builder(name), node, {})  # raises where it cannot be
    return Var(tuple(shape), node, 0, kind == "indices")


def input(height: int, width: int, channels: int = 1, *, means: Sequence[int] = (),
          name: str = "pixels") -> Var:
    """Pictures: uint8 [height, width, channels]. The mean of each channel (from 0 to 255; 128 if
    none is given) is subtracted."""
    return _input("pixels", (height, width, channels), name, means=tuple(means))


def numbers(*shape: int, largest: float | None = None, exponent: int | None = None,
            name: str = "numbers") -> Var:
    """Real numbers. The network takes 16 bits times 2^exponent: given numbers, whole or real, are
    rounded to that. Give the exponent, or the largest magnitude of the numbers. See also
    `mantissas`."""
    return _input("numbers", shape, name, exponent=_exponent_of("numbers", largest, exponent))


def _exponent_of(what: str, largest: float | None, exponent: int | None) -> int:
    if (exponent is None) == (largest is None):
        raise InvalidInput(f"{what}: give either `largest` or `exponent`")
    if largest is not None:
        if not 2.0**-100 <= largest <= 2.0**100:
            raise InvalidInput(f"{what}: largest is a number from 2^-100 to 2^100, not {largest}")
        return _core.exponent_for(largest)
    if not hasattr(exponent, "__index__") or not -128 <= cast(int, exponent) <= 127:
        raise InvalidInput(f"{what}: exponent is a whole number from -128 to 127, not {exponent}")
    return int(cast(int, exponent))


def indices(*shape: int, name: str = "indices") -> Var:
    """Whole numbers, such as classes: int32."""
    return _input("indices", shape, name)


# --- operators ------------------------------------------------------------------------------------


def op(kind: str, *inputs: Var, name: str = "", shares: Var | None = None,
       **settings: Setting) -> Var:
    """Any operator, by its name in docs/operators.md, with its settings. `shares` is a value whose
    layer's parameters this one uses, too."""
    return ops(kind, *inputs, name=name, shares=shares, **settings)[0]


def ops(kind: str, *inputs: Var, name: str = "", shares: Var | None = None,
        **settings: Setting) -> tuple[Var, ...]:
    """The same, for operators that have several results."""
    for value in inputs:
        if not isinstance(value, Var):
            raise InvalidInput(f"{kind}: {value!r} is no value of a network; mt.input() makes one")
    node = _Node(kind, inputs, settings, name, shares)
    return tuple(Var(shape, node, i) for i, shape in enumerate(_shapes_of(node)))


def _shapes_of(node: _Node) -> list[tuple[int, ...]]:
    """Shapes of the results: the engine's, of a network that has this layer alone."""
    builder = _core.Builder(node.name or node.op)
    places = []
    for i, value in enumerate(node.inputs):
        dims = list(value.shape)
        places.append(builder.indices(f"input{i}", dims) if value.is_index
                      else builder.numbers(f"input{i}", dims, 0))
    results = builder.add(node.op, places, _plain(node.settings), node.name, -1)
    return [tuple(builder.dims(result)) for result in results]


def _plain(settings: Mapping[str, Setting]) -> dict[str, Any]:
    def plain(value: Setting) -> Any:
        if isinstance(value, (bool, int)):
            return int(value)
        return value if isinstance(value, (float, str)) else list(value)
    return {name: plain(value) for name, value in settings.items()}


def conv(x: Var, channels: int, kernel: int = 3, *, stride: int = 1, padding: int | None = None,
         groups: int = 1, dilation: int = 1, bias: bool = False, name: str = "",
         shares: Var | None = None) -> Var:
    """A convolution of [height, width, channels]. Padding is half of the kernel if none is given:
    with stride 1 the picture keeps its size."""
    if padding is None:
        padding = dilation * (kernel - 1) // 2
    return op("convolution", x, name=name, shares=shares, channels=channels, kernel=kernel,
              stride=stride, padding=padding, groups=groups, dilation=dilation, bias=bias)


def conv1d(x: Var, channels: int, kernel: int = 3, *, stride: int = 1, padding: int | None = None,
           causal: bool = False, groups: int = 1, dilation: int = 1, bias: bool = False,
           name: str = "", shares: Var | None = None) -> Var:
    """A convolution of [positions, channels] over the positions: [results, `channels`]. Padding is
    half of the kernel on both sides if none is given: with stride 1 the sequence keeps its length.
    With `causal` all padding, (kernel - 1) * dilation, lies before the sequence, and no result
    reads a later position. `groups` as many as channels: each channel alone."""
    if len(x.shape) != 2:
        raise InvalidInput(f"conv1d wants [positions, channels], not {list(x.shape)}")
    if causal and padding:
        raise InvalidInput("conv1d: causal says the padding itself")
    if padding is None:
        padding = 0 if causal else dilation * (kernel - 1) // 2
    return op("convolution", x, name=name, shares=shares, channels=channels, kernel=kernel,
              stride=stride, padding=padding, groups=groups, dilation=dilation, bias=bias,
              causal=causal)


def transposed_conv(x: Var, channels: int, kernel: int = 2, *, stride: int = 2, padding: int = 0,
                    output_padding: int = 0, bias: bool = True, name: str = "",
                    shares: Var | None = None) -> Var:
    """A transposed convolution of [height, width, channels] or [positions, channels]: an axis of n
    becomes one of (n - 1) * stride + kernel - 2 * padding + output_padding."""
    return op("transposed_convolution", x, name=name, shares=shares, channels=channels,
              kernel=kernel, stride=stride, padding=padding, output_padding=output_padding,
              bias=bias)


def upsample(x: Var, factor: int = 2, *, name: str = "") -> Var:
    """Each pixel or position `factor` times, along both axes of a picture."""
    return op("upsample", x, name=name, factor=factor)


def bilinear_resize(x: Var, height: int, width: int, *, align_corners: bool = False,
                    name: str = "") -> Var:
    """A picture [height, width, channels] of another size, by linear interpolation between the
    centres of pixels; with `align_corners` the first and last pixels stay where they are."""
    return op("bilinear_resize", x, name=name, height=height, width=width,
              align_corners=align_corners)


def linear(x: Var, channels: int, *, bias: bool = True, least_bits: int = 0, name: str = "",
           shares: Var | None = None) -> Var:
    """A linear layer of [features], or of each row of [sequence, features]; pictures are flattened
    first. `least_bits`: mantissas of the result have at least this many bits, in any integer
    format."""
    return op("linear", flatten(x) if len(x.shape) == 3 else x, name=name, shares=shares,
              channels=channels, bias=bias, least_bits=least_bits)


def batch_norm(x: Var, *, zero_scale: bool = False, name: str = "") -> Var:
    """Batch norm of the last axis. `zero_scale`: the scale starts at 0, not 1."""
    return op("batch_norm", x, name=name, zero_scale=zero_scale)


def relu(x: Var, *, name: str = "") -> Var:
    """max(x, 0)."""
    return op("relu", x, name=name)


def relu6(x: Var, *, name: str = "") -> Var:
    """min(max(x, 0), 6)."""
    return op("relu6", x, name=name)


def leaky_relu(x: Var, slope: float = 0.01, *, name: str = "") -> Var:
    """x, or slope * x if x is negative."""
    return op("leaky_relu", x, name=name, slope=slope)


def sigmoid(x: Var, *, name: str = "") -> Var:
    """1 / (1 + e^-x)."""
    return op("sigmoid", x, name=name)


def tanh(x: Var, *, name: str = "") -> Var:
    """tanh x."""
    return op("tanh", x, name=name)


def hard_sigmoid(x: Var, *, name: str = "") -> Var:
    """min(max(x + 3, 0), 6) / 6."""
    return op("hard_sigmoid", x, name=name)


def hard_swish(x: Var, *, name: str = "") -> Var:
    """x * hard_sigmoid(x)."""
    return op("hard_swish", x, name=name)


def gelu(x: Var, *, name: str = "") -> Var:
    """x * Phi(x), where Phi is the standard normal distribution function."""
    return op("gelu", x, name=name)


def silu(x: Var, *, name: str = "") -> Var:
    """x * sigmoid(x)."""
    return op("silu", x, name=name)


def elu(x: Var, alpha: float = 1.0, *, name: str = "") -> Var:
    """x, or alpha * (e^x - 1) if x is negative. `alpha` is 0 to 2."""
    return op("elu", x, name=name, alpha=alpha)


def softplus(x: Var, *, name: str = "") -> Var:
    """ln(1 + e^x)."""
    return op("softplus", x, name=name)


def mish(x: Var, *, name: str = "") -> Var:
    """x * tanh(softplus(x))."""
    return op("mish", x, name=name)


def prelu(x: Var, *, shared: bool = False, name: str = "") -> Var:
    """x, or a trained slope times x if x is negative: a slope for each channel (the last axis), or
    with `shared` one for all. Slopes start at 1/4."""
    return op("prelu", x, name=name, shared=shared)


def embedding(tokens: Var, rows: int, channels: int, *, name: str = "") -> Var:
    """The row of a table for each index: [sequence] to [sequence, channels]."""
    return op("embedding", tokens, name=name, rows=rows, channels=channels)


def position_embedding(x: Var, positions: int, *, least_bits: int = 0, name: str = "") -> Var:
    """x plus a row of a table for each position."""
    return op("position_embedding", x, name=name, positions=positions, least_bits=least_bits)


def group_norm(x: Var, groups: int = 1, *, epsilon: float = 1e-5, name: str = "") -> Var:
    """Group norm: the channels of each group (of the last axis), over all positions of an example,
    get mean 0 and deviation 1, then a trained scale and offset for each channel. `groups` divides
    the channels; as many groups as channels make it instance norm."""
    return op("group_norm", x, name=name, groups=groups, epsilon=epsilon)


def sinusoidal_positions(x: Var, *, base: float = 10000, interleaved: bool = True,
                         least_bits: int = 0, name: str = "") -> Var:
    """x [..., positions, C] plus sines and cosines of each position p: of pair i of C / 2 the angle
    p * base^(-2 i / C), in radians. `interleaved`: sine and cosine of a pair are neighbours; else
    all sines come first. Nothing is trained. An odd C is an error."""
    return op("sinusoidal_positions", x, name=name, base=float(base), interleaved=interleaved,
              least_bits=least_bits)


def rotary(x: Var, *, heads: int = 1, channels: int = 0, base: float = 10000,
           interleaved: bool = False, name: str = "") -> Var:
    """x [..., positions, C] with pairs of channels turned by their position, for queries and keys:
    pair i of n of each head, by p * base^(-i / n) radians at position p. `channels` of each head
    turn, from the first on, so n is channels / 2; 0 means all of the head. `interleaved`: pairs are
    neighbours (GPT-J); else the first half meets the second (Llama, GPT-NeoX). Heads that do not
    divide C, and an odd number of channels, are errors."""
    return op("rotary", x, name=name, heads=heads, channels=channels, base=float(base),
              interleaved=interleaved)


def layer_norm(x: Var, *, epsilon: float = 1e-5, name: str = "") -> Var:
    """Layer norm along the last axis."""
    return op("layer_norm", x, name=name, epsilon=epsilon)


def rms_norm(x: Var, *, epsilon: float = 1e-5, name: str = "") -> Var:
    """RMS norm along the last axis."""
    return op("rms_norm", x, name=name, epsilon=epsilon)


def _recurrent_inputs(kind: str, gates: Var, lengths: Var | None, *start: Var | None) -> list[Var]:
    given = [one for one in start if one is not None]
    if given and len(given) < len(start):
        raise InvalidInput(f"{kind} starts with h and the cell, or with neither")
    if given and lengths is None:
        raise InvalidInput(f"{kind} with a state at the start wants lengths too")
    return [gates, *([] if lengths is None else [lengths]), *given]


def rnn(gates: Var, *, lengths: Var | None = None, start: Var | None = None,
        name: str = "") -> Var:
    """tanh(gates + R h) of each step [..., positions, C]: `gates` is a linear layer's result for
    the input, best with least_bits=16. R are the layer's weights. `lengths`, indices(), says how
    many positions of the example's one sequence are no padding; after them h keeps its value. With
    lengths, `start` [C] may be h at the start, within -1 and 1; else it is 0."""
    return op("rnn", *_recurrent_inputs("rnn", gates, lengths, start), name=name)


def lstm(gates: Var, *, lengths: Var | None = None, start: Var | None = None,
         start_cell: Var | None = None, peepholes: bool = False, name: str = "") -> Var:
    """An LSTM layer: of gates i, f, g, o [..., positions, 4 C] that a linear layer computes, best with
    least_bits=16, and its own recurrent weights, h [..., positions, C]. Peepholes go from the cell to i, f
    and o. `lengths` and `start` as in `rnn`; with `start`, `start_cell` [C] within -16 and 16."""
    inputs = _recurrent_inputs("lstm", gates, lengths, start, start_cell)
    return op("lstm", *inputs, name=name, peepholes=peepholes)


def gru(gates: Var, *, lengths: Var | None = None, start: Var | None = None,
        name: str = "") -> Var:
    """A GRU layer: of gates r, z, n [..., positions, 3 C] that a linear layer computes, best with
    least_bits=16, and its own recurrent weights and bias, h [..., positions, C]. The reset gate acts
    after the recurrent product, as in PyTorch. `lengths` and `start` as in `rnn`."""
    return op("gru", *_recurrent_inputs("gru", gates, lengths, start), name=name)


def attention(queries: Var, keys: Var, values: Var, *, heads: int = 1, kv_heads: int = 0,
              causal: bool = False, window: int = 0, name: str = "") -> Var:
    """Attention of [sequence, channels], in heads; `causal`: a position sees those before it and
    itself. `kv_heads`, which divides `heads`: keys and values [sequence, channels * kv_heads / heads]
    have fewer heads, each for several heads of queries; 0: as many. `window`: a position sees so
    many positions up to itself, and without `causal` window - 1 after it; 0: all."""
    return op("attention", queries, keys, values, name=name, heads=heads, kv_heads=kv_heads,
              causal=causal, window=window)


def dropout(x: Var, probability: float = 0.5, *, name: str = "") -> Var:
    """Sets values to 0 with this probability while training."""
    return op("dropout", x, name=name, probability=probability)


def add(a: Var, b: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """a + b, of the same shape; also written a + b. `least_bits` as in `linear`."""
    return op("add", a, b, name=name, least_bits=least_bits)


def subtract(a: Var, b: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """a - b, of the same shape; also written a - b. `least_bits` as in `linear`."""
    return op("subtract", a, b, name=name, least_bits=least_bits)


def multiply(a: Var, b: Var, *, name: str = "") -> Var:
    """a * b; b may be [channels], a factor for each channel of a, a picture or sequence; also
    written a * b."""
    return op("multiply", a, b, name=name)


def max_pool(x: Var, window: int = 2, *, stride: int | None = None, padding: int = 0,
             name: str = "") -> Var:
    """The largest value of each window of [height, width, channels] or [positions, channels]. The
    stride is the window if none is given."""
    if stride in (None, window) and padding == 0 and len(x.shape) == 3:
        return op("max_pool", x, name=name, window=window)
    return op("overlapping_max_pool", x, name=name, window=window, stride=stride or window,
              padding=padding)


def average_pool(x: Var, window: int = 2, *, stride: int | None = None, padding: int = 0,
                 name: str = "") -> Var:
    """The mean of each window of [height, width, channels] or [positions, channels]. The stride is
    the window if none is given."""
    return op("average_pool", x, name=name, window=window, stride=stride or window, padding=padding)


def global_average_pool(x: Var, *, name: str = "") -> Var:
    """The mean of each channel over the picture or the positions: [channels]."""
    return op("global_average_pool", x, name=name)


def reduce_max(x: Var, over: str = "positions", *, name: str = "") -> Var:
    """The largest value over an axis: "positions" of [height, width, channels] or [positions,
    channels] gives [channels]; "height", "width" and "channels" leave an axis of one."""
    return op("reduce_max", x, name=name, over=over)


def reduce_mean(x: Var, over: str = "positions", *, name: str = "") -> Var:
    """The mean over an axis, as in `reduce_max`."""
    return op("reduce_mean", x, name=name, over=over)


def reduce_sum(x: Var, over: str = "positions", *, name: str = "") -> Var:
    """The sum over an axis, as in `reduce_max`."""
    return op("reduce_sum", x, name=name, over=over)


def concat(*values: Var, name: str = "") -> Var:
    """All channels, one value's after the other's."""
    return op("concat", *values, name=name)


def concat_positions(*values: Var, name: str = "") -> Var:
    """Sequences [..., positions, C] one after the other. Their channels must be as many."""
    return op("concat_positions", *values, name=name)


def prepend_rows(x: Var, rows: int = 1, *, least_bits: int = 0, name: str = "") -> Var:
    """Trained rows in front of a sequence: [..., positions, C] to [..., rows + positions, C]. One
    row is the class token of a vision transformer; `row` reads it. `least_bits` as in `linear`."""
    return op("prepend_rows", x, name=name, rows=rows, least_bits=least_bits)


def row(x: Var, position: int = 0, *, name: str = "") -> Var:
    """One position of a sequence: [positions, C] to [1, C]. A position beyond the last is an error."""
    return op("slice", x, name=name, channels=x.shape[-1], position=position)


def reshape(x: Var, *shape: int, name: str = "") -> Var:
    """The same numbers as [channels], [positions, channels] or [height, width, channels]. A picture
    [H, W, C] becomes a sequence of its pixels, row by row: reshape(x, H * W, C). Another number of
    elements is an error."""
    if not 1 <= len(shape) <= 3:
        raise InvalidInput(f"reshape wants one to three sizes, not {len(shape)}")
    height, width, channels = (0, 0, *shape)[-3:]
    return op("reshape", x, name=name, height=height, width=width, channels=channels)


def slice(x: Var, first: int, channels: int, *, name: str = "") -> Var:
    """Channels from `first` on."""
    return op("slice", x, name=name, first=first, channels=channels)


def flatten(x: Var, *, name: str = "") -> Var:
    """[height, width, channels] to [height * width * channels]."""
    return op("flatten", x, name=name)


def layer(function: Callable[..., Var], *arguments: Any, **settings: Any) -> Callable[[Var], Var]:
    """The operator with all arguments but its input: `mt.layer(mt.conv, 16)`, for Sequential."""
    return lambda x: function(x, *arguments, **settings)


class Sequential:
    """Layers one after the other: functions of a value, such as `mt.relu`, `mt.layer(mt.conv, 16)`,
    another Sequential or your own function. It is such a function itself.

        >>> block = mt.Sequential(mt.layer(mt.conv, 16), mt.batch_norm, mt.relu)
        >>> h = block(mt.input(8, 8, 1))
    """

    def __init__(self, *layers: Callable[[Var], Var]):
        self.layers = layers

    def __call__(self, x: Var) -> Var:
        for one in self.layers:
            x = one(x)
        return x

    def __repr__(self) -> str:
        return f"<Sequential of {len(self.layers)} layers>"


# --- losses ---------------------------------------------------------------------------------------


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


def squared_error(results: Var, targets: str = "targets", *, largest: float | None = None,
                  exponent: int | None = None, weights: str = "") -> Loss:
    """The mean square of the differences to an input of as many targets: numbers of 16 bits times
    2^exponent. Give the exponent, or the largest magnitude of the targets. `weights` names an input of
    numbers from 0 to 31, one for each example."""
    return Loss("number_error", results, targets,
                exponent=_exponent_of("squared_error", largest, exponent), weights=weights)


def absolute_error(results: Var, targets: str = "targets", *, largest: float | None = None,
                   exponent: int | None = None, weights: str = "") -> Loss:
    """The mean magnitude of the differences to targets; otherwise as squared_error."""
    return Loss("number_error", results, targets,
                exponent=_exponent_of("absolute_error", largest, exponent), weights=weights,
                penalty="absolute")


def huber_error(results: Var, targets: str = "targets", *, delta: float = 1.0,
                largest: float | None = None, exponent: int | None = None,
                weights: str = "") -> Loss:
    """The mean of Huber's penalty of the differences d to targets: d ** 2 / 2 up to delta, and
    delta * (abs(d) - delta / 2) beyond; otherwise as squared_error. delta: from 1/1024 to 1024."""
    return Loss("number_error", results, targets,
                exponent=_exponent_of("huber_error", largest, exponent), weights=weights,
                penalty="huber", delta=delta)


# --- networks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """An array that batches bring: uint8, int32, or int16 (numbers, which are rounded to mantissas times
    2^exponent)."""

    name: str
    elements: str
    shape: tuple[int, ...]
    exponent: int


@dataclass(frozen=True)
class Parameter:
    name: str
    shape: tuple[int, ...]
    trained: bool


class Network:
    """A network. Its outputs are values. Without `loss` the first output is compared with `labels`,
    by cross-entropy. If a sigmoid makes that output, sigmoid_cross_entropy is used. It computes the
    sigmoid itself, so the output is the sigmoid's input, the logits."""

    def __init__(self, *outputs: Var, name: str = "network", loss: Loss | Sequence[Loss] | None = None):
        if not outputs:
            raise InvalidInput("Network: name at least one output")
        if loss is None and outputs[0].node.op == "sigmoid":
            outputs = (outputs[0].node.inputs[0], *outputs[1:])
            loss = sigmoid_cross_entropy(outputs[0])
        losses = [cross_entropy(outputs[0])] if loss is None else (
            [loss] if isinstance(loss, Loss) else list(loss))
        self._core = _build(name, outputs, losses)
        self._trained: _core.TrainedParameters | None = None
        self._outputs: tuple[Var, ...] = outputs

    @classmethod
    def _of(cls, core: _core.Network, trained: _core.TrainedParameters | None = None) -> Network:
        network = cls.__new__(cls)
        network._core = core
        network._trained = trained
        network._outputs = ()
        return network

    def with_loss(self, loss: Callable[[Var], Loss]) -> Network:
        """The same layers with another loss of the first output: `network.with_loss(mt.soft_cross_entropy)`.
        For networks that were built layer by layer, of which nothing is frozen."""
        if not self._outputs:
            raise InvalidInput("with_loss: the network was not built layer by layer here: its file "
                               "says the loss")
        return Network(*self._outputs, name=self.name, loss=loss(self._outputs[0]))

    @classmethod
    def from_json(cls, text: str) -> Network:
        """A network as docs/networks.md describes it."""
        return cls._of(_core.Network.from_json(text))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Network:
        """The network of a JSON file."""
        return cls._of(_core.Network.read(os.fspath(path)))

    @classmethod
    def from_trained(cls, path: str | os.PathLike[str]) -> Network:
        """A trained network with its weights, which a Trainer starts from: of a run's folder, a checkpoint,
        model.safetensors, or an ONNX model."""
        trained = _core.TrainedParameters.read(os.fspath(path))
        return cls._of(trained.network(), trained)

    def to_json(self) -> str:
        return self._core.to_json()

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def inputs(self) -> list[Input]:
        return [Input(name, elements, tuple(dims), exponent)
                for name, elements, dims, exponent in self._core.inputs()]

    @property
    def parameters(self) -> list[Parameter]:
        return [Parameter(name, tuple(dims), trained)
                for name, dims, trained in self._core.parameters()]

    def frozen(self, patterns: str) -> Network:
        """The same network, in which parameters are not trained: `frozen("stem*,stage1.*")`."""
        return Network._of(self._core.with_frozen(patterns), self._trained)

    def with_pixel_means(self, means: Sequence[int]) -> Network:
        """The same network with these means to subtract from pixels, if it has none."""
        return Network._of(self._core.with_pixel_means(list(means)), self._trained)

    def summary(self) -> str:
        """A line for each layer: name, operator with its inputs and settings, shape."""
        import math

        count = sum(math.prod(one.shape) for one in self.parameters if one.trained)
        lines = [f"{self.name}: {count:,} parameters"]
        for node in self.nodes:
            settings = [f"{key}={value}" for key, value in node.get("attributes", {}).items()]
            inside = ", ".join([*node.get("inputs", []), *settings])
            call = f" = {node['op']}({inside})" if node["op"] != "input" else ""
            lines.append(f"  {node['name']}{call} {node.get('shape', [])}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from ._display import network_html
        return network_html(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Network.from_json, (self.to_json(),))

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Inputs and layers, as the JSON has them."""
        import json

        nodes: list[dict[str, Any]] = json.loads(self.to_json())["nodes"]
        return nodes


def _build(name: str, outputs: Sequence[Var], losses: Sequence[Loss]) -> _core.Network:
    builder = _core.Builder(name)
    results: dict[int, list[int]] = {}  # of nodes, by their order
    for node in _nodes_before([*outputs, *(loss.result for loss in losses)]):
        results[node.order] = _add(builder, node, results)

    def place(value: Var) -> int:
        return results[value.node.order][value.result]

    for loss in losses:
        if loss.kind == "cross_entropy":
            builder.cross_entropy(place(loss.result), loss.target, loss.label_smoothing,
                                  loss.weights)
        elif loss.kind == "sigmoid_cross_entropy":
            builder.sigmoid_cross_entropy(place(loss.result), loss.target, loss.by_output,
                                          loss.ordinal, loss.label_smoothing, loss.focal,
                                          loss.positive_weights, loss.weights)
        elif loss.kind == "soft_cross_entropy":
            builder.soft_cross_entropy(place(loss.result), loss.target, loss.weights)
        elif loss.kind == "distilled_cross_entropy":
            builder.distilled_cross_entropy(place(loss.result), loss.target, loss.teacher,
                                            loss.temperature, loss.teacher_weight, loss.weights)
        else:
            builder.number_error(place(loss.result), loss.target, loss.exponent, loss.penalty,
                                 loss.delta, loss.weights)
    return builder.finish([place(output) for output in outputs])


def _nodes_before(values: Sequence[Var]) -> list[_Node]:
    """All nodes that the values come from, in the order in which they were made."""
    found: dict[int, _Node] = {}
    open_values = list(values)
    while open_values:
        node = open_values.pop().node
        if node.order in found:
            continue
        found[node.order] = node
        open_values.extend(node.inputs)
        if node.shares is not None:
            open_values.append(node.shares)
    return [found[order] for order in sorted(found)]


def _add(builder: _core.Builder, node: _Node, results: Mapping[int, list[int]]) -> list[int]:
    settings: Any = node.settings
    if not node.inputs:
        dims = list(settings["shape"])
        if node.op == "pixels":
            return [builder.pixels(node.name, dims, list(settings["means"]))]
        if node.op == "numbers":
            return [builder.numbers(node.name, dims, settings["exponent"])]
        return [builder.indices(node.name, dims)]
    inputs = [results[value.node.order][value.result] for value in node.inputs]
    shares = -1 if node.shares is None else results[node.shares.node.order][node.shares.result]
    return builder.add(node.op, inputs, _plain(settings), node.name, shares)
