"""One pipeline that many ask: loaded once, and what one request gets from it.

Nothing of a question is remembered in this process when it is answered: each has an engine and a gateway of its own,
which share the index, the models and the cache of paid replies. So memory stays as it is however many come.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragsmith.caches import empty_caches
from ragsmith.diagnosis.explaining import QuestionExplanation, explain_question
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.memory import release_free_memory
from ragsmith.models.usage import Meter, Usage
from ragsmith.pipelines.engine import Engine, failing_as
from ragsmith.pipelines.trace import Trace
from ragsmith.serving.conversation import Turn, rewrite_question
from ragsmith.serving.workers import CancellationToken
from ragsmith.text.declining import declines
from ragsmith.types import Answer, Example, Hit, Question, Span

IN_A_ROW = 5
"""Words that must stand in a row in both: fewer are said by chance. Of a shorter answer, all of it."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """Where the words stand: characters of the passage, the end not included."""

    start: int
    end: int


def quoted(answer: str, passage: str) -> tuple[QuotedSpan, ...]:
    """The parts of ``passage`` that stand word by word in ``answer``, in order; case and punctuation do not count.

    >>> quoted("It takes three years.", "It begins then. It takes three years, unless ...")
    (Quote(start=16, end=36),)
    """
    said = [word.casefold() for word in _WORD.findall(answer)]
    places = [(match.group().casefold(), match.start(), match.end()) for match in _WORD.finditer(passage)]
    n = min(IN_A_ROW, len(said))
    if not n:
        return ()
    runs = {tuple(said[i : i + n]) for i in range(len(said) - n + 1)}
    words = [word for word, _, _ in places]
    firsts = {run[0] for run in runs}  # few words are, and the others need no closer look
    begins = [i for i in range(len(words) - n + 1) if words[i] in firsts and tuple(words[i : i + n]) in runs]
    return tuple(QuotedSpan(places[first][1], places[last][2]) for first, last in _joined(begins, n))


def _joined(begins: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Runs of ``n`` words from each of ``begins``, those that touch as one: positions of the first and last word."""
    found: list[tuple[int, int]] = []
    for begin in begins:
        if found and begin <= found[-1][1] + 1:
            found[-1] = (found[-1][0], begin + n - 1)
        else:
            found.append((begin, begin + n - 1))
    return found


if TYPE_CHECKING:
    from ragsmith.store.store import Store

ANSWERS_A_CLEARING = 512
"""After so many, what indexes, models and functions remember is given up: they bound it by the number of its entries,
and 16,000 answers from `law` took as long when it was found again as when it was kept."""


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A part of a document: characters ``start`` to ``end`` of it, and what stands there.

    ``number`` is that of the passage that it was shown in, from 1, and ``cited`` says whether the answer refers to it;
    of what was only retrieved, it is its place. ``score`` is that of the best hit in it, on the scale ``scale``; None
    where there was none, as around what was found. ``quotes`` are the words that the answer says, as characters of the
    document, in what it cites, or in all of it where it cites nothing.

    A summary lies nowhere: it has no document where it sums up parts of several, ``start`` and ``end`` are 0, and
    ``sources`` are the places that it sums up. An answer never rests on one, but on its sources.
    """

    number: int
    doc: str
    title: str
    start: int
    end: int
    text: str
    score: float | None
    scale: str
    cited: bool = False
    quotes: tuple[QuotedSpan, ...] = ()
    sources: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """An answer: ``question`` is what was answered, after a conversation written out.

    ``stages`` is the way of the question through the pipeline, where that was asked for.
    """

    question: str
    answer: str
    declined: bool
    passages: tuple[SourcePassage, ...]
    usage: Usage
    stages: QuestionExplanation | None = None


@dataclass(frozen=True, slots=True)
class ServedPassages:
    """What a pipeline finds for a question, best first."""

    question: str
    passages: tuple[SourcePassage, ...]


class PipelineService:
    """Answers with ``pipeline``; paid replies are kept in ``store`` if there is one. Safe to use from many threads."""

    def __init__(self, pipeline: Pipeline, store: Store | None = None) -> None:
        self.pipeline = pipeline
        self.setup = pipeline.setup
        self.waits = pipeline.setup.loaded_models.waits
        self._opened = ExitStack()
        self._base = pipeline.setup.engine(store)
        self._base.share_collection(pipeline.engine)
        self._answers = 0
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Build what is needed once for the collection, and have embedded models read what they read once.

        Raises:
            StageFailed: it cannot be built.
        """
        self._base.prepare(self.pipeline.candidate)
        if not self.waits:  # it costs nothing but the time that the first question would take
            self.ask(next(iter(self.setup.corpus.documents.values())).title or "?", CancellationToken())

    def keep_open(self, opened: ExitStack) -> None:
        """Close ``opened`` in the end, which holds the store."""
        self._opened.push(opened)

    def close(self) -> None:
        """Send nothing more, and close what was opened.

        Raises:
            StoreError: paid replies could not be kept.
        """
        self._base.gateway.stop()
        try:
            self._base.gateway.write_pending()
        finally:
            self._opened.close()

    def ask(
        self, question: str, stop: CancellationToken, *, turns: Sequence[Turn] = (), stages: bool = False
    ) -> ServedAnswer:
        """Answer ``question``, asked after ``turns``.

        Raises:
            StageFailed: a stage failed, or was told to stop.
        """
        engine = self._engine(stop)
        meter = Meter()
        if turns:
            model = engine.gateway.language_model(engine.models.technique_model, meter)
            with failing_as("conversation", "self_contained"):
                question = rewrite_question(model, turns, question)
        trace = engine.answer(self.pipeline.candidate, Question(question))
        usage = sum(trace.usage.values(), meter.total())
        answer = trace.answer.text
        way = self._explained(engine, question) if stages else None
        return ServedAnswer(question, answer, declines(answer), self._read(trace), usage, way)

    def retrieve(self, question: str, stop: CancellationToken) -> ServedPassages:
        """What is found for ``question``, after the filter: nothing is generated. Raises as `ask`."""
        trace = self._engine(stop).rank(self.pipeline.candidate, Question(question))
        return ServedPassages(question, tuple(self._found(place, hit) for place, hit in enumerate(trace.hits, 1)))

    def explain(self, question: str, stop: CancellationToken) -> QuestionExplanation:
        """The way of ``question`` through the pipeline, without gold and marks, which would ask a judge.

        Raises as `ask`.
        """
        return self._explained(self._engine(stop), question)

    def span_text(self, doc: str, start: int, end: int) -> str | None:
        """What stands in a document; None where there is no such place."""
        document = self.setup.corpus.documents.get(doc)
        if document is None or not 0 <= start < end <= len(document.text):
            return None
        return document.text[start:end]

    def _explained(self, engine: Engine, question: str) -> QuestionExplanation:
        example = Example("", question, "", "", ())
        return explain_question(engine, self.setup, self.pipeline.candidate, example, self.pipeline.fitness)

    def _engine(self, stop: CancellationToken) -> Engine:
        """An engine for one request, which asks no model any more when it is to stop."""
        with self._lock:
            self._answers += 1
            clear = self._answers % ANSWERS_A_CLEARING == 0
        if clear:
            self._clear()
        gateway = self._base.gateway.for_request()
        stop.tells(gateway.cancel)
        engine = self.setup.engine(gateway=gateway)
        engine.share_collection(self._base)
        return engine

    def _clear(self) -> None:
        """Give up what is remembered of questions, as far as it can be found again."""
        empty_caches()
        release_free_memory()

    def _found(self, place: int, hit: Hit) -> SourcePassage:
        """A hit, as its document has it, or a summary as it was written."""
        chunk, document = hit.chunk, self.setup.corpus.documents.get(hit.chunk.doc)
        return SourcePassage(
            place,
            chunk.doc,
            document.title if document else chunk.title,
            chunk.start,
            chunk.end,
            chunk.text if chunk.level else self.setup.corpus.text(chunk.span),
            round(hit.score, 6),
            hit.scale.value,
            sources=chunk.sources,
        )

    def _read(self, trace: Trace) -> tuple[SourcePassage, ...]:
        """What the generator was shown, each part of a document once: where it was cited, if it was."""
        corpus, answer = self.setup.corpus, trace.answer
        shown: dict[Span, SourcePassage] = {}
        for position, passage in enumerate(trace.prompt.passages):
            for span in passage.sources:
                cited = position in answer.cited
                if span in shown and (shown[span].cited or not cited):
                    continue
                text, best = corpus.text(span), _best(trace.hits, span)
                shown[span] = SourcePassage(
                    position + 1,
                    span.doc,
                    corpus.documents[span.doc].title,
                    span.start,
                    span.end,
                    text,
                    round(best.score, 6) if best else None,
                    best.scale.value if best else "",
                    cited,
                    _quotes(answer, text, span.start) if cited or not answer.cited else (),
                )
        return tuple(shown.values())


def _quotes(answer: Answer, text: str, start: int) -> tuple[QuotedSpan, ...]:
    """The words of ``text``, which begins at character ``start`` of its document, that the answer says."""
    return tuple(QuotedSpan(start + quote.start, start + quote.end) for quote in quoted(answer.text, text))


def _best(hits: Sequence[Hit], span: Span) -> Hit | None:
    """The best of the hits that have a part of ``span``; they are in order."""
    return next(
        (h for h in hits if h.chunk.doc == span.doc and h.chunk.start < span.end and span.start < h.chunk.end), None
    )


def plain(value: Any) -> Any:
    """``value`` for JSON: objects become mappings, and tuples lists."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value
