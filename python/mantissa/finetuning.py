"""Fine-tuning of language models: a run with a folder, as `mantissa train --from`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from . import _core
from ._settings import settings_of
from .callbacks import Callback, Checkpoint, EarlyStop, ProgressLine
from .errors import InvalidInput, OverBudget
from .language import LanguageModel, Path, _temporary_folder, load_language_model
from .tokenizer import _valid
from .trainer import Epoch, History

Data = Path | Sequence[str] | Sequence[Mapping[str, Any]]  # a path, texts, conversations


@dataclass
class FineTuning:
    """A fine-tuning that is under way, for callbacks."""

    out: str  # the run's folder
    settings: dict[str, str]  # of `mantissa train`
    steps_done: int = 0
    history: History = field(default_factory=History)
    notes: list[str] = field(default_factory=list)  # messages of the run


def finetune(model: LanguageModel | Path, data: Data, *, out: Path | None = None,
             resume: bool = False, lora: int | None = 8, lora_on: str | Sequence[str] | None = None,
             lora_alpha: float | None = None, steps: int | None = None, epochs: int | None = None,
             batch_size: int | None = None, learning_rate: float | None = None, format: Any = None,
             sequence: int | None = None, pack: bool = False,
             memory_budget: str | int | None = None, callbacks: Sequence[Callback] = (),
             progress: bool = True, **settings: Any) -> LanguageModel:
    """Trains a language model on from its weights, and returns the model that comes of it. The same
    bits as `mantissa train --from`, with the same settings, data and seed.

        >>> model = mt.load_language_model("SmolLM2-135M-Instruct.Q4_1.gguf")
        >>> tuned = mt.finetune(model, "chats.jsonl", sequence=128, epochs=2, batch_size=4,
        ...                     learning_rate=1e-3, out="runs/answers")

    model: from load_language_model or finetune; or its path. A path keeps no second model in memory.
    data: the path of a text, or of conversations, NAME.jsonl (docs/data.md); a list of strings, which
        is one text with a blank line between two; or a list of conversations, dicts as the lines of
        such a file: {"messages": [...]} or {"prompt": ..., "completion": ...}. A list is written to
        the run's folder. A part is held back for testing, and for validation, as of files.
    out: the run's folder. Left out: a folder that is there as long as the model.
    resume: goes on with the run in `out`, if it has begun: with the same bits as if it had never
        stopped. The other arguments are the same as at its beginning.
    lora: the rank of adapters, which alone are trained; None or 0: all weights are. A model with
        adapters goes on with them if this is left at 8, or has their rank.
    lora_on: layers with adapters, such as "query,value"; left out: all linear layers but the last.
    lora_alpha: left out: twice the rank.
    steps, epochs: how many (three epochs if neither is given).
    batch_size: sequences of a step (16).
    learning_rate: left out: as in `mantissa train`; 1e-3 suits adapters, 1e-5 all weights.
    format: the number format of the training; left out: the model's own, with fp32 for models of
        other programs.
    sequence: tokens of an example, of a model of another program; left out: those with which it was
        loaded, or 128. Longer conversations are cut. Other models have their own.
    pack: several conversations lie in one sequence and do not see each other, so less of a step is
        padding; for models with rotary positions. `notes` of the result say how much is saved.
    memory_budget: bytes, or a text such as "2GiB": OverBudget before the first step if the plan needs
        more.
    callbacks: see mantissa.callbacks. EarlyStop and Checkpoint are for Trainer.fit; here the settings
        early_stop= and checkpoint_every= do that.
    progress: a line for each epoch on standard error, with a bar while it lasts on a terminal or in a
        notebook.
    settings: other settings of `mantissa train`, such as optimizer, buckets, validation, seed, threads,
        lora_also, overwrite.

    Ctrl-C ends the step, writes a checkpoint, and raises KeyboardInterrupt, and so does a callback
    that returns False. The run's folder is as docs/run-folder.md says."""
    for callback in callbacks:
        if isinstance(callback, (EarlyStop, Checkpoint)):
            raise InvalidInput(f"finetune: {type(callback).__name__} saves a Trainer; a run has the "
                               "settings early_stop=EPOCHS and checkpoint_every=STEPS for that")
    if resume and out is None:
        raise InvalidInput("finetune: `resume` wants the folder of the run, `out`")
    if not isinstance(model, LanguageModel):
        model = load_language_model(model, threads=settings.get("threads"))
    settings.setdefault("threads", model._settings.get("threads"))
    start = model._start(sequence)
    goes_on = model.adapter_rank > 0 and lora in (None, 0, 8, model.adapter_rank)
    folder = _temporary_folder() if out is None else None
    run = os.path.join(folder.name, "run") if folder is not None else os.fspath(out or "")
    own = {"from_": start, "sequence": sequence if start == model._source else None,
           "out": run, "resume": resume or None,
           "lora": None if goes_on else lora or None, "lora_on": lora_on, "lora_alpha": lora_alpha,
           "steps": steps, "epochs": epochs, "batch_size": batch_size,
           "learning_rate": learning_rate, "pack": pack or None, "format": model.format if format is None else format,
           "memory_budget": f"{memory_budget}B" if isinstance(memory_budget, int) else memory_budget}
    line = ProgressLine() if progress else None
    with _data_file(data, run) as file:
        tuning = FineTuning(run, settings_of({**settings, **own, "data": file}, "train"))
        # A model that was given as a path is in no one's hands any more; its file still is.
        held = model._folder
        del model
        summary = _run(tuning, [*callbacks, *([line] if line else [])], line)
    del held
    tuned = LanguageModel(run, {"threads": settings["threads"]}, folder)
    tuned.summary, tuned.notes = summary, tuning.notes
    return tuned


def _run(tuning: FineTuning, watchers: Sequence[Callback], line: ProgressLine | None
         ) -> dict[str, Any]:
    import json

    for watcher in watchers:
        watcher.on_begin(tuning)
    try:
        text = _core.train(tuning.settings, _Told(tuning, watchers, line))
        for watcher in watchers:
            watcher.on_finish(tuning, tuning.history)
    finally:
        for watcher in watchers:
            watcher.on_end(tuning, tuning.history)
    summary: dict[str, Any] = json.loads(text)
    return summary


class _Told:
    """Tells callbacks how a run gets on."""

    def __init__(self, tuning: FineTuning, watchers: Sequence[Callback],
                 line: ProgressLine | None):
        self._tuning = tuning
        self._watchers = watchers
        self._line = line
        self._last: _core.Progress | None = None  # step of the epoch that is under way

    def __call__(self, now: _core.Progress) -> bool:
        if now.kind == "message":
            self._tuning.notes.append(now.message)
            if self._line is not None:
                self._line.note(now.message)
        if now.kind != "step":
            return True
        goes_on = True
        if self._last is not None and self._last.epoch != now.epoch:
            goes_on = self._end_epoch(self._last)
        self._last = now
        self._tuning.steps_done = now.step
        goes_on &= all([watcher.on_step(self._tuning, now) is not False
                        for watcher in self._watchers])
        if now.step == now.steps:
            goes_on &= self._end_epoch(now)
        return goes_on

    def _end_epoch(self, last: _core.Progress) -> bool:
        accuracy = None if last.accuracy < 0 else last.accuracy
        epoch = Epoch(last.epoch, last.epochs, last.loss, accuracy, last.learning_rate, 0)
        self._tuning.history.epochs.append(epoch)
        return all([watcher.on_epoch(self._tuning, epoch) is not False
                    for watcher in self._watchers])


@contextmanager
def _data_file(data: Data, run: str) -> Iterator[str]:
    """The data as a file. A list becomes one in the run's folder, which its content names, so that
    another list never takes its place. If the run is refused, the file goes again."""
    if isinstance(data, (str, os.PathLike)):
        yield os.fspath(data)
        return
    import hashlib

    kind, content = _content_of(data)
    name = f"data-{hashlib.sha256(content).hexdigest()[:16]}.{kind}"
    file = os.path.join(run, name)
    is_new = not os.path.exists(file)
    is_new_folder = not os.path.exists(run)
    if is_new:
        os.makedirs(run, exist_ok=True)
        partly = f"{file}.tmp-{os.getpid()}"
        with open(partly, "wb") as written:
            written.write(content)
        os.replace(partly, file)
    try:
        yield file
    except (InvalidInput, OverBudget):
        if is_new:
            os.remove(file)
        if is_new_folder and not os.listdir(run):
            os.rmdir(run)
        raise


def _content_of(data: Sequence[str] | Sequence[Mapping[str, Any]]) -> tuple[str, bytes]:
    """The kind of file that a list is, and its bytes."""
    if not isinstance(data, Sequence) or not data:
        raise InvalidInput("finetune: data is a path, or a list of texts or of conversations, and it "
                           "is not empty")
    are_texts = isinstance(data[0], str)
    for i, one in enumerate(data):
        if isinstance(one, str) != are_texts or not isinstance(one, (str, Mapping)):
            raise InvalidInput(f"finetune: data, item {i}: a list has either texts or conversations, "
                               "which are dicts with 'messages', or 'prompt' and 'completion'")
    if are_texts:
        texts = [_valid(one, f"data, item {i}") for i, one in enumerate(data)]
        return "txt", ("\n\n".join(texts) + "\n").encode()
    import json

    lines = []
    for i, one in enumerate(data):
        try:
            lines.append(json.dumps(one))
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"finetune: data, item {i}: {error}") from None
    return "jsonl", ("\n".join(lines) + "\n").encode()
