"""The sections of a report. Each is declared here once; the HTML page and the Markdown file both walk the same list.

A section is a function from what is known of a run to the blocks that it shows, in order. One that has nothing to show
yields nothing and is left out, with its heading and its link. They stand in the order in which a reader decides: what
is claimed, what the winner is and costs, why, and then how all of it was come by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragsmith.reporting import group_tables, part_tables, plots, question_blocks, run_tables, tables, wording
from ragsmith.reporting import latency as timings
from ragsmith.reporting.charts import Chart
from ragsmith.reporting.picture import Picture, picture
from ragsmith.reporting.question_blocks import Examples, QuestionList
from ragsmith.reporting.tables import Table
from ragsmith.reporting.terms import met
from ragsmith.reporting.values import Domain


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of the page. Markdown leaves it out: a table has the same numbers."""

    chart: Chart


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that the page shows when ``summary`` is clicked; Markdown shows them at once."""

    summary: str
    blocks: tuple[str | Table, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """What words of the report mean: pairs of a word and its meaning."""

    entries: tuple[tuple[str, str], ...]


Block = str | Table | Plot | Folded | Picture | Examples | QuestionList | Terms
"""What a section consists of; a string is a paragraph of plain text."""

Writer = Callable[[Domain], Iterable[Block]]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it; ``link`` is its short name in the list of sections."""

    anchor: str
    title: str
    link: str
    blocks: tuple[Block, ...]


WRITERS: dict[str, tuple[str, str, Writer]] = {}
"""Title, link and function of every section by its anchor, in the order of the report."""


def section(title: str, link: str) -> Callable[[Writer], Writer]:
    """Declare a section; the name of the function is its anchor."""

    def declare(write: Writer) -> Writer:
        WRITERS[write.__name__] = (title, link, write)
        return write

    return declare


def sections(domain: Domain) -> list[Section]:
    """The sections that have something to show, in the order of their declaration, and the terms that they use."""
    found = [Section(name, title, link, tuple(write(domain))) for name, (title, link, write) in WRITERS.items()]
    return with_terms([one for one in found if one.blocks], wording.scores_explained(domain))


def with_terms(listed: Sequence[Section], before: str = "") -> list[Section]:
    """Sections and, behind them, the terms that they use; ``before`` is what stands in front of them."""
    prose = [before, *(text for one in listed for block in one.blocks for text in _prose(block))]
    return [*listed, Section("terms", "What the words mean", "Terms", (Terms(met(prose)),))]


def _prose(block: Block) -> Iterator[str]:
    """The report's own words in a block."""
    if isinstance(block, str):
        yield block
    elif isinstance(block, Table):
        yield from (block.caption, *(column.name for column in block.columns))
    elif isinstance(block, Folded):
        yield from (text for inner in block.blocks for text in _prose(inner))


@section("Is it really better?", "Verdict")
def test(domain: Domain) -> Iterator[Block]:
    """The winner against what it has to beat, on questions that the search never saw."""
    if not domain.comparisons:
        return
    count = len(domain.about.record.tested)
    groups = domain.about.record.tested_groups
    counted = f"{groups}, none of which" if groups else f"{count} test questions, which"
    said = f"The winner and what it has to beat, on {counted} the search {'saw' if groups else 'never saw'}."
    if domain.folds:
        said = wording.crossfit_explained(domain)
    n = next((found.n for c in domain.comparisons if (found := c.difference)), count)
    if n < count:
        said += (
            f" They are compared on the {n} that all of them finished. The lead must also hold with the failures of "
            "whoever is ahead as the lowest score there is, and p is the larger of the two: it may be large beside an "
            "interval that is clear of 0."
        )
    yield said
    if chart := plots.verdicts(domain.comparisons):
        yield Plot(chart)
    if domain.folds:
        yield tables.folds(domain)
    divided = (table,) if (table := tables.division(domain)) else ()
    yield Folded("All numbers of the test", (tables.verdicts(domain), tables.finalists(domain), *divided))


@section("The winner", "Winner")
def winner(domain: Domain) -> Iterator[Block]:
    """The stations of the best pipeline, and what was fitted."""
    if found := picture(domain):
        yield wording.winner_in_words(len(found.changed), len(found.stations))
        yield found
        if domain.winner and domain.winner.fitted:
            yield Folded("Numbers that were fitted", (tables.winner(domain),))


@section("Quality against cost", "Cost")
def front(domain: Domain) -> Iterator[Block]:
    """What more quality costs."""
    if len(domain.front) > 1:
        yield from map(Plot, plots.fronts(domain))
        yield tables.front(domain)
        yield wording.front_explained(domain)


@section("How long an answer takes", "Latency")
def latency(domain: Domain) -> Iterator[Block]:
    """Percentiles by station, of pipelines that were timed."""
    if domain.timed:
        yield timings.EXPLAINED
        yield timings.table(domain)


@section("What each part is worth", "Parts")
def parts(domain: Domain) -> Iterator[Block]:
    """The winner without each of its parts, with others in their place, and what they do together."""
    found = domain.ablation
    if found is not None and found.outs:
        yield part_tables.explained(found)
        if chart := plots.parts(found):
            yield Plot(chart)
        yield Folded("All numbers of the parts", (part_tables.outs(found),))
        if found.interactions:
            yield part_tables.in_words(found.interactions[0])
            yield Folded("Parts together", (part_tables.together(found),))
        if found.swaps:
            yield Folded("Other options in their place", (part_tables.swaps(found),))
        if found.signals:
            yield Folded("Signals of the learned ranking", (part_tables.signals(found),))
    if domain.winner and domain.about.record.removals:
        yield Folded("How the winner was simplified", (wording.simplified(domain), tables.removals(domain)))


@section("Questions", "Questions")
def questions(domain: Domain) -> Iterator[Block]:
    """Which questions gained and lost, why questions fail, and all of them."""
    found = domain.questions
    if found.causes:
        yield question_blocks.causes(domain)
    if found.repairs:
        yield question_blocks.repairs(domain)
    if found.interventions:
        yield question_blocks.interventions(domain)
    if found.asked:
        yield question_blocks.EXPLAIN.format(id=(found.shown or found.asked)[0].question)
    yield from question_blocks.examples(domain)
    if listed := question_blocks.question_list(domain):
        yield question_blocks.EXPLAINED
        yield listed


@section("By question type and by kind of document", "Types")
def types(domain: Domain) -> Iterator[Block]:
    """Scores and costs by group of questions."""
    if domain.types:
        yield group_tables.EXPLAINED
        if domain.groups_split == "search":
            yield "These are search questions, so the winner's scores are biased in its favour."
        yield Plot(plots.types(domain))
        shown = (group_tables.types(domain), *((group_tables.modalities(domain),) if domain.modalities else ()))
        yield Folded("All pipelines, scores and costs by group", shown)


@section("The search", "Search")
def search(domain: Domain) -> Iterator[Block]:
    """How the best score grew, and the steps of the strategy."""
    if any(value is not None for value in domain.search_curve):
        yield Plot(plots.convergence(domain))
    if domain.about.record.history:
        yield Folded("Steps of the search", (run_tables.history(domain),))


@section("Ranking on the search questions", "Ranking")
def ranking(domain: Domain) -> Iterator[Block]:
    """The best pipelines on the search questions."""
    if domain.ranking or domain.baselines:
        yield wording.SELECTED
        if said := wording.first_place(domain):
            yield said
        if any(row.ranked_by is not None for row in domain.ranking):
            yield wording.ranked_by(domain)
        yield tables.ranking(domain)
        yield Folded("Every measure", (wording.measures_explained(domain), tables.measured(domain)))


@section("What each option does", "Options")
def options(domain: Domain) -> Iterator[Block]:
    """Each option switched on alone, and the pipelines that the search met it in."""
    if domain.options:
        yield wording.SWITCHED_ON
        if inert := tables.inert(domain):
            yield f"Inert here: {', '.join(inert)}."
        if probed := [option for option in domain.options if option.probe and option.probe.change]:
            yield Plot(plots.options(probed))
        if domain.effects:
            yield Folded("What each option gained over the run", (part_tables.EFFECTS, part_tables.effects(domain)))
        yield Folded("Every option, alone and in the search", (wording.OBSERVATIONAL, tables.options(domain)))


@section("Failures", "Failures")
def failures(domain: Domain) -> Iterator[Block]:
    """What failed, and what that means."""
    if domain.failures:
        yield wording.failures_explained(domain)
        if domain.aside:
            yield run_tables.aside(domain)
        yield run_tables.failures(domain)


@section("Run, models and work", "Run")
def run(domain: Domain) -> Iterable[Block]:
    """How the run was asked for, what answered, and what it took."""
    calls = (run_tables.calls(domain),) if domain.about.record.account.calls else ()
    judged = (f"The judge was checked: {domain.judged}.",) if domain.judged else ()
    shown = (run_tables.run(domain), run_tables.models(domain), *judged, run_tables.work(domain))
    return (domain.about.data.description, *shown, *calls)
