"""Run all gates on a data set, and format their findings as text or as a page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.display import short_repr
from ragsmith.errors import WrongOption
from ragsmith.extensions import LOADS_OWN
from ragsmith.labelling.checking.finding import GateFinding, GateState, format_number
from ragsmith.labelling.checking.gates import GATES
from ragsmith.labelling.checking.registry import Gate
from ragsmith.labelling.checking.view import DatasetView
from ragsmith.reporting.rendering import render
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Dataset

MIN_CHUNK_CHARACTERS = 100
"""Minimum chunk size that can be given, in characters."""
GateOptions = Mapping[str, Mapping[str, object]]
"""Values of options by gate and name."""


@dataclass(frozen=True)
class Check:
    """Findings of the gates for a data set, in the order in which they ran.

    ``documents``, ``chunks`` and ``questions`` are counts; ``ranked`` is the number of questions for which pipelines
    ranked chunks, ``drafted`` the number that a program drafted.
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

    __repr__ = short_repr

    def in_state(self, state: GateState) -> tuple[GateFinding, ...]:
        """Return the findings with ``state``."""
        return tuple(finding for finding in self.findings if finding.state is state)

    @property
    def failed(self) -> tuple[GateFinding, ...]:
        """The findings of gates that failed."""
        return self.in_state(GateState.FAILED)

    def passed(self, *, strict: bool = False) -> bool:
        """Whether no gate failed; ``strict`` counts warnings as failures."""
        return not self.failed and not (strict and self.in_state(GateState.WARNING))

    def __getitem__(self, gate: str) -> GateFinding:
        """Return the finding of the gate with this name."""
        for finding in self.findings:
            if finding.gate == gate:
                return finding
        raise KeyError(gate)

    def plain(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
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
    """Run all gates, ``only`` the named ones, or all ``without`` the named ones.

    Raises:
        UsageError: a gate or an option is invalid, or no gate is selected.
    """
    chosen = select_gates(only, without, options, chunk_size)
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


def select_gates(
    only: Sequence[str], without: Sequence[str], options: GateOptions | None, chunk_size: int
) -> tuple[Gate, ...]:
    """Return the selected gates in the order in which they run.

    Raises:
        UsageError: a gate or an option is invalid, no gate is selected, or a package is not installed.
    """
    known = {gate.name: gate for gate in GATES}
    for parameter, names in (("only", only), ("without", without)):
        for name in names:
            if name not in known:
                raise WrongOption(parameter, f"has the unknown gate {name!r}: {did_you_mean(name, known)}; {LOADS_OWN}")
    selected = {name: gate for name, gate in known.items() if (not only or name in only) and name not in without}
    if not selected:
        raise WrongOption("without", "excludes all gates: remove one of its names")
    for gate in selected.values():
        gate.check_package()
    for name, values in (options or {}).items():
        if name not in selected:
            raise WrongOption("set", f"names a gate that does not run: {name!r}; {did_you_mean(name, selected)}")
        selected[name].check_options(values)
    if chunk_size < MIN_CHUNK_CHARACTERS:
        raise WrongOption("chunk_size", f"is {chunk_size}: give at least {MIN_CHUNK_CHARACTERS} characters")
    return tuple(selected.values())


ORDER = (GateState.FAILED, GateState.WARNING, GateState.PASSED, GateState.NOT_JUDGED)


def describe_result(check: Check) -> str:
    """Return a summary of the check in one sentence."""
    if not check.failed:
        return f"No gate failed: {describe_states(check)}."
    *names, last = [finding.gate for finding in check.failed]
    listed = f"{', '.join(names)} and {last}" if names else last
    return f"{len(check.failed)} gate{'s' if names else ''} failed, {listed}: {describe_states(check)}."


def describe_states(check: Check) -> str:
    """Return the number of gates in each state, as text."""
    count = Counter(finding.state for finding in check.findings)
    return ", ".join(f"{count[state]} {_plural(state, count[state])}" for state in ORDER if count[state])


def describe_counts(check: Check) -> str:
    """Return the numbers of documents, chunks and questions, as text."""
    text = f"{check.documents:,} documents, {check.chunks:,} chunks, {check.questions:,} questions"
    if check.drafted:
        text += f", {check.drafted:,} of them drafted by a program"
    if check.ranked < check.questions:
        text += f"; pipelines were ranked on {check.ranked:,}"
    return text


def format_lines(check: Check) -> list[str]:
    """Return the check as lines of text: a line for each gate, then the advice."""
    longest = max(len(finding.gate) for finding in check.findings)
    lines = [f"  {one.state.value:<10}  {one.gate:<{longest}}  {one.sentence}" for one in check.findings]
    advice = [
        f"{one.gate} {'failed' if one.state is GateState.FAILED else 'warns'}: {one.advice}"
        for one in check.findings
        if one.advice and one.state is not GateState.PASSED
    ]
    return [f"{check.dataset}: {describe_counts(check)}", *lines, describe_result(check), *advice]


def format_figure(finding: GateFinding) -> str:
    """Return the figure of a finding and its limit, as text; "" if the gate was not judged."""
    if finding.figure is None or finding.limit is None:
        return ""
    return f"{format_number(finding.figure)} ({finding.limit})"


def _plural(state: GateState, count: int) -> str:
    return "warnings" if state is GateState.WARNING and count > 1 else state.value


MAX_LISTED_OFFENDERS = 30
"""Maximum number of offenders listed for a gate; ``--json`` lists all of them."""


def check_page(check: Check) -> str:
    """Return the check as an HTML page without external resources or scripts."""
    return render(
        "check.html.j2",
        check=check,
        headline=describe_result(check),
        about=describe_counts(check),
        gates=GATES,
        shown=format_figure,
        listed=MAX_LISTED_OFFENDERS,
    )
