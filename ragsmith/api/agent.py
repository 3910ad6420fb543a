"""`agent`: tools of the Model Context Protocol for a coding agent, within limits that a person sets.

Every result is short: the decision, the reasons, the next step, and numbers and keys to go on with. The limits on
spending and on looks are those of the store, which no tool can change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial, wraps
from pathlib import Path
from textwrap import shorten
from threading import Event
from typing import Any, Unpack

from ragsmith.api.arguments import SettingChanges, WorkArguments, flags_of
from ragsmith.api.comparing import compare, gate
from ragsmith.api.diagnosing import explain
from ragsmith.api.resources import PriceSpec, Resources, read_given_prices
from ragsmith.api.searching import plan, search
from ragsmith.argument_types import check_types, checked
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import MissingExtra, RagsmithError, UsageError
from ragsmith.gateway.budget import TOTAL_KEY, Budget, Limits, LimitSpec, parse_spent, read_limits
from ragsmith.records.record import RunRecord, list_searches
from ragsmith.reporting import folder_of
from ragsmith.reporting.building import read_report
from ragsmith.reporting.decision import decide
from ragsmith.reporting.run_data import choose_run
from ragsmith.reporting.values import RunReport
from ragsmith.reporting.wording import describe_comparison, name_role
from ragsmith.runs.run_context import Step
from ragsmith.store.store import Store
from ragsmith.strategies.settings import check_choice
from ragsmith.text.redaction import redacted

try:
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError

    from ragsmith.serving.app import GuardedApp
    from ragsmith.serving.server import serve_app
    from ragsmith.serving.tools import ToolServer
except ImportError as error:
    raise MissingExtra("mcp", "serve") from error

PART_CHARACTERS, MAX_REASONS = 200, 5
"""Maximum length of each part of a result, in characters, and number of reasons: a result is below 2,000 characters."""


@checked
def agent(
    datasets: Sequence[str | Path],
    *,
    folders: Sequence[str | Path] = (),
    reports: str | Path = "reports",
    limits: LimitSpec = None,
    max_looks: int | None = 1,
    accept_spent: str | None = None,
    prices: PriceSpec = None,
    http: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: str | Path | Sequence[str | Path] | None = None,
    on_start: Callable[[str], None] | None = None,
    **given: Unpack[WorkArguments],
) -> None:
    """Serve tools of the Model Context Protocol that plan, search, explain, compare and gate, until a signal.

    >>> ragsmith.agent(["law"], http=True, port=0, on_start=print)  # doctest: +SKIP
    http://127.0.0.1:43017/

    The agent can use the ``datasets``, and files of pipelines and spaces in ``folders`` and in ``reports``, where
    searches write. These may import Python code and name models, so give only folders whose files you trust. ``limits``
    bound what all tools spend together with this ``cache``, also in earlier and concurrent servers; ``accept_spent`` is
    as for `ragsmith.search`. ``max_looks`` is the maximum number of looks at the same test questions, earlier ones
    included. The tools are served on standard input and output or, with ``http``, at ``/mcp`` of an address, as by
    `ragsmith.serve`.

    Raises:
        UsageError: a data set or a model cannot be used, models are served and there are no ``limits``, or as `serve`.
        SpendingDamaged: the record of spending is damaged, and ``accept_spent`` is not given.
        MissingExtra: the extra ``serve`` is not installed.
    """
    sources = {data.name: data.source for data in map(load_dataset, datasets)}
    limits, resources = read_limits(limits), Resources(**given)
    if not limits.by_name and (served := resources.setup(next(iter(sources.values()))).served):
        raise UsageError(f"the agent could spend any amount on {', '.join(served)}: set --max-calls or --max-cost")
    with (
        resources.store() as store,
        closing(
            Budget(
                store, TOTAL_KEY, limits, read_given_prices(prices), parse_spent(accept_spent) if accept_spent else None
            )
        ) as total,
    ):
        store.max_looks, store.total = max_looks, total
        tools = AgentTools(store, total, sources, folders, Path(reports), {**given, "cache": store}).server
        if http:
            serve_app(partial(GuardedApp, (), tools), host, port, token_file, on_start)
        else:
            tools.run("stdio")


class AgentTools:
    """Tools on the ``datasets`` of these names, and on files in ``folders`` and ``reports``.

    ``arguments`` are those of the public functions that the person has chosen: the models, the cache and so on.
    """

    def __init__(
        self,
        store: Store,
        total: Budget,
        datasets: Mapping[str, str],
        folders: Sequence[str | Path],
        reports: Path,
        arguments: Mapping[str, Any],
    ) -> None:
        self._store, self._total, self._datasets, self._arguments = store, total, datasets, arguments
        self._reports, self._folders = reports, [Path(folder).resolve() for folder in (*folders, reports)]
        self._stops: list[Event] = []
        self.server = ToolServer(
            "ragsmith",
            instructions="Finds the best retrieval-augmented generation pipeline for a data set. A person has limited "
            "what may be spent, and how often test questions may be looked at.",
            log_level="WARNING",
        )
        self.server.on_stop = self.stop
        for tool in (self.plan, self.stop, self.status, self.report, self.explain, self.compare, self.gate):
            self.server.add_tool(_name_errors(tool), structured_output=True)
        self.server.add_tool(self.search, structured_output=True)

    def plan(
        self,
        dataset: str,
        space: str | None = None,
        preset: str | None = None,
        without: list[str] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Estimate the requests, tokens and money of a search with the same arguments; nothing is sent or paid."""
        found = plan(**self._search_arguments(dataset, space, preset, without, settings))
        exceeded = self._total.limits.exceeded(self._store.spending(TOTAL_KEY).spent + found.spending)
        return _answer(
            f"about {found.spending}, "
            + (f"more than the limit on {exceeded} leaves" if exceeded else "within limits"),
            [f"{one.what}: {one.calls:,} requests, without them by {one.flag}" for one in found.choices],
            "set a lower max_evaluations, or ask the person for a higher limit" if exceeded else "search",
            pipelines=found.genomes or found.about_pipelines,
        )

    async def search(
        self,
        context: Context,
        dataset: str,
        space: str | None = None,
        preset: str | None = None,
        without: list[str] | None = None,
        settings: dict[str, Any] | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
    ) -> dict[str, Any]:
        """Search for the best pipeline; it takes minutes to hours and reports progress, and the same call resumes it.

        ``space`` is a bundled search space or a file, ``preset`` is default, quick or paper, and ``without`` excludes
        options, as FAMILY or FAMILY.OPTION. ``settings`` are others by name, such as max_evaluations, seed, objective
        and time_limit. ``max_calls`` and ``max_cost`` limit this search, besides the limits that the person set. To
        stop, call the tool stop, or cancel this call: nothing that was paid for is lost.
        """
        loop, stop, began = asyncio.get_running_loop(), Event(), time.monotonic()

        def show(step: Step) -> None:
            done = f"{step.phase} {step.number}: {step.evaluated} pipelines" + (
                "" if step.best is None else f", best fitness {step.best:.3f}"
            )
            asyncio.run_coroutine_threadsafe(context.report_progress(time.monotonic() - began, message=done), loop)

        @_name_errors
        def run() -> dict[str, Any]:
            found = search(
                **self._search_arguments(dataset, space, preset, without, settings),
                limits=Limits(max_calls, cost=max_cost),
                reports=self._reports,
                stop=stop.is_set,
                on_step=show,
            )
            return self._describe(found.run_report, found.why)

        self._stops.append(stop)
        try:
            return await asyncio.to_thread(run)
        finally:
            stop.set()  # if this call was cancelled
            self._stops.remove(stop)

    def stop(self) -> dict[str, Any]:
        """Pause all running searches, which answer soon after; the same calls of search resume them."""
        for stop in self._stops:
            stop.set()
        return _answer(f"{len(self._stops)} searches are stopping", [], "call search again to resume")

    def status(self) -> dict[str, Any]:
        """List the data sets, the latest runs with their states, what was spent, and the limits."""
        names = {row.digest: row.name for row in self._store.datasets()}
        return _answer(
            f"data sets: {', '.join(self._datasets)}; spent: {self._store.spending(TOTAL_KEY).spent}",
            [
                f"{row.key[:12]} on {names[row.dataset]}: {RunRecord.from_dict(row.value, row.key).state(row.state)}"
                for row in reversed(list_searches(self._store))
                if names.get(row.dataset) in self._datasets
            ],
            "report a run, or plan a search",
            limits={**self._total.limits.by_name, "looks": self._store.max_looks},
        )

    def report(self, dataset: str, run: str = "") -> dict[str, Any]:
        """Return the decision of the run whose key begins with ``run``, by default of the latest finished one."""
        check_choice("dataset", dataset, self._datasets)
        key = next((row.key for row in list_searches(self._store) if run and row.key.startswith(run)), run or None)
        return self._describe(read_report(self._store, choose_run(self._store, dataset, key)))

    def explain(self, dataset: str, pipeline: str, question: str) -> dict[str, Any]:
        """Trace a question, given by its id or text, through the file of a pipeline: what was lost where, and why."""
        found = explain(self._find_file(pipeline), question, **self._dataset_arguments(dataset))
        return _answer(
            f"{found.cause or 'no failure'}: {found.meaning or found.note}",
            [f"answer: {found.answer}", *(f"{stage.family}: {stage.said}" for stage in found.stages)],
            found.remedy or "compare the pipeline with another",
            scores=found.scores,
        )

    def compare(self, dataset: str, first: str, second: str, split: str = "search") -> dict[str, Any]:
        """Compare two pipelines: files, or naive, bm25 and recommended.

        On the ``split`` search; test and all are looks at test questions, which the person has limited.
        """
        found = compare(
            self._find_file(first), self._find_file(second), split=split, **self._dataset_arguments(dataset)
        )
        return _answer(
            f"the first: {describe_comparison(found.comparison, asked=f'{split} questions')}",
            found.notes,
            f"explain a question that the first loses: {', '.join(one.id for one in found.lost(3)) or 'none'}",
            first=found.fitness.first,
            second=found.fitness.second,
            p=found.fitness.p,
        )

    def gate(self, dataset: str, pipeline: str, against: str = "", split: str = "test") -> dict[str, Any]:
        """Test the file of a pipeline for a regression against its stored scores, or against another pipeline.

        On the ``split`` test it is a look at test questions; search needs ``against``.
        """
        found = gate(
            self._find_file(pipeline),
            against=self._find_file(against) if against else None,
            split=split,
            **self._dataset_arguments(dataset),
        )
        return _answer(
            found.reason,
            [f"{one.name} changed by {one.change:+.3f}" for one in found.lost],
            "use the pipeline" if found.passed else "explain a question that it loses",
            passed=found.passed,
            before=found.before,
            now=found.now,
            p=found.adjusted_p,
        )

    def _find_file(self, named: str) -> str:
        """Return the path of a file in the folders; a plain name without a file is returned as it is."""
        path, is_name = Path(named).resolve(), named.isidentifier() and not Path(named).exists()
        if not is_name and not any(path.is_relative_to(folder) for folder in self._folders):
            raise UsageError(f"{named!r} is not in the folders of this server: {', '.join(map(str, self._folders))}")
        return named if is_name else str(path)

    def _dataset_arguments(self, dataset: str) -> dict[str, Any]:
        check_choice("dataset", dataset, self._datasets)
        return {**self._arguments, "dataset": self._datasets[dataset]}

    def _search_arguments(
        self,
        dataset: str,
        space: str | None,
        preset: str | None,
        without: Sequence[str] | None,
        settings: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        # not the fitness, which may be a file with code
        known = flags_of(SettingChanges).keys() - {"fitness"}
        for name in settings or {}:
            check_choice("setting", name, known)
        check_types(SettingChanges, (settings or {}).items())
        return {
            **(settings or {}),
            **self._dataset_arguments(dataset),
            "space": space and self._find_file(space),
            "preset": preset,
            "without": without,
            "prices": self._total.prices,
        }

    def _describe(self, report: RunReport, why: str = "") -> dict[str, Any]:
        """Return the decision of a report, and that its run was paused for the reason ``why``, if there is one."""
        decision, paused = decide(report), f"paused: {why}" if why else ""
        if decision is None:
            return _answer(paused or f"no winner: {report.about.record.no_winner}", [], "search", run=report.about.run)
        return _answer(
            f"take {name_role(decision.take)}: {decision.taken.name}",
            [paused, decision.verdict, decision.answers, decision.evidence, decision.limits],
            "call search again to resume" if why else decision.next or "compare it with other pipelines",
            run=report.about.run[:12],
            calls_per_question=decision.taken.calls,
            winner=str(self._reports / folder_of(report.about.dataset) / "winner.yaml"),
        )


def _answer(decision: str, reasons: Sequence[str], next_step: str, **facts: Any) -> dict[str, Any]:
    """Return the result of a tool; empty reasons are left out, and long parts are shortened."""
    decision, next_step, *said = (
        shorten(redacted(part), PART_CHARACTERS) for part in (decision, next_step, *filter(None, reasons))
    )
    return {"decision": decision, "reasons": said[:MAX_REASONS], "next_step": next_step, **facts}


def _name_errors(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return ``tool`` with its errors as errors of the protocol, whose messages the agent reads."""

    @wraps(tool)
    def call(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*arguments, **named)
        except RagsmithError as error:
            raise ToolError(shorten(redacted(str(error)), PART_CHARACTERS * MAX_REASONS)) from None

    return call
