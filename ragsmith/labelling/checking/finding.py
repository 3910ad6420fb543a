"""Findings of gates: the state, the measured figure, its limit, and advice."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ragsmith.reporting.charts import Chart


class GateState(StrEnum):
    """Result of a gate: a search on a set that failed one cannot be trusted; a warning is a property to know.

    A gate that cannot be judged never counts as passed.
    """

    PASSED = "passed"
    WARNING = "warning"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


def format_number(value: float) -> str:
    """Format a share with three digits, and a number of at least 10 as an integer."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Limit:
    """Closed interval of the permitted figures; None for no bound."""

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{format_number(self.low)} to {format_number(self.high)}"
        return (
            f"at most {format_number(self.high)}"
            if self.high is not None
            else f"at least {format_number(self.low or 0.0)}"
        )

    def holds(self, figure: float) -> bool:
        """Whether ``figure`` is within the limit, up to rounding errors."""
        return not (
            (self.low is not None and figure < self.low - 1e-9) or (self.high is not None and figure > self.high + 1e-9)
        )


@dataclass(frozen=True, slots=True)
class Offender:
    """Question or document that contributes to a failure, with the reason."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class GateFinding:
    """Finding of a gate; its name, ``gate``, is set when the gate is called.

    ``figure`` was compared with ``limit``; both are None if the gate could not be judged. ``sentence`` describes the
    result, ``advice`` how to correct it; ``offenders`` are sorted by severity, the most severe first.
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
        """Whether the gate was judged and passed."""
        return self.state is GateState.PASSED

    def plain(self) -> dict[str, Any]:
        """Return the finding as a JSON object, without its charts."""
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
    otherwise: GateState = GateState.FAILED,
) -> GateFinding:
    """Return a finding that is passed if ``figure`` is within ``limit``, or as ``passed`` says, else ``otherwise``.

    A passed finding has ``offenders`` only if they are ``listed``.
    """
    if limit.holds(figure) if passed is None else passed:
        return GateFinding(
            GateState.PASSED, sentence, figure, limit, offenders=tuple(offenders) if listed else (), charts=charts
        )
    return GateFinding(otherwise, sentence, figure, limit, advice, tuple(offenders), charts)


def not_judged(why: str) -> GateFinding:
    """Return a finding of a gate that cannot be judged; ``why`` is a sentence."""
    return GateFinding(GateState.NOT_JUDGED, why)
