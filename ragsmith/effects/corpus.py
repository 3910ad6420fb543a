"""What documents are like, from their text alone: prose, tables, code or conversation, how many, how long, in which
language. Data sets of one kind tell of each other; a corpus that is like none of them is said to be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from ragsmith.text.languages import ENGLISH, UNKNOWN, detect
from ragsmith.types import Document, Example, Modality

READ = 20_000
"""Characters of a document that are looked at: it is taken to go on as it begins."""

NO_PROSE = 0.2
"""From this share of tables, code or conversation on, a corpus is no prose, but mixed."""

OF_A_KIND = 0.5
"""From this share of tables, code or conversation on, a corpus is of that kind: Markdown with tables in it is mixed."""

FEW = range(2, 5)
"""Documents that a question of several steps needs; one that more documents answer needs any of them."""

BEYOND = 5.0
"""A corpus that is so many times smaller or larger than any that was learned from is unlike them."""

_TABLE_ROW = re.compile(r"^\s*\|.*\||^[^\t\n]*\t[^\t\n]*\t|^(?:[^:;]{1,60}: [^;]*; ){2}")
_CODE_LINE = re.compile(
    r"[;{}]\s*$|^\s*(?:def|class|import|from|return|if|for|#include|func|fn|const|let|var)\b.*[:;({]?$"
)
_TURN = re.compile(r"^\W{0,3}(?P<who>[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,2})\W{0,3}(?:\d{1,2}:\d\d\S*\s?)?: ?\S")


@dataclass(frozen=True, slots=True)
class CorpusProfile:
    """What documents are like. ``tables``, ``code`` and ``turns`` of a conversation are shares of the characters.

    ``several`` is the share of questions with evidence in several documents; None without questions.
    """

    documents: int
    characters: int
    length: float
    headings: float
    tables: float
    code: float
    turns: float
    language: str
    several: float | None = None

    @property
    def kind(self) -> str:
        """``prose``, ``tables``, ``code``, ``conversation``, ``mixed``, ``multi-hop``, or ``not English``.

        What was learned of texts in other languages was learned with embedders that know English alone.
        """
        if self.language not in ("", ENGLISH):
            return "not English"
        if self.several is not None and self.several >= 0.5:
            return "multi-hop"
        shares = {"tables": self.tables, "code": self.code, "conversation": self.turns}
        second, most = sorted(shares, key=lambda kind: (shares[kind], kind))[1:]
        if shares[most] >= OF_A_KIND and shares[second] <= shares[most] / 2:
            return most
        return "mixed" if sum(shares.values()) >= NO_PROSE else "prose"

    def unlike(self, known: Sequence[CorpusProfile]) -> tuple[str, ...]:
        """In sentences, what sets this apart from all corpora that are ``known``."""
        return tuple(self._reasons(known)) if known else ("nothing was learned from any documents",)

    def _reasons(self, known: Sequence[CorpusProfile]) -> Iterator[str]:
        kinds = sorted({other.kind for other in known})
        if self.kind not in kinds:
            yield f"these documents are of the kind {self.kind}, and what is known was learned from {', '.join(kinds)}"
        languages = sorted({other.language for other in known} - {""})
        if self.language not in languages and (self.language or self.kind == "prose"):
            seen = f"are in {self.language}" if self.language else "are in no language that is recognised"
            yield f"these documents {seen}, and what is known was learned from {', '.join(languages)}"
        for value, name in ((self.characters, "characters"), (self.length, "characters in the median document")):
            values = [other.characters if name == "characters" else other.length for other in known]
            if not min(values) / BEYOND <= value <= max(values) * BEYOND:
                learned = f"{min(values):,.0f} to {max(values):,.0f}"
                yield f"there are {value:,.0f} {name}, and {learned} where effects were learned"


def corpus_of(documents: Sequence[Document], questions: Sequence[Example] = ()) -> CorpusProfile:
    """What ``documents`` are like, and what the ``questions`` need: those of the search, never of the test."""
    parts: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    headings = 0
    for document in documents:
        text = document.text[:READ]
        running = []
        for part, line in _lines(document.modality, text):
            parts[part] += len(line)
            headings += line.startswith("#") and part == "prose"
            if part != "code":
                running.append(line)
        languages[detect("\n".join(running))] += sum(map(len, running))
    total = max(1, parts.total())
    lengths = [len(document.text) for document in documents]
    several = [len({span.doc for span in question.evidence}) in FEW for question in questions if question.evidence]
    return CorpusProfile(
        len(documents),
        sum(lengths),
        float(median(lengths)),
        1000 * headings / total,
        parts["tables"] / total,
        parts["code"] / total,
        parts["turns"] / total,
        _most(languages),
        sum(several) / len(several) if several else None,
    )


def _lines(modality: Modality, text: str) -> Iterator[tuple[str, str]]:
    """The lines of a text, each with what it is."""
    lines = [line for line in text.splitlines() if line.strip()]
    if modality is not Modality.PROSE:
        kind = "tables" if modality is Modality.TABLE else "code"
        yield from ((kind, line) for line in lines)
        return
    speakers = Counter(turn["who"] for line in lines if (turn := _TURN.match(line)))
    spoken = speakers.total() >= len(lines) / 3 and len(speakers) >= 2 and speakers.total() >= 2 * len(speakers)
    fenced = False
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if _TABLE_ROW.match(line):
            yield "tables", line
        elif spoken:
            yield "turns", line
        else:
            yield "code" if fenced or (_CODE_LINE.search(line) and not line[0].isupper()) else "prose", line


def _most(languages: Counter[str]) -> str:
    """The language of most characters; "" where that is none."""
    most = max(languages, key=lambda code: (languages[code], code), default=UNKNOWN)
    return "" if most == UNKNOWN else most
