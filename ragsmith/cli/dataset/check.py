"""``ragsmith dataset check``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragsmith.cli.dataset.app import NameOrFolder, commands
from ragsmith.cli.options import REPORTS, JsonOption
from ragsmith.cli.output import say, say_json


@commands.command()
def check(
    dataset: NameOrFolder,
    only: Annotated[list[str] | None, typer.Option(help="A gate to ask; may be given several times.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="A gate to leave out; may be given several times.")] = None,
    bm25_low: Annotated[float, typer.Option(help="Recall@5 that BM25 should reach, else a warning.")] = 0.5,
    bm25_high: Annotated[float, typer.Option(help="Recall@5 that BM25 should not exceed, else a warning.")] = 0.8,
    difference: Annotated[float, typer.Option(help="Difference of R that the test should be able to show.")] = 0.03,
    chunk_size: Annotated[int, typer.Option("--chunk-size", help="Characters in a chunk, at most.")] = 900,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="File for the page with plots. [default: reports/NAME/check.html]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask of a data set whether it can tell good retrieval from bad; exit 1 if a gate fails."""
    import ragsmith
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.labelling.checking.page import check_page
    from ragsmith.labelling.checking.wording import lines
    from ragsmith.text.writing import write_file

    data = load_dataset(dataset)
    page = html or REPORTS / data.name / "check.html"
    found = ragsmith.check_dataset(
        data,
        only=only or (),
        without=without or (),
        bm25=(bm25_low, bm25_high),
        difference=difference,
        chunk_size=chunk_size,
    )
    if as_json:
        say_json({**found.plain(), "passed": found.passed(strict=strict), "page": str(page)})
    else:
        for line in lines(found):
            say(line)
    write_file(check_page(found), page)  # last: where it cannot be written, what was found is said all the same
    if not as_json:
        say(str(page))
    if not found.passed(strict=strict):
        raise typer.Exit(1)
