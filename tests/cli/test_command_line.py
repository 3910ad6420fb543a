"""Wrong command lines, groups of flags, and the list of commands."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from ragsmith.cli import run
from ragsmith.cli.app import COMMANDS, load
from ragsmith.cli.commands import COMMON
from ragsmith.cli.options import expand_groups
from ragsmith.cli.usage_errors import usage_message


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


@dataclass(frozen=True)
class Colours:
    paper: Annotated[str, typer.Option("--paper", help="What to write on.")] = "white"
    ink: Annotated[str | None, typer.Option("--ink", help="What to write with.")] = None


@pytest.fixture
def written() -> list[object]:
    return []


@pytest.fixture
def app(written: list[object]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @expand_groups
    def write(*, text: Annotated[str, typer.Argument()], colours: Colours, loud: bool = False) -> None:
        written.append((text, colours, loud))

    return app


def test_a_command_is_handed_the_group_as_one_object(app: typer.Typer, written: list[object]) -> None:
    assert CliRunner().invoke(app, ["hello", "--ink", "red", "--loud"]).exit_code == 0
    assert CliRunner().invoke(app, ["hello"]).exit_code == 0
    assert written == [("hello", Colours("white", "red"), True), ("hello", Colours(), False)]


def test_help_lists_the_flags_where_the_group_stands(app: typer.Typer) -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert shown.index("--paper") < shown.index("--ink") < shown.index("--loud")
    assert "What to write with." in shown


def test_a_flag_that_is_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="duplicate parameter name"):

        @expand_groups
        def write(*, colours: Colours, ink: str = "") -> None: ...


Command = Callable[..., Any]

DATASET = ("--dataset", "law")

MISTAKES = [
    (("search", "--datset", "law"), "ragsmith search has no option '--datset': did you mean --dataset?"),
    (("search", *DATASET, "--no-rase"), "ragsmith search has no option '--no-rase': did you mean --no-race?"),
    (("search", *DATASET, "--foo"), "ragsmith search has no option '--foo': `ragsmith search -h` lists its options"),
    (("ask", "-z"), "ragsmith ask has no option '-z': `ragsmith ask -h` lists its options"),
    (
        ("search",),
        "ragsmith search needs DATASET: bundled data sets by name (`ragsmith dataset list`), or folders; all stands "
        "for all bundled domains",
    ),
    (("ask",), "ragsmith ask needs PIPELINE: a pipeline that `ragsmith recommend`, `search` or `export` wrote"),
    (("dataset", "show"), "ragsmith dataset show needs DATASET: a bundled data set by name, or a folder"),
    (("search", *DATASET, "--seed", "x"), "--seed is 'x': give a whole number (random seed of the search)"),
    (
        ("search", *DATASET, "--seed", "7", "--seed=1.5"),
        "--seed is '1.5': give a whole number (random seed of the search)",
    ),
    (
        ("search", *DATASET, "--margin", "little"),
        "--margin is 'little': give a number (loss of fitness up to which the cheapest pipeline is as good as the "
        "winner)",
    ),
    (
        ("models", "check", "--llm", "openai:x", "--in-flight", "0"),
        "--in-flight is '0': give a whole number of at least 1 (requests in flight at the server of the --llm)",
    ),
    (
        ("mark", *DATASET, "--port", "70000"),
        "--port is '70000': give a whole number from 0 to 65535 (port of the page, on this machine only)",
    ),
    (("search", "--dataset"), "--dataset has no value: give one after it"),
    (("runs", "--mirror=yes"), "--mirror is a switch and takes no value: leave out = and the text after it"),
    (
        ("runs", "more"),
        "ragsmith runs takes no arguments, and not 'more' as well: `ragsmith runs -h` lists its options",
    ),
    (("effects", "sho"), "ragsmith effects has no command 'sho': did you mean show?"),
    (("effects", "gaze"), "ragsmith effects has no command 'gaze': it has show"),
]


@pytest.mark.parametrize(("arguments", "said"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_usage_error_is_one_sentence_with_problem_place_and_remedy(
    ragsmith: Command, arguments: tuple[str, ...], said: str
) -> None:
    ended = ragsmith(*arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {said}\n")


@pytest.mark.parametrize(
    ("by_name", "by_place"),
    [
        (("plan", "--dataset", "law", "--sample=20"), ("plan", "--sample", 20, "law")),
        (("transfer", "--dataset", "law", "--dataset=finance"), ("transfer", "law", "finance")),
        (("transfer", "law", "--part", "test", "--dataset", "finance"), ("transfer", "finance", "law", "--split=test")),
        (("ask", "--question", "Who?", "nowhere.yaml"), ("ask", "nowhere.yaml", "Who?")),
        (
            ("dataset", "show", "--dataset", "law", "--", "obligations-code"),
            ("dataset", "show", "law", "obligations-code"),
        ),
    ],
)
def test_an_argument_is_given_by_its_name_or_by_its_place(
    ragsmith: Command, by_name: tuple[str, ...], by_place: tuple[str, ...]
) -> None:
    assert ragsmith(*by_name) == ragsmith(*by_place)


def test_the_first_of_several_missing_arguments_is_named(ragsmith: Command) -> None:
    assert "ragsmith ask needs PIPELINE" in ragsmith("ask", "--question", "Who?").err


def test_help_lists_what_most_need_first_and_the_rest_in_groups(ragsmith: Command) -> None:
    shown = ragsmith("search", "--help").out
    titles = [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] not in " -"]
    assert titles == ["Arguments", "Options", "Models", "Limits", "Search", "Output", "Strategies"]
    first = shown[shown.index("Options:") : shown.index("Models:")]
    assert {f"--{name.replace('_', '-')}" for name in COMMON} == set(
        re.findall(r"^  (--[\w-]+) <", first, re.MULTILINE)
    )
    assert "Models:" not in ragsmith("runs", "--help").out


def test_the_nearest_command_is_named(ragsmith: Command) -> None:
    assert ragsmith("serch", *DATASET).err == "error: ragsmith has no command 'serch': did you mean search?\n"
    assert ragsmith("zzz").err.startswith("error: ragsmith has no command 'zzz': it has ablate, agent, ask, audit, ")


def test_usage_errors_are_the_same_with_json(ragsmith: Command) -> None:
    error = json.loads(ragsmith("runs", "--json", "more").out)["error"]
    assert error["message"].startswith("ragsmith runs takes no arguments, and not 'more'")


def _refused(arguments: Sequence[str]) -> str:
    """What is said of a command line of another program, which takes what ours does not."""
    app = typer.Typer()

    @app.command()
    def given(
        count: int,
        share: Annotated[float, typer.Option("--share", "-s")] = 0.0,
        tables: Annotated[Path, typer.Option(exists=True)] = Path(),
    ) -> None: ...

    with pytest.raises(typer.BadParameter) as refused:
        app(arguments, prog_name="given", standalone_mode=False)
    return usage_message(refused.value, arguments)


def test_a_number_is_asked_for_where_one_belongs() -> None:
    assert _refused(("1", "--share", "integer")) == "--share is 'integer': give a number"
    assert _refused(("1", "-s", "x")) == "--share is 'x': give a number"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("1", "--tables", "nowhere"), ("--tables", "'nowhere' does not exist")),
        (("x",), ("count", "valid integer")),
        (("1", "-sx"), ("--share", "valid")),
    ],
)
def test_what_else_is_wrong_is_said_as_typer_says_it(arguments: Sequence[str], words: Sequence[str]) -> None:
    said = _refused(arguments).lower()
    assert [word for word in words if word not in said] == []
    assert "give" not in said


def test_a_group_of_commands_alone_is_explained(ragsmith: Command) -> None:
    ended = ragsmith("dataset")
    assert (ended.code, "Usage: ragsmith dataset" in ended.err, "error" in ended.err) == (2, True, False)


def test_what_drives_a_terminal_is_made_visible(ragsmith: Command) -> None:
    assert "\x1b" not in ragsmith("search", "--\x1b[2Jx").err
    assert "\x1b" not in ragsmith("runs", "\x1b[2Jx").err


def test_where_nothing_can_be_written_the_file_is_named_with_the_reason(tmp_path: Path, ragsmith: Command) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.md").write_text("# A\n\nThe gate is shut at night.\n")
    ended = ragsmith("dataset", "init", tmp_path / "files", "-o", tmp_path / "files" / "a.md" / "set")
    assert ended.code == 2
    assert " cannot be read or written: " in ended.err


def test_folds_without_a_crossfit_are_refused(ragsmith: Command) -> None:
    for verb in ("search", "plan"):
        ended = ragsmith(verb, *DATASET, "--folds", 4)
        assert ended.code == 2
        assert "--folds is 4, and only a crossfit has folds: add  --verdict crossfit" in ended.err


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (("runs", "--cache", "nowhere.sqlite"), "usage", "there is no cache 'nowhere.sqlite'"),
        (("export", "--dataset", "law", "--cache", "nowhere.sqlite"), "usage", "there is no cache"),
        (("search", "--dataset", "law", "--seed", "-1"), "usage", "--seed"),
        (("runs", "--unknown"), "usage", "--unknown"),
        (("plan", "--dataset"), "usage", "--dataset"),
    ],
)
def test_an_error_of_a_command_that_prints_json_is_json_too(
    ragsmith: Callable[..., Any], arguments: tuple[str, ...], kind: str, said: str
) -> None:
    ended = ragsmith(arguments[0], "--json", *arguments[1:])
    error = json.loads(ended.out)["error"]
    assert (error["kind"], error["exit_code"]) == (kind, ended.code) == (kind, 2)
    assert said in error["message"]
    assert said in ended.err, "people read it, too"
    assert ragsmith(*arguments).out == ""
