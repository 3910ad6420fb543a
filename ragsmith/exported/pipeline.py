"""Pipelines, loaded from a file or created in Python, which answer questions and can be evaluated and verified.

A file identifies its data set by a bundled name, or a path relative to the file, and by digest: it is an error if
documents have changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

from ragsmith.argument_types import checked
from ragsmith.datasets.changes import DocumentChanges
from ragsmith.datasets.dataset import load_documents_option
from ragsmith.datasets.documents import copies_of
from ragsmith.datasets.fields import get_types
from ragsmith.datasets.splits import search_only_split
from ragsmith.display import short_repr
from ragsmith.errors import UsageError, WrongOption, warn_caller
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment, sort_examples
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.fitting import add_general_weights, drop_general_weights
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.reference import Reference, ScoreDifference, find_unreproduced
from ragsmith.exported.requirements import refuse_missing_answers, refuse_too_large
from ragsmith.gateway.failures import Failures
from ragsmith.models.names import ModelNames, check_objects, model_name_from, partition_models
from ragsmith.models.own_prompts import PromptFiles, read_prompts
from ragsmith.models.vector_stores import serves_one_process
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, configuration, label, out_of_fold, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.stages import COLD, START, TOTAL, WARM, Clock, StageTimes, TimedEngine
from ragsmith.pipelines.telemetry import Traces
from ragsmith.pipelines.trace import Trace
from ragsmith.techniques.registry import load_techniques
from ragsmith.techniques.user_code import import_files
from ragsmith.text.declining import declines
from ragsmith.text.files import shorten
from ragsmith.text.filters import parse_filter
from ragsmith.types import Dataset, Example, Filter, Question, Span, TitledSpan

if TYPE_CHECKING:  # answering needs no database, whose import is slow
    from ragsmith.evaluation.threads import TraceObserver
    from ragsmith.store.store import Store

OPEN_STORE = "an open Store; ragsmith.evaluate(FILE, dataset=...) scores a pipeline on a data set"
"""The store of an evaluation, in messages."""

COLD_STARTS = 3
"""Number of questions that are also timed with a cold start, which includes building the index."""


@dataclass(frozen=True, slots=True)
class CitedSource(TitledSpan):
    """A passage in the prompt of the generator, with its span; ``cited`` is whether the answer cites it.

    ``also_in`` has the paths of the files that have the text of the document, too.
    """

    text: str
    cited: bool
    also_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and the distinct passages in the prompt of the generator, in order.

    ``declined`` is whether the pipeline abstained because the documents do not seem to answer the question. ``changes``
    are those of the documents since the pipeline was found, if known.
    """

    answer: str
    sources: tuple[CitedSource, ...]
    declined: bool = False
    changes: DocumentChanges | None = None

    __repr__ = short_repr


def require_question(question: str) -> None:
    """Raise `UsageError` unless ``question`` is a text with words."""
    if not isinstance(question, str) or not question.strip():
        raise UsageError(f"the question is {'blank' if isinstance(question, str) else repr(question)}: give a question")


class Pipeline:
    """A configuration of all stages, with the data set or documents that it answers questions about."""

    @checked
    def __init__(
        self,
        candidate: Annotated[Candidate, "its genes; Pipeline.load reads the file of a pipeline"],
        setup: Experiment,
        *,
        fitness: Fitness | None = None,
        expected: Mapping[str, Any] | None = None,
        model_ids: Mapping[str, str] | None = None,
        space: str = "",
        reference: Reference | None = None,
        chosen: bool = False,
        chosen_on_all: bool = False,
        found_on: str = "",
        stated_risk: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a pipeline; ``space`` is the name of its space, ``reference`` has the scores of its test questions.

        ``chosen`` is whether it was chosen on the search questions of its data set, or of an earlier state of it;
        ``chosen_on_all`` is whether on all questions, so that none is left to test it.
        ``found_on`` is the digest of the data set on which it was chosen, "" if unknown. ``stated_risk`` is the risk
        that it was calibrated to, see `ExportedFile.stated_risk`.
        """
        is_transferred = bool(found_on and setup.dataset.examples) and setup.dataset.digest != found_on
        self.candidate = add_general_weights(setup, drop_general_weights(candidate) if is_transferred else candidate)
        self.setup = setup
        self.fitness = fitness or Fitness()
        self.expected = dict(expected or {})
        self.model_ids = dict(model_ids or {})
        self.space = space
        self.reference = reference
        self.chosen = chosen or bool(expected)
        self.chosen_on_all = chosen_on_all
        self.found_on = found_on
        self.stated_risk = dict(stated_risk or {})
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        what = label(self.candidate) or "naive RAG" if self.candidate else "another system"
        return f"<{type(self).__name__}: {what}, on {self.setup.dataset.name}>"

    @classmethod
    @checked
    def load(
        cls,
        path: str | Path,
        *,
        dataset: Dataset | str | Path | None = None,
        documents: str | Path | None = None,
        models: Mapping[str, Any] | None = None,
        base_url: str | None = None,
        vector_store: str | None = None,
        imports: str | Path | Sequence[str | Path] = (),
        traces: Traces | None = None,
    ) -> Pipeline:
        """Read an exported pipeline, for its data set, another ``dataset``, or a folder of ``documents``.

        ``models`` has, by role, options of models, other models, or the model objects of the search, see
        `ragsmith.search`. ``base_url`` is the address of ``openai:`` models, and ``vector_store`` that of vectors.
        ``imports`` are the user's files that define techniques, measures and models; by default, they are imported from
        the paths in the file. ``traces`` is where spans of what it does are sent.

        Raises:
            UsageError: the file is invalid, its documents are missing or have changed, or a model object or a user's
                file is missing or has changed.
        """
        load_techniques()
        import_files(imports)
        exported = ExportedFile(Path(str(path)))
        exported.import_files()
        named, given = partition_models(models or {})
        names = exported.models().override(named, base_url, vector_store)
        check_objects({role: names.for_role(role) for role in names.named_roles}, given)
        if documents is not None and dataset is not None:
            raise WrongOption("documents", "and dataset both name the documents: give one of them")
        data = exported.dataset(dataset if documents is None else load_documents_option(documents))
        expected = exported.expected() if exported.is_on(data) else {}
        with_faithfulness = any("faithfulness" in scores for scores in expected.values()) if expected else None
        fitness = exported.fitness()
        setup = replace(exported.setup(data, names, with_faithfulness, given).for_fitness(fitness), traces=traces)
        chosen_on_all = exported.chosen_on_all(data)
        return cls(
            exported.candidate(),
            replace(setup, fixed_split=search_only_split(data)) if chosen_on_all else setup,
            fitness=fitness,
            expected=expected,
            model_ids=exported.model_ids(),
            space=exported.space(),
            reference=exported.reference(),
            chosen=exported.chosen_on(data),
            chosen_on_all=chosen_on_all,
            found_on=exported.dataset_digest(),
            stated_risk=exported.stated_risk(),
        )

    @checked
    def with_prompts(self, prompts: PromptFiles) -> Pipeline:
        """Return the pipeline with one's own prompts, by role, in place of those that it has; without expected scores.

        Raises:
            UsageError: a file cannot be used, or a role has several; or no technique or model reads a prompt.
        """
        wordings = read_prompts(prompts)
        if several := next((role for role, listed in wordings.items() if len(listed) > 1), ""):
            raise UsageError(f"{several} has several prompts, and a pipeline has one: give one, or search over them")
        if not self.setup.loaded_models.reads_prompts:
            raise WrongOption("language_model", "must name a chat model", "the embedded model reads no prompts")
        space = Space("this pipeline", "", tuple((gene,) for gene in self.candidate)).with_prompts(wordings)
        pipeline = copy(self)
        pipeline.candidate, pipeline.expected, pipeline._engine = space.candidate((0,) * len(space.sizes)), {}, None
        return pipeline

    @classmethod
    def of(
        cls,
        documents: str | Path,
        families: Mapping[str, Mapping[str, Any]],
        *,
        models: Mapping[str, Any] | None = None,
        chunk_size: int = CHUNK_SIZE,
        chunk_overlap: int = 0,
        base_url: str | None = None,
        vector_store: str | None = None,
        imports: str | Path | Sequence[str | Path] = (),
    ) -> Pipeline:
        """Create a pipeline in Python, on the documents in a folder, without expected scores.

        ``families`` has ``{"technique": name, "parameters": {...}}`` for each of the nine families, like ``pipeline``
        in an exported file; omitted parameters have their defaults. ``models`` has, by role, a name, a mapping of
        ``model`` and the options that affect results, or an object. Chunks have at most ``chunk_size`` characters and
        begin with up to ``chunk_overlap`` characters of the previous chunk. The other arguments are those of `load`.

        >>> ragsmith.Pipeline.of("minutes", {"retrieval": {"technique": "hybrid"}, ...}).ask("Who pays?").answer
        'The buyer.'

        Raises:
            UsageError: a family is missing, a technique, parameter or model is unknown, or documents cannot be read.
        """
        load_techniques()
        import_files(imports)
        parsed = {
            role: model_name_from(model) if isinstance(model, Mapping) else model
            for role, model in (models or {}).items()
        }
        named, given = partition_models(parsed)
        names = ModelNames().override(named, base_url, vector_store)
        names.check()
        if chunk_size < 1 or not 0 <= chunk_overlap < chunk_size:
            raise UsageError(
                f"chunks of {chunk_size} characters cannot overlap by {chunk_overlap}: give a chunk_size from 1 on, "
                "and a chunk_overlap from 0 on that is less"
            )
        data = load_documents_option(documents)
        setup = Experiment(data, names, chunk_size, None, given=given, chunk_overlap=chunk_overlap)
        return cls(read_configuration(families), setup)

    @property
    def configuration(self) -> dict[str, Any]:
        """What the pipeline answers with, besides its documents, chunks and models; a look at test questions has it."""
        return configuration(self.candidate)

    @contextmanager
    def remembering(self, store: Store) -> Iterator[Pipeline]:
        """Provide a copy of the pipeline that reads paid model replies from ``store`` and writes them to it.

        Replies that cannot be used are stored as failures, with what they cost, and are asked for again by the next
        command. Both pipelines share the index and the entity graph.

        Raises:
            StoreError: at the end, replies could not be stored; the message says how many.
        """
        engine = self.setup.engine(store, failures=Failures(store, retry_failed=True))
        engine.share_collection(self.engine)
        cached = copy(self)
        cached._engine = engine
        try:
            yield cached
        finally:
            engine.gateway.write_pending()

    def refuse_test(self, name: str, *, instead: str = "test it") -> None:
        """Raise `UsageError`, with ``name`` and the advice ``instead``, if no question is left to test the pipeline."""
        if self.chosen_on_all:
            raise UsageError(
                f"no question of {self.setup.dataset.name!r} tests {name}: it is the winner of a crossfit, which was "
                f"chosen on all {len(self.setup.split.search)}, and the report has the verdict of the folds; {instead} "
                "on another data set (--dataset)"
            )

    @property
    def engine(self) -> Engine:
        """The engine of the pipeline, built on first use.

        Raises:
            UsageError: the documents are too many for one of its techniques.
        """
        if self._engine is None:
            refuse_too_large(self.candidate, len(self.setup.corpus.chunks))
            self._engine = self.setup.engine()
        return self._engine

    @cached_property
    def field_types(self) -> Mapping[str, type]:
        """The types of the fields of the documents.

        Raises:
            UsageError: a field has two types.
        """
        return get_types(self.setup.corpus.documents.values())

    def run(self, question: str, filter: object = None) -> Trace:  # noqa: A002  the name of the option everywhere
        """Return the output of every stage for a question, see `ask`."""
        require_question(question)
        admitted = None if filter is None else self.parse_filter(filter)
        return self.engine.answer(self.candidate, Question(question, admitted))

    def parse_filter(self, given: object) -> Filter:
        """Return a filter of documents; warn with a `Notice` if it admits none.

        Raises:
            UsageError: it cannot be used.
        """
        parsed, documents = parse_filter(given, self.field_types), self.setup.corpus.documents.values()
        if not any(parsed.admits(document.fields) for document in documents):
            problem = f"the filter {shorten(given)} admits no document of {len(documents):,}"
            warn_caller(problem)
        return parsed

    def ask(self, question: str, *, filter: object = None) -> Reply:  # noqa: A002  as above
        """Answer ``question``, with its sources.

        With ``filter``, such as ``"tenant=acme and year>=2023"`` or ``{"tenant": "acme"}``, only documents with such
        fields are used (see `ragsmith.text.filters`); a `Notice` says if there is none.

        Raises:
            UsageError: the question is blank, or the filter cannot be used.
            StageFailed: a stage failed.
        """
        trace = self.run(question, filter)
        corpus = self.setup.corpus
        cited: dict[Span, bool] = {}
        for position, passage in enumerate(trace.prompt.passages):
            for span in passage.sources:
                cited[span] = cited.get(span, False) or position in trace.answer.cited
        sources = tuple(
            CitedSource(
                span.doc, document.title, span.start, span.end, corpus.text(span), is_cited, copies_of(document)
            )
            for span, is_cited in cited.items()
            for document in [corpus.documents[span.doc]]
        )
        return Reply(trace.answer.text, sources, declines(trace.answer.text))

    @checked
    def evaluate(
        self, store: Annotated[Store, OPEN_STORE], examples: Sequence[Example] | None = None, *, workers: int = 1
    ) -> Evaluation:
        """Evaluate the pipeline on ``examples``, by default all of its data set, through the store."""
        examples = self.select(self.setup.dataset.examples if examples is None else examples)
        from ragsmith.evaluation.evaluator import Evaluator  # noqa: PLC0415  as above

        with Evaluator(self.setup, store, workers, ranking_only=self.fitness.ranking_only) as evaluator:
            return evaluator.evaluate([self.candidate], examples)[0]

    def observe(
        self, store: Store, examples: Sequence[Example], observer: TraceObserver, *, workers: int = 1
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Evaluate the pipeline on ``examples``, and return what ``observer`` returns by question without failure."""
        from ragsmith.evaluation.evaluator import Evaluator  # noqa: PLC0415  as below

        with Evaluator(self.setup, store, workers, ranking_only=self.fitness.ranking_only) as evaluator:
            found = evaluator.evaluate([self.candidate], self.select(examples))[0]
            seen = evaluator.observe([(found.candidate, tuple(found.records))], observer)
            return found, {question: value for _, question, value in seen}

    def select(self, examples: Sequence[Example]) -> Sequence[Example]:
        """Return those of ``examples`` that have this fitness.

        Raises:
            UsageError: answers are scored, and the examples have no reference answers.
        """
        selected = [example for example in examples if example.evidence or not self.fitness.needs_evidence]
        if not self.fitness.ranking_only:
            refuse_missing_answers(selected)
        return selected

    def timings(self, examples: Sequence[Example], *, clock: Clock = perf_counter) -> list[StageTimes]:
        """Return the latency of each question by stage; questions run sequentially and share no caches.

        The index is built in advance and models are warm. The first `COLD_STARTS` questions are also timed with a cold
        start, which loads models and builds the index, unless only one process may open the vector store. Requests to
        paid models are repeated, even if their replies are in the cache.
        """
        times = []
        in_order = sort_examples(examples)
        warm = self.setup.engine()
        warm.prepare(self.candidate)
        for example in in_order[:1]:
            warm.answer(out_of_fold(self.candidate, example.question), example.as_question)
        for example in in_order:
            engine = TimedEngine(self.setup.engine(), clock)
            engine.take_over(warm, self.candidate)
            seconds = engine.ask(out_of_fold(self.candidate, example.question), example.as_question)
            times.append(StageTimes(example.id, WARM, seconds))
        cold = [] if serves_one_process(self.setup.loaded_models.vector_store_address) else in_order[:COLD_STARTS]
        return times + [self._time_cold_start(example, clock) for example in cold]

    def _time_cold_start(self, example: Example, clock: Clock) -> StageTimes:
        """Time a question with a cold start."""
        candidate = out_of_fold(self.candidate, example.question)
        started = clock()
        engine = TimedEngine(replace(self.setup).engine(), clock)
        engine.prepare(candidate)
        start = clock() - started
        seconds = engine.ask(candidate, example.as_question)
        return StageTimes(example.id, COLD, {START: start, **seconds, TOTAL: start + seconds[TOTAL]})

    def verify(self) -> list[ScoreDifference]:
        """Evaluate the pipeline again and return the scores that differ from those at export.

        Questions that failed at export are left out.

        Raises:
            RagsmithError: a question fails now.
        """
        if not self.expected:
            now = ", ".join(f"{role.replace('_', ' ')} {id_} now" for role, (_, id_) in self.changed_models().items())
            checked = f"its models have changed: {now}" if now else "its techniques, models and documents are available"
            raise UsageError(
                "there is nothing to verify, as the file has no expected scores on this data set: a search writes "
                f"them, and a pipeline that was recommended has none; {checked}, and `ragsmith evaluate` scores it"
            )
        return list(find_unreproduced(self.engine, self.setup, self.candidate, self.fitness, self.expected))

    def changed_models(self) -> dict[str, tuple[str, str]]:
        """Return the model ids at export and now, by role, if they differ."""
        now = self.setup.model_ids
        return {role: (then, now[role]) for role, then in self.model_ids.items() if role in now and then != now[role]}
