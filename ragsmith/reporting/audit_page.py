"""Audits as a page: the options by what they add, which do nothing, and which never differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragsmith.records.audit import Audit, Finding
from ragsmith.reporting import numbers
from ragsmith.reporting.charts import Row, Rows
from ragsmith.reporting.page import rendered, scripts
from ragsmith.reporting.plots import MOST_OPTIONS, kind_of, widest
from ragsmith.reporting.sections import Block, Folded, Plot, Section, with_terms
from ragsmith.reporting.tables import Table, columns

EXPLAINED = (
    "Every option was switched on alone in naive RAG, or where it needs another technique, beside that, on the same "
    "search questions. Activity is the share of questions for which the output of its stage changes. p is adjusted "
    "for all options that were tried; an interval is of one option by itself, so that of so many some lie beside 0 "
    "by chance."
)


def audit_page(audits: Sequence[Audit]) -> str:
    """One page of all ``audits``, a section for each."""
    listed = with_terms([_section(place, audit) for place, audit in enumerate(audits)])
    names = ", ".join(audit.dataset for audit in audits)
    title = f"Audit of {audits[0].space} on {names}"
    return rendered("audit.html.j2", title=title, audits=audits, sections=listed, scripts=scripts(listed))


def _section(place: int, audit: Audit) -> Section:
    return Section(f"audit-{place}", f"On {audit.dataset}", audit.dataset, tuple(_blocks(audit)))


def _blocks(audit: Audit) -> Iterator[Block]:
    moved = sorted((one for one in audit.findings if one.fitness), key=_gain)
    inert = [f"{one.family} {one.option}" for one in audit.findings if one.inert]
    same = [f"{one.family} {one.option} as {one.same_as}" for one in audit.findings if one.same_as]
    alike = [pair for pair in audit.pairs if pair.alike]
    yield f"{len(audit.findings)} options on {audit.questions} search questions. {EXPLAINED}"
    if shown := [one for one in moved if _gain(one)]:
        gains = [one for one in shown if _gain(one) < 0][:MOST_OPTIONS]
        losses = [one for one in shown if _gain(one) > 0][-MOST_OPTIONS:]
        yield Plot(_chart(gains + losses))
    yield f"Inert here: {', '.join(inert)}." if inert else "No option is inert here."
    if same:
        yield f"The same results: {'; '.join(same)}."
    yield Folded(f"All {len(audit.findings)} options", (_options(audit),))
    if alike:
        rows = tuple((pair.family, pair.one, pair.other, numbers.share(pair.output)) for pair in alike)
        shown_as = columns(["Family", "Option", "Other option"], ["Output of the stage differs"])
        yield Table("Pairs of options that nothing tells apart here, in what is found or answered", shown_as, rows)


def _chart(findings: Sequence[Finding]) -> Rows:
    rows = []
    for one in findings:
        assert one.fitness is not None
        mean, low, high = one.fitness.mean_difference, one.fitness.low, one.fitness.high
        said = f"{numbers.signed(mean)} {numbers.interval(low, high, sign=True)}"
        rows.append(Row(f"{one.family} {_named(one)}", mean, low, high, said=said, kind=kind_of(mean, low, high)))
    most = widest(rows)
    title = "Change in F of one option alone, with its 95 % interval"
    return Rows(title, tuple(rows), least=-most, most=most, ends=("worse", "better"))


def _options(audit: Audit) -> Table:
    ordered = sorted(audit.findings, key=lambda one: (one.fitness is None, _gain(one)))
    figures = ["Activity", "Calls added", "Change in F", "p, adjusted", "Change in R", "Failed"]
    shown = columns(["Family", "Option", "What it changes"], figures)
    marks = tuple("inert" if one.inert else "" for one in ordered)
    return Table("Options, by what they add alone", shown, tuple(map(_cells, ordered)), marks)


def _cells(one: Finding) -> tuple[str, ...]:
    changed = "–" if one.fitness is None else numbers.signed(one.fitness.mean_difference)
    bounds = "" if one.fitness is None else f" {numbers.interval(one.fitness.low, one.fitness.high, sign=True)}"
    return (
        *(one.family, _named(one), one.difference, numbers.share(one.activity), numbers.signed(one.calls, 1)),
        *(changed + bounds, numbers.probability(one.p)),
        numbers.signed(one.retrieval.mean_difference if one.retrieval else None),
        f"{one.failed}",
    )


def _named(one: Finding) -> str:
    """The option; one that no pipeline may have says so."""
    return one.option + (" (reads the gold)" if one.analysis_only else "")


def _gain(one: Finding) -> float:
    return -one.fitness.mean_difference if one.fitness else 0.0
