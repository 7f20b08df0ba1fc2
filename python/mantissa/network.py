"""Your own networks: values, operators that compute values from values, and networks.

    >>> import mantissa as mt
    >>> image = mt.input(8, 8, 1)
    >>> h = mt.relu(mt.batch_norm(mt.conv(image, 16)))
    >>> net = mt.Network(mt.linear(mt.global_average_pool(h), 10), name="digits")

Shapes are for one example, without the batch. An operator that does not fit its inputs raises
InvalidInput when it is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from .errors import InvalidInput
from .losses import Loss, cross_entropy, sigmoid_cross_entropy
from .values import Node, Var, add_node


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

    @classmethod
    def _of(cls, core: _core.Network, trained: _core.TrainedParameters | None = None) -> Network:
        network = cls.__new__(cls)
        network._core = core
        network._trained = trained
        return network

    def with_loss(self, loss: Callable[[Var], Loss]) -> Network:
        """The same network, with its weights if it has any, and another loss of the first output:
        `network.with_loss(mt.soft_cross_entropy)`."""
        builder = _core.Builder.of(self._core)
        outputs = builder.outputs()
        result = Var(tuple(builder.dims(outputs[0])), Node("output", (), {}, "output"))
        _add_loss(builder, loss(result), outputs[0])
        return Network._of(builder.finish(outputs), self._trained)

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
        results[node.order] = add_node(builder, node, results)

    def place(value: Var) -> int:
        return results[value.node.order][value.result]

    for loss in losses:
        _add_loss(builder, loss, place(loss.result))
    return builder.finish([place(output) for output in outputs])


def _add_loss(builder: _core.Builder, loss: Loss, result: int) -> None:
    if loss.factor != 1:
        builder.loss_weight(loss.target, loss.factor)
    if loss.kind == "cross_entropy":
        builder.cross_entropy(result, loss.target, loss.label_smoothing, loss.weights)
    elif loss.kind == "sigmoid_cross_entropy":
        builder.sigmoid_cross_entropy(result, loss.target, loss.by_output, loss.ordinal,
                                      loss.label_smoothing, loss.focal, loss.positive_weights,
                                      loss.weights)
    elif loss.kind == "soft_cross_entropy":
        builder.soft_cross_entropy(result, loss.target, loss.weights)
    elif loss.kind == "distilled_cross_entropy":
        builder.distilled_cross_entropy(result, loss.target, loss.teacher, loss.temperature,
                                        loss.teacher_weight, loss.weights)
    elif loss.kind == "dice":
        builder.dice(result, loss.target, loss.smooth, loss.cross_entropy, loss.weights)
    elif loss.kind == "contrastive":
        builder.contrastive(result, loss.target, loss.temperature)
    elif loss.kind == "triplet":
        builder.triplet(result, loss.target, loss.margin, loss.mining)
    elif loss.kind == "ctc":
        builder.ctc(result, loss.target, loss.most_labels, loss.blank, loss.lengths)
    else:
        builder.number_error(result, loss.target, loss.exponent, loss.penalty, loss.delta,
                             loss.weights)


def _nodes_before(values: Sequence[Var]) -> list[Node]:
    """All nodes that the values come from, in the order in which they were made."""
    found: dict[int, Node] = {}
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
