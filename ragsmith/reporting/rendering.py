"""Render reports as HTML pages and as Markdown, from the same sections.

A page is a self-contained file, readable without JavaScript. Its Content-Security-Policy forbids all requests and all
scripts except its own, which is allowed by digest.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ragsmith.reporting import overview, wording
from ragsmith.reporting.blocks import (
    Block,
    Collapsed,
    Examples,
    Glossary,
    PipelineDiagram,
    Plot,
    QuestionList,
    ReportSection,
    TermList,
    anchor,
    format_example_score,
    pair_answers,
    question_cells,
)
from ragsmith.reporting.charts import Chart, draw, legend_of
from ragsmith.reporting.decision import Decision, decide
from ragsmith.reporting.inline import policy_source
from ragsmith.reporting.overview import CombinedReport, combine_reports
from ragsmith.reporting.sections import sections
from ragsmith.reporting.values import QuestionExample, QuestionResult, RunReport
from ragsmith.text import numbers
from ragsmith.text.table import Table

STANDALONE_STYLE = "font-family: system-ui, sans-serif; background: var(--ground);"
"""CSS of a chart in a file of its own."""

TEMPLATES = Path(__file__).resolve().parent / "templates"


def report_page(report: RunReport) -> str:
    """Render the report of a run as HTML."""
    return render("run.html.j2", report=report, decision=decide(report), sections=sections(report))


def index_page(reports: Sequence[RunReport], found: CombinedReport | None = None) -> str:
    """Render the report across several data sets as HTML."""
    listed = overview.overview_sections(reports, found or combine_reports(reports))
    return render("index.html.j2", reports=reports, notes=overview.list_notes(reports), sections=listed)


def chart_page(title: str, chart: Chart) -> str:
    """Render a page with a single chart."""
    return render("chart.html.j2", title=title, chart=chart)


def chart_svg(chart: Chart) -> str:
    """Render a chart as a standalone SVG file."""
    sheets = f"{_read_template('colours.css')}\n{_read_template('chart.css')}"
    style = f"<style>\n{sheets}\nsvg {{ {STANDALONE_STYLE} }}\n</style>"
    begun, rest = str(draw(chart)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).split(">", 1)
    return f"{begun}>\n{style}{rest}\n"


def _mark_code(sentence: str, quote: str = "``") -> Markup:
    """Return a sentence as HTML, with text in double backticks (or another ``quote``) as code."""
    parts = str(sentence).split(quote)
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _capitalized(sentence: str) -> Markup:
    """Return a sentence as HTML, with an initial capital and text in backticks as code."""
    text = _mark_code(sentence, "`")
    return text if text.startswith("<") else text[:1].upper() + text[1:]


def _breakable(text: str) -> Markup:
    """Return a name as HTML that may be wrapped after underscores."""
    return Markup("_<wbr>").join(str(text).split("_"))


def _keep_unbroken(text: str) -> Markup:
    """Return a sentence as HTML in which intervals and probabilities are not wrapped."""
    parts = re.split(f"({numbers.WHOLE.pattern})", text)
    return Markup("").join(
        Markup('<span class="whole">{}</span>').format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def render(template: str, *, sections: Sequence[Any] = (), **values: Any) -> str:
    """Render a template with ``values``; pages with charts, terms or a question list include the script.

    Each section has ``blocks`` of `ragsmith.reporting.blocks`.
    """
    blocks = [block for one in sections for block in getattr(one, "blocks", ())]
    known = {name: meaning for block in blocks if isinstance(block, TermList) for name, meaning in block.entries}
    alive = "chart" in values or any(isinstance(block, Plot | QuestionList | TermList) for block in blocks)
    scripts = [Markup(_read_template("page.js"))] if alive else []
    found = _environment().get_template(template)
    return found.render(
        wording=wording, numbers=numbers, glossary=Glossary(known), sections=sections, scripts=scripts, **values
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for name in ("colours", "page", "chart", "check"):
        environment.globals[f"{name}_css"] = Markup(_read_template(f"{name}.css"))
    environment.filters |= {
        "digest": policy_source,
        "draw": draw,
        "legend": legend_of,
        "capitalized": _capitalized,
        "anchor": anchor,
    }
    environment.filters |= {"breakable": _breakable, "coded": _mark_code, "whole": _keep_unbroken}
    environment.filters |= {"cells": question_cells, "score": format_example_score, "sides": pair_answers}
    kinds = (Table, Plot, Collapsed, PipelineDiagram, Examples, QuestionList, TermList)
    environment.tests |= {kind.__name__.lower(): lambda block, kind=kind: isinstance(block, kind) for kind in kinds}
    return environment


def _read_template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


_SPECIAL_CHARACTERS = re.compile(r"[\\`*<>|#~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])")
"""Characters that are special in Markdown or HTML, except underscores inside words and brackets without a link."""

_WHITESPACE = re.compile(r"\s+")

_CODE = re.compile(r"(?<!`)(`[^`]+`|``[^`]+``)(?!`)")
"""A code span, whose contents are literal and need no escaping."""


def report_markdown(report: RunReport) -> str:
    """Render the report of a run as Markdown."""
    parts = [f"# {_escape_text(report.about.data.title)}", *(f"> {_escape_prose(note)}" for note in report.notes)]
    return markdown_document([*parts, "## Summary", *_summary(report, decide(report))], sections(report))


def index_markdown(reports: Sequence[RunReport], found: CombinedReport | None = None) -> str:
    """Render the report across several data sets as Markdown."""
    parts = [
        "# Across data sets",
        *(f"> {_escape_prose(note)}" for note in overview.list_notes(reports)),
        "## Is it real?",
    ]
    parts += [
        f"- [{_escape_text(report.about.data.title)}]({report.about.folder}/report.md): "
        f"{_escape_text(wording.summarize_verdicts(report))}"
        for report in reports
    ]
    return markdown_document(parts, overview.overview_sections(reports, found or combine_reports(reports)))


def markdown_document(before: Sequence[str], listed: Sequence[ReportSection]) -> str:
    """Join paragraphs of Markdown and the sections that have content for Markdown."""
    parts = list(before)
    for section in listed:
        shown = [part for block in section.blocks for part in _block_markdown(block)]
        parts += [f"## {_escape_text(section.title)}", *shown] if shown else []
    return _join_paragraphs(parts)


def _block_markdown(block: Block) -> Iterator[str]:
    match block:
        case Collapsed():
            for inner in block.blocks:
                yield from _block_markdown(inner)
        case Plot():
            pass
        case PipelineDiagram():
            yield _pipe_table(block.table)
            yield from (f"- {_escape_text(f'{name}: {value}')}" for name, value in block.settings)
        case Examples():
            yield f"### {_escape_text(block.title)}"
            for asked, example in block.examples:
                yield from _example(asked, example)
        case TermList():
            yield from (f"- **{_escape_text(name)}**: {_escape_prose(meaning)}" for name, meaning in block.entries)
        case Table() | QuestionList():
            yield _pipe_table(block if isinstance(block, Table) else block.table)
        case _:
            yield _escape_prose(block)


def _example(asked: QuestionResult, example: QuestionExample) -> Iterator[str]:
    """Yield an example question with the reference answer and both answers; passages are only in the page."""
    yield f"**{_escape_text(f'{format_example_score(asked, example)} {asked.named}')}**"
    yield f"- reference: {_escape_text(asked.reference)}"
    for name, outcome, answer in pair_answers(asked, example):
        cause = f" ({outcome.cause})" if outcome and outcome.cause else ""
        yield f"- {name}{cause}: {_escape_text(answer.answer)}"


def _summary(report: RunReport, decision: Decision | None) -> Iterator[str]:
    if decision:
        yield (
            f"Take {_escape_text(wording.name_role(decision.take))}{wording.NAMED_BY.get(decision.take, '')}: "
            f"**{_escape_text(decision.taken.name)}**, "
            f"{numbers.tenths(decision.taken.calls)} model calls a question."
        )
        yield from (f"`{decision.command}`", wording.explain_use(report)) if decision.command else ()
        yield from (_escape_prose(f"Why: {decision.reason}"),) if decision.reason else ()
        yield from (_escape_prose(f"Next: {decision.next}"),) if decision.next else ()
        yield _escape_text(decision.answers)
        yield _pipe_table(decision.table)
        yield _escape_text(wording.explain_counts(report))
        yield from (_escape_text(decision.evidence),) if decision.evidence else ()
        yield from (_escape_prose(f"Risk: {decision.risk}"),) if decision.risk else ()
        if report.winner and report.comparisons:
            yield f"The winner of the search, {_escape_text(report.winner.label)}, against its rivals:"
    yield f"**{_escape_prose(wording.summarize_verdicts(report))}**"
    yield from (f"- {_escape_text(wording.describe_comparison(comparison))}" for comparison in report.comparisons)
    yield from (f"- {_escape_text(wording.describe_estimate(one))}" for one in report.estimates)
    if decision:
        yield from map(_escape_text, filter(None, (decision.limits, decision.levels)))
    yield from map(_escape_prose, wording.describe_duplicates(report))
    yield _escape_text(wording.explain_scores(report))


def _pipe_table(table: Table) -> str:
    """Return a table in Markdown under its caption."""
    lines = [
        f"*{_escape_text(table.caption)}*",
        "",
        _table_row([_escape_text(column.name) for column in table.columns]),
        _table_row(["---:" if column.number else "---" for column in table.columns]),
    ]
    for place, row in enumerate(table.cells):
        cells = [_escape_text(cell) for cell in row]
        if table.mark(place) == "winner":
            cells = [f"**{cell}**" if i == 1 else cell for i, cell in enumerate(cells)]
        lines.append(_table_row(cells))
    return "\n".join(lines)


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_text(text: str) -> str:
    """Return text on one line with all Markdown and HTML escaped."""
    return _SPECIAL_CHARACTERS.sub(r"\\\g<0>", _WHITESPACE.sub(" ", text).strip())


def _escape_prose(sentence: str) -> str:
    """Return a sentence with Markdown escaped except in code spans."""
    parts = _CODE.split(_WHITESPACE.sub(" ", sentence).strip())
    return "".join(part if place % 2 else _SPECIAL_CHARACTERS.sub(r"\\\g<0>", part) for place, part in enumerate(parts))


def _join_paragraphs(parts: Sequence[str]) -> str:
    """Join paragraphs with blank lines, except between items of a list."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        both_items = before.startswith(("- ", "> ")) and part.startswith(before[:2])
        text += part if not text else f"\n{part}" if both_items else f"\n\n{part}" if part else ""
    return f"{text}\n"
