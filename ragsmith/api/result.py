"""What a search found, to look at from Python: a ranking, a verdict, test scores, questions, and the winner itself.

Everything is taken from the report of the run, which is worked out when something of it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsmith.comparison.verdicts import Comparison
from ragsmith.datasets.splits import undivided
from ragsmith.errors import MissingExtra, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import COMPOSITES
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.reference import Reference
from ragsmith.exported.writing import expected_scores, write_winner
from ragsmith.gateway.budget import Spent
from ragsmith.pipelines.genes import GENES
from ragsmith.records.record import CROSSFIT
from ragsmith.reporting.building import answered, build_report
from ragsmith.reporting.plots import convergence
from ragsmith.reporting.rendering import chart_page, chart_svg
from ragsmith.reporting.report_files import write_reports
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.reporting.summary import summary_lines
from ragsmith.reporting.values import TITLES, AnsweredQuestion, Finalist, PipelineRow, RunReport
from ragsmith.reporting.wording import headline, sentence
from ragsmith.runs.run import RunOutcome
from ragsmith.store.store import Store, open_store
from ragsmith.text import numbers
from ragsmith.text.suggest import did_you_mean

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_ROWS = 10
"""Pipelines that a notebook shows."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict of a run: in a sentence or two, and each comparison on the test questions with its numbers."""

    words: str
    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        return "\n".join([self.words, *map(sentence, self.comparisons)])


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as SVG, which a notebook shows; it is as wide as there is room for it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


class Result:
    """What `ragsmith.search` found.

    >>> found = ragsmith.search("law", space="quick", seed=1, max_evaluations=8, probes=False)
    >>> print(f"{found.front[-1].usage['calls']:.0f} call a question: {found.front[-1].label}")
    1 call a question: contextual_chunk_headers + retrieval hybrid
    >>> found.to_pandas()["fitness"].is_monotonic_decreasing
    True
    >>> len(found.records("naive")) == len(found.to_pandas("records"))
    True

    ``state`` is ``finished``, or ``interrupted`` at a limit, and ``why`` then says at which: the same search again goes
    on. ``computed`` and ``reused`` count answers, ``calls_made`` the calls of all models in this search; ``spent`` is
    what was sent to servers, over all resumes. ``damaged`` names rows of the cache that had to be computed again.
    ``files`` are those that were written of it so far. ``no_winner`` says why there is none, where that is so.
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

        A pipeline may fail on some of them, and is ranked as if each failure had scored the lowest there is. Pipelines
        that found and answered the same share a row. The first ten have intervals.
        """
        return self.domain.ranking

    @property
    def verdict(self) -> Conclusion:
        """Whether the winner is really better, by the questions that the search never saw."""
        return Conclusion(headline(self.domain), self.domain.comparisons)

    @property
    def test(self) -> tuple[Finalist, ...]:
        """The winner and what it has to beat, each on the search questions and on the test questions."""
        return self.domain.finalists

    @property
    def front(self) -> tuple[PipelineRow, ...]:
        """The pipelines of the ranking that no other is as good as in everything that the search weighed; best first.

        That is fitness and model calls a question, unless there were objectives. The last is the cheapest worth having.
        """
        return self.domain.front

    @cached_property
    def winner(self) -> Pipeline:
        """The best pipeline on the search questions, which can be asked at once.

        Raises:
            UsageError: there is none, and ``no_winner`` says why.
        """
        material = self._run
        winner, fitness = self._outcome.winner, material.fitness
        if winner is None:
            raise UsageError(f"this search has no winner: {self.no_winner}")
        home, test = self.setup, material.on_test(winner.key)
        if saw_all := material.record.settings.verdict == CROSSFIT:
            home = replace(home, divided=undivided(home.dataset))
        setup = home.of(winner.candidate)
        ids = None if winner.candidate[GENES:] else material.record.models
        return Pipeline(
            winner.candidate[:GENES],
            setup,
            fitness=fitness,
            expected=expected_scores(material.on_search(winner.key), test, fitness),
            model_ids=ids,
            reference=Reference.from_evaluation(setup, test, fitness, ids) if test else None,
            saw_all=saw_all,
        )

    def records(self, pipeline: str | PipelineRow = "winner") -> tuple[AnsweredQuestion, ...]:
        """What a pipeline did question by question.

        It is named ``winner``, ``naive``, ``bm25`` or ``random``, or is a row of the ranking.

        Raises:
            UsageError: this run has no such pipeline.
        """
        material = self._run
        name = pipeline.label if isinstance(pipeline, PipelineRow) else pipeline
        key = pipeline.key if isinstance(pipeline, PipelineRow) else self._named.get(pipeline, pipeline)
        if material.on_search(key) is None:
            raise UsageError(f"this run has no pipeline {name!r}: {did_you_mean(name, self._named)}")
        return tuple(answered(material, name, key))

    @property
    def _named(self) -> dict[str, str]:
        """Pipelines that have a name, and their keys."""
        domain = self.domain
        rows = {"winner": domain.winner, **domain.baselines, "random": domain.random}
        return {name: row.key for name in TITLES if (row := rows.get(name))}

    def to_pandas(self, table: str = "ranking") -> DataFrame:
        """A table as a data frame: ``ranking``, ``front``, ``test``, or ``records``, the winner question by question.

        Raises:
            MissingExtra: pandas is not installed.
            UsageError: there is no such table.
        """
        try:
            from pandas import DataFrame  # noqa: PLC0415  it is optional, and slow to import
        except ImportError as error:
            raise MissingExtra("pandas", "pandas") from error
        tables: dict[str, Iterable[dict[str, Any]]] = {
            "ranking": ({"place": place, **_flat(row)} for place, row in enumerate(self.ranking, 1)),
            "front": map(_flat, self.front),
            "test": ({"name": finalist.title, **_flat(finalist.test)} for finalist in self.test),
            "records": ({**asdict(record), **record.measures} for record in self.records()),
        }
        if table not in tables:
            raise UsageError(f"unknown table {table!r}: {did_you_mean(table, tables)}")
        found = DataFrame(list(tables[table]))
        return found.drop(columns="measures") if table == "records" else found

    def plot(self, path: str | Path | None = None) -> Picture:
        """The best fitness against pipelines evaluated, as a notebook shows it.

        ``path`` names a file to write it to, ``.svg``, or a page in HTML; either needs nothing else to be looked at.
        """
        chart, title = convergence(self.domain), f"Search on {self.domain.about.dataset}"
        picture = Picture(chart_svg(chart))
        if path is not None:
            alone = Path(path).suffix == ".svg"
            Path(path).write_text(picture.svg if alone else chart_page(title, chart), encoding="utf-8")
        return picture

    def export(self, path: str | Path) -> Path:
        """Write the winner to a YAML file, for ``ragsmith ask`` and `Pipeline.load`, and return its path."""
        with open_store(self._cache, read_only=True) as store:
            written = write_winner(store, self.key, self.setup, Path(path))
        self.files += (written,)
        return written

    def report(self, folder: str | Path) -> tuple[Path, ...]:
        """Write the report into a folder of ``folder`` that is named after the data set, and return its files."""
        written = write_reports(Path(folder), (self.domain,))
        self.files += written
        return written

    @cached_property
    def domain(self) -> RunReport:
        """Everything that the report says."""
        return build_report(self._run)

    @cached_property
    def _run(self) -> RunData:
        """The run as it is stored; what the search has met already is not read again."""
        with open_store(self._cache, read_only=True) as store:
            about = choose_run(store, self.setup.dataset.name, self.key)
            return RunData(store, about, self._outcome.evaluations, whole=self._outcome.ended_before)

    @property
    def summary(self) -> str:
        """Ranking, baselines and verdict in a few lines of text."""
        return "\n".join(summary_lines(self.domain))

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        if (
            "domain" not in self.__dict__
        ):  # a debugger that shows it must neither wait for the report nor need the cache
            return f"<Result: search {self.key[:12]} on {self.setup.dataset.name}, {self.state}>"
        about, words = self.domain.about, headline(self.domain)
        best = f", the best {self.domain.winner.label!r}" if self.domain.winner else ""
        return f"<Result: {self.domain.proposed} pipelines on {about.dataset}, {self.state}{best}. {words}>"

    def _repr_html_(self) -> str:
        head = ["", "pipeline", "fitness, 95 % interval", "retrieval", "generation", "calls a question"]
        body = "".join(_html_row(place, row) for place, row in enumerate(self.ranking[:SHOWN_ROWS], 1))
        cells = "".join(f"<th>{escape(name)}</th>" for name in head)
        verdict = escape(self.verdict.words)
        return f"<p>{verdict}</p><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _flat(row: PipelineRow) -> dict[str, Any]:
    """A pipeline as one row of a table: its means, intervals where there are some, model calls, and its genes."""
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


def _html_row(place: int, row: PipelineRow) -> str:
    parts = [row.scores[name].mean if name in row.scores else None for name in COMPOSITES]
    scores = [numbers.mean(row.scores["fitness"]), *map(numbers.plain, parts)]
    cells = [str(place), row.label, *scores, f"{row.usage['calls']:.1f}"]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
