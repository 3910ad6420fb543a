"""Check that every model can do what a search requires: send one request per language task, with its real token limit.

The question, its answer and the passages come from a bundled data set, not from the user's data.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.splits import split
from ragsmith.errors import ModelError, ModelUnavailable, RagsmithError, RefusedContent, StageFailed
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.completions import complete_within_limits
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.prompts_and_vectors import normalize_vectors, parse_problem, render_prompt
from ragsmith.index.entity_graph import EXTRACT_RELATIONS
from ragsmith.measures.judge import JUDGE
from ragsmith.measures.judge_calibration import Calibration, CalibrationResult
from ragsmith.measures.judge_check import JudgeAccuracy, check_judge, list_judge_requests
from ragsmith.models.calls import ChatModel, Completion, StoredCall, completion_key, is_chat_model
from ragsmith.models.capabilities import ModelCapabilities, find_learner
from ragsmith.models.loading import Loader
from ragsmith.models.names import NONE, ModelName, ModelNames, model_name_from
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.registry import OBJECT_KIND, ROLES, providers
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import NO_USAGE, Meter, Usage
from ragsmith.pipelines.engine import stage_errors
from ragsmith.pipelines.space import Space
from ragsmith.techniques.generation import generate
from ragsmith.techniques.task_lookup import N_PASSAGES, find_tasks, find_tasks_of
from ragsmith.text.blocks import number_blocks
from ragsmith.text.redaction import redacted
from ragsmith.types import Chunks

T = TypeVar("T")

DATASET = "law"
"""The bundled data set whose first search question is used in the requests."""
MAX_CONCURRENT_TASKS = 32
"""Maximum number of concurrent requests of language tasks."""
PROBE_TEXTS = ("ready", "never")
"""Texts of the requests to embedders and rerankers."""


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """The result of a language task; ``problem`` is "" if the reply is usable.

    ``requests`` is 2 if the first reply was truncated and requested again, and ``usage`` is that of both.
    ``thought_tokens`` are the reasoning tokens of the last reply, as far as the server reports them.
    """

    task: str
    problem: str = ""
    requests: int = 0
    usage: Usage = NO_USAGE
    thought_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The result for the model of a role; ``problem`` is "" if it works.

    ``seconds`` is None for language models, whose ``tasks`` have their own, and after an error. ``dimensions`` are
    those of an embedder's vectors. ``refuses`` are the request parameters that the server of a chat model rejects, and
    ``thinking_tokens`` the tokens that it uses for reasoning. ``judged`` is the accuracy of the judge on the bundled
    cases, ``calibrated`` its accuracy on the answers of data sets; if its server fails before the end, ``problem``
    names the missing data sets.
    """

    role: str
    name: str
    id: str
    problem: str = ""
    seconds: float | None = None
    dimensions: int | None = None
    tasks: tuple[TaskCheck, ...] = ()
    refuses: tuple[str, ...] = ()
    thinking_tokens: int = 0
    judged: JudgeAccuracy | None = None
    calibrated: tuple[CalibrationResult, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the model and all its tasks work."""
        return not self.problem and not any(task.problem for task in self.tasks)


def check_models(
    names: ModelNames,
    space: Space,
    *,
    given: Mapping[str, Any] | None = None,
    faithfulness: bool | None = None,
    judge_cases: bool = True,
    calibrations: Sequence[Calibration] = (),
    store: CallStore | None = None,
    on_start: Callable[[int], None] | None = None,
) -> tuple[ModelCheck, ...]:
    """Send the requests of a search to the model of every role, and to all models that ``space`` searches over.

    A model with two roles is checked in each. ``given`` has the models passed as objects, by role. ``on_start`` is
    called before the first request with the maximum number of requests to servers and to such objects, not counting
    those repeated after a truncated reply or without a rejected parameter. Capabilities and usable replies are written
    to ``store``; only the verdicts on ``judge_cases`` (`check_judge`) and on the answers of
    ``calibrations`` are read from it.

    Raises:
        UsageError: a name is unknown, or has an option that its model lacks; or a chunk overlap of
            ``space`` is not smaller than every chunk size.
    """
    names.check()
    setup = Experiment(load_dataset(DATASET), names, faithfulness=faithfulness, given=given or {})
    check = _ModelChecker(setup.with_searched_settings(space.settings), space, store, judge_cases, calibrations)
    if on_start is not None:
        on_start(check.requests)
    with ThreadPoolExecutor(len(check.models)) as pool:
        return tuple(pool.map(check.check, check.models))


@dataclass(frozen=True, slots=True)
class _CheckedModel:
    """A model in a role; ``can_judge`` is False for a model of the search space, which never scores answers."""

    role: str
    chosen: ModelName
    can_judge: bool = True


class _ModelChecker:
    """Sends the requests of a check."""

    def __init__(
        self,
        setup: Experiment,
        space: Space,
        store: CallStore | None,
        judge_cases: bool,
        calibrations: Sequence[Calibration],
    ) -> None:
        self._setup = setup
        self._space = space
        self._store = store
        self._judge_role = "judge" if "judge" in setup.models.named_roles else "language_model"
        self._judge_cases = judge_cases
        self._calibrations = calibrations

    @property
    def requests(self) -> int:
        """The maximum number of requests to models outside this process."""
        served = {(role, kind) for role in ROLES for kind, declared in providers(role).items() if declared.served}
        outside = [
            one for one in self.models if one.chosen.kind == OBJECT_KIND or (one.role, one.chosen.kind) in served
        ]
        language_models = [one for one in outside if one.role not in ("embedder", "cross_encoder")]
        verdicts_per_judge = len(list_judge_requests()) * self._judge_cases + sum(
            len(one.cases) for one in self._calibrations
        )
        n_verdicts = verdicts_per_judge * sum(map(self._is_judge, outside))
        n_tasks = sum(len(self._tasks(one)) for one in language_models)
        return n_verdicts + n_tasks + len(outside) - len(language_models)

    def _is_judge(self, model_in_role: _CheckedModel) -> bool:
        """Whether a model is the judge of a search or of its test."""
        return model_in_role.can_judge and model_in_role.role in (self._judge_role, "test_judge")

    @cached_property
    def models(self) -> tuple[_CheckedModel, ...]:
        """The models of a search, then the other models of its space."""
        names = self._setup.models
        listed: list[tuple[str, Any]] = [
            (gene.technique.family, gene.parameters["value"])
            for genes in self._space.settings
            for gene in genes[1:]
            if gene.technique.family in ROLES
        ]
        others = [(role, names.override({role: model_name_from(value)})) for role, value in listed]
        return (
            *(_CheckedModel(role, names.for_role(role)) for role in names.named_roles),
            *(_CheckedModel(role, models.for_role(role), can_judge=False) for role, models in others),
        )

    def check(self, model_in_role: _CheckedModel) -> ModelCheck:
        """Check a model in its role."""
        found = ModelCheck(model_in_role.role, model_in_role.chosen.name, NONE)
        if model_in_role.chosen.name == NONE:
            return found
        found = replace(found, id="")
        loader = None
        try:
            loader = self._loader(model_in_role, self._setup.corpus.chunks)
            model = loader.model(model_in_role.role)
            found = replace(found, id=redacted(model.id))
            started = time.perf_counter()
            if model_in_role.role == "embedder":
                vectors = normalize_vectors(model.id, model.embed(PROBE_TEXTS), len(PROBE_TEXTS))
                seconds = time.perf_counter() - started
                return replace(found, seconds=seconds, dimensions=int(vectors.shape[1]))
            if model_in_role.role == "cross_encoder":
                model.score(PROBE_TEXTS[0], PROBE_TEXTS)
                return replace(found, seconds=time.perf_counter() - started)
            tasks, capabilities = self._check_tasks(model, self._tasks(model_in_role))
            found = replace(
                found,
                tasks=tasks,
                refuses=tuple(sorted(capabilities.refuses)),
                thinking_tokens=capabilities.thinking_tokens,
            )
            if self._is_judge(model_in_role) and not any(task.problem for task in tasks if task.task == JUDGE.name):
                found = self._check_judge(model, model_in_role, found)
            return found
        except RagsmithError as error:
            return replace(found, problem=_format_error(error))
        finally:
            if loader is not None:
                loader.close()

    def _loader(self, model_in_role: _CheckedModel, chunks: Chunks) -> Loader:
        texts, languages = tuple(chunk.text for chunk in chunks), [chunk.language for chunk in chunks]
        return Loader(
            {model_in_role.role: model_in_role.chosen}, texts, self._setup.given, languages=languages, attempts=1
        )

    def _check_tasks(
        self, model: LanguageModel | ChatModel, to_check: Sequence[Task[Any]]
    ) -> tuple[tuple[TaskCheck, ...], ModelCapabilities]:
        """Send a request for every task, and return the results and the detected capabilities.

        The first request is sent alone: if the server does not reply, the others are not sent.
        """
        learner = find_learner(model)
        if learner is not None and self._store is not None:
            learner.restore(self._store.capabilities(model.id) or ModelCapabilities())
            learner.on_change = partial(self._store.put_capabilities, model.id)
        ask = partial(self._check_task, model)
        first = [ask(task, alone=True) for task in to_check[:1]]
        with ThreadPoolExecutor(MAX_CONCURRENT_TASKS) as pool:
            checked = (*first, *pool.map(ask, to_check[1:]))
        return checked, learner.capabilities if learner is not None else ModelCapabilities()

    def _check_judge(
        self, model: LanguageModel | ChatModel, model_in_role: _CheckedModel, found: ModelCheck
    ) -> ModelCheck:
        """Compare the scores of a judge with reference scores.

        If its server refuses requests or fails, no more are sent, and the results so far are returned.
        """
        calibrated: list[CalibrationResult] = []
        try:
            if self._judge_cases:
                found = replace(found, judged=self._judge_through_store(model, check_judge))
            for calibration in self._calibrations:
                loader = self._loader(model_in_role, Experiment(calibration.dataset, ModelNames()).corpus.chunks)
                with closing(loader):
                    calibrated.append(self._judge_through_store(loader.model(model_in_role.role), calibration.evaluate))
        except ModelUnavailable as error:
            missing = ["the bundled cases"] if self._judge_cases and found.judged is None else []
            missing += [one.dataset.name for one in self._calibrations[len(calibrated) :]]
            problem = f"the calibration is incomplete, without {', '.join(missing)}: {_format_error(error)}"
            found = replace(found, problem=problem)
        return replace(found, calibrated=tuple(calibrated))

    def _judge_through_store(self, model: LanguageModel | ChatModel, judge: Callable[[LanguageModel], T]) -> T:
        """Return the result of ``judge`` for a model whose replies are stored, so that a report can read them."""
        gateway = Gateway(self._store)
        try:
            return judge(gateway.language_model(model, Meter()))
        finally:
            gateway.write_pending()

    def _check_task(self, model: LanguageModel | ChatModel, task: Task[Any], *, alone: bool = False) -> TaskCheck:
        """Send the request of one task.

        Raises:
            ModelError: the server failed or rejected the request, and the task is ``alone``.
            ModelUnavailable: the server rejects the key or the model, or is down.
        """
        inputs = {name: self._input(task, name) for name in task.inputs}
        started = time.perf_counter()
        replies: list[Completion] = []
        problem = ""
        try:
            with stage_errors("task", task.name):
                if is_chat_model(model):
                    problem = self._complete(model, task, inputs, replies)
                else:
                    performer: Any = model
                    performer.run(task, **inputs)
        except StageFailed as failed:
            cause = failed.cause
            if isinstance(cause, ModelUnavailable) or (alone and type(cause) in (ModelError, RefusedContent)):
                raise cause from None
            error = cause if isinstance(cause, RagsmithError) else failed
            problem = _format_error(error).removeprefix(f"{redacted(model.id)}: ")
        seconds = time.perf_counter() - started
        usage = sum((reply.usage for reply in replies), NO_USAGE)
        thought = replies[-1].thought_tokens if replies else 0
        return TaskCheck(task.name, problem, len(replies), usage, thought, seconds)

    def _complete(self, model: ChatModel, task: Task[Any], inputs: dict[str, Input], replies: list[Completion]) -> str:
        """Complete a task, store a usable reply, and return the problem or ""; all replies are added to ``replies``."""
        prompt, _ = render_prompt(task, inputs, getattr(model, "context_window", None))

        def send(limit: int) -> Completion:
            replies.append(model.complete(prompt, max_tokens=limit, sample=0))
            return replies[-1]

        reply = complete_within_limits(model, task, prompt, send)
        if problem := parse_problem(task, reply.text):
            return redacted(f"the reply cannot be read: {problem}")
        if self._store is not None:
            key = completion_key(model.id, prompt, task.max_tokens, 0)
            tokens = reply.usage.input_tokens, reply.usage.output_tokens
            self._store.put_calls([StoredCall(key, model.id, task.name, reply.text, 1, *tokens, reply.usage.seconds)])
        return ""

    def _tasks(self, model_in_role: _CheckedModel) -> list[Task[Any]]:
        """Return the distinct tasks of a model: those of its role, and of roles without their own model."""
        named = self._setup.models.named_roles
        found: dict[str, Task[Any]] = {}
        for role, tasks in self._tasks_by_role.items():
            if (role if role in named else "language_model") == model_in_role.role and (
                model_in_role.can_judge or role != "judge"
            ):
                found |= {task.name: task for task in tasks if task.name not in found}
        return list(found.values())

    @cached_property
    def _tasks_by_role(self) -> dict[str, Sequence[Task[Any]]]:
        techniques = {gene.technique.name: gene.technique for genes in self._space.options for gene in genes}
        of_techniques = [task for technique in techniques.values() for task in find_tasks(technique)]
        if any("entity_graph" in technique.tools.values() for technique in techniques.values()):
            of_techniques.append(EXTRACT_RELATIONS)
        named = self._setup.models.named_roles
        by_judge = [known.fn for known in self._setup.measures if "judge" in known.tools.values()]
        return {
            "language_model": find_tasks_of(generate),
            "controller": of_techniques,
            **{role: find_tasks_of(*by_judge) for role in ("judge", "test_judge") if role in ("judge", *named)},
        }

    @cached_property
    def _task_inputs(self) -> dict[str, Input]:
        """Example inputs of tasks, by name."""
        questions = sort_examples(split(self._setup.dataset).search)
        example = next((one for one in questions if one.answer and one.evidence), questions[0])
        relevant = self._setup.relevance[example.id].relevant
        chunks = sorted(self._setup.corpus.chunks, key=lambda chunk: chunk.id not in relevant)[:N_PASSAGES]
        passages = tuple(chunk.text for chunk in chunks)
        return {
            "question": example.question,
            "query": example.question,
            "reference": example.answer,
            "answer": example.answer,
            "context": number_blocks(passages),
            "passages": passages,
            "summary": passages[0],
            "place": chunks[0].title,
            "framing": "an explanation of how and why, as in a textbook",
            "feedback": "- missing: where the rule stands",
            "claims": (example.answer,) * N_PASSAGES,
            "words": 200,
        }

    def _input(self, task: Task[Any], name: str) -> Input:
        """Return the input ``name`` of a task; for an unknown name, a value of its type."""
        parameter = inspect.signature(task.offline).parameters.get(name)
        hint = str if parameter is None else parameter.annotation  # a string in a module that defers annotations
        kind = getattr(hint, "__name__", str(hint))
        passages = self._task_inputs["passages"]
        assert isinstance(passages, tuple)
        unknown: Input = passages[:1] if "tuple" in kind else {"int": 3, "float": 0.5}.get(kind, passages[0])
        return self._task_inputs.get(name, unknown)


def _format_error(error: RagsmithError) -> str:
    return redacted(" ".join(str(error).split()))
