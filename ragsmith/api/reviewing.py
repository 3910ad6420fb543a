"""`review`: a person looks at drafted questions."""

from __future__ import annotations

from pathlib import Path

from ragsmith.labelling.reviewing.review import Review


def review(folder: str | Path) -> Review:
    """Open the drafted questions of the data set in ``folder``, to accept, mend or reject them.

    >>> from ragsmith.labelling.reviewing.decisions import Accept, Mend, Reject
    >>> found = ragsmith.review("my_data")
    >>> draft = found.pending[0]                      # the least certain one
    >>> found.decide(draft.id, Accept(), reviewer="ada", looked_at=draft.seen)
    >>> found.decide(found.pending[0].id, Reject("nobody would ask this"), reviewer="ada")

    A decision is on the disk when ``decide`` returns. Others may review the same folder at the same time.

    Raises:
        DatasetError: documents or rows cannot be read.
        UsageError: there is no such folder, or nothing in it that was drafted.
    """
    return Review.open(folder)
