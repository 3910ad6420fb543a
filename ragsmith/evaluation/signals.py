"""Handling of termination signals: SIGINT (Ctrl-C), SIGTERM and SIGHUP."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)  # Windows has no SIGHUP
)


def ignore_signals() -> None:
    """Ignore termination signals, including those that arrived while they were blocked."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


@contextmanager
def signals_handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Call ``handler`` on termination signals within the block; in the main thread only."""
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer termination signals to the end of the block; a process started in it has these signals blocked.

    Blocking alone would not defer them: another thread may receive the signal, and Python would still run its
    handler in the main thread. A handler that was not installed from Python could not be restored, and is not replaced.
    """
    held: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        with _signals_blocked():
            try:
                if threading.current_thread() is threading.main_thread():  # handlers can be set in it only
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
def _signals_blocked() -> Iterator[None]:
    """Block the signals in this thread, if the system supports it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def signal_handlers_restored() -> Iterator[None]:
    """Restore the handlers that a library replaces within the block; its own would end the process without storing."""
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS} if in_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                with suppress(ValueError):
                    signal.signal(number, handler)
