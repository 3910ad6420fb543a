"""Running the command line from a benchmark: a fresh process each time, in a folder of its own."""

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SEARCH = ("search", "--dataset", "law", "--preset", "paper")


def search_of(space: str | None) -> tuple[str, ...]:
    """The search to measure: of the paper's preset, or of another space."""
    return SEARCH if space is None else ("search", "--dataset", "law", "--space", space)


@dataclass(frozen=True)
class Ran:
    """A finished command: wall seconds, CPU seconds of it and its children, and what it printed."""

    wall: float
    cpu: float
    out: str
    err: str
    code: int


def ragsmith(*arguments: str, folder: Path, env: dict[str, str] | None = None) -> Ran:
    """Run ``ragsmith`` with ``arguments`` in ``folder``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ragsmith", *arguments],
        cwd=folder,
        env={**os.environ, "RAGSMITH_LEDGER": "off", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(wall, cpu, done.stdout, done.stderr, done.returncode)
