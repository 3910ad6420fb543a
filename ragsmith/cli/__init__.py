"""The command line: a thin layer over the library, one file a group of verbs; imports wait until they are used."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import warnings
from types import TracebackType

from ragsmith.cli.interrupts import INTERRUPTED, SENTENCE, Interrupts
from ragsmith.errors import DamagedRows, RagsmithError, UsageError, WrongOption
from ragsmith.evaluation.signals import ignore_signals

DONE, FAILED, WRONG = 0, 1, 2
"""Exit codes, beside `INTERRUPTED`: done; the run failed; the request was wrong."""


def main() -> None:
    """Entry point of ``ragsmith``; nothing slow is imported before it listens for Ctrl-C."""
    interrupts = Interrupts()
    # tens of thousands of records without a cycle among them set the collector off for a third of a repeated search
    gc.set_threshold(100_000, 20, 1_000)
    try:
        try:
            code = run(sys.argv[1:])
        finally:
            ignore_signals()  # the work is done, or given up: what follows only tidies up
            sys.excepthook = _say_unexpected  # set last: Typer puts a hook of its own there
    except (KeyboardInterrupt, Exception):
        if not interrupts.heard:
            raise
        # whatever the interruption led to, it is no other news than the interruption
    if interrupts.heard:
        print(SENTENCE, file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; what went wrong is one sentence on standard error."""
    try:
        from ragsmith.cli.commands import app

        with warnings.catch_warnings():
            warnings.simplefilter("always", DamagedRows)
            warnings.showwarning = _say_warning
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


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without where in the program it was raised."""
    print(f"warning: {message}", file=sys.stderr)


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
