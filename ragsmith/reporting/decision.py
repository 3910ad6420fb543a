"""The decision that a report supports: which pipeline to take, how well it answers, and how sure that is.

The page, the Markdown file, the terminal and ``--json`` show the same `Decision` first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any, Literal

from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.causes import MEANINGS, Cause
from ragsmith.display import short_repr
from ragsmith.pipelines.genes import SYSTEM
from ragsmith.records.objectives import PRICED_COUNTS
from ragsmith.reporting.values import TITLES, GoodAnswerCounts, PipelineRow, RunReport
from ragsmith.reporting.wording import (
    NAIVE,
    NAMED_BY,
    count_causes,
    describe_noise,
    describe_risk,
    explain_limits,
    find_example,
    join_names,
    name_role,
    name_verdict,
    sort_rivals,
    summarize_verdicts,
)
from ragsmith.text import numbers
from ragsmith.text.table import Table, figures, texts
from ragsmith.text.terminal import COLUMNS, GAP, aligned, widths


@dataclass(frozen=True, slots=True)
class Contender:
    """A pipeline of the decision, with its means per question and its counts on the questions of ``part``.

    ``name`` describes the pipeline, ``calls`` are model calls, ``seconds`` the median latency of a question, and
    ``money`` the cost of 1,000 questions; None if they are unknown.
    """

    role: str
    title: str
    name: str
    calls: float | None
    seconds: float | None
    money: float | None
    counts: GoodAnswerCounts | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The pipeline to take and the evidence for it.

    ``take`` is its role, ``command`` exports it ("" if nothing does), ``contenders`` has it first, then the winner and
    the baselines, and ``part`` says which questions their counts are on. ``differences`` are those between the winner
    and its rivals. ``levels`` explains why scores differ between search and test questions, and ``limits`` what so few
    groups cannot show; "" if there is nothing to explain. ``leads`` are estimates, without a test, of the leads of the
    pipeline to take over the baselines, if it is not the winner. ``reason`` says why it is taken, and ``next`` what may
    improve it most, with a command; "" if they are unknown. ``risk`` says what the search can promise about a stated
    risk, "" if none was stated.
    """

    take: str
    command: str
    part: Literal["search", "test", "all"]
    contenders: tuple[Contender, ...]
    differences: tuple[Comparison, ...]
    verdict: str
    advice: str
    levels: str
    limits: str
    leads: tuple[Comparison, ...] = ()
    reason: str = ""
    next: str = ""
    risk: str = ""

    __repr__ = short_repr

    def __str__(self) -> str:
        return "\n".join(self.lines())

    @property
    def taken(self) -> Contender:
        """The pipeline to take."""
        return self.contenders[0]

    @property
    def answers(self) -> str:
        """How many questions the pipeline answers well, cites rightly and declines rightly; "" if it is unknown."""
        found = self.taken.counts
        if found is None:
            return ""
        well = f"answers {found.well.right:,} well" if found.judged else f"finds all gold of {found.well.right:,}"
        naive = next((one.counts for one in self.contenders if one.role == "naive" and one.counts), found)
        well += f" (naive RAG {naive.well.right:,})" if naive is not found else ""
        parts = (
            (True, f"Of {found.well.of:,} {self.part} questions with an answer it {well}"),
            (found.cited is not None, f"{numbers.share(found.cited)} of what it cites is right"),
            (found.declined.of, f"of {found.declined.of:,} without an answer it declines {found.declined.right:,}"),
            (found.refused.right, f"it declines {found.refused.right:,} that have an answer"),
        )
        return f"{'; '.join(said for is_known, said in parts if is_known)}."

    @property
    def evidence(self) -> str:
        """What is known of a pipeline to take that is not the winner, and what is given up with it; else ""."""
        if not self.leads:
            return ""
        known = [(one.against, one.difference) for one in self.leads if one.difference]
        ahead = [
            f"{title} by {numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}"
            for title, found in known
            if round(found.mean_difference, 3) >= 0
        ]
        behind = [
            f"{title} by {numbers.plain(-found.mean_difference)} {numbers.interval(-found.high, -found.low, sign=True)}"
            for title, found in known
            if round(found.mean_difference, 3) < 0
        ]
        said = [
            f"{verb} {join_names(names, 'and')}" for verb, names in (("leads", ahead), ("is behind", behind)) if names
        ]
        ours, winners = (
            next((one.counts.cited for one in self.contenders if one.role == role and one.counts), None)
            for role in (self.take, "winner")
        )
        loses = ours is not None and winners is not None and winners > ours
        lost = f" The winner cites {numbers.share(winners)} rightly, this one {numbers.share(ours)}." if loses else ""
        return (
            f"{name_role(self.take)[:1].upper()}{name_role(self.take)[1:]} {join_names(said, 'and')} (95 % "
            f"intervals; only the winner's differences are tested, so these have no p).{lost}"
        )

    @property
    def table(self) -> Table:
        """The contenders beside each other; columns without a value are left out."""
        each = [one.counts for one in self.contenders]
        known = [found for found in each if found]
        judged = any(found.judged for found in known)
        apart, refused = (sum(found.declined.of for found in known), sum(found.refused.right for found in known))
        columns: dict[str, Sequence[Any]] = {
            "Answered well" if judged else "Found completely": [found and str(found.well) for found in each],
            "Cited rightly": [found and found.cited for found in each],
            "Declined rightly": [found and str(found.declined) for found in each] if apart else [],
            "Declined wrongly": [found and str(found.refused) for found in each] if refused else [],
            "F with gold" if apart else "F": [found and found.fitness and found.fitness.mean for found in each],
            "Calls": [one.calls for one in self.contenders],
            "Seconds": [one.seconds for one in self.contenders],
            "Money for 1,000 questions": [one.money for one in self.contenders],
        }
        formats: dict[str, Callable[[Any], str]] = {"Calls": numbers.tenths, "Cited rightly": numbers.share}
        shown = {name: cells for name, cells in columns.items() if any(cell is not None for cell in cells)}
        heads = [figures(formats.get(name, numbers.plain), name)[0] for name in shown]
        rows = [(one.title, *(cells[at] for cells in shown.values())) for at, one in enumerate(self.contenders)]
        caption = "The pipeline to take beside the winner and the baselines"
        if known and (score := known[0].fitness):
            caption = f"On {known[0].questions:,} {self.part} questions; F on the {score.n:,} of them with gold"
        caption += ", on which the winner was chosen" * (
            self.part == "search" and any(one.role == "winner" for one in self.contenders)
        )
        caption += f"; answered well from a score of {known[0].least_good} by the judge" * judged if known else ""
        return Table(caption, (*texts("Pipeline"), *heads), rows, ["winner"])

    def lines(self) -> Iterator[str]:
        """Yield the pipeline to take with its costs, how well it answers, and the others beside it."""
        taken, table = self.taken, self.table
        seconds = "" if taken.seconds is None else f", {numbers.plain(taken.seconds)} s"
        money = "" if taken.money is None else f", {numbers.plain(taken.money)} for 1,000 questions"
        yield f"take: {name_role(self.take)}{NAMED_BY.get(self.take, '')}: {taken.name}"
        yield f"  {numbers.tenths(taken.calls)} model calls a question{seconds}{money}"
        yield from (f"  {self.command}",) if self.command else ()
        yield from (f"  why: {self.reason}",) if self.reason else ()
        yield from (f"answers: {self.answers}",) if self.answers else ()
        head = ["", *(column.name for column in table.columns[1:])]
        turned = [list(cells) for cells in zip(head, *table.cells, strict=True)]  # it fits narrow terminals
        if sum(widths(turned)) + len(GAP) * (len(head) + 1) > COLUMNS:  # with the indentation
            turned[:1] = map(list, zip_longest(*map(str.split, turned[0]), fillvalue=""))
        yield from (f"    {line}" for line in aligned(turned, set(range(1, len(turned[0])))))
        yield f"  ({table.caption[:1].lower()}{table.caption[1:]})"
        yield from (f"  {self.evidence}",) if self.evidence else ()
        yield from (f"risk: {self.risk}",) if self.risk else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as JSON-compatible data: the pipeline to take with its counts, then the others."""
        first, *others = (_contender_dict(one) for one in self.contenders)
        return {
            "take": self.take,
            "command": self.command,
            **{name: value for name, value in first.items() if name != "role"},
            "part": self.part,
            "beside": others,
            "differences": list(map(_difference_dict, self.differences)),
            "leads": list(map(_difference_dict, self.leads)),
            **{
                name: getattr(self, name)
                for name in ("verdict", "advice", "reason", "next", "risk", "levels", "limits")
            },
        }


def decide(report: RunReport) -> Decision | None:
    """Return the decision of a report; None without a winner."""
    if report.winner is None:
        return None
    rows, take = report.roles, report.take
    roles = [role for role in (take, "calibrated", "winner", "naive", "bm25") if role in rows]
    own: dict[str, str] = {}
    for role in roles:
        own.setdefault(rows[role].key, role)  # a pipeline with several roles is listed once
    step = report.next_step
    is_reason = step is not None and step.kind in ("take", "keep", "simplify")
    return Decision(
        take,
        ""  # the search writes the file of another system, whose program no cache has
        if SYSTEM in rows[take].genes
        else report.about.export(take),
        report.groups_split,
        tuple(_contender(report, role, rows[role]) for role in own.values()),
        tuple(sort_rivals(report.comparisons or report.estimates)),
        summarize_verdicts(report),
        step.sentence if step else "",
        explain_levels(report),
        " ".join(filter(None, (explain_limits(report.comparisons), describe_noise(report)))),
        report.taken_leads,
        _reason(report),
        " ".join(filter(None, (step.sentence if step and not is_reason else "", name_improvement(report)))),
        describe_risk(report),
    )


def _reason(report: RunReport) -> str:
    """Return why the pipeline of the report is to be taken; "" if that is unknown."""
    step = report.next_step
    if step is None:
        return "it was chosen on the search questions, and is not tested."
    return f"{step.reason}." if step.reason else step.sentence.rpartition(": ")[2]


SMALL_SPACE, LARGE_SPACE = "quick", "default"
"""The bundled space for a first look, and the one that a search uses if it is given none."""

GENERATOR_CAUSES = (Cause.UNUSED, Cause.CONTRADICTED, Cause.REFUSED)
"""Causes that lie in the generator: all gold passages were read."""

MIN_UNANSWERABLE = 5
"""Minimum number of questions without an answer for advice on declining."""


def name_improvement(report: RunReport) -> str:
    """Name the most frequent cause of wrong answers of the pipeline to take, and commands that try to mend what fails.

    A generator or embedder that is embedded is to be replaced by a model, a small space by a large one; otherwise the
    other options of the space are tried. "" if causes are unknown, or the advice is another embedder already.
    """
    about, counts = report.about, count_causes(report, report.take)
    decided = report.next_step and report.next_step.kind == "embedder"
    if not counts or decided or SYSTEM in report.roles[report.take].genes:
        return ""
    [(cause, most)] = counts.most_common(1)
    embedded = {model.role for model in report.models if model.description.startswith("embedded")}
    if cause in GENERATOR_CAUSES and "language_model" in embedded:
        said = (
            "A chat model in place of the embedded generator, which needs a key or a server (`--base-url`): "
            f"{about.repeat('--llm=openai:MODEL')}, after `ragsmith models check --llm openai:MODEL`"
        )
    elif about.record.space.name == SMALL_SPACE:
        freed = ("--space", "--preset", "--max-evaluations")
        said = f"More options, those of the space {LARGE_SPACE}: {about.repeat(without=freed)}"
    elif cause is Cause.NOT_RETRIEVED and "embedder" in embedded:
        said = f"A model in place of the embedded embedder: {about.repeat('--embedder=sentence-transformers:MODEL')}"
    else:
        said = f"Other options, each in turn, once it is exported: `{about.use('ablate', about.taken_file, '--swaps')}`"
    parts = dict.fromkeys(one.split for one in report.questions.causes if one.pipeline == report.take)
    example = find_example(report, report.take)
    shown = (
        f"; `{about.use('explain', about.taken_file, example)}` follows one of them, once it is exported, and the list "
        "of all questions on the page can be filtered by cause"
    )
    said = (
        f"Of the {counts.total():,} {join_names(list(parts), 'and')} questions that {name_role(report.take)} does not "
        f"answer well, the most, {most:,}, are {cause.value!r} ({MEANINGS[cause]}){shown if example else ''}. {said}."
    )
    found = about.record.settings.max_risk is None and report.counted.get(report.groups_split, {}).get(report.take)
    if found and found.declined.of >= MIN_UNANSWERABLE and 2 * found.declined.right < found.declined.of:
        said += (
            f" Of {found.declined.of:,} {report.groups_split} questions without an answer it declines "
            f"{found.declined.right:,}: {about.repeat('--max-risk=0.5')} calibrates the winner to decline, or names "
            "the least share of wrong answers that declining can keep."
        )
    return said


def _contender(report: RunReport, role: str, row: PipelineRow) -> Contender:
    warm = [
        one.p50_ms / 1000
        for timed in report.timed
        if timed.name == role
        for one in timed.latencies
        if (one.questions, one.state, one.stage) == ("all", "warm", "in all")
    ]
    price, usage = report.about.record.settings.price, row.usage
    known = price is not None and all(name in usage for name in PRICED_COUNTS)
    return Contender(
        role,
        TITLES[role],
        row.label or NAIVE,
        usage.get("calls"),
        row.latency_seconds if row.latency_seconds is not None else next(iter(warm), None),
        1000 * price.cost(*(usage[name] for name in PRICED_COUNTS)) if price and known else None,
        report.counted.get(report.groups_split, {}).get(role),
    )


def _difference_dict(one: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON-compatible data; one without p is an estimate without a test."""
    its = one.difference
    return {
        "against": one.name,
        "title": one.against,
        "of": one.of,
        "mean": its and its.mean_difference,
        "low": its and its.low,
        "high": its and its.high,
        "p": one.adjusted_p,
        "look": None if one.adjusted_p is None else one.look,
        "questions": its and its.n,
        "groups": its and its.groups,
        "verdict": "not tested" if its and one.adjusted_p is None else name_verdict(one),
        "declining": one.declining and asdict(one.declining),
    }


def explain_levels(report: RunReport) -> str:
    """Explain why the winner scores differently on search and test questions; "" if it was not tested on its own."""
    both = _levels(report, "winner")
    if both is None or report.folds:
        return ""
    searched, tested = both
    said = (
        f"The winner has F {numbers.plain(searched)} on search questions with gold and {numbers.plain(tested)} on test "
        "questions with gold, which are other ones"
        + " with another judge"
        * (other := "test_judge" in report.about.record.models)
    )
    unchosen = None if other else _levels(report, "naive")
    if unchosen is None:
        return f"{said}, and it was chosen on the first."
    before, after = unchosen
    lost = (searched - tested) - (before - after)
    chosen = (
        f"That the winner loses {numbers.plain(lost)} more is the price of choosing it: the highest of many scores is "
        "partly luck"
        if round(lost, 3) > 0 and searched > tested
        else "The winner loses nothing on them"
        if searched <= tested
        else "The winner loses no more than that: the loss is that of other questions, not of having been chosen"
    )
    return (
        f"{said}: naive RAG, which was not selected, goes from {numbers.plain(before)} to {numbers.plain(after)}. "
        f"{chosen}."
    )


def _levels(report: RunReport, role: str) -> tuple[float, float] | None:
    """Return the fitness of a pipeline on the search and on the test questions with gold; None if one is unknown."""
    both = [report.counted.get(part, {}).get(role) for part in ("search", "test")]
    means = [one.fitness.mean for one in both if one and one.fitness]
    return (means[0], means[1]) if len(means) == 2 else None


def _contender_dict(one: Contender) -> dict[str, Any]:
    found = one.counts
    counts = (
        {
            "answered_well" if found.judged else "found_completely": asdict(found.well),
            "least_good": found.least_good,
            "cited_rightly": found.cited,
            "fitness": found.fitness and found.fitness.mean,
            "questions": found.questions,
            "declined": asdict(found.declined),
            "declined_wrongly": asdict(found.refused),
        }
        if found
        else {}
    )
    return {**{name: value for name, value in asdict(one).items() if name != "counts"}, **counts}
