"""Questions on source code: what a function is for, which one does something, and the value of a constant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.words import words
from ragsmith.types import Chunk, Modality

_DOCSTRING = re.compile(
    r"(?:def|class) (?P<name>\w+)[^\n]*(?:\n[^\n]*){0,6}?:\s*\n\s*(?:[rub]*)\"\"\""
    r"(?P<says>[^\"]{15,300}?)(?:\"\"\"|\n\s*\n)"
)
_COMMENT = re.compile(
    r"(?:/\*\*?(?P<block>(?:[^*]|\*(?!/)){20,400})\*/|(?P<lines>(?:^[ \t]*(?://+|#(?!!)|--)[^\n]{8,}\n)+))\s*"
    r"(?:export |static |public |private |async |const |inline |pub )*"
    r"(?:function |def |fn |class |enum |struct |interface |CREATE (?:TABLE|VIEW) |[\w*<>]+ )*"
    r"(?P<name>\w+)\s*(?:\(|=|AS\b)",
    re.MULTILINE,
)
_CONSTANT = re.compile(
    r"^[ \t]*(?:#define |export |const |static |final |readonly |let |var )*(?P<name>[A-Z][A-Z0-9_]{3,})"
    r"(?:\s*:\s*[\w\[\], ]+)?\s*=?\s+(?P<value>-?\d[\w.]*|\"[^\"\n]+\"|'[^'\n]+');?[^\S\n]*"
    r"(?:(?://|#|/\*|--)[ \t]*(?P<says>[^\n]*?)(?:\*/)?)?$",
    re.MULTILINE,
)
_MARGIN = re.compile(r"^[ \t]*(?:\*|//+|#+|--)?[ \t]?", re.MULTILINE)
_RETURNS = re.compile(
    r"^(?:return|give|yield|say|tell|check|compute|calculate|read|write|make|turn|send|find)s?\b", re.IGNORECASE
)


def code(passage: Chunk, material: Material) -> Sequence[Draft]:
    """A docstring -> ``Which function returns ...?``; ``MAX_FEED = 300`` -> ``What is MAX FEED set to in limits.h?``"""
    if passage.modality is not Modality.CODE:
        return []
    return [*_documented(passage), *_constants(passage)]


def _documented(passage: Chunk) -> Iterator[Draft]:
    for pattern in (_DOCSTRING, _COMMENT):
        for found in pattern.finditer(passage.text):
            groups = found.groupdict()
            part = "says" if "says" in groups else "block" if groups["block"] else "lines"
            says = " ".join(_MARGIN.sub("", found[part]).replace("``", "").split())
            sentence = re.split(r"(?<=[.;:]) ", says)[0].rstrip(".;:")
            name = found["name"]
            if not 4 <= len(words(sentence)) <= 24:
                continue
            quote = Quote(passage.doc, found.group().strip(), passage.start + found.start() + _blank(found.group()))
            if _RETURNS.match(sentence):
                verb, _, rest = sentence.partition(" ")
                third = verb.lower() if verb.lower().endswith("s") else f"{verb.lower()}s"
                asks = f"Which function of {passage.doc} {third} {rest}?"
                yield Draft(asks, f"{name}.", (quote,), "code", "code", passage.span)
            asks = f"What is {name} for in {passage.doc}?"
            yield Draft(asks, f"{says}", (quote,), "code", "code", passage.span)


def _constants(passage: Chunk) -> Iterator[Draft]:
    for found in _CONSTANT.finditer(passage.text):
        quote = Quote(passage.doc, found.group().strip(), passage.start + found.start() + _blank(found.group()))
        spoken = found["name"].replace("_", " ").lower()
        says = (found["says"] or "").strip(" .*/")
        asked_for = f"the {spoken}" if len(words(spoken)) > 1 else f"the constant {found['name']}"
        asks = f"To what value does {passage.doc} set {asked_for}?"
        yield Draft(asks, f"{found['value']}{f' ({says})' if says else ''}.", (quote,), "code", "code", passage.span)


def _blank(text: str) -> int:
    return len(text) - len(text.lstrip())
