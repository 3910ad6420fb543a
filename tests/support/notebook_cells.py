"""Cells of a notebook, run as IPython runs them."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from ragsmith.measures.registry import REGISTERED_MEASURES
from ragsmith.techniques.families import passage_filter

Run = Callable[[str], dict[str, Any]]


@contextmanager
def run_cells() -> Iterator[Run]:
    """Run cells one after another in one namespace, with their source where IPython puts it."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    numbers = count(1)
    names = []

    def run(source: str) -> dict[str, Any]:
        names.append(f"<ipython-input-{next(numbers)}-test>")
        linecache.cache[names[-1]] = len(source), None, source.splitlines(keepends=True), names[-1]
        exec(compile(source, names[-1], "exec"), namespace)
        return namespace

    yield run
    for name in names:
        linecache.cache.pop(name)
    for known in [name for name, one in passage_filter.techniques.items() if not one.fn.__module__.startswith("rags")]:
        del passage_filter.techniques[known]
    for known in [name for name, one in REGISTERED_MEASURES.items() if not one.fn.__module__.startswith("ragsmith.")]:
        del REGISTERED_MEASURES[known]
