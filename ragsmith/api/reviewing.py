"""`review`: a person looks at drafted questions."""

from __future__ import annotations

from pathlib import Path

from ragsmith.labelling.reviewing.review import Review


def review(folder: str | Path) -> Review:
    """Open the drafted questions of the data set in ``folder``, to accept, mend or reject them.

    >>> from ragsmith.labelling.reviewing.decisions import Accept, Edit, Reject
    >>> with ragsmith.review("my_data") as found:
    ...     draft = found.pending[0]  # the least certain one
    ...     found.decide(draft.id, Accept(), reviewer="ada", looked_at=draft.seen)
    ...     found.decide(found.pending[0].id, Reject("the answer is wrong"), reviewer="ada")

    A decision is on the disk when ``decide`` returns. A folder is reviewed by one at a time.

    Raises:
        DatasetError: documents or rows cannot be read.
        UsageError: there is no such folder, nothing in it was drafted, or it is being reviewed already.
    """
    return Review.open(folder)
