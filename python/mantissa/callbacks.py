"""Callbacks of fit() and finetune(), which report their progress. A callback that returns False ends
the training after this step or epoch; nothing is called inside a step."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from .errors import InvalidInput

if TYPE_CHECKING:
    from . import _core
    from .trainer import Epoch, History, Trainer


class Callback:
    """Does nothing: derive your own callbacks from it. `trainer` is the Trainer that fits; of
    finetune() the FineTuning."""

    def on_begin(self, trainer: Any) -> None:
        """Before the first step."""

    def on_step(self, trainer: Any, now: _core.FitProgress | _core.Progress) -> bool | None:
        """After some steps: at most every 0.05 seconds, and after the last. Of finetune() after each
        step."""

    def on_epoch(self, trainer: Any, epoch: Epoch) -> bool | None:
        """After each epoch, and its validation. Of finetune() the loss and the accuracy are means of
        the last 50 steps or fewer, as in metrics.jsonl."""

    def on_finish(self, trainer: Any, history: History) -> None:
        """After the last step, if nothing failed; before on_end."""

    def on_end(self, trainer: Any, history: History) -> None:
        """At the end, for whatever reason the training ended."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class EarlyStop(Callback):
    """Ends the training when the validation loss (without validation: the loss) has not become lower
    for `patience` epochs. At the end the trainer has the state of the best epoch, as a run of the
    command line keeps the best epoch's weights. `history.kept` is that epoch."""

    def __init__(self, patience: int = 3):
        if not patience >= 1:
            raise InvalidInput(f"EarlyStop: patience is 1 epoch or more, not {patience}")
        self.patience = patience
        self._folder: Any = None

    def on_begin(self, trainer: Trainer) -> None:
        from tempfile import TemporaryDirectory

        self._best = float("inf")
        self._epoch = 0  # the best one; 0: none yet
        self._waited = 0
        self._folder = TemporaryDirectory()

    def on_epoch(self, trainer: Trainer, epoch: Epoch) -> bool:
        loss = epoch.loss if epoch.validation_loss is None else epoch.validation_loss
        if loss < self._best:
            self._best, self._epoch, self._waited = loss, epoch.epoch, 0
            trainer.save(self._state())
        else:
            self._waited += 1
        return self._waited < self.patience

    def on_finish(self, trainer: Trainer, history: History) -> None:
        if self._epoch == 0:
            return
        history.kept = self._epoch
        if self._epoch != history[-1].epoch:
            trainer.load(self._state())

    def on_end(self, trainer: Trainer, history: History) -> None:
        self._folder.cleanup()

    def _state(self) -> str:
        return os.path.join(self._folder.name, "best.safetensors")


class Checkpoint(Callback):
    """Saves the trainer's state after every `every` epochs; `{epoch}` in the path is the epoch."""

    def __init__(self, path: str, every: int = 1):
        if not every >= 1:
            raise InvalidInput(f"Checkpoint: every is 1 epoch or more, not {every}")
        self.path = path
        self.every = every

    def on_epoch(self, trainer: Trainer, epoch: Epoch) -> None:
        if epoch.epoch % self.every == 0 or epoch.epoch == epoch.epochs:
            trainer.save(self.path.format(epoch=epoch.epoch))


def epoch_line(epoch: Epoch) -> str:
    """An epoch in words."""
    text = f"epoch {epoch.epoch}/{epoch.epochs}  loss {epoch.loss:.4f}"
    if epoch.accuracy is not None:
        text += f"  accuracy {100 * epoch.accuracy:.2f} %"
    if epoch.uncounted > 0:
        text += f"  ({epoch.uncounted} labels do not count)"
    if epoch.validation_loss is not None:
        text += f"  validation loss {epoch.validation_loss:.4f}"
    if epoch.validation_accuracy is not None:
        text += f"  accuracy {100 * epoch.validation_accuracy:.2f} %"
    return text


class ProgressLine(Callback):
    """A line for each epoch on standard error. On a terminal and in a notebook the line of the epoch
    that is under way shows how far it is; elsewhere nothing is written twice."""

    def __init__(self, file: TextIO | None = None):
        self._file = file
        self._live = False
        self._begin = 0.0
        self._shown = 0.0

    def on_begin(self, trainer: Any) -> None:
        self._to: Any = self._file or sys.stderr
        self._live = self._to.isatty() or type(self._to).__module__.startswith("ipykernel")
        self._begin = time.monotonic()
        self._first: int | None = None

    def on_step(self, trainer: Any, now: _core.FitProgress | _core.Progress) -> None:
        if self._first is None:
            self._first = now.step
        clock = time.monotonic()
        if not self._live or clock - self._shown < 0.2:
            return
        self._shown = clock
        done = now.step - self._first
        left = (clock - self._begin) / done * (now.steps - now.step) if done > 0 else 0
        bar = "=" * (20 * now.step // now.steps)
        self._write(f"epoch {now.epoch}/{now.epochs} [{bar:<20}] loss {now.training.loss:.4f}, "
                    f"{left:.0f} s left", "")

    def on_epoch(self, trainer: Any, epoch: Epoch) -> None:
        self._write(epoch_line(epoch), "\n")

    def on_end(self, trainer: Any, history: History) -> None:
        if self._live:
            self._write("", "")

    def note(self, text: str) -> None:
        """Writes a line of its own."""
        self._write(text, "\n")

    def _write(self, text: str, end: str) -> None:
        if self._live:
            self._to.write(f"\r{text:<79}\r{text}{end}")
        elif text:
            self._to.write(text + end)
        self._to.flush()
