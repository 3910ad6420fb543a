"""``ragsmith dataset import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.options import JsonOption
from ragsmith.cli.output import say, say_json


@commands.command("import")
def import_dataset(
    source: Annotated[Path, typer.Argument(help="Folder of the published files, or the file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the data set to.")],
    layout: Annotated[
        str | None,
        typer.Option("--format", "--layout", help="hotpotqa, ragsmith or tatqa; told from the files if not given."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a published data set; its gold becomes character spans."""
    from ragsmith.datasets.dataset import write_dataset
    from ragsmith.datasets.importers import import_dataset as read

    imported = read(source, layout)
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
        f"{imported.located} of {imported.total} pieces of evidence located exactly ({share:.1f} %)"
    )
    for line in imported.notes:
        say(line)
