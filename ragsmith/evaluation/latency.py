"""How long a user waits for an answer: a few questions, each asked alone, on models that are warm.

The index, the vectors of the collection, and what was fitted are there before. Each question is asked once before it is
timed: then models are loaded, and it makes no difference what other pipelines asked before. Nothing that was found or
answered is remembered from that, but for the replies of chat models, which say themselves how long they took.
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
from ragsmith.pipelines.genes import Candidate, facing
from ragsmith.types import Question

if TYPE_CHECKING:
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.pipelines.engine import Engine
    from ragsmith.pipelines.trace import Trace

TIMED = 5
"""Questions that a pipeline is timed on: the median of five passes over two at which the machine was busy."""

Clock = Callable[[], float]
"""Seconds since any moment."""


def timed_seconds(
    warm: Gateway,
    budget: Budget | None,
    clock: Clock,
    engine: Engine,
    setup: Experiment,
    candidate: Candidate,
    question: str,
    *,
    ranks: bool,
) -> float:
    """Seconds by ``clock`` that the question of that id takes; ``engine`` has built what the collection needs.

    What has to be asked for that goes through ``warm``, and is paid from ``budget``. With ``ranks`` a question has its
    answer when it is ranked: nothing is generated.

    Raises:
        StageFailed: a technique raised.
    """
    collection, asked = texts_of(engine, candidate), setup.examples[question].question

    def answered(gateway: Gateway) -> Trace:
        return answered_alone(setup.engine(gateway=gateway), engine, candidate, asked, ranks=ranks)

    try:
        answered(warm)
        timing = TimingGateway(warm, collection, budget)
        started = clock()
        trace = answered(timing)
        took = clock() - started
    finally:
        warm.write_pending()
    return took + math.fsum(usage.seconds for usage in trace.usage.values())


def answered_alone(fresh: Engine, engine: Engine, candidate: Candidate, question: str, *, ranks: bool) -> Trace:
    """What a ``fresh`` engine makes of a question, on what ``engine`` has built for the whole collection."""
    fresh.share_collection(engine)
    return (fresh.rank if ranks else fresh.answer)(facing(candidate, question), Question(question))


def texts_of(engine: Engine, candidate: Candidate) -> frozenset[str]:
    """The texts that are embedded before the first question."""
    index, _ = engine.prepare(candidate)
    return frozenset([*index.keys, *(entry.chunk.text for entry in index.entries)])


def timed_on(order: Sequence[str], answered: Container[str]) -> list[str]:
    """The questions that a pipeline is timed on: the first `TIMED` of those that it ``answered``."""
    return list(islice((question for question in order if question in answered), TIMED))


def this_machine() -> str:
    """What kind of machine this is, as far as seconds depend on it: system, processor and how many may be used."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):  # only Linux says it here, and nowhere else
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.system()} {platform.machine()}, {cores} x {processor}"
