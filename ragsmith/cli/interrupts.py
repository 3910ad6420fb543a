"""Handle Ctrl-C, SIGTERM and SIGHUP: a command ends with one message and exit code 130.

The handler raises an exception, so that resources are closed: pending replies are stored, and the state of the run is
written. Python drops an exception that is raised in a finaliser, so it is raised again soon after. A library may also
swallow it, so a second thread ends the process after a grace period. No data is lost then: paid and computed results
are written to disk as they arrive.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ragsmith.evaluation.signals import SIGNALS, ignore_signals

EXIT_INTERRUPTED = 130
"""Exit code of a command that was interrupted by Ctrl-C, SIGTERM or SIGHUP, or paused."""

RESUMABLE = "interrupted; everything finished is kept. Go on with the same command."
NO_RESULT = "interrupted; there is no result. Run the command again: replies in the cache are reused."
NOTHING_WRITTEN = "interrupted; nothing was written. Run the command again: it starts over."
NOT_YET_WRITTEN = "interrupted; no question was written yet, but replies are in the cache. Go on with the same command."
GRACE_SECONDS = 4.5
"""Seconds until a command that was interrupted is ended."""
WRITING_SECONDS = 15.5
"""Maximum number of further seconds to write paid replies and their costs."""
POLL_SECONDS = 0.05
"""Seconds between two checks, and until an exception that was dropped is raised again."""


class Interrupted(KeyboardInterrupt):
    """The exception for an interruption.

    After a plain KeyboardInterrupt in code that was compiled from a string, such as the methods of dataclasses, the
    process ends by SIGINT instead of with its exit code, even if the exception is caught.
    """


class Interrupts:
    """Signal handler that raises `Interrupted` on the first signal and ignores the following ones.

    ``received`` is whether there was a signal. ``message`` is printed at the end; `interrupt_message` replaces it for
    commands that cannot be resumed. Signals that are already ignored stay ignored, as shells expect of background
    commands.
    """

    message = RESUMABLE

    def __init__(self) -> None:
        self.received = False
        sys.unraisablehook = _report_or_raise_again
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        ignore_signals()  # launchers pass Ctrl-C on, so that it comes twice; a second one must not disturb the closing
        # a `threading.Thread` would take a lock that the main thread may be holding at this moment
        _thread.start_new_thread(_exit_after_grace, ())
        raise Interrupted


@contextmanager
def interrupt_message(message: str) -> Iterator[None]:
    """Use ``message`` if the block is interrupted."""
    Interrupts.message = message
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        if not interrupted:
            Interrupts.message = RESUMABLE


def _report_or_raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Report an exception that Python could not raise, but raise an `Interrupted` again a moment later."""
    if lost.exc_type is not Interrupted:
        sys.__unraisablehook__(lost)
        return
    signal.signal(signal.SIGINT, _raise_again)
    _thread.start_new_thread(_send_sigint, ())


def _raise_again(number: int, frame: FrameType | None) -> None:
    ignore_signals()
    raise Interrupted


def _send_sigint() -> None:
    time.sleep(POLL_SECONDS)  # until the finaliser has ended
    os.kill(os.getpid(), signal.SIGINT)


def _exit_after_grace() -> None:
    time.sleep(GRACE_SECONDS)
    deadline = time.monotonic() + WRITING_SECONDS
    claims = sys.modules.get("ragsmith.gateway.claims")  # not imported if no model was called
    if claims is not None:
        _thread.start_new_thread(claims.settle_all, ())  # it may have to wait for another process
    while claims is not None and not claims.all_replies_written() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    os.write(2, f"{Interrupts.message}\n".encode())
    os._exit(EXIT_INTERRUPTED)
