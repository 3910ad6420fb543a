"""Scoring: the record of one candidate on one question.

The ranking is scored on the chunks after the filter, and the answer after post-generation. This module runs all
registered measures, and names none of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ragsmith.measures.case import Case
from ragsmith.measures.registry import Measure
from ragsmith.models.usage import NO_USAGE, Meter
from ragsmith.pipelines.trace import Trace
from ragsmith.types import Example, get_ids

if TYPE_CHECKING:  # not part of the fingerprint of records
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.pipelines.engine import Engine

T = TypeVar("T")

Values = dict[str, float | None]
"""Measures by name; None for a measure that does not apply."""


def score_answer(engine: Engine, setup: Experiment, trace: Trace, example: Example) -> dict[str, Any]:
    """Return the record of a trace: its measures, retrieved chunks, answer, citations and usage.

    The usage does not include the costs of judging. ``stages`` has a digest of the output of each stage. A record has
    no durations, so equal runs give equal records. ``cut`` marks an answer that reached its limit on tokens.
    """
    total = _sum_usage(trace)
    prompt = trace.prompt
    case = Case(
        question=example.question,
        reference=example.answer,
        answer=trace.answer.text,
        hits=trace.hits,
        pool=trace.outputs["query_expansion"].value,
        passages=prompt.passages,
        prompt=prompt.text,
        cited=trace.answer.cited,
        evidence=example.evidence,
        relevance=setup.relevance[example.id],
        answerable=example.answerable,
    )
    return {
        "measures": _compute_measures(engine, setup.measures, case, trace, example),
        "retrieved": list(get_ids(trace.hits)),
        "answer": trace.answer.text,
        "cited": [[s.doc, s.start, s.end] for i in trace.answer.cited for s in prompt.passages[i].sources],
        "stages": _stage_digests(trace),
        "usage": _usage_counts(total),
        **({"cut": True} if total.cut else {}),
    }


def score_ranking(engine: Engine, setup: Experiment, trace: Trace, example: Example) -> dict[str, Any]:
    """Return the record of a ranking, with the measures of rankings only."""
    case = Case(
        question=example.question,
        reference=example.answer,
        hits=trace.hits,
        pool=trace.outputs["query_expansion"].value,
        evidence=example.evidence,
        relevance=setup.relevance[example.id],
        answerable=example.answerable,
    )
    measures = [known for known in setup.measures if known.subject == "ranking"]
    return {
        "part": "ranking",
        "measures": _compute_measures(engine, measures, case, trace, example),
        "retrieved": list(get_ids(trace.hits)),
        "stages": _stage_digests(trace),
        "usage": _usage_counts(_sum_usage(trace)),
    }


def _measure_models(engine: Engine) -> dict[str, Any]:
    """Return the models of measures by role; their usage is not counted for the candidate."""
    gateway, models = engine.gateway, engine.models
    return {
        "judge": gateway.language_model(models.judge, Meter(), "judge"),
        "embedder": gateway.embedder(models.embedder, Meter()),
    }


def _sum_usage(trace: Trace) -> Meter:
    total = Meter()
    for usage in trace.usage.values():
        if usage is not NO_USAGE:
            total.add(usage)
    return total


def _usage_counts(total: Meter) -> dict[str, int]:
    """Return the usage counts of a record."""
    return {
        "calls": total.calls,
        "texts_embedded": total.texts_embedded,
        "pairs_scored": total.pairs_scored,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
    }


def _stage_digests(trace: Trace) -> dict[str, str]:
    return {family: output.fingerprint for family, output in trace.outputs.items()}


# --- memo of measures by the stage outputs that they read -------------------------------------------------------------

MAX_MEMOIZED_CASES = 1 << 14
"""Maximum number of memoized cases, of less than 1 KB each."""

_STAGE_INDEPENDENT = frozenset(
    ("question", "reference", "evidence", "relevance", "relevant", "answerable", "satisfies")
)
"""Attributes with the same value in all cases of a question."""
_SOURCE_STAGES = {
    "hits": ("passage_filter",),
    "ranking": ("passage_filter",),
    "pool": ("query_expansion",),
    "passages": ("prompt_maker",),
    "prompt": ("prompt_maker",),
    "answer": ("post_generation",),
    "cited": ("post_generation",),
}
_ALL_STAGES = tuple(sorted({stage for stages in _SOURCE_STAGES.values() for stage in stages}))


class MeasureMemo:
    """Memo of measures, which are computed once for cases with equal stage outputs.

    Pipelines often agree in the ranking or the answer. The stages that a measure depends on are recorded while it reads
    a case; it has the same value for any case with equal outputs of these stages.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Values] = {}
        self._read: tuple[tuple[str, ...], ...] = ()
        self._lock = threading.Lock()

    def get(self, question: str, numbers: Mapping[str, Hashable]) -> Values:
        """Return the memoized measures of a case, given by the number of the output of each stage."""
        found: Values = {}
        for stages in self._read:
            found.update(self._known.get((question, stages, *map(numbers.get, stages)), ()))
        return found

    def put(self, question: str, numbers: Mapping[str, Hashable], read: Collection[str], name: str, value: Any) -> None:
        """Store the value of a measure that depends on the outputs of the stages ``read``."""
        stages = tuple(sorted(read))
        with self._lock:
            if stages not in self._read:
                self._read = (*self._read, stages)
            self._known.setdefault((question, stages, *map(numbers.get, stages)), {})[name] = value
            if len(self._known) > MAX_MEMOIZED_CASES:
                del self._known[next(iter(self._known))]


def _compute_measures(
    engine: Engine, measures: Collection[Measure], case: Case, trace: Trace, example: Example
) -> Values:
    """Return ``measures`` of ``case``, the case of ``trace``."""
    memo = engine.companion(MeasureMemo)
    numbers = {family: output.number for family, output in trace.outputs.items()}
    found = memo.get(example.id, numbers)
    missing = [measure for measure in measures if measure.name not in found]
    if missing:
        models = _measure_models(engine)
        recorder = _RecordingCase(case)
        for measure in missing:
            recorder.stages_read = set()
            found[measure.name] = measure(recorder, models)
            memo.put(example.id, numbers, recorder.stages_read, measure.name, found[measure.name])
    return {measure.name: found[measure.name] for measure in measures}


class _RecordingCase(Case):
    """A case that records the stages whose outputs are read."""

    stages_read: set[str]

    def __init__(self, case: Case) -> None:
        self._case = case
        self._found: dict[Callable[..., Any], tuple[Any, set[str]]] = {}
        self.stages_read = set()

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN_ATTRIBUTES:
            return object.__getattribute__(self, name)
        if name not in _STAGE_INDEPENDENT:
            self.stages_read.update(_SOURCE_STAGES.get(name, _ALL_STAGES))
        return getattr(self._case, name)

    def memoize(self, compute: Callable[..., T], *tools: Any) -> T:
        """See `Case.memoize`; a measure that uses the result depends on what it was computed from."""
        if compute not in self._found:
            outside, self.stages_read = self.stages_read, set()
            self._found[compute] = compute(self, *tools), self.stages_read
            self.stages_read = outside
        value, read = self._found[compute]
        self.stages_read |= read
        found: T = value
        return found


_OWN_ATTRIBUTES = frozenset(("_case", "_found", "stages_read", "memoize"))
