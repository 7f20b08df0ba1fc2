"""Whatever holds numbers, as arrays that the engine can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

_READ_AS_THEY_ARE = frozenset(("uint8", "int16", "int32", "int64", "float32", "float64"))
_KINDS = {"i": "int64", "u": "uint64", "f": "float64", "b": "bool"}


def is_readable(value: Any) -> bool:
    """Whether the engine knows the elements as they are."""
    import numpy as np

    return isinstance(value, np.ndarray) and value.dtype.name in _READ_AS_THEY_ARE and bool(
        value.dtype.isnative)


def as_array(value: Any, name: str = "array", copy: bool = False) -> np.ndarray:
    """The value as an array that the engine can read, without a copy if that is possible: an
    ndarray, a memmap, anything with DLPack or a buffer. Frames and columns of pandas, polars and
    Arrow, lists, other whole numbers, float16 and the other byte order are converted."""
    import numpy as np

    array = _with_known_elements(_array_of(value, name), name)
    if not array.flags.c_contiguous:
        if not copy:
            raise InvalidInput(f"'{name}' is not contiguous: copy=True copies it, or "
                               "numpy.ascontiguousarray() does")
        array = np.ascontiguousarray(array)
    return array


def columns_of(value: Any) -> list[tuple[str, Any]] | None:
    """Names and columns of a frame of pandas or polars, or of an Arrow table; None for others."""
    if hasattr(value, "columns") and hasattr(value, "iloc"):
        return [(str(name), value.iloc[:, i]) for i, name in enumerate(value.columns)]
    if hasattr(value, "get_columns"):
        return [(column.name, column) for column in value.get_columns()]
    if hasattr(value, "column_names") and hasattr(value, "columns"):
        return list(zip(value.column_names, value.columns))
    return None


def numbers_of_column(column: Any, what: str) -> np.ndarray:
    """The numbers of a frame's column. `what` begins errors, such as for missing values."""
    missing = missing_in(column)
    if missing > 0:
        raise InvalidInput(f"{what} has {missing} missing values: fill them, or leave the rows out")
    array: np.ndarray = column.to_numpy()
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if array.dtype == object and kind in _KINDS:
        array = array.astype(_KINDS[kind])  # nullable columns, and columns of Arrow
    if array.dtype.kind not in _KINDS:
        elements = getattr(column, "dtype", getattr(column, "type", array.dtype))
        raise InvalidInput(f"{what} has elements of {elements}, which are no numbers")
    return array


def missing_in(column: Any) -> int:
    if hasattr(column, "isna"):
        return int(column.isna().sum())
    count = getattr(column, "null_count", 0)
    return int(count() if callable(count) else count)


def _array_of(value: Any, name: str) -> np.ndarray:
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        return _unmasked(value, name)
    if isinstance(value, np.ndarray):
        return value if hasattr(value, "_is_mantissas") else np.asarray(value)
    columns = columns_of(value)
    if columns is not None:
        if not columns:
            raise InvalidInput(f"'{name}' is a frame without columns")
        return np.stack([numbers_of_column(column, f"'{name}': column '{one}'")
                         for one, column in columns], axis=1)
    if hasattr(value, "to_numpy"):
        return np.ascontiguousarray(numbers_of_column(value, f"'{name}'"))
    if hasattr(value, "toarray"):
        raise InvalidInput(f"'{name}' is sparse: toarray() makes an array of it")
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value.detach() if getattr(value, "requires_grad", False)
                                  else value)
        return np.asarray(value)
    except Exception as error:  # each library has its own
        raise InvalidInput(f"'{name}' is no array that NumPy can read: {error}") from None


def _unmasked(value: Any, name: str) -> np.ndarray:
    import numpy as np

    masked = int(np.ma.getmaskarray(value).sum())
    if masked > 0:
        raise InvalidInput(f"'{name}' is a masked array, and {masked} of its elements are masked: "
                           "leave their examples out, or fill them with filled(); a label of -1 "
                           "says that there is none")
    return np.asarray(value)


def _with_known_elements(array: np.ndarray, name: str) -> np.ndarray:
    import numpy as np

    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if hasattr(array, "_is_mantissas") and array.dtype != np.int16:
        raise InvalidInput(f"'{name}': mantissas are int16, and these are {array.dtype}; "
                           "numpy.asarray() makes numbers of them")
    kind, size = array.dtype.kind, array.dtype.itemsize
    if array.dtype.name not in _READ_AS_THEY_ARE:
        if kind == "u" and size == 8 and array.size and array.max() > np.iinfo(np.int64).max:
            raise InvalidInput(f"'{name}' has {array.max()}: whole numbers end at 2^63 - 1")
        if kind in "iub":
            array = array.astype(np.int64 if size > 2 else np.int32)
        elif kind == "f":
            array = array.astype(np.float32 if size < 4 else np.float64)
        else:
            raise InvalidInput(f"'{name}': elements of {array.dtype} are no numbers")
    return array if array.flags.aligned else array.copy()
