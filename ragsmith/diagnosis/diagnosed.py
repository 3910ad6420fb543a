"""The stored diagnosis of a question: its cause, the fate of its gold, and what the generator was shown.

Which questions are shown in full, and which evaluations show what an option repaired, is chosen here, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any, Literal

from ragsmith.datasets.relevance import count_overlap
from ragsmith.diagnosis.causes import Cause, Followed, cause_of, followed
from ragsmith.diagnosis.evidence_coverage import verbatim
from ragsmith.digest import digest, fingerprint
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.index.index import Corpus
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.trace import Trace
from ragsmith.techniques.families import FAMILIES
from ragsmith.text.words import sentences
from ragsmith.types import Example, Passage, Span

AROUND = 120
"""Characters that are shown on either side of gold, or of what the answer took from a passage."""

BEGINNING = 160
"""Characters that are shown of a passage in which neither is."""

WITHOUT_GOLD = 2
"""Passages without gold, and not cited, that are shown all the same: the first ones, to see what was read instead."""

LONGEST_GOLD = 600
"""Characters of a gold passage that are shown."""

LONG_WORD = 30
"""Characters within which a cut is moved to the end of a word; where there is none, as in Chinese, it stays."""

_GAP, _LAST_GAP = re.compile(r"\s+"), re.compile(r"\s+(?=\S*$)")

LEFT_OUT = "…"
"""Marks omitted text."""


@dataclass(frozen=True, slots=True)
class PassageText:
    """A part of a text; ``gold`` if it belongs to a gold passage. "…" marks omitted text."""

    text: str
    gold: bool = False


@dataclass(frozen=True, slots=True)
class ReadPassage:
    """A passage as the generator was shown it.

    ``place`` is its number in the prompt, from 1. It comes from the characters ``[start, end)`` of the document
    ``doc``, called ``title``; one that was condensed from several has the first of them, and ``sources`` counts all.
    ``cited`` says whether the answer refers to it. ``pieces`` are its text in order, shortened around the gold.
    """

    place: int
    doc: str
    title: str
    start: int
    end: int
    pieces: tuple[PassageText, ...]
    cited: bool = False
    sources: int = 1

    @property
    def has_gold(self) -> bool:
        """Whether any of its text is gold."""
        return any(piece.gold for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class GoldPassage:
    """A gold passage of a question: its place, its text, shortened where it is long, and what became of it.

    ``lost`` is the value of the `Cause` that kept the generator from reading it, or "" where it was read.
    """

    doc: str
    title: str
    start: int
    end: int
    text: str
    lost: str = ""


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What one pipeline read for a question; ``further`` counts the passages that are left out here."""

    passages: tuple[ReadPassage, ...]
    further: int


def reading_of(corpus: Corpus, trace: Trace, example: Example) -> ReadContext:
    """The passages that the generator was shown: those with gold, those that are cited, and the first others."""
    answer = trace.answer
    passages = [
        _passage(corpus, example, place, passage, answer.text, cited=place - 1 in answer.cited)
        for place, passage in enumerate(trace.prompt.passages, 1)
    ]
    wanted = [one.has_gold or one.cited for one in passages]
    others = [place for place, is_wanted in enumerate(wanted) if not is_wanted]
    kept = {place for place, is_wanted in enumerate(wanted) if is_wanted} | set(others[:WITHOUT_GOLD])
    shown = tuple(one for place, one in enumerate(passages) if place in kept)
    return ReadContext(shown, len(passages) - len(shown))


def gold_of(corpus: Corpus, span: Span, lost: str) -> GoldPassage:
    """A gold passage, as it is shown."""
    text = corpus.text(span)
    text = text if len(text) <= LONGEST_GOLD else f"{text[: _word_end(text, LONGEST_GOLD, 0)].rstrip()}{LEFT_OUT}"
    return GoldPassage(span.doc, corpus.documents[span.doc].title, span.start, span.end, text, lost)


def _passage(
    corpus: Corpus, example: Example, place: int, passage: Passage, answer: str, *, cited: bool
) -> ReadPassage:
    span = verbatim(passage, corpus)
    source = span or next(iter(passage.sources), Span("", 0, 0))
    found = in_place(span, example.evidence) if span else in_words(corpus, passage, example.evidence)
    gold = merged(found)
    seen = [*gold, *([] if gold else _taken(passage.text, answer))]
    pieces = shortened(passage.text, gold, seen)
    title = corpus.documents[source.doc].title if source.doc in corpus.documents else ""
    return ReadPassage(place, source.doc, title, source.start, source.end, pieces, cited, max(1, len(passage.sources)))


Stretch = tuple[int, int]
"""A half-open range ``[start, end)`` of characters of a text."""


def in_place(span: Span, evidence: Iterable[Span]) -> list[Stretch]:
    """The ranges of gold in a passage that is the part ``span`` of a document."""
    near = (gold for gold in evidence if count_overlap(gold, span))
    return [(max(gold.start, span.start) - span.start, min(gold.end, span.end) - span.start) for gold in near]


def in_words(corpus: Corpus, passage: Passage, evidence: Iterable[Span]) -> list[Stretch]:
    """The ranges of verbatim sentences of gold in a rewritten passage."""
    near = [gold for gold in evidence if any(count_overlap(gold, source) for source in passage.sources)]
    return [stretch for gold in near for stretch in _taken(passage.text, corpus.text(gold))]


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stretches in order, those that overlap as one."""
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def shortened(text: str, gold: Sequence[Stretch], seen: Sequence[Stretch]) -> tuple[PassageText, ...]:
    """``text`` in parts with the gold marked: what is within `AROUND` characters of ``seen``, or its beginning."""
    windows = merged(
        (_word_start(text, start - AROUND, start), _word_end(text, end + AROUND, end)) for start, end in seen
    )
    pieces: list[PassageText] = []
    reached = 0
    for start, end in windows or [(0, _word_end(text, BEGINNING, 0))]:
        if start > reached:
            pieces.append(PassageText(LEFT_OUT))
        reached = start
        for first, last in [one for one in gold if one[0] < end and one[1] > start]:
            pieces += [PassageText(text[reached:first]), PassageText(text[first:last], gold=True)]
            reached = last
        pieces.append(PassageText(text[reached:end]))
        reached = end
    if reached < len(text):
        pieces.append(PassageText(LEFT_OUT))
    return tuple(piece for piece in pieces if piece.text)


def _word_start(text: str, at: int, most: int) -> int:
    """Where a text that is cut at ``at`` begins with a whole word, at ``most`` at the latest."""
    if at <= 0:
        return 0
    gap = _GAP.search(text[at - 1 : min(most, at + LONG_WORD)])
    return at - 1 + gap.end() if gap else at


def _word_end(text: str, at: int, least: int) -> int:
    """Where a text that is cut at ``at`` ends with a whole word, at ``least`` at the earliest."""
    if at >= len(text):
        return len(text)
    least = max(least, at - LONG_WORD)
    gap = _LAST_GAP.search(text[least : at + 1])
    return least + gap.start() if gap else at


def _taken(text: str, other: str) -> list[Stretch]:
    """The ranges of verbatim sentences of another text in a text."""
    parts = (other[start:end] for start, end in sentences(other) if end > start)
    return [(at, at + len(part)) for part in parts if (at := text.find(part)) >= 0]


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """Why a question went as it did in one pipeline.

    Of ``gold`` gold passages ``read`` reached the generator. ``passages`` are what it was shown, ``further`` how many
    more, and ``evidence`` the gold passages: of questions that are shown in full, else None.
    """

    cause: Cause
    gold: int
    read: int
    passages: tuple[ReadPassage, ...] | None = None
    further: int = 0
    evidence: tuple[GoldPassage, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As the store keeps it, with what made it."""
        kept: dict[str, Any] = {"code": code(), "cause": self.cause.value, "gold": self.gold, "read": self.read}
        if self.passages is None:
            return kept
        passages, evidence = (list(map(astuple, those)) for those in (self.passages, self.evidence))
        return {**kept, "passages": passages, "further": self.further, "evidence": evidence}

    @classmethod
    def stored(cls, value: Mapping[str, Any]) -> Diagnosed:
        """From `plain`."""
        passages = value.get("passages")
        return cls(
            Cause(value["cause"]),
            value["gold"],
            value["read"],
            None if passages is None else tuple(map(_restored, passages)),
            value.get("further", 0),
            tuple(GoldPassage(*gold) for gold in value.get("evidence", ())),
        )


def _restored(kept: Sequence[Any]) -> ReadPassage:
    place, doc, title, start, end, pieces, cited, sources = kept
    return ReadPassage(place, doc, title, start, end, tuple(PassageText(*piece) for piece in pieces), cited, sources)


@cache
def code() -> str:
    """Digest of the code that diagnoses: what another version kept is worked out again where it is at hand."""
    made_by = (("ragsmith.diagnosis.causes", name) for name in ("followed", "cause_of", "well_from"))
    return digest("diagnosis", *(fingerprint(*part) for part in (*made_by, (__name__, "Follow"))))[:16]


@dataclass(frozen=True)
class Follow:
    """Follows questions through a pipeline, where it runs; of those that are ``shown`` it also keeps what was read.

    ``answers`` says whether answers are generated. It is sent to worker processes.
    """

    shown: frozenset[str] = frozenset()
    answers: bool = True

    def __call__(
        self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example
    ) -> tuple[Followed, ReadContext | None, tuple[GoldPassage, ...]]:
        """What became of ``example``; ``setup`` is that of the candidate."""
        found = followed(engine, candidate, trace, example)
        if example.id not in self.shown or not self.answers:
            return found, None, ()
        gold = tuple(gold_of(engine.corpus, fate.span, fate.lost or "") for fate in found.fates)
        return found, reading_of(engine.corpus, trace, example), gold


def diagnosed(
    found: tuple[Followed, ReadContext | None, tuple[GoldPassage, ...]],
    example: Example,
    measures: Mapping[str, float | None],
    well: float,
) -> Diagnosed:
    """What `Follow` found, with the judge's mark among the ``measures`` of the question's record."""
    way, reading, gold = found
    cause = cause_of(way, answerable=example.answerable, mark=measures.get("judge"), well=well)
    passages, further = (reading.passages, reading.further) if reading else (None, 0)
    return Diagnosed(cause, len(way.fates), way.read, passages, further, gold)


MOST = 10
"""Questions that gained most, and that lost most, which are shown."""

WRONG = 5
"""Of the other questions, those on which the winner scores least, which are shown."""

Why = Literal["gained", "lost", "wrong"]


def shown(winner: Mapping[str, float], naive: Mapping[str, float]) -> dict[str, Why]:
    """The questions that are shown in full, and why, by the fitness of each in the winner and in naive RAG.

    Those that gained most, those that lost most, and of the rest those with the lowest fitness; equals by their ids.
    """
    gain = {question: winner[question] - naive[question] for question in sorted(winner.keys() & naive.keys())}
    gained = sorted((q for q in gain if gain[q] > 0), key=lambda q: -gain[q])[:MOST]
    lost = sorted((q for q in gain if gain[q] < 0), key=lambda q: gain[q])[:MOST]
    found: dict[str, Why] = {**dict.fromkeys(gained, "gained"), **dict.fromkeys(lost, "lost")}
    left = sorted((question for question in winner if question not in found), key=lambda q: (winner[q], q))
    return {**found, **dict.fromkeys(left[:WRONG], "wrong")}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A pipeline one gene away: ``alone`` is naive RAG with a gene of the winner, ``out`` the winner without it."""

    view: Literal["alone", "out"]
    place: int
    gene: Gene
    evaluation: Evaluation


def neighbours(winner: Evaluation, evaluations: Iterable[Evaluation]) -> list[Neighbour]:
    """Those of ``evaluations`` that show what one gene of the winner does, by place, each pipeline once."""
    plain, best = _written(baseline("naive")), _written(winner.candidate)
    differing = [place for place in range(len(FAMILIES)) if plain[place] != best[place]]
    rest = best[len(FAMILIES) :]
    wanted = {(*plain[:place], best[place], *plain[place + 1 :], *rest): ("alone", place) for place in differing}
    wanted |= {(*best[:place], plain[place], *best[place + 1 :]): ("out", place) for place in differing}
    if len(differing) == 1:  # then one is naive RAG and the other the winner
        return []
    found: dict[tuple[str, int], Neighbour] = {}
    for one in evaluations:
        match wanted.get(_written(one.candidate)):
            case ("alone" | "out") as view, place:
                found.setdefault((view, place), Neighbour(view, place, winner.candidate[place], one))
    return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0]))]


def _written(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """The genes as they are written, whatever was fitted."""
    return tuple((gene.technique.family, str(gene)) for gene in candidate)
