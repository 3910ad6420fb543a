"""The sections of a report. Each is declared here once; the HTML page and the Markdown file both walk the same list.

A section is a function from the report of a run to the blocks that it shows, in order. One that has nothing to show
yields nothing and is left out, with its heading and its link. Their order is that in which a reader decides: what is
claimed, what the winner is and costs, why, and then how all of it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ragsmith.reporting import plots, run_tables, wording
from ragsmith.reporting.blocks import (
    Block,
    Collapsed,
    Plot,
    ReportSection,
    TermList,
    examples,
    pipeline_diagram,
    question_list,
    terms_in,
)
from ragsmith.reporting.values import RunReport
from ragsmith.text.table import Table

Writer = Callable[[RunReport], Iterable[Block]]

WRITERS: dict[str, tuple[str, str, Writer]] = {}
"""Title, link and function of every section by its anchor, in the order of the report."""


def section(title: str, link: str) -> Callable[[Writer], Writer]:
    """Declare a section; the name of the function is its anchor."""

    def declare(write: Writer) -> Writer:
        WRITERS[write.__name__] = (title, link, write)
        return write

    return declare


def sections(report: RunReport) -> list[ReportSection]:
    """The sections that have something to show, in the order of their declaration, and the terms that they use."""
    found = [ReportSection(name, title, link, tuple(write(report))) for name, (title, link, write) in WRITERS.items()]
    return with_terms([one for one in found if one.blocks], wording.scores_explained(report))


def with_terms(listed: Sequence[ReportSection], before: str = "") -> list[ReportSection]:
    """Sections followed by the terms that they use; ``before`` is the text in front of them."""
    prose = [before, *(text for one in listed for block in one.blocks for text in _prose(block))]
    return [*listed, ReportSection("terms", "What the words mean", "Terms", (TermList(terms_in(prose)),))]


def _prose(block: Block) -> Iterator[str]:
    """The report's own words in a block."""
    if isinstance(block, str):
        yield block
    elif isinstance(block, Table):
        yield from (block.caption, *(column.name for column in block.columns))
    elif isinstance(block, Collapsed):
        yield from (text for inner in block.blocks for text in _prose(inner))


@section("Is it really better?", "Verdict")
def test(report: RunReport) -> Iterator[Block]:
    """The winner against what it has to beat, on questions that the search never saw."""
    if not report.comparisons:
        return
    count = len(report.about.record.tested)
    groups = report.about.record.tested_groups
    counted = f"{groups}, none of which" if groups else f"{count} test questions, which"
    said = f"The winner and what it has to beat, on {counted} the search {'saw' if groups else 'never saw'}."
    if report.folds:
        said = wording.crossfit_explained(report)
    n = next((found.n for c in report.comparisons if (found := c.difference)), count)
    if n < count:
        said += (
            f" They are compared on the {n} that all of them finished. The lead must also hold with the failures of "
            "the leader as the lowest score there is, and p is the larger of the two: it may be large although the "
            "interval excludes 0."
        )
    yield said
    if chart := plots.verdicts(report.comparisons):
        yield Plot(chart)
    if report.folds:
        yield run_tables.folds(report)
    divided = (table,) if (table := run_tables.division(report)) else ()
    yield Collapsed("All numbers of the test", (run_tables.verdicts(report), run_tables.finalists(report), *divided))


@section("The winner", "Winner")
def winner(report: RunReport) -> Iterator[Block]:
    """The stations of the best pipeline, and what was fitted."""
    if found := pipeline_diagram(report):
        yield wording.winner_in_words(len(found.changed), len(found.stations))
        yield found
        if report.winner and report.winner.fitted:
            yield Collapsed("Numbers that were fitted", (run_tables.winner(report),))


@section("Quality against cost", "Cost")
def front(report: RunReport) -> Iterator[Block]:
    """What more quality costs."""
    if len(report.front) > 1:
        yield from map(Plot, plots.fronts(report))
        yield run_tables.front(report)
        yield wording.front_explained(report)


@section("How long an answer takes", "Latency")
def latency(report: RunReport) -> Iterator[Block]:
    """Percentiles by station, of pipelines that were timed."""
    if report.timed:
        yield wording.TIMED_ALONE
        yield run_tables.latencies(report)


@section("What each part is worth", "Parts")
def parts(report: RunReport) -> Iterator[Block]:
    """The winner without each of its parts, with others in their place, and what they do together."""
    found = report.ablation
    if found is not None and found.outs:
        yield wording.parts_explained(found)
        if chart := plots.parts(found):
            yield Plot(chart)
        yield Collapsed("All numbers of the parts", (run_tables.parts(found),))
        if found.interactions:
            yield wording.describe_interaction(found.interactions[0])
            yield Collapsed("Parts together", (run_tables.together(found),))
        if found.swaps:
            yield Collapsed("Other options in their place", (run_tables.swaps(found),))
        if found.signals:
            yield Collapsed("Signals of the learned ranking", (run_tables.signals(found),))
    if report.winner and report.about.record.removals:
        yield Collapsed("How the winner was simplified", (wording.simplified(report), run_tables.removals(report)))


@section("Questions", "Questions")
def questions(report: RunReport) -> Iterator[Block]:
    """Which questions gained and lost, why questions fail, and all of them."""
    found = report.questions
    if found.causes:
        yield run_tables.causes(report)
    if found.repairs:
        yield run_tables.repairs(report)
    if found.interventions:
        yield run_tables.interventions(report)
    if found.asked:
        yield wording.EXPLAIN_ONE.format(id=(found.shown or found.asked)[0].question)
    yield from examples(report)
    if listed := question_list(report):
        yield wording.LISTED
        yield listed


@section("By question type and by kind of document", "Types")
def types(report: RunReport) -> Iterator[Block]:
    """Scores and costs by group of questions."""
    if report.types:
        yield wording.BY_GROUP
        if report.groups_split == "search":
            yield "These are search questions, so the winner's scores are biased in its favour."
        yield Plot(plots.types(report))
        shown = (run_tables.types(report), *((run_tables.modalities(report),) if report.modalities else ()))
        yield Collapsed("All pipelines, scores and costs by group", shown)


@section("The search", "Search")
def search(report: RunReport) -> Iterator[Block]:
    """How the best score grew, and the steps of the strategy."""
    if any(value is not None for value in report.search_curve):
        yield Plot(plots.convergence(report))
    if report.about.record.history:
        yield Collapsed("Steps of the search", (run_tables.history(report),))


@section("Ranking on the search questions", "Ranking")
def ranking(report: RunReport) -> Iterator[Block]:
    """The best pipelines on the search questions."""
    if report.ranking or report.baselines:
        yield wording.SELECTED
        if said := wording.first_place(report):
            yield said
        if any(row.ranked_by is not None for row in report.ranking):
            yield wording.ranked_by(report)
        yield run_tables.ranking(report)
        yield Collapsed("Every measure", (wording.measures_explained(report), run_tables.measured(report)))


@section("What each option does", "Options")
def options(report: RunReport) -> Iterator[Block]:
    """Each option switched on alone, and the pipelines that the search met it in."""
    if report.options:
        yield wording.SWITCHED_ON
        if inert := wording.inert(report):
            yield f"Inert here: {', '.join(inert)}."
        if probed := [option for option in report.options if option.probe and option.probe.change]:
            yield Plot(plots.options(probed))
        if report.effects:
            yield Collapsed(
                "What each option gained over the run", (wording.PAIRS_OF_PIPELINES, run_tables.effects(report))
            )
        yield Collapsed("Every option, alone and in the search", (wording.OBSERVATIONAL, run_tables.options(report)))


@section("Failures", "Failures")
def failures(report: RunReport) -> Iterator[Block]:
    """What failed, and what that means."""
    if report.failures:
        yield wording.failures_explained(report)
        if report.excluded:
            yield run_tables.excluded(report)
        yield run_tables.failures(report)


@section("Run, models and work", "Run")
def run(report: RunReport) -> Iterable[Block]:
    """How the run was asked for, what answered, and what it took."""
    calls = (run_tables.calls(report),) if report.about.record.account.calls else ()
    judged = (f"The judge was checked: {report.judged}.",) if report.judged else ()
    shown = (run_tables.run(report), run_tables.models(report), *judged, wording.work(report))
    return (report.about.data.description, *shown, *calls)
