"""Labels of sequences that a network learned by mantissa.ctc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np


def best_path(logits: Any, classes: int | None = None, *, lengths: Any = None,
              blank: int = 0) -> list[np.ndarray]:
    """The labels that the best path spells, int32, for each example: the class of the largest logit
    at each position, where classes that repeat become one and blanks are taken out.

    logits: [examples, positions, classes]; or with `classes` what Model.predict returns.
    lengths: the positions of each example that count; left out: all."""
    import numpy as np

    array = np.asarray(logits)
    if array.ndim == 2 and classes is not None and classes > 0 and array.shape[1] % classes == 0:
        array = array.reshape(len(array), -1, classes)
    if array.ndim != 3 or (classes is not None and array.shape[2] != classes):
        raise InvalidInput("best_path: wants logits [examples, positions, classes], or rows of "
                           f"Model.predict and their `classes`, not {list(array.shape)}")
    if not 0 <= blank < array.shape[2]:
        raise InvalidInput(f"best_path: the blank is a class, from 0 to {array.shape[2] - 1}")
    ends = np.full(len(array), array.shape[1]) if lengths is None else np.asarray(lengths)
    most = array.shape[1]
    if ends.shape != (len(array),) or ends.min(initial=0) < 0 or ends.max(initial=0) > most:
        raise InvalidInput("best_path: `lengths` are whole numbers from 0 to "
                           f"{most}, one for each example")
    found = []
    for row, end in zip(array.argmax(-1), ends):
        path = row[:end]
        changes = np.ones(len(path), bool)
        changes[1:] = path[1:] != path[:-1]
        found.append(path[changes & (path != blank)].astype(np.int32))
    return found


def label_error_rate(found: Sequence[Any], labels: Any) -> float:
    """The label error rate: the insertions, deletions and exchanges that make the labels of each
    example of the found ones, added up, divided by the number of labels. Labels are sequences, or
    an array with -1 behind them."""
    import numpy as np

    if len(found) != len(labels):
        raise InvalidInput(f"label_error_rate: there are {len(found)} sequences and {len(labels)} "
                           "of labels")
    errors = count = 0
    for ours, theirs in zip(found, labels):
        right = [label for label in np.asarray(theirs).tolist() if label >= 0]
        errors += _distance(list(np.asarray(ours)), right)
        count += len(right)
    if count == 0:
        raise InvalidInput("label_error_rate: there are no labels")
    return errors / count


def _distance(a: list[int], b: list[int]) -> int:
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, label in enumerate(a, 1):
        before, row[0] = row[0], i
        for k, other in enumerate(b, 1):
            before, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, before + (label != other))
    return row[-1]
