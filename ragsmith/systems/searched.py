"""Another system whose parameters are searched: a function of a program builds it from a combination of them.

Each combination is a candidate. Its answers are kept in a file of their own, so that no question is asked twice, and
are scored like those of any other system (`ragsmith.systems.system`).
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from inspect import iscoroutinefunction, isgeneratorfunction
from pathlib import Path
from typing import Any, Self, cast

from ragsmith.digest import digest, fingerprint
from ragsmith.errors import DatasetError, warn_caller
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.gateway import Gateway
from ragsmith.grouping import group_values
from ragsmith.models.usage import ONE_CALL
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Gene, system_parameters
from ragsmith.plugins import load_file, version_of
from ragsmith.systems.answers import GivenAnswer
from ragsmith.systems.contexts import ContextLocator, LocatedAnswer
from ragsmith.systems.system import SystemEngine, SystemExperiment
from ragsmith.text.writing import make_folder

CODE = (
    ("ragsmith.systems.answers", "parse_answer"),
    ("ragsmith.systems.contexts", "ContextLocator"),
    ("ragsmith.systems.system", "SystemEngine"),
    ("ragsmith.systems.system", "relevance_of_contexts"),
)
"""Module and name of the code that makes records of what a system returns."""


@dataclass(frozen=True)
class BuiltSystem:
    """A system that the ``function`` of a ``program`` returns for ``parameters``; a function of a question itself."""

    program: Path
    function: str
    parameters: Mapping[str, Any]

    @classmethod
    def at(cls, place: str, parameters: Mapping[str, Any]) -> Self:
        """Return the system of ``FILE.py:FUNCTION``."""
        program, _, function = place.rpartition(":")
        return cls(Path(program), function, parameters)

    @property
    def name(self) -> str:
        """The name for people, as in ``my_rag.py:build(k=5)``."""
        listed = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"{self.program.name}:{self.function}({listed})"

    @cached_property
    def version(self) -> str:
        """The digest of the program; see `ragsmith.plugins.version_of`."""
        return version_of(self.program)

    @cached_property
    def identity(self) -> str:
        """The digest of the program, its place, as it may read what is beside it, and the parameters."""
        return digest("system", self.version, str(self.program.resolve()), dict(self.parameters))

    @property
    def record_identity(self) -> str:
        """The digest of the system and of the code that makes records of what it returns."""
        return digest(self.identity, [fingerprint(*one) for one in CODE])

    def __call__(self, question: str) -> object:
        """Return what the system returns; it is built at the first question, once."""
        if isinstance(self.built, BaseException):
            raise self.built
        return self.built(question)

    @cached_property
    def built(self) -> Callable[[str], object] | BaseException:
        """The function of a question, or why it cannot be built."""
        with _building:
            try:
                made = getattr(load_file(self.program), self.function)(**self.parameters)
            except (Exception, SystemExit) as error:  # noqa: BLE001  other people's code: the combination fails
                return error
        if not callable(made) or iscoroutinefunction(made) or isgeneratorfunction(made):
            return TypeError(f"{self.function} returned {made!r}: let it return a function of the question")
        return cast("Callable[[str], object]", made)


_building = threading.Lock()


@dataclass(frozen=True)
class ParameterSearch:
    """Another system whose parameters are searched: a `SearchedSystem`; ``place`` is ``FILE.py:FUNCTION``.

    The answers of each combination are kept in a file in ``folder``.
    """

    place: str
    folder: Path
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)
    _locators: list[ContextLocator] = field(default_factory=list, compare=False)

    def experiment(self, setup: Experiment, settings: tuple[Gene, ...]) -> Experiment:
        """See `SearchedSystem.experiment`."""
        system = BuiltSystem.at(self.place, system_parameters(settings))
        found: dict[str, LocatedAnswer] = {}
        asking = Asking(system, setup, self, found)
        return AskedExperiment.of(setup, found, system.record_identity, asking=asking)

    def locate(self, setup: Experiment, question: str, given: GivenAnswer) -> LocatedAnswer:
        """Return an answer with its contexts located; a `Notice` names the first that is not in the documents."""
        with self.lock:
            if not self._locators:
                self._locators.append(ContextLocator(setup.corpus, dict(setup.dataset.merged)))
            locator = self._locators[0]
            known = len(locator.not_found)
            found = locator.locate(question, given)
            if locator.not_found and not known:
                warn_caller(
                    f"contexts at no single place of the documents count as irrelevant, as {locator.not_found[0]}"
                )
        return found


class Asking:
    """Asks a system the questions of ``setup``, each text once, and adds the answers to ``found``; thread-safe."""

    def __init__(
        self, system: BuiltSystem, setup: Experiment, search: ParameterSearch, found: dict[str, LocatedAnswer]
    ) -> None:
        self._system, self._setup, self._search, self._found = system, setup, search, found
        self._ids = group_values((example.question, example.id) for example in setup.dataset.examples)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def answer(self, id_: str, before: Callable[[], None]) -> LocatedAnswer:
        """Return the answer to a question; ``before`` is called before the system is asked, and may raise."""
        text = self._setup.examples[id_].question
        with self._locks[text]:
            if id_ not in self._found:
                with self._search.lock:
                    kept = self._kept
                given = kept[text] = kept.get(text) or self._ask(text, before)
                try:
                    located = self._search.locate(self._setup, id_, given)
                except DatasetError as error:  # a context that cannot be
                    located = LocatedAnswer(GivenAnswer("", error=str(error)), ())
                self._found |= dict.fromkeys(self._ids[text], located)
        return self._found[id_]

    def _ask(self, text: str, before: Callable[[], None]) -> GivenAnswer:
        from ragsmith.systems.asking import ask_one  # noqa: PLC0415  an HTTP client is slow to import

        if not isinstance(self._system.built, BaseException):
            before()
        return ask_one(self._system, text, self._file)[0]

    @cached_property
    def _file(self) -> Path:
        from ragsmith.systems.asking import file_name  # noqa: PLC0415  as above

        make_folder(self._search.folder)
        return self._search.folder / file_name(self._system.name, self._setup.dataset, self._system.identity)

    @cached_property
    def _kept(self) -> dict[str, GivenAnswer]:
        from ragsmith.systems.asking import read_kept  # noqa: PLC0415  as above

        kept = read_kept(self._file, self._setup.dataset)
        return {self._setup.examples[id_].question: given for id_, given in kept.items()}


@dataclass(frozen=True)
class AskedExperiment(SystemExperiment):
    """An experiment whose engine asks a system when it needs an answer, which is then in ``answers``."""

    asking: Asking = field(kw_only=True)

    def _make_engine(self, gateway: Gateway, kind: type[Engine] = Engine) -> Engine:
        return AskingEngine(self, gateway)


class AskingEngine(SystemEngine):
    """Asks a system for the answers to questions, within the budget of ``gateway``; each is one request."""

    usage = ONE_CALL

    def __init__(self, setup: AskedExperiment, gateway: Gateway) -> None:
        ids = {example.question: example.id for example in setup.dataset.examples}
        super().__init__(setup.corpus, setup.loaded_models, gateway, setup.answers, ids)
        self._asking = setup.asking

    def _find(self, id_: str) -> LocatedAnswer | None:
        return self._asking.answer(id_, self.gateway.before_request)
