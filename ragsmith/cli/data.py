"""``ragsmith dataset list | validate | show | import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragsmith.cli.app import JsonOption, app, say, say_json, table

commands = typer.Typer(
    help="Data sets: documents and questions with evidence.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="dataset")

NameOrFolder = Annotated[str, typer.Argument(metavar="DATASET", help="A bundled data set by name, or a folder.")]


@commands.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the bundled data sets."""
    from ragsmith.bundled import names
    from ragsmith.datasets import load_dataset

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
def validate(dataset: NameOrFolder, as_json: JsonOption = False) -> None:
    """Check a data set and list every mistake."""
    from ragsmith.bundled import bundled_path
    from ragsmith.datasets import validate_dataset
    from ragsmith.errors import DatasetError

    mistakes = validate_dataset(bundled_path("datasets", dataset))
    if as_json:
        say_json({"valid": not mistakes, "mistakes": list(mistakes)})
        raise typer.Exit(2 if mistakes else 0)
    if mistakes:
        raise DatasetError(mistakes)
    say(f"{dataset}: valid")


@commands.command()
def show(dataset: NameOrFolder, as_json: JsonOption = False) -> None:
    """Describe a data set: sizes, question types, where its evidence lies, how it is split."""
    from ragsmith.dataset_summary import describe
    from ragsmith.datasets import load_dataset

    described = describe(load_dataset(dataset))
    if as_json:
        say_json(described)
        return
    for name, value in described.items():
        _say_entry(name, value)


def _say_entry(name: str, value: Any, indent: int = 0) -> None:
    pad = "  " * indent
    if isinstance(value, dict):
        say(f"{pad}{name}")
        for key, inner in value.items():
            _say_entry(str(key), inner, indent + 1)
    else:
        shown = f"{value:.3f}" if isinstance(value, float) else str(value)
        say(f"{pad}{name:<{30 - len(pad)}} {shown}")


@commands.command("import")
def import_dataset(
    source: Annotated[Path, typer.Argument(help="Folder in the foreign layout.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the data set to.")],
    layout: Annotated[str, typer.Option(help="The foreign layout: ragsmith (one JSON file an article).")] = "ragsmith",
    as_json: JsonOption = False,
) -> None:
    """Convert a published data set; chunk gold becomes character spans."""
    from ragsmith.datasets import write_dataset
    from ragsmith.errors import UsageError
    from ragsmith.importers import IMPORTERS
    from ragsmith.suggest import did_you_mean

    if layout not in IMPORTERS:
        raise UsageError(f"unknown layout {layout!r}: {did_you_mean(layout, IMPORTERS)}")
    imported = IMPORTERS[layout](source)
    write_dataset(imported.dataset, output)
    if as_json:
        say_json(
            {
                "output": str(output),
                "documents": len(imported.dataset.documents),
                "questions": len(imported.dataset.examples),
                "located": imported.located,
                "total": imported.total,
                "notes": list(imported.notes),
            }
        )
        return
    share = 100 * imported.located / imported.total if imported.total else 0.0
    say(
        f"{output}: {len(imported.dataset.documents)} documents, {len(imported.dataset.examples)} questions; "
        f"{imported.located} of {imported.total} gold chunks located exactly ({share:.1f} %)"
    )
    for line in imported.notes:
        say(line)
