"""Profile of a corpus, computed from its text: kind, number and length of documents, and language.

Effects transfer best between data sets of the same kind; a corpus that differs from all observed ones is reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from ragsmith.text.languages import ENGLISH, UNKNOWN, detect_language
from ragsmith.types import Document, Example, Modality

MAX_CHARACTERS = 20_000
"""Maximum number of characters of a document that are analysed, from its beginning."""

MIXED_SHARE = 0.2
"""Minimum share of tables, code or conversation in a corpus of the kind mixed."""

KIND_SHARE = 0.5
"""Minimum share of tables, code or conversation in a corpus of that kind; Markdown with some tables is mixed."""

MULTI_HOP_DOCUMENTS = range(2, 5)
"""Numbers of documents with evidence for a multi-hop question; with more, they are usually alternatives."""

MAX_RATIO = 5.0
"""Maximum ratio of the size of a corpus to those of observed ones; beyond it, the corpus is reported as different."""

_TABLE_ROW = re.compile(r"^\s*\|.*\||^[^\t\n]*\t[^\t\n]*\t|^(?:[^:;]{1,60}: [^;]*; ){2}")
_CODE_LINE = re.compile(
    r"[;{}]\s*$|^\s*(?:def|class|import|from|return|if|for|#include|func|fn|const|let|var)\b.*[:;({]?$"
)
_TURN = re.compile(r"^\W{0,3}(?P<who>[A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,2})\W{0,3}(?:\d{1,2}:\d\d\S*\s?)?: ?\S")


@dataclass(frozen=True, slots=True)
class CorpusProfile:
    """Profile of documents. ``tables``, ``code`` and ``turns`` of conversations are shares of the characters.

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

        Effects on texts in other languages were observed with English embedders.
        """
        if self.language not in ("", ENGLISH):
            return "not English"
        if self.several is not None and self.several >= 0.5:
            return "multi-hop"
        shares = {"tables": self.tables, "code": self.code, "conversation": self.turns}
        second, most = sorted(shares, key=lambda kind: (shares[kind], kind))[1:]
        if shares[most] >= KIND_SHARE and shares[second] <= shares[most] / 2:
            return most
        return "mixed" if sum(shares.values()) >= MIXED_SHARE else "prose"

    def unlike(self, known: Sequence[CorpusProfile]) -> tuple[str, ...]:
        """Return the differences from all ``known`` corpora, as sentences."""
        return tuple(self._reasons(known)) if known else ("no effects were learned from any documents",)

    def _reasons(self, known: Sequence[CorpusProfile]) -> Iterator[str]:
        kinds = sorted({other.kind for other in known})
        if self.kind not in kinds:
            yield f"these documents are of the kind {self.kind}, and the effects were learned from {', '.join(kinds)}"
        languages = sorted({other.language for other in known} - {""})
        if self.language not in languages and (self.language or self.kind == "prose"):
            language = f"are in {self.language}" if self.language else "have no recognised language"
            yield f"these documents {language}, and the effects were learned from {', '.join(languages)}"
        for value, name in ((self.characters, "characters"), (self.length, "characters in the median document")):
            values = [other.characters if name == "characters" else other.length for other in known]
            if not min(values) / MAX_RATIO <= value <= max(values) * MAX_RATIO:
                learned = f"{min(values):,.0f} to {max(values):,.0f}"
                yield f"there are {value:,.0f} {name}, and {learned} where effects were learned"


def profile_corpus(documents: Sequence[Document], questions: Sequence[Example] = ()) -> CorpusProfile:
    """Return the profile of ``documents``, and of the search ``questions``; test questions must not be passed."""
    parts: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    headings = 0
    for document in documents:
        text = document.text[:MAX_CHARACTERS]
        running = []
        for part, line in _classify_lines(document.modality, text):
            parts[part] += len(line)
            headings += line.startswith("#") and part == "prose"
            if part != "code":
                running.append(line)
        languages[detect_language("\n".join(running))] += sum(map(len, running))
    total = max(1, parts.total())
    lengths = [len(document.text) for document in documents]
    several = [
        len({span.doc for span in question.evidence}) in MULTI_HOP_DOCUMENTS
        for question in questions
        if question.evidence
    ]
    return CorpusProfile(
        len(documents),
        sum(lengths),
        float(median(lengths)),
        1000 * headings / total,
        parts["tables"] / total,
        parts["code"] / total,
        parts["turns"] / total,
        _main_language(languages),
        sum(several) / len(several) if several else None,
    )


def _classify_lines(modality: Modality, text: str) -> Iterator[tuple[str, str]]:
    """Yield the type and the text of each line: ``prose``, ``tables``, ``code`` or ``turns``."""
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


def _main_language(languages: Counter[str]) -> str:
    """Return the language of most characters; "" if it is unknown."""
    most = max(languages, key=lambda code: (languages[code], code), default=UNKNOWN)
    return "" if most == UNKNOWN else most
