"""Multi-prose HyDE: three imagined passages of different framing, the control arm of modality HyDE (Singh et al.)."""

import re
from collections.abc import Mapping
from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_search_text
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.modality_hyde import search_hypotheses
from ragsmith.types import Hits, Question, Search

FEEDBACK = 5
SENTENCES = 3
CUED = 2
"""Sentences of an offline passage, and how many of them at most are taken for their cue."""

FRAMINGS: Mapping[str, re.Pattern[str]] = {
    "a definition, as in an encyclopaedia": re.compile(
        r"\b(?:(?:is|are|was|were) (?:an?|the|any|defined)|means?|refers? to|called|known as|consists? of)\b"
    ),
    "an explanation of how and why, as in a textbook": re.compile(
        r"\b(?:[Bb]ecause|[Ss]ince|[Tt]herefore|[Tt]hus|[Hh]ence|so that|[Ii]n order to|due to|leads? to|results? in)\b"
    ),
    "an example or a particular case, as in a handbook": re.compile(
        r"\b(?:[Ff]or (?:example|instance)|such as|e\.g\.|[Ii]n the case of|including|[Ss]uppose|[12]\d{3}\b)"
    ),
}
"""How a passage is to be framed, and the cue phrases by which sentences of that kind are known."""


def framed_offline(model: OfflineModel, *, sample: int, question: str, framing: str) -> str:
    """Compose a passage from pseudo-relevance feedback, out of sentences that have a cue of the framing where it can.

    Cue phrases tell definitions, reasons and examples from other sentences (Hearst 1992; Girju 2003). The most relevant
    and least redundant (MMR) of those with a cue are taken, then of the others, up to three in all. Where the feedback
    has no cues, framings come out alike: passages from further down would differ, but they answer worse.
    """
    sentences = dict.fromkeys(s for passage in model.feedback(question, FEEDBACK) for s in model.sentences(passage))
    cued = tuple(sentence for sentence in sentences if FRAMINGS[framing].search(sentence))
    rest = tuple(sentence for sentence in sentences if sentence not in cued)
    chosen = [cued[i] for i in model.select(question, cued, CUED)]
    chosen += [rest[i] for i in model.select(question, rest, SENTENCES - len(chosen))]
    if not chosen:
        return question
    return " ".join([question.rstrip(" ?") + ".", *(sentence for sentence in sentences if sentence in chosen)])


IMAGINE_FRAMED = Task(
    name="imagine_framed_passage",
    prompt=(
        "Question: {question}\n\n"
        "Write a passage of four to six sentences that answers this question in the form of {framing}. Use the terms "
        "that such a text would use. Whether it is true does not matter: it serves to find real passages. Reply with "
        "the passage alone, without refusing and without remarks."
    ),
    parse=partial(parse_search_text, label="passage|paragraph|definition|explanation|example"),
    offline=framed_offline,
    max_tokens=256,
)


@query_expansion(paper="https://arxiv.org/abs/2212.10496", choices={"fusion": ("rrf", "max")})
def multi_prose(
    question: Question, search: Search, *, language_model: LanguageModel, fusion: str = "rrf", depth: Count = 20
) -> Hits:
    """Search with the question and with a definition, an explanation and an example imagined for it, and fuse.

    Helps when it is not clear what kind of text answers. Costs 3 calls and 4 searches. The control of `modality_hyde`:
    as many hypotheses, fused alike, but all of them prose, so a difference between the two is due to the modality.

    On the embedded model framings may come out alike, and equal passages are searched once.

    Against the paper: nothing is known of its three framings; these are ours. ``max`` takes a chunk's best score over
    the searches, off cosines by how far it stands out from its list; by default rankings are fused by reciprocal rank.
    """
    imagined = [language_model.run(IMAGINE_FRAMED, question=question.text, framing=framing) for framing in FRAMINGS]
    return search_hypotheses(question.text, imagined, search, fusion)[:depth]
