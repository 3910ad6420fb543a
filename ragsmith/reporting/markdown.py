"""Reports as Markdown: the same tables and sentences as the page, readable as plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.reporting import backbone, group_tables, run_tables, tables, wording
from ragsmith.reporting.tables import Table
from ragsmith.reporting.values import Domain

_SPECIAL = re.compile(r"[\\`*<>|#~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])")
"""What Markdown or HTML would act on: an underscore inside a word and brackets that make no link are left readable."""

_BREAKS = re.compile(r"\s+")


def domain_markdown(domain: Domain) -> str:
    """The report of one run."""
    about = domain.about
    parts = [f"# {_text(about.title)}", *(f"> {_text(note)}" for note in domain.notes)]
    parts += ["## Summary", *_summary(domain)]
    if domain.comparisons:
        parts += ["## Test: is it real?", _table(tables.verdicts(domain)), _table(tables.finalists(domain))]
    if domain.winner:
        parts += ["## The winner", _table(tables.winner(domain))]
    if domain.ranking or domain.baselines:
        parts += ["## Ranking", wording.SELECTED, _table(tables.ranking(domain))]
        parts += [_text(wording.metrics_explained(domain)), _table(tables.metrics(domain))]
    if domain.options:
        parts += [
            "## Options",
            wording.SWITCHED_ON,
            wording.OBSERVATIONAL,
            _inert(domain),
            _table(tables.options(domain)),
        ]
    if domain.types:
        parts += ["## By question type and by kind of document", group_tables.EXPLAINED]
        parts += [_table(group_tables.types(domain))]
        parts += [_table(group_tables.modalities(domain))] if domain.modalities else []
    if domain.history:
        parts += ["## Steps of the search", _table(run_tables.history(domain))]
    if domain.failures:
        parts += ["## Failures", _table(run_tables.failures(domain))]
    parts += [
        "## Run, models and work",
        _text(about.description),
        _table(run_tables.run(domain)),
        _table(run_tables.models(domain)),
    ]
    parts.append(run_tables.work(domain))
    if domain.account.calls:
        parts.append(_table(run_tables.calls(domain)))
    return _joined(parts)


def index_markdown(domains: Sequence[Domain]) -> str:
    """The report across several data sets."""
    parts = ["# Across data sets"]
    parts += [f"> {_text(note)}" for note in backbone.notes(domains)]
    parts += ["## Is it real?"]
    parts += [_bullet(f"[{_text(d.about.title)}]({_link(d)}): {_text(wording.headline(d))}") for d in domains]
    parts += [_table(backbone.verdicts_table(domains)), _table(backbone.scores_table(domains, "test"))]
    parts += ["## On the search questions", wording.SELECTED, _table(backbone.scores_table(domains, "search"))]
    parts += ["## Backbone", backbone.EXPLAINED, _table(backbone.backbone_table(domains))]
    return _joined(parts)


def _summary(domain: Domain) -> list[str]:
    lines = [f"**{_text(wording.headline(domain))}**"]
    if domain.winner:
        lines.append(f"Winner: **{_text(domain.winner.label)}**")
    return lines + [_bullet(_text(wording.sentence(comparison))) for comparison in domain.comparisons]


def _inert(domain: Domain) -> str:
    names = tables.inert(domain)
    return f"Inert here: {_text(', '.join(names))}." if names else ""


def _table(table: Table) -> str:
    """A pipe table under its caption."""
    lines = [
        f"*{_text(table.caption)}*",
        "",
        _line([_text(column.name) for column in table.columns]),
        _line(["---:" if column.number else "---" for column in table.columns]),
    ]
    for place, row in enumerate(table.rows):
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


def _bullet(text: str) -> str:
    return f"- {text}"


def _link(domain: Domain) -> str:
    return f"{domain.about.folder}/report.md"


def _joined(parts: Sequence[str]) -> str:
    """Paragraphs with an empty line between them, none between the items of a list."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        both_items = before.startswith(("- ", "> ")) and part.startswith(before[:2])
        text += part if not text else f"\n{part}" if both_items else f"\n\n{part}" if part else ""
    return f"{text}\n"
