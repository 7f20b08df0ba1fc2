"""Values of a network: inputs, and the results of operators."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast

from . import _core
from .errors import InvalidInput

Setting = Union[bool, int, float, str, Sequence[int]]
_order = itertools.count()


@dataclass(frozen=True, eq=False)
class Node:
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
    node: Node
    result: int = 0
    is_index: bool = False

    def __add__(self, other: Var) -> Var:
        return op("add", self, other)

    def __sub__(self, other: Var) -> Var:
        return op("subtract", self, other)

    def __mul__(self, other: Var) -> Var:
        return op("multiply", self, other)

    def __repr__(self) -> str:
        return f"<{self.node.name or self.node.op} {list(self.shape)}>"


# --- inputs ---------------------------------------------------------------------------------------


def _input(kind: str, shape: Sequence[int], name: str, **settings: Setting) -> Var:
    node = Node(kind, (), {**settings, "shape": tuple(shape)}, name)
    add_node(_core.Builder(name), node, {})  # raises where it cannot be
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
    return _input("numbers", shape, name, exponent=exponent_of("numbers", largest, exponent))


def exponent_of(what: str, largest: float | None, exponent: int | None) -> int:
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
    node = Node(kind, inputs, settings, name, shares)
    return tuple(Var(shape, node, i) for i, shape in enumerate(_shapes_of(node)))


def _shapes_of(node: Node) -> list[tuple[int, ...]]:
    """Shapes of the results: the engine's, of a network that has this layer alone."""
    builder = _core.Builder(node.name or node.op)
    places = []
    for i, value in enumerate(node.inputs):
        dims = list(value.shape)
        places.append(builder.indices(f"input{i}", dims) if value.is_index
                      else builder.numbers(f"input{i}", dims, 0))
    results = builder.add(node.op, places, plain_settings(node.settings), node.name, -1)
    return [tuple(builder.dims(result)) for result in results]


def plain_settings(settings: Mapping[str, Setting]) -> dict[str, Any]:
    def plain(value: Setting) -> Any:
        if isinstance(value, (bool, int)):
            return int(value)
        return value if isinstance(value, (float, str)) else list(value)
    return {name: plain(value) for name, value in settings.items()}


def add_node(builder: _core.Builder, node: Node, results: Mapping[int, list[int]]) -> list[int]:
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
    return builder.add(node.op, inputs, plain_settings(settings), node.name, shares)
