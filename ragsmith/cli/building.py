"""What is being built, on standard error, while it is: see `ragsmith.building`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ragsmith.building import LOGGER
from ragsmith.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable


class BuildMessages(logging.Handler):
    """Hands on what is told to whoever shows it: a line each, unless a command shows it otherwise."""

    def __init__(self, show: Callable[[logging.LogRecord], None] | None = None) -> None:
        super().__init__()
        self._show = show or (lambda record: note(record.getMessage()))

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._show(record)


def show_building(show: Callable[[logging.LogRecord], None] | None = None) -> None:
    """Have what is being built shown by ``show`` from now on, or else as lines."""
    for handler in [handler for handler in LOGGER.handlers if isinstance(handler, BuildMessages)]:
        LOGGER.removeHandler(handler)
    LOGGER.addHandler(BuildMessages(show))
    LOGGER.setLevel(logging.INFO)
