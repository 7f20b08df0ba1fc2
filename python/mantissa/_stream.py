"""A text as an iterator over its pieces, while another thread draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def pieces_of(text: Callable[[Callable[[str], Any]], Any]) -> Iterator[str]:
    """The pieces that `text(on_piece)` tells, in its order; what it raises is raised here. The text
    begins with the first piece that is asked for. If the iterator is closed or lost, it stops."""
    import queue
    import threading

    # Pieces; then None, or what was raised.
    pieces: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
    closed = threading.Event()

    def on_piece(piece: str) -> bool:
        pieces.put(piece)
        return not closed.is_set()

    def work() -> None:
        try:
            text(on_piece)
            pieces.put(None)
        except BaseException as error:
            pieces.put(error)

    thread = threading.Thread(target=work, name="mantissa-text", daemon=True)
    thread.start()
    try:
        while (piece := pieces.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece
    finally:
        closed.set()
        thread.join()
