"""Language models: generate, talk, measure, save."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core
from ._settings import settings_of
from .commands import Watch
from .errors import InvalidInput
from .texts import GeneratedText, TextLoss, loss_of
from .tokenizer import Message, Tokenizer, _valid, pairs_of

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

Path = str | os.PathLike[str]
OnPiece = Callable[[str], Any]
Prompt = str | Sequence[Message]


class LanguageModel:
    """A language model in memory; `mt.load_language_model` and `mt.finetune` make one. For one thread
    at a time: a call during another thread's call raises mt.Error. Ctrl-C ends a call.

        >>> model = mt.load_language_model("SmolLM2-135M-Instruct.Q4_1.gguf")
        >>> print(model.chat([{"role": "user", "content": "What is a prime number?"}]))
        >>> model.loss("It was the best of times").perplexity

    `run` is the folder of the run that it comes from, if it has one. Of finetune(), `summary` is what
    the run found (its summary.json), and `notes` are its messages."""

    run: str | None = None
    summary: dict[str, Any] | None = None
    notes: Sequence[str] = ()

    def __init__(self, source: Path, settings: dict[str, Any],
                 folder: TemporaryDirectory[str] | None = None):
        self._source = os.path.abspath(os.fspath(source))  # wherever the process goes
        self._settings = settings
        self._folder = folder  # of a file that was made for this model
        self._core = _core.LanguageModel(settings_of({"checkpoint": self._source, **settings},
                                                     "chat"))
        self._tokenizer = Tokenizer(self._core.tokenizer())
        if os.path.isfile(os.path.join(self._source, "config.toml")):
            self.run = self._source

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def format(self) -> str:
        """The number format that it computes in."""
        return self._core.format()

    @property
    def sequence(self) -> int:
        """Tokens of a text, at most."""
        return self._core.sequence()

    @property
    def adapter_rank(self) -> int:
        """The rank of its adapters; 0: it has none."""
        return self._core.adapter_rank()

    # --- texts ---

    @overload
    def generate(self, prompt: Prompt, *, max_tokens: int = 200, temperature: float = 1,
                 top_k: int = 0, top_p: float = 1, seed: int = 1,
                 stop: str | Sequence[str] = (), stream: OnPiece | Literal[False] = False
                 ) -> GeneratedText: ...

    @overload
    def generate(self, prompt: Prompt, *, max_tokens: int = 200, temperature: float = 1,
                 top_k: int = 0, top_p: float = 1, seed: int = 1,
                 stop: str | Sequence[str] = (), stream: Literal[True]) -> Iterator[str]: ...

    def generate(self, prompt: Prompt, *, max_tokens: int = 200, temperature: float = 1,
                 top_k: int = 0, top_p: float = 1, seed: int = 1, stop: str | Sequence[str] = (),
                 stream: OnPiece | bool = False) -> GeneratedText | Iterator[str]:
        """The text after a prompt, as `mantissa generate`; the same arguments give the same text on any
        machine, in integer formats.

        prompt: a text; or messages of a conversation, to which the assistant's answer is written. A
            text may go on beyond the model's sequence, whose first tokens it then forgets; an answer
            ends with the sequence.
        max_tokens: 1 to 2^20. The model may end its text before.
        temperature: 0 to 100; 0 always takes the likeliest token.
        top_k: draws among so many likeliest tokens; 0: among all.
        top_p: of these, among the likeliest whose probabilities add up to this part of their sum,
            above 0 and at most 1.
        seed: of the tokens drawn, 0 to 2^63 - 1.
        stop: a text or several that end the text, and are no part of it.
        stream: a function that gets each piece of the text as soon as it is there, and returns False
            to stop; or True: then this returns an iterator over the pieces. Closing it stops.

        InvalidInput names the argument that is out of range, and a character that has no token."""
        answers = not isinstance(prompt, str)
        return self._text("generate", prompt, stream, length=max_tokens, temperature=temperature,
                          top_k=top_k, top_p=top_p, seed=seed, stop=stop,
                          stays_in_sequence=answers)

    @overload
    def chat(self, messages: Prompt, *, max_tokens: int = 512, temperature: float = 0.7,
             top_k: int = 40, top_p: float = 1, seed: int = 1, stop: str | Sequence[str] = (),
             keep_positions: bool = False, stream: OnPiece | Literal[False] = False
             ) -> GeneratedText: ...

    @overload
    def chat(self, messages: Prompt, *, max_tokens: int = 512, temperature: float = 0.7,
             top_k: int = 40, top_p: float = 1, seed: int = 1, stop: str | Sequence[str] = (),
             keep_positions: bool = False, stream: Literal[True]) -> Iterator[str]: ...

    def chat(self, messages: Prompt, *, max_tokens: int = 512, temperature: float = 0.7,
             top_k: int = 40, top_p: float = 1, seed: int = 1, stop: str | Sequence[str] = (),
             keep_positions: bool = False, stream: OnPiece | bool = False
             ) -> GeneratedText | Iterator[str]:
        """The assistant's next turn, with the defaults of `mantissa chat`. The arguments are the
        same as generate()'s.

        messages: dicts of "role" ("system", "user", "assistant") and "content", or a text: what the
            user says first.
        keep_positions: goes on from the positions that were computed for the last answer, as far as
            the conversation begins in the same way, as `mantissa chat` does; in fp32 the last bits of
            logits may depend on that.

        InvalidInput: the model has no chat template, other roles, more tokens than it reads."""
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
        return self._text("chat", turns, stream, length=max_tokens, temperature=temperature,
                          top_k=top_k, top_p=top_p, seed=seed, stop=stop,
                          keeps_positions=keep_positions)

    def _text(self, call: str, prompt: Prompt, stream: OnPiece | bool, *,
              stop: str | Sequence[str], **named: Any) -> GeneratedText | Iterator[str]:
        choices = _core.GenerationChoices()
        choices.stop = [_valid(text, "stop") for text in ([stop] if isinstance(stop, str) else stop)]
        for name, value in named.items():
            try:
                setattr(choices, name, value)
            except (TypeError, RuntimeError):
                raise InvalidInput(f"{call}: {name} cannot be {value!r}") from None

        def text(on_piece: OnPiece | None) -> GeneratedText:
            found = (self._core.go_on(_valid(prompt, "prompt"), choices, on_piece)
                     if isinstance(prompt, str) else
                     self._core.answer(pairs_of(prompt), choices, on_piece))
            return GeneratedText._of(*found)
        if stream is True:
            from ._stream import pieces_of
            return pieces_of(text)
        return text(stream if callable(stream) else None)

    # --- losses ---

    def loss(self, text: str, *, progress: Watch | None = None) -> TextLoss:
        """The loss of a text, of two tokens at least: each token but the first is predicted. A text of
        more tokens than the model's sequence is divided into sequences, as `mantissa eval` does it."""
        return loss_of(self._core.loss(_valid(text, "loss"), progress))

    def evaluate(self, data: Path, *, batch_size: int | None = None,
                 progress: Watch | None = None) -> TextLoss:
        """The loss of the test part of a file, as `mantissa eval` with the model's sequence: the last
        twentieth of a text, or the answers of a twentieth of the conversations in NAME.jsonl
        (docs/data.md). `batch_size` sequences are computed at once; it changes no result."""
        settings = settings_of({"data": data, "batch_size": batch_size}, "eval")
        return loss_of(self._core.evaluate(settings, progress))

    # --- files ---

    def save(self, path: Path) -> None:
        """Writes the model to one safetensors file, which load_language_model takes. A model of a GGUF
        file or a folder of another program is written in float32, as `mantissa import` does."""
        import shutil

        target, made = os.fspath(path), self._source
        if _core.describe_language_model(made):
            _core.import_model(made, {"out": target, "sequence": str(self.sequence)})
            return
        if os.path.isdir(made):
            made = os.path.join(made, "model.safetensors")
        partly = f"{target}.tmp-{os.getpid()}"
        try:
            shutil.copyfile(made, partly)
            os.replace(partly, target)
        finally:
            if os.path.exists(partly):
                os.remove(partly)

    def export(self, path: Path, kind: Literal["gguf", "huggingface", "peft"], *,
               weights: str | None = None, positions: int | None = None,
               base: str | None = None) -> list[str]:
        """Writes the model for other programs, as `mantissa export --target KIND`.

        kind: "gguf", a file for llama.cpp; "huggingface", a folder for transformers; "peft", a folder
            with the adapters alone.
        weights: "f32", "f16", "bf16" or, of gguf, "q8_0".
        positions: tokens of the longest text, as the file says it.
        base: of peft: the model that the adapters belong to.

        Returns notes, a line each: which tensors are rounded, which merged."""
        if kind not in ("gguf", "huggingface", "peft"):
            raise InvalidInput(f"export: the kind {kind!r} is none of gguf, huggingface and peft")
        return _core.export_model(settings_of(
            {"checkpoint": self._file(), "out": path, "target": kind, "weights": weights,
             "positions": positions, "base": base}, "export"))

    def _file(self) -> str:
        """The model as a run, or as a file in the form that `mantissa import` writes."""
        return self._imported(self.sequence)

    def _start(self, sequence: int | None) -> str:
        """The same for training, where `mantissa import` decides on the tokens of an example if nobody
        else has."""
        return self._imported(sequence or self._settings.get("sequence"))

    def _imported(self, sequence: int | None) -> str:
        if not _core.describe_language_model(self._source):
            return self._source
        if self._folder is None:
            self._folder = _temporary_folder()
        file = os.path.join(self._folder.name, f"{sequence or 'usual'}.safetensors")
        if not os.path.exists(file):
            _core.import_model(self._source, settings_of({"out": file, "sequence": sequence}))
        return file

    def __repr__(self) -> str:
        return f"<language model of {self._source}: {self.sequence} positions, {self.format}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a LanguageModel cannot be pickled: save() writes it to a file")


def load_language_model(path_or_run: Path, *, format: Any = None, sequence: int | None = None,
                        smooth: Path | None = None, weights: str | None = None,
                        threads: int | None = None) -> LanguageModel:
    """A language model: of a run's folder or its model.safetensors, of a file that `mantissa import` or
    save() wrote, of a GGUF file, or of a folder with config.json, tokenizer.json and safetensors.

        >>> model = mt.load_language_model("SmolLM2-135M-Instruct.Q4_1.gguf", sequence=256)

    format: the number format of a model that is no run: "fp32" (the default), or one with an exponent
        for each token, `mt.bfp(block="channel", blocks="token")`. A run has its own.
    sequence: positions of a text, of a model of another program. Left out: 1,024, or as many as it
        has; with `smooth` or `weights` 128, as of `mantissa import`.
    smooth: of a model of another program: a text whose first tokens say which channels are large.
        Powers of two move from these into the weights, which makes 8 bits closer to real numbers.
    weights: of a GGUF file: "blocks" keeps weights of Q4_0, Q4_1 and Q8_0 in 4 and 8 bits; they
        cannot be trained then, but finetune() can put adapters beside them.
    threads: 0 or left out: one for each processor. They change no result.

    InvalidInput names all that a file asks for and that is not there (docs/language.md): other
    architectures, tokenizers, chat templates."""
    settings = {"format": format, "sequence": sequence, "threads": threads}
    if smooth is None and weights is None:
        return LanguageModel(path_or_run, settings)
    source = os.fspath(path_or_run)
    if not _core.describe_language_model(source):
        raise InvalidInput(f"{'smooth' if smooth is not None else 'weights'}: is for models of other "
                           f"programs, and {source} is none")
    folder = _temporary_folder()
    file = os.path.join(folder.name, "imported.safetensors")
    _core.import_model(source, settings_of({"out": file, "sequence": sequence, "smooth": smooth,
                                            "weights": weights, "threads": threads}, "import"))
    return LanguageModel(file, {**settings, "sequence": None}, folder)


def _temporary_folder() -> TemporaryDirectory[str]:
    import tempfile  # only here: it takes a tenth of the package's import

    return tempfile.TemporaryDirectory(prefix="mantissa-")
