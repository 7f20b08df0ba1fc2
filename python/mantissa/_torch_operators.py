"""The operators of docs/operators.md in PyTorch, with its float arithmetic. Values lie as in the
network: [examples, depth, height, width, channels], [examples, height, width, channels],
[examples, positions, channels] or [examples, features].

Each function takes the node's Layer, its inputs, and its attributes by name, whose defaults are the
engine's. A parameter that an operator lacks is None.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# Attributes that change no number here: how weights start, and bits of mantissas.
WITHOUT_EFFECT = frozenset(
    {"classifier", "initialiser", "input_bits", "least_bits", "probabilities", "weight_bits",
     "weight_exponent", "weight_range", "weight_tanh", "weight_stops", "zero_scale", "room"})


@dataclass
class Layer:
    """A node while it computes: its parameters by their last names, the mode, and the type that
    inputs of numbers get."""

    tensors: dict[str, Tensor]
    training: bool
    dtype: torch.dtype

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def get(self, name: str) -> Tensor | None:
        return self.tensors.get(name)


Operator = Callable[..., Tensor]
OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function
    return register


def plain(function: Callable[[Tensor], Tensor]) -> Operator:
    return lambda layer, x: function(x)


OPERATORS.update({
    "identity": plain(lambda x: x), "requantise": plain(lambda x: x),
    "relu": plain(functional.relu), "norm_relu": plain(functional.relu),
    "relu6": plain(functional.relu6), "sigmoid": plain(torch.sigmoid), "tanh": plain(torch.tanh),
    "hard_sigmoid": plain(functional.hardsigmoid), "hard_swish": plain(functional.hardswish),
    "gelu": plain(functional.gelu), "silu": plain(functional.silu),
    "gelu_tanh": plain(lambda x: functional.gelu(x, approximate="tanh")),
    "softplus": plain(functional.softplus), "mish": plain(functional.mish),
    "flatten": plain(lambda x: x.flatten(1)), "reverse": plain(lambda x: x.flip(-2)),
    "add": lambda layer, a, b: a + b, "subtract": lambda layer, a, b: a - b,
    "concat": lambda layer, *parts: torch.cat(parts, -1),
    "concat_positions": lambda layer, *parts: torch.cat(parts, -2),
    "quantise_input": lambda layer, x: x.to(layer.dtype),
})


# --- images and sequences -----------------------------------------------------------------------


def _axes(x: Tensor, height: Any, width: Any) -> list[Any]:
    """A setting for each axis of positions: sequences have that of the height alone."""
    return [height] if x.dim() == 3 else [height, width]


def _first(x: Tensor) -> Tensor:
    """Channels in front, as PyTorch's convolutions and windows have them."""
    return x.movedim(-1, 1)


def _last(x: Tensor) -> Tensor:
    return x.movedim(1, -1)


def per_image(function: Operator) -> Operator:
    """The images of volumes one by one: [examples * depth, height, width, channels]."""
    @functools.wraps(function)
    def run(layer: Layer, x: Tensor, *arguments: Any, **settings: Any) -> Tensor:
        if x.dim() != 5 or settings.get("over") == "depth":
            return function(layer, x, *arguments, **settings)
        return function(layer, x.flatten(0, 1), *arguments, **settings).unflatten(0, x.shape[:2])
    return run


def _over_depth(run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A function of [examples, channels, depth], of each pixel of volumes."""
    moved = x.movedim(1, -1)
    return run(moved.flatten(1, 3)).unflatten(1, moved.shape[1:4]).movedim(-1, 1)


def _kernel(x: Tensor, weights: Tensor) -> Tensor:
    """[O, KH, KW, C] as [O, C, KH, KW]; of sequences [O, 1, K, C] as [O, C, K]."""
    moved = weights.movedim(-1, 1)
    return moved.squeeze(2) if x.dim() == 3 else moved


@operator("normalise_input")
def normalise_input(layer: Layer, x: Tensor, means: Sequence[int] = (),
                    fraction_bits: int = 0) -> Tensor:
    mean = torch.tensor(list(means) or [0], dtype=layer.dtype, device=x.device)
    return (x.to(layer.dtype) - mean * 2.0 ** -fraction_bits) / 64


@operator("linear")
def linear(layer: Layer, x: Tensor, channels: int, bias: bool = True) -> Tensor:
    return functional.linear(x, layer["weights"], layer.get("bias"))


@operator("convolution")
@per_image
def convolution(layer: Layer, x: Tensor, channels: int, kernel: int = 3, stride: int = 1,
                padding: int = 0, groups: int = 1, dilation: int = 1, bias: bool = True,
                kernel_width: int = 0, stride_width: int = 0, padding_width: int = -1,
                causal: bool = False) -> Tensor:
    strides = _axes(x, stride, stride_width or stride)
    paddings = _axes(x, padding, padding if padding_width < 0 else padding_width)
    moved = _first(x)
    if causal:
        moved = functional.pad(moved, ((kernel - 1) * dilation, 0))
    run: Any = functional.conv1d if x.dim() == 3 else functional.conv2d
    return _last(run(moved, _kernel(x, layer["weights"]), layer.get("bias"), strides, paddings,
                     dilation, groups))


@operator("transposed_convolution")
@per_image
def transposed_convolution(layer: Layer, x: Tensor, channels: int, kernel: int = 2, stride: int = 2,
                           padding: int = 0, output_padding: int = 0, groups: int = 1,
                           bias: bool = True, kernel_width: int = 0, stride_width: int = 0,
                           padding_width: int = -1, output_padding_width: int = -1) -> Tensor:
    strides = _axes(x, stride, stride_width or stride)
    paddings = _axes(x, padding, padding if padding_width < 0 else padding_width)
    outputs = _axes(x, output_padding,
                    output_padding if output_padding_width < 0 else output_padding_width)
    run: Any = functional.conv_transpose1d if x.dim() == 3 else functional.conv_transpose2d
    # [O, C / groups, ...] as [C, O / groups, ...].
    weights = _kernel(x, layer["weights"]).unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    return _last(run(_first(x), weights, layer.get("bias"), strides, paddings, outputs, groups))


def _windows(x: Tensor, window: int, stride: int, padding: int, window_width: int,
             stride_width: int, padding_width: int) -> tuple[list[int], list[int], list[int]]:
    return (_axes(x, window, window_width or window),
            _axes(x, stride or window, stride_width or stride or window_width or window),
            _axes(x, padding, padding if padding_width < 0 else padding_width))


@operator("max_pool", "overlapping_max_pool")
@per_image
def max_pool(layer: Layer, x: Tensor, window: int = 2, stride: int = 0, padding: int = 0,
             ceil: bool = False, window_width: int = 0, stride_width: int = 0,
             padding_width: int = -1, over: str = "image") -> Tensor:
    if over == "depth":
        return _over_depth(lambda y: functional.max_pool1d(y, window, stride or window, padding,
                                                           ceil_mode=ceil), x)
    run: Any = functional.max_pool1d if x.dim() == 3 else functional.max_pool2d
    sizes = _windows(x, window, stride, padding, window_width, stride_width, padding_width)
    return _last(run(_first(x), *sizes, ceil_mode=ceil))


@operator("average_pool", "exact_average_pool")
@per_image
def average_pool(layer: Layer, x: Tensor, window: int = 2, stride: int = 0, padding: int = 0,
                 ceil: bool = False, count_padding: bool = True, window_width: int = 0,
                 stride_width: int = 0, padding_width: int = -1, over: str = "image") -> Tensor:
    if over == "depth":
        return _over_depth(lambda y: functional.avg_pool1d(y, window, stride or window, padding,
                                                           ceil, count_padding), x)
    run: Any = functional.avg_pool1d if x.dim() == 3 else functional.avg_pool2d
    sizes = _windows(x, window, stride, padding, window_width, stride_width, padding_width)
    return _last(run(_first(x), *sizes, ceil, count_padding))


@operator("global_average_pool", "rescaled_global_average")
def global_average_pool(layer: Layer, x: Tensor) -> Tensor:
    return x.flatten(1, -2).mean(1)


def _reduced(x: Tensor, over: str) -> tuple[Tensor, int, bool]:
    """The value, the axis to reduce, and whether it stays."""
    if over == "positions":
        return x.flatten(1, -2), 1, False
    return x, {"height": 1, "width": 2, "channels": -1}[over], True


@operator("reduce_max")
def reduce_max(layer: Layer, x: Tensor, over: str = "positions") -> Tensor:
    value, axis, stays = _reduced(x, over)
    return value.max(axis, keepdim=stays).values


@operator("reduce_mean")
def reduce_mean(layer: Layer, x: Tensor, over: str = "positions") -> Tensor:
    value, axis, stays = _reduced(x, over)
    return value.mean(axis, keepdim=stays)


@operator("reduce_sum")
def reduce_sum(layer: Layer, x: Tensor, over: str = "positions") -> Tensor:
    value, axis, stays = _reduced(x, over)
    return value.sum(axis, keepdim=stays)


@operator("softmax")
def softmax(layer: Layer, x: Tensor, over: str = "channels") -> Tensor:
    value, axis, _ = _reduced(x, over)
    return value.softmax(axis).reshape(x.shape)


@operator("upsample")
@per_image
def upsample(layer: Layer, x: Tensor, factor: int = 2, factor_width: int = 0) -> Tensor:
    for axis, times in enumerate(_axes(x, factor, factor_width or factor), 1):
        x = x.repeat_interleave(times, axis)
    return x


@operator("bilinear_resize")
@per_image
def bilinear_resize(layer: Layer, x: Tensor, width: int, height: int = 0,
                    align_corners: bool = False) -> Tensor:
    size, mode = ([width], "linear") if x.dim() == 3 else ([height, width], "bilinear")
    return _last(functional.interpolate(_first(x), size, mode=mode, align_corners=align_corners))


@operator("pad")
@per_image
def pad(layer: Layer, x: Tensor, top: int = 0, bottom: int = 0, left: int = 0,
        right: int = 0) -> Tensor:
    return functional.pad(x, (0, 0, left, right, top, bottom))


@operator("reshape")
def reshape(layer: Layer, x: Tensor, channels: int, depth: int = 0, height: int = 0,
            width: int = 0) -> Tensor:
    return x.reshape(len(x), *(size for size in (depth, height, width, channels) if size))


@operator("depth_taps")
def depth_taps(layer: Layer, x: Tensor, kernel: int = 3, stride: int = 1, padding: int = 0,
               dilation: int = 1, padding_end: int = -1) -> Tensor:
    """The taps of each channel as channels, one after the other."""
    behind = padding if padding_end < 0 else padding_end
    padded = functional.pad(x, (0, 0, 0, 0, 0, 0, padding, behind))
    results = (padded.shape[1] - 1 - (kernel - 1) * dilation) // stride + 1
    taps = [padded[:, tap * dilation:][:, :(results - 1) * stride + 1:stride]
            for tap in range(kernel)]
    return torch.stack(taps, -1).flatten(-2)


@operator("slice")
def slice_channels(layer: Layer, x: Tensor, channels: int, first: int = 0,
                   position: int = -1) -> Tensor:
    part = x[..., first:first + channels]
    return part if position < 0 else part[..., position, :]


@operator("channel_shuffle")
def channel_shuffle(layer: Layer, x: Tensor, groups: int = 1) -> Tensor:
    return x.unflatten(-1, (groups, -1)).transpose(-1, -2).flatten(-2)


@operator("multiply")
def multiply(layer: Layer, a: Tensor, b: Tensor) -> Tensor:
    """b has a's shape, or a factor for each channel."""
    return a * b.reshape(len(b), *[1] * (a.dim() - b.dim()), *b.shape[1:])


# --- functions and norms ------------------------------------------------------------------------


@operator("leaky_relu")
def leaky_relu(layer: Layer, x: Tensor, slope: float = 0.01) -> Tensor:
    return functional.leaky_relu(x, slope)


@operator("elu")
def elu(layer: Layer, x: Tensor, alpha: float = 1.0) -> Tensor:
    return functional.elu(x, alpha)


@operator("scale")
def scale(layer: Layer, x: Tensor, factor: float = 1.0) -> Tensor:
    return x * factor


@operator("prelu")
def prelu(layer: Layer, x: Tensor, shared: bool = False) -> Tensor:
    return torch.where(x > 0, x, x * layer["slope"])


@operator("dropout")
def dropout(layer: Layer, x: Tensor, probability: float = 0.5) -> Tensor:
    return functional.dropout(x, round(probability * 65536) / 65536, layer.training)


@operator("batch_norm", "batch_norm_inverted")
def batch_norm(layer: Layer, x: Tensor) -> Tensor:
    return _last(functional.batch_norm(_first(x), layer["running_mean"], layer["running_variance"],
                                       layer["scale"], layer["offset"], layer.training))


@operator("group_norm")
def group_norm(layer: Layer, x: Tensor, groups: int = 1, epsilon: float = 1e-5) -> Tensor:
    return _last(functional.group_norm(_first(x), groups, layer["scale"], layer["offset"], epsilon))


@operator("layer_norm")
def layer_norm(layer: Layer, x: Tensor, epsilon: float = 1e-5, heads: int = 1) -> Tensor:
    parts = x.unflatten(-1, (heads, -1))
    return functional.layer_norm(parts, parts.shape[-1:], layer["scale"], layer["offset"],
                                 epsilon).flatten(-2)


@operator("rms_norm")
def rms_norm(layer: Layer, x: Tensor, epsilon: float = 1e-5, heads: int = 1) -> Tensor:
    parts = x.unflatten(-1, (heads, -1))
    return functional.rms_norm(parts, parts.shape[-1:], layer["scale"], epsilon).flatten(-2)
