"""The command line: a thin layer over the library, one file a group of verbs; imports wait until they are used."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from types import TracebackType

from ragsmith.cli import (  # noqa: F401  # isort: skip  each adds its commands to `app`, in the order of --help
    audit,
    techniques,
    dataset,
    models,
    plan,
    results,
    search,
    ask,
)
from ragsmith.cli.app import app
from ragsmith.errors import RagsmithError, UsageError, WrongOption

DONE, FAILED, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: done; the run failed; the request was wrong; interrupted and resumable."""


def main() -> None:
    """Entry point of ``ragsmith``."""
    # tens of thousands of records without a cycle among them set the collector off for a third of a repeated search
    gc.set_threshold(100_000, 20, 1_000)
    try:
        sys.exit(run(sys.argv[1:]))
    finally:
        sys.excepthook = _say_unexpected  # set last: Typer puts a hook of its own there


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; what went wrong is one sentence on standard error."""
    try:
        app(arguments, prog_name="ragsmith", standalone_mode=True)
    except SystemExit as stop:  # how Typer ends, with the exit code of a wrong flag among others
        return stop.code if isinstance(stop.code, int) else DONE
    except UsageError as error:
        return _complain(error, WRONG)
    except RagsmithError as error:
        return _complain(error, FAILED)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _gone()
        place = f"{error.filename}: " if error.filename else ""
        return _complain(RagsmithError(f"{place}{error.strerror or error}"), FAILED if _is_full(error) else WRONG)
    return DONE


def _say_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback as Python does, without secrets."""
    import traceback

    from ragsmith.text.redaction import redacted

    print(redacted("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)


def _gone() -> int:
    """The reader of our output went away, as `| head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def _complain(error: RagsmithError, code: int) -> int:
    from ragsmith.text.redaction import redacted

    said = f"{error.flag} {error.problem}" if isinstance(error, WrongOption) else str(error)
    for line in redacted(said).splitlines():
        print(f"error: {line}", file=sys.stderr)
    return code
