"""Check: can every model do what a search would ask of it? Each language task is asked once, with its real limit.

The question, its answer and the passages are of a bundled data set, so the replies say nothing about one's own data.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.splits import split
from ragsmith.errors import ModelError, ModelUnavailable, RagsmithError, RefusedContent, StageFailed
from ragsmith.evaluation.experiment import Experiment, ordered
from ragsmith.gateway.asking import parse_problem, render_prompt, unit_vectors
from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.completions import complete_whole
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.entity_graph import EXTRACT_RELATIONS
from ragsmith.measures.judge import JUDGE
from ragsmith.measures.judge_calibration import Calibrated, Calibration
from ragsmith.measures.judge_check import JudgeChecked, check_judge
from ragsmith.measures.judge_check import asked as verdicts
from ragsmith.models.calls import ChatModel, Completion, StoredCall, completion_key, is_chat_model
from ragsmith.models.capabilities import ModelCapabilities, find_learner
from ragsmith.models.loading import Loader
from ragsmith.models.names import NONE, ModelName, ModelNames, model_name_from
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.registry import GIVEN, ROLES, providers
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import NOTHING, Meter, Usage
from ragsmith.pipelines.engine import failing_as
from ragsmith.pipelines.space import Space
from ragsmith.techniques.generation import generate
from ragsmith.techniques.task_lookup import PASSAGES, find_tasks, find_tasks_of
from ragsmith.text.blocks import numbered, quoted
from ragsmith.text.redaction import redacted

DATASET = "law"
"""Whose first search question is asked."""
AT_ONCE = 32
TEXTS = ("ready", "never")
"""What an embedder embeds, and a reranker scores."""


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """What came of asking a model to do a language task; ``problem`` is "" where its reply could be used.

    ``requests`` is 2 where the first reply was cut, and the usage that of both. ``thought_tokens`` are those of the
    last reply that were thoughts, as far as the server shows it.
    """

    task: str
    problem: str = ""
    requests: int = 0
    usage: Usage = NOTHING
    thought_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """What came of asking the model of a role, and what was learnt of it; ``problem`` is "" where it works.

    ``seconds`` is None for a model of language tasks, each of which has its own, and where nothing came. ``dimensions``
    are those of an embedder's vectors. ``thinking_tokens`` is what a chat model was seen to need to think. ``judged``
    says how the model that marks answers did on the bundled cases, if it was asked, and ``calibrated`` how on the
    answers of data sets; where its server stopped answering meanwhile, ``problem`` names those that are missing.
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
    judged: JudgeChecked | None = None
    calibrated: tuple[Calibrated, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it can do all that it was asked."""
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
    """Ask the model of every role what a search in ``space`` would ask of it; one that two roles share, for each.

    Where ``space`` searches over models, each of them is asked; those listed first are those of ``names``, and mark.

    ``on_start`` is told, before the first, how many requests servers and objects will get at most: one more for each
    reply that is cut and each parameter that is refused. ``store`` keeps what is learnt of a model, and replies that
    could be used; of those only the verdicts on ``judge_cases``, which say how often a judge errs (`check_judge`), and
    on the answers of ``calibrations`` are read from it.

    Raises:
        UsageError: a name is unknown, or has an option that its model has not; or chunks of ``space`` cannot overlap.
    """
    names.check()
    setup = Experiment(load_dataset(DATASET), names, faithfulness=faithfulness, given=given or {})
    check = _ModelChecker(setup.searching(space.settings), space, store, judge_cases, calibrations)
    if on_start is not None:
        on_start(check.requests)
    with ThreadPoolExecutor(len(check.models)) as pool:
        return tuple(pool.map(check.asked, check.models))


@dataclass(frozen=True, slots=True)
class _CheckedTasks:
    """A model that is asked in a role; ``marks`` says that it is one of those that mark answers, if its role does."""

    role: str
    chosen: ModelName
    marks: bool = True


class _ModelChecker:
    """What is asked of whom, and of what."""

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
        self._marks = "judge" if "judge" in setup.models.named else "language_model"
        self._judge_cases = judge_cases
        self._calibrations = calibrations

    @property
    def requests(self) -> int:
        """To models outside this process."""
        outside = [one for one in self.models if _is_outside(one.chosen.kind, one.role)]
        spoken = [one for one in outside if one.role not in ("embedder", "cross_encoder")]
        for_each = len(verdicts()) * self._judge_cases + sum(len(one.cases) for one in self._calibrations)
        verdicts_asked = for_each * sum(map(self._is_judge, outside))
        return verdicts_asked + sum(len(self._tasks(one)) for one in spoken) + len(outside) - len(spoken)

    def _is_judge(self, one: _CheckedTasks) -> bool:
        """Whether a model marks answers in a search, so that it may be asked to mark known ones."""
        return one.marks and one.role == self._marks

    @cached_property
    def models(self) -> tuple[_CheckedTasks, ...]:
        """Whom to ask: the models of a search, and then all others that its space lists."""
        names = self._setup.models
        listed: list[tuple[str, Any]] = [
            (gene.technique.family, gene.parameters["value"])
            for genes in self._space.settings
            for gene in genes[1:]
            if gene.technique.family in ROLES
        ]
        others = [(role, names.overridden({role: model_name_from(value)})) for role, value in listed]
        return (
            *(_CheckedTasks(role, names.for_role(role)) for role in names.named),
            *(_CheckedTasks(role, models.for_role(role), marks=False) for role, models in others),
        )

    def asked(self, one: _CheckedTasks) -> ModelCheck:
        """Ask a model."""
        role = one.role
        chosen = one.chosen
        if chosen.name == NONE:
            return ModelCheck(role, chosen.name, NONE)
        name, loader = "", None
        try:
            languages = [chunk.language for chunk in self._setup.corpus.chunks]
            loader = Loader({role: chosen}, self._texts, self._setup.given, languages=languages, attempts=1)
            model = loader.model(role)
            name = redacted(model.id)
            started = time.perf_counter()
            if role == "embedder":
                found = unit_vectors(model.id, model.embed(TEXTS), len(TEXTS))
                return ModelCheck(role, chosen.name, name, "", time.perf_counter() - started, int(found.shape[1]))
            if role == "cross_encoder":
                model.score(TEXTS[0], TEXTS)
                return ModelCheck(role, chosen.name, name, "", time.perf_counter() - started)
            checked, traits = self._language(model, self._tasks(one))
            refuses = tuple(sorted(traits.refuses))
            able = self._is_judge(one) and not any(task.problem for task in checked if task.task == JUDGE.name)
            judged, calibrated, problem = self._held_against_known(model, role, chosen) if able else (None, (), "")
            thinking = traits.thinking_tokens
            return ModelCheck(
                role, chosen.name, name, problem, None, None, checked, refuses, thinking, judged, calibrated
            )
        except RagsmithError as error:
            return ModelCheck(role, chosen.name, name, _sentence(error))
        finally:
            if loader is not None:
                loader.servers.close()

    def _language(
        self, model: LanguageModel | ChatModel, asked: Sequence[Task[Any]]
    ) -> tuple[tuple[TaskCheck, ...], ModelCapabilities]:
        """Ask for every task, and say what is known of the model then.

        The first one goes ahead: a server that does not answer it is not asked for the others.
        """
        learner = find_learner(model)
        if learner is not None and self._store is not None:
            learner.restore(self._store.traits(model.id) or ModelCapabilities())
            learner.keep = partial(self._store.put_traits, model.id)
        ask = partial(self._ask, model)
        first = [ask(task, alone=True) for task in asked[:1]]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            checked = (*first, *pool.map(ask, asked[1:]))
        return checked, learner.capabilities if learner is not None else ModelCapabilities()

    def _held_against_known(
        self, model: LanguageModel | ChatModel, role: str, chosen: ModelName
    ) -> tuple[JudgeChecked | None, tuple[Calibrated, ...], str]:
        """How a judge marks answers that are known, and what is missing of that, or "".

        What was asked is kept where its server refuses it or goes down then, which is asked for nothing more.
        """
        judged: JudgeChecked | None = None
        calibrated: list[Calibrated] = []
        try:
            if self._judge_cases:
                judged = self._judged(model)
            for calibration in self._calibrations:
                calibrated.append(self._calibrated(calibration, role, chosen))
        except ModelUnavailable as error:
            missing = ["the bundled cases"] if self._judge_cases and judged is None else []
            missing += [one.dataset.name for one in self._calibrations[len(calibrated) :]]
            said = f"the calibration is incomplete, without {', '.join(missing)}: {_sentence(error)}"
            return judged, tuple(calibrated), said
        return judged, tuple(calibrated), ""

    def _judged(self, model: LanguageModel | ChatModel) -> JudgeChecked:
        """How ``model`` marks the bundled cases; replies are kept, so that a report finds them."""
        gateway = Gateway(self._store)
        try:
            return check_judge(gateway.language_model(model, Meter()))
        finally:
            gateway.write_rest()

    def _calibrated(self, calibration: Calibration, role: str, chosen: ModelName) -> Calibrated:
        """How a judge marks the answers of a data set, loaded for its documents as a search on it would load it."""
        chunks = Experiment(calibration.dataset, ModelNames()).corpus.chunks
        texts, languages = tuple(chunk.text for chunk in chunks), [chunk.language for chunk in chunks]
        loader = Loader({role: chosen}, texts, self._setup.given, languages=languages, attempts=1)
        gateway = Gateway(self._store)
        try:
            return calibration.of(gateway.language_model(loader.model(role), Meter()))
        finally:
            gateway.write_rest()
            loader.servers.close()

    def _ask(self, model: LanguageModel | ChatModel, task: Task[Any], *, alone: bool = False) -> TaskCheck:
        """Ask for one task.

        Raises:
            ModelError: the server failed or rejected the request, and was asked ``alone``.
            ModelUnavailable: it refuses the key or the model, or is down.
        """
        inputs = {name: self._input(task, name) for name in task.inputs}
        started = time.perf_counter()
        replies: list[Completion] = []
        problem = ""
        try:
            with failing_as("task", task.name):
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
            problem = _sentence(error).removeprefix(f"{redacted(model.id)}: ")
        seconds = time.perf_counter() - started
        usage = sum((reply.usage for reply in replies), NOTHING)
        thought = replies[-1].thought_tokens if replies else 0
        return TaskCheck(task.name, problem, len(replies), usage, thought, seconds)

    def _complete(self, model: ChatModel, task: Task[Any], inputs: dict[str, Input], replies: list[Completion]) -> str:
        """Ask a chat model, and keep a reply that can be used; why it cannot, or "". ``replies`` are all that came."""
        prompt, _ = render_prompt(task, inputs, getattr(model, "context_window", None))

        def send(limit: int) -> Completion:
            replies.append(model.complete(prompt, max_tokens=limit, sample=0))
            return replies[-1]

        reply = complete_whole(model, task, prompt, send)
        if problem := parse_problem(task, reply.text):
            return redacted(f"the reply cannot be read: {problem}")
        if self._store is not None:
            key = completion_key(model.id, prompt, task.max_tokens, 0)
            tokens = reply.usage.input_tokens, reply.usage.output_tokens
            self._store.put_calls([StoredCall(key, model.id, task.name, reply.text, 1, *tokens, reply.usage.seconds)])
        return ""

    # --- who is asked what -------------------------------------------------------------------------------------------

    def _tasks(self, one: _CheckedTasks) -> list[Task[Any]]:
        """The tasks of a model, each once: those of its role, and of roles that have no model of their own."""
        named = self._setup.models.named
        found: dict[str, Task[Any]] = {}
        for role, those in self._tasks_by_role.items():
            if (role if role in named else "language_model") == one.role and (one.marks or role != "judge"):
                for task in those:
                    found.setdefault(task.name, task)
        return list(found.values())

    @cached_property
    def _tasks_by_role(self) -> dict[str, Sequence[Task[Any]]]:
        techniques = {gene.technique.name: gene.technique for genes in self._space.options for gene in genes}
        of_techniques = [task for technique in techniques.values() for task in find_tasks(technique)]
        if any("entity_graph" in technique.tools.values() for technique in techniques.values()):
            of_techniques.append(EXTRACT_RELATIONS)
        by_judge = [known.fn for known in self._setup.measures if "judge" in known.tools.values()]
        return {
            "language_model": find_tasks_of(generate),
            "controller": of_techniques,
            "judge": find_tasks_of(*by_judge),
        }

    # --- what it is about --------------------------------------------------------------------------------------------

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(chunk.text for chunk in self._setup.corpus.chunks)

    @cached_property
    def _known(self) -> dict[str, Input]:
        """Inputs by name."""
        questions = ordered(split(self._setup.dataset).search)
        example = next((one for one in questions if one.answer and one.evidence), questions[0])
        relevant = self._setup.relevance[example.id].relevant
        chunks = sorted(self._setup.corpus.chunks, key=lambda chunk: chunk.id not in relevant)[:PASSAGES]
        passages = tuple(chunk.text for chunk in chunks)
        return {
            "question": example.question,
            "query": example.question,
            "reference": example.answer,
            "answer": example.answer,
            "context": numbered(passages),
            "passages": passages,
            "summary": passages[0],
            "place": chunks[0].title,
            "framing": "an explanation of how and why, as in a textbook",
            "feedback": "- missing: where the rule stands",
            "claims": (example.answer,) * PASSAGES,
            "words": 200,
        }

    def _input(self, task: Task[Any], name: str) -> Input:
        """What ``task`` is given as ``name``; for a name that is not known, a value of the type that it wants."""
        parameter = inspect.signature(task.offline).parameters.get(name)
        kind = "str" if parameter is None else str(parameter.annotation)
        passages = self._known["passages"]
        assert isinstance(passages, tuple)
        unknown: Input = passages[:1] if "tuple" in kind else {"int": 3, "float": 0.5}.get(kind, passages[0])
        found = self._known.get(name, unknown)
        if name == "answer" and f"{{>{name}}}" not in task.prompt:
            return quoted(str(found))  # as whoever asks does, where the prompt does not
        return found


def _is_outside(kind: str, role: str) -> bool:
    declared = providers(role).get(kind)
    return kind == GIVEN or (declared is not None and declared.served)


def _sentence(error: RagsmithError) -> str:
    return redacted(" ".join(str(error).split()))
