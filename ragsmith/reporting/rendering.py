"""Reports as HTML pages and as Markdown: both walk the same sections.

A page works from a file: everything is inside, nothing is fetched, and it is readable without JavaScript. A
Content-Security-Policy forbids every request and every script but that of the page, which is named by digest.
"""

from __future__ import annotations

import base64
import hashlib
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
    question_cells,
    sides,
)
from ragsmith.reporting.charts import Chart, drawn, keys_of
from ragsmith.reporting.overview import Across, across
from ragsmith.reporting.sections import sections
from ragsmith.reporting.values import QuestionExample, QuestionResult, RunReport
from ragsmith.text import numbers
from ragsmith.text.table import Table

ALONE = "font-family: system-ui, sans-serif; background: var(--ground);"
"""The style of a chart outside of a page."""

TEMPLATES = Path(__file__).resolve().parent / "templates"


def report_page(report: RunReport) -> str:
    """The report of one run."""
    return rendered("run.html.j2", report=report, sections=sections(report))


def index_page(reports: Sequence[RunReport], found: Across | None = None) -> str:
    """The report across several data sets."""
    listed = overview.overview_sections(reports, found or across(reports))
    return rendered("index.html.j2", reports=reports, notes=overview.notes(reports), sections=listed)


def chart_page(title: str, chart: Chart) -> str:
    """One chart alone."""
    return rendered("chart.html.j2", title=title, chart=chart)


def chart_svg(chart: Chart) -> str:
    """One chart alone, as a file that needs no page around it."""
    style = f"<style>\n{_source('colours.css')}\n{_source('chart.css')}\nsvg {{ {ALONE} }}\n</style>"
    begun, rest = str(drawn(chart)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).split(">", 1)
    return f"{begun}>\n{style}{rest}\n"


def _coded(sentence: str, quote: str = "``") -> Markup:
    """A sentence of a docstring, with text in double backticks as code."""
    parts = str(sentence).split(quote)
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _told(sentence: str) -> Markup:
    """A sentence with an initial capital and text in backticks as code."""
    text = _coded(sentence, "`")
    return text if text.startswith("<") else text[:1].upper() + text[1:]


def _breakable(text: str) -> Markup:
    """A name that may go on in the next line behind an underscore."""
    return Markup("_<wbr>").join(str(text).split("_"))


def _whole(text: str) -> Markup:
    """A sentence whose intervals and probabilities are kept in one line each."""
    parts = re.split(f"({numbers.WHOLE.pattern})", text)
    return Markup("").join(
        Markup('<span class="whole">{}</span>').format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _digest(script: str) -> str:
    """A source expression of a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def rendered(template: str, *, sections: Sequence[Any] = (), **values: Any) -> str:
    """The page that a template makes of ``values``; its script is there where there is anything to point at or choose.

    A section has ``blocks``, of which those of `ragsmith.reporting.blocks` are known.
    """
    blocks = [block for one in sections for block in getattr(one, "blocks", ())]
    known = {name: meaning for block in blocks if isinstance(block, TermList) for name, meaning in block.entries}
    alive = "chart" in values or any(isinstance(block, Plot | QuestionList | TermList) for block in blocks)
    scripts = [Markup(_source("page.js"))] if alive else []
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
        environment.globals[f"{name}_css"] = Markup(_source(f"{name}.css"))
    environment.filters |= {"digest": _digest, "drawn": drawn, "keys": keys_of, "told": _told, "anchor": anchor}
    environment.filters |= {"breakable": _breakable, "coded": _coded, "whole": _whole}
    environment.filters |= {"cells": question_cells, "sides": sides}
    kinds = (Table, Plot, Collapsed, PipelineDiagram, Examples, QuestionList, TermList)
    environment.tests |= {kind.__name__.lower(): lambda block, kind=kind: isinstance(block, kind) for kind in kinds}
    return environment


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


_SPECIAL = re.compile(r"[\\`*<>|#~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])")
"""What Markdown or HTML would act on: an underscore inside a word and brackets that make no link are left readable."""

_BREAKS = re.compile(r"\s+")

_CODE = re.compile(r"(?<!`)(`[^`]+`|``[^`]+``)(?!`)")
"""A code span: its contents are literal, so that nothing in it is escaped or interpreted."""


def report_markdown(report: RunReport) -> str:
    """The report of one run."""
    parts = [f"# {_text(report.about.data.title)}", *(f"> {_prose(note)}" for note in report.notes)]
    return document([*parts, "## Summary", *_summary(report)], sections(report))


def index_markdown(reports: Sequence[RunReport], found: Across | None = None) -> str:
    """The report across several data sets."""
    parts = ["# Across data sets", *(f"> {_prose(note)}" for note in overview.notes(reports)), "## Is it real?"]
    for report in reports:
        link = f"[{_text(report.about.data.title)}]({report.about.folder}/report.md)"
        parts.append(f"- {link}: {_text(wording.headline(report))}")
    return document(parts, overview.overview_sections(reports, found or across(reports)))


def document(before: Sequence[str], listed: Sequence[ReportSection]) -> str:
    """Paragraphs of Markdown, and each section that has text or tables below its heading."""
    parts = list(before)
    for section in listed:
        shown = [part for block in section.blocks for part in _parts(block)]
        parts += [f"## {_text(section.title)}", *shown] if shown else []
    return _joined(parts)


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Collapsed():
            for inner in block.blocks:
                yield from _parts(inner)
        case Plot():
            pass
        case PipelineDiagram():
            yield _table(block.table)
            yield from (f"- {_text(f'{name}: {value}')}" for name, value in block.settings)
        case Examples():
            yield f"### {_text(block.title)}"
            for asked, example in block.examples:
                yield from _example(asked, example)
        case TermList():
            yield from (f"- **{_text(name)}**: {_prose(meaning)}" for name, meaning in block.entries)
        case Table() | QuestionList():
            yield _table(block if isinstance(block, Table) else block.table)
        case _:
            yield _prose(block)


def _example(asked: QuestionResult, example: QuestionExample) -> Iterator[str]:
    """A question with the right answer and what both pipelines answered; the page has the passages, too."""
    gain = f"{numbers.signed(asked.gain, 2)} " if asked.gain is not None else ""
    yield f"**{gain}{_text(asked.text or asked.question)}**"
    yield f"- right: {_text(asked.reference)}"
    for name, outcome, answer in sides(asked, example):
        cause = f" ({outcome.cause})" if outcome and outcome.cause else ""
        yield f"- {name}{cause}: {_text(answer.answer)}"


def _summary(report: RunReport) -> list[str]:
    lines = [f"**{_text(wording.headline(report))}**", _text(wording.scores_explained(report))]
    if report.winner:
        lines.append(f"Winner: **{_text(report.winner.label)}**")
    lines += [f"- {_text(wording.sentence(comparison))}" for comparison in report.comparisons]
    lines += map(_text, wording.same_in_words(report))
    return [*lines, *([_prose(f"Next: {report.next_step.sentence}")] if report.next_step else [])]


def _table(table: Table) -> str:
    """A pipe table under its caption."""
    lines = [
        f"*{_text(table.caption)}*",
        "",
        _line([_text(column.name) for column in table.columns]),
        _line(["---:" if column.number else "---" for column in table.columns]),
    ]
    for place, row in enumerate(table.cells):
        cells = [_text(cell) for cell in row]
        if table.mark(place) == "winner":
            cells = [f"**{cell}**" if i == 1 else cell for i, cell in enumerate(cells)]
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Text as data: one line, and nothing in it is Markdown or HTML."""
    return _SPECIAL.sub(r"\\\g<0>", _BREAKS.sub(" ", text).strip())


def _prose(sentence: str) -> str:
    """A sentence with Markdown escaped, except for code in single or double backticks."""
    parts = _CODE.split(_BREAKS.sub(" ", sentence).strip())
    return "".join(part if place % 2 else _SPECIAL.sub(r"\\\g<0>", part) for place, part in enumerate(parts))


def _joined(parts: Sequence[str]) -> str:
    """Paragraphs with an empty line between them, none between the items of a list."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        both_items = before.startswith(("- ", "> ")) and part.startswith(before[:2])
        text += part if not text else f"\n{part}" if both_items else f"\n\n{part}" if part else ""
    return f"{text}\n"
