"""Signals that ask a process to end: Ctrl-C, a supervisor that stops a service, a terminal that is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


def ignore_signals() -> None:
    """Ignore requests to end from here on, those that came while they were blocked included."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def signals_handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call ``handler`` on requests to end until the block is left; in the main thread only."""
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def signals_held() -> Iterator[None]:
    """Requests to end wait until the block is left; a process started in it begins with these signals blocked.

    Blocking alone would not make them wait: another thread may receive the signal, and Python would still run its
    handler in the main thread. A handler that was not installed from Python could not be put back, and is left alone.
    """
    held: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        with _blocked():
            try:
                if threading.current_thread() is threading.main_thread():  # handlers belong to it, and run in it only
                    for number in SIGNALS:
                        if signal.getsignal(number) is not None:
                            handlers[number] = signal.signal(number, lambda received, frame: held.append(received))
                yield
            finally:
                for caught, handler in handlers.items():
                    signal.signal(caught, handler)
    finally:
        for waiting in held:
            signal.raise_signal(waiting)


@contextmanager
def _blocked() -> Iterator[None]:
    """Block the signals in this thread, where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
