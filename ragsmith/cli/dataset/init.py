"""``ragsmith dataset init``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.interrupts import NOTHING_WRITTEN, interrupted_with
from ragsmith.cli.listing import listing
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import note, say, say_json

if TYPE_CHECKING:
    from ragsmith.api.ingesting import Intake
    from ragsmith.datasets.ingest.ingest import IngestResult
    from ragsmith.extensions import Extension

EVERY = 200
"""Files after which a line says how far it is."""

MOST_PAIRS = 10


def _readers() -> Iterable[Extension]:
    from ragsmith.datasets.ingest.readers.part import READERS

    return READERS


@commands.command(cls=listing("Readers", _readers))
def init(
    folder: Annotated[Path, typer.Argument(help="A folder of files of any kinds, in folders of any depth.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the data set: a new one, or one to update.")
    ],
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a data set of a folder of files of any kind, or bring it up to date; questions come later."""
    import ragsmith

    def tell(name: str, number: int) -> None:
        if number and number % EVERY == 0 and not as_json:
            note(f"{number:,} files read, now {name}" if sys.stderr.isatty() else f"{number:,} files read")

    with interrupted_with(NOTHING_WRITTEN):
        made = ragsmith.init_dataset(folder, output, on_file=tell)
    if as_json:
        say_json(made.plain())
    else:
        _say(made)


def _say(made: Intake) -> None:
    taken, found = made.taken, made.found
    _say_files(taken)
    say()
    say(
        f"{taken.output}: {_count(found.documents, 'document')}, {found.characters:,} characters, "
        f"{_count(found.headings, 'heading')}, {_count(found.tables, 'table')}"
    )
    say(f"kinds: {_listed(found.kinds)}")
    if found.languages:
        say(f"languages: {_listed(found.languages)}")
    if taken.near:
        say(f"nearly the same, and both kept: {_count(len(taken.near), 'pair')}")
        for pair in taken.near[:MOST_PAIRS]:
            say(f"  {100 * pair.similarity:3.0f} %  {pair.first}  {pair.second}")
        if len(taken.near) > MOST_PAIRS:
            say(f"  and {len(taken.near) - MOST_PAIRS} more: --json lists them")
    if found.chunk_sizes:
        say(
            f"chunk sizes that suit: {' or '.join(f'{size:,}' for size in found.chunk_sizes)} characters ({_why(made)})"
        )
    say(
        f"a search of the default space evaluates about {made.pipelines} pipelines, so about {made.pipelines * 100:,} "
        "answers for 100 questions: with the embedded models nothing is sent and nothing costs money, and for others "
        "ragsmith plan says what it comes to, once there are questions"
    )
    first, *others = made.next_steps
    say(f"next: {first}{'  then  ' if taken.repointed else '  or  '}{'  or  '.join(others)}")


def _say_files(taken: IngestResult) -> None:
    """A line for every file that is no document now or not as one expects; counts of all."""
    from ragsmith.datasets.ingest.ingest import FileOutcome

    for file in taken.files:
        if file.reason:
            say(f"{file.outcome}: {file.source}: {file.reason}")
        for remark in file.notes:
            say(f"note: {file.source}: {remark}")
        if not taken.fresh and file.outcome in (FileOutcome.ADDED, FileOutcome.CHANGED, FileOutcome.MOVED):
            say(f"{file.outcome}: {file.source}")
    for gone in taken.removed:
        what = f"{gone.doc}: {gone.source} is gone from {taken.folder}"
        if gone.kept:
            say(f"kept: {what}, but evidence of {_count(gone.questions, 'question')} lies in it")
        else:
            say(f"removed: {what}; its text lies in {taken.output / 'removed'} now")
    for doc, questions in taken.repointed.items():
        say(
            f"take care: {doc} changed, where evidence of {_count(questions, 'question')} lies: "
            f"ragsmith dataset anchor --repair {shlex.quote(str(taken.output))}  finds it again"
        )
    counts = [f"{len(those)} {outcome}" for outcome in FileOutcome if (those := taken.with_outcome(outcome))]
    say(f"{_count(len(taken.files), 'file')}: {', '.join(counts)}")


def _why(made: Intake) -> str:
    from ragsmith.datasets.ingest.summary import WHOLE_PARAGRAPHS, WHOLE_SECTIONS

    found = made.found
    parts = [
        (f"{100 * WHOLE_PARAGRAPHS:.0f} % of the paragraphs and rows have at most", found.paragraphs),
        (f"{100 * WHOLE_SECTIONS:.0f} % of the sections", found.sections),
    ]
    return ", ".join(f"{what} {length:,}" for what, length in parts if length)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
