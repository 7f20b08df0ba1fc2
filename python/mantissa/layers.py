"""Layers and functions: each takes values of a network and gives a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import InvalidInput
from .values import Var, op


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


def _three(setting: int | tuple[int, int, int]) -> tuple[int, int, int]:
    """A setting for depth, height and width: one number is for all."""
    return (setting, setting, setting) if isinstance(setting, int) else setting


def conv3d(x: Var, channels: int, kernel: int | tuple[int, int, int] = 3, *,
           stride: int | tuple[int, int, int] = 1,
           padding: int | tuple[int, int, int] | None = None,
           groups: int = 1, dilation: int | tuple[int, int, int] = 1, bias: bool = False,
           name: str = "", shares: Var | None = None) -> Var:
    """A convolution of a volume or video [depth, height, width, channels] over all three axes.
    Settings are numbers for depth, height and width, or one for all. Padding is half of the kernel
    if none is given: with stride 1 the volume keeps its size. `groups` as many as channels: each
    channel alone. Dilations of height and width must be alike.

    It is two operators: `depth_taps`, whose result has the kernel's depth times the channels, and a
    convolution of the images."""
    if len(x.shape) != 4:
        raise InvalidInput(f"conv3d wants [depth, height, width, channels], not {list(x.shape)}")
    kernels, strides, dilations = _three(kernel), _three(stride), _three(dilation)
    if dilations[1] != dilations[2]:
        raise InvalidInput(f"conv3d: the dilations of height and width, {dilations[1]} and "
                           f"{dilations[2]}, must be alike")
    halves = tuple(d * (k - 1) // 2 for d, k in zip(dilations, kernels))
    deep, tall, wide = halves if padding is None else _three(padding)
    if (kernels[0], strides[0], deep) != (1, 1, 0):
        x = op("depth_taps", x, name=name and name + ".taps", kernel=kernels[0], stride=strides[0],
               padding=deep, dilation=dilations[0])
    return op("convolution", x, name=name, shares=shares, channels=channels, kernel=kernels[1],
              kernel_width=kernels[2], stride=strides[1], stride_width=strides[2], padding=tall,
              padding_width=wide, groups=groups, dilation=dilations[1], bias=bias)


def transposed_conv(x: Var, channels: int, kernel: int = 2, *, stride: int = 2, padding: int = 0,
                    output_padding: int = 0, groups: int = 1, bias: bool = True, name: str = "",
                    shares: Var | None = None) -> Var:
    """A transposed convolution of [height, width, channels] or [positions, channels]: an axis of n
    becomes one of (n - 1) * stride + kernel - 2 * padding + output_padding. `groups` divides the
    channels of x and of the result; as many as both have: each channel alone."""
    return op("transposed_convolution", x, name=name, shares=shares, channels=channels,
              kernel=kernel, stride=stride, padding=padding, output_padding=output_padding,
              groups=groups, bias=bias)


def upsample(x: Var, factor: int = 2, *, name: str = "") -> Var:
    """Each pixel or position `factor` times, along both axes of a picture."""
    return op("upsample", x, name=name, factor=factor)


def bilinear_resize(x: Var, height: int, width: int, *, align_corners: bool = False,
                    name: str = "") -> Var:
    """A picture [height, width, channels] of another size, by linear interpolation between the
    centres of pixels; with `align_corners` the first and last pixels stay where they are."""
    return op("bilinear_resize", x, name=name, height=height, width=width,
              align_corners=align_corners)


def linear(x: Var, channels: int, *, bias: bool = True, least_bits: int = 0, input_bits: int = 0,
           name: str = "", shares: Var | None = None) -> Var:
    """A linear layer of [features], or of each row of [sequence, features]; pictures and volumes
    are flattened first. `least_bits`: mantissas of the result have at least this many bits, in any
    integer format. `input_bits`: with blocks=token, values of up to this many bits are read as they
    are, and not requantised to the activations' bits."""
    return op("linear", flatten(x) if len(x.shape) in (3, 4) else x, name=name, shares=shares,
              channels=channels, bias=bias, least_bits=least_bits, input_bits=input_bits)


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


def gelu_tanh(x: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """GELU's approximation x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), as GPT-2 has it.
    `least_bits` as in `linear`."""
    return op("gelu_tanh", x, name=name, least_bits=least_bits)


def silu(x: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """x * sigmoid(x). `least_bits` as in `linear`."""
    return op("silu", x, name=name, least_bits=least_bits)


def elu(x: Var, alpha: float = 1.0, *, name: str = "") -> Var:
    """x, or alpha * (e^x - 1) if x is negative. `alpha` is 0 to 2."""
    return op("elu", x, name=name, alpha=alpha)


def softplus(x: Var, *, name: str = "") -> Var:
    """ln(1 + e^x)."""
    return op("softplus", x, name=name)


def mish(x: Var, *, name: str = "") -> Var:
    """x * tanh(softplus(x))."""
    return op("mish", x, name=name)


def scale(x: Var, factor: float, *, name: str = "") -> Var:
    """factor * x."""
    return op("scale", x, name=name, factor=factor)


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
           interleaved: bool = False, factors: Sequence[float] = (), least_bits: int = 0,
           name: str = "") -> Var:
    """x [..., positions, C] with pairs of channels turned by their position, for queries and keys:
    pair i of n of each head, by p * base^(-i / n) radians at position p. `channels` of each head
    turn, from the first on, so n is channels / 2; 0 means all of the head. `interleaved`: pairs are
    neighbours (GPT-J); else the first half meets the second (Llama, GPT-NeoX). `factors`: numbers
    from 1 to 2^20 by which the angles are divided, to 2^-23: one for all pairs, or one for each.
    Heads that do not divide C, and an odd number of channels, are errors. `least_bits` as in
    `linear`."""
    return op("rotary", x, name=name, heads=heads, channels=channels, base=float(base),
              interleaved=interleaved, factors=[round(f * 2 ** 23) for f in factors],
              least_bits=least_bits)


def layer_norm(x: Var, *, epsilon: float = 1e-5, heads: int = 1, name: str = "") -> Var:
    """Layer norm along the last axis, or of each of its `heads` equal parts, which share scale and
    offset."""
    return op("layer_norm", x, name=name, epsilon=epsilon, heads=heads)


def rms_norm(x: Var, *, epsilon: float = 1e-5, heads: int = 1, name: str = "") -> Var:
    """RMS norm along the last axis, or of each of its `heads` equal parts, which share the scale."""
    return op("rms_norm", x, name=name, epsilon=epsilon, heads=heads)


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
              causal: bool = False, window: int = 0,
              bias: bool | int | tuple[int, int] = False, probabilities: str = "fixed",
              input_bits: int = 0, name: str = "") -> Var:
    """Attention of [sequence, channels], in heads; `causal`: a position sees those before it and
    itself. `kv_heads`, which divides `heads`: keys and values [sequence, channels * kv_heads / heads]
    have fewer heads, each for several heads of queries; 0: as many. `window`: a position sees so
    many positions up to itself, and without `causal` window - 1 after it; 0: all.

    `bias`: scores get a trained number for each head and each distance of query and key, which
    begins with 0. True: distances along the sequence; a number: for up to so many positions;
    (height, width): the sequence is the patches of a picture of this size, row by row, and
    distances go down and to the right. Another number of patches is an error.

    `probabilities` in integers: "fixed", whole numbers of 2^-7; or "row", of 1/127 of the largest
    in their row, over their sum, for many keys. `input_bits` as in `linear`."""
    height, width = bias if isinstance(bias, tuple) else (
        1, queries.shape[-2] if bias is True else int(bias))
    return op("attention", queries, keys, values, name=name, heads=heads, kv_heads=kv_heads,
              causal=causal, window=window, bias_height=height, bias_width=width,
              probabilities=probabilities, input_bits=input_bits)


def dropout(x: Var, probability: float = 0.5, *, name: str = "") -> Var:
    """Sets values to 0 with this probability while training."""
    return op("dropout", x, name=name, probability=probability)


def add(a: Var, b: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """a + b, of the same shape; also written a + b. `least_bits` as in `linear`."""
    return op("add", a, b, name=name, least_bits=least_bits)


def subtract(a: Var, b: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """a - b, of the same shape; also written a - b. `least_bits` as in `linear`."""
    return op("subtract", a, b, name=name, least_bits=least_bits)


def multiply(a: Var, b: Var, *, least_bits: int = 0, name: str = "") -> Var:
    """a * b; b may be [channels], a factor for each channel of a, a picture or sequence; also
    written a * b. `least_bits` as in `linear`."""
    return op("multiply", a, b, name=name, least_bits=least_bits)


def max_pool(x: Var, window: int = 2, *, stride: int | None = None, padding: int = 0,
             name: str = "") -> Var:
    """The largest value of each window of [height, width, channels] or [positions, channels], or of
    each image of a volume. The stride is the window if none is given."""
    if stride in (None, window) and padding == 0 and len(x.shape) in (3, 4):
        return op("max_pool", x, name=name, window=window)
    return op("overlapping_max_pool", x, name=name, window=window, stride=stride or window,
              padding=padding)


def average_pool(x: Var, window: int = 2, *, stride: int | None = None, padding: int = 0,
                 name: str = "") -> Var:
    """The mean of each window of [height, width, channels] or [positions, channels], or of each
    image of a volume. The stride is the window if none is given."""
    return op("average_pool", x, name=name, window=window, stride=stride or window, padding=padding)


def _pool3d(operator: str, x: Var, window: int | tuple[int, int, int],
            stride: int | tuple[int, int, int] | None, padding: int | tuple[int, int, int],
            name: str) -> Var:
    if len(x.shape) != 4:
        raise InvalidInput(f"a pool over three axes wants [depth, height, width, channels], not "
                           f"{list(x.shape)}")
    windows, paddings = _three(window), _three(padding)
    strides = windows if stride is None else _three(stride)
    images = op(operator, x, name=name and name + ".images", window=windows[1],
                window_width=windows[2], stride=strides[1], stride_width=strides[2],
                padding=paddings[1], padding_width=paddings[2])
    return op(operator, images, name=name, over="depth", window=windows[0], stride=strides[0],
              padding=paddings[0])


def max_pool3d(x: Var, window: int | tuple[int, int, int] = 2, *,
               stride: int | tuple[int, int, int] | None = None,
               padding: int | tuple[int, int, int] = 0, name: str = "") -> Var:
    """The largest value of each window of a volume [depth, height, width, channels]; settings as in
    `conv3d`. The stride is the window if none is given. Two operators: over the images, then over
    the depth."""
    return _pool3d("overlapping_max_pool", x, window, stride, padding, name)


def average_pool3d(x: Var, window: int | tuple[int, int, int] = 2, *,
                   stride: int | tuple[int, int, int] | None = None,
                   padding: int | tuple[int, int, int] = 0, name: str = "") -> Var:
    """The mean of each window of a volume, as `max_pool3d`: the means over the depth of the means
    of images, each rounded."""
    return _pool3d("average_pool", x, window, stride, padding, name)


def global_average_pool(x: Var, *, name: str = "") -> Var:
    """The mean of each channel over the picture, the volume or the positions: [channels]."""
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


def softmax(x: Var, over: str = "channels", *, name: str = "") -> Var:
    """exp(x) over the sum of these along an axis: "channels", "positions" of [height, width,
    channels] or [positions, channels], or "height" and "width" of a picture. The shape stays. At
    most 65536 elements. Losses and `attention` have a softmax of their own."""
    return op("softmax", x, name=name, over=over)


def gather_rows(x: Var, rows: list[int] | Var, *, name: str = "") -> Var:
    """Positions of a sequence [..., positions, C], in this order, also several times:
    [..., len(rows), C]. `rows`: places from 0 on, the same for all examples (others than those of
    the sequence are an error); or an input of indices [n] for each example's one sequence, where
    a place beyond the sequence gives a row of zeros."""
    if isinstance(rows, Var):
        return op("gather_rows", x, rows, name=name)
    return op("gather_rows", x, name=name, rows=list(rows))


def scatter_rows(x: Var, rows: list[int] | Var, positions: int, *, name: str = "") -> Var:
    """The positions of a sequence [..., n, C] at these places of a longer one, zeros elsewhere:
    [..., positions, C]. `rows`: n places, the same for all examples, each once; or an input of
    indices [n], where of several rows at one place the last one stays, and a row whose place is
    beyond the sequence is left out."""
    if isinstance(rows, Var):
        return op("scatter_rows", x, rows, name=name, positions=positions)
    return op("scatter_rows", x, name=name, rows=list(rows), positions=positions)


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
    """The same numbers as [channels], [positions, channels], [height, width, channels] or [depth,
    height, width, channels]. A picture [H, W, C] becomes a sequence of its pixels, row by row:
    reshape(x, H * W, C). Another number of elements is an error."""
    if not 1 <= len(shape) <= 4:
        raise InvalidInput(f"reshape wants one to four sizes, not {len(shape)}")
    depth, height, width, channels = (0, 0, 0, *shape)[-4:]
    return op("reshape", x, name=name, depth=depth, height=height, width=width, channels=channels)


def slice(x: Var, first: int, channels: int, *, name: str = "") -> Var:
    """Channels from `first` on."""
    return op("slice", x, name=name, first=first, channels=channels)


def flatten(x: Var, *, name: str = "") -> Var:
    """[height, width, channels], or [depth, ...], to one vector of all numbers."""
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
