"""The exported pipeline: YAML with every parameter resolved, which can be asked, evaluated elsewhere and verified.

The file names its data set by bundled name, or by a path relative to the file itself, and by digest: a pipeline whose
documents changed says so instead of answering from others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

from ragsmith import __version__
from ragsmith.bundled import bundled, names
from ragsmith.datasets import load_dataset
from ragsmith.errors import RagsmithError, SpaceError, UsageError
from ragsmith.evaluate import Evaluation, Evaluator
from ragsmith.models.loading import ModelNames
from ragsmith.pipeline import Candidate, Engine, Trace
from ragsmith.registry import load_techniques
from ragsmith.runner import evaluate_job
from ragsmith.scoring import GENERATION_METRICS, RETRIEVAL_METRICS, Weights
from ragsmith.setup import Setup, configuration, ordered
from ragsmith.space import read_configuration
from ragsmith.splits import split
from ragsmith.store import Store
from ragsmith.strict_yaml import Tree, YamlError, read_yaml, unknown_key_message
from ragsmith.types import Dataset, Example, Question, Span

FORMAT = 1
METRICS = ("fitness", "retrieval", "generation", *RETRIEVAL_METRICS, *GENERATION_METRICS)
TOLERANCE = 1e-9
KEYS = ("format", "ragsmith", "dataset", "chunk_size", "models", "weights", "pipeline", "run", "expected")


@dataclass(frozen=True, slots=True)
class Source:
    """A passage that an answer rests on, and where it stands. ``cited`` says whether the answer refers to it."""

    doc: str
    title: str
    start: int
    end: int
    text: str
    cited: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and the passages the generator was shown, in the order shown."""

    answer: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A score that verification did not reproduce."""

    part: str
    metric: str
    expected: float
    found: float | None


class Pipeline:
    """One configuration over one data set."""

    def __init__(
        self,
        candidate: Candidate,
        setup: Setup,
        *,
        weights: Weights | None = None,
        expected: Mapping[str, Any] | None = None,
        model_ids: Mapping[str, str] | None = None,
    ) -> None:
        self.candidate = candidate
        self.setup = setup
        self.weights = weights or Weights()
        self.expected = dict(expected or {})
        self.model_ids = dict(model_ids or {})
        self._engine: Engine | None = None

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        dataset: str | Path | None = None,
        base_url: str | None = None,
    ) -> Pipeline:
        """Read an exported pipeline; ``dataset`` puts it on other documents.

        Raises:
            UsageError: the file is wrong, or its documents are not where it says or are not the same any more.
        """
        load_techniques()
        exported = _Reader(Path(path))
        data = exported.dataset(dataset)
        return cls(
            exported.candidate(),
            Setup(data, replace(exported.models(), base_url=base_url), exported.chunk_size()),
            weights=exported.weights(),
            expected=exported.expected() if dataset is None else None,
            model_ids=exported.model_ids(),
        )

    def remember(self, store: Store) -> None:
        """Keep paid model replies in ``store``, and use those that are there."""
        self._engine = self.setup.engine(store)

    @property
    def engine(self) -> Engine:
        """What runs the pipeline, built on first use."""
        if self._engine is None:
            self._engine = self.setup.engine()
        return self._engine

    def run(self, question: str) -> Trace:
        """Every stage's output for a question."""
        if not question.strip():
            raise UsageError("the question is blank")
        return self.engine.answer(self.candidate, Question(question))

    def ask(self, question: str) -> Reply:
        """Answer ``question`` with the passages that the answer rests on."""
        trace = self.run(question)
        corpus = self.setup.corpus
        sources = []
        for position, passage in enumerate(trace.prompt.passages):
            for span in passage.sources:
                document = corpus.documents[span.doc]
                cited = position in trace.answer.cited
                sources.append(Source(span.doc, document.title, span.start, span.end, corpus.text(span), cited))
        return Reply(trace.answer.text, _distinct(sources))

    def evaluate(self, store: Store, examples: Sequence[Example] | None = None, *, workers: int = 1) -> Evaluation:
        """Scores on the data set's questions, through the store."""
        with Evaluator(self.setup, store, workers) as evaluator:
            examples = self.setup.dataset.examples if examples is None else examples
            return evaluator.evaluate([self.candidate], examples)[0]

    def verify(self) -> list[Difference]:
        """Run the pipeline again, from its documents, and compare with the scores it was exported with.

        Raises:
            RagsmithError: a question fails now.
        """
        if not self.expected:
            raise UsageError("the file has no expected scores to verify")
        parts = split(self.setup.dataset)
        differences: list[Difference] = []
        for part, examples in (("search", parts.search), ("test", parts.test)):
            if part in self.expected:
                differences += self._compare(part, self._fresh(examples))
        return differences

    def changed_models(self) -> dict[str, tuple[str, str]]:
        """Role to the model id that the file was exported with and the one it has now, where they differ."""
        now = self.setup.loaded_models.ids()
        return {role: (then, now[role]) for role, then in self.model_ids.items() if role in now and then != now[role]}

    def _fresh(self, examples: Sequence[Example]) -> Evaluation:
        records = {}
        for example in ordered(examples):
            finished = evaluate_job(self.engine, self.setup, self.candidate, (0, example.id))
            if not finished.ok:
                raise RagsmithError(
                    f"question {example.id} fails in {finished.value['stage']}: {finished.value['error']}"
                )
            records[example.id] = finished.value
        return Evaluation("fresh", self.candidate, tuple(records), records, {})

    def _compare(self, part: str, evaluation: Evaluation) -> list[Difference]:
        expected = self.expected[part]
        if expected["questions"] != len(evaluation.questions):
            return [Difference(part, "questions", expected["questions"], len(evaluation.questions))]
        found = {metric: evaluation.mean(metric, self.weights) for metric in METRICS}
        return [
            Difference(part, metric, expected[metric], value)
            for metric, value in found.items()
            if value is None or not math.isclose(value, expected[metric], rel_tol=0.0, abs_tol=TOLERANCE)
        ]


def _distinct(sources: Sequence[Source]) -> tuple[Source, ...]:
    """Each span once; cited if any passage made from it is."""
    merged: dict[Span, Source] = {}
    for source in sources:
        span = Span(source.doc, source.start, source.end)
        if span not in merged or source.cited:
            merged[span] = source
    return tuple(merged.values())


def export_yaml(
    evaluation: Evaluation,
    test: Evaluation | None,
    setup: Setup,
    run: Mapping[str, Any],
    *,
    location: Mapping[str, str],
    weights: Weights,
) -> str:
    """The YAML of a pipeline: nothing in it depends on when, where or on how many workers it was found."""
    names = {key: value for key, value in asdict(setup.models).items() if key != "base_url" and value is not None}
    content = {
        "format": FORMAT,
        "ragsmith": __version__,
        "dataset": {"name": setup.dataset.name, **location, "digest": setup.dataset.digest},
        "chunk_size": setup.chunk_size,
        "models": {**names, "ids": setup.loaded_models.ids()},
        "weights": asdict(weights),
        "pipeline": configuration(evaluation.candidate),
        "run": dict(run),
        "expected": {
            part: {"questions": len(e.questions), **{metric: e.mean(metric, weights) for metric in METRICS}}
            for part, e in (("search", evaluation), ("test", test))
            if e is not None and e.complete
        },
    }
    head = f'# A pipeline found by ragsmith {__version__}.  Ask it:  ragsmith ask THIS_FILE "your question"\n'
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def dataset_location(given: str, folder: Path) -> dict[str, str]:
    """How a file in ``folder`` names the data set that the user called ``given``: by bundled name, or relative path."""
    path = Path(given)
    if not path.is_dir() and given in names("datasets"):
        return {"bundled": given}
    return {"path": Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()}


class _Reader:
    """Reads an exported file; every complaint has file and line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._tree: Tree = read_yaml(path)
        except YamlError as error:
            raise SpaceError(str(error)) from error
        if not isinstance(self._tree.data, dict):
            raise self._error((), "this is not an exported pipeline: it must be 'name: value' pairs")
        self._data: dict[str, Any] = self._tree.data
        for key in self._data:
            if key not in KEYS:
                raise self._error((key,), unknown_key_message(key, KEYS))
        if self._data.get("format") != FORMAT:
            raise self._error(("format",), f"this ragsmith reads format {FORMAT}, not {self._data.get('format')!r}")

    def candidate(self) -> Candidate:
        pipeline = self._section("pipeline")
        for family, gene in pipeline.items():
            well = isinstance(gene, dict) and isinstance(gene.get("technique"), str)
            if not well or set(gene) - {"technique", "parameters"} or not isinstance(gene.get("parameters", {}), dict):
                raise self._error(("pipeline", family), f"{family} must have a 'technique' by name, and 'parameters'")
        return read_configuration(pipeline, self._tree.where("pipeline"))

    def models(self) -> ModelNames:
        given = {key: value for key, value in self._section("models").items() if key != "ids"}
        known = [field.name for field in fields(ModelNames) if field.name != "base_url"]
        for key, value in given.items():
            if key not in known:
                raise self._error(("models", key), unknown_key_message(key, known))
            if not isinstance(value, str):
                raise self._error(("models", key), f"{key} must be the name of a model, not {value!r}")
        return ModelNames(**given)

    def model_ids(self) -> dict[str, str]:
        ids = self._section("models").get("ids", {})
        if not isinstance(ids, dict) or not all(isinstance(value, str) for value in ids.values()):
            raise self._error(("models", "ids"), "ids must be 'role: model id' pairs")
        return ids

    def chunk_size(self) -> int:
        size = self._data.get("chunk_size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise self._error(("chunk_size",), f"chunk_size must be a positive whole number, not {size!r}")
        return size

    def weights(self) -> Weights:
        given = self._section("weights")
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and v >= 0 for v in given.values())
        if set(given) != {"retrieval", "generation"} or not numbers or not sum(given.values()) > 0:
            raise self._error(("weights",), "weights must have 'retrieval' and 'generation', not both 0")
        return Weights(**given)

    def expected(self) -> dict[str, Any]:
        expected = self._section("expected")
        for part, scores in expected.items():
            wanted = {"questions", *METRICS}
            if part not in ("search", "test") or not isinstance(scores, dict) or set(scores) != wanted:
                raise self._error(("expected", part), f"{part} must have exactly {', '.join(sorted(wanted))}")
            for metric, score in scores.items():
                if not isinstance(score, int | float) or isinstance(score, bool):
                    raise self._error(("expected", part, metric), f"{metric} must be a number, not {score!r}")
        return expected

    def dataset(self, other: str | Path | None) -> Dataset:
        if other is not None:
            return load_dataset(str(other))
        section = self._section("dataset")
        location = section.get("path", section.get("bundled"))
        if not isinstance(location, str) or len({"path", "bundled"} & set(section)) != 1:
            raise self._error(("dataset",), "'dataset' must have a 'path', or the name of a 'bundled' one")
        data = load_dataset(self._path.parent / location if "path" in section else bundled("datasets", location))
        if data.digest != section.get("digest"):
            raise self._error(
                ("dataset", "digest"),
                f"data set {location!r} is not the one this pipeline was found on: its documents or questions changed; "
                "search again, or name the data set to use with --dataset",
            )
        return data

    def _section(self, name: str) -> dict[str, Any]:
        value = self._data.get(name)
        if not isinstance(value, dict):
            raise self._error(
                (name,), f"{name!r} is missing" if value is None else f"{name!r} must be 'name: value' pairs"
            )
        return value

    def _error(self, path: tuple[Any, ...], message: str) -> SpaceError:
        return SpaceError(f"{self._tree.where(*path)}: {message}")
