"""What a gate found: whether the data set passed, the figure that decided, and what to do where it did not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ragsmith.reporting.charts import Chart


class GateState(StrEnum):
    """How a gate ended. What cannot be judged never counts as passed."""

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


def number(value: float) -> str:
    """A share with three digits, a count whole."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Limit:
    """What a figure may be, both ends included; None where there is no end."""

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{number(self.low)} to {number(self.high)}"
        return f"at most {number(self.high)}" if self.high is not None else f"at least {number(self.low or 0.0)}"

    def holds(self, figure: float) -> bool:
        """Whether ``figure`` lies within; what differs by rounding alone does."""
        return not (
            (self.low is not None and figure < self.low - 1e-9) or (self.high is not None and figure > self.high + 1e-9)
        )


@dataclass(frozen=True, slots=True)
class Offender:
    """A question or a document, by its id, and what is wrong with it."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class GateFinding:
    """What a gate found; its name, ``gate``, is filled in when it is asked.

    ``figure`` is what was compared with ``limit``; both are None where the gate could not be judged. ``sentence`` says
    it in words, ``advice`` what to do about it, and ``offenders`` lists what it rests on, the worst first.
    """

    state: GateState
    sentence: str
    figure: float | None = None
    limit: Limit | None = None
    advice: str = ""
    offenders: tuple[Offender, ...] = ()
    charts: tuple[Chart, ...] = ()
    gate: str = ""

    @property
    def passed(self) -> bool:
        """Whether the gate was judged, and nothing is wrong."""
        return self.state is GateState.PASSED

    def plain(self) -> dict[str, Any]:
        """The finding as JSON has it, without its charts."""
        return {
            "gate": self.gate,
            "state": self.state.value,
            "figure": self.figure,
            "limit": None if self.limit is None else {"at_least": self.limit.low, "at_most": self.limit.high},
            "sentence": self.sentence,
            "advice": self.advice,
            "offenders": [{"id": offender.id, "why": offender.why} for offender in self.offenders],
        }


def judged(
    sentence: str,
    figure: float,
    limit: Limit,
    advice: str,
    offenders: Iterable[Offender] = (),
    charts: tuple[Chart, ...] = (),
    *,
    passed: bool | None = None,
    listed: bool = False,
) -> GateFinding:
    """A finding that fails, with ``advice``, unless it ``passed``, which is by default where ``limit`` holds.

    The ``offenders`` of a gate that passed are left out unless ``listed``.
    """
    if limit.holds(figure) if passed is None else passed:
        return GateFinding(
            GateState.PASSED, sentence, figure, limit, offenders=tuple(offenders) if listed else (), charts=charts
        )
    return GateFinding(GateState.FAILED, sentence, figure, limit, advice, tuple(offenders), charts)


def not_judged(why: str) -> GateFinding:
    """A finding that nothing can be said; ``why`` is a sentence."""
    return GateFinding(GateState.NOT_JUDGED, why)
