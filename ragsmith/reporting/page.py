"""Reports as HTML pages that work from a file: everything inside, nothing fetched, and readable without JavaScript.

A Content-Security-Policy forbids every request and every script but that of the page, which is named by digest.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ragsmith.reporting import overview, wording
from ragsmith.reporting.across import Across, across
from ragsmith.reporting.blocks import (
    Collapsed,
    Examples,
    Glossary,
    Plot,
    QuestionList,
    TermList,
    anchor,
    question_cells,
    sides,
)
from ragsmith.reporting.charts import Chart, drawn, keys_of
from ragsmith.reporting.pipeline_diagram import PipelineDiagram
from ragsmith.reporting.sections import sections
from ragsmith.reporting.values import RunReport
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
