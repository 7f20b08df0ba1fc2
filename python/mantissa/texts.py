"""What language models write, and how well they predict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


class GeneratedText(str):
    """A text that a model wrote: a `str` with `tokens`, how many were drawn, `prompt_tokens`, how many
    were read, and `finish`, why it ends: "length" (as long as was asked for, or as the model reads),
    "end" (the model ended it), "stop" (one of `stop` came), "stopped" (the callback said so)."""

    tokens: int
    prompt_tokens: int
    finish: Literal["length", "end", "stop", "stopped"]

    @classmethod
    def _of(cls, text: str, tokens: int, prompt_tokens: int, finish: Any) -> GeneratedText:
        made = cls(text)
        made.tokens, made.prompt_tokens, made.finish = tokens, prompt_tokens, finish
        return made


@dataclass(frozen=True)
class TextLoss:
    """How well a model predicts each token of a text by those before it: means over the tokens."""

    tokens: int  # that were predicted
    nats_per_token: float
    perplexity: float  # e to the loss in nats
    bits_per_token: float
    bits_per_byte: float | None  # of the text as UTF-8; None: the tokens stand for no text
    accuracy: float  # the part of the tokens that was the likeliest


def loss_of(text: str) -> TextLoss:
    import json

    found = json.loads(text)
    return TextLoss(found["tokens"], found["loss"], found["perplexity"], found["bits_per_token"],
                    found.get("bits_per_byte"), found["accuracy"])
