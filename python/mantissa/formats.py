"""Number formats as objects. Texts such as "bfp8" or "bfp:w=4,a=4" do as well.

    >>> mt.bfp(weights=4, activations=4, ends=8)
    bfp:w=4,a=4,ends=8
    >>> trainer = mt.Trainer(net, format=mt.bfp(gradients=8, gradient_rounding="stochastic"))

docs/formats.md describes all keys and the values that they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_KEYS = {"weights": "w", "activations": "a", "gradients": "g", "updates": "u",
         "accumulator": "acc", "gradient_rounding": "gr", "update_rounding": "round"}


@dataclass(frozen=True)
class Format:
    """A number format: its family, "bfp", "dfp" or "fp32", and the keys in which it differs from it."""

    family: str
    keys: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        inside = ",".join(f"{key}={value}" for key, value in self.keys.items())
        if inside:
            return f"{self.family}:{inside}"
        return self.family if self.family == "fp32" else f"{self.family}8"

    __repr__ = __str__

    def replace(self, **keys: Any) -> Format:
        """The format with other values of these keys."""
        return Format(self.family, {**self.keys, **_texts(keys)})


def _texts(keys: dict[str, Any]) -> dict[str, str]:
    def text(value: Any) -> str:
        return ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return {_KEYS.get(key, key): text(value) for key, value in keys.items()}


def bfp(**keys: Any) -> Format:
    """Block floating point. Keys: weights, activations, gradients (bits), updates, accumulator,
    gradient_rounding, update_rounding ("nearest", "stochastic"), and the keys of docs/formats.md by
    their own names: block="channel", unsigned=True, ends=8."""
    return Format("bfp", _texts(keys))


def dfp(**keys: Any) -> Format:
    """Dynamic fixed point: exponents follow the statistics of bits. Keys as in bfp."""
    return Format("dfp", _texts(keys))


fp32 = Format("fp32")
