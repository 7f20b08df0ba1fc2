"""Training: a network, settings, data; step by step or epoch by epoch, with the same bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core
from ._settings import settings_of
from .callbacks import Callback, ProgressLine
from .data import as_array, as_data, is_readable
from .errors import InvalidInput
from .model import Model
from .network import Network

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Epoch:
    """An epoch of fit(): means over its steps, and of the validation examples behind it."""

    epoch: int  # from 1
    epochs: int
    loss: float
    accuracy: float | None  # None: no loss compares with a class
    learning_rate: float
    clipped: int  # mantissas that did not fit
    validation_loss: float | None = None
    validation_accuracy: float | None = None


@dataclass
class History:
    """The epochs of a fit()."""

    epochs: list[Epoch] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, index: int) -> Epoch:
        return self.epochs[index]

    def column(self, name: str) -> list[Any]:
        """One figure over the epochs: `history.column("loss")`."""
        return [getattr(epoch, name) for epoch in self.epochs]

    def plot(self) -> Any:
        """Losses and accuracies over the epochs, as a figure of matplotlib."""
        from ._display import plot_history
        return plot_history(self)

    def __repr__(self) -> str:
        from .callbacks import epoch_line
        return "\n".join(epoch_line(epoch) for epoch in self.epochs) or "no epochs"

    def _repr_html_(self) -> str:
        from ._display import history_html
        return history_html(self)


@dataclass(frozen=True)
class Taken:
    """Parameters as "conv1.weights [16, 3, 3, 1]"."""

    taken: list[str]
    initial: list[str]  # of the network: the file lacks them, or they differ
    left_over: list[str]  # of the file: the network has no use for them


class Trainer:
    """Trains a network. Settings are those of `mantissa train`, with underscores: `batch_size=64`,
    `learning_rate=0.05`, `memory_budget="64MiB"`; `mt.settings("train")` lists them with their
    defaults. Memory is planned, and the network has its initial weights, when this returns.

        >>> trainer = mt.Trainer(net, format="bfp8", batch_size=50, seed=1)
        >>> print(trainer.plan)
        >>> history = trainer.fit(mt.Data(x, y), epochs=8)
    """

    def __init__(self, network: Network, *, memory: str | int | None = None, **settings: Any):
        if memory is not None:
            settings["memory_budget"] = f"{memory}B" if isinstance(memory, int) else memory
        self.network = network
        self._core = _core.Trainer(network._core, settings_of(settings, "train"))
        if network._trained is not None:
            self._core.take(network._trained)

    # --- training ---

    def step(self, *arrays: Any, learning_rate: float) -> _core.StepReport:
        """One update on `batch_size` examples: arrays in the order of the network's inputs. The report has
        `loss`, `accuracy` (-1 where no loss compares with a class) and `clipped`."""
        try:
            return self._core.step(arrays, learning_rate)
        except InvalidInput:
            if all(is_readable(array) for array in arrays):
                raise
            return self._core.step(tuple(as_array(array) for array in arrays), learning_rate)

    def observed_step(self, *arrays: Any, learning_rate: float) -> list[_core.TensorStatistics]:
        """The same update, and for each tensor how it used its bits: `name`, `kind` ("value", "gradient",
        "parameter", "parameter gradient"), `written_by`, `bits`, `exponent`, `clipped`, `mean_bits`,
        `lengths` (how many mantissas have which bit length)."""
        return self._core.observed_step(tuple(as_array(array) for array in arrays), learning_rate)

    def fit(self, data: Any, *, epochs: int | None = None, steps: int | None = None,
            validation: Any = None, callbacks: Sequence[Callback] = (),
            checkpoint: str | os.PathLike[str] | None = None, resume: bool = False,
            progress: bool = True) -> History:
        """Epochs over the data, in the order that the seed gives; the learning rate follows the settings.

        data: Data, or a tuple or dict of arrays. The last, smaller batch of an epoch is left out.
        epochs, steps: how many (one epoch where nothing is said).
        validation: examples that are measured after each epoch; training does not change by it.
        callbacks: see mantissa.callbacks.
        checkpoint: a file that the state is saved to, after each epoch and where the call is interrupted.
        resume: goes on from the checkpoint, if there is one: `epochs` and `steps` then count those before.
        progress: a line for each epoch on standard error, with a bar while it lasts on a terminal or
            in a notebook.

        Ctrl-C ends the step, saves the checkpoint, and raises KeyboardInterrupt."""
        if epochs is not None and steps is not None:
            raise InvalidInput("fit: give either `epochs` or `steps`")
        if steps is not None and steps < 1:
            raise InvalidInput("fit: `steps` must be 1 or more")
        if resume and checkpoint is None:
            raise InvalidInput("fit: `resume` wants the `checkpoint` to go on from")
        if resume and checkpoint is not None and os.path.exists(checkpoint):
            self.load(checkpoint)
        examples = as_data(data)
        measured = None if validation is None else as_data(validation)
        watchers = [*callbacks, *([ProgressLine()] if progress else [])]
        history = History()

        def on_step(now: _core.FitProgress) -> bool:
            return all([watcher.on_step(self, now) is not False for watcher in watchers])

        def on_epoch(report: _core.EpochReport) -> bool:
            score = (None if measured is None else
                     self.freeze(examples).evaluate(measured))
            history.epochs.append(_epoch_of(report, score))
            if checkpoint is not None:
                self.save(checkpoint)
            return all([watcher.on_epoch(self, history.epochs[-1]) is not False
                        for watcher in watchers])

        for watcher in watchers:
            watcher.on_begin(self)
        try:
            self._core.fit(examples.bound_to(self.network), 1 if epochs is None else epochs,
                           steps or 0, resume,
                           on_step if watchers else None, on_epoch)
        except KeyboardInterrupt:
            if checkpoint is not None:
                self.save(checkpoint)
            raise
        finally:
            for watcher in watchers:
                watcher.on_end(self, history)
        return history

    def fit_batches(self, batches: Iterable[Any], *, learning_rate: float | Callable[[int], float]
                    ) -> list[float]:
        """A step on each batch of an iterable, a generator or a PyTorch DataLoader; each is a tuple of
        arrays. The learning rate may be a function of the step. Returns the losses."""
        losses = []
        for i, batch in enumerate(batches):
            rate = learning_rate(i) if callable(learning_rate) else learning_rate
            losses.append(self.step(*batch, learning_rate=rate).loss)
        return losses

    def take(self, path: str | os.PathLike[str]) -> Taken:
        """Takes the parameters of a trained file whose names and shapes are the network's: a run's folder, a
        checkpoint, model.safetensors, or an ONNX model."""
        return Taken(*self._core.take(_core.TrainedParameters.read(os.fspath(path))))

    @property
    def steps_done(self) -> int:
        return self._core.steps_done()

    # --- results ---

    def freeze(self, data: Any) -> Model:
        """The network with exponents fixed on these examples."""
        return Model(self._core.freeze(as_data(data).bound_to(self.network, with_targets=False)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """All of the state: a trainer of the same network and settings that loads it goes on with the same
        bits."""
        self._core.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        self._core.load(os.fspath(path))

    @property
    def weights_sha256(self) -> str:
        """SHA-256 of parameters and running statistics, as in a run's summary.json."""
        return self._core.weights_sha256()

    @property
    def plan(self) -> str:
        """The memory, by kind."""
        from ._display import Preformatted
        return Preformatted(self._core.plan())

    # --- parameters ---

    def numbers(self, name: str) -> np.ndarray:
        """A parameter's numbers, float64, exactly: mantissa * 2^exponent, with the part that waits."""
        numbers: np.ndarray = self._core.parameter(name)[0]
        return numbers

    def mantissas(self, name: str) -> np.ndarray:
        """A parameter's mantissas, int32; fp32 has none."""
        mantissas: np.ndarray = self._core.parameter(name)[1]
        return mantissas

    def exponents(self, name: str) -> np.ndarray:
        """Its exponents, int32: one, or one for each part of the first axis."""
        exponents: np.ndarray = self._core.parameter(name)[2]
        return exponents

    def set_numbers(self, name: str, numbers: Any) -> None:
        """Rounds numbers to the parameter's mantissas; the optimiser's memory of it starts anew."""
        import numpy as np

        array = np.ascontiguousarray(numbers, dtype=np.float64)
        expected = {one.name: one.shape for one in self.network.parameters}.get(name)
        if expected is not None and array.shape != expected:
            raise InvalidInput(f"'{name}' is {list(expected)}, and {list(array.shape)} is given")
        self._core.set_parameter(name, array)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Trainer cannot be pickled: save() keeps its state, freeze() its network")


def _epoch_of(report: _core.EpochReport, score: _core.StepReport | None) -> Epoch:
    def known(accuracy: float) -> float | None:
        return None if accuracy < 0 else accuracy

    return Epoch(report.epoch, report.epochs, report.training.loss,
                 known(report.training.accuracy), report.learning_rate, report.training.clipped,
                 None if score is None else score.loss,
                 None if score is None else known(score.accuracy))
