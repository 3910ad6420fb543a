"""Searches whose models are behind servers of `fault_server`, and what they leave."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from fault_kinds import Fault, Sent, endpoint
from fault_server import FaultServer, Request

from ragsmith.digest import to_canonical_json
from ragsmith.evaluation.experiment import Experiment
from ragsmith.models.loading import Loader
from ragsmith.models.names import LATE_INTERACTION, WORDLLAMA, ModelName, ModelNames
from ragsmith.models.roles import Models
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Allowance, Execution, Run, RunOutcome
from ragsmith.runs.run_context import Callbacks
from ragsmith.store.store import Store
from ragsmith.strategies.settings import GeneticSettings

PASSING = ("429", "429_ms", "500", "502", "reset", "cut", "cut_stream")
"""Faults that another attempt does not meet."""

Rule = Callable[[Request], Fault | None]


class Ruled(FaultServer):
    """Fails as ``rule`` says, which is given each request as it arrives."""

    def __init__(self, rule: Rule | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.rule: Rule = rule or (lambda request: None)

    def _fault(self, request: Request) -> Fault | None:
        return self.rule(request) or super()._fault(request)

    async def _serve_one(self, reader: Any, sent: Sent) -> bool:
        return await super()._serve_one(reader, _Streaming(sent))

    @property
    def given(self) -> list[Request]:
        """The requests that were answered."""
        return [request for request in self.log if request.status == 200 and not request.fault]

    def most_given(self) -> int:
        """How often the request was answered that was answered most: more than once is paid more than once."""
        return max(Counter(request.digest for request in self.given).values(), default=0)


class _Streaming(Sent):
    """Also breaks off in the middle of a stream: ``cut_stream``."""

    def __init__(self, sent: Sent) -> None:
        super().__init__(sent._reader, sent._writer)

    async def out(self, fault: Fault | None, status: int, headers: dict[str, str], body: bytes) -> bool:
        if fault is None or fault.kind != "cut_stream":
            return await super().out(fault, status, headers, body)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._writer.write(head + f"{len(body):x}\r\n".encode() + body + b"\r\n")  # and no chunk that ends it
        return False


def passing(share: float, seed: int = 0, wait: float = 0.05, kinds: tuple[str, ...] = PASSING) -> Rule:
    """A share of all attempts fails, drawn from the content and the number of the attempt; never four in a row."""

    def rule(request: Request) -> Fault | None:
        draw = random.Random(f"{seed} {request.digest} {request.attempt}")
        if request.attempt > 3 or draw.random() >= share:
            return None
        return Fault(draw.choice(kinds), wait=wait)

    return rule


def said(request: Request) -> str:
    """The prompt of a request, or the texts that it holds."""
    body = request.body or {}
    if endpoint(request.path, body) == "chat":
        return str(body["messages"][-1]["content"])
    return json.dumps(body)


def is_judging(request: Request) -> bool:
    return "<reference>" in said(request)


# --- in this process -------------------------------------------------------------------------------------------------


QUICK: Mapping[str, Any] = {"attempts": 5, "pause": 0.01, "failures_in_a_row": 1000}
"""How providers are asked: as always, but for shorter pauses."""


@dataclass(frozen=True)
class Served(Experiment):
    """A set-up whose providers have another policy."""

    policy: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def loaded_models(self) -> Models:
        texts = [chunk.text for chunk in self.corpus.chunks]
        loader = Loader(
            {role: self.models.for_role(role) for role in self.models.named_roles}, texts, **QUICK | self.policy
        )
        return Models(
            language_model=loader.model("language_model"),
            embedder=loader.model("embedder"),
            cross_encoder=loader.model("cross_encoder"),
            judge=loader.model("judge" if self.models.judge else "language_model"),
        )


def served(
    setup: Experiment, llm: str, *, judge: str = "", embedder: str = "", reranker: str = "", **policy: Any
) -> Experiment:
    """``setup`` with a language model at the base URL ``llm``, and with others where one is given."""
    names = ModelNames(
        ModelName("openai:tiny", base_url=llm),
        ModelName("openai:vectors", base_url=embedder) if embedder else WORDLLAMA,
        ModelName("rerank:ranks", base_url=reranker) if reranker else LATE_INTERACTION,
        ModelName("openai:judge", base_url=judge) if judge else None,
    )
    return Served(setup.dataset, names, setup.chunk_size, policy=policy)


def small(evaluations: int = 8, strategy: str = "genetic") -> RunSettings:
    genetic = GeneticSettings(population=4, generations=8, elitism=1, selection="tournament")
    return RunSettings(strategy, genetic, evaluations, probes=False)


def searched(
    setup: Experiment, space: Space, store: Store, settings: RunSettings | None = None, **options: Any
) -> RunOutcome:
    return Run(setup, space, store, settings or small(), **grouped(**{"workers": 8, **options})).go()


def grouped(**options: Any) -> dict[str, Any]:
    """Arguments of `Run`: the fields of its groups of arguments, which are given by their names here, in the groups."""
    kinds = {"execution": Execution, "allowance": Allowance, "callbacks": Callbacks}
    names = {field.name: group for group, kind in kinds.items() for field in fields(kind)}
    given = {group: {name: options[name] for name in options if names.get(name) == group} for group in kinds}
    rest = {name: value for name, value in options.items() if name not in names}
    return {**rest, **{group: kinds[group](**values) for group, values in given.items()}}


# --- what a search leaves --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Left:
    """A run in the store: its rows, without times and counts of attempts."""

    state: str
    winner: str | None
    ranking: tuple[tuple[int, str, Any], ...]
    results: dict[tuple[str, str], tuple[str, str]]
    calls: dict[str, str]


def left(store: Store) -> Left:
    [run] = store.runs()
    keys = [row.key for row in store.evaluations(run.dataset)]
    return Left(
        run.state,
        RunRecord.from_dict(run.value).winner,
        tuple((row.position, row.evaluation, row.fitness) for row in store.proposals(run.key)),
        {
            (key, question): (row.state, to_canonical_json(row.value))
            for key, rows in store.results_many(keys).items()
            for question, row in rows.items()
        },
        calls(store),
    )


def calls(store: Store) -> dict[str, str]:
    """Every paid reply that the store has: key to value."""
    with closing(sqlite3.connect(f"file:{store.place}?mode=ro", uri=True)) as connection:
        return dict(connection.execute("select key, value from model_call").fetchall())


def failures(store: Store) -> dict[tuple[str, str], str]:
    """What was wrong, by evaluation and question."""
    failed = {place: json.loads(value) for place, (state, value) in left(store).results.items() if state == "failed"}
    return {place: value["error"] for place, value in failed.items()}
