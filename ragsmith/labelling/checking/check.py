"""A data set through all gates, what that says of it in words, and the page of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.errors import WrongOption
from ragsmith.labelling.checking.finding import GateFinding, GateState, number
from ragsmith.labelling.checking.gates import GATES, chosen_gates
from ragsmith.labelling.checking.registry import Gate
from ragsmith.labelling.checking.view import DatasetView
from ragsmith.reporting.rendering import rendered
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Dataset

SMALLEST_CHUNK = 100
"""Characters."""
GateOptions = Mapping[str, Mapping[str, object]]
"""Options by the name of the gate and their own."""


@dataclass(frozen=True)
class Check:
    """What the gates found of a data set, in the order in which they were asked.

    ``documents``, ``chunks`` and ``questions`` are counts; ``ranked`` counts the questions that pipelines were ranked
    on, ``drafted`` those that were drafted by a program.
    """

    dataset: str
    title: str
    documents: int
    chunks: int
    questions: int
    ranked: int
    drafted: int
    chunk_size: int
    findings: tuple[GateFinding, ...]

    def those(self, state: GateState) -> tuple[GateFinding, ...]:
        """The findings in this state."""
        return tuple(finding for finding in self.findings if finding.state is state)

    @property
    def failed(self) -> tuple[GateFinding, ...]:
        """The gates that failed."""
        return self.those(GateState.FAILED)

    def passed(self, *, strict: bool = False) -> bool:
        """Whether no gate failed; ``strict`` counts warnings as failures."""
        return not self.failed and not (strict and self.those(GateState.WARNING))

    def __getitem__(self, gate: str) -> GateFinding:
        """The finding of a gate by its name."""
        for finding in self.findings:
            if finding.gate == gate:
                return finding
        raise KeyError(gate)

    def plain(self) -> dict[str, Any]:
        """The check as JSON has it."""
        return {
            "dataset": self.dataset,
            "passed": self.passed(),
            "documents": self.documents,
            "chunks": self.chunks,
            "questions": self.questions,
            "ranked": self.ranked,
            "drafted": self.drafted,
            "findings": [finding.plain() for finding in self.findings],
        }


def check(
    dataset: Dataset,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    options: GateOptions | None = None,
    chunk_size: int = DEFAULT_SIZE,
) -> Check:
    """Ask all gates, or ``only`` some, or all ``without`` some; ``options`` are those of gates, by gate and name.

    Raises:
        UsageError: a gate or an option cannot be used, or no gate is left.
    """
    chosen = check_request(only, without, options, chunk_size)
    view = DatasetView(dataset, chunk_size)
    findings = tuple(gate(view, (options or {}).get(gate.name)) for gate in chosen)
    return Check(
        dataset.name,
        dataset.title,
        len(dataset.documents),
        len(view.chunks),
        len(dataset.examples),
        len(view.ranked),
        sum(example.drafted for example in dataset.examples),
        chunk_size,
        findings,
    )


def check_request(
    only: Sequence[str], without: Sequence[str], options: GateOptions | None, chunk_size: int
) -> tuple[Gate, ...]:
    """The gates that are asked.

    Raises:
        UsageError: a gate or an option cannot be used, or no gate is left.
    """
    chosen = chosen_gates(only, without)
    asked = {gate.name: gate for gate in chosen}
    for name, given in (options or {}).items():
        if name not in asked:
            raise WrongOption("set", f"is about a gate that is not asked: {name!r}; {did_you_mean(name, asked)}")
        asked[name].check_options(given)
    if chunk_size < SMALLEST_CHUNK:
        raise WrongOption("chunk_size", f"is {chunk_size}: give at least {SMALLEST_CHUNK} characters")
    return chosen


ORDER = (GateState.FAILED, GateState.WARNING, GateState.PASSED, GateState.NOT_JUDGED)


def headline(check: Check) -> str:
    """How the check ended, in one sentence."""
    if not check.failed:
        return f"No gate failed: {states(check)}."
    *names, last = [finding.gate for finding in check.failed]
    listed = f"{', '.join(names)} and {last}" if names else last
    return f"{len(check.failed)} gate{'s' if names else ''} failed, {listed}: {states(check)}."


def states(check: Check) -> str:
    """How many gates ended in which state."""
    count = Counter(finding.state for finding in check.findings)
    return ", ".join(f"{count[state]} {_plural(state, count[state])}" for state in ORDER if count[state])


def about(check: Check) -> str:
    """What was looked at."""
    said = f"{check.documents:,} documents, {check.chunks:,} chunks, {check.questions:,} questions"
    if check.drafted:
        said += f", {check.drafted:,} of them drafted by a program"
    if check.ranked < check.questions:
        said += f"; pipelines were ranked on {check.ranked:,}"
    return said


def lines(check: Check) -> list[str]:
    """The check in lines of text: every gate, and then what to do."""
    longest = max(len(finding.gate) for finding in check.findings)
    found = [f"{check.dataset}: {about(check)}"]
    for finding in check.findings:
        found.append(f"  {finding.state.value:<10}  {finding.gate:<{longest}}  {finding.sentence}")
    found.append(headline(check))
    for finding in check.findings:
        if finding.advice and finding.state is not GateState.PASSED:
            found.append(f"{finding.gate} {_ended(finding)}: {finding.advice}")
    return found


def shown(finding: GateFinding) -> str:
    """The figure of a finding and its limit; nothing where it was not judged."""
    if finding.figure is None or finding.limit is None:
        return ""
    return f"{number(finding.figure)} ({finding.limit})"


def _ended(finding: GateFinding) -> str:
    return "failed" if finding.state is GateState.FAILED else "warns"


def _plural(state: GateState, count: int) -> str:
    return "warnings" if state is GateState.WARNING and count > 1 else state.value


LISTED = 30
"""Offenders of a gate that are listed; ``--json`` has them all."""


def check_page(check: Check) -> str:
    """The check as one page that fetches nothing and has no script."""
    return rendered(
        "check.html.j2",
        check=check,
        headline=headline(check),
        about=about(check),
        gates=GATES,
        shown=shown,
        listed=LISTED,
    )
