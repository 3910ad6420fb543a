"""The tables of a report, as text: the page and the Markdown file show the same cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragsmith.reporting import numbers
from ragsmith.reporting.values import HEADLINE, SHOWN, TITLES, Comparison, Domain, Option, Row, TypeScores
from ragsmith.reporting.wording import WORDS, against_random

NAMES = {
    "recall": "Recall@5",
    "map": "mAP",
    "ndcg": "nDCG@5",
    "mrr": "MRR",
    "success": "Success@5",
    "span_recall": "Span recall@5",
    "judge": "Judge",
    "similarity": "Similarity",
    "exact_match": "Exact match",
    "token_f1": "Token F1",
    "context_chars": "Prompt, characters",
}
"""Metrics in the order of a table's columns."""


WIDE = ("Pipeline", "Winner", "What it is", "First message")


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers are aligned to the right, wide columns hold long text."""

    name: str
    number: bool = True

    @property
    def wide(self) -> bool:
        """Whether its cells should not be squeezed."""
        return self.name in WIDE


@dataclass(frozen=True, slots=True)
class Table:
    """Cells by row. ``marks`` says for each row what kind it is: winner, baseline, inert or nothing."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[str, ...] = ()

    def mark(self, place: int) -> str:
        """The kind of a row."""
        return self.marks[place] if place < len(self.marks) else ""


def columns(texts: Sequence[str], figures: Sequence[str] = ()) -> tuple[Column, ...]:
    """Columns of text, then columns of numbers."""
    return (*(Column(name, number=False) for name in texts), *(Column(name) for name in figures))


def ranking(domain: Domain) -> Table:
    """The best pipelines on the search questions, with what they are compared to."""
    rows, marks = [], []
    for place, row in enumerate(domain.ranking[:SHOWN], 1):
        rows.append(_ranked(f"{place}", row))
        marks.append("winner" if place == 1 else "")
    for title, row in _references(domain):
        rows.append(_ranked(title, row))
        marks.append("baseline")
    shown = columns(
        ["Rank", "Pipeline"], ["F", "R", "G", "Attempted = scored + failed", "Calls per question", "Genomes"]
    )
    return Table("Search questions: mean and 95 % interval", shown, tuple(rows), tuple(marks))


def metrics(domain: Domain) -> Table:
    """Every metric of the same pipelines."""
    listed = [(f"{place}", row) for place, row in enumerate(domain.ranking[:SHOWN], 1)] + _references(domain)
    known = {name for _, row in listed for name in row.scores}
    names = [name for name in NAMES if name in known] + sorted(known - {*NAMES, *HEADLINE})
    rows = [(title, row.label, *(_metric(row, name) for name in names)) for title, row in listed]
    marks = ["" if title.isdigit() else "baseline" for title, _ in listed]
    shown = columns(["Rank", "Pipeline"], [NAMES.get(name, name) for name in names])
    return Table("Search questions: means of every metric", shown, tuple(rows), tuple(marks))


def winner(domain: Domain) -> Table:
    """The winner's option in each family."""
    genes = domain.winner.genes if domain.winner else {}
    return Table("The winning pipeline", columns(["Family", "Option"]), tuple(genes.items()))


def verdicts(domain: Domain) -> Table:
    """The comparisons on the test questions."""
    shown = columns(["Winner against", "Verdict"], ["Difference in F", "p", "p, Holm", "Questions", "That differ"])
    caption = f"Test questions: paired differences; one family of {len(domain.comparisons)} comparisons"
    return Table(caption, shown, tuple(_compared(comparison) for comparison in domain.comparisons))


def finalists(domain: Domain) -> Table:
    """What the finalists score on questions that chose them, and on questions that did not."""
    rows = [
        (
            finalist.title,
            finalist.test.label,
            numbers.mean(finalist.search.scores.get("fitness") if finalist.search else None),
            *(numbers.mean(finalist.test.scores.get(name)) for name in HEADLINE),
            numbers.coverage(finalist.test.coverage),
        )
        for finalist in domain.finalists
    ]
    figures = ["F, search questions", "F, test", "R, test", "G, test", "Test: attempted = scored + failed"]
    return Table("The finalists on both kinds of questions", columns(["", "Pipeline"], figures), tuple(rows))


def options(domain: Domain) -> Table:
    """What each option does alone, and where the search met it."""
    shown = columns(
        ["Family", "Option"],
        ["Activity", "Calls added", "Change in F, alone", "F with", "F without", "Proposed with"],
    )
    marks = tuple("inert" if option.probe and option.probe.inert else "" for option in domain.options)
    return Table("Options", shown, tuple(_option(option) for option in domain.options), marks)


def inert(domain: Domain) -> tuple[str, ...]:
    """Options that changed nothing, as ``family: option``."""
    return tuple(f"{o.family}: {o.name}" for o in domain.options if o.probe and o.probe.inert)


def types(domain: Domain) -> Table:
    """Scores by question type."""
    rows = tuple((t.type or "(none)", TITLES[t.pipeline], f"{t.n}", *_headline(t)) for t in domain.types)
    caption = f"{domain.types_split.capitalize()} questions by type: mean and 95 % interval"
    return Table(caption, columns(["Type", "Pipeline"], ["Questions", "F", "R", "G"]), rows)


def _references(domain: Domain) -> list[tuple[str, Row]]:
    listed = [(TITLES[name], row) for name, row in domain.baselines.items()]
    return [*listed, (against_random(domain), domain.random)] if domain.random else listed


def _ranked(title: str, row: Row) -> tuple[str, ...]:
    calls = numbers.plain(row.usage.get("calls"), 1)
    shared = f"{row.shared}" if title.isdigit() else ""
    scores = (numbers.mean(row.scores.get(name)) for name in HEADLINE)
    return (title, row.label, *scores, numbers.coverage(row.coverage), calls, shared)


def _metric(row: Row, name: str) -> str:
    found = row.scores.get(name)
    return numbers.plain(found.mean if found else None, 0 if name == "context_chars" else 3)


def _compared(comparison: Comparison) -> tuple[str, ...]:
    found = comparison.difference
    if found is None or comparison.verdict is None:
        return (comparison.against, "not compared", *([numbers.MISSING] * 5))
    difference = f"{numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}"
    adjusted = numbers.probability(comparison.adjusted_p)
    counted = (f"{found.n}", f"{found.nonzero}")
    return (comparison.against, WORDS[comparison.verdict], difference, numbers.probability(found.p), adjusted, *counted)


def _option(option: Option) -> tuple[str, ...]:
    probe, effect = option.probe, option.effect
    alone = ("in naive RAG", "", "")
    if probe:
        activity = "inert" if probe.inert else numbers.share(probe.activity)
        alone = (activity, numbers.signed(probe.calls, 1), numbers.mean(probe.change, sign=True))
    means = (numbers.plain(effect.with_mean), numbers.plain(effect.without_mean))
    return (option.family, option.name, *alone, *means, f"{effect.with_n}")


def _headline(scores: TypeScores) -> Iterable[str]:
    return (numbers.mean(scores.scores[name]) for name in HEADLINE)
