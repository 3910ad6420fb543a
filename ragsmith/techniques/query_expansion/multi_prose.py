"""Multi-prose HyDE: three hypothetical passages of different framing, the control of modality HyDE (Singh et al.)."""

import re
from collections.abc import Mapping
from functools import partial

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, Task, parse_search_text
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.modality_hyde import search_hypotheses
from ragsmith.types import Hits, Question, Search

N_FEEDBACK_PASSAGES = 5
"""Number of feedback passages that the sentences are from."""
N_SENTENCES = 3
"""Number of sentences of an offline passage, besides the question."""
MAX_CUED_SENTENCES = 2
"""Maximum number of sentences with a cue of the framing in an offline passage."""

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
"""The framings of passages, and the cue phrases of sentences of that kind."""


def imagine_framed_offline(model: OfflineModel, *, sample: int, question: str, framing: str) -> str:
    """Compose a passage from pseudo-relevance feedback, preferably of sentences with a cue of the framing.

    Cue phrases distinguish definitions, reasons and examples from other sentences (Hearst 1992; Girju 2003). Sentences
    with a cue, then others, are selected by maximal marginal relevance, up to three in all. If the feedback has no
    cues, all framings give the same passage: passages from lower ranks would differ, but answer worse.
    """
    sentences = dict.fromkeys(
        s for passage in model.feedback(question, N_FEEDBACK_PASSAGES) for s in model.sentences(passage)
    )
    cued = tuple(sentence for sentence in sentences if FRAMINGS[framing].search(sentence))
    rest = tuple(sentence for sentence in sentences if sentence not in cued)
    chosen = [cued[i] for i in model.select(question, cued, MAX_CUED_SENTENCES)]
    chosen += [rest[i] for i in model.select(question, rest, N_SENTENCES - len(chosen))]
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
    offline=imagine_framed_offline,
    max_tokens=256,
)


@query_expansion(paper="https://arxiv.org/abs/2212.10496", choices={"fusion": ("rrf", "max")})
def multi_prose(
    question: Question, search: Search, *, language_model: LanguageModel, fusion: str = "rrf", depth: Count = 20
) -> Hits:
    """Search with the question and with a hypothetical definition, explanation and example, and fuse the rankings.

    Helps when it is not clear what kind of text contains the answer. Costs 3 calls and 4 searches. The control of
    `modality_hyde`: as many hypotheses with the same fusion, but all of them prose, so a difference between the two is
    due to the modality.

    With the embedded model framings may give the same passage, and equal passages are searched once.

    Differences from the paper: it does not describe its three framings; these are ours. ``max`` takes a chunk's best
    score over the searches, for other scales than cosines after normalisation within each list; the default is
    reciprocal rank fusion.
    """
    passages = [language_model.run(IMAGINE_FRAMED, question=question.text, framing=framing) for framing in FRAMINGS]
    return search_hypotheses(question.text, passages, search, fusion)[:depth]
