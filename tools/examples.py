"""Run the examples of the docs again: README's transcript, the explained question, the example report and its pictures.

python tools/examples.py        one default search of `law` with an empty cache: a few minutes on two cores

python tools/examples.py --pictures PAGE        pictures of a page that is there, and nothing else

The transcript replaces the block after ``<!-- transcript: ... -->`` in README.md, and the explanation of one question
the block after ``<!-- explained: ... -->`` in docs/diagnosis.md.

Pictures need Chromium with its driver, selenium and pillow, and are left as they are without.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
"""Characters in a line of an example."""

KEPT = ("report.md", "ranking.csv", "activity.csv", "groups.csv", "parts.csv", "winner.yaml")
"""Files of a report that are examples of the project."""

WIDE, PHONE, PAPER = 1280, 390, 718
"""Pixels across a screen, a telephone, and A4 without its margins."""

PICTURES = {
    "report.png": (WIDE, 3000, {}),
    "report-dark.png": (WIDE, 3000, {"dark": True}),
    "report-phone.png": (PHONE, 5600, {}),
    "report-print.png": (PAPER, 4200, {"media": "print"}),
}
"""What a picture shows: so many pixels across, at most so many down, and how the page is looked at."""


def ran(folder: Path, *arguments: str) -> str:
    """What a command prints, run in ``folder``, as by somebody who never looked at these test questions before."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAGSMITH_LEDGER": str(folder / "looks.sqlite")}
    command = [sys.executable, "-m", "ragsmith", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def transcript(printed: str) -> str:
    """The first two paragraphs of what a search prints, without small print and what to do next, and what it took."""
    without_small_print = re.sub(
        r"^(  \(p, adjusted|cheaper:|next:).*?(?=^$)", "", printed.strip(), flags=re.DOTALL | re.MULTILINE
    )
    paragraphs = without_small_print.split("\n\n")
    cost = paragraphs[-1].partition("\n")[0]
    shown = "\n".join(paragraphs if len(paragraphs) <= 3 else [*paragraphs[:2], "...", cost])
    return "\n".join(line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in shown.splitlines())


EXPLAINED = "law-014"
"""The question that is explained."""

LEFT_OUT = ("reference", "pre_embedding", "prompt_maker", "read", "scores", "try")
"""Parts of the explanation that are left out of the example."""


def explained(folder: Path) -> str:
    """The command that explains a question, and what it prints, without some parts."""
    arguments = ["explain", "reports/law/winner.yaml", EXPLAINED]
    return "\n".join([f"$ ragsmith {' '.join(arguments)}", *excerpt(ran(folder, *arguments))])


def excerpt(printed: str) -> list[str]:
    """The lines of an explanation, without the parts that are left out."""
    kept, part = [], ""
    for line in printed.strip().splitlines():
        part = re.split(r"[\s,]", line)[0] or ("" if not line else part)
        if part not in LEFT_OUT:
            kept.append(line)
    return [line for place, line in enumerate(kept) if line or (place and kept[place - 1])]


def replace_example(text: str, shown: str, place: str) -> str:
    """``text`` with ``shown`` in the block after the comment that names the ``place``.

    Raises:
        ValueError: there is no such place, or there are several.
    """
    replaced, count = re.subn(
        rf"(<!-- {place}: [^\n]*-->\n```\n).*?(\n?```)", lambda m: f"{m[1]}{shown}\n```", text, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"{count} places for the {place}, not one")
    return replaced


def photograph(page: Path, folder: Path) -> None:
    """Pictures of the top of a page: on a screen, light and dark, on a telephone, and on paper."""
    try:
        from browser import browser  # noqa: PLC0415  it needs packages that nothing else here does

        with browser() as opened:
            for name, (width, longest, how) in PICTURES.items():
                opened.show(page, width, **how)
                opened.photograph(folder / name, longest)
    except (ImportError, FileNotFoundError) as missing:
        print(f"the pictures are left as they are: {missing}", file=sys.stderr)


def main() -> None:
    """Search once, and write everything that is shown of it; or only take pictures."""
    readme, diagnosis, examples = (
        ROOT / "README.md",
        ROOT / "docs" / "diagnosis.md",
        ROOT / "reports" / "examples" / "law",
    )
    if sys.argv[1:2] == ["--pictures"]:
        photograph(Path(sys.argv[2]), examples)
        return
    with tempfile.TemporaryDirectory() as folder:
        shown = transcript(ran(Path(folder), "search", "--dataset", "law", "--quiet"))
        for page, place, example in (
            (readme, "transcript", shown),
            (diagnosis, "explained", explained(Path(folder))),
        ):
            page.write_text(replace_example(page.read_text(encoding="utf-8"), example, place), encoding="utf-8")
        ran(Path(folder), "ablate", "reports/law/winner.yaml", "--signals")
        ran(Path(folder), "report")
        report = Path(folder) / "reports" / "law"
        for name in KEPT:
            shutil.copy(report / name, examples / name)
        photograph(report / "index.html", examples)


if __name__ == "__main__":
    main()
