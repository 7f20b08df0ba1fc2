"""Trained networks with fixed exponents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _core
from .data import Data, as_data
from .network import Network

if TYPE_CHECKING:
    import numpy as np

    from ._torch_module import NetworkModule


class Model:
    """A network with fixed exponents: predictions do not depend on their neighbours in a batch.
    Trainer.freeze makes one; its file needs nothing else."""

    def __init__(self, core: _core.Model):
        self._core = core

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, threads: int = 0) -> Model:
        """Loads model.safetensors, the folder of a run that has one, or an ONNX file that export_onnx
        wrote. Threads: 0 is one for each processor; they change no result."""
        file = os.fspath(path)
        if os.path.isdir(file):
            file = os.path.join(file, "model.safetensors")
        return cls(_core.Model.load(file, threads))

    def save(self, path: str | os.PathLike[str]) -> None:
        self._core.save(os.fspath(path))

    @property
    def network(self) -> Network:
        return Network._of(self._core.network())

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the parameters and running statistics that the model was frozen from."""
        return self._core.weights_sha256()

    @property
    def class_names(self) -> list[str]:
        """The classes in the order of the logits; empty if numbers are predicted."""
        return self._core.class_names()

    @property
    def table(self) -> dict[str, Any] | None:
        """The columns of the table that it was trained on (docs/data.md), by a run of the command line
        or mt.train; None if it was trained on no table."""
        import json

        text = self._core.table_json()
        return json.loads(text) if text else None

    def predict(self, x: Any) -> np.ndarray:
        """Outputs for each example, float64 [examples, features], exactly the values of the
        integers. `x`: Data, an array, a tuple of arrays in the order of the inputs, or a dict of
        them.

        A model of a table takes rows as the table's file has them: a frame, a dict of columns, or
        rows of its columns in their order. It gives numbers in the target's own units."""
        return self.predict_all(x)[0]

    def predict_all(self, x: Any) -> list[np.ndarray]:
        """The same for all outputs of the network."""
        outputs: list[np.ndarray] = self._core.predict(self._bound(x, False))
        return outputs

    def evaluate(self, data: Any) -> _core.StepReport:
        """Loss and accuracy on examples with their labels or targets. The loss of a table's number is
        the loss of (number - mean) / deviation."""
        return self._core.evaluate(self._bound(data, True))

    def _bound(self, value: Any, with_targets: bool) -> list[tuple[str, Any]]:
        table = self.table
        if table is None or table.get("text"):
            return as_data(value).bound_to(self.network, with_targets=False)
        from ._rows import rows_for

        return rows_for(self._core, table, value, with_targets)

    def export_onnx(self, path: str | os.PathLike[str], *, target: str = "ort") -> list[str]:
        """Writes an ONNX file with the same integers; `target` is "ort" or "portable". Returns notes on
        layers that deserve attention."""
        with _folder() as folder:
            saved = os.path.join(folder, "model.safetensors")
            self.save(saved)
            return _core.export_model({"checkpoint": saved, "out": os.fspath(path),
                                       "target": target})

    def to_module(self) -> NetworkModule:
        """The network as a module of PyTorch: mantissa.torch.to_module, which says when a frozen
        network cannot be one."""
        from .torch import to_module

        return to_module(self)

    def __repr__(self) -> str:
        return f"<model of {self.network.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        with _folder() as folder:
            saved = os.path.join(folder, "model.safetensors")
            self.save(saved)
            with open(saved, "rb") as file:
                return (_from_bytes, (file.read(),))


def _folder() -> Any:
    import tempfile  # only here: it takes a tenth of the package's import

    return tempfile.TemporaryDirectory()


def _from_bytes(content: bytes) -> Model:
    with _folder() as folder:
        saved = os.path.join(folder, "model.safetensors")
        with open(saved, "wb") as file:
            file.write(content)
        return Model.load(saved)
