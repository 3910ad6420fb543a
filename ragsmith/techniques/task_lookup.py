"""Lookup of the language-model tasks that the code of a technique uses."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from ragsmith.models.tasks import Task
from ragsmith.techniques.families import prompt_maker
from ragsmith.techniques.generation import generate
from ragsmith.techniques.registry import Technique

N_PASSAGES = 10
"""Number of passages of tasks that depend on it."""


def find_tasks(technique: Technique) -> tuple[Task[Any], ...]:
    """Return the language tasks that a technique uses directly or through other techniques, in order."""
    fitting = technique.fitting
    return find_tasks_of(technique.fn, *((fitting.observe, fitting.solve) if fitting else ()))


def tasks_by_role(technique: Technique) -> dict[str, Task[Any]]:
    """Return the tasks whose prompts an option with this technique may replace, by role.

    The passages of a prompt maker are those of the answer, which is generated next.
    """
    answering = find_tasks_of(generate) if technique.family == prompt_maker.name else ()
    return {task.name: task for task in (*find_tasks(technique), *answering)}


def find_tasks_of(*functions: Callable[..., Any]) -> tuple[Task[Any], ...]:
    """Return the language tasks that ``functions`` refer to, directly or through functions of the same package."""
    tasks: dict[str, Task[Any]] = {}
    seen: set[FunctionType] = set()
    pending = [fn for fn in functions if isinstance(fn, FunctionType)]
    while pending:
        fn = pending.pop(0)
        if fn in seen:
            continue
        seen.add(fn)
        package = fn.__module__.partition(".")[0]
        for value in _referenced_globals(fn):
            if isinstance(value, Task):
                tasks.setdefault(value.name, value)
            elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == package:
                if task := _make_task(value):
                    tasks.setdefault(task.name, task)
                else:
                    pending.append(value)
    return tuple(tasks.values())


def _make_task(fn: FunctionType) -> Task[Any] | None:
    """Call a function that creates a task for a number of passages; return None for any other function."""
    hints = {name: str(hint).partition("[")[0].rpartition(".")[2] for name, hint in inspect.get_annotations(fn).items()}
    if hints.pop("return", "") != "Task" or not set(hints.values()) <= {"int", "<class 'int'>"}:
        return None
    task: Task[Any] = fn(**dict.fromkeys(hints, N_PASSAGES))
    return task


def _referenced_globals(fn: FunctionType) -> Iterator[object]:
    """Yield the globals that a function refers to; collections are replaced by their items."""
    for name in _referenced_names(fn.__code__):
        value = inspect.unwrap(found) if callable(found := fn.__globals__.get(name)) else found
        if isinstance(value, Mapping):
            yield from value.values()
        elif isinstance(value, tuple | list):
            yield from value
        else:
            yield value


def _referenced_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _referenced_names(constant)
