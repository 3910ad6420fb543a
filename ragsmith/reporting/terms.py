"""The glossary: what the words of a report mean, explained where they first appear and once more at its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from ragsmith.measures.registry import measures

TERMS: Mapping[str, str] = {
    "F": "Fitness: what the search raised, one number from 0 to 1 for a question: as a rule the mean of R and G.",
    "R": "Retrieval: how much of the gold was found and how far up it stood, from 0 to 1.",
    "G": "Generation: how well the answer agrees with the reference answer, from 0 to 1.",
    "winner": "The pipeline that the search chose, on the search questions.",
    "naive RAG": "The plainest pipeline: vector search, the first hits, one prompt. Everything else has to beat it.",
    "BM25": "The classical search by words, without vectors, and otherwise like naive RAG.",
    "search questions": "The questions that chose the winner: for that reason it looks better on them than it is.",
    "test questions": "Questions that no choice was made on. Only they say whether a pipeline is better.",
    "95 % interval": "The values that the mean would take in 95 of 100 drawings of as many questions like these.",
    "p": "How often chance alone would make a difference this large. It is adjusted for the number of comparisons.",
    "gold": "The passages of the documents that hold the answer, as the data set says.",
    "calls": "Requests to models that a question takes; a reply that is remembered counts, too.",
    "front": "The pipelines of which no other is better without costing more.",
    "activity": "The share of questions for which an option changes the output of its stage.",
    "Genomes": "How many of the pipelines that were tried found and answered exactly the same.",
    "recommended pipeline": "What was best on other data sets: it costs no search.",
}
"""Words of the field and of the project; the names of measures come from their files."""


def terms() -> dict[str, str]:
    """Every term and what it means."""
    known = measures()
    return {**TERMS, **{m.label: m.summary for m in known.values() if m.label not in TERMS}}


def met(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The terms that occur in ``texts``, which are prose of the report's own, and what they mean; by the alphabet."""
    glossary = Glossary(terms())
    for text in texts:
        glossary.marked(text)
    return tuple((name, glossary.known[name]) for name in sorted(glossary.met, key=str.casefold))


@dataclass(slots=True)
class Glossary:
    """The terms that a page explains at its end: each becomes a link where it is met first."""

    known: Mapping[str, str]
    met: set[str] = field(default_factory=set)
    _found: re.Pattern[str] | None = field(default=None, init=False, repr=False)

    def marked(self, sentence: str) -> Markup:
        """A sentence of the report's own as HTML: what stands between backticks as code, and new terms as links."""
        parts = re.split(r"`([^`]*)`", sentence)
        return Markup("").join(
            Markup("<code>{}</code>").format(part) if place % 2 else self._linked(part)
            for place, part in enumerate(parts)
        )

    def _linked(self, text: str) -> Markup:
        parts, end = [], 0
        for match in self._new().finditer(text):
            if match[1] not in self.met:
                parts += [escape(text[end : match.start()]), self._link(match[1])]
                end = match.end()
        return Markup("").join([*parts, escape(text[end:])])

    def _new(self) -> re.Pattern[str]:
        """What finds the terms that were not met; it is made anew where one was."""
        if self._found is None:
            new = sorted((name for name in self.known if name not in self.met), key=len, reverse=True)
            either = "|".join(map(re.escape, new)) or r"(?!)"  # nothing is left: nothing is found
            self._found = re.compile(rf"(?<![\w@])({either})(?![\w@])")
        return self._found

    def _link(self, name: str) -> Markup:
        self.met.add(name)
        self._found = None
        return Markup('<a class="term" href="#{0}" aria-describedby="{0}">{1}</a>').format(anchor(name), name)


def anchor(name: str) -> str:
    """Where a term is explained in the page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
