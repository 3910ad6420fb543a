"""The page of a check: every gate with its plot, what it rests on, and why its limit is what it is."""

from __future__ import annotations

from dataclasses import dataclass

from ragsmith.labelling.checking import wording
from ragsmith.labelling.checking.check import Check
from ragsmith.labelling.checking.finding import GateFinding, Offender
from ragsmith.labelling.checking.gates import GATES
from ragsmith.reporting.rendering import rendered

LISTED = 30
"""Offenders of a gate that are listed; ``--json`` has them all."""


@dataclass(frozen=True, slots=True)
class GateSection:
    """A gate as the page shows it; ``reasons`` are the paragraphs of its docstring."""

    asks: str
    finding: GateFinding
    figure: str
    reasons: tuple[str, ...]

    @property
    def mark(self) -> str:
        """The class of its state in the style sheet."""
        return self.finding.state.name.lower().replace("_", "-")

    @property
    def listed(self) -> tuple[Offender, ...]:
        """The first offenders."""
        return self.finding.offenders[:LISTED]


def check_page(check: Check) -> str:
    """The check as one page that fetches nothing and has no script."""
    sections = [
        GateSection(
            GATES[finding.gate].asks,
            finding,
            wording.shown(finding),
            GATES[finding.gate].reasons,
        )
        for finding in check.findings
    ]
    return rendered(
        "check.html.j2",
        check=check,
        headline=wording.headline(check),
        about=wording.about(check),
        sections=sections,
    )
