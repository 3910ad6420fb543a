"""The cause of the failure of a question: the first stage of a pipeline that lost its gold.

A gold passage is followed through the index, the retrieved, reranked, filtered, augmented and compressed passages, the
prompt, and the part of the prompt that fits into the model's context window. A stage *holds* it if its output has at
least half of its characters, the rule by which chunks are relevant (`ragsmith.datasets.relevance`), or, if a
compressor or summary rewrote the text, half of its content words and numbers, without those of the question.

A question needs all its gold passages, as in recall. The cause is the first stage that lost one of them for good; a
passage that neighbouring chunks restore is not lost. The share of gold in the prompt is reported with the cause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from ragsmith.diagnosis.evidence_coverage import (
    MIN_COVERAGE,
    ChunkSpans,
    EvidenceCoverage,
    coverage_of_passages,
    gold_coverage,
    truncate_passages,
)
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.prompts_and_vectors import render_prompt
from ragsmith.measures.agreement import score_contradiction
from ragsmith.measures.non_answers import find_non_answers
from ragsmith.models.calls import is_chat_model
from ragsmith.models.tasks import TRUNCATION_MARK
from ragsmith.models.usage import MIN_CHARACTERS_PER_TOKEN
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.trace import Trace
from ragsmith.techniques.generation import answer_task
from ragsmith.text.blocks import split_blocks
from ragsmith.text.content_words import analyse
from ragsmith.text.declining import declines
from ragsmith.types import Example, Passages, Prompt, Question, Span, get_ids, places_of


class Cause(StrEnum):
    """The outcome of a question; `find_cause` defines each.

    The order is that of the stages: successes, failures before, in and after the prompt, then unknown causes. Reports
    show the values.
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
        """Whether the question succeeded."""
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
    Cause.UNUSED: "all gold passages were read, and the answer does not agree with the reference",
    Cause.CONTRADICTED: "all gold passages were read, and the answer says the opposite of the reference",
    Cause.REFUSED: "all gold passages were read, and the answer was declined",
    Cause.NOT_REFUSED: "the documents have no answer, and one was given",
    Cause.NOT_TRACED: "it was not answered well, and the question has no gold passages to follow",
    Cause.FAILED: "the pipeline ended with an error",
}
"""A description of each cause, for a glossary."""

REMEDIES: Mapping[Cause, Sequence[str]] = {
    Cause.NOT_INDEXED: ("index the missing text", "correct the evidence of the question"),
    Cause.CUT_BY_CHUNKING: ("--chunk-size or --chunk-overlap larger", "passage_augment prev_next"),
    Cause.NOT_RETRIEVED: (
        "retrieval hybrid",
        "retrieval graph_ppr",
        "retrieval listnet",
        "query_expansion multi_query",
        "another --embedder",
    ),
    Cause.LOST_BY_RERANKER: (
        "reranking listnet",
        "reranking cross_encoder with another first_stage_weight or depth",
    ),
    Cause.CUT_BY_FILTER: ("passage_filter top_k with a larger k", "reranking listnet in front of it"),
    Cause.LOST_IN_COMPRESSION: ("passage_compress none",),
    Cause.CUT_FROM_PROMPT: ("passage_filter top_k with a smaller k", "a --llm with a larger context window"),
    Cause.UNUSED: ("another --llm", "passage_filter similarity_threshold"),
    Cause.CONTRADICTED: ("another --llm", "post_generation reflection_revising"),
    Cause.REFUSED: ("another --llm", "post_generation abstain with a lower least"),
    Cause.NOT_REFUSED: ("post_generation abstain", "a search with --max-risk"),
    Cause.FAILED: ("the search again with --retry-failed",),
}
"""What to try next, by cause, with options of families; successes and unknown causes have none."""


def name_remedy(cause: Cause, candidate: Candidate = ()) -> str:
    """Return what to try next, without the options that ``candidate`` has; "" for nothing."""
    names = [f"{gene.technique.family} {gene.technique.name}" for gene in candidate]
    *others, last = [one for one in REMEDIES.get(cause, ()) if one.removesuffix(" in front of it") not in names] or [""]
    return f"{', '.join(others)}, or {last}" if others else last


MIN_GOOD_AGREEMENT = 0.25
"""The least score of the embedded judge for a question that was answered well.

Of the answers to the search questions of ``law`` and ``workshop`` that were made without any gold passage, 1 in 121
reaches it, and of the gold passages themselves, given for an answer, 80 % do (`benchmarks/bench_failing.py`).
"""

MIN_GOOD_JUDGE_SCORE = 0.75
"""The least score of a chat model as judge for a question that was answered well: "says the main point correctly"."""

CONTRADICTION_THRESHOLD = 0.5
"""The score of `ragsmith.measures.agreement.contradiction` above which an answer contradicts the reference."""

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
"""The stages at which gold is searched, in order: the index, families of techniques, and the context window."""

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


RANKING_STAGES = ("query_expansion", "reranking", "passage_filter")
"""The stages whose output is whole chunks."""

_PASSAGE_STAGES = ("passage_augment", "passage_compress")
"""The stages whose output is passages, before the prompt."""


@dataclass(frozen=True, slots=True)
class GoldTrace:
    """The share of a gold passage that each stage ``held``, and the cause if it was ``lost``.

    ``split`` is whether no chunk holds half of it. ``lost`` is None if it reached the generator, or the filter if
    no answer is generated.
    """

    span: Span
    held: Mapping[str, float]
    split: bool
    lost: Cause | None


@dataclass(frozen=True, slots=True)
class QuestionTrace:
    """The traces of the gold passages of a question, and properties of its answer that need no judge.

    ``answered`` is False if no answer was generated. ``contradicts`` is whether the answer contradicts the reference.
    ``non_answer`` has the kinds of text that the answer of a chat model is instead of one, as far as that shows in it
    alone (`find_non_answers`).
    """

    gold_traces: tuple[GoldTrace, ...]
    answered: bool = True
    declined: bool = False
    contradicts: bool = False
    non_answer: tuple[str, ...] = ()

    @property
    def read(self) -> int:
        """The number of gold passages that reached the generator."""
        return sum(gold_trace.lost is None for gold_trace in self.gold_traces)


def good_score_threshold(setup: Experiment, *, tested: bool = False) -> float:
    """Return the least score of a good answer, by the kind of the judge of ``setup``: of test questions if ``tested``.

    A judge that completes prompts scores on the scale of the prompt. One that performs the task itself is taken to
    compare words, as the embedded judge does.
    """
    judge = (setup.scored_by or setup).loaded_models.judges[-1 if tested else 0]
    return MIN_GOOD_JUDGE_SCORE if is_chat_model(judge) else MIN_GOOD_AGREEMENT


def trace_question(engine: Engine, candidate: Candidate, trace: Trace, example: Example) -> QuestionTrace:
    """Trace the gold passages of ``example`` through the outputs of the stages of ``candidate``."""
    places = _chunk_spans(engine, candidate)
    answered = "post_generation" in trace.outputs
    shown = _passage_coverage(engine, trace, example.question) if answered else {}
    gold = dict.fromkeys(example.evidence)
    gold_traces = tuple(_trace_nearest(engine, places, trace, example.question, span, shown) for span in gold)
    if not answered:
        return QuestionTrace(gold_traces, answered=False)
    answer = trace.answer.text
    declined = declines(answer)
    is_read = all(gold_trace.lost is None for gold_trace in gold_traces)
    compared = is_read and not declined and example.answer
    contradicts = (
        bool(compared) and score_contradiction(analyse(example.answer), analyse(answer)) > CONTRADICTION_THRESHOLD
    )
    own = next((gene.prompts["answer"].text for gene in candidate if "answer" in gene.prompts), "")
    said = [answer] if is_chat_model(engine.models.language_model) else []
    kinds = find_non_answers(said, own or answer_task(1).prompt, [trace.prompt.text][: len(said)])
    return QuestionTrace(gold_traces, declined=declined, contradicts=contradicts, non_answer=tuple(kinds))


def find_cause(found: QuestionTrace, *, answerable: bool, mark: float | None, well: float) -> Cause:
    """Return the first cause of a failure, or that the question succeeded.

    ``mark`` is the judge's score, or None, and ``well`` the least good one (`good_score_threshold`). In this order:

    - A question that the documents do not answer is *answered well* if it was declined, else *not refused*.
    - It was *answered well* if the score is good, whatever the passages: others may have the same content.
    - If a gold passage did not reach the generator, the cause is where the first of them was lost (`GoldTrace`):

      * *not in the index*: the chunks that are searched, taken together, hold less than half of it.
      * *cut by chunking*: none of them alone holds half of it, nor did all that passed the filter. Gold that is a
        whole document has no position in it: any of its chunks holds it.
      * *not retrieved*: the candidates that query expansion returned hold less than half.
      * *lost by the reranker*: its output holds less than half; or the filter kept n hits and cut it, where it was
        among the first n before the reranker and not among those after it.
      * *cut by the filter*: what passed the filter holds less than half.
      * *lost in compression*: what augmentation read holds half, the compressed passages do not.
      * *cut from the prompt*: augmentation or the prompt maker left it out, or the model's window did.

    - With all gold passages read: *refused* if the answer only says that there is none; *contradicted* if it says the
      opposite of the reference, by its numbers and denials; *read and not used* otherwise.
    - If no answer is generated or scored, gold that was not lost was *found*; without gold passages the cause is
      *not traced*.
    """
    if not answerable and found.answered:
        return Cause.WELL if found.declined else Cause.NOT_REFUSED
    if mark is not None and mark >= well:
        return Cause.WELL
    if lost := [gold_trace.lost for gold_trace in found.gold_traces if gold_trace.lost is not None]:
        return min(lost, key=list(Cause).index)
    if found.declined or found.contradicts:
        return Cause.REFUSED if found.declined else Cause.CONTRADICTED
    return Cause.NOT_TRACED if not found.gold_traces else Cause.FOUND if mark is None else Cause.UNUSED


class _IndexChunkSpans(dict[str, ChunkSpans]):
    """The spans of chunks by the id of their index."""


def _chunk_spans(engine: Engine, candidate: Candidate) -> ChunkSpans:
    """Return the chunk spans of the index of ``candidate``, computed once per engine."""
    index = engine.searched(candidate)
    known = engine.companion(_IndexChunkSpans)
    if index.id not in known:
        known[index.id] = ChunkSpans(index)
    return known[index.id]


def _trace_nearest(
    engine: Engine, places: ChunkSpans, trace: Trace, question: str, gold: Span, shown: Mapping[str, EvidenceCoverage]
) -> GoldTrace:
    """Trace the place of ``gold`` that came through most stages, the first of them if several did."""
    traces = [_trace_gold(engine, places, trace, question, place, shown) for place in places_of(gold)]
    return max(traces, key=lambda one: (one.lost is None, sum(held >= MIN_COVERAGE for held in one.held.values())))


def _trace_gold(
    engine: Engine, places: ChunkSpans, trace: Trace, question: str, gold: Span, shown: Mapping[str, EvidenceCoverage]
) -> GoldTrace:
    near = places.overlapping_spans(gold)
    whole = places.is_whole(gold)
    corpus = engine.corpus

    def held_by(held: EvidenceCoverage) -> float:
        return gold_coverage(question, gold, corpus, held, whole=whole)

    held = {"index": held_by(EvidenceCoverage(tuple(near.values())))}
    for stage in RANKING_STAGES:
        held[stage] = held_by(places.coverage(gold, trace.outputs[stage].value))
    held |= {stage: held_by(passages) for stage, passages in shown.items()}
    alone = max((held_by(EvidenceCoverage((span,))) for span in near.values()), default=0.0)
    split = alone < MIN_COVERAGE
    last = next(reversed(held))
    if held[last] >= MIN_COVERAGE:
        return GoldTrace(gold, held, split, None)
    steps = list(pairwise(held))
    lost_at = next((after for before, after in reversed(steps) if held[before] >= MIN_COVERAGE), "index")
    cause = _LOST_AT[lost_at]
    if split and lost_at in RANKING_STAGES:
        cause = Cause.CUT_BY_CHUNKING
    elif cause is Cause.CUT_BY_FILTER and _is_ranked_too_low(places, trace, gold):
        cause = Cause.LOST_BY_RERANKER
    return GoldTrace(gold, held, split, cause)


def _is_ranked_too_low(places: ChunkSpans, trace: Trace, gold: Span) -> bool:
    """Whether as many hits as the filter kept held ``gold`` before the reranker, and not after it."""
    before, after = (trace.outputs[stage].value for stage in ("query_expansion", "reranking"))
    if get_ids(before) == get_ids(after):
        return False
    kept = len(trace.hits)
    first, then = places.rank(gold, before), places.rank(gold, after)
    return first is not None and first <= kept and (then is None or then > kept)


def _passage_coverage(engine: Engine, trace: Trace, question: str) -> dict[str, EvidenceCoverage]:
    """Return the coverage of each stage after the filter; the passages of consecutive stages are often the same."""
    stages: dict[str, Passages] = {stage: trace.outputs[stage].value for stage in _PASSAGE_STAGES}
    stages["prompt_maker"] = trace.prompt.passages
    read = passages_in_window(engine, trace.prompt, Question(question))
    stages |= {} if read is None else {"window": read}
    found: dict[str, EvidenceCoverage] = {}
    known: dict[int, EvidenceCoverage] = {}
    for stage, passages in stages.items():
        if id(passages) not in known:
            known[id(passages)] = coverage_of_passages(passages, engine.corpus)
        found[stage] = known[id(passages)]
    return found


def passages_in_window(engine: Engine, prompt: Prompt, question: Question) -> Passages | None:
    """Return the passages within the generator's context window, or None if it has no window or all of them fit."""
    window = getattr(engine.models.language_model, "context_window", None)
    if window is None or not prompt.passages:
        return None
    task = answer_task(len(prompt.passages))
    inputs = {"question": question.text, "context": prompt.text}
    _, was_cut = render_prompt(task, inputs, window)
    if not was_cut:
        return None
    left = task.truncate_inputs(dict(inputs), (window - task.max_tokens) * MIN_CHARACTERS_PER_TOKEN)["context"]
    return truncate_passages(prompt.passages, split_blocks(str(left).removesuffix(TRUNCATION_MARK)))
