"""``ragsmith dataset list | validate | show | init``."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import listing
from ragsmith.cli.dataset.app import commands
from ragsmith.cli.interrupts import NOTHING_WRITTEN, interrupt_message
from ragsmith.cli.options import DatasetArgument, ImportsOption, JsonOption
from ragsmith.cli.output import print_json, print_line, print_lines, print_rows, print_stderr, show_result
from ragsmith.errors import DatasetError, Notice, UsageError
from ragsmith.text.files import shorten
from ragsmith.text.suggest import did_you_mean

if TYPE_CHECKING:
    from ragsmith.api.datasets import IngestReport
    from ragsmith.datasets.ingest.ingest import IngestResult


@commands.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the bundled data sets."""
    from ragsmith.datasets.bundled import bundled_names

    datasets = [ragsmith.load_dataset(name) for name in bundled_names("datasets")]
    plain = [
        {"name": d.name, "title": d.title, "documents": len(d.documents), "questions": len(d.examples)}
        for d in datasets
    ]
    rows = [[d.name, str(len(d.documents)), str(len(d.examples)), d.title] for d in datasets]
    show_result(
        as_json, plain, lambda: print_rows(rows, ["name", "documents", "questions", "title"], frozenset({1, 2}))
    )


@commands.command()
def validate(
    dataset: DatasetArgument,
    write: Annotated[
        bool, typer.Option("--write", help="Write the offsets of quoted evidence to questions.jsonl.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a data set and list every mistake."""
    from ragsmith.datasets.anchoring.repair_dataset import REWORDED, count_reworded
    from ragsmith.datasets.bundled import bundled_path
    from ragsmith.datasets.questions import write_offsets
    from ragsmith.datasets.splits import count_leaks, split
    from ragsmith.datasets.summary import dataset_warnings

    folder = bundled_path("datasets", dataset)
    try:
        data = ragsmith.load_dataset(folder)
    except DatasetError as error:
        if not as_json:
            raise
        print_json({"valid": False, "mistakes": list(error.mistakes), "advice": list(error.advice)})
        raise typer.Exit(2) from error
    written = write_offsets(folder) if write else 0
    leaks = count_leaks(data, divided := split(data))
    messages = [f"{leaks}: the test questions are not independent of the search questions"] if leaks.near else []
    messages += dataset_warnings(data)
    if n_reworded := count_reworded(folder):
        pieces = f"{_counted(n_reworded, 'piece')} of evidence"
        messages += [
            f"{REWORDED} lists {pieces} that a repair found with changed words: review it, then remove the file"
        ]
    if as_json:
        plain = {"valid": True, "mistakes": [], "warnings": messages, **({"written": written} if write else {})}
        print_json({**plain, "split": divided.rule, "leaks": asdict(leaks)})
        return
    for warning in messages:
        warnings.warn(f"{warning}.", Notice, stacklevel=2)
    answered = any(example.answer for example in data.examples)  # all answerable questions have one, or none has
    alone = "" if answered else " --objective retrieval"
    print_lines(
        f"{dataset}: valid",
        f"offsets of {_counted(written, 'piece')} of evidence written to questions.jsonl" if write else None,
        f"search it  ragsmith search --dataset {shlex.quote(dataset)}{alone}",
    )


@commands.command()
def show(
    dataset: DatasetArgument,
    document: Annotated[
        str | None, typer.Argument(metavar="[DOC]", help="Id of a document whose text is printed.")
    ] = None,
    start: Annotated[int | None, typer.Option(help="Offset of the first character, from 0.")] = None,
    end: Annotated[int | None, typer.Option(help="Offset of the end, exclusive.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a data set: sizes, question types, positions of evidence, split; or print a document."""
    from ragsmith.datasets.summary import describe

    if document is not None:
        _show_document(dataset, document, start, end, as_json)
        return
    if start is not None or end is not None:
        raise UsageError("--start and --end are offsets in a document: name one after the data set")
    described = describe(ragsmith.load_dataset(dataset))
    show_result(as_json, described, lambda: print_lines(*_entry_lines(described)))


def _show_document(dataset: str, doc: str, start: int | None, end: int | None, as_json: bool) -> None:
    """Print a document; invalid questions are ignored, as this command is used to write their evidence."""
    from ragsmith.datasets.bundled import bundled_path
    from ragsmith.datasets.documents import find_document_id, read_documents

    documents, mistakes = read_documents(bundled_path("datasets", dataset))
    doc = find_document_id(doc, documents) or doc
    if doc not in documents:
        if not documents:
            raise DatasetError(mistakes)
        raise UsageError(f"{dataset} has no document {doc!r}; {did_you_mean(doc, documents)}")
    document = documents[doc]
    if document is None:
        raise DatasetError([mistake for mistake in mistakes if doc in mistake] or mistakes)
    length = len(document.text)
    first, last = start or 0, length if end is None else end
    if not 0 <= first <= last <= length:
        raise UsageError(
            f"[{first}, {last}) is not a range of {doc!r}: give --start and --end from 0 to {length}, in order"
        )
    text = document.text[first:last]
    header = {"id": doc, "title": document.title, "modality": document.modality.value, "length": length}
    plain = {**header, "start": first, "end": last, "text": text}
    show_result(as_json, plain, lambda: print_lines(*text.removesuffix("\n").split("\n")))


def _entry_lines(described: Mapping[str, Any], pad: str = "") -> Iterator[str]:
    for name, value in described.items():
        if isinstance(value, dict):
            yield f"{pad}{name}"
            yield from _entry_lines(value, f"{pad}  ")
        else:
            yield f"{pad}{name:<{30 - len(pad)}} {f'{value:.3f}' if isinstance(value, float) else value}"


FILES_PER_LINE = 200
"""Number of files between two lines of progress."""

MAX_LISTED = 10
"""Maximum number of printed copies, near-duplicates and repeated passages."""


@commands.command(cls=listing("Readers", "ragsmith.datasets.ingest.readers.part", "READERS"))
def init(
    folder: Annotated[Path, typer.Argument(help="A folder of files of any type, with subfolders.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the data set: a new one, or one to update.")
    ],
    fold_copies: Annotated[
        bool | None,
        typer.Option(
            "--fold-copies/--keep-copies",
            help="Make one document of files with the same words, not only of the same text; by default as before.",
        ),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", help="Name all copies and repeated passages.")] = False,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create or update a data set without questions from a folder of files of any type."""

    def report_progress(name: str, number: int) -> None:
        if number and number % FILES_PER_LINE == 0 and not as_json:
            print_stderr(f"{number:,} files read, now {name}" if sys.stderr.isatty() else f"{number:,} files read")

    with interrupt_message(NOTHING_WRITTEN):
        report = ragsmith.init_dataset(folder, output, on_file=report_progress, fold_copies=fold_copies)
    show_result(as_json, report.to_dict(), lambda: _print_intake(report, None if list_all else MAX_LISTED))


def _print_intake(report: IngestReport, limit: int | None) -> None:
    ingested, summary = report.result, report.summary
    _print_files(ingested)
    sizes = " or ".join(f"{size:,}" for size in summary.chunk_sizes)
    first, *others = report.next_steps
    print_lines(
        "",
        f"{ingested.output}: {_counted(summary.documents, 'document')}, {summary.characters:,} characters, "
        f"{_counted(summary.headings, 'heading')}, {_counted(summary.tables, 'table')}",
        f"kinds: {_listed(summary.kinds)}",
        f"languages: {_listed(summary.languages)}" if summary.languages else None,
        "the default embedder supports English only, and another one about 100 languages:  pip install "
        "'ragsmith[multilingual]'"
        if report.foreign
        else None,
        *_repetition_lines(ingested, limit),
        f"chunk sizes that a search may compare with the default (--chunk-size): {sizes} characters ({_why(report)}); "
        "`recommend` takes the default, with which its effects were learned"
        if sizes
        else None,
        f"a search of the default space evaluates about {report.pipelines} pipelines, so about "
        f"{report.pipelines * 100:,} answers for 100 questions: embedded models send no requests and cost no money; "
        "for others, ragsmith plan estimates the costs once there are questions",
        f"next: {first}{'  then  ' if ingested.repointed else '  or  '}{'  or  '.join(others)}",
        *(
            f"to read {_counted(number, 'more file')}, install what is missing and repeat this command:  {command}"
            for command, number in Counter(file.install for file in ingested.files if file.install).items()
        ),
    )


def _repetition_lines(ingested: IngestResult, limit: int | None) -> Iterator[str]:
    """Yield copies of files, near-duplicates and repeated passages: the number of each, and the first of them."""
    from ragsmith.datasets.ingest.ingest import FileOutcome

    copies = ingested.with_outcome(FileOutcome.DUPLICATE)
    advice = (
        "; --fold-copies makes one document of those with the same words"
        if any(pair.similarity == 1 for pair in ingested.near)
        else ""
    )
    for title, lines in (
        (f"copies, left out: {_counted(len(copies), 'file')}", [f"{file.source} {file.reason}" for file in copies]),
        (
            f"near-duplicates, both kept: {_counted(len(ingested.near), 'pair')}{advice}",
            [f"{100 * pair.similarity:3.0f} %  {pair.first}  {pair.second}" for pair in ingested.near],
        ),
        (
            "differ only in numbers or dates, as an older version does: "
            f"{_counted(len(ingested.versions), 'group')} of documents; give them a field such as `year` in front "
            'matter for  ragsmith ask WINNER "..." --filter year=2026  (docs/filters.md)',
            [", ".join(group) for group in ingested.versions],
        ),
        (
            f"in many documents, such as footers: {_counted(len(ingested.repeated), 'passage')}",
            [f"in {len(docs):,}: {shorten(text)}" for text, docs in ingested.repeated.items()],
        ),
    ):
        shown = lines[:limit]
        yield from [title, *(f"  {line}" for line in shown)] if lines else []
        yield from [f"  and {len(lines) - len(shown):,} more: --list names them"] if len(shown) < len(lines) else []


def _print_files(ingested: IngestResult) -> None:
    """Print a line for every file that was refused, changed or has notes, and the counts of all outcomes."""
    from ragsmith.datasets.ingest.ingest import FileOutcome

    changed = () if ingested.fresh else (FileOutcome.ADDED, FileOutcome.CHANGED, FileOutcome.MOVED)
    copies = {file.source for file in ingested.with_outcome(FileOutcome.DUPLICATE)}
    for file in ingested.files:
        print_lines(
            f"{file.outcome}: {file.source}: {file.reason}" if file.reason and file.source not in copies else None,
            *(f"note: {file.source}: {remark}" for remark in file.notes),
            f"{file.outcome}: {file.source}" if file.outcome in changed else None,
        )
    for removed in ingested.removed:
        why = "is a copy of another file" if removed.source in copies else f"is gone from {ingested.folder}"
        what = f"{removed.doc}: {removed.source} {why}"
        if removed.kept:
            print_line(f"kept: {what}, but it has evidence of {_counted(removed.questions, 'question')}")
        else:
            print_line(f"removed: {what}; its text was moved to {ingested.output / 'removed'}")
    for doc, questions in ingested.repointed.items():
        print_line(
            f"take care: {doc} changed, which has evidence of {_counted(questions, 'question')}: "
            f"ragsmith dataset anchor --repair {shlex.quote(str(ingested.output))}  finds it again"
        )
    print_lines(*(f"take care: {each}" for each in (*ingested.malformed_questions, *ingested.possible_answers)))
    counts = [f"{len(files)} {outcome}" for outcome in FileOutcome if (files := ingested.with_outcome(outcome))]
    print_line(f"{_counted(len(ingested.files), 'file')}: {', '.join(counts)}")


def _why(report: IngestReport) -> str:
    from ragsmith.datasets.ingest.summary import PARAGRAPH_QUANTILE, SECTION_QUANTILE

    summary = report.summary
    parts = [
        (f"{100 * PARAGRAPH_QUANTILE:.0f} % of the paragraphs and rows have at most", summary.paragraphs),
        (f"{100 * SECTION_QUANTILE:.0f} % of the sections", summary.sections),
    ]
    return ", ".join(f"{what} {length:,}" for what, length in parts if length)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
