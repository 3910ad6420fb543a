"""What one answer is worth: the record of one candidate on one question.

The ranking is scored on the chunks that pass the filter, the answer as it is delivered. This module runs the registered
measures; it knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ragsmith.datasets.relevance import Relevance
from ragsmith.measures.case import Case
from ragsmith.measures.registry import Measure
from ragsmith.models.usage import Meter
from ragsmith.pipelines.trace import Trace
from ragsmith.types import Example, ids_of

if TYPE_CHECKING:  # what else these hold is no part of what a record depends on
    from ragsmith.evaluation.testbed import Setup
    from ragsmith.pipelines.engine import Engine


def scored(engine: Engine, setup: Setup, trace: Trace, example: Example) -> dict[str, Any]:
    """The record of what a candidate did with a question; what judging it costs is not the candidate's."""
    return record(
        trace,
        example,
        setup.relevance[example.id],
        measures=setup.measures,
        models=_asked(engine),
        stages={family: engine.fingerprint(output) for family, output in trace.outputs.items()},
    )


def scored_ranking(engine: Engine, setup: Setup, trace: Trace, example: Example) -> dict[str, Any]:
    """The record of what a candidate found for a question, its measures of rankings only."""
    case = Case(
        question=example.question,
        reference=example.answer,
        hits=trace.hits,
        pool=trace.outputs["query_expansion"].value,
        evidence=example.evidence,
        relevance=setup.relevance[example.id],
    )
    measures = [known for known in setup.measures if known.subject == "ranking"]
    models = _asked(engine) if any(known.tools for known in measures) else {}
    return {
        "part": "ranking",
        "measures": {known.name: known(case, models) for known in measures},
        "retrieved": list(ids_of(trace.hits)),
        "stages": {family: engine.fingerprint(output) for family, output in trace.outputs.items()},
        "usage": _usage(_total(trace)),
    }


def _asked(engine: Engine) -> dict[str, Any]:
    """What measures ask, by role; what that costs is nobody's."""
    gateway, models = engine.gateway, engine.models
    return {
        "judge": gateway.language_model(models.judge, Meter(), "judge"),
        "embedder": gateway.embedder(models.embedder, Meter()),
    }


def _total(trace: Trace) -> Meter:
    total = Meter()
    for usage in trace.usage.values():
        total.add(usage)
    return total


def _usage(total: Meter) -> dict[str, int]:
    """What was asked of models, as a record has it."""
    return {
        "calls": total.calls,
        "texts_embedded": total.texts_embedded,
        "pairs_scored": total.pairs_scored,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
    }


def record(
    trace: Trace,
    example: Example,
    relevance: Relevance,
    *,
    measures: Iterable[Measure],
    models: Mapping[str, Any],
    stages: Mapping[str, str],
) -> dict[str, Any]:
    """Everything kept of one question: its measures, what was retrieved and answered, and what it cost.

    ``models`` has what measures ask, by role; what they cost is not the pipeline's. ``stages`` has a digest of what
    each stage gave. A measure is None where there is nothing to measure. Nothing in a record is measured in seconds, so
    equal runs give equal records. ``cut`` stands in that of an answer which reached its limit on tokens.
    """
    total = _total(trace)
    prompt = trace.prompt
    case = Case(
        question=example.question,
        reference=example.answer,
        answer=trace.answer.text,
        hits=trace.hits,
        pool=trace.outputs["query_expansion"].value,
        passages=prompt.passages,
        prompt=prompt.text,
        evidence=example.evidence,
        relevance=relevance,
    )
    return {
        "measures": {measure.name: measure(case, models) for measure in measures},
        "retrieved": list(ids_of(trace.hits)),
        "answer": trace.answer.text,
        "cited": [[s.doc, s.start, s.end] for i in trace.answer.cited for s in prompt.passages[i].sources],
        "stages": dict(stages),
        "usage": _usage(total),
        **({"cut": True} if total.cut else {}),
    }
