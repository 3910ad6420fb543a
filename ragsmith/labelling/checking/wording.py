"""What a check says in words, on the terminal and on its page."""

from __future__ import annotations

from collections import Counter

from ragsmith.labelling.checking.check import Check
from ragsmith.labelling.checking.finding import GateFinding, GateState, number

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
        if finding.advice:
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
