"""The generated parts of README.md: the catalogue of techniques and the help of the command line.

python tools/documentation.py            write them
python tools/documentation.py --check    exit 1 when they are stale
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique, load_techniques

README = Path(__file__).resolve().parent.parent / "README.md"
WIDTH = 100


def catalogue() -> str:
    """A table of every technique, by family."""
    load_techniques()
    lines = []
    for family in FAMILIES:
        lines += [
            f"**{family.name}**: {family.purpose}",
            "",
            "| technique | what it does | needs |",
            "| --- | --- | --- |",
        ]
        lines += [_row(technique) for technique in _in_order(family.techniques.values())]
        lines.append("")
    return "\n".join(lines).rstrip()


def commands() -> str:
    """What ``ragsmith --help`` and ``ragsmith search --help`` print."""
    return "\n\n".join(f"```\n$ ragsmith {line}\n{_help(line.split())}\n```" for line in ("--help", "search --help"))


def spaces() -> str:
    """The bundled search spaces and their sizes."""
    lines = ["| space | pipelines | what it is |", "| --- | ---: | --- |"]
    for name in ("paper", "default", "seeds", "quick"):
        space = load_space(name)
        lines.append(f"| `{name}` | {space.feasible_size:,} | {space.description} |")
    return "\n".join(lines)


NEEDS = {"fitted": "is fitted on search questions", "gold": "the gold labels: for analysis only"}
"""What tools that are no models mean to a reader."""

PARTS = {"catalogue": catalogue, "commands": commands, "spaces": spaces}


def rendered(text: str) -> str:
    """``text`` with every generated part written anew between its markers.

    Raises:
        ValueError: a part has no markers.
    """
    for name, write in PARTS.items():
        marked = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marked.search(text):
            raise ValueError(f"README.md has no place for the generated part {name!r}")
        part = write()
        text = marked.sub(lambda match, part=part: f"{match[1]}\n{part}\n\n{match[2]}", text)  # type: ignore[misc]
    return text


def _in_order(techniques: object) -> list[Technique]:
    return sorted(techniques, key=lambda t: (t.name != "none", t.name))  # type: ignore[call-overload,no-any-return]


def _row(technique: Technique) -> str:
    name = f"[`{technique.name}`](ragsmith/techniques/{technique.family}/{technique.name}.py)"
    summary = technique.summary.replace("``", "`").replace("|", "\\|")
    paper = f" ([paper]({technique.paper}))" if technique.paper.startswith("http") else ""
    needs = [NEEDS.get(tool, tool.replace("_", " ")) for tool in sorted(set(technique.tools.values()))]
    needs += [f"comes after {family} {' or '.join(names)}" for family, names in technique.after.items()]
    return f"| {name} | {summary}{paper} | {', '.join(needs)} |"


def _help(arguments: list[str]) -> str:
    from typer.testing import CliRunner  # noqa: PLC0415

    from ragsmith.cli.app import app  # noqa: PLC0415

    result = CliRunner().invoke(app, arguments, prog_name="ragsmith", terminal_width=WIDTH, env={"COLUMNS": str(WIDTH)})
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def main(arguments: list[str]) -> int:
    """Write the parts, or check them."""
    text = README.read_text(encoding="utf-8")
    fresh = rendered(text)
    if "--check" in arguments:
        if fresh != text:
            print("README.md is stale: run  python tools/documentation.py", file=sys.stderr)
        return int(fresh != text)
    README.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
