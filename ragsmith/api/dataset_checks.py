"""`check_dataset`: a data set through gates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.dataset import load_dataset
from ragsmith.labelling.checking.check import Check, GateOptions, check, check_request
from ragsmith.labelling.checking.page import check_page
from ragsmith.techniques.user_code import import_files
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


def check_dataset(
    dataset: Dataset | str | Path,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    options: GateOptions | None = None,
    chunk_size: int = DEFAULT_SIZE,
    imports: Sequence[str | Path] = (),
    html: str | Path | None = None,
) -> Check:
    """Ask of a data set whether it can tell good retrieval from bad: is it sound, has it shortcuts, what can it show?

    >>> checked = ragsmith.check_dataset("law")
    >>> checked.passed(), [finding.gate for finding in checked.findings if not finding.passed]
    (True, ['questions'])

    ``only`` and ``without`` name gates, and ``options`` has those of gates, as ``{"bm25": {"low": 0.6}}``; ``imports``
    names Python files with gates of your own. Documents are cut into chunks of at most ``chunk_size`` characters, and
    ``html`` names a file for a page with plots. No model is asked but those that are part of the program.

    Raises:
        UsageError: the data set cannot be read, or a gate or an option cannot be used.
    """
    import_files(imports)
    check_request(only, without, options, chunk_size)
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    found = check(data, only=only, without=without, options=options, chunk_size=chunk_size)
    if html is not None:
        write_file(check_page(found), Path(html))
    return found
