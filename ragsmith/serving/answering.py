"""Answer questions with a pipeline that is loaded once.

Each question has its own engine and gateway, which share the index, the models and the cache of paid replies. Memory is
therefore independent of the number of questions.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from ragsmith.caches import empty_caches
from ragsmith.datasets.relevance import count_overlap
from ragsmith.diagnosis.diagnosed import merge_ranges
from ragsmith.diagnosis.explaining import QuestionExplanation, explain_question
from ragsmith.digest import digest
from ragsmith.errors import RagsmithError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.gateway.budget import Prices
from ragsmith.gateway.memory import release_free_memory
from ragsmith.index.index import embed_queries
from ragsmith.models.usage import Meter, Usage
from ragsmith.pipelines.engine import Engine, stage_errors
from ragsmith.pipelines.stages import ObservedEngine, TimedEngine
from ragsmith.pipelines.trace import Trace
from ragsmith.serving.conversation import Turn, rewrite_question
from ragsmith.serving.monitoring import Metrics
from ragsmith.serving.workers import CancellationToken
from ragsmith.text.declining import declines
from ragsmith.types import Answer, Example, Filter, Hit, Question, Span

MIN_QUOTE_WORDS = 5
"""Minimum number of words of a quotation, as shorter ones occur by chance; a shorter answer counts as a whole."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """Quoted characters ``[start, end)`` of a passage."""

    start: int
    end: int


def find_quotes(answer: str, passage: str) -> tuple[QuotedSpan, ...]:
    """Return the parts of ``passage`` that occur in ``answer``, in order; case and punctuation are ignored.

    >>> find_quotes("It takes three years.", "It begins then. It takes three years, unless ...")
    (QuotedSpan(start=16, end=36),)
    """
    answer_words = [word.casefold() for word in _WORD.findall(answer)]
    tokens = [(match.group().casefold(), match.start(), match.end()) for match in _WORD.finditer(passage)]
    n = min(MIN_QUOTE_WORDS, len(answer_words))
    if not n:
        return ()
    ngrams = {tuple(answer_words[i : i + n]) for i in range(len(answer_words) - n + 1)}
    words = [word for word, _, _ in tokens]
    first_words = {ngram[0] for ngram in ngrams}  # a fast test, which excludes most words
    starts = [i for i in range(len(words) - n + 1) if words[i] in first_words and tuple(words[i : i + n]) in ngrams]
    stretches = merge_ranges((start, start + n) for start in starts)  # of words
    return tuple(QuotedSpan(tokens[first][1], tokens[end - 1][2]) for first, end in stretches)


if TYPE_CHECKING:
    from ragsmith.store.store import Store

ANSWERS_PER_CLEARING = 512
"""Number of answers after which the caches of indexes, models and functions are cleared.

The caches are bounded only by their number of entries. Clearing them did not slow down 16,000 answers from `law`."""

CHECK_TEXT = "ready"
"""The text that is searched for to check whether the vector store answers."""


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """Characters ``[start, end)`` of a document, with their text.

    ``number`` is the number, from 1, of the passage in the prompt, or the rank of a passage that was only retrieved;
    ``cited`` is whether the answer cites it. ``score`` is that of the best hit in it, on ``scale``; None without a hit,
    as for the context of a hit. ``quotes`` are the parts that the answer quotes, as characters of the document; they
    are searched in cited passages, or in all passages if the answer has no citations.

    A summary has no position: ``start`` and ``end`` are 0, ``sources`` are the summarised spans, and ``doc`` is "" if
    these are in several documents. An answer refers to the sources, never to a summary.
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
    """Answer to ``question``, in its self-contained form if it was part of a conversation.

    ``stages`` is the explanation of the stages of the pipeline, if it was requested.
    """

    question: str
    answer: str
    declined: bool
    passages: tuple[SourcePassage, ...]
    usage: Usage
    stages: QuestionExplanation | None = None


@dataclass(frozen=True, slots=True)
class ServedPassages:
    """Passages that a pipeline retrieves for a question, best first."""

    question: str
    passages: tuple[SourcePassage, ...]


class PipelineService:
    """Service that answers with ``pipeline``, and caches paid replies in ``store``; thread-safe.

    ``metrics`` has what it does, in money by ``prices``.
    """

    def __init__(self, pipeline: Pipeline, store: Store | None = None, prices: Prices | None = None) -> None:
        self.pipeline = pipeline
        self.setup = pipeline.setup
        self.prefers_threads = pipeline.setup.loaded_models.prefers_threads
        self.pipeline_id = digest("pipeline", pipeline.configuration, self.setup.model_ids, self.setup.dataset.digest)
        """Identifies what answers: the options of the pipeline, its models and its documents."""
        self._resources = ExitStack()
        self._base_engine = pipeline.setup.engine(store)
        self._base_engine.share_collection(pipeline.engine)
        self._store, self.metrics = store, Metrics(prices)
        self.metrics.build.info({"version": version("ragsmith"), "pipeline": self.pipeline_id})
        self._n_answers = 0
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Build the indexes of the collection, and load embedded models.

        Raises:
            StageFailed: a stage failed.
        """
        self._base_engine.prepare(self.pipeline.candidate)
        if not self.prefers_threads:  # the first question loads the models, at no cost
            first = next(iter(self.setup.corpus.documents.values()))
            self.pipeline.ask(first.title or "?")

    def find_missing(self) -> Mapping[str, str]:
        """Return what answers need and is not available now, with the reasons.

        Requests to models cost nothing, unless one seems to be down. Documents and indexes are in memory, except for
        vectors in a server.
        """
        models, candidate = self.setup.loaded_models, self.pipeline.candidate
        tools = {tool for gene in candidate for tool in gene.technique.tools.values()}
        roles = ["language_model", "controller", *sorted(tools & {"embedder", "cross_encoder"})]
        checks: dict[str, Callable[[], object]] = {
            **{role.replace("_", " "): getattr(getattr(models, role), "find_outage", str) for role in roles},
            "cache": partial(self._store.get_calls, [CHECK_TEXT]) if self._store else str,
            "vector store": self._search_vectors,
        }
        return {name: why for name, check in checks.items() if (why := _find_problem(check))}

    def _search_vectors(self) -> None:
        """Search for a vector, if retrieval does."""
        embedder = self._base_engine.gateway.embedder(self.setup.loaded_models.embedder, Meter())
        index = self._base_engine.searched(self.pipeline.candidate)
        if f"vector store {embedder.id}" in index.cached_names:
            index.vector_store(embedder).search(embed_queries(embedder, [CHECK_TEXT]), 1)

    def keep_open(self, resources: ExitStack) -> None:
        """Close ``resources``, which include the store, when the service is closed."""
        self._resources.push(resources)

    def close(self, *, is_idle: bool = False) -> None:
        """Stop all requests to models, and close the store.

        With ``is_idle``, there are no requests, and models stay usable by another service that may share them.

        Raises:
            StoreError: paid replies could not be written.
        """
        if not is_idle:
            self._base_engine.gateway.stop()
        try:
            self._base_engine.gateway.write_pending()
        finally:
            self._resources.close()

    def ask(
        self, question: Question, cancellation: CancellationToken, *, turns: Sequence[Turn] = (), stages: bool = False
    ) -> ServedAnswer:
        """Answer ``question``, which follows ``turns``, from the documents that its filter admits.

        Raises:
            StageFailed: a stage failed or was cancelled.
        """
        meter = Meter()
        with self._engine(cancellation) as engine:
            if turns:
                model = engine.gateway.language_model(engine.models.technique_model, meter)
                with stage_errors("conversation", "self_contained"):
                    question = replace(question, text=rewrite_question(model, turns, question.text))
            trace = engine.answer(self.pipeline.candidate, question)
            explanation = self._explain(engine, question) if stages else None
        usage = sum(trace.usage.values(), meter.total())
        answer = trace.answer.text
        self.metrics.declined.inc(is_declined := declines(answer))
        return ServedAnswer(question.text, answer, is_declined, self._source_passages(trace), usage, explanation)

    def retrieve(self, question: Question, cancellation: CancellationToken) -> ServedPassages:
        """Return the passages for ``question`` after the passage filter, without generation. Raises as `ask`."""
        with self._engine(cancellation) as engine:
            trace = engine.rank(self.pipeline.candidate, question)
        return ServedPassages(
            question.text, tuple(self._hit_passage(rank, hit) for rank, hit in enumerate(trace.hits, 1))
        )

    def explain(self, question: Question, cancellation: CancellationToken) -> QuestionExplanation:
        """Explain the stages for ``question``, without gold and scores, which require a judge.

        Raises as `ask`.
        """
        with self._engine(cancellation) as engine:
            return self._explain(engine, question)

    def span_text(self, doc: str, start: int, end: int, admitted: Filter | None = None) -> str | None:
        """Return the text of a span of a document; None if there is no such span in the ``admitted`` documents."""
        document = self.setup.corpus.documents.get(doc)
        if (
            document is None
            or (admitted and not admitted.admits(document.fields))
            or not 0 <= start < end <= len(document.text)
        ):
            return None
        return document.text[start:end]

    def _explain(self, engine: Engine, question: Question) -> QuestionExplanation:
        example = Example("", question.text, "", "", (), filter=question.filter)
        return explain_question(engine, self.setup, self.pipeline.candidate, example, self.pipeline.fitness)

    @contextmanager
    def _engine(self, cancellation: CancellationToken) -> Iterator[Engine]:
        """Provide an engine for one request, whose model calls ``cancellation`` cancels; its work is recorded."""
        with self._lock:
            self._n_answers += 1
            is_due = self._n_answers % ANSWERS_PER_CLEARING == 0
        if is_due:
            empty_caches()
            release_free_memory()
        gateway = self._base_engine.gateway.for_request()
        cancellation.on_cancel(gateway.cancel)
        made = self.setup.engine(gateway=gateway)
        engine = made if isinstance(made, ObservedEngine) else TimedEngine(made)
        engine.share_collection(self._base_engine)
        try:
            yield engine
        finally:
            self.metrics.work(engine)

    def _hit_passage(self, rank: int, hit: Hit) -> SourcePassage:
        """Return a hit with the text of its document, or a summary with its own text."""
        chunk, document = hit.chunk, self.setup.corpus.documents.get(hit.chunk.doc)
        return SourcePassage(
            rank,
            chunk.doc,
            document.title if document else chunk.title,
            chunk.start,
            chunk.end,
            chunk.text if chunk.level else self.setup.corpus.text(chunk.span),
            round(hit.score, 6),
            hit.scale.value,
            sources=chunk.sources,
        )

    def _source_passages(self, trace: Trace) -> tuple[SourcePassage, ...]:
        """Return the distinct spans in the prompt of the generator, preferably of cited passages."""
        corpus, answer = self.setup.corpus, trace.answer
        passages: dict[Span, SourcePassage] = {}
        for position, passage in enumerate(trace.prompt.passages):
            for span in passage.sources:
                cited = position in answer.cited
                if span in passages and (passages[span].cited or not cited):
                    continue
                text, best_hit = corpus.text(span), _best_hit(trace.hits, span)
                passages[span] = SourcePassage(
                    position + 1,
                    span.doc,
                    corpus.documents[span.doc].title,
                    span.start,
                    span.end,
                    text,
                    round(best_hit.score, 6) if best_hit else None,
                    best_hit.scale.value if best_hit else "",
                    cited,
                    _quotes(answer, text, span.start) if cited or not answer.cited else (),
                )
        return tuple(passages.values())


def _find_problem(check: Callable[[], object]) -> str:
    """Return what ``check`` returns, or the message of the error that it raises; "" if nothing is wrong."""
    try:
        return str(check() or "")
    except RagsmithError as error:
        return str(error)


def _quotes(answer: Answer, text: str, start: int) -> tuple[QuotedSpan, ...]:
    """Return the quotations of the answer from ``text``, which begins at character ``start`` of its document."""
    return tuple(QuotedSpan(start + quote.start, start + quote.end) for quote in find_quotes(answer.text, text))


def _best_hit(hits: Sequence[Hit], span: Span) -> Hit | None:
    """Return the first of the ranked hits that overlaps ``span``."""
    return next((hit for hit in hits if count_overlap(hit.chunk.span, span)), None)
