"""The commands of the command line, as functions. Settings are the same, with underscores; `from_` is
`--from`. Results are what the commands write as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from . import _core
from ._settings import settings_of
from .network import Network

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Watch = Callable[[_core.Progress], Any]


@dataclass(frozen=True)
class Setting:
    name: str  # as on the command line
    help: str
    default: str
    is_switch: bool


def settings(command: str) -> list[Setting]:
    """The settings of a command: "train", "quantize" and the others."""
    return [Setting(*row) for row in _core.settings_of(command)]


def train(*, progress: Watch | None = None, **settings: Any) -> dict[str, Any]:
    """A run with a folder, as `mantissa train` makes it: returns its summary.json.

        >>> mt.train(model="resnet8", data="fashion-mnist", epochs=3, out="runs/a")
    """
    return _summary(_core.train(settings_of(settings, "train"), progress))


def quantize(*, progress: Watch | None = None, **settings: Any) -> dict[str, Any]:
    """Quantises a trained network to few bits, and trains it on: returns the run's summary.json.

        >>> mt.quantize(from_="runs/a", weights=4, activations=4, epochs=1, out="runs/a4")

    With `blocks`, or `group`, a language model gets its weights in blocks, in a file and no run:
    returns its layers, with their errors, and the loss before and after.

        >>> mt.quantize(from_="smollm2.safetensors", blocks="q4_0", data="book.txt",
        ...             out="base4.safetensors")
        >>> mt.quantize(from_="smollm2.safetensors", weights=3, group=64, data="book.txt",
        ...             out="base3.safetensors")
    """
    return _summary(_core.quantize(settings_of(settings, "quantize"), progress))


def evaluate(*, progress: Watch | None = None, **settings: Any) -> dict[str, Any]:
    """Evaluates a trained network on the test examples, as `mantissa eval`."""
    return _summary(_core.evaluate(settings_of(settings, "eval"), progress))


@dataclass(frozen=True)
class Plan:
    """The memory and the program of a run that has not begun."""

    text: str
    json: dict[str, Any]

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from ._display import preformatted
        return preformatted(self.text)


def plan(**settings: Any) -> Plan:
    """The memory and program of a run, without running it, as `mantissa plan`."""
    text, content = _core.plan(settings_of(settings, "plan"))
    return Plan(text, _summary(content))


@dataclass(frozen=True)
class Imported:
    """A network with its weights. Notes say what was assumed or left out, a line each."""

    network: Network
    notes: list[str]


def import_onnx(path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None,
                **settings: Any) -> Imported:
    """The network and weights of an ONNX model. `out` keeps them in a file, for `from_=` and
    Network.from_trained.

        >>> net = mt.import_onnx("net.onnx").network
        >>> trainer = mt.Trainer(net)     # starts from these weights
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "imported.safetensors") if out is None else os.fspath(out)
        notes = _core.import_model(os.fspath(path),
                                   settings_of({"out": file, **settings}, "import"))
        return Imported(Network.from_trained(file), notes)


def embed(from_: str | os.PathLike[str], sentences: Sequence[str] = (), *,
          progress: Callable[[int], Any] | None = None, **settings: Any) -> NDArray[np.float32]:
    """Vectors of sentences, [sentences, channels], each of length 1, by an encoder: a file that
    `mantissa import` wrote, or a folder in BERT's layout. `progress` is told how many are done.

        >>> vectors = mt.embed("all-MiniLM-L6-v2", ["A cat sat.", "A dog ran."])
        >>> vectors @ vectors.T          # cosines
    """
    texts = [sentences] if isinstance(sentences, str) else list(sentences)
    return cast("NDArray[np.float32]",
                _core.embed(settings_of({"from_": from_, **settings}, "embed"), texts, progress))


def translate(checkpoint: str | os.PathLike[str], sentences: Sequence[str], *,
              progress: Watch | None = None, **settings: Any) -> list[str]:
    """Translations of sentences by a run of `transformer_nmt`, as `mantissa translate`.

        >>> mt.translate("runs/nmt", ["Click OK."], beam=4)
    """
    texts = [sentences] if isinstance(sentences, str) else list(sentences)
    return _core.translate(settings_of({"checkpoint": checkpoint, **settings}, "translate"), texts,
                           progress) if texts else []


def fill_mask(checkpoint: str | os.PathLike[str], text: str,
              **settings: Any) -> list[list[tuple[str, float]]]:
    """The likeliest tokens in the place of each "[MASK]" of the text, with their probabilities, by
    a masked language model's run.

        >>> mt.fill_mask("runs/bert", "It w[MASK]s the best of times", top=3)
    """
    return _core.fill_mask(settings_of({"checkpoint": checkpoint, "text": text, **settings},
                                       "fill-mask"))


def export_onnx(checkpoint: str | os.PathLike[str], out: str | os.PathLike[str],
                **settings: Any) -> list[str]:
    """Writes a trained network, a run's folder or its model.safetensors, as an ONNX file."""
    return _core.export_model(settings_of({"checkpoint": checkpoint, "out": out, **settings}, "export"))


def describe_data(data: str | os.PathLike[str], **settings: Any) -> dict[str, Any]:
    """A description of a data set, as `mantissa data`: kind, counts, sizes, classes, oddities."""
    return _summary(_core.describe_data(settings_of({"data": data, **settings}, "data")))


def statistics(run: str | os.PathLike[str], **settings: Any) -> dict[str, Any]:
    """How the tensors of a run use their bits, as `mantissa statistics --json`."""
    return _summary(_core.statistics(os.fspath(run), settings_of(settings, "statistics")))


@dataclass(frozen=True)
class Report:
    """A report on runs: one HTML file."""

    path: str

    def _repr_html_(self) -> str:
        from ._display import framed
        with open(self.path, encoding="utf-8") as file:
            return framed(file.read())


def report(*runs: str | os.PathLike[str], **settings: Any) -> Report:
    """Writes a report on 1 to 6 runs as one HTML file."""
    return Report(_core.report([os.fspath(run) for run in runs],
                               settings_of(settings, "report")))


def info(path: str | os.PathLike[str] | None = None, **settings: Any) -> dict[str, Any]:
    """Describes a run, a checkpoint, a trained network or an ONNX file; without a path, the machine."""
    if path is None:
        version, isa, kernels = _core.info()
        return {"version": version, "isa": isa, "kernels": dict(kernels)}
    return _summary(_core.describe_path(os.fspath(path), settings_of(settings)))


def _summary(text: str) -> dict[str, Any]:
    import json

    content: dict[str, Any] = json.loads(text)
    return content
