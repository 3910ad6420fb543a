"""The result of a search in Python: ranking, verdict, test scores, answers by question, and the winner.

All values come from the report of the run, which is computed on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsmith.comparison.verdicts import Comparison
from ragsmith.datasets.splits import search_only_split
from ragsmith.display import short_repr
from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import COMPOSITES
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.reference import Reference
from ragsmith.exported.writing import expected_scores, write_winner
from ragsmith.gateway.budget import Spent
from ragsmith.pipelines.genes import N_FAMILIES, label
from ragsmith.records.record import CROSSFIT
from ragsmith.reporting.building import build_report, iterate_answers
from ragsmith.reporting.charts import Chart
from ragsmith.reporting.decision import Decision, decide
from ragsmith.reporting.plots import (
    plot_convergence,
    plot_effects,
    plot_fronts,
    plot_interactions,
    plot_verdicts,
)
from ragsmith.reporting.rendering import chart_page, chart_svg
from ragsmith.reporting.report_files import write_reports
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.reporting.summary import summary_lines
from ragsmith.reporting.values import TITLES, AnsweredQuestion, Finalist, PipelineRow, RunReport
from ragsmith.reporting.wording import describe_comparison, describe_estimate, summarize_verdicts
from ragsmith.runs.run import RunOutcome
from ragsmith.store.store import Store, open_store
from ragsmith.text import numbers
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.table import Table, figures, texts, to_data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_ROWS = 10
"""Maximum number of pipelines in the HTML representation."""


@dataclass(frozen=True, slots=True)
class VerdictSummary:
    """The verdict of a run in one or two sentences, and the comparisons on the test questions.

    Without a test, as the questions were looked at before, ``estimates`` are differences on search questions.
    """

    words: str
    comparisons: tuple[Comparison, ...]
    estimates: tuple[Comparison, ...] = ()

    __repr__ = short_repr

    def __str__(self) -> str:
        estimated = map(describe_estimate, self.estimates)
        return "\n".join([self.words, *map(describe_comparison, self.comparisons), *estimated])


@dataclass(frozen=True, slots=True)
class SvgChart:
    """An SVG chart, which a notebook displays at the available width."""

    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg


class Result:
    """The result of `ragsmith.search`.

    >>> found = ragsmith.search("law", space="quick", seed=1, max_evaluations=8, probes=False)
    >>> print(f"{found.front[-1].usage['calls']:.0f} call a question: {found.front[-1].label}")
    1 call a question: contextual_chunk_headers + retrieval hybrid
    >>> found.to_pandas()["fitness"].is_monotonic_decreasing
    True
    >>> len(found.records("naive")) == len(found.to_pandas("records"))
    True

    ``state`` is ``finished``, or ``interrupted`` if a limit was reached, which ``why`` names; the same call resumes the
    search. ``computed`` and ``reused`` count answers, ``calls_made`` the calls of all models in this search; ``spent``
    counts requests to servers, over all resumes. ``damaged`` lists rows of the cache that had to be recomputed.
    ``files`` lists the files written so far. ``no_winner`` is the reason if there is no winner, else "".
    """

    def __init__(
        self, outcome: RunOutcome, setup: Experiment, cache: Store | str | Path, damaged: Sequence[str] = ()
    ) -> None:
        self._outcome = outcome
        self._cache = cache if isinstance(cache, Store) or "://" in str(cache) else Path(cache).resolve()
        self.setup = setup
        self.damaged = tuple(damaged)
        self.files: tuple[Path, ...] = ()
        self.key: str = outcome.key
        self.state: str = outcome.state
        self.why: str = outcome.why
        self.no_winner: str = outcome.no_winner
        self.computed: int = outcome.computed
        self.reused: int = outcome.reused
        self.calls_made: int = outcome.calls_made
        self.spent: Spent = outcome.spent

    @property
    def ranking(self) -> tuple[PipelineRow, ...]:
        """The pipelines that answered enough of the search questions, the winner first, then by fitness.

        A failed question counts with the lowest possible score. Pipelines with the same passages and answers share a
        row. The first ten have intervals. Pipelines that were stopped early, as the race showed them to be worse, have
        none: search with ``race=False`` keeps them.
        """
        return self.run_report.ranking

    @property
    def verdict(self) -> VerdictSummary:
        """The comparison of the winner with the baselines on test questions, which the search did not use."""
        report = self.run_report
        return VerdictSummary(summarize_verdicts(report), report.comparisons, report.estimates)

    @property
    def test(self) -> tuple[Finalist, ...]:
        """The winner and the baselines, each on the search questions and on the test questions."""
        return self.run_report.finalists

    @property
    def front(self) -> tuple[PipelineRow, ...]:
        """The Pareto front of the ranking under the objectives of the search, best fitness first.

        The default objectives are fitness and model calls per question. The last pipeline is the cheapest of the front.
        """
        return self.run_report.front

    @cached_property
    def winner(self) -> Pipeline:
        """The best pipeline on the search questions, ready to answer questions.

        Raises:
            UsageError: there is no winner; ``no_winner`` is the reason.
        """
        run_data = self._run
        winner, fitness = self._outcome.winner, run_data.fitness
        if winner is None:
            raise UsageError(f"this search has no winner: {self.no_winner}")
        if self.setup.system:
            raise UsageError(f"the winner is another system, {label(winner.candidate)}, which its own program runs")
        home, test = self.setup, run_data.on_test(winner.key)
        if chosen_on_all := run_data.record.settings.verdict == CROSSFIT:
            home = replace(home, fixed_split=search_only_split(home.dataset))
        setup = home.for_candidate(winner.candidate)
        ids = None if winner.candidate[N_FAMILIES:] else run_data.record.models
        return Pipeline(
            winner.candidate[:N_FAMILIES],
            setup,
            fitness=fitness,
            expected=expected_scores(run_data.on_search(winner.key), test, fitness),
            model_ids=ids,
            reference=Reference.from_evaluation(setup, test, fitness, ids) if test else None,
            chosen_on_all=chosen_on_all,
        )

    def records(self, pipeline: str | PipelineRow = "winner") -> tuple[AnsweredQuestion, ...]:
        """The answers and scores of a pipeline by question.

        ``pipeline`` is ``winner``, ``naive``, ``bm25`` or ``random``, or a row of the ranking.

        Raises:
            UsageError: this run has no such pipeline.
        """
        run_data = self._run
        name = pipeline.label if isinstance(pipeline, PipelineRow) else pipeline
        key = pipeline.key if isinstance(pipeline, PipelineRow) else self._keys_by_name.get(pipeline, pipeline)
        if run_data.on_search(key) is None:
            raise UsageError(f"this run has no pipeline {name!r}: {did_you_mean(name, self._keys_by_name)}")
        return tuple(iterate_answers(run_data, name, key))

    @property
    def _keys_by_name(self) -> dict[str, str]:
        """The keys of the named pipelines."""
        domain = self.run_report
        rows = {"winner": domain.winner, **domain.baselines, "random": domain.random}
        return {name: row.key for name in TITLES if (row := rows.get(name))}

    def to_pandas(self, table: str = "ranking") -> DataFrame:
        """A table as a data frame: ``ranking``, ``front``, ``test``, or ``records``, the winner by question.

        Raises:
            MissingExtra: pandas is not installed.
            UsageError: there is no such table.
        """
        tables: dict[str, Iterable[dict[str, Any]]] = {
            "ranking": ({"place": place, **_to_cells(row)} for place, row in enumerate(self.ranking, 1)),
            "front": map(_to_cells, self.front),
            "test": ({"name": finalist.title, **_to_cells(finalist.test)} for finalist in self.test),
            "records": ({**asdict(record), **record.measures} for record in self.records()),
        }
        if table not in tables:
            raise UsageError(f"unknown table {table!r}: {did_you_mean(table, tables)}")
        found = to_data_frame(tables[table])
        return found.drop(columns="measures") if table == "records" else found

    def plot(self, chart: str = "convergence", path: str | Path | None = None) -> SvgChart:
        """Plot ``convergence``, ``trade-off``, ``verdict``, ``effects`` or ``pairs``; a notebook displays the chart.

        These are the best fitness by number of evaluated pipelines; fitness by model calls; the winner minus each rival
        on test questions, or on search questions without a test; the gain of each option over all pairs of pipelines;
        and, once the winner was ablated, what its parts gain together beyond the sum of their single gains.

        The chart is also written to ``path``, as SVG if its suffix is ``.svg``, else as a self-contained HTML page.

        Raises:
            UsageError: there is no such chart, or nothing to plot in it.
        """
        report = self.run_report
        plots: dict[str, Callable[[], Chart | None]] = {
            "convergence": lambda: plot_convergence(report),
            "trade-off": lambda: plot_fronts(report)[0],
            "verdict": lambda: plot_verdicts(report.comparisons or report.estimates),
            "effects": lambda: plot_effects(report.effects),
            "pairs": lambda: plot_interactions(report.ablation),
        }
        if chart not in plots:
            raise UsageError(f"unknown chart {chart!r}: {did_you_mean(str(chart), plots)}; a file is  path=")
        found = plots[chart]()
        if found is None:
            raise UsageError(
                f"there is nothing to plot as {chart!r} for this search: "
                + ("run  ragsmith.ablate  on its winner" if chart == "pairs" else "evaluate more pipelines")
            )
        image = SvgChart(chart_svg(found))
        if path is not None:
            title = f"Search on {report.about.dataset}"
            is_svg = Path(path).suffix == ".svg"
            Path(path).write_text(image.svg if is_svg else chart_page(title, found), encoding="utf-8")
        return image

    def export(self, path: str | Path) -> Path:
        """Write the winner to a YAML file, for ``ragsmith ask`` and `Pipeline.load`, and return its path."""
        with open_store(self._cache, read_only=True) as store:
            written = write_winner(store, self.key, self.setup, Path(path))
        self.files += (written,)
        return written

    def report(self, folder: str | Path) -> tuple[Path, ...]:
        """Write the report to a subfolder of ``folder`` named after the data set, and return its files."""
        written = write_reports(Path(folder), (self.run_report,))
        self.files += written
        return written

    @cached_property
    def run_report(self) -> RunReport:
        """The content of the report."""
        return build_report(self._run)

    @cached_property
    def _run(self) -> RunData:
        """The stored run; evaluations that are in memory are not read again."""
        with open_store(self._cache, read_only=True) as store:
            about = choose_run(store, self.setup.dataset.name, self.key)
            return RunData(store, about, self._outcome.evaluations, whole=self._outcome.ended_before)

    @property
    def decision(self) -> Decision | None:
        """The pipeline to take with the evidence for it, and the command that exports it; None without a winner."""
        return decide(self.run_report)

    @property
    def summary(self) -> str:
        """The ranking, the baselines and the verdict as text."""
        return "\n".join(summary_lines(self.run_report))

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        # a debugger must not compute the report or read the cache
        on, found = f"on {self.setup.dataset.name}, {self.state}", self._outcome.winner
        best = f", the best {label(found.candidate) or 'naive RAG'!r}" if found else ""
        if "run_report" not in self.__dict__:
            return f"<Result: search {self.key[:12]} {on}{best}>"
        report = self.run_report
        score = f" with fitness {numbers.plain(report.winner.scores['fitness'].mean)}" if report.winner else ""
        return f"<Result: {report.proposed} pipelines {on}{best}{score}. {summarize_verdicts(report)}>"

    def _repr_html_(self) -> str:
        head = texts("", "pipeline", "fitness, 95 % interval")
        columns = (*head, *figures(numbers.plain, *COMPOSITES), *figures(numbers.tenths, "calls a question"))
        rows = [
            (str(place), row.label, numbers.mean(row.scores["fitness"]), *_parts(row), row.usage["calls"])
            for place, row in enumerate(self.ranking[:SHOWN_ROWS], 1)
        ]
        dropped, failed = self.run_report.dropped, self.run_report.failed
        said = (
            self.verdict.words,
            f"{dropped:,} pipelines were stopped early: search with race=False keeps them." * bool(dropped),
            f"{failed:,} answers failed: print(result) says why." * bool(failed),
        )
        return Table(" ".join(filter(None, said)), columns, rows)._repr_html_()


def _parts(row: PipelineRow) -> Iterator[float | None]:
    return (row.scores[name].mean if name in row.scores else None for name in COMPOSITES)


def _to_cells(row: PipelineRow) -> dict[str, Any]:
    """Return a pipeline as a row of a table: its means, their intervals if known, model calls, and genes."""
    cells: dict[str, Any] = {"pipeline": row.label}
    if row.ranked_by is not None:
        cells |= {"ranked_by": row.ranked_by, "scored": row.coverage.scored, "failed": row.coverage.failed}
    for name, score in row.scores.items():
        cells[name] = score.mean
        if score.low is not None:
            cells |= {f"{name}_low": score.low, f"{name}_high": score.high}
    timed = {} if row.latency_seconds is None else {"latency_seconds": row.latency_seconds}
    return {
        **cells,
        "calls": row.usage.get("calls"),
        **timed,
        **{f"gene_{family}": gene for family, gene in row.genes.items()},
    }
