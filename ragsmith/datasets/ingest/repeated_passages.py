"""Find passages that many documents repeat, such as footers (boilerplate; Kohlschütter et al. 2010).

Passages are sentences, equal up to case, white space, punctuation and list marks, as copies of a statement are. Rows of
tables and source code are left out.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from ragsmith.datasets.ingest.near_duplicates import NearDuplicatePair
from ragsmith.datasets.statements import fold_statement, iter_parts
from ragsmith.types import Document, Modality

MIN_WORDS = 4
"""Minimum number of words of a passage; shorter ones are often greetings or labels."""

MIN_DOCUMENTS, MIN_SHARE = 3, 0.1
"""Minimum number and share of the documents with a passage."""


def find_repeated_passages(
    documents: Sequence[Document], near: Iterable[NearDuplicatePair]
) -> dict[str, tuple[str, ...]]:
    """Return the passages that many of the documents have, with the sorted identifiers of these documents.

    The most frequent passages are first.

    Of ``near``-duplicates only the first counts, as copies of a document repeat all of its passages.
    """
    copies = {pair.second for pair in near}
    distinct = [each for each in documents if each.id not in copies and each.modality is Modality.PROSE]
    places: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for document in distinct:
        for part in iter_parts(document):
            text = document.text[part.start : part.end]
            if not part.is_row and len(text.split()) >= MIN_WORDS:
                places[fold_statement(text)].setdefault(document.id, text)
    least = max(MIN_DOCUMENTS, ceil(MIN_SHARE * len(distinct)))
    frequent = sorted((texts for texts in places.values() if len(texts) >= least), key=len, reverse=True)
    return {" ".join(next(iter(texts.values())).split()): tuple(sorted(texts)) for texts in frequent}
