"""`anchor` and `repair`: questions get their evidence, and keep it when documents are edited."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragsmith.datasets.anchoring.anchor import Anchoring
from ragsmith.datasets.anchoring.anchor_dataset import anchor_list
from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY
from ragsmith.datasets.anchoring.repair_dataset import RepairedFolder, repair_folder
from ragsmith.errors import UsageError, WrongOption


def anchor(
    questions: str | Path,
    documents: str | Path,
    *,
    output: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    at_least: float = MIN_PROBABILITY,
) -> Anchoring:
    """Find where the documents answer an existing list of questions, and write both as a data set.

    >>> found = ragsmith.anchor("questions.csv", "handbook", output="my_data")
    >>> found.hows, found.missing
    ({'exact': 31, 'sentence': 6}, {'ambiguous': 3})

    The list is a CSV, TSV, JSONL, JSON or XLSX file with a question a row, and its answer, or a quotation of the
    documents, or both. ``columns`` names its columns by what they hold (``question``, ``answer``, ``evidence``,
    ``doc``, ``id``, ``type``, ``split``) where they are called otherwise than usual. ``documents`` is a folder of them,
    or a data set's folder, whose questions they join unless ``output`` names a new folder. Quotations are
    looked for first: to the letter, without regard to typography, with some words changed. Else the answer and the
    question tell the sentence or row, which is taken if it is right with a probability of ``at_least``, as estimated.
    All others are listed in ``unanchored.jsonl`` with the places that come into question.

    Raises:
        UsageError: the list or the documents cannot be used, or the questions have no place to go to.
    """
    if not 0 < at_least <= 1:
        raise WrongOption("at_least", f"is {at_least}: give a probability above 0, up to 1")
    folder = None if output is None else Path(output)
    return anchor_list(Path(questions), Path(documents), folder, columns=columns, at_least=at_least)


def repair(dataset: str | Path) -> RepairedFolder:
    """Find the evidence of a data set's questions again after its documents were edited, and write where it stands now.

    >>> found = ragsmith.repair("my_data")
    >>> found.hows, len(found.left)
    ({'given': 40, 'exact': 9, 'fuzzy': 2}, 1)

    ``dataset`` is a folder. Evidence that stands where it stood is ``given``; what has moved is found by its text, also
    where some of its words were changed. What is not sure to be the same text stays as it is, and is listed in
    ``unrepaired.jsonl`` beside the questions, with the places that come into question. What was found in other words is
    ``reworded``, for a person to look at, and is kept in ``reworded.jsonl``.

    Raises:
        UsageError: there is no such folder, or its documents or questions cannot be read.
    """
    folder = Path(dataset)
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; give a data set's")
    return repair_folder(folder)
