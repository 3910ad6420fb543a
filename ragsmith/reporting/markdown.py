"""Reports as Markdown: the same tables and sentences as the page, readable as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragsmith.reporting import backbone, numbers, wording
from ragsmith.reporting.across import Across, across
from ragsmith.reporting.picture import Picture
from ragsmith.reporting.question_blocks import Example, Examples, QuestionList
from ragsmith.reporting.sections import Block, Folded, Plot, Section, Terms, sections
from ragsmith.reporting.tables import Table
from ragsmith.reporting.values import Domain

_SPECIAL = re.compile(r"[\\`*<>|#~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])")
"""What Markdown or HTML would act on: an underscore inside a word and brackets that make no link are left readable."""

_BREAKS = re.compile(r"\s+")

_CODE = re.compile(r"(?<!`)(`[^`]+`|``[^`]+``)(?!`)")
"""A span of code: it shows what stands in it as it is, so that nothing in it is escaped, nor acts."""


def domain_markdown(domain: Domain) -> str:
    """The report of one run."""
    parts = [f"# {_text(domain.about.data.title)}", *(f"> {_prose(note)}" for note in domain.notes)]
    return _joined([*parts, "## Summary", *_summary(domain), *_sections(sections(domain))])


def index_markdown(domains: Sequence[Domain], found: Across | None = None) -> str:
    """The report across several data sets."""
    parts = ["# Across data sets", *(f"> {_prose(note)}" for note in backbone.notes(domains)), "## Is it real?"]
    parts += [_bullet(f"[{_text(d.about.data.title)}]({_link(d)}): {_text(wording.headline(d))}") for d in domains]
    return _joined([*parts, *_sections(backbone.sections(domains, found or across(domains)))])


def _sections(listed: Sequence[Section]) -> Iterator[str]:
    """Each section that has text or tables, below its heading."""
    for section in listed:
        shown = [part for block in section.blocks for part in _parts(block)]
        yield from [f"## {_text(section.title)}", *shown] if shown else []


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Folded():
            for inner in block.blocks:
                yield from _parts(inner)
        case Plot():
            pass
        case Picture():
            yield _table(block.table)
            yield from (_bullet(_text(f"{name}: {value}")) for name, value in block.settings)
        case Examples():
            yield f"### {_text(block.title)}"
            for example in block.examples:
                yield from _example(example)
        case Terms():
            yield from (_bullet(f"**{_text(name)}**: {_prose(meaning)}") for name, meaning in block.entries)
        case Table() | QuestionList():
            yield _table(block if isinstance(block, Table) else block.table)
        case _:
            yield _prose(block)


def _example(example: Example) -> Iterator[str]:
    """A question with the right answer and what both pipelines answered; the page has the passages, too."""
    asked = example.asked
    gain = f"{numbers.signed(asked.gain, 2)} " if asked.gain is not None else ""
    yield f"**{gain}{_text(asked.text or asked.question)}**"
    yield _bullet(f"right: {_text(asked.reference)}")
    for name, treated, replied in example.sides:
        cause = f" ({treated.cause})" if treated and treated.cause else ""
        yield _bullet(f"{name}{cause}: {_text(replied.answer)}")


def _summary(domain: Domain) -> list[str]:
    lines = [f"**{_text(wording.headline(domain))}**", _text(wording.scores_explained(domain))]
    if domain.winner:
        lines.append(f"Winner: **{_text(domain.winner.label)}**")
    lines += [_bullet(_text(wording.sentence(comparison))) for comparison in domain.comparisons]
    lines += map(_text, wording.same_in_words(domain))
    return [*lines, *([_prose(f"Next: {domain.next_step.sentence}")] if domain.next_step else [])]


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


def _prose(sentence: str) -> str:
    """A sentence as data, but for what stands between backticks, one or two, which is code."""
    parts = _CODE.split(_BREAKS.sub(" ", sentence).strip())
    return "".join(part if place % 2 else _SPECIAL.sub(r"\\\g<0>", part) for place, part in enumerate(parts))


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
