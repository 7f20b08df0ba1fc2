"""Networks of PyTorch, with their weights."""

from __future__ import annotations

import os
import tempfile
import warnings
from typing import Any

import torch

from .commands import Imported, import_onnx


def from_module(module: torch.nn.Module, example: Any, *, opset: int = 17,
                **settings: Any) -> Imported:
    """The network and weights of a module, through ONNX. `example` is an input, or a tuple of them, as
    the module takes it: pictures are [1, channels, height, width]. Settings are those of
    `mantissa import`, such as `classes=10`, `input_mean="0.5"`.

        >>> net = mt.torch.from_module(torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224)).network

    The older exporter of PyTorch writes the file, in training mode: the default one folds batch norms
    into convolutions, and they could not be trained.
    """
    was_training = module.training
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = os.path.join(folder, "module.onnx")
        try:
            torch.onnx.export(module, example, path, dynamo=False, opset_version=opset,
                              training=torch.onnx.TrainingMode.TRAINING,
                              do_constant_folding=False)
        finally:
            module.train(was_training)
        return import_onnx(path, **settings)
