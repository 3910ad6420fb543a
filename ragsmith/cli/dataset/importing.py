"""``ragsmith dataset import | anchor``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.app import listing
from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import say, say_json

if TYPE_CHECKING:
    from ragsmith.datasets.anchoring.repair_dataset import RewordedEvidence
    from ragsmith.extensions import Extension


def _importers() -> Iterable[Extension]:
    from ragsmith.datasets.importers import IMPORTERS

    return IMPORTERS


@commands.command("import", cls=listing("Formats", _importers))
def import_dataset(
    source: Annotated[Path, typer.Argument(help="Folder of the published files, or the file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the data set to.")],
    layout: Annotated[
        str | None,
        typer.Option(
            "--format",
            "--layout",
            help="A format listed below, as NAME or NAME(option=value); told from the files if not given.",
        ),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(help="Folder of documents to look for texts in; for list, llama-index and ragas."),
    ] = None,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a published data set; its gold becomes character spans."""
    from ragsmith.datasets.dataset import load_documents, write_dataset
    from ragsmith.datasets.importers import import_dataset as read

    imported = read(source, layout, None if documents is None else load_documents(documents))
    write_dataset(imported.dataset, output)
    if as_json:
        say_json(
            {
                "output": str(output),
                "documents": len(imported.dataset.documents),
                "questions": len(imported.dataset.examples),
                "located": imported.located,
                "total": imported.total,
                "how": dict(imported.hows),
                "notes": list(imported.notes),
            }
        )
        return
    exactly = " exactly" if set(imported.hows) <= {"exact"} else ""
    hows = "" if exactly else f": {', '.join(f'{count} {how}' for how, count in imported.hows.items())}"
    share = 100 * imported.located / imported.total if imported.total else 0.0
    say(
        f"{output}: {len(imported.dataset.documents)} documents, {len(imported.dataset.examples)} questions; "
        f"{imported.located} of {imported.total} pieces of evidence located{exactly} ({share:.1f} %){hows}"
    )
    for line in imported.notes:
        say(line)


@commands.command()
def anchor(
    questions: Annotated[
        Path,
        typer.Argument(help="List of questions: CSV, TSV, JSONL, JSON or XLSX; with --repair a data set's folder."),
    ],
    documents: Annotated[
        Path | None, typer.Option("--documents", help="Folder of documents, or of a data set.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="New folder for the data set; left out, the questions join those of --documents."
        ),
    ] = None,
    question_column: Annotated[str | None, typer.Option(help="Column of the questions.")] = None,
    answer_column: Annotated[str | None, typer.Option(help="Column of the answers.")] = None,
    evidence_column: Annotated[str | None, typer.Option(help="Column of quotations of the documents.")] = None,
    doc_column: Annotated[str | None, typer.Option(help="Column that names the document.")] = None,
    at_least: Annotated[
        float, typer.Option(help="Probability, as estimated, from which the place of an answer is taken.")
    ] = 0.9,
    repair: Annotated[
        bool, typer.Option("--repair", help="Find a data set's evidence again after its documents were edited.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find where the documents answer an existing list of questions, and write both as a data set."""
    import ragsmith
    from ragsmith.datasets.anchoring.anchor_dataset import UNANCHORED
    from ragsmith.errors import WrongOption

    given = {"question": question_column, "answer": answer_column, "evidence": evidence_column, "doc": doc_column}
    columns = {role: column for role, column in given.items() if column is not None}
    if repair:
        if documents or output or columns:
            raise WrongOption("repair", "takes a data set's folder, and no other option but --json")
        _repair(questions, as_json)
        return
    if documents is None:
        raise WrongOption("documents", "is missing: give the folder of documents that answer the questions")
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
    if not found.anchored and set(found.missing) != {"there already"}:
        raise typer.Exit(1)


def _repair(folder: Path, as_json: bool) -> None:
    import ragsmith
    from ragsmith.datasets.anchoring.repair_dataset import REWORDED, UNREPAIRED

    found = ragsmith.repair(folder)
    hows = {"unchanged" if how == "given" else how: count for how, count in found.hows.items()}
    standing = sum(hows.values())
    if as_json:
        left = [{"line": e.line, "id": e.id, "evidence": e.number, "reason": e.why} for e in found.left]
        counts = {"found": hows, "questions_changed": found.changed}
        say_json(
            {"output": str(folder), **counts, "reworded": [each.to_dict() for each in found.reworded], "left": left}
        )
    else:
        said = f"{standing} of {standing + len(found.left)} pieces of evidence stand{_counted(hows)}"
        if found.reworded:
            said += f", {len(found.reworded)} of them in other words"
        say(f"{folder}: {said}; {found.changed} questions written anew")
        for new in found.reworded:
            say(f"{new.how}: questions.jsonl:{new.line} ({new.id}), evidence {new.number}: {_telling(new)}")
            say(f"  before: {_one_line(new.before)}")
            say(f"  now:    {_one_line(' [...] '.join(new.now))}")
        if found.reworded:
            say(f"{folder / REWORDED}: what is in other words; look at it before you search, then remove the file")
        if any(new.reopened for new in found.reworded):
            say(f"review it again  ragsmith dataset review {shlex.quote(str(folder))}")
        for each in found.left:
            say(f"left as it is: questions.jsonl:{each.line} ({each.id}), evidence {each.number}: {each.why}")
        if found.left:
            say(f"{folder / UNREPAIRED}: what was left, with the places that come into question")
    if found.left:
        raise typer.Exit(1)


def _telling(reworded: RewordedEvidence) -> str:
    """What a person should do about evidence whose words were changed."""
    again = "; it was reviewed with the old words, and is to be reviewed again" if reworded.reopened else ""
    if reworded.changes_a_number:
        return f"a number in it changed: look at its answer{again}"
    return f"its words changed: see that it answers still{again}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _counted(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""
