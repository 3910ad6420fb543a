"""What a run reports while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.budget import Spent
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space

Pulse = Callable[[], tuple[ProviderActivity, Spent]]
"""Returns the current activity of providers and the spending so far."""


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a run; ``steps`` is the largest number of steps, None if unknown."""

    setup: Experiment
    space: Space
    steps: int | None
    pulse: Pulse


@dataclass(frozen=True, slots=True)
class Step:
    """A completed step of a run."""

    phase: str
    number: int
    evaluated: int
    best: float | None = None
    best_candidate: Candidate | None = None


@dataclass(frozen=True)
class Callbacks:
    """Functions called at the start, after each step, and with the number of answers done and due in a step."""

    on_start: Callable[[Start], None] | None = None
    on_step: Callable[[Step], None] | None = None
    on_progress: Callable[[int, int], None] | None = None
