"""``ragsmith dataset import``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.listing import listing
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import say, say_json

if TYPE_CHECKING:
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
