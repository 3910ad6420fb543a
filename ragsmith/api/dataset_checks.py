"""`check_dataset`: a data set through gates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.dataset import load_dataset
from ragsmith.labelling.checking.check import Check, check, chosen_gates
from ragsmith.labelling.checking.page import check_page
from ragsmith.labelling.checking.settings import CheckSettings
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


def check_dataset(
    dataset: Dataset | str | Path,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    bm25: tuple[float, float] = (0.5, 0.8),
    difference: float = 0.03,
    chunk_size: int = DEFAULT_SIZE,
    html: str | Path | None = None,
) -> Check:
    """Ask of a data set whether it can tell good retrieval from bad: is it sound, has it shortcuts, what can it show?

    >>> checked = ragsmith.check_dataset("law")
    >>> checked.passed(), [finding.gate for finding in checked.findings if not finding.passed]
    (True, ['questions'])

    ``only`` and ``without`` name gates. Recall@5 of BM25 should lie in the range ``bm25``, and the test should be able
    to show a ``difference`` of R. Documents are cut into chunks of at most ``chunk_size`` characters, and ``html``
    names a file for a page with plots. No model is asked but those that are part of the program.

    Raises:
        UsageError: the data set cannot be read, a gate is not known, or a limit is none.
    """
    chosen_gates(only, without)
    settings = CheckSettings(*bm25, difference, chunk_size)
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    found = check(data, only=only, without=without, settings=settings)
    if html is not None:
        write_file(check_page(found), Path(html))
    return found
