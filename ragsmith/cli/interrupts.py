"""Ctrl-C at any moment of a command: it ends with one sentence and exit code 130, and goes on when it is run again.

The handler raises an exception, so that resources are closed: replies that are on their way are stored, the state of
the run is written. Python drops an exception that is raised in a finaliser; it is raised again soon after. A library
may swallow one, too; so a second thread ends the process if it is still there a little later. Nothing is lost then
either: whatever was paid or computed was durable before.
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

INTERRUPTED = 130
"""Exit code of a command that was asked to end, by Ctrl-C, SIGTERM or SIGHUP; the same command goes on."""

SENTENCE = "interrupted; everything finished is kept. Go on with the same command."
NOTHING_WRITTEN = "interrupted; nothing was written, and the same command begins anew."
NOT_YET_WRITTEN = "interrupted; no question was written yet, but replies are in the cache. Go on with the same command."
GRACE_SECONDS = 4.5
"""How long a command may take to close what is open."""
WRITING_SECONDS = 15.5
"""How much longer it may take while replies that were paid for, or what they cost, are being written."""
AGAIN_SECONDS = 0.05


class Interrupted(KeyboardInterrupt):
    """A request to end.

    Where a plain KeyboardInterrupt leaves code that was compiled from a string, as that of dataclasses, Python notes it
    for good: even if it is caught, the process ends by SIGINT instead of with its exit code.
    """


class Interrupts:
    """Turns the first request to end into an `Interrupted`, and ignores those that follow.

    ``heard`` says whether one came, and ``sentence`` is what is said of it: commands that keep nothing on the way name
    another with `interrupted_with`. A signal that is ignored already stays so: a shell that starts a command in the
    background wants that.
    """

    sentence = SENTENCE

    def __init__(self) -> None:
        self.heard = False
        sys.unraisablehook = _tell_or_raise_again
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        ignore_signals()  # launchers pass Ctrl-C on, so that it comes twice; a second one must not disturb the closing
        # a `threading.Thread` would take a lock that the main thread may be holding at this moment
        _thread.start_new_thread(_end_in_time, ())
        raise Interrupted


@contextmanager
def interrupted_with(sentence: str) -> Iterator[None]:
    """Have ``sentence`` said if what is done here is interrupted."""
    Interrupts.sentence = sentence
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        if not interrupted:
            Interrupts.sentence = SENTENCE


def _tell_or_raise_again(lost: sys.UnraisableHookArgs) -> None:
    """What Python could not raise: it is said, as usual, but an `Interrupted` is raised again a moment later."""
    if lost.exc_type is not Interrupted:
        sys.__unraisablehook__(lost)
        return
    signal.signal(signal.SIGINT, _raise_again)
    _thread.start_new_thread(_press_again, ())


def _raise_again(number: int, frame: FrameType | None) -> None:
    ignore_signals()
    raise Interrupted


def _press_again() -> None:
    time.sleep(AGAIN_SECONDS)  # until the finaliser has ended
    os.kill(os.getpid(), signal.SIGINT)


def _end_in_time() -> None:
    time.sleep(GRACE_SECONDS)
    last = time.monotonic() + WRITING_SECONDS
    claims = sys.modules.get("ragsmith.gateway.claims")  # where nothing was asked it is not there, and not wanted
    if claims is not None:
        _thread.start_new_thread(claims.settle_all, ())  # it may have to wait for another process
    while claims is not None and not claims.all_replies_written() and time.monotonic() < last:
        time.sleep(AGAIN_SECONDS)
    os.write(2, f"{Interrupts.sentence}\n".encode())
    os._exit(INTERRUPTED)
