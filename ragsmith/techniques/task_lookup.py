"""Find the language tasks of techniques in the code of their functions."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from ragsmith.models.tasks import Task
from ragsmith.techniques.registry import Technique

PASSAGES = 10
"""The number of passages for tasks that depend on it."""


def find_tasks(technique: Technique) -> tuple[Task[Any], ...]:
    """Return the language tasks of a technique and of techniques that it builds on, in order."""
    fitting = technique.fitting
    return find_tasks_of(technique.fn, *((fitting.observe, fitting.solve) if fitting else ()))


def find_tasks_of(*functions: Callable[..., Any]) -> tuple[Task[Any], ...]:
    """Return the language tasks that ``functions`` refer to, directly or through functions of the same package."""
    found: dict[str, Task[Any]] = {}
    seen: set[FunctionType] = set()
    waiting = [fn for fn in functions if isinstance(fn, FunctionType)]
    while waiting:
        fn = waiting.pop(0)
        if fn in seen:
            continue
        seen.add(fn)
        package = fn.__module__.partition(".")[0]
        for value in _globals_of(fn):
            if isinstance(value, Task):
                found.setdefault(value.name, value)
            elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == package:
                if task := _task_of(value):
                    found.setdefault(task.name, task)
                else:
                    waiting.append(value)
    return tuple(found.values())


def _task_of(fn: FunctionType) -> Task[Any] | None:
    """Return the task that a function creates for a number of passages, or None if it creates none."""
    hints = {name: str(hint).partition("[")[0].rpartition(".")[2] for name, hint in inspect.get_annotations(fn).items()}
    if hints.pop("return", "") != "Task" or not set(hints.values()) <= {"int", "<class 'int'>"}:
        return None
    task: Task[Any] = fn(**dict.fromkeys(hints, PASSAGES))
    return task


def _globals_of(fn: FunctionType) -> Iterator[object]:
    """Yield the globals that a function's code refers to; of collections, their items."""
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
