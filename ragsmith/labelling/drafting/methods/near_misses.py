"""Questions that the documents seem to answer and do not: one thing in them is swapped for one they do not have."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.circumstances import circumstances
from ragsmith.labelling.drafting.methods.objects import objects
from ragsmith.labelling.drafting.methods.subjects import who
from ragsmith.text.words import terms
from ragsmith.types import Chunk

EVERY = 3
"""Of so many passages, one may give a near-miss: they are a small part of what people ask."""

ELSEWHERE = (
    "beekeeper", "lighthouse keeper", "diver", "florist", "juggler", "violinist", "monk", "mountaineer", "parachutist",
    "puppeteer", "miller", "astronomer", "winegrower", "falconer", "pharmacist", "midwife", "blacksmith", "taxidermist",
)  # fmt: skip
"""People whom most documents do not know."""

_SUBJECT = re.compile(
    r"\b(?:must|may|can|shall|should|will|does|did|has|had) (?P<article>a|an|the) (?P<noun>[a-z]{4,})\b"
)


def near_misses(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``Within what time must the buyer give notice?`` -> ``... must the beekeeper give notice?``"""
    if int(digest("near miss", passage.id)[:6], 16) % EVERY:
        return []
    absent = [word for word in ELSEWHERE if not set(terms(word)) & material.lexicon.counts.keys()]
    for draft in (*circumstances(passage, material), *objects(passage, material)):
        found = _SUBJECT.search(draft.question)
        if found is None or not absent or who(f"the {found['noun']}") != "Who":
            continue
        other = absent[int(digest("absent", draft.question)[:6], 16) % len(absent)]
        article = found["article"] if found["article"] == "the" else "an" if other[0] in "aeiou" else "a"
        before, after = draft.question[: found.start("article")], draft.question[found.end("noun") :]
        question, answer = f"{before}{article} {other}{after}", "The documents do not say."
        return [Draft(question, answer, (), "unanswerable", "near_misses", passage.span, answerable=False)]
    return []
