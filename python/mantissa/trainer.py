"""Training: a network, settings, data; step by step or epoch by epoch, with the same bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _core
from ._settings import settings_of
from .callbacks import Callback, ProgressLine
from ._arrays import as_array, is_readable
from .data import Data, as_data
from .errors import InvalidInput
from .losses import Loss, cross_entropy, sigmoid_cross_entropy, squared_error
from .model import Model
from .network import Network
from .values import Var

if TYPE_CHECKING:
    import numpy as np

    from ._torch_module import NetworkModule


@dataclass(frozen=True)
class Epoch:
    """An epoch of fit(): means over its steps, and over the validation examples after it."""

    epoch: int  # from 1
    epochs: int
    loss: float
    accuracy: float | None  # None: no loss compares with a class
    learning_rate: float
    clipped: int  # mantissas that did not fit
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    uncounted: int = 0  # labels of -1 and rows of weight 0, which the means leave out


@dataclass
class History:
    """The epochs of a fit(). `kept` is the one whose state the trainer has; None: the last one's."""

    epochs: list[Epoch] = field(default_factory=list)
    kept: int | None = None

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
    """Trains a network. Takes the settings of `mantissa train`, with underscores: `batch_size=64`,
    `learning_rate=0.05`, `memory_budget="64MiB"`; `mt.settings("train")` lists them with their
    defaults. Memory is planned, and the network has its initial weights, when this returns.

        >>> trainer = mt.Trainer(net, format="bfp8", batch_size=50, seed=1)
        >>> print(trainer.plan)
        >>> history = trainer.fit(mt.Data(x, y), epochs=8)

    loss: another loss of the network's first output, as a function of it: `loss=mt.soft_cross_entropy`, or
        `loss=lambda z: mt.huber_error(z, largest=4)`.
    task: the same by the targets: "classes" (labels [N]), "binary" (one output, labels [N] of 0 and 1),
        "labels" (labels [N, outputs] of 0 and 1), "numbers" (targets [N, outputs] from -8 to 8, mean 0 and
        deviation 1 at best), "ordinal" (labels [N], ranks from 0 to the number of outputs).
    """

    def __init__(self, network: Network, *, memory: str | int | None = None,
                 loss: Callable[[Var], Loss] | None = None, task: str | None = None,
                 **settings: Any):
        if loss is not None and task is not None:
            raise InvalidInput("Trainer: give either `loss` or `task`")
        if task is not None:
            loss = loss_of_task(task)
        if loss is not None:
            network = network.with_loss(loss)
        if memory is not None:
            settings["memory_budget"] = f"{memory}B" if isinstance(memory, int) else memory
        import numpy

        self._plain = numpy.ndarray
        self._warned = False
        self.network = network
        self._core = _core.Trainer(network._core, settings_of(settings, "train"))
        if network._trained is not None:
            self._core.take(network._trained)

    # --- training ---

    def step(self, *arrays: Any, learning_rate: float) -> _core.StepReport:
        """One update on `batch_size` examples: arrays in the order of the network's inputs. The report has
        `loss`, `accuracy` (-1 if no loss compares with a class) and `clipped`."""
        for array in arrays:
            if type(array) is not self._plain:
                arrays = tuple(as_array(one) for one in arrays)
                break
        try:
            report = self._core.step(arrays, learning_rate)
        except InvalidInput:
            if all(is_readable(array) for array in arrays):
                raise
            arrays = tuple(as_array(array) for array in arrays)
            report = self._core.step(arrays, learning_rate)
        except TypeError:
            raise _no_rate(learning_rate) from None
        if report.uncounted and not self._warned:
            self._warn_of_one_class(arrays)
        return report

    def observed_step(self, *arrays: Any, learning_rate: float) -> list[_core.TensorStatistics]:
        """The same update, and for each tensor how it used its bits: `name`, `kind` ("value", "gradient",
        "parameter", "parameter gradient"), `written_by`, `bits`, `exponent`, `clipped`, `mean_bits`,
        `lengths` (how many mantissas have which bit length)."""
        try:
            return self._core.observed_step(tuple(as_array(array) for array in arrays),
                                            learning_rate)
        except TypeError:
            raise _no_rate(learning_rate) from None

    def fit(self, data: Any, *, epochs: int | None = None, steps: int | None = None,
            validation: Any = None, callbacks: Sequence[Callback] = (),
            checkpoint: str | os.PathLike[str] | None = None, resume: bool = False,
            progress: bool = True) -> History:
        """Epochs over the data, in the order that the seed gives; the learning rate follows the settings.

        data: Data, a tuple or dict of arrays, or a DataSet, whose .train it takes. The last, smaller
            batch of an epoch is left out.
        epochs, steps: how many (one epoch if neither is given).
        validation: examples that are measured after each epoch; they do not affect training.
        callbacks: see mantissa.callbacks.
        checkpoint: a file that the state is saved to, after each epoch and if the call is
            interrupted.
        resume: goes on from the checkpoint, if there is one: `epochs` and `steps` then include the
            earlier ones.
        progress: a line for each epoch on standard error, with a bar while it lasts on a terminal or
            in a notebook.

        Ctrl-C ends the step, saves the checkpoint, and raises KeyboardInterrupt."""
        if epochs is not None and steps is not None:
            raise InvalidInput("fit: give either `epochs` or `steps`")
        for name, number in (("epochs", epochs), ("steps", steps)):
            if number is not None and (not hasattr(number, "__index__") or number < 1):
                raise InvalidInput(f"fit: `{name}` must be a whole number, 1 or more, not {number}")
        if resume and checkpoint is None:
            raise InvalidInput("fit: `resume` wants the `checkpoint` to go on from")
        if resume and checkpoint is not None and os.path.exists(checkpoint):
            self.load(checkpoint)
        examples = as_data(data, "train")
        measured = None if validation is None else as_data(validation, "validation")
        watchers = [*callbacks, *([ProgressLine()] if progress else [])]
        history = History()

        def on_step(now: _core.FitProgress) -> bool:
            return all([watcher.on_step(self, now) is not False for watcher in watchers])

        def on_epoch(report: _core.EpochReport) -> bool:
            score = (None if measured is None else
                     self.freeze(examples).evaluate(measured))
            if report.training.uncounted and not history.epochs:
                self._warn_of_uncounted(examples, report.training)
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
        else:
            for watcher in watchers:
                watcher.on_finish(self, history)
        finally:
            for watcher in watchers:
                watcher.on_end(self, history)
        return history

    def fit_batches(self, batches: Iterable[Any], *, learning_rate: float | Callable[[int], float]
                    ) -> list[float]:
        """A step on each batch of an iterable, a generator or a PyTorch DataLoader; each is a tuple of
        arrays. The learning rate may be a function of the step. Batches with fewer examples than
        `batch_size`, such as the last one of a loader, are left out, with a warning. Returns the
        losses."""
        losses: list[float] = []
        left_out = []
        for batch in batches:
            arrays = tuple(as_array(array, str(i)) for i, array in enumerate(batch))
            examples = min((len(array) for array in arrays if array.ndim), default=0)
            if examples < self.batch_size:
                left_out.append(examples)
                continue
            rate = learning_rate(len(losses)) if callable(learning_rate) else learning_rate
            losses.append(self.step(*arrays, learning_rate=rate).loss)
        if left_out and not losses:
            raise InvalidInput(f"fit_batches: all batches have fewer than batch_size "
                               f"{self.batch_size} examples; the first has {left_out[0]}")
        if left_out:
            _warn(f"fit_batches: {len(left_out)} batches with fewer than {self.batch_size} examples, "
                  f"{sum(left_out)} in all, were left out")
        return losses

    def take(self, path: str | os.PathLike[str]) -> Taken:
        """Takes the parameters of a trained file that match the network's names and shapes: a run's
        folder, a checkpoint, model.safetensors, or an ONNX model."""
        return Taken(*self._core.take(_core.TrainedParameters.read(os.fspath(path))))

    @property
    def batch_size(self) -> int:
        """Examples of a step."""
        return self._core.batch_size()

    @property
    def steps_done(self) -> int:
        """Steps that were taken; other threads may ask while fit() runs."""
        return self._core.steps_done()

    def _label_arrays(self, arrays: Sequence[Any]) -> list[tuple[str, Any]]:
        """Arrays of one class for each example, by name."""
        return [(one.name, array) for one, array in zip(self.network.inputs, arrays)
                if one.elements == "int32" and one.shape == ()]

    def _warn_of_one_class(self, arrays: Sequence[Any]) -> None:
        """Labels of -1 and 1 are not two classes: -1 means no label, so a step on them is always
        right."""
        for name, labels in self._label_arrays(arrays):
            classes = set(labels.tolist()) - {-1}
            if len(labels) > 1 and len(classes) == 1 and (labels == -1).any():
                self._warned = True
                _warn(f"'{name}' has -1 and {classes.pop()} alone: -1 says that there is no label, and "
                      "one class is left; classes are numbered 0, 1, ...")

    def _warn_of_uncounted(self, examples: Data, training: _core.StepReport) -> None:
        bound = dict(examples.bound_to(self.network))
        for name, labels in self._label_arrays([bound.get(one.name) for one in self.network.inputs]):
            if labels is not None and (missing := int((labels == -1).sum())):
                _warn(f"fit: {missing} of {len(labels)} labels in '{name}' are -1, which says that "
                      "there is none: they do not count")

    # --- results ---

    def freeze(self, data: Any) -> Model:
        """The network with exponents fixed on these examples."""
        return Model(self._core.freeze(
            as_data(data, "train").bound_to(self.network, with_targets=False)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """All of the state. A trainer with the same network and settings that loads it goes on with
        the same bits."""
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

    def values(self, name: str) -> np.ndarray:
        """A parameter's exact numbers, float64: mantissa * 2^exponent, as the forward pass reads
        them."""
        numbers: np.ndarray = self._core.parameter(name)[0]
        return numbers

    def numbers(self, name: str) -> np.ndarray:
        """The older name of values()."""
        return self.values(name)

    def mantissas(self, name: str) -> np.ndarray:
        """A parameter's mantissas, int32; fp32 has none."""
        mantissas: np.ndarray = self._core.parameter(name)[1]
        return mantissas

    def exponents(self, name: str) -> np.ndarray:
        """Its exponents, int32: one, or one for each part of the first axis."""
        exponents: np.ndarray = self._core.parameter(name)[2]
        return exponents

    def set_numbers(self, name: str, numbers: Any) -> None:
        """The older name of set_values()."""
        self.set_values(name, numbers)

    def set_values(self, name: str, numbers: Any) -> None:
        """Rounds numbers to the parameter's mantissas; the optimiser's memory of it starts anew."""
        import numpy as np

        array = np.ascontiguousarray(numbers, dtype=np.float64)
        expected = {one.name: one.shape for one in self.network.parameters}.get(name)
        if expected is not None and array.shape != expected:
            raise InvalidInput(f"'{name}' is {list(expected)}, and {list(array.shape)} is given")
        self._core.set_parameter(name, array)

    def state_dict(self) -> dict[str, np.ndarray]:
        """All parameters and running statistics by their names in the network, float32. Mantissas
        times 2^exponent are exact in float32."""
        import numpy as np

        return {one.name: self.values(one.name).astype(np.float32)
                for one in self.network.parameters}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> Taken:
        """Takes numbers by name: arrays or tensors, such as state_dict() of a trainer or of
        to_module(). They are rounded to the format's grid, as of a run with `from_`, and what the
        optimiser keeps for them starts anew.

        A name that the network lacks, one that is missing, and another shape are errors; without
        `strict` only the shapes and numbers of names that both have. After an error nothing has
        changed."""
        import numpy as np

        own = {one.name: one.shape for one in self.network.parameters}
        missing = [name for name in own if name not in state]
        unknown = [name for name in state if name not in own]
        for names, what in ((missing, "lacks"), (unknown, "has, and the network lacks,")):
            if strict and names:
                raise InvalidInput(f"load_state_dict: the state {what} {', '.join(names[:8])}"
                                   + (f" and {len(names) - 8} more" if len(names) > 8 else ""))
        arrays = {name: np.asarray(as_array(state[name], name, copy=True), np.float64)
                  for name in own if name in state}
        for name, array in arrays.items():
            if array.shape != own[name]:
                raise InvalidInput(f"load_state_dict: '{name}' is {list(own[name])}, and "
                                   f"{list(array.shape)} is given")
            if not np.isfinite(array).all():
                raise InvalidInput(f"load_state_dict: '{name}' has a number that is not finite")
        for name, array in arrays.items():
            self.set_values(name, array)
        return Taken([f"{name} {list(own[name])}" for name in arrays],
                     [f"{name} {list(own[name])}" for name in missing], unknown)

    def to_module(self) -> NetworkModule:
        """The network as a module of PyTorch: mantissa.torch.to_module."""
        from .torch import to_module

        return to_module(self)

    def __repr__(self) -> str:
        return f"<trainer of {self.network.name} after {self.steps_done} steps>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Trainer cannot be pickled: save() keeps its state, freeze() its network")


def loss_of_task(task: str) -> Callable[[Var], Loss]:
    """The loss of a task: see Trainer."""
    losses: dict[str, Callable[[Var], Loss]] = {
        "classes": cross_entropy,
        "binary": sigmoid_cross_entropy,
        "labels": sigmoid_cross_entropy,
        "numbers": lambda results: squared_error(results, largest=8.0),
        "ordinal": lambda logits: sigmoid_cross_entropy(logits, ordinal=True)}
    if task not in losses:
        raise InvalidInput(f"Trainer: the task '{task}' is none of {', '.join(losses)}")
    return losses[task]


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, stacklevel=4)


def _no_rate(learning_rate: Any) -> InvalidInput:
    return InvalidInput(f"learning_rate: {learning_rate!r} is no number")


def _epoch_of(report: _core.EpochReport, score: _core.StepReport | None) -> Epoch:
    def known(accuracy: float) -> float | None:
        return None if accuracy < 0 else accuracy

    return Epoch(report.epoch, report.epochs, report.training.loss,
                 known(report.training.accuracy), report.learning_rate, report.training.clipped,
                 None if score is None else score.loss,
                 None if score is None else known(score.accuracy), report.training.uncounted)
