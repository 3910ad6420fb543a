"""Signals in the process of somebody who uses the library: they are as they were before."""

from __future__ import annotations

import signal
from typing import Any

import pytest

import ragsmith
from ragsmith.evaluation.signals import SIGNALS, signals_deferred


def state() -> tuple[list[Any], set[signal.Signals | int]]:
    return [signal.getsignal(number) for number in SIGNALS], set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_handlers_and_blocked_signals_are_put_back() -> None:
    assert ragsmith.search is not None, "the library is imported, which changes no handler"
    before = state()
    with pytest.raises(RuntimeError, match="within"), signals_deferred():
        raise RuntimeError("within")
    assert state() == before


def test_a_handler_that_was_not_installed_from_python_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = state()
    with monkeypatch.context() as patched:
        patched.setattr(signal, "getsignal", lambda number: None)
        patched.setattr(signal, "signal", lambda number, handler: pytest.fail("it could not be put back"))
        with signals_deferred():
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert set(SIGNALS) <= set(blocked)
    assert state() == before
