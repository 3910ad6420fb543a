"""``ragsmith dataset import | anchor``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import listing
from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import say, say_lines, show_result
from ragsmith.errors import WrongOption

if TYPE_CHECKING:
    from ragsmith.datasets.anchoring.anchor import AnchoringResult
    from ragsmith.datasets.anchoring.repair_dataset import RepairResult, RewordedEvidence
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
            help="A format listed below, as NAME or NAME(option=value); detected from the files by default.",
        ),
    ] = None,
    documents: Annotated[
        Path | None,
        typer.Option(help="Folder of documents in which texts are located; for list, llama-index and ragas."),
    ] = None,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a published data set, with its gold labels as character spans."""
    from ragsmith.datasets.dataset import load_documents, write_dataset
    from ragsmith.datasets.importers import import_dataset as read

    found = read(source, layout, None if documents is None else load_documents(documents))
    write_dataset(found.dataset, output)
    counts = {"documents": len(found.dataset.documents), "questions": len(found.dataset.examples)}
    exactly = " exactly" if set(found.hows) <= {"exact"} else ""
    hows = "" if exactly else f": {', '.join(f'{count} {how}' for how, count in found.hows.items())}"
    share = 100 * found.located / found.total if found.total else 0.0
    plain = {"located": found.located, "total": found.total, "how": dict(found.hows), "notes": list(found.notes)}
    lines = (
        f"{output}: {', '.join(f'{count} {name}' for name, count in counts.items())}; "
        f"{found.located} of {found.total} pieces of evidence located{exactly} ({share:.1f} %){hows}",
        *found.notes,
    )
    show_result(as_json, {"output": str(output), **counts, **plain}, lambda: say_lines(*lines))


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
            "--output",
            "-o",
            help="New folder for the data set. [default: the questions are added to those of --documents]",
        ),
    ] = None,
    question_column: Annotated[str | None, typer.Option(help="Column of the questions.")] = None,
    answer_column: Annotated[str | None, typer.Option(help="Column of the answers.")] = None,
    evidence_column: Annotated[str | None, typer.Option(help="Column of quotations from the documents.")] = None,
    doc_column: Annotated[str | None, typer.Option(help="Column that names the document.")] = None,
    at_least: Annotated[float, typer.Option(help="Minimum estimated probability of the position of an answer.")] = 0.9,
    repair: Annotated[
        bool, typer.Option("--repair", help="Find a data set's evidence again after its documents were edited.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Locate the evidence of an existing list of questions in documents, and write both as a data set."""
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
    lost = [f"{each.question.id}: {sentence}" for each in found.anchored for sentence in each.missing_quotations]
    counts = {"anchored": len(found.anchored), "how": found.match_counts, "not_anchored": found.reason_counts}
    plain = {"output": str(folder), "questions": total, **counts, "lost": lost}
    show_result(as_json, plain, lambda: _say_anchored(found, folder, total, lost))
    if not found.anchored and set(found.reason_counts) != {"there already"}:
        raise typer.Exit(1)


def _say_anchored(found: AnchoringResult, folder: Path, total: int, lost: Sequence[str]) -> None:
    from ragsmith.datasets.anchoring.anchor_dataset import UNANCHORED

    missing = f"{folder / UNANCHORED}: {len(found.unanchored)} not anchored{_counted(found.reason_counts)}"
    say_lines(
        f"{folder}: {len(found.anchored)} of {total} questions anchored{_counted(found.match_counts)}",
        *(f"left out: {line}" for line in lost),
        missing if found.unanchored else None,
        f"check it  ragsmith dataset validate {shlex.quote(str(folder))}" if found.anchored else None,
    )


def _repair(folder: Path, as_json: bool) -> None:
    found = ragsmith.repair(folder)
    hows = {"unchanged" if how == "given" else how: count for how, count in found.match_counts.items()}
    left = [{"line": e.line, "id": e.id, "evidence": e.number, "reason": e.reason} for e in found.unrepaired]
    counts = {"output": str(folder), "found": hows, "questions_changed": found.changed_questions}
    plain = {**counts, "reworded": [each.to_dict() for each in found.reworded], "left": left}
    show_result(as_json, plain, lambda: _say_repaired(found, folder, hows))
    if found.unrepaired:
        raise typer.Exit(1)


def _say_repaired(found: RepairResult, folder: Path, hows: dict[str, int]) -> None:
    from ragsmith.datasets.anchoring.repair_dataset import REWORDED, UNREPAIRED

    n_found = sum(hows.values())
    counts = f"{n_found} of {n_found + len(found.unrepaired)} pieces of evidence found{_counted(hows)}"
    if found.reworded:
        counts += f", {len(found.reworded)} of them with changed words"
    say(f"{folder}: {counts}; {found.changed_questions} questions updated")
    for new in found.reworded:
        say_lines(
            f"{new.match_type}: questions.jsonl:{new.line} ({new.id}), evidence {new.number}: {_advise(new)}",
            f"  before: {_one_line(new.before)}",
            f"  now:    {_one_line(' [...] '.join(new.after))}",
        )
    seen = f"{folder / REWORDED}: the evidence with changed words; review it before you search, then remove the file"
    again = any(new.reopened for new in found.reworded)
    say_lines(
        seen if found.reworded else None,
        f"review it again  ragsmith dataset review {shlex.quote(str(folder))}" if again else None,
        *(
            f"not repaired: questions.jsonl:{e.line} ({e.id}), evidence {e.number}: {e.reason}"
            for e in found.unrepaired
        ),
        f"{folder / UNREPAIRED}: the evidence that was not repaired, with candidate positions"
        if found.unrepaired
        else None,
    )


def _advise(reworded: RewordedEvidence) -> str:
    """Return the advice on evidence whose words were changed."""
    again = "; it was reviewed with the old words: review it again" if reworded.reopened else ""
    if reworded.changes_a_number:
        return f"a number in it changed: check the answer{again}"
    return f"its words changed: check that it still supports the answer{again}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _counted(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""
