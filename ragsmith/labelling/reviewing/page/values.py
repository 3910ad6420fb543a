"""What the page is told of drafts, as JSON."""

from __future__ import annotations

from ragsmith.labelling.reviewing.decisions import origin_of
from ragsmith.labelling.reviewing.passages import ReviewPassage
from ragsmith.labelling.reviewing.review import Review, ReviewedDraft

Values = dict[str, object]


def brief(draft: ReviewedDraft) -> Values:
    """A draft as a line of the list."""
    return {
        "id": draft.id,
        "question": draft.question,
        "answer": draft.answer,
        "type": draft.type,
        "method": str(origin_of(draft.row).get("method", "unknown")),
        "answerable": draft.row.get("answerable", True) is not False,
        "state": draft.state.value,
        "reviewer": draft.reviewer,
        "reason": draft.reason,
        "doubt": round(draft.doubt.value, 3),
        "why": list(draft.doubt.why),
        "begun": draft.begun is not None,
        "seen": draft.seen,
    }


def full(review: Review, draft: ReviewedDraft, more: int = 0) -> Values:
    """A draft with everything that is needed to decide about it."""
    spans = review.spans(draft)
    placed = [number for number, span in enumerate(spans) if span is not None]  # marks count those that stand somewhere
    shown = review.passages(draft, more)
    evidence = [
        {
            "entry": number,
            "doc": entry.get("doc"),
            "text": entry.get("text"),
            "start": span.start if span else None,
            "part": {key: value for key, value in entry.items() if key not in ("doc", "start", "end", "text")},
            "found": span is not None,
        }
        for number, (entry, span) in enumerate(zip(draft.evidence, spans, strict=True))
    ]
    begun = draft.begun
    return {
        **brief(draft),
        "evidence": evidence,
        "passages": [_passage(passage, placed) for passage in shown],
        "more": more,
        "whole": all(passage.whole for passage in shown),
        "typed": {**begun.after, "stale": begun.before.get("seen") != draft.seen} if begun else None,
    }


def _passage(passage: ReviewPassage, placed: list[int]) -> Values:
    return {
        "doc": passage.doc,
        "title": passage.title,
        "start": passage.start,
        "end": passage.end,
        "whole": passage.whole,
        "pieces": [
            {"start": piece.start, "text": piece.text, "marks": [placed[mark] for mark in piece.marks]}
            for piece in passage.pieces
        ],
    }
