"""Trained networks with fixed exponents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from . import _core
from .data import Data, as_data
from .network import Network

if TYPE_CHECKING:
    import numpy as np


class Model:
    """A network with fixed exponents: predictions do not depend on their neighbours in a batch.
    Trainer.freeze makes one; its file needs nothing else."""

    def __init__(self, core: _core.Model):
        self._core = core

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, threads: int = 0) -> Model:
        """Loads model.safetensors, or an ONNX file that export_onnx wrote. Threads: 0 is one for each
        processor; they change no result."""
        return cls(_core.Model.load(os.fspath(path), threads))

    def save(self, path: str | os.PathLike[str]) -> None:
        self._core.save(os.fspath(path))

    @property
    def network(self) -> Network:
        return Network._of(self._core.network())

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of the parameters and running statistics that the model was frozen from."""
        return self._core.weights_sha256()

    def predict(self, x: Any) -> np.ndarray:
        """Outputs for each example, float64 [examples, features], exactly as the integers have them.
        `x`: Data, an array, a tuple of arrays in the order of the inputs, or a dict of them."""
        return self.predict_all(x)[0]

    def predict_all(self, x: Any) -> list[np.ndarray]:
        """The same for all outputs of the network."""
        outputs: list[np.ndarray] = self._core.predict(
            as_data(x).bound_to(self.network, with_targets=False))
        return outputs

    def evaluate(self, data: Any) -> _core.StepReport:
        """Loss and accuracy on examples with their labels or targets."""
        return self._core.evaluate(as_data(data).bound_to(self.network, with_targets=False))

    def export_onnx(self, path: str | os.PathLike[str], *, target: str = "ort") -> list[str]:
        """Writes an ONNX file with the same integers; `target` is "ort" or "portable". Returns notes on
        layers that one should know something of."""
        with _folder() as folder:
            saved = os.path.join(folder, "model.safetensors")
            self.save(saved)
            return _core.export_model({"checkpoint": saved, "out": os.fspath(path),
                                       "target": target})

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
