"""Arrays of mantissas; apart, since it wants NumPy when it is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import as_array
from .errors import InvalidInput


class Mantissas(np.ndarray):
    """Numbers in units of 2^exponent, int16: parts and copies are mantissas again, what is computed
    from them is not. `table`: the columns that they came through, if it was a table."""

    _is_mantissas = True
    table: Any = None

    def __array_finalize__(self, other: Any) -> None:
        self.table = getattr(other, "table", None)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        def plain(value: Any) -> Any:
            return value.view(np.ndarray) if isinstance(value, Mantissas) else value
        if "out" in options:
            options["out"] = tuple(plain(one) for one in options["out"])
        return getattr(ufunc, method)(*map(plain, inputs), **options)


def mantissas(values: Any, table: Any = None) -> Mantissas:
    array = as_array(values, "mantissas", True)
    whole = array.dtype.kind in "iu"
    if not whole or (array.size and not -32767 <= array.min() <= array.max() <= 32767):
        raise InvalidInput("mantissas are whole numbers from -32767 to 32767")
    result = np.asarray(array, np.int16).view(Mantissas)
    result.table = table
    return result
