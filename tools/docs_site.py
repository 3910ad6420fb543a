"""Hooks of the documentation site (`mkdocs.yml`): pages that are made when it is built, and links into the repository.

README.md is the first page, CONTRIBUTING.md and benchmarks/README.md are pages as well, and the help of every command,
the Python names and the list of decisions are written anew. A link to another file of the repository becomes the name
of the file, as the site does not hold it; one that leads nowhere ends the build.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import griffe
import typer
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from typer.testing import CliRunner

import ragsmith
from ragsmith.cli.app import load

WIDTH = 100
"""Characters in a line of a command's help."""

SHARED_ARGUMENTS = (
    "ModelArguments",
    "CacheArguments",
    "WorkArguments",
    "SettingChanges",
    "RunArguments",
    "SearchArguments",
)
"""Typed dictionaries of `ragsmith.api.arguments` that signatures refer to."""

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "benchmarks/README.md": "benchmarks.md"}
"""Files of the repository which are pages of the site, and their names there."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:)([^)#\s]+)(#[^)]*)?\)")


class Examples(griffe.Extension):
    """Shows the examples in docstrings, paragraphs which begin with ``>>>``, as code."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            paragraphs = obj.docstring.value.split("\n\n")
            fenced = [f"```pycon\n{one}\n```" if one.lstrip().startswith(">>>") else one for one in paragraphs]
            obj.docstring.value = "\n\n".join(fenced)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that `docs/` does not hold."""
    made = {name: (ROOT / file).read_text(encoding="utf-8") for file, name in PAGES.items()}
    made |= {"commands.md": "\n\n".join(commands()), "python.md": "\n\n".join(python_names())}
    made["decisions/index.md"] = "\n\n".join(decisions())
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for image in re.findall(r"!\[[^\]]*\]\((reports/[^)]+)\)", made["index.md"]):
        files.append(File.generated(config, image, abs_src_path=str(ROOT / image)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead the links of a page to pages of the site."""
    name = page.file.src_uri
    source = {made: file for file, made in PAGES.items()}.get(name, f"docs/{name}")

    def replace(match: re.Match[str]) -> str:
        image, text, link, anchor = match[1], match[2], match[3], match[4] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        known = PAGES.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else "")
        if image:
            known = known or target
        if known and files.get_file_from_path(known):
            return f"{image}[{text}]({posixpath.relpath(known, posixpath.dirname(name) or '.')}{anchor})"
        if not (ROOT / target).exists():
            raise PluginError(f"{source}: the link to {link} leads nowhere: there is no {target}")
        return text if "`" in text else f"`{target}`" if text == link else f"{text} (`{target}`)"

    return _LINK.sub(replace, markdown)


def commands() -> Iterator[str]:
    """The help of every command."""
    yield "# Commands"
    yield (
        "What `--help` prints. Exit codes: 0 done; 1 the run failed, or has no winner; 2 the request was "
        "wrong, one sentence says how, and nothing was computed; 3 what was to be compared is not of the same "
        "questions, or not scored alike (`compare`, `gate`); 4 a gate could not be run; 130 interrupted, "
        "and the same command goes on. Of `gate`, 1 means that the pipeline is worse, and nothing else does."
    )
    for path in _paths(typer.main.get_command(load()), ()):
        shown = CliRunner().invoke(
            load(), [*path, "--help"], prog_name="ragsmith", terminal_width=WIDTH, env={"COLUMNS": str(WIDTH)}
        )
        text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
        yield f"## {' '.join(['ragsmith', *path])}\n\n```\n{text}\n```"


def _paths(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    inner = getattr(command, "commands", {})
    for name in command.list_commands(None) if inner else ():
        yield from _paths(inner[name], (*path, name))


def python_names() -> Iterator[str]:
    """Every public name of the package, for mkdocstrings to document where it is defined."""
    summary, _, example = (ragsmith.__doc__ or "").partition("\n\n")
    yield f"# Python\n\n{summary}\n\n```python\n{example.strip()}\n```"
    for name in sorted(set(ragsmith.__all__) - {"__version__"}, key=str.lower):
        value = getattr(ragsmith, name)
        yield f"::: {value.__module__}.{name}"
    yield "## Shared arguments\n\nFunctions that take `**given: Unpack[...]` have these keyword arguments."
    for name in SHARED_ARGUMENTS:
        yield f"::: ragsmith.api.arguments.{name}\n    options: {{heading_level: 3}}"


def decisions() -> Iterator[str]:
    """The decision records, the newest first."""
    yield "# Decisions\n\nOne record a decision: what was decided, why, and the command that shows it."
    listed = []
    for path in (ROOT / "docs" / "decisions").glob("*.md"):
        first, _, rest = path.read_text(encoding="utf-8").partition("\n")
        dated = re.search(r"\d{4}-\d\d-\d\d", rest)
        if not first.startswith("# ") or dated is None:
            raise PluginError(f"docs/decisions/{path.name}: begin with a heading and give the date as YYYY-MM-DD")
        listed.append((dated[0], path.name, first.removeprefix("# ")))
    yield "\n".join(f"- {date}: [{title}]({name})" for date, name, title in sorted(listed, reverse=True))
