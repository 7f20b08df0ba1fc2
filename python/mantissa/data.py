"""Examples in memory: arrays that stay where they are.

Arrays are borrowed if the engine can read them: C order, and elements uint8, int16, int32, int64,
float32 or float64. Other whole numbers, float16, the other byte order and frames are copied; another
order is an error, unless `copy=True` allows a copy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _core
from ._arrays import as_array
from ._settings import settings_of
from .errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from .network import Network


def mantissas(values: Any) -> np.ndarray:
    """Whole numbers from -32767 to 32767 as mantissas of an input of numbers: times 2^exponent, where
    `exponent` is the input's. Other arrays, whole numbers too, are the numbers themselves."""
    from ._mantissas import mantissas as made

    return made(values)


class Data:
    """Examples: arrays with as many examples each, in the order of the network's inputs, or by name.

        >>> data = mt.Data(x, y)
        >>> data = mt.Data(pixels=x, numbers=z, labels=y)
    """

    def __init__(self, *arrays: Any, copy: bool = False, **named: Any):
        if arrays and named:
            raise InvalidInput("Data: give arrays either in order or by name")
        if not arrays and not named:
            raise InvalidInput("Data: there is no array")
        self._named = bool(named)
        items = list(named.items()) if named else [(str(i), a) for i, a in enumerate(arrays)]
        self._arrays = {name: as_array(array, name, copy) for name, array in items}
        counts = {name: len(array) if array.ndim else 0 for name, array in self._arrays.items()}
        if len(set(counts.values())) != 1 or any(a.ndim == 0 for a in self._arrays.values()):
            raise InvalidInput("Data: arrays have different numbers of examples: " +
                               ", ".join(f"{name} {count}" for name, count in counts.items()))
        self.class_names: list[str] = []

    # --- where data come from ---

    @classmethod
    def load(cls, data: str | os.PathLike[str], **settings: Any) -> DataSet:
        """Loads everything that the command line's --data reads: "fashion-mnist", a folder of
        pictures or IDX files, a CSV file, NPZ. Takes the settings of `mantissa data`, such as
        `input_size="32"`. docs/data.md."""
        import json

        import numpy as np

        from ._mantissas import mantissas as made

        loaded = _core.load_data(settings_of({"data": data, **settings}, "data"))

        table = json.loads(loaded.table_json) if loaded.table_json else None

        def split(arrays: dict[str, Any]) -> Data | None:
            if not arrays or len(next(iter(arrays.values()))) == 0:
                return None
            named: dict[str, Any] = {
                name: made(array, table) if array.dtype == np.int16 else array
                for name, array in arrays.items()}
            part = cls(**named)
            part.class_names = loaded.class_names
            return part

        train = split(loaded.train)
        if train is None:
            raise InvalidInput(f"{data}: there are no training examples")
        return DataSet(train, split(loaded.validation), split(loaded.test), loaded.kind,
                       loaded.class_names, loaded.notes,
                       table,
                       loaded.number_exponent, loaded.target_exponent, loaded.target_mean,
                       loaded.target_deviation)

    @classmethod
    def from_iterable(cls, examples: Iterable[Any]) -> Data:
        """All examples of an iterable, a generator or a PyTorch dataset, copied: each is a tuple of the
        arrays of one example, or a dict of them by name."""
        import numpy as np

        if hasattr(examples, "__getitem__") and hasattr(examples, "__len__"):
            sequence: Any = examples
            examples = (sequence[i] for i in range(len(sequence)))
        rows = list(examples)
        if not rows:
            raise InvalidInput("Data.from_iterable: there are no examples")
        if isinstance(rows[0], dict):
            named: dict[str, Any] = {
                name: np.stack([as_array(row[name], name, True) for row in rows])
                for name in rows[0]}
            return cls(**named)
        width = len(rows[0])
        return cls(*(np.stack([as_array(row[i], str(i), True) for row in rows])
                     for i in range(width)))

    # --- what they are ---

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name; in order they are called "0", "1" and so on."""
        return dict(self._arrays)

    def __getitem__(self, rows: Any) -> Data:
        """Some examples: a slice borrows, a list of numbers copies."""
        part = Data.__new__(Data)
        part._named = self._named
        part._arrays = {name: array[rows] for name, array in self._arrays.items()}
        part.class_names = self.class_names
        return part

    def split(self, fraction: float, seed: int = 1) -> tuple[Data, Data]:
        """Two parts in an order that the seed gives; the second has this fraction of the examples.
        Copies both."""
        import numpy as np

        if not 0 <= fraction <= 1:
            raise InvalidInput(f"split: the fraction {fraction} is not one from 0 to 1")
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self))
        first = len(self) - round(fraction * len(self))
        return self[np.sort(order[:first])], self[np.sort(order[first:])]

    def batches(self, size: int, seed: int | None = None) -> Iterator[tuple[np.ndarray, ...]]:
        """One epoch of batches, in the order of the seed; without one, as they lie. The last, smaller
        batch is left out."""
        import numpy as np

        if size < 1:
            raise InvalidInput(f"batches: a batch has 1 example or more, not {size}")
        arrays = tuple(self._arrays.values())
        order = (None if seed is None else
                 np.random.Generator(np.random.PCG64(seed)).permutation(len(self)))
        places = (slice(begin, begin + size) if order is None else order[begin:begin + size]
                  for begin in range(0, len(self) - size + 1, size))
        return (tuple(array[rows] for array in arrays) for rows in places)

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name}: {array.dtype} {list(array.shape[1:])}"
                           for name, array in self._arrays.items())
        return f"<{len(self)} examples of {arrays}>"

    def bound_to(self, network: Network, with_targets: bool = True) -> list[tuple[str, Any]]:
        """Arrays by the names of the network's inputs."""
        if self._named:
            return list(self._arrays.items())
        names = [one.name for one in network.inputs]
        if len(self._arrays) > len(names) or (with_targets and len(self._arrays) < len(names)):
            raise InvalidInput(f"the network wants {len(names)} arrays ({', '.join(names)}), and "
                               f"the data have {len(self._arrays)}")
        return list(zip(names, self._arrays.values()))


def class_weights(labels: Any, weights: str | Mapping[int, float] = "balanced") -> np.ndarray:
    """A weight for each label, for a loss with `weights`: the class's own in a mapping, or
    "balanced": then each class counts as much as any other. Only ratios matter; the result is
    within 0 and 31."""
    import numpy as np

    array = as_array(labels, "labels", True)
    if array.size == 0 or array.dtype.kind not in "iu" or int(array.min()) < -1:
        raise InvalidInput("class_weights: `labels` are whole numbers from 0 up, -1 for none")
    counted = array[array >= 0]
    counts = np.bincount(counted) if counted.size else np.zeros(1, np.int64)
    if isinstance(weights, str):
        if weights != "balanced":
            raise InvalidInput(f'class_weights: "{weights}" is neither "balanced" nor a mapping')
        classes = max(1, int(np.count_nonzero(counts)))
        by_class = np.divide(counted.size, counts * classes, out=np.zeros(len(counts)),
                             where=counts > 0)
    else:
        missing = [int(label) for label in np.flatnonzero(counts) if int(label) not in weights]
        if missing:
            raise InvalidInput(f"class_weights: there is no weight for class {missing[0]}")
        by_class = np.array([float(weights.get(label, 0)) for label in range(len(counts))])
    return in_range_of_weights(np.where(array >= 0, by_class[np.maximum(array, 0)], 0.0))


def in_range_of_weights(weights: Any) -> np.ndarray:
    """Weights times the power of two that brings the largest to between 8 and 16, if it is above 31
    or below 1: only their ratios matter, and a loss takes them in steps of 1/1024. Warns about
    weights that become 0."""
    import numpy as np

    array = np.asarray(weights, np.float64)
    if array.size == 0 or not np.isfinite(array).all() or array.min() < 0 or array.max() == 0:
        raise InvalidInput("weights are numbers from 0 up, and one of them is above 0")
    largest = float(array.max())
    if not 1 <= largest <= 31:
        array = array * 2.0 ** (3 - np.floor(np.log2(largest)))
    vanished = int(((array > 0) & (array * 1024 <= 0.5)).sum())
    if vanished > 0:
        import warnings

        warnings.warn(f"{vanished} weights are so small beside the largest, {largest}, that they count "
                      "nothing: a loss takes weights in steps of 1/1024", stacklevel=3)
    return array


@dataclass(frozen=True)
class DataSet:
    """A data set in memory. Arrays are called `pixels` (pictures) or `numbers` (tables), and `labels` or
    `targets`. Numbers are mantissas (see mt.mantissas), with the exponent that `mt.numbers(...,
    exponent=data.number_exponent)` wants; a target is (number - target_mean) / target_deviation. With
    `row_weights="column"` the training rows of a table have `weights` too, for a loss with
    `weights="weights"`."""

    train: Data
    validation: Data | None
    test: Data | None
    kind: str
    class_names: list[str]
    notes: list[str]
    table: dict[str, Any] | None  # the columns, docs/data.md
    number_exponent: int = 0
    target_exponent: int = 0
    target_mean: float = 0.0
    target_deviation: float = 1.0

    def __repr__(self) -> str:
        parts = [f"{name} {part!r}" for name, part in
                 (("train", self.train), ("validation", self.validation), ("test", self.test))
                 if part is not None]
        return f"{self.kind}: " + "; ".join(parts)


def as_data(value: Any, part: str = "") -> Data:
    """Data as they are; or a tuple or dict of arrays; or one array; or this part of a DataSet."""
    if isinstance(value, Data):
        return value
    if isinstance(value, DataSet):
        named: Data | None = getattr(value, part) if part else None
        if named is None:
            parts = ", ".join(f".{name}" for name in ("train", "validation", "test")
                              if getattr(value, name) is not None)
            raise InvalidInput(f"a DataSet has parts: give one of them, {parts}")
        return named
    if isinstance(value, dict):
        return Data(**value)
    if isinstance(value, tuple):
        return Data(*value)
    return Data(value)
