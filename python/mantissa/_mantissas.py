"""Arrays of mantissas; apart, since it wants NumPy when it is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import as_array
from .errors import InvalidInput


class Mantissas(np.ndarray):
    """Numbers in units of 2^exponent, int16. Parts and copies are mantissas again; results of
    computing with them are not. `table`: the columns that they came through, if it was a table."""

    _is_mantissas = True
    table: Any = None

    def __array_finalize__(self, other: Any) -> None:
        self.table = getattr(other, "table", None)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Mantissas put together are mantissas; with other numbers they have no common unit."""
        if function is not np.concatenate:
            return super().__array_function__(function, types, args, options)
        parts = list(args[0])
        if not all(isinstance(one, Mantissas) for one in parts):
            raise InvalidInput("mantissas and other numbers cannot be put into one array")
        table = parts[0].table
        if any(one.table != table for one in parts):
            raise InvalidInput("mantissas that came through the columns of several tables have no "
                               "common units")
        whole = np.concatenate([np.asarray(one) for one in parts], *args[1:], **options)
        result = whole.view(Mantissas)
        result.table = table
        return result

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
