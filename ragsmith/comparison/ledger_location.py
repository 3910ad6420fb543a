"""The path of the ledger of looks, which the ledger opens and reports name."""

import os
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_path

ENVIRONMENT_VARIABLE = "RAGSMITH_LEDGER"
OFF = ("off", "0", "none", "")
FILE = "looks.sqlite"
CACHE_ALONE = "counted in this cache alone"


def ledger_path() -> Path | None:
    """Return the path of the ledger; None if it is disabled."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named is not None:
        return None if named.strip().lower() in OFF else Path(named).expanduser()
    return user_data_path("ragsmith", appauthor=False) / FILE


def describe_ledger() -> str:
    """Return where looks are counted: the path of the ledger, with ``~`` for the home folder, or the cache alone."""
    path = None
    with suppress(RuntimeError):  # there is no home directory
        path = ledger_path()
        if path and path.is_relative_to(home := Path.home()) and home != Path(home.anchor):
            path = "~" / path.relative_to(home)
    return f"ledger: {path}" if path else CACHE_ALONE
