"""Reports as HTML pages that work from a file: everything inside, nothing fetched, and readable without JavaScript.

A Content-Security-Policy forbids every request and every script but the two of the page, which are named by digest.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ragsmith.errors import RagsmithError
from ragsmith.reporting import backbone, numbers, wording
from ragsmith.reporting.charts import drawn
from ragsmith.reporting.plots import Figure
from ragsmith.reporting.sections import Folded, Plot, sections
from ragsmith.reporting.tables import Table
from ragsmith.reporting.values import Domain

TEMPLATES = Path(__file__).resolve().parent / "templates"


def domain_page(domain: Domain) -> str:
    """The report of one run."""
    listed = sections(domain)
    plotted = any(isinstance(block, Plot) for section in listed for block in section.blocks)
    scripts = [Markup(plotly_js()), Markup(_source("page.js"))] if plotted else []
    return rendered("domain.html.j2", domain=domain, sections=listed, numbers=numbers, scripts=scripts)


def index_page(domains: Sequence[Domain]) -> str:
    """The report across several data sets; it has no scripts at all."""
    notes, listed = backbone.notes(domains), backbone.sections(domains)
    return rendered("index.html.j2", domains=domains, notes=notes, sections=listed, scripts=[])


def figure_page(title: str, figure: Figure) -> str:
    """One figure alone."""
    scripts = [Markup(plotly_js()), Markup(_source("page.js"))]
    return rendered("figure.html.j2", title=title, plot=Plot(title, figure), scripts=scripts)


@cache
def plotly_js() -> str:
    """plotly.js as the installed package carries it; the package itself is not imported, that would take seconds.

    Raises:
        RagsmithError: the installed plotly has no such file.
    """
    spec = find_spec("plotly")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    for place in places:
        path = place / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8").strip()
    raise RagsmithError(
        "plotly comes without its plotly.min.js: install it again  (pip install --force-reinstall plotly)"
    )


def _embedded(figure: Mapping[str, Any]) -> Markup:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(figure, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _told(sentence: str) -> Markup:
    """A sentence with a capital at its beginning, and what stands between backticks as code."""
    parts = [Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(sentence.split("`"))]
    text = Markup("").join(parts)
    return text if text.startswith("<") else text[:1].upper() + text[1:]


def _digest(script: str) -> str:
    """A source expression of a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def rendered(template: str, **values: Any) -> str:
    """The page that a template makes of ``values``; those that all templates need are there."""
    return _environment().get_template(template).render(wording=wording, **values)


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
    environment.globals |= {"style": Markup(_source("page.css")), "chart_style": Markup(_source("chart.css"))}
    environment.filters |= {"embedded": _embedded, "digest": _digest, "drawn": drawn, "told": _told}
    environment.tests |= {
        kind.__name__.lower(): lambda block, kind=kind: isinstance(block, kind) for kind in (Table, Plot, Folded)
    }
    return environment


def _source(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()
