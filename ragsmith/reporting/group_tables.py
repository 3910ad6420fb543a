"""The tables by group of questions: their type, and the kind of document that the gold lies in."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.reporting import numbers
from ragsmith.reporting.tables import Table, columns
from ragsmith.reporting.values import TITLES, Domain, GroupScores

EXPLAINED = (
    "The same pipelines on parts of the questions: what a search chose for all of them need not be best for each. A "
    "part has few questions, so its intervals are wide. Costs are means per question: model calls, tokens read and "
    "written, texts embedded, pairs scored by the cross-encoder, and the length of the prompt."
)


def types(domain: Domain) -> Table:
    """Scores and costs by question type."""
    return _table("Type", "type", domain, domain.types)


def modalities(domain: Domain) -> Table:
    """Scores and costs by the kind of document that the gold lies in."""
    return _table("Kind of document", "kind of document", domain, domain.modalities)


def _table(head: str, by: str, domain: Domain, groups: Sequence[GroupScores]) -> Table:
    costs = _costs(groups)
    rows = tuple(
        (
            group.group or "(none)",
            TITLES[group.pipeline],
            f"{group.n}",
            *(numbers.mean(group.scores.get(name)) for name in HEADLINE),
            *(numbers.plain(_cost(group, names), digits) for names, digits in costs.values()),
        )
        for group in groups
    )
    caption = f"{domain.groups_split.capitalize()} questions by {by}: mean and 95 % interval; costs per question"
    return Table(caption, columns([head, "Pipeline"], ["Questions", "F", "R", "G", *costs]), rows)


def _costs(groups: Sequence[GroupScores]) -> dict[str, tuple[tuple[str, ...], int]]:
    """Columns of costs, what each adds up and its decimals; what costs nothing anywhere is left out."""
    known = {
        "Calls": (("calls",), 1),
        "Tokens": (("input_tokens", "output_tokens"), 0),
        "Texts embedded": (("texts_embedded",), 1),
        "Pairs scored": (("pairs_scored",), 1),
        "Prompt, characters": (("context_chars",), 0),
    }
    return {title: found for title, found in known.items() if any(_cost(group, found[0]) for group in groups)}


def _cost(group: GroupScores, names: Sequence[str]) -> float:
    return sum(group.costs.get(name, 0.0) for name in names)
