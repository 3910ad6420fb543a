"""Reports as HTML pages that work from a file: everything inside, nothing fetched, and readable without JavaScript.

A Content-Security-Policy forbids every request and every script but that of the page, which is named by digest.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ragsmith.reporting import backbone, numbers, wording
from ragsmith.reporting.across import Across, across
from ragsmith.reporting.charts import Chart, drawn, keys_of
from ragsmith.reporting.picture import Picture
from ragsmith.reporting.question_blocks import Examples, QuestionList, cells
from ragsmith.reporting.sections import Folded, Plot, Section, Terms, sections
from ragsmith.reporting.tables import Table
from ragsmith.reporting.terms import Glossary, anchor
from ragsmith.reporting.values import Domain

ALONE = "font-family: system-ui, sans-serif; background: var(--ground);"
"""How a chart looks that stands in no page."""

TEMPLATES = Path(__file__).resolve().parent / "templates"


def domain_page(domain: Domain) -> str:
    """The report of one run."""
    listed = sections(domain)
    return rendered("domain.html.j2", domain=domain, sections=listed, scripts=scripts(listed))


def index_page(domains: Sequence[Domain], found: Across | None = None) -> str:
    """The report across several data sets."""
    notes, listed = backbone.notes(domains), backbone.sections(domains, found or across(domains))
    return rendered("index.html.j2", domains=domains, notes=notes, sections=listed, scripts=scripts(listed))


def chart_page(title: str, chart: Chart) -> str:
    """One chart alone."""
    return rendered("chart.html.j2", title=title, chart=chart, scripts=[Markup(_source("page.js"))])


def chart_svg(chart: Chart) -> str:
    """One chart alone, as a file that needs no page around it."""
    style = f"<style>\n{_source('colours.css')}\n{_source('chart.css')}\nsvg {{ {ALONE} }}\n</style>"
    begun, rest = str(drawn(chart)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).split(">", 1)
    return f"{begun}>\n{style}{rest}\n"


def _told(sentence: str) -> Markup:
    """A sentence with a capital at its beginning, and what stands between backticks as code."""
    parts = [Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(sentence.split("`"))]
    text = Markup("").join(parts)
    return text if text.startswith("<") else text[:1].upper() + text[1:]


def _breakable(text: str) -> Markup:
    """A name that may go on in the next line behind an underscore."""
    return Markup("_<wbr>").join(str(text).split("_"))


def _whole(text: str) -> Markup:
    """A sentence whose intervals and probabilities stand in one line each."""
    found = Markup("")
    reached = 0
    for match in numbers.WHOLE.finditer(text):
        found += escape(text[reached : match.start()]) + Markup('<span class="whole">{}</span>').format(match[0])
        reached = match.end()
    return found + escape(text[reached:])


def _coded(sentence: str) -> Markup:
    """A docstring's sentence, with what stands between double backticks as code."""
    parts = str(sentence).split("``")
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(parts))


def _digest(script: str) -> str:
    """A source expression of a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def rendered(template: str, *, sections: Sequence[Any] = (), **values: Any) -> str:
    """The page that a template makes of ``values``; those that all templates need are there."""
    known = {n: m for one in sections for b in getattr(one, "blocks", ()) if isinstance(b, Terms) for n, m in b.entries}
    found = _environment().get_template(template)
    return found.render(wording=wording, numbers=numbers, glossary=Glossary(known), sections=sections, **values)


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
    environment.globals |= {f"{name}_css": _styled(f"{name}.css") for name in ("colours", "page", "chart", "check")}
    environment.filters |= {"digest": _digest, "drawn": drawn, "keys": keys_of, "told": _told}
    environment.filters |= {"anchor": anchor, "breakable": _breakable, "coded": _coded, "cells": cells, "whole": _whole}
    kinds = (Table, Plot, Folded, Picture, Examples, QuestionList, Terms)
    environment.tests |= {kind.__name__.lower(): lambda block, kind=kind: isinstance(block, kind) for kind in kinds}
    return environment


def scripts(listed: Sequence[Section]) -> list[Markup]:
    """The script of the page, where there is anything to point at or to choose from."""
    alive = any(isinstance(block, Plot | QuestionList | Terms) for section in listed for block in section.blocks)
    return [Markup(_source("page.js"))] if alive else []


def _styled(name: str) -> Markup:
    return Markup(_source(name))


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()
