"""The sections of a report, shared by the HTML page and the Markdown file.

A section is a function from the report of a run to its blocks; sections without blocks are omitted. The order is:
the verdict, the winner and its costs, the reasons, and how the search found it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from ragsmith.pipelines.genes import SYSTEM
from ragsmith.reporting import plots, run_tables, wording
from ragsmith.reporting.blocks import (
    Block,
    Collapsed,
    Plot,
    ReportSection,
    TermList,
    find_terms,
    list_examples,
    pipeline_diagram,
    question_list,
)
from ragsmith.reporting.decision import decide
from ragsmith.reporting.values import RunReport
from ragsmith.text.table import Table

Writer = Callable[[RunReport], Iterable[Block]]

SECTION_WRITERS: dict[str, tuple[str, str, Writer]] = {}
"""Title, short title and function of each section by its anchor, in the order of the report."""


def section(title: str, link: str) -> Callable[[Writer], Writer]:
    """Register a section, with the name of the function as its anchor."""

    def declare(write: Writer) -> Writer:
        SECTION_WRITERS[write.__name__] = (title, link, write)
        return write

    return declare


def sections(report: RunReport) -> list[ReportSection]:
    """Return the sections of a report that have blocks, followed by the glossary of their terms."""
    found = [
        ReportSection(name, title, link, tuple(write(report))) for name, (title, link, write) in SECTION_WRITERS.items()
    ]
    decision = decide(report)
    heads = [column.name for column in decision.table.columns] if decision else []
    return append_terms([one for one in found if one.blocks], " ".join([*heads, wording.explain_scores(report)]))


def append_terms(listed: Sequence[ReportSection], before: str = "") -> list[ReportSection]:
    """Append the glossary of the terms in the sections and in the text ``before`` them."""
    prose = [before, *(text for one in listed for block in one.blocks for text in _prose(block))]
    return [*listed, ReportSection("terms", "Glossary", "Terms", (TermList(find_terms(prose)),))]


def _prose(block: Block) -> Iterator[str]:
    """Yield the prose of a block."""
    if isinstance(block, str):
        yield block
    elif isinstance(block, Table):
        yield from (block.caption, *(column.name for column in block.columns))
    elif isinstance(block, Collapsed):
        yield from (text for inner in block.blocks for text in _prose(inner))


@section("Is it really better?", "Verdict")
def test(report: RunReport) -> Iterator[Block]:
    """Yield the comparison of the winner with its rivals on held-out questions."""
    if report.estimates:
        yield wording.ESTIMATES_EXPLAINED
        yield from map(Plot, filter(None, [plots.plot_verdicts(report.estimates)]))
    if not report.comparisons:
        return
    groups = report.about.record.tested_groups
    tested = report.about.record.tested
    counted = f"{groups}, none of which" if groups else f"{len(tested)} test questions, which"
    said = f"The winner and its rivals, on {counted} the search {'saw' if groups else 'never saw'}."
    if report.folds:
        said = wording.explain_crossfit(report)
    able = len(groups.tested(tested) if groups else tested)
    n = next((found.n for c in report.comparisons if (found := c.difference)), able)
    if n < able:
        said += (
            f" They are compared on the {n} that all of them finished. The lead must also hold if the failures of the "
            "leader are scored as the lowest score, and p is the larger of the two: it may be large although the "
            "interval excludes 0."
        )
    yield said
    if chart := plots.plot_verdicts(report.comparisons):
        yield Plot(chart)
    if report.folds:
        yield run_tables.folds_table(report)
    divided = (table,) if (table := run_tables.division_table(report)) else ()
    yield Collapsed(
        "All numbers of the test", (run_tables.verdicts_table(report), run_tables.finalists_table(report), *divided)
    )


@section("What people say of the answers", "People")
def people(report: RunReport) -> Iterator[Block]:
    """Yield the agreement of the judge with people's marks of answers, and means by both."""
    if report.marked:
        yield wording.describe_marks(report.marked)
        yield from (run_tables.marks_table(report.marked), wording.MARKS_EXPLAINED) if report.marked.means else ()


@section("The pipeline to take", "Pipeline")
def pipeline(report: RunReport) -> Iterator[Block]:
    """Yield the diagram of the pipeline to take and its fitted numbers; of another system, its parameters."""
    if report.winner and SYSTEM in report.winner.genes:
        yield f"The winner is another system, which its own program builds: {report.winner.label}."
    beside = "winner" if report.take == "naive" else report.take  # naive RAG is beside each
    if found := pipeline_diagram(report, beside):
        yield wording.describe_taken(report.take, len(found.changed), len(found.stages))
        yield found
        if (row := report.roles[beside]).fitted:
            yield Collapsed("Numbers that were fitted", (run_tables.fitted_table(row),))
    if beside != "winner" and (found := pipeline_diagram(report)):
        yield Collapsed("The stages of the winner of the search", (found.table,))


@section("Quality against cost", "Cost")
def front(report: RunReport) -> Iterator[Block]:
    """Yield the trade-off between quality and costs."""
    if len(report.front) > 1:
        yield from map(Plot, plots.plot_fronts(report))
        yield run_tables.front_table(report)
        yield wording.explain_front(report)


@section("How long an answer takes", "Latency")
def latency(report: RunReport) -> Iterator[Block]:
    """Yield latency percentiles by stage of the pipelines that were timed."""
    if report.timed:
        yield wording.LATENCY_EXPLAINED
        yield run_tables.latencies_table(report)


@section("Contribution of each part of the winner", "Parts")
def parts(report: RunReport) -> Iterator[Block]:
    """Yield the ablation of the winner: without each part, with other options, and interactions."""
    found = report.ablation
    if found is not None and found.outs:
        yield wording.explain_parts(found)
        if chart := plots.plot_parts(found):
            yield Plot(chart)
        yield Collapsed("All numbers of the parts", (run_tables.parts_table(found),))
        if found.interactions:
            yield wording.describe_interaction(found.interactions[0])
            yield Collapsed("Parts together", (run_tables.interactions_table(found),))
        if found.swaps:
            yield Collapsed("Other options in their place", (run_tables.swaps_table(found),))
        if found.signals:
            yield Collapsed("Signals of the learned ranking", (run_tables.signals_table(found),))
        if report.take not in ("winner", "naive"):
            yield (
                "The winner is not the pipeline to take, whose parts "
                f"`{report.about.use('ablate', report.about.taken_file)}` measures, once it is exported."
            )
    if report.winner and report.about.record.removals:
        yield Collapsed(
            "How the winner was simplified", (wording.explain_simplification(report), run_tables.removals_table(report))
        )


@section("Questions", "Questions")
def questions(report: RunReport) -> Iterator[Block]:
    """Yield the causes of failures, examples of gains and losses, and the list of all questions."""
    found = report.questions
    if found.causes:
        yield run_tables.causes_table(report)
    if found.repairs:
        yield run_tables.repairs_table(report)
    if found.interventions:
        yield run_tables.interventions_table(report)
    if found.asked and report.winner:
        yield wording.explain_one(report)
    yield from list_examples(report)
    if listed := question_list(report):
        yield wording.QUESTIONS_EXPLAINED
        yield listed


@section("By question type and by kind of document", "Types")
def types(report: RunReport) -> Iterator[Block]:
    """Yield scores and costs by group of questions."""
    if report.types:
        yield wording.GROUPS_EXPLAINED
        if report.groups_split == "search":
            yield "These are search questions, so the winner's scores are biased in its favour."
        yield Plot(plots.plot_types(report))
        shown = (run_tables.types_table(report), *((run_tables.modalities_table(report),) if report.modalities else ()))
        yield Collapsed("All pipelines, scores and costs by group", shown)


@section("The search", "Search")
def search(report: RunReport) -> Iterator[Block]:
    """Yield the convergence plot and the steps of the strategy."""
    if any(value is not None for value in report.search_curve):
        yield Plot(plots.plot_convergence(report))
    if report.about.record.history:
        yield Collapsed("Steps of the search", (run_tables.history_table(report),))


@section("Ranking on the search questions", "Ranking")
def ranking(report: RunReport) -> Iterator[Block]:
    """Yield the ranking on the search questions."""
    if report.ranking or report.baselines:
        yield wording.SELECTION_BIAS
        if said := wording.explain_first_place(report):
            yield said
        if any(row.ranked_by is not None for row in report.ranking):
            yield wording.explain_ranking(report)
        yield run_tables.ranking_table(report)
        yield Collapsed("Every measure", (wording.explain_measures(report), run_tables.measures_table(report)))


@section("Effect of each option", "Options")
def options(report: RunReport) -> Iterator[Block]:
    """Yield the effect of each option, alone and in the pipelines of the search."""
    if report.options:
        yield wording.OPTIONS_EXPLAINED
        if inert := wording.list_inert_options(report):
            yield f"Inert here: {', '.join(inert)}."
        yield from map(Plot, plots.plot_options(report.options))
        if report.effects:
            yield Collapsed(
                "Effect of each option over all pairs of pipelines",
                (wording.EFFECTS_EXPLAINED, run_tables.effects_table(report)),
            )
        yield Collapsed(
            "Every option, alone and in the search", (wording.PROPOSALS_EXPLAINED, run_tables.options_table(report))
        )


@section("Failures", "Failures")
def failures(report: RunReport) -> Iterator[Block]:
    """Yield the failures and how they are scored."""
    if report.failures:
        yield wording.explain_failures(report)
        if report.excluded:
            yield run_tables.excluded_table(report)
        yield run_tables.failures_table(report)


@section("Run, models and work", "Run")
def run(report: RunReport) -> Iterable[Block]:
    """Yield the configuration of the run, its models, and its work."""
    calls = (run_tables.calls_table(report),) if report.about.record.account.calls else ()
    judged = (
        (f"The {'test ' * ('test_judge' in report.about.record.models)}judge was checked: {report.judged}.",)
        if report.judged
        else ()
    )
    check = report.about.record.planted
    planted = (f"The judge {check}.",) if check and check.planted else ()
    tables = run_tables.run_table(report), run_tables.models_table(report)
    shown = (*tables, *judged, *planted, wording.describe_work(report))
    return (report.about.data.description, *shown, *calls)
