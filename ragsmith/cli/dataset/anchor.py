"""``ragsmith dataset anchor``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import JsonOption
from ragsmith.cli.output import say, say_json


@commands.command()
def anchor(
    questions: Annotated[Path, typer.Argument(help="List of questions: CSV, TSV, JSONL, JSON or XLSX.")],
    documents: Annotated[
        Path | None, typer.Option("--documents", help="Folder of documents, or of a data set without questions.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New folder for the data set; left out, the questions join --documents."),
    ] = None,
    question_column: Annotated[str | None, typer.Option(help="Column of the questions.")] = None,
    answer_column: Annotated[str | None, typer.Option(help="Column of the answers.")] = None,
    evidence_column: Annotated[str | None, typer.Option(help="Column of quotations of the documents.")] = None,
    doc_column: Annotated[str | None, typer.Option(help="Column that names the document.")] = None,
    at_least: Annotated[
        float, typer.Option(help="Probability, as estimated, from which the place of an answer is taken.")
    ] = 0.9,
    as_json: JsonOption = False,
) -> None:
    """Find where the documents answer an existing list of questions, and write both as a data set."""
    import ragsmith
    from ragsmith.datasets.anchoring.anchored_folder import UNANCHORED
    from ragsmith.errors import WrongOption

    if documents is None:
        raise WrongOption("documents", "is missing: give the folder of documents that answer the questions")
    given = {"question": question_column, "answer": answer_column, "evidence": evidence_column, "doc": doc_column}
    columns = {role: column for role, column in given.items() if column is not None}
    found = ragsmith.anchor(questions, documents, output=output, columns=columns, at_least=at_least)
    folder, total = output or documents, len(found.anchored) + len(found.unanchored)
    lost = [f"{each.asked.id}: {sentence}" for each in found.anchored for sentence in each.lost]
    if as_json:
        counts = {"anchored": len(found.anchored), "how": found.hows, "not_anchored": found.missing}
        say_json({"output": str(folder), "questions": total, **counts, "lost": lost})
    else:
        say(f"{folder}: {len(found.anchored)} of {total} questions anchored{_counted(found.hows)}")
        for line in lost:
            say(f"left out: {line}")
        if found.unanchored:
            say(f"{folder / UNANCHORED}: {len(found.unanchored)} not anchored{_counted(found.missing)}")
        if found.anchored:
            say(f"check it  ragsmith dataset validate {shlex.quote(str(folder))}")
    if not found.anchored:
        raise typer.Exit(1)


def _counted(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""
