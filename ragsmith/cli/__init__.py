"""The command line: a thin layer over the library, with one file per group of commands and lazy imports."""

import errno
import gc
import os
import signal
import sys
import warnings
from time import perf_counter
from types import TracebackType
from typing import Any

from ragsmith.cli.interrupts import EXIT_INTERRUPTED, Interrupts
from ragsmith.errors import DamagedRows, LeftOut, NotComparable, Notice, RagsmithError, UsageError, WrongOption
from ragsmith.evaluation.signals import ignore_signals

START_TIME = perf_counter()
"""Time at which the command started, in seconds of `time.perf_counter`; slow imports come later."""

SUCCESS, FAILED, USAGE_ERROR, NOT_COMPARABLE, GATE_NOT_RUN = 0, 1, 2, 3, 4
"""Exit codes besides `EXIT_INTERRUPTED`: success; the run failed; the request is invalid; scores cannot be compared; a
gate could not be run (1 means that the pipeline is worse).
"""


def main() -> None:
    """Entry point of ``ragsmith``; the signal handler is installed before slow imports."""
    interrupts = Interrupts()
    # the collector took a third of a repeated search, because of tens of thousands of records without any cycle
    gc.set_threshold(100_000, 20, 1_000)
    # the matrices are so small that several BLAS threads double the CPU time of a repeated search; set the variable for
    # larger ones. numpy reads it on import
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # texts are tokenised one at a time, and workers can only be forked from a process with a single thread
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        try:
            code = run(sys.argv[1:])
        finally:
            ignore_signals()  # only cleanup is left
            sys.excepthook = _print_traceback  # set last, as Typer installs its own hook
    except (KeyboardInterrupt, Exception):
        if not interrupts.received:
            raise
        # an error that the interruption caused is reported as the interruption
    if interrupts.received:
        print(interrupts.message, file=sys.stderr)
        code = EXIT_INTERRUPTED
    gc.freeze()  # the interpreter would scan all objects several times on exit
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code.

    An error is printed to standard error as one sentence, with --json also to standard output as an object.
    """
    from typer import BadParameter

    as_json = "--json" in arguments
    # the base class of usage errors: Typer bundles Click without exporting it
    click_error: Any = next(kind for kind in BadParameter.__mro__ if kind.__name__ == "ClickException")
    code: Any
    try:
        from ragsmith.cli.app import load

        with warnings.catch_warnings():
            for category in (Notice, DamagedRows, LeftOut):
                warnings.simplefilter("always", category)
            warnings.showwarning = _print_warning
            code = load(arguments)(arguments, prog_name="ragsmith", standalone_mode=False)
    except SystemExit as stop:
        code = stop.code
    except (RagsmithError, OSError) as error:
        return _report_error(error, as_json=as_json, failed=_failure_code(arguments))
    except click_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return USAGE_ERROR
        from ragsmith.cli.usage_errors import usage_message

        return _report_error(UsageError(usage_message(error, arguments)), as_json=as_json)
    return code if isinstance(code, int) else SUCCESS


ROLE_FLAGS = {"--language-model": "--llm", "--cross-encoder": "--reranker"}
"""Actual flags of parameters whose flag has another name, by the flag that `WrongOption` derives from the name."""


def _failure_code(arguments: list[str]) -> int:
    """Return the exit code of a command that failed to run."""
    return GATE_NOT_RUN if arguments[:1] == ["gate"] else FAILED


def _report_error(error: RagsmithError | OSError, *, as_json: bool, failed: int = FAILED) -> int:
    from ragsmith.text.redaction import redacted

    match error:
        case BrokenPipeError():
            return _exit_broken_pipe()
        case OSError():
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            code = failed if full or error.errno == errno.EIO else USAGE_ERROR
            message = error.strerror or str(error)
            message = f"{error.filename} cannot be read or written: {message}" if error.filename else message
            message += ": free some space, and run the same command again" if full else ""
        case WrongOption():
            message, code = f"{error.reason}{ROLE_FLAGS.get(error.flag, error.flag)} {error.problem}", USAGE_ERROR
        case NotComparable():
            message, code = str(error), NOT_COMPARABLE
        case _:
            message, code = str(error), USAGE_ERROR if isinstance(error, UsageError) else failed
    message = redacted(message)
    for line in message.splitlines():
        print(f"error: {line}", file=sys.stderr)
    return _print_error_json(message, code, as_json=as_json)


def _print_error_json(message: str, code: int, *, as_json: bool) -> int:
    """Print an error as an object if ``as_json``; return its exit code."""
    if as_json:
        from ragsmith.cli.output import print_json

        kind = {USAGE_ERROR: "usage", NOT_COMPARABLE: "not comparable"}.get(code, "failed")
        print_json({"error": {"message": message, "kind": kind, "exit_code": code}})
    return code


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning without its location in the code."""
    print(f"warning: {message}", file=sys.stderr)


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback as Python does, with secrets redacted."""
    import traceback

    from ragsmith.text.redaction import redacted

    print(redacted("".join(traceback.format_exception(kind, error, trace))), end="", file=sys.stderr)
    if (code := _failure_code(sys.argv[1:])) != FAILED:
        sys.exit(code)


def _exit_broken_pipe() -> int:
    """Redirect standard output to the null device, as its reader has exited (`| head`); return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
