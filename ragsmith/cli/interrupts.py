"""Ctrl-C at any moment of a command: it ends with one sentence and exit code 130, and goes on when it is run again.

The handler raises an exception, so that what is open is closed: replies that are on their way are kept, the state
of the run is written. Python drops an exception that is raised in a finaliser or a callback, and a library may swallow
one; so a second thread ends the process if it is still there a little later. Nothing is lost then either: whatever was
paid or computed was durable before.
"""

from __future__ import annotations

import _thread
import os
import signal
import time
from types import FrameType

from ragsmith.evaluation.signals import SIGNALS, ignore_signals

INTERRUPTED = 130
"""Exit code of a command that was asked to end, by Ctrl-C, SIGTERM or SIGHUP; the same command goes on."""

SENTENCE = "interrupted; everything computed is kept. Go on with the same command."
GRACE_SECONDS = 4.5
"""How long a command may take to close what is open."""


class Interrupted(KeyboardInterrupt):
    """A request to end.

    Where a plain KeyboardInterrupt leaves code that was compiled from a string, as that of dataclasses, Python notes it
    for good: even if it is caught, the process ends by SIGINT instead of with its exit code.
    """


class Interrupts:
    """Turns the first request to end into an `Interrupted`, and ignores those that follow.

    ``heard`` says whether one came. A signal that is ignored already stays so: a shell that starts a command in the
    background wants that.
    """

    def __init__(self) -> None:
        self.heard = False
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        ignore_signals()  # launchers pass Ctrl-C on, so that it comes twice; a second one must not disturb the closing
        # a `threading.Thread` would take a lock that the main thread may be holding at this moment
        _thread.start_new_thread(_end_in_time, ())
        raise Interrupted


def _end_in_time() -> None:
    time.sleep(GRACE_SECONDS)
    os.write(2, f"{SENTENCE}\n".encode())
    os._exit(INTERRUPTED)
