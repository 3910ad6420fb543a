"""What the benchmarks of growth measured, kept in one file: a line a figure, with what it was measured on beside it.

``python tools/documentation.py`` draws the file and puts its tables into docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ragsmith import __version__

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "growth.json"


def keep(of: str, part: str, size: int, measured: Mapping[str, float], file: Path = FIGURES) -> None:
    """Print a figure, and put it in the place of an earlier one; the file is written whole or not at all."""
    print(f"{of} {size:,}: {part}", *(f"{name} {value:,.3f}" for name, value in measured.items()), sep=", ", flush=True)
    figure = {"of": of, "part": part, "size": size}
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    kept = [one for one in before if any(one[name] != value for name, value in figure.items())]
    values = {name: round(value, 4) for name, value in measured.items()}
    lines = [*kept, {**figure, "measured": values, "on": environment()}]
    lines.sort(key=lambda one: (one["of"], one["part"], one["size"]))
    text = "[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n"
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def environment() -> dict[str, object]:
    """What a figure was measured on; the load is that of the last five minutes, with what was measured itself."""
    changed = _git("status", "--short", "--", "ragsmith")
    commit = _git("log", "-1", "--format=%h", "--", "ragsmith")  # those that change a benchmark or a page do not count
    return {
        "version": __version__,
        "commit": f"{commit} and changes" if changed else commit,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[1], 1),
    }


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def asked_for(parser: argparse.ArgumentParser) -> None:
    """The option that names another file."""
    parser.add_argument("--figures", type=Path, default=FIGURES, metavar="FILE", help="where figures are kept")
