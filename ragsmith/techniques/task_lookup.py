"""Which language tasks a technique asks of a model, found in the code of its functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from ragsmith.models.tasks import Task
from ragsmith.techniques.registry import Technique

PASSAGES = 10
"""For which tasks are shown that are made for a number of passages."""


def tasks(technique: Technique) -> tuple[Task[Any], ...]:
    """The language tasks that a technique's functions name, its own and those of techniques it builds on, in order."""
    fitting = technique.fitting
    return tasks_named(technique.fn, *((fitting.observe, fitting.solve) if fitting else ()))


def tasks_named(*functions: Callable[..., Any]) -> tuple[Task[Any], ...]:
    """The language tasks that ``functions``, and those of the same package that they use, name, in order."""
    found: dict[str, Task[Any]] = {}
    seen: set[FunctionType] = set()
    waiting = [fn for fn in functions if isinstance(fn, FunctionType)]
    while waiting:
        fn = waiting.pop(0)
        if fn in seen:
            continue
        seen.add(fn)
        package = fn.__module__.partition(".")[0]
        for value in _named(fn):
            if isinstance(value, Task):
                found.setdefault(value.name, value)
            elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == package:
                if task := _made(value):
                    found.setdefault(task.name, task)
                else:
                    waiting.append(value)
    return tuple(found.values())


def _made(fn: FunctionType) -> Task[Any] | None:
    """The task that a function makes for a number of passages, which its parser has to know."""
    hints = {name: str(hint).partition("[")[0].rpartition(".")[2] for name, hint in inspect.get_annotations(fn).items()}
    if hints.pop("return", "") != "Task" or not set(hints.values()) <= {"int", "<class 'int'>"}:
        return None
    task: Task[Any] = fn(**dict.fromkeys(hints, PASSAGES))
    return task


def _named(fn: FunctionType) -> Iterator[object]:
    """The values of the globals that a function's code names, and what is in those that are collections."""
    for name in _names(fn.__code__):
        value = inspect.unwrap(found) if callable(found := fn.__globals__.get(name)) else found
        if isinstance(value, Mapping):
            yield from value.values()
        elif isinstance(value, tuple | list):
            yield from value
        else:
            yield value


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
