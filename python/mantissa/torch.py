"""Networks of PyTorch, with their weights, and networks as modules of PyTorch."""

from __future__ import annotations

import contextlib
import copy
import os
import random
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ._torch_module import NetworkModule, to_module
from .commands import Imported, import_onnx
from .errors import InvalidInput

__all__ = ["NetworkModule", "from_module", "to_module"]


def from_module(module: torch.nn.Module, example: Any, *, opset: int = 17,
                **settings: Any) -> Imported:
    """The network and weights of a module, through ONNX. `example` is an input, or a tuple of them, as
    the module takes it: pictures are [1, channels, height, width]. Takes the settings of
    `mantissa import`, such as `classes=10`, `input_mean="0.5"`.

        >>> net = mt.torch.from_module(torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224)).network

    PyTorch runs a copy of the module on the example: the module, its buffers and the random numbers stay
    as they are. The older exporter of PyTorch writes the file, with batch norms and dropout as
    layers: the default one folds batch norms into convolutions, and they could not be trained.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), _same_random_state():
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "module.onnx")
        torch.onnx.export(_copy_for_export(module), _copy_of(example), path, dynamo=False,
                          opset_version=opset, training=torch.onnx.TrainingMode.PRESERVE,
                          do_constant_folding=False)
        return import_onnx(path, **settings)


def _copy_for_export(module: torch.nn.Module) -> torch.nn.Module:
    """A copy in training mode, so that dropout is exported. A run does not change it."""
    memo: dict[int, Any] = {id(value): value.detach().clone() for part in module.modules()
                            for value in vars(part).values()
                            if isinstance(value, torch.Tensor) and not value.is_leaf}
    try:
        copied = copy.deepcopy(module, memo)
    except Exception as error:  # whatever the module holds
        raise InvalidInput(f"from_module runs a copy of the module, and it cannot be copied: {error}"
                           ) from error
    copied.train()
    for part in copied.modules():
        # Batch norm uses its running statistics: training would shift them, and one pixel has no
        # deviation.
        if isinstance(part, _BatchNorm) and part.running_mean is not None:
            part.eval()
    if not isinstance(copied, torch.jit.ScriptModule):
        copied.register_forward_hook(_restore(copied))
    return copied


def _restore(module: torch.nn.Module) -> Any:
    """Restores the parameters and buffers of a module after a run, before the exporter reads
    them."""
    def content(tensor: Any) -> Any:
        return None if tensor is None else tensor.untyped_storage().clone()

    held: list[Any] = [(tensors, name, tensor, content(tensor)) for part in module.modules()
                       for tensors in (part._parameters, part._buffers)
                       for name, tensor in tensors.items()]

    def restore(*_: Any) -> None:
        for tensors, name, tensor, bytes_before in held:
            tensors[name] = tensor
            if tensor is not None:
                # Not as a tensor: the exporter would take it for a part of the network.
                tensor.untyped_storage().copy_(bytes_before)
    return restore


def _copy_of(example: Any) -> Any:
    if isinstance(example, torch.Tensor):
        return example.detach().clone()
    if isinstance(example, (tuple, list)):
        return type(example)(_copy_of(one) for one in example)
    if isinstance(example, dict):
        return {name: _copy_of(one) for name, one in example.items()}
    return example


@contextlib.contextmanager
def _same_random_state() -> Iterator[None]:
    numpy_state, python_state = np.random.get_state(), random.getstate()
    cuda: Any = torch.cuda
    devices = range(cuda.device_count()) if cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=list(devices)):
            yield
    finally:
        np.random.set_state(numpy_state)
        random.setstate(python_state)
