"""Measurement of latency: the time to answer single questions with loaded models.

The index, the vectors of the collection and fitted parameters are computed before. Each question is answered once as a
warm-up, so that models are loaded and earlier pipelines have no influence. Results of the warm-up are not reused,
except replies of chat models, which have a recorded duration.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ragsmith.gateway.budget import Budget
from ragsmith.gateway.gateway import Gateway, TimingGateway
from ragsmith.pipelines.genes import Candidate, out_of_fold
from ragsmith.types import Question

if TYPE_CHECKING:
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.pipelines.engine import Engine
    from ragsmith.pipelines.trace import Trace

TIMED_QUESTIONS = 5
"""Number of timed questions: the median of five ignores two that were slow because the machine was busy."""

Clock = Callable[[], float]
"""A function that returns the seconds since an arbitrary moment."""


def measure_seconds(
    warm: Gateway,
    budget: Budget | None,
    clock: Clock,
    engine: Engine,
    setup: Experiment,
    candidate: Candidate,
    question: str,
    *,
    ranking_only: bool,
) -> float:
    """Return the seconds by ``clock`` to answer a question, given by its id, with the indexes of ``engine``.

    Requests go through ``warm``, and are paid from ``budget``. With ``ranking_only`` only the ranking is timed.

    Raises:
        StageFailed: a technique raised an error.
    """
    collection, asked = list_collection_texts(engine, candidate), setup.examples[question].as_question

    def answered(gateway: Gateway) -> Trace:
        return answer_alone(setup.engine(gateway=gateway), engine, candidate, asked, ranking_only=ranking_only)

    try:
        answered(warm)
        timing = TimingGateway(warm, collection, budget)
        started = clock()
        trace = answered(timing)
        took = clock() - started
    finally:
        warm.write_pending()
    return took + math.fsum(usage.seconds for usage in trace.usage.values())


def answer_alone(
    fresh: Engine, engine: Engine, candidate: Candidate, question: Question, *, ranking_only: bool
) -> Trace:
    """Answer a question with a ``fresh`` engine that shares the indexes and graph of ``engine``."""
    fresh.share_collection(engine)
    return (fresh.rank if ranking_only else fresh.answer)(out_of_fold(candidate, question.text), question)


def list_collection_texts(engine: Engine, candidate: Candidate) -> frozenset[str]:
    """Return the texts that are embedded before the first question."""
    index, _ = engine.prepare(candidate)
    return frozenset([*index.keys, *(entry.chunk.text for entry in index.entries)])


def select_timed_questions(order: Sequence[str], answered: Container[str]) -> list[str]:
    """Return the questions for timing a pipeline: the first `TIMED_QUESTIONS` of those that it ``answered``."""
    return list(islice((question for question in order if question in answered), TIMED_QUESTIONS))


def describe_machine() -> str:
    """Describe the system, the processor and the number of available cores of this machine."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):  # the file exists on Linux only
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.system()} {platform.machine()}, {cores} x {processor}"
