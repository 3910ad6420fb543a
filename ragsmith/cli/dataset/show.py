"""``ragsmith dataset list | validate | show``."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import asdict
from typing import Annotated, Any

import typer

from ragsmith.cli.dataset.app import NameOrFolder, commands
from ragsmith.cli.options import JsonOption
from ragsmith.cli.output import say, say_json, table


@commands.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the bundled data sets."""
    from ragsmith.datasets.bundled import names
    from ragsmith.datasets.dataset import load_dataset

    found = [load_dataset(name) for name in names("datasets")]
    if as_json:
        say_json(
            [
                {"name": d.name, "title": d.title, "documents": len(d.documents), "questions": len(d.examples)}
                for d in found
            ]
        )
        return
    rows = [[d.name, str(len(d.documents)), str(len(d.examples)), d.title] for d in found]
    table(rows, ["name", "documents", "questions", "title"], frozenset({1, 2}))


@commands.command()
def validate(
    dataset: NameOrFolder,
    write: Annotated[
        bool, typer.Option("--write", help="Write where quoted evidence stands into questions.jsonl.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a data set and list every mistake."""
    from ragsmith.datasets.anchoring.repair_dataset import REWORDED, count_reworded
    from ragsmith.datasets.bundled import bundled_path
    from ragsmith.datasets.coarse import dataset_warnings
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.datasets.offsets import write_offsets
    from ragsmith.datasets.splits import leaks, split
    from ragsmith.errors import DatasetError, Notice

    folder = bundled_path("datasets", dataset)
    try:
        data = load_dataset(folder)
    except DatasetError as error:
        if not as_json:
            raise
        say_json({"valid": False, "mistakes": list(error.mistakes), "advice": list(error.advice)})
        raise typer.Exit(2) from error
    written = write_offsets(folder) if write else 0
    found = leaks(data, divided := split(data))
    warned = [f"{found}: the test is less unseen than it should be"] if found.near else []
    warned += dataset_warnings(data)
    if unseen := count_reworded(folder):
        pieces = f"{unseen} {'piece' if unseen == 1 else 'pieces'} of evidence"
        warned += [f"{REWORDED} lists {pieces} that a repair found in other words: look at it, then remove the file"]
    if as_json:
        said = {"valid": True, "mistakes": [], "warnings": warned, **({"written": written} if write else {})}
        say_json({**said, "split": divided.rule, "leaks": asdict(found)})
        return
    for warning in warned:
        warnings.warn(f"{warning}.", Notice, stacklevel=2)
    say(f"{dataset}: valid")
    if write:
        say(f"offsets of {written} {'piece' if written == 1 else 'pieces'} of evidence written to questions.jsonl")
    answered = any(example.answer for example in data.examples)  # all that can be answered have one, or none
    alone = "" if answered else " --objective retrieval"
    say(f"search it  ragsmith search --dataset {shlex.quote(dataset)}{alone}")


@commands.command()
def show(
    dataset: NameOrFolder,
    document: Annotated[
        str | None, typer.Argument(metavar="[DOC]", help="A document's id: prints the text that evidence points into.")
    ] = None,
    start: Annotated[int | None, typer.Option(help="First character of the text, from 0.")] = None,
    end: Annotated[int | None, typer.Option(help="Character to stop before.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Describe a data set: sizes, question types, where its evidence lies, how it is split; or print a document."""
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.datasets.summary import describe
    from ragsmith.errors import UsageError

    if document is not None:
        _show_document(dataset, document, start, end, as_json)
        return
    if start is not None or end is not None:
        raise UsageError("--start and --end are places in a document: name one after the data set")
    described = describe(load_dataset(dataset))
    if as_json:
        say_json(described)
        return
    for name, value in described.items():
        _say_entry(name, value)


def _show_document(dataset: str, wanted: str, start: int | None, end: int | None, as_json: bool) -> None:
    """Whatever state the questions are in: their evidence is written with this."""
    from ragsmith.datasets.bundled import bundled_path
    from ragsmith.datasets.documents import read_documents
    from ragsmith.errors import DatasetError, UsageError
    from ragsmith.text.suggest import did_you_mean

    documents, mistakes = read_documents(bundled_path("datasets", dataset))
    if wanted not in documents:
        if not documents:
            raise DatasetError(mistakes)
        raise UsageError(f"{dataset} has no document {wanted!r}; {did_you_mean(wanted, documents)}")
    found = documents[wanted]
    if found is None:
        raise DatasetError([mistake for mistake in mistakes if wanted in mistake] or mistakes)
    length = len(found.text)
    first, last = start or 0, length if end is None else end
    if not 0 <= first <= last <= length:
        raise UsageError(
            f"[{first}, {last}) is no part of {wanted!r}: give --start and --end from 0 to {length}, in order"
        )
    text = found.text[first:last]
    if as_json:
        about = {"id": wanted, "title": found.title, "modality": found.modality.value, "length": length}
        say_json({**about, "start": first, "end": last, "text": text})
        return
    for line in text.removesuffix("\n").split("\n"):
        say(line)


def _say_entry(name: str, value: Any, indent: int = 0) -> None:
    pad = "  " * indent
    if isinstance(value, dict):
        say(f"{pad}{name}")
        for key, inner in value.items():
            _say_entry(str(key), inner, indent + 1)
    else:
        shown = f"{value:.3f}" if isinstance(value, float) else str(value)
        say(f"{pad}{name:<{30 - len(pad)}} {shown}")
