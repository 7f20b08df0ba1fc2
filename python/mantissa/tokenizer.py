"""Tokens of language models."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _core
from .errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Message = Mapping[str, str]
"""A turn of a conversation: {"role": "system", "user" or "assistant", "content": the text}."""


class Tokenizer:
    """The tokens that a language model knows: `model.tokenizer`. Tokens are whole numbers from 0 to
    `vocabulary_size` - 1. The same as of the command line, which has no special tokens in what a
    person wrote: "<|im_end|>" in a text is text.

        >>> tokens = model.tokenizer.encode("It was")
        >>> model.tokenizer.decode(tokens)
        'It was'
    """

    def __init__(self, core: _core.Tokenizer):
        self._core = core

    @property
    def kind(self) -> str:
        """"byte-bpe", "characters", "bytes", "sentencepiece" or "wordpiece"."""
        return self._core.kind()

    @property
    def vocabulary_size(self) -> int:
        return self._core.vocabulary_size()

    def __len__(self) -> int:
        return self.vocabulary_size

    @property
    def has_chat_template(self) -> bool:
        return self._core.has_chat_template()

    @property
    def first_id(self) -> int | None:
        """The token that stands before each prompt; None: there is none."""
        return _known(self._core.special_tokens().first)

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text; None: there is none."""
        return _known(self._core.special_tokens().begin)

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text; None: there is none."""
        return _known(self._core.special_tokens().end)

    @property
    def padding_id(self) -> int | None:
        """The token in the place of those that a sequence lacks; None: there is none."""
        return _known(self._core.special_tokens().padding)

    @property
    def end_ids(self) -> list[int]:
        """The tokens with which the model ends a text, or its turn of a conversation."""
        return self._core.special_tokens().ends

    @overload
    def encode(self, text: str, *, array: Literal[False] = False) -> list[int]: ...

    @overload
    def encode(self, text: str, *, array: Literal[True]) -> NDArray[np.int32]: ...

    def encode(self, text: str, *, array: bool = False) -> list[int] | NDArray[np.int32]:
        """The tokens of a text, a list [tokens], or with `array` NumPy's int32. No token stands around
        them, not `first_id` either. InvalidInput names the place of a character or a byte that has
        no token."""
        tokens = self._core.encode(_valid(text, "encode"))
        return _as_array(tokens) if array else tokens

    def decode(self, ids: int | Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of tokens: one, or a list or an array of them. Special tokens give nothing; with
        `skip_special_tokens=False` their names, of byte-level BPE. Bytes that are no UTF-8, such as a
        part of a character, become U+FFFD. InvalidInput names a number that is no token."""
        numbers = ids if isinstance(ids, Iterable) else [ids]
        return self._core.decode([self._number(one) for one in numbers], not skip_special_tokens)

    def token(self, id: int) -> str:
        """A token as its vocabulary writes it: "Ġthe" for " the" in byte-level BPE. InvalidInput: a
        number that is no token."""
        return self._core.token(self._number(id))

    @overload
    def apply_chat_template(self, messages: Sequence[Message], *,
                            add_generation_prompt: bool = False, tokenize: Literal[True] = True,
                            array: Literal[False] = False) -> list[int]: ...

    @overload
    def apply_chat_template(self, messages: Sequence[Message], *,
                            add_generation_prompt: bool = False, tokenize: Literal[True] = True,
                            array: Literal[True]) -> NDArray[np.int32]: ...

    @overload
    def apply_chat_template(self, messages: Sequence[Message], *,
                            add_generation_prompt: bool = False,
                            tokenize: Literal[False]) -> str: ...

    def apply_chat_template(self, messages: Sequence[Message], *,
                            add_generation_prompt: bool = False, tokenize: bool = True,
                            array: bool = False) -> list[int] | NDArray[np.int32] | str:
        """The tokens of a conversation by the model's chat template; with `tokenize=False` their text,
        with special tokens. `add_generation_prompt`: the assistant's turn begins at the end.

        messages: dicts of "role" ("system", "user", "assistant") and "content".

        InvalidInput: the model has no template, other roles and entries, texts that cannot be
        encoded. A template that docs/language.md does not have is refused here, and the error
        quotes its beginning."""
        tokens = self._core.encode_chat(pairs_of(messages), add_generation_prompt)
        if not tokenize:
            return self._core.decode(tokens, True)
        return _as_array(tokens) if array else tokens

    def _number(self, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise InvalidInput(f"{value!r} is no number of a token") from None
        if not 0 <= number < self.vocabulary_size:
            raise InvalidInput(f"there is no token {number}; the model has {self.vocabulary_size}, "
                               "from 0 on")
        return number

    def __repr__(self) -> str:
        return f"<{self.kind}: {self.vocabulary_size} tokens>"


def pairs_of(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Messages as the engine takes them. InvalidInput names the one that is no message."""
    if isinstance(messages, (str, bytes, Mapping)):
        raise InvalidInput("messages: give a list of dicts with 'role' and 'content'")
    pairs = []
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or set(message) != {"role", "content"}:
            raise InvalidInput(f"message {i}: is no dict of 'role' and 'content' alone")
        for name in ("role", "content"):
            _valid(message[name], f"message {i}, {name}")
        pairs.append((message["role"], message["content"]))
    return pairs


def _valid(text: Any, where: str) -> str:
    """The text, if it can be written as UTF-8."""
    if not isinstance(text, str):
        raise InvalidInput(f"{where}: {text!r} is no text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{where}: character {error.start} is a half of a pair of surrogates, "
                           "which no UTF-8 has") from None
    return text


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _as_array(tokens: list[int]) -> NDArray[np.int32]:
    import numpy as np

    return np.array(tokens, np.int32)
