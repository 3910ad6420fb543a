"""The stored diagnosis of a question: its cause, its gold passages, and the passages in the prompt.

This module also selects the questions that are shown in full, and the evaluations that show the effect of an option.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any, Literal, Self

from ragsmith.datasets.relevance import count_overlap
from ragsmith.diagnosis.causes import Cause, QuestionTrace, find_cause, trace_question
from ragsmith.diagnosis.evidence_coverage import verbatim_span
from ragsmith.digest import digest, fingerprint
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.index.index import Corpus
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, Gene
from ragsmith.pipelines.trace import Trace
from ragsmith.techniques.families import FAMILIES
from ragsmith.text.restoring import stored_by_other_code
from ragsmith.text.words import sentences
from ragsmith.types import Example, Passage, Span, TitledSpan, places_of

CONTEXT_CHARACTERS = 120
"""Characters shown on either side of gold, or of sentences that the answer quotes."""

BEGINNING_CHARACTERS = 160
"""Characters shown of a passage without gold and quotes."""

MAX_OTHER_PASSAGES = 2
"""The number of passages shown that have no gold and are not cited."""

MAX_GOLD_CHARACTERS = 600
"""The largest number of characters shown of a gold passage."""

MAX_WORD_CHARACTERS = 30
"""Characters within which a cut is moved to the end of a word; without one, as in Chinese, it is not moved."""

_GAP, _LAST_GAP = re.compile(r"\s+"), re.compile(r"\s+(?=\S*$)")

ELLIPSIS = "…"
"""Marks omitted text."""


@dataclass(frozen=True, slots=True)
class PassageText:
    """A part of a text; ``gold`` if it belongs to a gold passage. "…" marks omitted text."""

    text: str
    gold: bool = False


@dataclass(frozen=True, slots=True)
class ReadPassage:
    """A passage in the prompt of the generator.

    ``place`` is its number in the prompt, from 1. It comes from the characters ``[start, end)`` of the document
    ``doc``, called ``title``; for a summary of several, these are the first one, and ``sources`` counts them.
    ``cited`` is whether the answer cites it. ``pieces`` are its text in order, shortened around the gold.
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
class GoldPassage(TitledSpan):
    """A gold passage of a question, with its position and its text, shortened if long.

    ``lost`` is the value of the `Cause` by which it did not reach the generator, or "" if it did.
    """

    text: str
    lost: str = ""


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The passages in the prompt for a question; ``further`` counts those left out."""

    passages: tuple[ReadPassage, ...]
    further: int


def make_read_context(corpus: Corpus, trace: Trace, example: Example) -> ReadContext:
    """Select passages of the prompt: those with gold, those that are cited, and the first others."""
    answer = trace.answer
    passages = [
        _make_read_passage(corpus, example, place, passage, answer.text, cited=place - 1 in answer.cited)
        for place, passage in enumerate(trace.prompt.passages, 1)
    ]
    wanted = [one.has_gold or one.cited for one in passages]
    others = [place for place, is_wanted in enumerate(wanted) if not is_wanted]
    kept = {place for place, is_wanted in enumerate(wanted) if is_wanted} | set(others[:MAX_OTHER_PASSAGES])
    shown = tuple(one for place, one in enumerate(passages) if place in kept)
    return ReadContext(shown, len(passages) - len(shown))


def make_gold_passage(corpus: Corpus, span: Span, lost: str) -> GoldPassage:
    """Describe a gold passage, shortened if it is long."""
    text = corpus.text(span)
    text = (
        text
        if len(text) <= MAX_GOLD_CHARACTERS
        else f"{text[: _word_end(text, MAX_GOLD_CHARACTERS, 0)].rstrip()}{ELLIPSIS}"
    )
    return GoldPassage(span.doc, corpus.documents[span.doc].title, span.start, span.end, text, lost)


def _make_read_passage(
    corpus: Corpus, example: Example, place: int, passage: Passage, answer: str, *, cited: bool
) -> ReadPassage:
    span = verbatim_span(passage, corpus)
    source = span or next(iter(passage.sources), Span("", 0, 0))
    found = gold_ranges(span, example.evidence) if span else quoted_gold_ranges(corpus, passage, example.evidence)
    gold = merge_ranges(found)
    seen = [*gold, *([] if gold else _find_quotes(passage.text, answer))]
    pieces = shorten(passage.text, gold, seen)
    title = corpus.documents[source.doc].title if source.doc in corpus.documents else ""
    return ReadPassage(place, source.doc, title, source.start, source.end, pieces, cited, max(1, len(passage.sources)))


TextRange = tuple[int, int]
"""A half-open range ``[start, end)`` of characters of a text."""


def gold_ranges(span: Span, evidence: Iterable[Span]) -> list[TextRange]:
    """Return the ranges of gold in a passage that is the part ``span`` of a document."""
    near = (place for gold in evidence for place in places_of(gold) if count_overlap(place, span))
    return [(max(gold.start, span.start) - span.start, min(gold.end, span.end) - span.start) for gold in near]


def quoted_gold_ranges(corpus: Corpus, passage: Passage, evidence: Iterable[Span]) -> list[TextRange]:
    """Return the ranges of verbatim sentences of gold in a rewritten passage."""
    places = (place for gold in evidence for place in places_of(gold))
    near = [gold for gold in places if any(count_overlap(gold, source) for source in passage.sources)]
    return [stretch for gold in near for stretch in _find_quotes(passage.text, corpus.text(gold))]


def merge_ranges(stretches: Iterable[TextRange]) -> list[TextRange]:
    """Sort ranges, and merge those that overlap."""
    found: list[TextRange] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def shorten(text: str, gold: Sequence[TextRange], seen: Sequence[TextRange]) -> tuple[PassageText, ...]:
    """Shorten ``text`` to `CONTEXT_CHARACTERS` around ``seen``, or its beginning, in parts with the gold marked."""
    windows = merge_ranges(
        (_word_start(text, start - CONTEXT_CHARACTERS, start), _word_end(text, end + CONTEXT_CHARACTERS, end))
        for start, end in seen
    )
    pieces: list[PassageText] = []
    reached = 0
    for start, end in windows or [(0, _word_end(text, BEGINNING_CHARACTERS, 0))]:
        if start > reached:
            pieces.append(PassageText(ELLIPSIS))
        reached = start
        for first, last in [one for one in gold if one[0] < end and one[1] > start]:
            pieces += [PassageText(text[reached:first]), PassageText(text[first:last], gold=True)]
            reached = last
        pieces.append(PassageText(text[reached:end]))
        reached = end
    if reached < len(text):
        pieces.append(PassageText(ELLIPSIS))
    return tuple(piece for piece in pieces if piece.text)


def _word_start(text: str, at: int, most: int) -> int:
    """Move the cut ``at`` forward to the start of a word, to ``most`` at the latest."""
    if at <= 0:
        return 0
    gap = _GAP.search(text[at - 1 : min(most, at + MAX_WORD_CHARACTERS)])
    return at - 1 + gap.end() if gap else at


def _word_end(text: str, at: int, least: int) -> int:
    """Move the cut ``at`` back to the end of a word, to ``least`` at the earliest."""
    if at >= len(text):
        return len(text)
    least = max(least, at - MAX_WORD_CHARACTERS)
    gap = _LAST_GAP.search(text[least : at + 1])
    return least + gap.start() if gap else at


def _find_quotes(text: str, other: str) -> list[TextRange]:
    """Return the ranges of verbatim sentences of another text in a text."""
    parts = (other[start:end] for start, end in sentences(other) if end > start)
    return [(at, at + len(part)) for part in parts if (at := text.find(part)) >= 0]


@dataclass(frozen=True, slots=True)
class QuestionDiagnosis:
    """The diagnosis of a question in one pipeline.

    Of ``gold`` gold passages, ``read`` reached the generator. Questions that are shown in full have the ``passages`` of
    the prompt, with the number of ``further`` ones, and the gold passages as ``evidence``; else ``passages`` is None.
    ``non_answer`` is that of `QuestionTrace`.
    """

    cause: Cause
    gold: int
    read: int
    passages: tuple[ReadPassage, ...] | None = None
    further: int = 0
    evidence: tuple[GoldPassage, ...] = ()
    non_answer: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis for the store, with the digest of the code that made it."""
        kept: dict[str, Any] = {"code": code_digest(), "cause": self.cause.value, "gold": self.gold, "read": self.read}
        kept |= {"non_answer": self.non_answer} if self.non_answer else {}
        if self.passages is None:
            return kept
        passages, evidence = (list(map(astuple, those)) for those in (self.passages, self.evidence))
        return {**kept, "passages": passages, "further": self.further, "evidence": evidence}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], key: str = "") -> Self:
        """Restore the diagnosis of the row with this ``key`` from the result of `to_dict`.

        Raises:
            UsageError: ``value`` is no diagnosis.
        """
        with stored_by_other_code("the diagnosis of a question", key and f"diagnosis:{key}"):
            passages = value.get("passages")
            return cls(
                Cause(value["cause"]),
                value["gold"],
                value["read"],
                None if passages is None else tuple(map(_restore_passage, passages)),
                value.get("further", 0),
                tuple(GoldPassage(*gold) for gold in value.get("evidence", ())),
                tuple(value.get("non_answer", ())),
            )


def _restore_passage(kept: Sequence[Any]) -> ReadPassage:
    place, doc, title, start, end, pieces, cited, sources = kept
    return ReadPassage(place, doc, title, start, end, tuple(PassageText(*piece) for piece in pieces), cited, sources)


@cache
def code_digest() -> str:
    """Return the digest of the code that diagnoses; diagnoses by other code are computed again."""
    made_by = (("ragsmith.diagnosis.causes", name) for name in ("trace_question", "find_cause", "good_score_threshold"))
    return digest("diagnosis", *(fingerprint(*part) for part in (*made_by, (__name__, "EvidenceTracer"))))[:16]


@dataclass(frozen=True)
class EvidenceTracer:
    """Traces questions in the process that runs them; for those in ``shown``, also returns the passages in the prompt.

    ``answers`` is whether answers are generated. Instances are sent to worker processes.
    """

    shown: frozenset[str] = frozenset()
    answers: bool = True

    def __call__(
        self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example
    ) -> tuple[QuestionTrace, ReadContext | None, tuple[GoldPassage, ...]]:
        """Trace ``example``; ``setup`` is the experiment of the candidate."""
        found = trace_question(engine, candidate, trace, example)
        if example.id not in self.shown or not self.answers:
            return found, None, ()
        gold = tuple(
            make_gold_passage(engine.corpus, gold_trace.span, gold_trace.lost or "") for gold_trace in found.gold_traces
        )
        return found, make_read_context(engine.corpus, trace, example), gold


def make_diagnosis(
    found: tuple[QuestionTrace, ReadContext | None, tuple[GoldPassage, ...]],
    example: Example,
    measures: Mapping[str, float | None],
    well: float,
) -> QuestionDiagnosis:
    """Create the diagnosis from the result of `EvidenceTracer` and the ``measures`` of the question."""
    way, reading, gold = found
    cause = find_cause(way, answerable=example.answerable, mark=measures.get("judge"), well=well)
    passages, further = (reading.passages, reading.further) if reading else (None, 0)
    return QuestionDiagnosis(cause, len(way.gold_traces), way.read, passages, further, gold, way.non_answer)


MAX_CHANGED_QUESTIONS = 10
"""The number of questions with the largest gains that are shown, and of those with the largest losses."""

MAX_WRONG_QUESTIONS = 5
"""The number of other questions that are shown, those with the lowest scores of the winner."""

Why = Literal["gained", "lost", "wrong"]


def select_shown_questions(winner: Mapping[str, float], naive: Mapping[str, float]) -> dict[str, Why]:
    """Select the questions that are shown in full, with the reason, by their fitness in the winner and in naive RAG.

    These have the largest gains, the largest losses, and the lowest fitness of the rest; ties are sorted by id.
    """
    gain = {question: winner[question] - naive[question] for question in sorted(winner.keys() & naive.keys())}
    gained = sorted((q for q in gain if gain[q] > 0), key=lambda q: -gain[q])[:MAX_CHANGED_QUESTIONS]
    lost = sorted((q for q in gain if gain[q] < 0), key=lambda q: gain[q])[:MAX_CHANGED_QUESTIONS]
    found: dict[str, Why] = {**dict.fromkeys(gained, "gained"), **dict.fromkeys(lost, "lost")}
    left = sorted((question for question in winner if question not in found), key=lambda q: (winner[q], q))
    return {**found, **dict.fromkeys(left[:MAX_WRONG_QUESTIONS], "wrong")}


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A pipeline one gene away: ``alone`` is naive RAG with a gene of the winner, ``out`` the winner without it."""

    view: Literal["alone", "out"]
    place: int
    gene: Gene
    evaluation: Evaluation


def find_neighbours(winner: Evaluation, evaluations: Iterable[Evaluation]) -> list[Neighbour]:
    """Return those of ``evaluations`` that show the effect of one gene of the winner, by place, each once."""
    plain, best = _gene_labels(baseline("naive")), _gene_labels(winner.candidate)
    differing = [place for place in range(len(FAMILIES)) if plain[place] != best[place]]
    rest = best[len(FAMILIES) :]
    wanted = {(*plain[:place], best[place], *plain[place + 1 :], *rest): ("alone", place) for place in differing}
    wanted |= {(*best[:place], plain[place], *best[place + 1 :]): ("out", place) for place in differing}
    if len(differing) == 1:  # the two neighbours are then naive RAG and the winner
        return []
    found: dict[tuple[str, int], Neighbour] = {}
    for one in evaluations:
        match wanted.get(_gene_labels(one.candidate)):
            case ("alone" | "out") as view, place:
                found.setdefault((view, place), Neighbour(view, place, winner.candidate[place], one))
    return [found[key] for key in sorted(found, key=lambda key: (key[1], key[0]))]


def _gene_labels(candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """Return the labels of genes, which do not depend on fitted weights."""
    return tuple((gene.technique.family, str(gene)) for gene in candidate)
