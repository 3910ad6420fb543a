"""Processes that a test starts hear signals, however the tests themselves were started."""

from __future__ import annotations

import signal


def listen_to_signals() -> None:
    """Undo what a shell does to a command it starts in the background: SIGINT is ignored, and that is inherited."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
