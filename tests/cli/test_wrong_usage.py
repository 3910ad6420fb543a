"""A command line that cannot be read is refused as any other mistake is: one sentence, exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., Any]

DATASET = ("--dataset", "law")

WRONG = [
    (("search", "--datset", "law"), "ragsmith search has no option '--datset': did you mean --dataset?"),
    (("search", *DATASET, "--no-rase"), "ragsmith search has no option '--no-rase': did you mean --no-race?"),
    (("search", *DATASET, "--foo"), "ragsmith search has no option '--foo': `ragsmith search -h` lists them"),
    (("ask", "-z"), "ragsmith ask has no option '-z': `ragsmith ask -h` lists them"),
    (("search",), "ragsmith search needs --dataset: a bundled data set by name, or a folder"),
    (("ask",), "ragsmith ask needs PIPELINE: an exported pipeline (winner.yaml)"),
    (("dataset", "show"), "ragsmith dataset show needs DATASET: a bundled data set by name, or a folder"),
    (("search", *DATASET, "--seed", "x"), "--seed is 'x': give a whole number"),
    (("search", *DATASET, "--seed", "7", "--seed=1.5"), "--seed is '1.5': give a whole number"),
    (("search", *DATASET, "--margin", "little"), "--margin is 'little': give a number"),
    (("search", "--dataset"), "--dataset has no value: write one behind it"),
    (("runs", "--mirror=yes"), "--mirror is a switch and takes no value: leave out the = and what follows"),
    (("runs", "more"), "ragsmith runs takes no argument 'more': `ragsmith runs -h` says what it takes"),
    (("effects", "lern"), "ragsmith effects has no command 'lern': did you mean 'learn'? known: learn, show"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_it_is_one_sentence_that_says_what_is_wrong_where_and_what_to_do(
    ragsmith: Command, arguments: tuple[str, ...], said: str
) -> None:
    ended = ragsmith(*arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {said}\n")


def test_the_nearest_command_is_named(ragsmith: Command) -> None:
    [said] = ragsmith("serch", *DATASET).err.splitlines()
    assert said.startswith("error: ragsmith has no command 'serch': did you mean 'search'? known: ask, audit, ")


def test_programs_are_told_the_same(ragsmith: Command) -> None:
    error = json.loads(ragsmith("runs", "--json", "more").out)["error"]
    assert error["message"].startswith("ragsmith runs takes no argument 'more'")


def test_a_group_of_commands_alone_is_explained(ragsmith: Command) -> None:
    ended = ragsmith("dataset")
    assert (ended.code, "Usage: ragsmith dataset" in ended.err, "error" in ended.err) == (2, True, False)


def test_what_drives_a_terminal_is_made_visible(ragsmith: Command) -> None:
    assert "\x1b" not in ragsmith("search", "--\x1b[2Jx").err
    assert "\x1b" not in ragsmith("runs", "\x1b[2Jx").err
