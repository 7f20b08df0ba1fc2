"""Networks, plans and histories in notebooks. matplotlib only if it is asked for."""

from __future__ import annotations

from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .network import Network
    from .trainer import History


def preformatted(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


class Preformatted(str):
    """A text that a notebook shows as it is printed."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(self)


def framed(page: str) -> str:
    """A whole page inside another, with its own styles."""
    return f'<iframe srcdoc="{escape(page)}" width="100%" height="800" frameborder="0"></iframe>'


def table(head: list[str], rows: list[list[str]]) -> str:
    def row(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
    return "<table>" + row(head, "th") + "".join(row(cells, "td") for cells in rows) + "</table>"


def network_html(network: Network) -> str:
    rows = [[node["name"], node["op"], ", ".join(node.get("inputs", [])),
             " × ".join(map(str, node.get("shape", []))),
             ", ".join(f"{key} {value}" for key, value in node.get("attributes", {}).items())]
            for node in network.nodes]
    return f"<b>{escape(network.name)}</b>" + table(
        ["layer", "operator", "reads", "shape", "settings"], rows)


def _number(value: float | None, digits: int, factor: float = 1) -> str:
    return "" if value is None else f"{factor * value:.{digits}f}"


def history_html(history: History) -> str:
    return table(["epoch", "loss", "accuracy %", "validation loss", "validation accuracy %"],
                 [[str(e.epoch), _number(e.loss, 4), _number(e.accuracy, 2, 100),
                   _number(e.validation_loss, 4), _number(e.validation_accuracy, 2, 100)]
                  for e in history.epochs])


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def plot_history(history: History) -> Any:
    try:
        from matplotlib.figure import Figure  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ImportError("history.plot() wants matplotlib: pip install matplotlib") from None
    has_accuracy = any(accuracy is not None for accuracy in history.column("accuracy"))
    # Without pyplot, which would keep the figure. Notebooks show a figure that has _repr_png_.
    picture: Any = type("Picture", (Figure,), {"_repr_png_": _png})
    figure = picture(figsize=(9 if has_accuracy else 5, 3.5), layout="constrained")
    epochs = history.column("epoch")
    panels = [("loss", ("loss", "validation_loss"), 1.0)]
    if has_accuracy:
        panels.append(("accuracy %", ("accuracy", "validation_accuracy"), 100.0))
    for i, (title, columns, factor) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), i + 1)
        for column, label in zip(columns, ("training", "validation")):
            values = history.column(column)
            if all(value is not None for value in values):
                axes.plot(epochs, [factor * value for value in values], marker="o", label=label)
        axes.set_xlabel("epoch")
        axes.set_title(title)
        axes.legend()
    return figure
