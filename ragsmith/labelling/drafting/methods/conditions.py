"""Questions for what follows from a condition, and for the condition of something (``if``, ``when``, ``unless``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.english.clauses import PRONOUNS, clause
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.statements import asked
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import sentences
from ragsmith.types import Chunk, Modality

_BEFORE = re.compile(
    r"(?P<word>If|When|Unless|Where|Once|As soon as|After|Before) (?P<condition>[^,;.]{12,120}), (?P<what>[^.]{12,}).?"
)
_BEHIND = re.compile(
    r"(?P<what>[^,;.]{12,160}?),? (?P<word>if|when|unless|provided that|only if|as soon as|once) "
    r"(?P<condition>[^,;.]{10,140})\.?"
)
_OPENS = {"If": "if", "Unless": "unless", "As soon as": "as soon as"}


def conditions(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``If the rent is late, the lessor may ...`` -> ``What happens if the rent is late?``"""
    if passage.modality is not Modality.PROSE or passage.language != ENGLISH:
        return []
    drafts: list[Draft] = []
    for start, end in sentences(passage.text):
        sentence = passage.text[start:end]
        quote = Quote(passage.doc, sentence, passage.start + start)
        plain = " ".join(sentence.split())
        if found := _BEFORE.fullmatch(plain):
            if found["condition"].split()[0].lower() not in PRONOUNS:
                word = found["word"].lower()
                asks = f"what happens {word} {found['condition']}"
                drafts += asked(passage, quote, asks, found["what"], "conditions", "interpretation")
        elif (found := _BEHIND.fullmatch(plain)) and (what := clause(f"{found['what']} so it is")) is not None:
            predicate = what.predicate.removesuffix("so it is").strip()
            past = what.auxiliary in {"did", "was", "were", "had"}
            wanted = "when" if past else "under what condition"
            asks = f"{wanted} {what.auxiliary} {material.inside(what.subject)} {predicate}"
            answer = f"{found['word']} {found['condition']}"
            drafts += asked(passage, quote, asks, answer, "conditions", "interpretation")
    return drafts
