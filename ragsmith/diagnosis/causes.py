"""The first thing that went wrong with a question: where on its way through a pipeline the gold was lost.

A gold passage is followed from stage to stage: the index, what was retrieved, what the reranker and the filter left,
the passages around it, the compressed ones, the prompt, and what of the prompt fits into the model's window. At each
it is *held* where half of its characters are there, which is the rule by which chunks are relevant
(`ragsmith.datasets.relevance`). Where a text was rewritten, by a compressor or as a summary, it is held where the
text has half of its content words and numbers, those of the question left out.

A question needs all its gold passages, as recall does. It was lost at the first stage that
lost one of them for good; a passage that neighbouring chunks restore was not lost. The share of gold that was read is
reported with the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from ragsmith.diagnosis.evidence_coverage import HALF, EvidenceCoverage, Places, of_passages, share, until
from ragsmith.gateway.prompts_and_vectors import render_prompt
from ragsmith.measures.agreement import contradiction
from ragsmith.models.calls import is_chat_model
from ragsmith.models.tasks import TRUNCATION_MARK
from ragsmith.models.usage import MIN_CHARACTERS_PER_TOKEN
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.trace import Trace
from ragsmith.techniques.generation import answer_task
from ragsmith.text.blocks import blocks
from ragsmith.text.content_words import read
from ragsmith.text.declining import declines
from ragsmith.types import Example, Passages, Prompt, Question, Span, get_ids


class Cause(StrEnum):
    """What became of a question; `ragsmith.diagnosis.causes` says exactly when each is given.

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


WELL_BY_WORDS = 0.25
"""The agreement from which the embedded judge's mark says that a question was answered well.

Of the answers to the search questions of ``law`` and ``workshop`` that were made without any gold passage, 1 in 121
reaches it, and of the gold passages themselves, given for an answer, 80 % do (`benchmarks/bench_failing.py`).
"""

WELL_BY_SCALE = 0.75
"""The mark of a judge that reads from which a question was answered well: "says the main point correctly"."""

SURE = 0.5
"""The certainty of a contradiction (`ragsmith.measures.agreement.contradiction`) above which it is one."""

STAGES = (
    "index",
    "query_expansion",
    "reranking",
    "passage_filter",
    "passage_augment",
    "passage_compress",
    "prompt_maker",
    "window",
)
"""Where gold is looked for, in order: stages by their families, what is indexed, and what the model could read."""

_LOST_AT: Mapping[str, Cause] = {
    "index": Cause.NOT_INDEXED,
    "query_expansion": Cause.NOT_RETRIEVED,
    "reranking": Cause.LOST_BY_RERANKER,
    "passage_filter": Cause.CUT_BY_FILTER,
    "passage_augment": Cause.CUT_FROM_PROMPT,
    "passage_compress": Cause.LOST_IN_COMPRESSION,
    "prompt_maker": Cause.CUT_FROM_PROMPT,
    "window": Cause.CUT_FROM_PROMPT,
}


RANKED = ("query_expansion", "reranking", "passage_filter")
"""Stations that hold whole chunks, and no text around them."""

_READING = ("passage_augment", "passage_compress")
"""Stations that hold passages, before they are shown."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one gold passage: the share of it that each station held, and what kept it from being read.

    ``split`` says that no chunk holds half of it. ``lost`` is None where it reached the generator, or the filter where
    nothing is generated.
    """

    span: Span
    held: Mapping[str, float]
    split: bool
    lost: Cause | None


@dataclass(frozen=True, slots=True)
class Followed:
    """A question on its way: the fate of each gold passage, and what can be said of the answer without a judge.

    ``answered`` is False where nothing was generated. ``contradicts`` says that the answer is the opposite of the
    reference.
    """

    fates: tuple[Fate, ...]
    answered: bool = True
    declined: bool = False
    contradicts: bool = False

    @property
    def read(self) -> int:
        """How many gold passages reached the generator."""
        return sum(fate.lost is None for fate in self.fates)


def well_from(judge: Any) -> float:
    """The mark from which an answer is a good one, by what the judge is: one that reads, or one that compares words."""
    return WELL_BY_SCALE if is_chat_model(judge) else WELL_BY_WORDS


def followed(engine: Engine, candidate: Candidate, trace: Trace, example: Example) -> Followed:
    """What became of ``example`` in ``candidate``, which ``engine`` ran, by what each stage gave."""
    places = _places(engine, candidate)
    answered = "post_generation" in trace.outputs
    shown = _shown(engine, trace, example.question) if answered else {}
    gold = dict.fromkeys(example.evidence)
    fates = tuple(_fate(engine, places, trace, example.question, span, shown) for span in gold)
    if not answered:
        return Followed(fates, answered=False)
    answer = trace.answer.text
    declined = declines(answer)
    is_read = all(fate.lost is None for fate in fates)
    compared = is_read and not declined and example.answer
    contradicts = bool(compared) and contradiction(read(example.answer), read(answer)) > SURE
    return Followed(fates, declined=declined, contradicts=contradicts)


def cause_of(found: Followed, *, answerable: bool, mark: float | None, well: float) -> Cause:
    """The first thing that went wrong, or that nothing did.

    ``mark`` is the judge's, None where there is none, and ``well`` the least that is good (`well_from`). In this order:

    - A question that the documents do not answer went well where it was declined, and was *not refused* elsewhere.
    - It was *answered well* if the mark is good, whatever was read: other passages may say the same.
    - If a gold passage did not reach the generator, the cause is where the first of them was lost (`Fate`):

      * *not in the index*: the chunks that are searched, taken together, hold less than half of it.
      * *cut by chunking*: none of them alone holds half of it, nor did all that passed the filter. Gold that is the
        whole of a document says which document, and not where: any of its chunks holds it.
      * *not retrieved*: the candidates that query expansion returned hold less than half.
      * *lost by the reranker*: its output holds less than half; or the filter kept n hits and cut it, where it was
        among the first n before the reranker and not among those after it.
      * *cut by the filter*: what passed the filter holds less than half.
      * *lost in compression*: what augmentation read holds half, the compressed passages do not.
      * *cut from the prompt*: augmentation or the prompt maker left it out, or the model's window did.

    - With all gold passages read: *refused* if the answer only says that there is none; *contradicted* if it says the
      opposite of the reference, by its numbers and denials; *read and not used* otherwise.
    - Where nothing is generated, or there is no mark, what was not lost was *found*; without gold passages the cause is
      *not traced*.
    """
    if not answerable and found.answered:
        return Cause.WELL if found.declined else Cause.NOT_REFUSED
    if mark is not None and mark >= well:
        return Cause.WELL
    if lost := [fate.lost for fate in found.fates if fate.lost is not None]:
        return min(lost, key=list(Cause).index)
    if found.declined or found.contradicts:
        return Cause.REFUSED if found.declined else Cause.CONTRADICTED
    return Cause.NOT_TRACED if not found.fates else Cause.FOUND if mark is None else Cause.UNUSED


class _IndexPlaces(dict[str, Places]):
    """The places of chunks by the id of their index."""


def _places(engine: Engine, candidate: Candidate) -> Places:
    """The chunk spans of the index of ``candidate``, computed once per engine."""
    index = engine.index(candidate[0])
    known = engine.companion(_IndexPlaces)
    if index.id not in known:
        known[index.id] = Places(index)
    return known[index.id]


def _fate(
    engine: Engine, places: Places, trace: Trace, question: str, gold: Span, shown: Mapping[str, EvidenceCoverage]
) -> Fate:
    near = places.around(gold)
    whole = places.is_whole(gold)
    corpus = engine.corpus

    def held_by(held: EvidenceCoverage) -> float:
        return share(question, gold, corpus, held, whole=whole)

    held = {"index": held_by(EvidenceCoverage(tuple(near.values())))}
    for stage in RANKED:
        held[stage] = held_by(places.held(gold, trace.outputs[stage].value))
    held |= {stage: held_by(passages) for stage, passages in shown.items()}
    alone = max((held_by(EvidenceCoverage((span,))) for span in near.values()), default=0.0)
    split = alone < HALF
    last = next(reversed(held))
    if held[last] >= HALF:
        return Fate(gold, held, split, None)
    steps = list(pairwise(held))
    lost_at = next((after for before, after in reversed(steps) if held[before] >= HALF), "index")
    cause = _LOST_AT[lost_at]
    if split and lost_at in RANKED:
        cause = Cause.CUT_BY_CHUNKING
    elif cause is Cause.CUT_BY_FILTER and _was_put_too_low(places, trace, gold):
        cause = Cause.LOST_BY_RERANKER
    return Fate(gold, held, split, cause)


def _was_put_too_low(places: Places, trace: Trace, gold: Span) -> bool:
    """Whether as many hits as the filter kept held ``gold`` before the reranker, and not after it."""
    before, after = (trace.outputs[stage].value for stage in ("query_expansion", "reranking"))
    if get_ids(before) == get_ids(after):
        return False
    kept = len(trace.hits)
    first, then = places.rank(gold, before), places.rank(gold, after)
    return first is not None and first <= kept and (then is None or then > kept)


def _shown(engine: Engine, trace: Trace, question: str) -> dict[str, EvidenceCoverage]:
    """What each station behind the filter holds; the passages of one are often those of the one before."""
    stages: dict[str, Passages] = {stage: trace.outputs[stage].value for stage in _READING}
    stages["prompt_maker"] = trace.prompt.passages
    read = within_window(engine, trace.prompt, Question(question))
    stages |= {} if read is None else {"window": read}
    found: dict[str, EvidenceCoverage] = {}
    known: dict[int, EvidenceCoverage] = {}
    for stage, passages in stages.items():
        if id(passages) not in known:
            known[id(passages)] = of_passages(passages, engine.corpus)
        found[stage] = known[id(passages)]
    return found


def within_window(engine: Engine, prompt: Prompt, question: Question) -> Passages | None:
    """What of a prompt the generator could read; None where it has no window, or all fits."""
    window = getattr(engine.models.language_model, "context_window", None)
    if window is None or not prompt.passages:
        return None
    task = answer_task(len(prompt.passages))
    inputs = {"question": question.text, "context": prompt.text}
    _, was_cut = render_prompt(task, inputs, window)
    if not was_cut:
        return None
    left = task.truncate_inputs(dict(inputs), (window - task.max_tokens) * MIN_CHARACTERS_PER_TOKEN)["context"]
    return until(prompt.passages, blocks(str(left).removesuffix(TRUNCATION_MARK)))
