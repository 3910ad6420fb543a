"""README, CONTRIBUTING and docs/: generated pages are fresh, links and paths lead somewhere, commands can be typed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import typer
from documentation import DOCS, ROOT, pages
from examples import excerpt, replace_example, transcript
from mixed_folder import ENTRIES, NEEDED, entries, written

from ragsmith.cli.app import load
from ragsmith.pipelines.space_file import load_space

BY_HAND = (
    "README.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")),
)
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_generated_pages_are_fresh() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run  python tools/documentation.py"


@pytest.mark.parametrize("name", BY_HAND)
def test_every_relative_link_leads_to_a_file(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_path_of_the_package_that_is_named_exists(name: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"`((?:ragsmith|tests|tools|docs|benchmarks)/[\w./-]*)`", text))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_dated_and_shown_by_something_that_exists(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert re.match(r"# \S.*\n\n\d{4}-\d\d-\d\d\.\s", text), record
    assert len(text.splitlines()) <= 40
    shown = text.partition("\nShown by `")[2]
    assert shown
    named = re.findall(r"\b(?:tests|benchmarks|tools|docs)/[\w/.]*\w", shown)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_rooms_are_listed_in_the_order_of_their_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    order = [room for layer in contracts[0]["layers"] for room in layer.split(" | ")]
    table = re.findall(r"^\| `ragsmith/(\w+)", (DOCS / "architecture.md").read_text("utf-8"), re.MULTILINE)
    assert table == [room for room in order if room in table]
    folders = {path.parent.name for path in (ROOT / "ragsmith").glob("*/__init__.py")}
    assert folders <= set(table)


def test_a_transcript_is_the_beginning_and_the_end_of_what_is_printed() -> None:
    printed = f"law: 2 pipelines\n\nwinner: {'x' * 200}\ncheaper: y\n    z\nnext: n\n\nranking\n\nmore\n\n3 answers\n"
    shown = transcript(printed)
    assert shown.splitlines()[1:] == [f"winner: {'x' * 89}...", "...", "3 answers"]
    assert f"```\n{shown}\n```" in replace_example(README, shown, "transcript")


def test_of_an_explanation_whole_parts_are_left_out() -> None:
    printed = "q-1   What?\nreference  This.\n\nreranking  none\n  1 one\n\nread, gold\n  [1] doc\n\nanswer  That.\n"
    assert excerpt(printed) == ["q-1   What?", "", "reranking  none", "  1 one", "", "answer  That."]


def test_the_space_that_is_shown_can_be_pasted(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(name: mine\n.*?)```", (DOCS / "search_spaces.md").read_text("utf-8"), re.DOTALL)
    file = tmp_path / "mine.yaml"
    file.write_text(example, encoding="utf-8")
    space = load_space(file)
    assert 0 < space.feasible_size < space.size


def printed_commands(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = [
        body
        for kind, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        if kind in ("", "bash")
    ]
    return [line for block in blocks for line in block.splitlines() if line.startswith("ragsmith ")]


@pytest.mark.parametrize(
    "line",
    [line for name in ("README.md", "docs/models.md", "docs/search_spaces.md") for line in printed_commands(name)],
)
def test_every_command_that_is_printed_is_one_that_is_understood(line: str) -> None:
    command: click.Command = typer.main.get_command(load())
    _, *arguments = shlex.split(line, comments=True)
    while isinstance(command, click.Group):
        command = command.commands[arguments.pop(0)]
    command.make_context("ragsmith", arguments)


def ragsmith_on_the_path(folder: Path) -> dict[str, str]:
    script = folder / "ragsmith"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ragsmith "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def commands_behind(mark: str) -> str:
    return README.split(f"<!-- {mark}: a test runs this -->\n```bash\n")[1].partition("```")[0]


@pytest.mark.processes
def test_three_commands_lead_from_a_folder_to_an_answer(tmp_path: Path) -> None:
    for package in NEEDED:
        pytest.importorskip(package, reason="needs the extra documents")
    mixed = written(tmp_path / "files")
    commands = commands_behind("a folder").replace("datasets/law/documents", "files")
    commands = commands.replace(
        "What happens to an acceptance of an offer that arrives late?", "Who is the keeper of Coldwell?"
    )
    (tmp_path / "bin").mkdir()
    environment = ragsmith_on_the_path(tmp_path / "bin")
    done = subprocess.run(
        ["bash", "-e", "-c", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Tobias Renner" in done.stdout
    said = " ".join((done.stdout + done.stderr).split())  # however wide its lines are
    assert [path for path in mixed.refused if Path(path).name not in said] == []
    assert len(entries(mixed.folder)) == ENTRIES
    assert len(mixed.kinds) >= 14


@pytest.mark.processes
def test_the_way_to_one_s_own_documents_runs_as_printed(tmp_path: Path) -> None:
    printed = README.split("<!-- own documents: a test runs this -->\n```bash\n")[1:]
    commands = "".join(part.partition("```")[0] for part in printed)
    answer = printed[-1].partition("```\n")[2].partition("```\n")[2].partition("```")[0]
    (tmp_path / "bin").mkdir()
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=tmp_path,
        env=ragsmith_on_the_path(tmp_path / "bin"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "my_data: valid" in done.stdout
    assert "verdict: Nothing is claimed" in done.stdout
    assert answer in done.stdout.splitlines(keepends=True), "the answer itself, and not the closest passage"
    assert (tmp_path / "reports" / "my_data" / "index.html").is_file()
