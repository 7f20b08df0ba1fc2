"""Classifier and Regressor for scikit-learn: clone, Pipeline, GridSearchCV, joblib and pickle work.

    >>> from mantissa.sklearn import Classifier
    >>> model = Classifier((100, 50), epochs=50).fit(X, y)
    >>> model.score(X_test, y_test)

Features are brought to mean 0 and deviation 1 (a StandardScaler before changes nothing), and then
become 16 bits times one power of two. A feature that is the same number everywhere, except for
rounding, is left out. Numbers beyond four times the largest that fit() saw are clipped to that
limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (_check_sample_weight, check_is_fitted, column_or_1d,
                                      validate_data)

from . import layers
from ._arrays import columns_of, missing_in, numbers_of_column
from .callbacks import EarlyStop
from .data import as_data, in_range_of_weights
from .errors import InvalidInput
from .losses import cross_entropy, squared_error
from .model import Model
from .network import Network
from .trainer import Trainer
from .values import Var, numbers

_ROOM = 4.0  # numbers may be this many times larger than in training
_REACH = 16.0  # most deviations from the mean of a training column


@dataclass(frozen=True)
class _Scale:
    """Mean and deviation of each column, computed in float64; 0 if all of it is one number, except
    for rounding."""

    mean: np.ndarray
    deviation: np.ndarray

    @staticmethod
    def of(numbers: np.ndarray) -> _Scale:
        with np.errstate(over="ignore", invalid="ignore"):  # found below
            mean = numbers.mean(axis=0, dtype=np.float64)
            mean = mean + (numbers - mean).mean(axis=0)  # lost by rounding of a large sum
            centred = numbers - mean
            largest = np.abs(centred).max(axis=0)
        if not np.isfinite(largest).all():
            raise InvalidInput(f"column {int(np.argmin(np.isfinite(largest)))}: its numbers are too "
                               "large for their mean and deviation")
        unit = np.where(largest > 0, largest, 1.0)  # squares neither overflow nor vanish
        deviation = unit * np.sqrt(np.square(centred / unit).mean(axis=0))
        return _Scale(mean, np.where(deviation > _rounding(numbers, mean), deviation, 0.0))

    def to_standard(self, numbers: np.ndarray) -> np.ndarray:
        """(number - mean) / deviation; 0 in columns of one number."""
        scaled: np.ndarray = np.zeros(numbers.shape)
        np.divide(numbers - self.mean, self.deviation, out=scaled, where=self.deviation > 0)
        return scaled

    def from_standard(self, numbers: np.ndarray) -> np.ndarray:
        scaled: np.ndarray = numbers * self.deviation + self.mean
        return scaled

    def within(self, numbers: np.ndarray) -> _Scale:
        """The same, with larger deviations for columns that go further than _REACH. Otherwise one
        such column would leave few of the 16 bits for all others."""
        largest = np.abs(self.to_standard(numbers)).max(axis=0, initial=0.0)
        return _Scale(self.mean, self.deviation * np.maximum(1.0, largest / _REACH))


def _rounding(numbers: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The deviation that rounding alone may give a column of one number: one unit in the last place
    of float32, and the error of a sum of as many terms in float64, as in scikit-learn."""
    if numbers.dtype == np.float32:
        unit = float(np.finfo(np.float32).eps)
    else:
        unit = len(numbers) * float(np.finfo(np.float64).eps)
    bound: np.ndarray = unit * np.abs(mean)
    return bound


def _check_columns(X: Any) -> None:
    """Names the column of a frame that has no numbers, or lacks some."""
    for name, column in columns_of(X) or []:
        try:
            numbers_of_column(column, f"column '{name}'")
        except InvalidInput:
            if missing_in(column) > 0 or not _are_numbers(column):
                raise


def _are_numbers(column: Any) -> bool:
    """Whether objects or categories are numbers, as scikit-learn takes them."""
    try:
        np.asarray(column, np.float64)
    except (TypeError, ValueError):
        return False
    return getattr(getattr(column, "dtype", None), "kind", "") not in ("m", "M")


def _widths(hidden: Sequence[int] | int) -> list[int]:
    """The hidden layers' channels; a number is one layer."""
    widths: list[Any] = list(hidden) if isinstance(hidden, Iterable) else [hidden]
    for width in widths:
        is_number = isinstance(width, (int, float, np.number)) and not isinstance(width, bool)
        if not (is_number and width >= 1 and width % 1 == 0):
            raise InvalidInput(f"hidden: {hidden!r} is neither a number of channels nor a list of such")
    return [int(width) for width in widths]


# scikit-learn's names of settings, beside ours.
_OTHER_NAMES = {"hidden_layer_sizes": "hidden", "max_iter": "epochs", "random_state": "seed",
                "learning_rate_init": "learning_rate"}


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """The common part of Classifier and Regressor."""

    def __init__(self, hidden: Sequence[int] | int = (100,), *,
                 body: Callable[[Var], Var] | None = None, format: str = "bfp8", epochs: int = 100,
                 batch_size: int = 200, optimizer: str = "adam", learning_rate: float = 0.02,
                 lr_schedule: str = "cosine", weight_decay: float = 0.0, seed: int = 1,
                 threads: int = 0, settings: dict[str, Any] | None = None,
                 hidden_layer_sizes: Sequence[int] | int | None = None,
                 max_iter: int | None = None, random_state: Any = None,
                 learning_rate_init: float | None = None, early_stopping: bool = False,
                 validation_fraction: float = 0.1, n_iter_no_change: int = 10,
                 verbose: bool = False):
        self.hidden = hidden
        self.body = body
        self.format = format
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.lr_schedule = lr_schedule
        self.weight_decay = weight_decay
        self.seed = seed
        self.threads = threads
        self.settings = settings
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_iter = max_iter
        self.random_state = random_state
        self.learning_rate_init = learning_rate_init
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose

    def _setting(self, name: str) -> Any:
        """A setting under our name or scikit-learn's. Both at once are an error."""
        value = getattr(self, name)
        for other, ours in _OTHER_NAMES.items():
            given = getattr(self, other)
            if ours != name or given is None:
                continue
            if value != type(self)().get_params()[name]:
                raise InvalidInput(f"{type(self).__name__}: {name} and {other} are one setting; "
                                   "give one of them")
            value = given
        return value

    def _seed(self) -> int:
        seed = self._setting("seed")
        if isinstance(seed, np.random.RandomState):
            return int(check_random_state(seed).randint(1 << 31))
        return int(seed)

    def _hidden_layers(self, x: Var) -> Var:
        if self.body is not None:
            return self.body(x)
        for channels in _widths(self._setting("hidden")):
            x = layers.relu(layers.linear(x, channels))
        return x

    def _fit(self, X: np.ndarray, y: np.ndarray, network: Network,
             weights: np.ndarray | None) -> None:
        arrays = {"x": self._scale.to_standard(X), "y": y}
        if weights is not None:
            arrays["w"] = weights
        seed = self._seed()  # a RandomState gives another number each time
        callbacks = []
        held_back = None
        if self.early_stopping:
            train, held = train_test_split(
                np.arange(len(X)), test_size=self.validation_fraction, random_state=seed,
                stratify=y if isinstance(self, ClassifierMixin) else None)
            held_back = as_data({name: array[held] for name, array in arrays.items()})
            arrays = {name: array[train] for name, array in arrays.items()}
            callbacks.append(EarlyStop(self.n_iter_no_change))
        data = as_data(arrays)
        batch = min(self.batch_size, len(arrays["x"]))
        self.trainer_ = Trainer(
            network, format=self.format, optimizer=self.optimizer, batch_size=batch,
            learning_rate=self._setting("learning_rate"), lr_schedule=self.lr_schedule,
            weight_decay=self.weight_decay, seed=seed, threads=self.threads,
            **(self.settings or {}))
        self.history_ = self.trainer_.fit(data, epochs=self._setting("epochs"),
                                          validation=held_back, callbacks=callbacks,
                                          progress=bool(self.verbose))
        self.n_iter_ = len(self.history_)
        self.model_: Model = self.trainer_.freeze(data)

    def _weights(self, X: np.ndarray, sample_weight: Any, by_class: Any = None
                 ) -> np.ndarray | None:
        if sample_weight is None and by_class is None:
            return None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64,
                                       ensure_non_negative=True)
        return in_range_of_weights(weights if by_class is None else weights * by_class)

    def _input(self, X: np.ndarray) -> Var:
        self._scale = _Scale.of(X).within(X)
        largest = float(np.abs(self._scale.to_standard(X)).max(initial=2.0**-20))
        self._largest = _ROOM * largest
        return numbers(X.shape[1], largest=self._largest, name="x")

    def _outputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        _check_columns(X)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False, order="C")
        # One unit of 16 bits below the bound: rounding must not reach it.
        bound = self._largest * (1 - 2.0**-14)
        return self.model_.predict({"x": np.clip(self._scale.to_standard(X), -bound, bound)})

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        state.pop("trainer_", None)  # the model is enough
        return state


class Classifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A network of linear layers and ReLU for classes of any kind, trained in integers.

    hidden: channels of the hidden layers, 100 or (100, 50); or `body`, a function from the
    input's value to the value that the last linear layer reads. Other settings are the settings of
    `mantissa.Trainer`; `settings` takes the rest of them.
    scikit-learn's names are taken, too: `hidden_layer_sizes`, `max_iter`, `random_state` (None is seed
    1: the same bits each time), `learning_rate_init`, `verbose`; with `early_stopping` a part of the
    examples, `validation_fraction`, is held back, and training ends after `n_iter_no_change` epochs
    without a lower loss there, with the weights of the best. `class_weight` is None, "balanced", or a weight for each class. After fit(): `classes_`, `history_`, `n_iter_`, `model_`, and, until it is pickled,
    `trainer_`.
    """

    def __init__(self, hidden: Sequence[int] | int = (100,), *,
                 body: Callable[[Var], Var] | None = None, format: str = "bfp8", epochs: int = 100,
                 batch_size: int = 200, optimizer: str = "adam", learning_rate: float = 0.02,
                 lr_schedule: str = "cosine", weight_decay: float = 0.0, seed: int = 1,
                 threads: int = 0, class_weight: dict[Any, float] | str | None = None,
                 settings: dict[str, Any] | None = None,
                 hidden_layer_sizes: Sequence[int] | int | None = None,
                 max_iter: int | None = None, random_state: Any = None,
                 learning_rate_init: float | None = None, early_stopping: bool = False,
                 validation_fraction: float = 0.1, n_iter_no_change: int = 10,
                 verbose: bool = False):
        super().__init__(hidden, body=body, format=format, epochs=epochs, batch_size=batch_size,
                         optimizer=optimizer, learning_rate=learning_rate, lr_schedule=lr_schedule,
                         weight_decay=weight_decay, seed=seed, threads=threads, settings=settings,
                         hidden_layer_sizes=hidden_layer_sizes, max_iter=max_iter,
                         random_state=random_state, learning_rate_init=learning_rate_init,
                         early_stopping=early_stopping, validation_fraction=validation_fraction,
                         n_iter_no_change=n_iter_no_change, verbose=verbose)
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Classifier:
        _check_columns(X)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput("Classifier: the labels have one class only; two or more are needed")
        logits = layers.linear(self._hidden_layers(self._input(X)), len(self.classes_))
        by_class = (None if self.class_weight is None else
                    compute_sample_weight(self.class_weight, y))
        weights = self._weights(X, sample_weight, by_class)
        loss = cross_entropy(logits, "y", weights="" if weights is None else "w")
        self._fit(X, labels.astype(np.int32), Network(logits, name="classifier", loss=loss),
                  weights)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """The logits; for two classes the difference between the second and the first."""
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> np.ndarray:
        logits = self._outputs(X)
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
        return probabilities

    def predict(self, X: Any) -> np.ndarray:
        best = self._outputs(X).argmax(axis=1)
        predicted: np.ndarray = self.classes_[best]
        return predicted


class Regressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """The same for numbers: one target or several, brought to mean 0 and deviation 1 for the training."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Regressor:
        _check_columns(X)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C",
                             multi_output=True, y_numeric=True)
        if np.ndim(y) == 2 and np.shape(y)[1] == 1:
            y = column_or_1d(y, warn=True)
        self._one_target = np.ndim(y) == 1
        targets = np.ascontiguousarray(y, np.float64).reshape(len(X), -1)
        self._target_scale = _Scale.of(targets)
        targets = self._target_scale.to_standard(targets)
        results = layers.linear(self._hidden_layers(self._input(X)), targets.shape[1])
        weights = self._weights(X, sample_weight)
        loss = squared_error(results, "y", largest=max(1.0, float(np.abs(targets).max())),
                                    weights="" if weights is None else "w")
        self._fit(X, targets, Network(results, name="regressor", loss=loss), weights)
        return self

    def predict(self, X: Any) -> np.ndarray:
        outputs = self._outputs(X)
        numbers = self._target_scale.from_standard(outputs)
        return numbers[:, 0] if self._one_target else numbers
