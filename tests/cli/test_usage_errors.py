"""A command line that cannot be read is refused as any other mistake is: one sentence, exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from ragsmith.cli.usage_errors import sentence

Command = Callable[..., Any]

DATASET = ("--dataset", "law")

WRONG = [
    (("search", "--datset", "law"), "ragsmith search has no option '--datset': did you mean --dataset?"),
    (("search", *DATASET, "--no-rase"), "ragsmith search has no option '--no-rase': did you mean --no-race?"),
    (("search", *DATASET, "--foo"), "ragsmith search has no option '--foo': `ragsmith search -h` lists its options"),
    (("ask", "-z"), "ragsmith ask has no option '-z': `ragsmith ask -h` lists its options"),
    (
        ("search",),
        "ragsmith search needs --dataset: a bundled data set by name, or a folder; several times, or all of the "
        "domains, searches each in turn",
    ),
    (("ask",), "ragsmith ask needs PIPELINE: an exported pipeline (winner.yaml)"),
    (("dataset", "show"), "ragsmith dataset show needs DATASET: a bundled data set by name, or a folder"),
    (("search", *DATASET, "--seed", "x"), "--seed is 'x': give a whole number"),
    (("search", *DATASET, "--seed", "7", "--seed=1.5"), "--seed is '1.5': give a whole number"),
    (("search", *DATASET, "--margin", "little"), "--margin is 'little': give a number"),
    (("search", "--dataset"), "--dataset has no value: give one after it"),
    (("runs", "--mirror=yes"), "--mirror is a switch and takes no value: leave out = and what comes after it"),
    (("runs", "more"), "ragsmith runs does not take 'more': `ragsmith runs -h` says what it takes"),
    (("effects", "sho"), "ragsmith effects has no command 'sho': did you mean show?"),
    (("effects", "gaze"), "ragsmith effects has no command 'gaze': it has show"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_it_is_one_sentence_that_says_what_is_wrong_where_and_what_to_do(
    ragsmith: Command, arguments: tuple[str, ...], said: str
) -> None:
    ended = ragsmith(*arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {said}\n")


def test_the_nearest_command_is_named(ragsmith: Command) -> None:
    assert ragsmith("serch", *DATASET).err == "error: ragsmith has no command 'serch': did you mean search?\n"
    assert ragsmith("zzz").err.startswith("error: ragsmith has no command 'zzz': it has ablate, ask, audit, ")


def test_programs_are_told_the_same(ragsmith: Command) -> None:
    error = json.loads(ragsmith("runs", "--json", "more").out)["error"]
    assert error["message"].startswith("ragsmith runs does not take 'more'")


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
    return sentence(refused.value, arguments)


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
