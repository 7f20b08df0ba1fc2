"""Rows of a table, as its file has them, for a model that was trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._arrays import as_array, columns_of
from .data import as_data
from .errors import InvalidInput

if TYPE_CHECKING:
    from . import _core

# Name, numbers, and texts if there are no numbers.
Column = tuple[str, list[float], list[str]]


def rows_for(core: _core.Model, table: dict[str, Any], value: Any, with_targets: bool
             ) -> list[tuple[str, Any]]:
    """The inputs of a model of this table, from a frame, a dict of columns or of arrays, or rows in the
    order of the columns."""
    arrays = value if isinstance(value, dict) else None
    if columns_of(value) is None and not isinstance(value, dict):
        arrays = _arrays_of(value)
    from ._mantissas import mantissas

    if arrays is not None and hasattr(arrays.get("numbers"), "_is_mantissas"):
        _check_table(arrays["numbers"], table)
        return list(arrays.items())
    target = table["target"]["name"]
    encoded, notes = core.encode(_columns(value, arrays, table, target))
    for note in notes:
        _warn(note)
    if with_targets and not {"labels", "targets"} & set(encoded):
        raise InvalidInput(f"evaluate: each row needs a value of '{target}'")
    return [(name, mantissas(array, table) if array.dtype == "int16" else array)
            for name, array in encoded.items()]


def _warn(note: str) -> None:
    import warnings

    warnings.warn(note, stacklevel=5)


def _arrays_of(value: Any) -> dict[str, Any]:
    """Rows, and perhaps their targets, by the names of the inputs."""
    import numpy as np

    if isinstance(value, tuple):
        return dict(zip(("numbers", "labels"), value))
    if isinstance(value, (list, np.ndarray)):
        return {"numbers": value}
    arrays = as_data(value).arrays
    return arrays if "0" not in arrays else dict(zip(("numbers", "labels"), arrays.values()))


def _check_table(numbers: Any, table: dict[str, Any]) -> None:
    if numbers.table is not None and numbers.table != table:
        raise InvalidInput("these numbers came through the columns of another table, with other means: "
                           "give the rows as its file has them")


def _columns(value: Any, arrays: dict[str, Any] | None, table: dict[str, Any], target: str
             ) -> list[Column]:
    frame = columns_of(value)
    if frame is not None:
        return [_column_of(name, column) for name, column in frame]
    assert arrays is not None
    if "numbers" not in arrays:
        return [_column_of(name, column) for name, column in arrays.items()]
    columns = _columns_in_order(arrays["numbers"], [one["name"] for one in table["columns"]])
    targets = arrays.get("labels", arrays.get("targets"))
    if targets is not None:
        columns.append(_column_of(target, _column_vector(targets)))
    return columns


def _column_vector(targets: Any) -> Any:
    shape: Sequence[int] = getattr(targets, "shape", ())
    return targets.reshape(-1) if len(shape) == 2 and shape[1] == 1 else targets


def _columns_in_order(rows: Any, names: list[str]) -> list[Column]:
    import numpy as np

    if not isinstance(rows, np.ndarray):
        rows = np.array([list(row) for row in rows], dtype=object)
    if rows.ndim != 2 or rows.shape[1] != len(names):
        raise InvalidInput(f"rows have the {len(names)} columns {', '.join(names[:20])}, in this order, "
                           f"and [{', '.join(map(str, rows.shape))}] is given; a frame has names")
    return [_column_of(name, rows[:, i]) for i, name in enumerate(names)]


def _column_of(name: str, values: Any) -> Column:
    """Numbers if all of the column are numbers, else its fields as in a file."""
    import numpy as np

    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if isinstance(values, np.ndarray) and kind in "iuf":
        return name, as_array(values, name, True).astype(np.float64).tolist(), []
    if hasattr(values, "to_numpy") and kind in "iuf":
        if hasattr(values, "isna"):
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            numbers = values.to_numpy().astype(np.float64)
        return name, numbers.tolist(), []
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidInput(f"column '{name}' is a masked array: fill it with filled()")
    missing = values.isna() if hasattr(values, "isna") else None
    return name, [], [_field(field) if missing is None or not missing.iloc[i] else ""
                      for i, field in enumerate(values)]


def _field(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return repr(float(value))
    return str(value)
