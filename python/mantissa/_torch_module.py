"""Networks as modules of PyTorch: an interpreter of the network's graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from . import _core, _torch_sequences  # noqa: F401  (registers operators)
from ._torch_operators import OPERATORS, WITHOUT_EFFECT, Layer
from .errors import InvalidInput
from .model import Model, _folder
from .network import Network
from .trainer import Trainer

_STATISTICS = ("running_mean", "running_variance")
_FOLDED = ("batch norms of a frozen network are folded: give the run's folder, a checkpoint or a "
           "Trainer")


class _Part(nn.Module):
    """Holds the parameters whose names begin alike: "stem.weights" is `weights` of the part
    "stem". Names of layers may be names of methods, so parts are found in the dictionaries."""

    def part(self, name: str) -> _Part:
        part = self._modules.get(name)
        if part is None:
            part = self._modules[name] = _Part()
        assert isinstance(part, _Part)
        return part

    def tensor(self, path: list[str]) -> Tensor:
        holder: Any = self
        for name in path[:-1]:
            holder = holder._modules[name]
        found = holder._parameters.get(path[-1])
        return holder._buffers[path[-1]] if found is None else found


class NetworkModule(_Part):
    """A network with its trained numbers, mantissa * 2^exponent, in float32. `state_dict()` has the
    names and shapes of the network's parameters, as Trainer.state_dict() does. Losses are left
    out.

    forward takes the inputs that the outputs need, in the network's order, as tensors of its shapes:
    pictures are [examples, height, width, channels], pixels 0 to 255; numbers are real numbers;
    indices are whole numbers. It returns the output, or a tuple of them. In training mode batch norm
    uses the batch and moves its running statistics, and dropout drops.
    """

    def __init__(self, network: Network, numbers: Callable[[str], Any]):
        super().__init__()
        self.network_json = network.to_json()
        nodes = {node["name"]: node for node in network.nodes}
        self._nodes, self._inputs = _needed(nodes, _outputs(network))
        self._outputs = _outputs(network)
        names = [one.name for one in network.parameters]
        self._names = {node["name"]: _parameters_of(_owner(node, nodes), names)
                       for node in self._nodes}
        of_nodes = {name for found in self._names.values() for name in found.values()}
        for one in network.parameters:
            if one.name in of_nodes:
                self._hold(one.name, torch.tensor(numbers(one.name), dtype=torch.float32),
                           one.trained)

    def _hold(self, name: str, numbers: Tensor, trained: bool) -> None:
        *path, last = name.split(".")
        holder: _Part = self
        for part in path:
            holder = holder.part(part)
        if last in _STATISTICS:
            holder._buffers[last] = numbers
        else:
            holder._parameters[last] = nn.Parameter(numbers, requires_grad=trained)

    def forward(self, *inputs: Tensor) -> Any:
        if len(inputs) != len(self._inputs):
            raise InvalidInput(f"the network takes {len(self._inputs)} inputs "
                               f"({', '.join(self._inputs)}), and there are {len(inputs)}")
        values: dict[str, Tensor] = dict(zip(self._inputs, inputs))
        dtype = next((one.dtype for one in self.parameters()), torch.float32)
        for node in self._nodes:
            tensors = {last: self.tensor(name.split("."))
                       for last, name in self._names[node["name"]].items()}
            values[node["name"]] = OPERATORS[node["op"]](
                Layer(tensors, self.training, dtype), *(values[name] for name in node["inputs"]),
                **_attributes(node))
        outputs = tuple(values[name] for name in self._outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def extra_repr(self) -> str:
        return f"{len(self._nodes)} operators from {', '.join(self._inputs)}"


def to_module(source: Trainer | Model | Network | str | os.PathLike[str]) -> NetworkModule:
    """A module of PyTorch that computes what a trained network computes, in float, to go on with
    there. `source`: a Trainer; a Model; a Network that has weights (Network.from_trained); or a
    path: a run's folder, a checkpoint, model.safetensors, or an ONNX model.

        >>> module = mt.torch.to_module("runs/a")
        >>> module.train()(pixels).sum().backward()
        >>> trainer.load_state_dict(module.state_dict())    # and back

    Batch norms of frozen models are folded, and that form is refused: give the run's folder or a
    checkpoint.
    """
    if isinstance(source, Trainer):
        return NetworkModule(source.network, source.values)
    if isinstance(source, Model):
        with _folder() as folder:
            path = os.path.join(folder, "model.safetensors")
            source.save(path)
            return _from_path(path)
    if isinstance(source, Network):
        if source._trained is None:
            raise InvalidInput("to_module: this network has no weights; a Trainer of it has")
        return NetworkModule(source, source._trained.parameter)
    return _from_path(os.fspath(source))


def _from_path(path: str) -> NetworkModule:
    trained = _core.TrainedParameters.read(path)

    def numbers(name: str) -> Any:
        try:
            return trained.parameter(name)
        except InvalidInput as error:
            raise InvalidInput(f"to_module: {error}; {_FOLDED}") from None
    return NetworkModule(Network._of(trained.network()), numbers)


def _outputs(network: Network) -> list[str]:
    import json

    outputs: list[str] = json.loads(network.to_json())["outputs"]
    return outputs


def _needed(nodes: dict[str, Any], outputs: list[str]) -> tuple[list[Any], list[str]]:
    """The nodes that the outputs come from, in their order, and the inputs among them."""
    needed, open_names = set(), list(outputs)
    while open_names:
        name = open_names.pop()
        if name in needed:
            continue
        if name not in nodes:
            raise InvalidInput(f"to_module: '{name}' is a further result of a node, and such "
                               "operators have no form in PyTorch here")
        needed.add(name)
        open_names.extend(nodes[name].get("inputs", []))
    found = [node for node in nodes.values() if node["name"] in needed]
    for node in found:
        if node["op"] == "input":
            continue
        if node["op"] not in OPERATORS:
            raise InvalidInput(_refusal(node))
        unknown = set(_attributes(node)) - set(signature(OPERATORS[node["op"]]).parameters)
        if unknown:
            raise InvalidInput(f"to_module: node '{node['name']}': '{min(unknown)}' of the operator "
                               f"'{node['op']}' has no form in PyTorch here")
    return ([node for node in found if node["op"] != "input"],
            [node["name"] for node in found if node["op"] == "input"])


def _refusal(node: dict[str, Any]) -> str:
    text = f"to_module: node '{node['name']}': the operator '{node['op']}' has no form in PyTorch"
    if node["op"].startswith(("rescaled", "scale_offset", "add_half_up", "widen")):
        text += f"; {_FOLDED}"
    return text


def _owner(node: dict[str, Any], nodes: dict[str, Any]) -> str:
    """The node whose parameters a node uses."""
    while "shares" in node:
        node = nodes[node["shares"]]
    return str(node["name"])


def _parameters_of(owner: str, names: list[str]) -> dict[str, str]:
    """Last names of a node's parameters, and their whole names."""
    parts = [name.rpartition(".") for name in names]
    return {last: f"{node}.{last}" for node, _, last in parts if node == owner}


def _attributes(node: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in node.get("attributes", {}).items()
            if name not in WITHOUT_EFFECT}
