"""What is asked for one command, or for the list of commands, imports the others of none; the list tells the truth."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

from ragsmith.cli import run
from ragsmith.cli.app import COMMANDS, load


def imported(*arguments: str) -> set[str]:
    """The files of commands, and heavy packages, that a command line imports in a process of its own."""
    code = """if True:
        import json, sys
        from ragsmith.cli import run
        code = run(sys.argv[1:])
        print(json.dumps([code, sorted(sys.modules)]))
    """
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    files = {f"ragsmith.cli.{file}": file for file, _ in COMMANDS.values()}
    return {files.get(module, module) for module in modules if module in files or module in {"numpy", "asyncio"}}


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (("--help",), set()),
        (("-h",), set()),
        (("gate", "--help"), {"compare"}),
        (("dataset", "check", "--help"), {"dataset"}),
    ],
)
def test_only_the_file_of_the_command_is_imported(arguments: tuple[str, ...], files: set[str]) -> None:
    assert imported(*arguments) == files


def test_a_wrong_command_is_compared_with_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluat"]) == 2
    assert "did you mean evaluate?" in capsys.readouterr().err


def test_the_list_says_of_each_command_what_it_says_of_itself() -> None:
    group = typer.main.get_command(load())
    said = {name: command.get_short_help_str(1000) for name, command in group.commands.items()}  # type: ignore[attr-defined]
    assert said == {name: sentence for name, (_, sentence) in COMMANDS.items()}


def test_each_command_is_in_the_file_that_the_list_names() -> None:
    group = typer.main.get_command(load())
    for name, (file, _) in COMMANDS.items():
        command = group.commands[name]  # type: ignore[attr-defined]
        inside = getattr(command, "commands", {"": command}).values()
        assert {found.callback.__module__.split(".")[2] for found in inside} == {file}
