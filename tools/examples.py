"""Run what README.md shows of a search, and write it anew: the transcript, the example report and its picture.

python tools/examples.py        one default search of `law` with an empty cache: a few minutes on two cores

What is shown of one question stands where README says ``<!-- explained: ... -->``, if it has such a place.

The picture needs Chromium (`chromium` on the path) and is left as it is without.
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
WIDTH = 120
"""Characters of a line that README shows."""

KEPT = ("report.md", "ranking.csv", "activity.csv", "groups.csv", "winner.yaml")
"""Files of a report that are examples of the project."""

SIZE = "1100,1450"
"""Width and height of the picture."""


def searched(folder: Path) -> str:
    """What a default search of ``law`` prints, run in ``folder``."""
    command = [sys.executable, "-m", "ragsmith", "search", "--dataset", "law", "--quiet"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    return done.stdout


def transcript(printed: str) -> str:
    """The lines that README shows, cut to its width."""
    lines = (line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in printed.strip().splitlines())
    return "\n".join(lines)


EXPLAINED = "law-014"
"""The question whose way README shows."""

LEFT_OUT = ("reference", "pre_embedding", "prompt_maker", "read", "scores", "try")
"""Parts of what `ragsmith explain` says that README leaves out."""


def explained(folder: Path) -> str:
    """What README shows of the way of one question: the command, and what it prints, without some parts."""
    arguments = ["explain", "reports/law/winner.yaml", EXPLAINED]
    done = subprocess.run(
        [sys.executable, "-m", "ragsmith", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return "\n".join([f"$ ragsmith {' '.join(arguments)}", *excerpt(done.stdout)])


def excerpt(printed: str) -> list[str]:
    """The lines of an explanation, without the parts that README leaves out."""
    kept, part = [], ""
    for line in printed.strip().splitlines():
        part = re.split(r"[\s,]", line)[0] or ("" if not line else part)
        if part not in LEFT_OUT:
            kept.append(line)
    return [line for place, line in enumerate(kept) if line or (place and kept[place - 1])]


def into_readme(text: str, shown: str, place: str = "transcript") -> str:
    """README with ``shown`` in its place.

    Raises:
        ValueError: README has no such place.
    """
    found, count = re.subn(
        rf"(<!-- {place}: [^\n]*-->\n```\n).*?(\n```)", lambda m: f"{m[1]}{shown}{m[2]}", text, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"README.md has no place for the {place}, or several")
    return found


def photograph(page: Path, picture: Path) -> None:
    """The top of a page as PNG, by Chromium without a window."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no chromium on the path: the picture is left as it is", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
        flags += [f"--user-data-dir={profile}", "--hide-scrollbars", f"--window-size={SIZE}"]
        flags += ["--virtual-time-budget=4000", f"--screenshot={picture}", page.as_uri()]
        subprocess.run([chromium, *flags], capture_output=True, check=True)


def main() -> None:
    """Search once, and write everything that is shown of it."""
    readme, examples = ROOT / "README.md", ROOT / "reports" / "examples" / "law"
    with tempfile.TemporaryDirectory() as folder:
        shown = transcript(searched(Path(folder)))
        text = into_readme(readme.read_text(encoding="utf-8"), shown)
        if "<!-- explained: " in text:
            text = into_readme(text, explained(Path(folder)), "explained")
        readme.write_text(text, encoding="utf-8")
        report = Path(folder) / "reports" / "law"
        for name in KEPT:
            shutil.copy(report / name, examples / name)
        photograph(report / "index.html", examples / "report.png")


if __name__ == "__main__":
    main()
