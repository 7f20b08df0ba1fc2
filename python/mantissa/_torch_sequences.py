"""More of the operators: sequences, and grids with a trained range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ._torch_operators import Layer, operator


@operator("embedding")
def embedding(layer: Layer, tokens: Tensor, rows: int, channels: int) -> Tensor:
    return functional.embedding(tokens, layer["weights"])


@operator("position_embedding")
def position_embedding(layer: Layer, x: Tensor, positions: int) -> Tensor:
    return x + layer["weights"][:x.shape[-2]]


@operator("prepend_rows")
def prepend_rows(layer: Layer, x: Tensor, rows: int = 1) -> Tensor:
    table = layer["weights"].expand(*x.shape[:-2], *layer["weights"].shape)
    return torch.cat((table, x), -2)


def _places(x: Tensor, positions: int, rows: Sequence[int], given: Tensor | None) -> Tensor:
    """The place of each row, [examples, rows]; `positions` for a row that has none."""
    places = torch.tensor(list(rows), device=x.device) if given is None else given.long()
    places = places.expand(len(x), -1)
    return places.masked_fill((places < 0) | (places >= positions), positions)


def _with_zeros(x: Tensor) -> Tensor:
    """A row of zeros behind the positions."""
    return functional.pad(x, (0, 0, 0, 1))


def _taken(x: Tensor, places: Tensor) -> Tensor:
    """The rows of [examples, ..., positions, C] at places of each example."""
    shape = (len(x), *[1] * (x.dim() - 3), -1, 1)
    return x.gather(-2, places.reshape(shape).expand(*x.shape[:-2], -1, x.shape[-1]))


@operator("gather_rows")
def gather_rows(layer: Layer, x: Tensor, given: Tensor | None = None,
                rows: Sequence[int] = ()) -> Tensor:
    return _taken(_with_zeros(x), _places(x, x.shape[-2], rows, given))


@operator("scatter_rows")
def scatter_rows(layer: Layer, x: Tensor, given: Tensor | None = None, positions: int = 1,
                 rows: Sequence[int] = ()) -> Tensor:
    """Of several rows of a place the last stays."""
    places = _places(x, positions, rows, given)
    is_here = places[:, None] == torch.arange(positions, device=x.device)[:, None]
    numbers = torch.arange(1, x.shape[-2] + 1, device=x.device)
    last = (is_here * numbers).amax(-1) - 1  # [examples, positions]
    return _taken(_with_zeros(x), last.masked_fill(last < 0, x.shape[-2]))


def _angles(x: Tensor, pairs: int, base: float) -> Tensor:
    """In radians, [positions, pairs]."""
    rate = base ** (-torch.arange(pairs, dtype=torch.float64, device=x.device) / pairs)
    return torch.arange(x.shape[-2], dtype=torch.float64, device=x.device)[:, None] * rate


@operator("sinusoidal_positions")
def sinusoidal_positions(layer: Layer, x: Tensor, base: float = 10000.0,
                         interleaved: bool = True) -> Tensor:
    angles = _angles(x, x.shape[-1] // 2, base)
    both = (torch.stack((angles.sin(), angles.cos()), -1).flatten(-2) if interleaved
            else torch.cat((angles.sin(), angles.cos()), -1))
    return x + both.to(x.dtype)


@operator("rotary")
def rotary(layer: Layer, x: Tensor, heads: int = 1, channels: int = 0, base: float = 10000.0,
           interleaved: bool = False, factors: Sequence[int] = ()) -> Tensor:
    by_head = x.unflatten(-1, (heads, -1))  # [..., positions, heads, channels of a head]
    turned = channels or by_head.shape[-1]
    angles = _angles(x, turned // 2, base)[:, None]
    if factors:
        angles = angles / (torch.tensor(factors, dtype=torch.float64, device=x.device) / 2 ** 23)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    part, rest = by_head[..., :turned], by_head[..., turned:]
    first, second = ((part[..., ::2], part[..., 1::2]) if interleaved
                     else part.tensor_split(2, -1))
    results = (first * cosine - second * sine, first * sine + second * cosine)
    both = torch.stack(results, -1).flatten(-2) if interleaved else torch.cat(results, -1)
    return torch.cat((both, rest), -1).flatten(-2)


def _distances(query: Tensor, key: Tensor, width: int, height: int) -> Tensor:
    """The place of the bias of each query and key, whose positions are row by row in a picture."""
    def number(position: Any) -> Any:
        return position // width * (2 * width - 1) + position % width

    distances: Tensor = number(query) - number(key) + number(width * height - 1)
    return distances


@operator("attention")
def attention(layer: Layer, queries: Tensor, keys: Tensor, values: Tensor,
              lengths: Tensor | None = None, heads: int = 1, kv_heads: int = 0,
              causal: bool = False, cross: bool = False, window: int = 0, bias_width: int = 0,
              bias_height: int = 1) -> Tensor:
    """Queries, keys and values [..., positions, C]. `lengths`: how many positions are no padding."""
    def of_heads(x: Tensor, count: int) -> Tensor:
        split = x.unflatten(-1, (count, -1)).transpose(-2, -3)
        return split.repeat_interleave(heads // count, -3)

    q, k, v = (of_heads(queries, heads), of_heads(keys, kv_heads or heads),
               of_heads(values, kv_heads or heads))
    query = torch.arange(q.shape[-2], device=q.device)[:, None]
    key = torch.arange(k.shape[-2], device=q.device)
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    if causal:
        seen = seen & (key <= query)
    if window:
        seen = seen & (key > query - window) & (key < query + window)
    if lengths is not None:
        length = lengths.reshape(-1, *[1] * (q.dim() - 1))
        seen = seen & (key < length)
        if not cross:
            seen = seen & (query < length)
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    if bias_width:
        scores = scores + layer["bias"][:, _distances(query, key, bias_width, bias_height)]
    # A query that sees no key has a result of zeros.
    shares = scores.masked_fill(~seen, -torch.inf).softmax(-1).masked_fill(~seen, 0)
    return (shares @ v).transpose(-2, -3).flatten(-2)


def _steps(layer: Layer, gates: Tensor, lengths: Tensor | None, start: Tensor | None,
           cell: Tensor | None, step: Any) -> Tensor:
    """h of each step. Padding has the state of the last step before it."""
    channels = layer["weights"].shape[1]
    rows = gates.flatten(0, -3)  # [sequences, positions, gates * channels]
    h = rows.new_zeros(len(rows), channels) if start is None else start
    c = rows.new_zeros(len(rows), channels) if cell is None else cell
    found = []
    for t in range(rows.shape[1]):
        new_h, new_c = step(rows[:, t], functional.linear(h, layer["weights"]), h, c)
        if lengths is not None:
            goes_on = (t < lengths.reshape(-1))[:, None]
            new_h, new_c = torch.where(goes_on, new_h, h), torch.where(goes_on, new_c, c)
        h, c = new_h, new_c
        found.append(h)
    return torch.stack(found, 1).reshape(*gates.shape[:-1], channels)


@operator("rnn")
def rnn(layer: Layer, gates: Tensor, lengths: Tensor | None = None,
        start: Tensor | None = None) -> Tensor:
    def step(x: Tensor, s: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(x + s), c
    return _steps(layer, gates, lengths, start, None, step)


@operator("gru")
def gru(layer: Layer, gates: Tensor, lengths: Tensor | None = None,
        start: Tensor | None = None) -> Tensor:
    def step(x: Tensor, s: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        (xr, xz, xn), (sr, sz, sn) = x.tensor_split(3, -1), s.tensor_split(3, -1)
        reset, update = torch.sigmoid(xr + sr), torch.sigmoid(xz + sz)
        new = torch.tanh(xn + reset * (sn + layer["bias"]))
        return (1 - update) * new + update * h, c
    return _steps(layer, gates, lengths, start, None, step)


@operator("lstm")
def lstm(layer: Layer, gates: Tensor, lengths: Tensor | None = None, start: Tensor | None = None,
         cell: Tensor | None = None, peepholes: bool = False) -> Tensor:
    def step(x: Tensor, s: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (x + s).tensor_split(4, -1)
        if peepholes:
            of_i, of_f, of_o = layer["peepholes"]
            i, f = i + of_i * c, f + of_f * c
        new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        if peepholes:
            o = o + of_o * new
        return torch.sigmoid(o) * torch.tanh(new), new
    return _steps(layer, gates, lengths, start, cell, step)


# --- grids with a trained range -----------------------------------------------------------------


class _Quantise(torch.autograd.Function):
    """u * unit of the grid, with the gradients of docs/operators.md."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, range_: Tensor, offset: Tensor | None, levels: int,
                signed: bool, unit: float, learns: str) -> Tensor:
        size = range_.clamp(min=torch.finfo(torch.float32).tiny)
        place = x * levels / size
        low = place.new_tensor(float(-levels if signed else 0))
        if offset is not None:
            low = (offset * levels / size).round().clamp(-levels, 0)
        high = low.new_tensor(float(levels)) if signed else low + levels
        ctx.save_for_backward(place, size, low, high)
        ctx.of_grid = levels, unit, learns, offset is not None
        return torch.minimum(torch.maximum(place.round(), low), high) * unit

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        place, size, low, high = ctx.saved_tensors
        levels, unit, learns, has_offset = ctx.of_grid
        grad = grads[0]
        above = place >= high if learns == "pact" else place > high
        below = place <= low if learns == "half-wave" else place < low
        within = ~(above | below)
        error = place.round().clamp(min=low, max=high) - place if learns == "lsq" else 0 * place
        factor = torch.where(above, float(levels), torch.where(
            below, place.new_tensor(0.0) if has_offset else low, error))
        of_range = (grad * factor).sum().reshape(1) * unit / size
        of_offset = (grad * ~within).sum().reshape(1) * levels * unit / size if has_offset else None
        return (grad * within * (levels * unit / size), of_range, of_offset, None, None, None, None)


def _levels(bits: int, signed: bool) -> int:
    return 2 ** (bits - 1) - 1 if signed else 2 ** bits - 1


@operator("quantise")
def quantise(layer: Layer, x: Tensor, bits: int, exponent: int, signed: bool = False,
             offset: bool = False, learns: str = "lsq", channels: int = 0) -> Tensor:
    result: Tensor = _Quantise.apply(
        x, layer["range"], layer.get("offset") if offset else None, _levels(bits, signed), signed,
        2.0 ** exponent, learns)
    return result


@operator("rescale")
def rescale(layer: Layer, x: Tensor, bits: int = 0, exponent: int = 0, signed: bool = False,
            offset: bool = False, learns: str = "lsq", channels: int = 0) -> Tensor:
    """The range has its gradient from `quantise` alone."""
    scale = layer["scale"]
    if bits:
        scale = scale * (layer["range"].detach() / (_levels(bits, signed) * 2.0 ** exponent))
    return x * scale + layer["bias"]
