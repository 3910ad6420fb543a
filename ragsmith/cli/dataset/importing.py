"""``ragsmith dataset import | anchor``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import listing
from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import print_line, print_lines, show_result
from ragsmith.errors import WrongOption

if TYPE_CHECKING:
    from ragsmith.datasets.anchoring.anchor import AnchoringResult
    from ragsmith.datasets.anchoring.repair_dataset import RepairResult, RewordedEvidence


@commands.command("import", cls=listing("Formats", "ragsmith.datasets.importers", "IMPORTERS"))
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

    imported = read(source, layout, None if documents is None else load_documents(documents))
    write_dataset(imported.dataset, output)
    counts = {"documents": len(imported.dataset.documents), "questions": len(imported.dataset.examples)}
    exactly = " exactly" if set(imported.match_counts) <= {"exact"} else ""
    methods = "" if exactly else f": {', '.join(f'{count} {how}' for how, count in imported.match_counts.items())}"
    share = 100 * imported.located / imported.total if imported.total else 0.0
    plain = {
        "located": imported.located,
        "total": imported.total,
        "how": dict(imported.match_counts),
        "notes": list(imported.notes),
    }
    lines = (
        f"{output}: {', '.join(f'{count} {name}' for name, count in counts.items())}; "
        f"{imported.located} of {imported.total} pieces of evidence located{exactly} ({share:.1f} %){methods}",
        *imported.notes,
    )
    show_result(as_json, {"output": str(output), **counts, **plain}, lambda: print_lines(*lines))


@commands.command()
def anchor(
    questions: Annotated[
        Path,
        typer.Argument(
            help="List of questions: CSV, TSV, JSONL, JSON or XLSX; its column 'answerable' is false for questions "
            "that the documents do not answer. With --repair a data set's folder."
        ),
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
    named_columns = {
        "question": question_column,
        "answer": answer_column,
        "evidence": evidence_column,
        "doc": doc_column,
    }
    columns = {role: column for role, column in named_columns.items() if column is not None}
    if repair:
        if documents or output or columns:
            raise WrongOption("repair", "takes a data set's folder, and no other option but --json")
        _repair(questions, as_json)
        return
    if documents is None:
        raise WrongOption("documents", "is missing: give the folder of documents that answer the questions")
    anchoring = ragsmith.anchor(questions, documents, output=output, columns=columns, at_least=at_least)
    folder, total = output or documents, len(anchoring.anchored) + len(anchoring.unanchored)
    lost = [f"{one.question.id}: {text}" for one in anchoring.anchored for text in one.missing_quotations]
    counts = {
        "anchored": len(anchoring.anchored),
        "how": anchoring.match_counts,
        "not_anchored": anchoring.reason_counts,
    }
    other = [asdict(each) for each in anchoring.other_numbers]
    plain = {"output": str(folder), "questions": total, **counts, "lost": lost, "other_numbers": other}
    show_result(as_json, plain, lambda: _print_anchored(anchoring, documents, folder, total, lost))
    if not anchoring.anchored and set(anchoring.reason_counts) != {"there already"}:
        raise typer.Exit(1)


def _print_anchored(anchoring: AnchoringResult, documents: Path, folder: Path, total: int, lost: Sequence[str]) -> None:
    from ragsmith.datasets.anchoring.anchor_dataset import UNANCHORED

    reasons = _describe_counts(anchoring.reason_counts)
    missing = f"{folder / UNANCHORED}: {len(anchoring.unanchored)} not anchored{reasons}"
    added = [folder] if anchoring.anchored or folder == documents else [documents, "-o", f"{folder}-2"]
    again = shlex.join(map(str, (folder / UNANCHORED, "--documents", *added)))
    print_lines(
        f"{folder}: {len(anchoring.anchored)} of {total} questions anchored{_describe_counts(anchoring.match_counts)}",
        *(f"left out: {line}" for line in lost),
        *(f"take care: {each}" for each in anchoring.other_numbers),
        missing if anchoring.unanchored else None,
        "in its lines, copy a candidate or a quotation to `evidence`, or set `answerable` to false if the documents do "
        f"not answer the question; then  ragsmith dataset anchor {again}"
        if anchoring.reason_counts.keys() & {"ambiguous", "not found"}
        else None,
        f"check it  ragsmith dataset validate {shlex.quote(str(folder))}" if anchoring.anchored else None,
    )


def _repair(folder: Path, as_json: bool) -> None:
    repaired = ragsmith.repair(folder)
    hows = {"unchanged" if how == "given" else how: count for how, count in repaired.match_counts.items()}
    left = [
        {"line": failure.line, "id": failure.id, "evidence": failure.number, "reason": failure.reason}
        for failure in repaired.unrepaired
    ]
    counts = {"output": str(folder), "found": hows, "questions_changed": repaired.changed_questions}
    plain = {
        **counts,
        "reworded": [reworded.to_dict() for reworded in repaired.reworded],
        "left": left,
        "possible_answers": [asdict(each) for each in repaired.possible_answers],
    }
    show_result(as_json, plain, lambda: _print_repaired(repaired, folder, hows))
    if repaired.unrepaired:
        raise typer.Exit(1)


def _print_repaired(repaired: RepairResult, folder: Path, hows: dict[str, int]) -> None:
    from ragsmith.datasets.anchoring.repair_dataset import REWORDED, UNREPAIRED

    n_found = sum(hows.values())
    counts = f"{n_found} of {n_found + len(repaired.unrepaired)} pieces of evidence found{_describe_counts(hows)}"
    if repaired.reworded:
        counts += f", {len(repaired.reworded)} of them with changed words"
    print_line(f"{folder}: {counts}; questions updated: {repaired.changed_questions}")
    for reworded in repaired.reworded:
        print_lines(
            f"{reworded.match_type}: questions.jsonl:{reworded.line} ({reworded.id}), evidence {reworded.number}: "
            f"{_advise(reworded)}",
            f"  before: {_collapse_whitespace(reworded.before)}",
            f"  now:    {_collapse_whitespace(' [...] '.join(reworded.after))}",
        )
    review_note = (
        f"{folder / REWORDED}: the evidence with changed words; review it before you search, then remove the file"
    )
    again = any(reworded.reopened for reworded in repaired.reworded)
    print_lines(
        review_note if repaired.reworded else None,
        f"review it again  ragsmith dataset review {shlex.quote(str(folder))}" if again else None,
        *(
            f"not repaired: questions.jsonl:{failure.line} ({failure.id}), evidence {failure.number}: {failure.reason}"
            for failure in repaired.unrepaired
        ),
        f"{folder / UNREPAIRED}: the evidence that was not repaired, with candidate positions if there are any; "
        "correct the evidence and the answer of these questions in questions.jsonl, or remove their lines, and repeat "
        "this command"
        if repaired.unrepaired
        else None,
        *(f"take care: {each}" for each in repaired.possible_answers),
    )


def _advise(reworded: RewordedEvidence) -> str:
    """Return advice for evidence whose words have changed."""
    again = "; it was reviewed with the old words: review it again" if reworded.reopened else ""
    if reworded.changes_a_number:
        return f"a number in it changed: check the answer{again}"
    return f"its words changed: check that it still supports the answer{again}"


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def _describe_counts(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{count} {name}' for name, count in counts.items())})" if counts else ""
