"""The built-in networks, as functions: `mt.models.resnet20(data)`.

Each takes the data that it is built for, or its sizes: `pixels` (height, width, channels), `classes`,
`means` of the channels. `width` multiplies the channels. docs/networks.md describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from .data import Data, DataSet, as_data
from .errors import InvalidInput
from .losses import Loss
from .network import Network
from .values import Var


def names() -> list[str]:
    return [name for name, _ in _core.built_in_models()]


def build(name: str, data: Data | DataSet | None = None, *, pixels: Sequence[int] | None = None,
          classes: int | None = None, means: Sequence[int] | None = None, width: float = 1.0,
          label_smoothing: float = 0.0, loss: str | Callable[[Var], Loss] = "cross-entropy",
          by_output: bool = False, focal: float = 0.0,
          positive_weights: float | Sequence[float] = (), huber_delta: float = 1.0) -> Network:
    """A built-in network by name. Sizes, classes and means of the channels come from the data, as
    in a run of the command line; without data, 28 x 28 x 1 and 10.

    loss: as --loss: "cross-entropy", "mse", "sigmoid" (one output for two classes, or with
        `by_output` an output for each of several labels of 0 and 1) and "ordinal"; or for `classes`
        numbers, which data bring as "targets" from -8 to 8, "regression" (squared errors), "l1" and
        "huber". Or a function of the output: `loss=mt.soft_cross_entropy`.
    focal, positive_weights: of "sigmoid" and "ordinal"; huber_delta: of "huber", as in
        docs/losses.md."""
    found: tuple[Sequence[int], int, list[int] | None] = ((28, 28, 1), 10, None)
    if data is not None:
        found = _read(as_data(data, "train"))
    found_pixels, found_classes, found_means = found
    positive = ([positive_weights] if isinstance(positive_weights, (int, float)) else
                [float(weight) for weight in positive_weights])
    network = Network._of(_core.Network.built_in(
        name, list(pixels or found_pixels), classes or found_classes, width, label_smoothing,
        loss if isinstance(loss, str) else "cross-entropy", by_output, focal, positive,
        huber_delta))
    if not isinstance(loss, str):
        network = network.with_loss(loss)
    means = found_means if means is None else means
    if means is None:
        means = [128] * (pixels or found_pixels)[2]
    return network.with_pixel_means(means)


def channel_means(pixels: Any) -> list[int]:
    """The mean of each channel over all pictures, rounded to nearest, ties up: whole numbers, as the
    command line has them."""
    import numpy as np

    sums = np.zeros(pixels.shape[3], np.int64)
    for begin in range(0, len(pixels), 4096):
        sums += pixels[begin:begin + 4096].sum(axis=(0, 1, 2), dtype=np.int64)
    count = pixels.shape[0] * pixels.shape[1] * pixels.shape[2]
    return [int((2 * total + count) // (2 * count)) for total in sums]


def _read(data: Data) -> tuple[tuple[int, ...], int, list[int]]:
    arrays = list(data.arrays.values())
    pictures = next((a for a in arrays if a.dtype.name == "uint8" and a.ndim == 4), None)
    labels = next((a for a in arrays if a.ndim == 1 and a.dtype.kind in "iu"), None)
    if pictures is None or labels is None:
        raise InvalidInput("built-in networks want pictures, uint8 [examples, height, width, channels], "
                           f"and labels, whole numbers [examples]; the data are {data}")
    classes = len(data.class_names) or int(labels.max()) + 1
    return pictures.shape[1:], classes, channel_means(pictures)


def __getattr__(name: str) -> Callable[..., Network]:
    if name not in names():
        raise AttributeError(f"there is no network '{name}'; there are {', '.join(names())}")

    def built(data: Data | DataSet | None = None, **options: Any) -> Network:
        return build(name, data, **options)

    built.__name__ = name
    built.__doc__ = dict(_core.built_in_models())[name]
    return built


def __dir__() -> list[str]:
    return [*names(), "build", "names"]
