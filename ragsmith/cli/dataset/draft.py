"""``ragsmith dataset draft``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import JsonOption
from ragsmith.cli.output import say, say_json


@commands.command()
def draft(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A data set, which need not have questions yet.")],
    questions: Annotated[int, typer.Option(help="Drafted questions that it shall have.")] = 100,
    seed: Annotated[int, typer.Option(help="Draws the order in which passages are read.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draft questions with answers and evidence from documents."""
    import ragsmith

    drafted = ragsmith.draft_questions(folder, questions=questions, seed=seed)
    if as_json:
        say_json(
            {
                "folder": str(folder),
                "questions": drafted.found + len(drafted.added),
                "drafted": drafted.drafts + len(drafted.added),
                "added": len(drafted.added),
                "types": dict(drafted.types),
                "made": dict(drafted.made),
                "known": drafted.known,
                "refused": dict(drafted.refused),
                "left": drafted.left,
            }
        )
        return
    say(f"{folder}: {len(drafted.added)} questions drafted, {drafted.drafts + len(drafted.added)} in all")
    for name, count in drafted.types.items():
        say(f"  {count:>5} {name}")
    if drafted.refused:
        say(f"{sum(drafted.refused.values())} refused, and why each was in {folder / 'rejected.jsonl'}")
    for name, count in drafted.refused.items():
        say(f"  {count:>5} {name}")
    if drafted.left:
        say(f"{drafted.left} more passed: they are there when more --questions are asked for")
    if drafted.found + len(drafted.added):
        say(f"search it  ragsmith search --dataset {shlex.quote(str(folder))}")
