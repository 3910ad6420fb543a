"""The command line: a thin layer over the library, one file a group of verbs; imports wait until they are used."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import warnings
from time import perf_counter
from types import TracebackType
from typing import Any

from ragsmith.cli.interrupts import INTERRUPTED, Interrupts
from ragsmith.errors import DamagedRows, LeftOut, NotComparable, Notice, RagsmithError, UsageError, WrongOption
from ragsmith.evaluation.signals import ignore_signals

BEGAN = perf_counter()
"""When the command began, by `time.perf_counter`; what takes time is imported later."""

DONE, FAILED, WRONG, NO_COMPARISON, NOT_RUN = 0, 1, 2, 3, 4
"""Exit codes, besides `INTERRUPTED`: done; the run failed; the request was wrong; scores cannot be compared.

A gate that failed to run ends with the last: 1 says that a pipeline is worse.
"""


def main() -> None:
    """Entry point of ``ragsmith``; nothing slow is imported before it listens for Ctrl-C."""
    interrupts = Interrupts()
    # tens of thousands of records without a cycle among them set the collector off for a third of a repeated search
    gc.set_threshold(100_000, 20, 1_000)
    # threads that wait for each other cost far more than they save on matrices as small as these: a repeated search
    # took twice the CPU time; set the variable for larger ones. It is read when numpy is imported
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # texts are split one at a time here; while there is one thread only, workers may be copies of this process
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
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
        print(interrupts.sentence, file=sys.stderr)
        code = INTERRUPTED
    gc.freeze()  # else the interpreter looks through all of it several times before it gives it up
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code.

    What went wrong is one sentence on standard error; with --json it is an object on standard output as well.
    """
    from typer import BadParameter

    as_json = "--json" in arguments
    # what a wrong command line raises; Typer has a Click of its own, which it does not export
    wrong_usage: Any = next(kind for kind in BadParameter.__mro__ if kind.__name__ == "ClickException")
    code: Any
    try:
        from ragsmith.cli.app import load

        with warnings.catch_warnings():
            for shown in (Notice, DamagedRows, LeftOut):
                warnings.simplefilter("always", shown)
            warnings.showwarning = _say_warning
            code = load(arguments)(arguments, prog_name="ragsmith", standalone_mode=False)
    except SystemExit as stop:
        code = stop.code
    except (RagsmithError, OSError) as error:
        return _complain(error, as_json=as_json, failed=_failed(arguments))
    except wrong_usage as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return WRONG
        from ragsmith.cli.usage_errors import sentence

        return _complain(UsageError(sentence(error, arguments)), as_json=as_json)
    return code if isinstance(code, int) else DONE


OF_ROLES = {"--language-model": "--llm", "--cross-encoder": "--reranker"}
"""Flags that are not called after what they set, by what they would be called."""


def _failed(arguments: list[str]) -> int:
    """The exit code of a command that failed to run."""
    return NOT_RUN if arguments[:1] == ["gate"] else FAILED


def _complain(error: RagsmithError | OSError, *, as_json: bool, failed: int = FAILED) -> int:
    from ragsmith.text.redaction import redacted

    match error:
        case BrokenPipeError():
            return _gone()
        case OSError():
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            code = failed if full or error.errno == errno.EIO else WRONG
            said = error.strerror or str(error)
            said = f"{error.filename} cannot be read or written: {said}" if error.filename else said
            said += ": free some space, and run the same command again" if full else ""
        case WrongOption():
            said, code = f"{OF_ROLES.get(error.flag, error.flag)} {error.problem}", WRONG
        case NotComparable():
            said, code = str(error), NO_COMPARISON
        case _:
            said, code = str(error), WRONG if isinstance(error, UsageError) else failed
    said = redacted(said)
    for line in said.splitlines():
        print(f"error: {line}", file=sys.stderr)
    return _as_json(said, code, as_json=as_json)


def _as_json(message: str, code: int, *, as_json: bool) -> int:
    """Print an error as an object if that was asked for; return its exit code."""
    if as_json:
        from ragsmith.cli.output import say_json

        kind = {WRONG: "usage", NO_COMPARISON: "not comparable"}.get(code, "failed")
        say_json({"error": {"message": message, "kind": kind, "exit_code": code}})
    return code


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without where in the program it was raised."""
    print(f"warning: {message}", file=sys.stderr)


def _say_unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback as Python does, without secrets."""
    import traceback

    from ragsmith.text.redaction import redacted

    print(redacted("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)
    if (code := _failed(sys.argv[1:])) != FAILED:
        sys.exit(code)


def _gone() -> int:
    """The reader of our output went away, as `| head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
