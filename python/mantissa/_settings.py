"""Settings as the engine takes them: by the names of the command line, as text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _core
from .errors import InvalidInput


def text_of(value: Any) -> str:
    """The value as text for the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(one) for one in value)
    return str(value)


def settings_of(values: Mapping[str, Any], command: str = "") -> dict[str, str]:
    """`batch_size=64` is the command line's `--batch-size 64`; None leaves a setting out. A name that
    Python reserves gets an underscore at its end: `from_`. Names that the command does not have
    are refused."""
    settings = {name.rstrip("_").replace("_", "-"): text_of(value)
                for name, value in values.items() if value is not None}
    known = [row[0] for row in _core.settings_of(command)] if command else []
    for name in settings:
        if known and name not in known:
            from difflib import get_close_matches
            close = get_close_matches(name, known, 1)
            hint = f"; did you mean '{close[0].replace('-', '_')}'?" if close else ""
            raise InvalidInput(f"{command} has no setting '{name.replace('-', '_')}'{hint}")
    return settings
