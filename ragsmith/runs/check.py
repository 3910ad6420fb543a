"""Check that every model can do what a search requires: send one request per language task, with its real token limit.

The question, its answer and the passages come from a bundled data set, not from the user's data.
"""

import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.splits import split
from ragsmith.errors import (
    CutReply,
    LoopingReply,
    ModelError,
    ModelUnavailable,
    ProviderTrouble,
    RagsmithError,
    RefusedContent,
    StageFailed,
    Unreadable,
)
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.threads import INTERRUPT_SECONDS
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.completions import Form, complete_task
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.prompts_and_vectors import normalize_vectors, render_prompt
from ragsmith.index.entity_graph import EXTRACT_RELATIONS
from ragsmith.measures.judge import JUDGE
from ragsmith.measures.judge_calibration import Calibration, CalibrationResult
from ragsmith.measures.judge_check import JudgeAccuracy, check_judge, list_judge_requests
from ragsmith.measures.non_answers import RUN, copied_share, find_non_answers
from ragsmith.models.calls import (
    ChatModel,
    Completion,
    StoredCall,
    completion_key,
    form_argument,
    is_chat_model,
    limit_answer,
)
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities, find_learner, task_key
from ragsmith.models.loading import Loader
from ragsmith.models.names import NONE, ModelName, ModelNames, model_name_from
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.registry import OBJECT_KIND, ROLES, providers
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import NO_USAGE, Meter, Usage
from ragsmith.pipelines.engine import stage_errors
from ragsmith.pipelines.genes import HyperparameterGene, list_tasks
from ragsmith.pipelines.space import Space
from ragsmith.techniques.families import prompt_maker
from ragsmith.techniques.generation import generate
from ragsmith.techniques.task_lookup import N_PASSAGES, find_tasks_of
from ragsmith.text.blocks import number_blocks
from ragsmith.text.redaction import redacted
from ragsmith.types import Chunks, Example

T = TypeVar("T")

DATASET = "law"
"""The bundled data set whose first search question is used in the requests."""
MAX_CONCURRENT_TASKS = 32
"""Maximum number of concurrent requests of language tasks."""
N_ANSWERS = 3
"""Number of questions that are answered, as answers may be alike; the other tasks get the first one."""
CASES = "the bundled cases"
"""The bundled answers that a judge scores, among the tasks."""
PROBE_TEXTS = ("ready", "never")
"""Texts of the requests to embedders and rerankers."""


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """The result of a task; ``problem`` is "" if the replies to its ``asked`` questions are usable.

    Besides language tasks these are ``vectors`` of an embedder and ``scores`` of a reranker. ``requests`` is larger
    than ``asked`` if replies were truncated or unreadable and requested again, and ``usage`` is that of all.
    ``thought_tokens`` are the reasoning tokens of the last reply, as far as the server reports them. ``able`` is
    whether the model can do the task, None if a failure of the server leaves it open. ``remark`` is about the answers
    of a chat model: what they copy, and how many are none (`find_non_answers`).
    """

    task: str
    problem: str = ""
    requests: int = 0
    usage: Usage = NO_USAGE
    thought_tokens: int = 0
    seconds: float = 0.0
    asked: int = 1
    able: bool | None = True
    remark: str = ""


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The result for the model of a role; ``problem`` is "" if it works.

    ``planned`` are the tasks of its role, ``tasks`` those that ended, in this order. ``dimensions`` are those of an
    embedder's vectors. ``refuses`` are the request parameters and forms of replies that the server of a chat model
    rejects, and ``thinking_tokens`` the tokens that it uses for reasoning. ``judged`` is the accuracy of the judge on
    the bundled cases, ``calibrated`` its accuracy on the answers of data sets; if its server fails before the end,
    ``problem`` names the missing data sets.
    """

    role: str
    name: str
    id: str
    planned: tuple[str, ...] = ()
    problem: str = ""
    dimensions: int | None = None
    tasks: tuple[TaskCheck, ...] = ()
    refuses: tuple[str, ...] = ()
    thinking_tokens: int = 0
    judged: JudgeAccuracy | None = None
    calibrated: tuple[CalibrationResult, ...] = ()

    @property
    def not_asked(self) -> tuple[str, ...]:
        """The planned tasks, and cases of a judge, that have no result."""
        ended = {*(task.task for task in self.tasks), *(one.dataset for one in self.calibrated)}
        return tuple(name for name in self.planned if name not in ended and not (name == CASES and self.judged))

    @property
    def cannot(self) -> tuple[str, ...]:
        """The tasks that the model cannot do, with ``judge`` if the bundled cases show no judge."""
        is_no_judge = self.judged is not None and bool(self.judged.fails)
        return (*(task.task for task in self.tasks if task.able is False), *[JUDGE.name] * is_no_judge)

    @property
    def roles(self) -> str:
        """What the model cannot do, and what to use it for; "" if it can do all that it was asked for."""
        able = [task.task for task in self.tasks if task.able and task.task not in self.cannot]
        use = f"use it for {', '.join(able)}" if able else "name another model"
        return f"this model cannot {', '.join(self.cannot)}: {use}" if self.cannot else ""

    @property
    def ok(self) -> bool:
        """Whether the model works and can do all its tasks."""
        return not self.problem and not self.cannot and not any(task.problem for task in self.tasks)


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
    on_change: Callable[[Sequence[ModelCheck]], None] | None = None,
) -> tuple[ModelCheck, ...]:
    """Send the requests of a search to the model of every role, and to all models that ``space`` searches over.

    A model with two roles is checked in each. ``given`` has the models passed as objects, by role. ``on_start`` is
    called before the first request with the maximum number of requests to servers and to such objects, not counting
    those repeated after a truncated or unreadable reply or without a rejected parameter. ``on_change`` is called before
    the first request, and then whenever a task ends, with the checks of all models so far; during an interruption it
    may be called until this function raises. Capabilities and usable replies are written to ``store`` as they arrive,
    and replace the refusals that it has of a model; only the verdicts on ``judge_cases`` (`check_judge`) and on the
    answers of ``calibrations`` are read from it, and what a model needs to think.

    Raises:
        UsageError: a name is unknown, or has an option that its model lacks; or a chunk overlap of
            ``space`` is not smaller than every chunk size.
    """
    names.check()
    setup = Experiment(load_dataset(DATASET), names, faithfulness=faithfulness, given=given or {})
    searched = setup.with_searched_settings(space.settings)
    agenda = CheckAgenda(searched, space, judge_cases, calibrations)
    if on_start is not None:
        on_start(agenda.requests)
    return _ModelChecker(agenda, store, on_change or (lambda _: None)).run()


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """A model in a role; ``can_judge`` is False for a model of the search space, which never scores answers."""

    role: str
    chosen: ModelName
    can_judge: bool = True


@dataclass(frozen=True)
class CheckAgenda:
    """What a check asks for: the models, their tasks, and the inputs of these, from the bundled data set."""

    setup: Experiment
    space: Space
    judge_cases: bool
    calibrations: Sequence[Calibration]

    @cached_property
    def models(self) -> tuple[CheckedModel, ...]:
        """The models of a search, then the other models of its space."""
        names = self.setup.models
        listed: list[tuple[str, Any]] = [
            (gene.technique.family, gene.technique.value)
            for genes in self.space.settings
            for gene in genes[1:]
            if isinstance(gene.technique, HyperparameterGene) and gene.technique.family in ROLES
        ]
        others = [(role, names.override({role: model_name_from(value)})) for role, value in listed]
        return (
            *(CheckedModel(role, names.for_role(role)) for role in names.named_roles),
            *(CheckedModel(role, models.for_role(role), can_judge=False) for role, models in others),
        )

    @property
    def requests(self) -> int:
        """The maximum number of requests to models outside this process."""
        served = {(role, kind) for role in ROLES for kind, declared in providers(role).items() if declared.served}
        n_cases = len(list_judge_requests()) * self.judge_cases + sum(len(one.cases) for one in self.calibrations)
        return sum(
            (sum(len(self.inputs(task)) for task in self.tasks(one).values()) or 1) + n_cases * self.is_judge(one)
            for one in self.models
            if one.chosen.kind == OBJECT_KIND or (one.role, one.chosen.kind) in served
        )

    def begin(self, model_in_role: CheckedModel) -> ModelCheck:
        """Return the check of a model before its first request."""
        role, name = model_in_role.role, model_in_role.chosen.name
        planned = {"embedder": ["vectors"], "cross_encoder": ["scores"]}.get(role) or [*self.tasks(model_in_role)]
        cases = [CASES] * self.judge_cases + [one.dataset.name for one in self.calibrations]
        planned += cases * self.is_judge(model_in_role)
        return ModelCheck(role, name, NONE) if name == NONE else ModelCheck(role, name, "", tuple(planned))

    def is_judge(self, model_in_role: CheckedModel) -> bool:
        """Whether a model is the judge of a search or of its test."""
        judge = "judge" if "judge" in self.setup.models.named_roles else "language_model"
        return model_in_role.can_judge and model_in_role.role in (judge, "test_judge")

    def tasks(self, model_in_role: CheckedModel) -> dict[str, Task[Any]]:
        """Return the distinct tasks of a model by name: those of its role, and of roles without their own model."""
        named = self.setup.models.named_roles
        return {
            name: task
            for role, tasks in self._tasks_by_role.items()
            if (role if role in named else "language_model") == model_in_role.role
            and (model_in_role.can_judge or role != "judge")
            for name, task in tasks.items()
        }

    def inputs(self, task: Task[Any]) -> list[dict[str, Input]]:
        """Return the inputs of a task for each of its questions."""
        asked = N_ANSWERS if task.name in {one.name for one in find_tasks_of(generate)} else 1
        return [fill_inputs(task, known) for known in self._known_inputs[:asked]]

    @cached_property
    def _tasks_by_role(self) -> dict[str, dict[str, Task[Any]]]:
        genes = [gene for genes in self.space.options for gene in genes]
        of_techniques = list_tasks(genes)
        if any("entity_graph" in gene.technique.tools.values() for gene in genes):
            of_techniques.setdefault(EXTRACT_RELATIONS.name, EXTRACT_RELATIONS)
        makers = [gene for gene in genes if gene.technique.family == prompt_maker.name]
        judging = find_tasks_of(*(known.fn for known in self.setup.measures if "judge" in known.tools.values()))
        return {
            "language_model": list_tasks(makers, lambda _: find_tasks_of(generate)),
            "controller": of_techniques,
            **{
                role: {task.name: task for task in judging}
                for role in ("judge", "test_judge")
                if role in ("judge", *self.setup.models.named_roles)
            },
        }

    @cached_property
    def _known_inputs(self) -> list[dict[str, Any]]:
        """Example inputs of tasks, by name, for each of the questions."""
        questions = sort_examples(split(self.setup.dataset).search)
        return [self.example_inputs(one) for one in questions if one.answer and one.evidence][:N_ANSWERS]

    def example_inputs(self, example: Example) -> dict[str, Any]:
        """Return inputs of tasks for a question by name, with passages that are relevant to it first."""
        relevant = self.setup.relevance[example.id].relevant
        chunks = sorted(self.setup.corpus.chunks, key=lambda chunk: chunk.id not in relevant)[:N_PASSAGES]
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


def fill_inputs(task: Task[Any], known: Mapping[str, Any]) -> dict[str, Input]:
    """Return the inputs of a task among ``known`` ones; for an unknown name, a value of its type."""
    kinds = {  # an annotation is a string in a module that defers annotations
        name: inspect.formatannotation(one.annotation).strip("'").partition("[")[0]
        for name, one in inspect.signature(task.offline).parameters.items()
    }
    first = known["passages"][:1]
    by_kind = {"tuple": first, "int": 3, "float": 0.5}
    return {name: known.get(name, by_kind.get(kinds.get(name, ""), first[0])) for name in task.inputs}


class _ModelChecker:
    """Sends the requests of an agenda, and collects what the replies show."""

    def __init__(
        self, agenda: CheckAgenda, store: CallStore | None, on_change: Callable[[Sequence[ModelCheck]], None]
    ) -> None:
        self._agenda = agenda
        self._store = store
        self._on_change = on_change
        self._lock = threading.Lock()
        self._loaders: list[Loader] = []
        self._stopped = False
        self._renewed: set[str] = set()
        self._found = [agenda.begin(one) for one in agenda.models]

    def run(self) -> tuple[ModelCheck, ...]:
        """Check all models; after an interruption no more is sent, and requests in flight have seconds to end."""
        self._on_change(tuple(self._found))
        with ThreadPoolExecutor(len(self._agenda.models)) as pool:
            try:
                tuple(
                    pool.map(self._check, (at for at, one in enumerate(self._agenda.models) if one.chosen.name != NONE))
                )
            except KeyboardInterrupt:
                self._stopped = True
                for loader in self._loaders:
                    loader.close(patience=INTERRUPT_SECONDS)
                raise
        return tuple(self._found)

    def _update(self, at: int, *ended: TaskCheck, **found: Any) -> None:
        """Set fields of the check of the model ``at`` a position, add the tasks that ``ended``, and report them."""
        with self._lock:
            if self._stopped:
                found.pop("problem", None)  # that the connection was closed
            self._found[at] = replace(self._found[at], tasks=(*self._found[at].tasks, *ended), **found)
            self._on_change(tuple(self._found))

    def _check(self, at: int) -> None:
        """Check the model at a position in its role."""
        role = self._agenda.models[at].role
        try:
            with closing(self._loader(self._agenda.models[at], self._agenda.setup.corpus.chunks)) as loader:
                model = loader.model(role)
                self._update(at, id=redacted(model.id))
                started = time.perf_counter()
                if role == "embedder":
                    vectors = normalize_vectors(model.id, model.embed(PROBE_TEXTS), len(PROBE_TEXTS))
                    self._update(
                        at, TaskCheck("vectors", seconds=time.perf_counter() - started), dimensions=vectors.shape[1]
                    )
                elif role == "cross_encoder":
                    model.score(PROBE_TEXTS[0], PROBE_TEXTS)
                    self._update(at, TaskCheck("scores", seconds=time.perf_counter() - started))
                else:
                    self._check_tasks(at, model)
        except RagsmithError as error:
            self._update(at, problem=_format_error(error))

    def _loader(self, model_in_role: CheckedModel, chunks: Chunks) -> Loader:
        self._loaders.append(
            Loader(
                {model_in_role.role: model_in_role.chosen},
                tuple(chunk.text for chunk in chunks),
                self._agenda.setup.given,
                languages=[chunk.language for chunk in chunks],
                attempts=1,
            )
        )
        return self._loaders[-1]

    def _check_tasks(self, at: int, model: LanguageModel | ChatModel) -> None:
        """Send a request for every task; the first one is sent alone: if it fails, the others are not sent."""
        learner, checked_model = find_learner(model) or CapabilityLearner(), self._agenda.models[at]
        stored = self._store.capabilities(model.id) if self._store else None
        learner.restore((stored or ModelCapabilities()).without_refusals())
        learner.on_change = partial(self._remember, model)

        def ask(name: str) -> None:
            if self._stopped:
                raise ModelUnavailable("the check was interrupted")
            checked = self._check_task(model, name, tasks[name], alone=not self._found[at].tasks)
            if checked.able is not None:
                # that a verdict can be read shows no judge: the bundled cases do
                shown = {} if name == JUDGE.name and checked.able else {task_key(tasks[name]): checked.able}
                self._remember(model, ModelCapabilities(tasks=shown))
            self._update(at, checked)

        tasks = self._agenda.tasks(checked_model)
        tuple(map(ask, [*tasks][:1]))
        with ThreadPoolExecutor(MAX_CONCURRENT_TASKS) as pool:
            tuple(pool.map(ask, [*tasks][1:]))
        learnt = learner.capabilities
        self._update(at, refuses=tuple(sorted(learnt.refuses)), thinking_tokens=learnt.thinking_tokens)
        if self._agenda.is_judge(checked_model) and not any(
            task.problem for task in self._found[at].tasks if task.task == JUDGE.name
        ):
            self._check_judge(at, model)

    def _remember(self, model: LanguageModel | ChatModel, found: ModelCapabilities) -> None:
        """Store capabilities of a chat model for later searches; the first ones replace the stored refusals."""
        if self._store is not None and is_chat_model(model):
            with self._lock:
                self._store.put_capabilities(model.id, found, renewing=model.id not in self._renewed)
                self._renewed.add(model.id)

    def _check_judge(self, at: int, model: LanguageModel | ChatModel) -> None:
        """Compare the scores of a judge with reference scores.

        If its server refuses requests or fails, no more are sent.
        """
        try:
            if self._agenda.judge_cases:
                judged = self._judge_through_store(model, check_judge)
                self._update(at, judged=judged)
                self._remember(model, ModelCapabilities(tasks={task_key(JUDGE): not judged.fails}))
            for calibration in self._agenda.calibrations:
                chunks = Experiment(calibration.dataset, ModelNames()).corpus.chunks
                with closing(self._loader(self._agenda.models[at], chunks)) as loader:
                    result = self._judge_through_store(loader.model(self._agenda.models[at].role), calibration.evaluate)
                self._update(at, calibrated=(*self._found[at].calibrated, result))
        except ModelUnavailable as error:
            missing = ", ".join(self._found[at].not_asked)
            self._update(at, problem=f"the calibration is incomplete, without {missing}: {_format_error(error)}")

    def _judge_through_store(self, model: LanguageModel | ChatModel, judge: Callable[[LanguageModel], T]) -> T:
        """Return the result of ``judge`` for a model whose replies are stored, so that a report can read them."""
        gateway = Gateway(self._store)
        try:
            return judge(gateway.language_model(model, Meter()))
        finally:
            gateway.write_pending()

    def _check_task(
        self, model: LanguageModel | ChatModel, name: str, task: Task[Any], *, alone: bool = False
    ) -> TaskCheck:
        """Send the requests of one task.

        Raises:
            ModelError: the server failed or rejected the request, and the task is ``alone``.
            ModelUnavailable: the server rejects the key or the model, or is down.
        """
        started, problem, remark, asked = time.perf_counter(), "", "", 0
        able: bool | None = True
        replies: list[Completion] = []
        texts: list[str] = []
        questions = self._agenda.inputs(task)
        try:
            with stage_errors("task", task.name):
                for asked, inputs in enumerate(questions, 1):  # noqa: B007
                    if is_chat_model(model):
                        texts.append(self._complete(model, task, inputs, replies))
                    else:
                        performer: Any = model
                        performer.run(task, **inputs)
        except StageFailed as failed:
            cause = failed.cause
            if isinstance(cause, ModelUnavailable) or (
                alone and type(cause) in (ModelError, ProviderTrouble, RefusedContent)
            ):
                raise cause from None
            error = cause if isinstance(cause, RagsmithError) else failed
            problem = _format_error(error).removeprefix(f"{redacted(model.id)}: ")
            able = False if isinstance(cause, Unreadable | CutReply | LoopingReply) else None
        if len(texts) == N_ANSWERS:
            answers, contexts = [task.read(text)[0] for text in texts], [str(inputs["context"]) for inputs in questions]
            found = find_non_answers(answers, task.prompt, contexts, answerable=True)
            able = len(set().union(*found.values())) < N_ANSWERS
            copied = sum(copied_share(*pair) for pair in zip(answers, contexts, strict=True)) / N_ANSWERS
            remark = f"{100 * copied:.0f} % of the words of {N_ANSWERS} answers are copied in runs of {RUN} words"
            remark += "; no answers: " * bool(found) + ", ".join(
                f"{len(where)} {kind}" for kind, where in found.items()
            )
        return TaskCheck(
            name,
            problem,
            len(replies),
            sum((reply.usage for reply in replies), NO_USAGE),
            replies[-1].thought_tokens if replies else 0,
            time.perf_counter() - started,
            asked,
            able,
            remark,
        )

    def _complete(self, model: ChatModel, task: Task[Any], inputs: dict[str, Input], replies: list[Completion]) -> str:
        """Complete a task as a search does, store and return a usable reply; all are added to ``replies``.

        Raises:
            ModelError: as `complete_task`.
        """
        task = limit_answer(model, task)
        prompt, _ = render_prompt(task, inputs, getattr(model, "context_window", None))
        form = form_argument(model, task)

        def send(text: str, sent_form: Form, limit: int) -> Completion:
            replies.append(model.complete(text, max_tokens=limit, sample=0, **sent_form))
            return replies[-1]

        reply = complete_task(model, task, prompt, form, send)
        if self._store is not None:
            key = completion_key(model.id, prompt, task.max_tokens, 0, **form, cut=bool(reply.cut_at))
            self._store.put_calls([StoredCall.from_completion(key, model.id, task.name, reply)])
        return reply.text


def _format_error(error: RagsmithError) -> str:
    return redacted(" ".join(str(error).split()))
