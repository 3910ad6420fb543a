"""A data set through all gates, and what that says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.errors import WrongOption
from ragsmith.labelling.checking.finding import Finding, State
from ragsmith.labelling.checking.gates import gates
from ragsmith.labelling.checking.registry import Gate
from ragsmith.labelling.checking.settings import CheckSettings
from ragsmith.labelling.checking.view import View
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Dataset


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
    settings: CheckSettings
    findings: tuple[Finding, ...]

    def those(self, state: State) -> tuple[Finding, ...]:
        """The findings in this state."""
        return tuple(finding for finding in self.findings if finding.state is state)

    @property
    def failed(self) -> tuple[Finding, ...]:
        """The gates that failed."""
        return self.those(State.FAILED)

    def passed(self, *, strict: bool = False) -> bool:
        """Whether no gate failed; ``strict`` counts warnings as failures."""
        return not self.failed and not (strict and self.those(State.WARNING))

    def __getitem__(self, gate: str) -> Finding:
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
    settings: CheckSettings | None = None,
) -> Check:
    """Ask all gates, or ``only`` some, or all ``without`` some.

    Raises:
        UsageError: a gate is not known, or none is left.
    """
    chosen = chosen_gates(only, without)
    view = View(dataset, settings)
    findings = tuple(gate(view) for gate in chosen)
    drafted = sum(example.drafted for example in dataset.examples)
    return Check(
        dataset.name,
        dataset.title,
        len(dataset.documents),
        len(view.chunks),
        len(dataset.examples),
        len(view.ranked),
        drafted,
        view.settings,
        findings,
    )


def chosen_gates(only: Sequence[str] = (), without: Sequence[str] = ()) -> tuple[Gate, ...]:
    """The gates that are named, in their order.

    Raises:
        UsageError: a gate is not known, or none is left.
    """
    known = {gate.name: gate for gate in gates()}
    for parameter, names in (("only", only), ("without", without)):
        for name in names:
            if name not in known:
                raise WrongOption(parameter, f"names no gate: {name!r}; {did_you_mean(name, known)}")
    left = [gate for name, gate in known.items() if (not only or name in only) and name not in without]
    if not left:
        raise WrongOption("without", "leaves no gate: leave one of its names out")
    return tuple(left)
