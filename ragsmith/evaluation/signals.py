"""Signals that ask a process to end: Ctrl-C, a supervisor that stops a service, a terminal that is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def ignore_signals() -> None:
    """Ignore requests to end from here on, those that came while they were blocked included."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def signals_held() -> Iterator[None]:
    """Requests to end wait until the block is left; a process started in it begins with these signals blocked.

    Blocking alone would not make them wait: another thread may receive the signal, and Python would still run its
    handler in the main thread.
    """
    held: list[int] = []
    handlers: dict[int, Any] = {}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        if threading.current_thread() is threading.main_thread():  # handlers belong to it, and run in it only
            for number in SIGNALS:
                handlers[number] = signal.signal(number, lambda received, frame: held.append(received))
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        for caught, handler in handlers.items():
            signal.signal(caught, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for waiting in held:
            signal.raise_signal(waiting)
