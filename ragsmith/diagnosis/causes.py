"""Causes: the first thing that went wrong with a question, in the order of the stages where it may."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Cause(StrEnum):
    """What became of a question; `ragsmith.diagnosis.failing` says exactly when each is given.

    The order is that of a pipeline: what went well, what went wrong before, while and after the passages were read,
    and what is not known. Reports show the values.
    """

    WELL = "answered well"
    FOUND = "found"
    NOT_INDEXED = "not in the index"
    CUT_BY_CHUNKING = "cut by chunking"
    NOT_RETRIEVED = "not retrieved"
    LOST_BY_RERANKER = "lost by the reranker"
    CUT_BY_FILTER = "cut by the filter"
    LOST_IN_COMPRESSION = "lost in compression"
    CUT_FROM_PROMPT = "cut from the prompt"
    UNUSED = "read and not used"
    CONTRADICTED = "contradicted"
    REFUSED = "refused"
    NOT_REFUSED = "not refused"
    NOT_TRACED = "not traced"
    FAILED = "failed"

    @property
    def good(self) -> bool:
        """Whether nothing went wrong."""
        return self in (Cause.WELL, Cause.FOUND)


MEANINGS: Mapping[Cause, str] = {
    Cause.WELL: "the answer agrees with the reference; or the documents have no answer, and it was declined",
    Cause.FOUND: "all gold passages were found, and whether the answer is right was not measured",
    Cause.NOT_INDEXED: "the gold text is in no chunk that is searched",
    Cause.CUT_BY_CHUNKING: "no chunk holds half of a gold passage, and the pieces that were read do not either",
    Cause.NOT_RETRIEVED: "a gold passage is not among the candidates that were retrieved",
    Cause.LOST_BY_RERANKER: "a gold passage was retrieved high enough, and the reranker dropped it or put it too low",
    Cause.CUT_BY_FILTER: "a gold passage was retrieved and ranked, and the filter did not keep it",
    Cause.LOST_IN_COMPRESSION: "a gold passage was kept, and what it says is not in the compressed text",
    Cause.CUT_FROM_PROMPT: "a gold passage was kept, and is not in what the generator could read",
    Cause.UNUSED: "all gold passages were read, and the answer does not say what they say",
    Cause.CONTRADICTED: "all gold passages were read, and the answer says the opposite of the reference",
    Cause.REFUSED: "all gold passages were read, and the answer was declined",
    Cause.NOT_REFUSED: "the documents have no answer, and one was given",
    Cause.NOT_TRACED: "it was not answered well, and the question has no gold passages to follow",
    Cause.FAILED: "the pipeline ended with an error",
}
"""Each cause in a sentence, for a glossary."""

REMEDIES: Mapping[Cause, str] = {
    Cause.NOT_INDEXED: "index what is left out, or mend the evidence of the question",
    Cause.CUT_BY_CHUNKING: "larger chunks, overlap, or neighbours read with each hit",
    Cause.NOT_RETRIEVED: "another retrieval, query expansion, or a better embedder",
    Cause.LOST_BY_RERANKER: "another reranker, more depth, or more weight on the first stage",
    Cause.CUT_BY_FILTER: "a filter that keeps more, or a reranker in front of it",
    Cause.LOST_IN_COMPRESSION: "no compression, or more words",
    Cause.CUT_FROM_PROMPT: "fewer passages, or a model with a larger context window",
    Cause.UNUSED: "another generator, or fewer passages without gold",
    Cause.CONTRADICTED: "another generator, or a review of the draft",
    Cause.REFUSED: "a generator that declines less, or a lower threshold to abstain",
    Cause.NOT_REFUSED: "abstaining, or a generator that declines more",
    Cause.FAILED: "see what failed",
}
"""What to try next, by cause; nothing where nothing went wrong, or it is not known what did."""
