"""The sentences of reports."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragsmith.comparison.difference import Difference, compute_difference
from ragsmith.comparison.ledger_location import CACHE_ALONE, describe_ledger
from ragsmith.comparison.marked_answers import FEW_MARKS, MarkedAnswers
from ragsmith.comparison.questions import ALPHA, MIN_GROUPS, Clusters, HoldoutUse, format_times
from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import Ablation, Interaction
from ragsmith.diagnosis.causes import REMEDIES, Cause
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE, REFUSAL, RETRIEVAL
from ragsmith.evaluation.latency import TIMED_QUESTIONS
from ragsmith.evaluation.statistics import Verdict
from ragsmith.grouping import group_values
from ragsmith.measures.registry import measures
from ragsmith.pipelines.genes import SYSTEM
from ragsmith.records.record import CROSSFIT, AblationStep, RunRecord, RunSettings
from ragsmith.reporting.values import TITLES, Cheapest, PipelineRow, RunReport
from ragsmith.text import numbers
from ragsmith.text.table import round_values

SELECTION_BIAS = (
    "Scores on the search questions are biased upwards for the pipelines that the search selected (winner's curse). "
    "They rank candidates; only the comparison on the test questions supports a claim."
)

PROPOSALS_EXPLAINED = (
    "F with and without an option are means over the pipelines that the search proposed, which also differ in other "
    "options: they are observational, not causal effects."
)

NAIVE = "naive RAG"

NAMED_BY: Mapping[str, str] = {"recommended": ", the one that ragsmith recommend names"}
"""What names the pipeline of a role without a search."""

PROPER_NAMES = ("naive", "bm25")
"""Roles whose titles are proper names and take no article."""

OPTIONS_EXPLAINED = (
    "Every option switched on alone in naive RAG, or in the named pipeline if it needs another technique, on the "
    "search questions. Activity is the share of questions for which it changes the output of its stage; an option "
    "that changes none is inert here. Changes are means of paired differences, with 95 % intervals that are not "
    "adjusted for the number of options: some look good by chance."
)

GROUPS_EXPLAINED = (
    "The same pipelines by group of questions: the best pipeline overall need not be the best for each group. Groups "
    "have few questions, so their intervals are wide. Costs are means per question: model calls, input and output "
    "tokens, texts embedded, pairs scored by the cross-encoder, and the length of the prompt."
)

EFFECTS_EXPLAINED = (
    "The mean of paired differences over all pairs of pipelines of the search that differ in one option only, of which "
    "one has that of naive RAG. Pipelines that racing pruned early count with the questions that they answered, so "
    "large losses are slightly overestimated."
)

LATENCY_EXPLAINED = (
    "Measured by `ragsmith evaluate winner.yaml --latency`, one question at a time: warm with models loaded and the "
    "index built, cold without, so that the first question includes both (the program itself was running, and its "
    "files had been read before). Retrieval results, answers and replies of models were not cached."
)

MARKS_EXPLAINED = (
    "By the judge: the mean of its scores of all test questions with gold. By marks: the mean of people's marks alone, "
    "right 1, partly 0.5, wrong 0. By both: the marks, corrected by the judge's scores of the questions that nobody "
    "marked, as far as the judge follows people (PPI++). If the judge is too kind, or kinder to one pipeline, the "
    "first is wrong, and the others are not."
)

EXPLAIN_ONE = (
    "{}, `{}` names the causes of wrong answers to search questions and what to try, and `{}` follows one question "
    "through the pipeline; the list of all questions has their ids."
)

QUESTIONS_EXPLAINED = (
    "Every question with the fitness of two pipelines, and the first cause of failure in the first of them, sorted by "
    "absolute change, or by fitness, lowest first, if a cause is chosen. `questions.csv` has the scores and causes of "
    "all tested pipelines."
)

NOTHING_TO_BEAT = ": the winner is its only rival"

MAX_FITTED_LENGTH = 400
"""Maximum number of characters of fitted numbers in a table."""

VERDICT_WORDS: Mapping[Verdict, str] = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.NO_DIFFERENCE: "no difference shown",
    Verdict.NOT_WORSE: "not worse",
    Verdict.TOO_FEW: "too few questions to tell",
}

RIVAL_ORDER = ("naive", "bm25", "recommended", "random", "single", "cheapest")
"""Roles of rivals, the most informative comparisons first: the order of sentences and rows."""


def sort_rivals(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons in the order of `RIVAL_ORDER`."""
    order = {name: place for place, name in enumerate(RIVAL_ORDER)}
    return sorted(comparisons, key=lambda one: order.get(one.name, len(order)))


def name_verdict(one: Comparison) -> str:
    """Return a verdict in a few words."""
    if one.difference is None or one.verdict is None:
        return "not compared"
    if one.difference.nonzero == 0:
        return "always the same"
    if one.spent:
        return "looked at too often"
    if one.verdict is Verdict.NOT_WORSE:
        return f"not more than {numbers.plain(one.margin)} worse"
    return VERDICT_WORDS[one.verdict]


def describe_comparison(comparison: Comparison, *, asked: str = "test questions") -> str:
    """Describe a comparison with its numbers; ``asked`` is the name of its questions."""
    return _describe_difference(comparison, asked) + _describe_declining(comparison)


def _describe_difference(comparison: Comparison, asked: str) -> str:
    found, against = comparison.difference, comparison.against
    if found is None or comparison.verdict is None:
        failed = f"Not compared with {against}: one of the two failed on more {asked} than it may."
        alone = f"Compared with {against} by declining alone: none of the {asked} has gold."
        return alone if comparison.declining else failed
    if found.nonzero == 0:
        return f"The same score as {against} on each of the {found.n} {asked}."
    seen = f"{numbers.signed(found.mean_difference)} {comparison.of}"
    counted = f"{found.n} {asked} in {count_groups(found.groups)}"
    size = (
        f"{seen} {numbers.interval(found.low, found.high, sign=True)} on {counted}, "
        f"{_equals('adjusted p', numbers.probability(comparison.adjusted_p))}"
    )
    if comparison.verdict is Verdict.TOO_FEW:
        return _describe_too_few(comparison, found, asked, seen)
    if comparison.verdict is Verdict.NO_DIFFERENCE:
        return f"No difference from {against} shown: {size}. {_describe_resolution(comparison)}"
    if comparison.verdict is Verdict.NOT_WORSE:
        by = numbers.plain(comparison.margin)
        return f"Not more than {by} worse than {against}: {size}. {_describe_resolution(comparison)}"
    return f"{VERDICT_WORDS[comparison.verdict].capitalize()} than {against}: {size}."


def _describe_too_few(comparison: Comparison, found: Difference, asked: str, seen: str) -> str:
    """Describe why nothing could be shown: too many looks, too few groups, or too few differences."""
    if comparison.spent:
        return (
            f"Looked at too often to tell it from {comparison.against}: the {asked} were looked at "
            f"{format_times(comparison.look - 1)} before, and can no longer show any difference ({seen})."
        )
    counted = f"{found.n} {asked} in {count_groups(found.groups)}"
    few = (
        f"{counted}, and with fewer than {MIN_GROUPS} nothing is called better"
        if found.groups < MIN_GROUPS
        else f"of {counted}, {found.nonzero} differ, in {found.telling}"
    )
    return f"Too few questions to tell it from {comparison.against}: {few} ({seen})."


def _describe_resolution(comparison: Comparison) -> str:
    """Describe the excluded and the detectable differences, and the number of questions that would be needed."""
    assert comparison.excluded is not None
    worse, better = map(numbers.plain, comparison.excluded)
    said = f"It is at most {worse} worse and at most {better} better"
    if comparison.detectable is not None:
        said += f"; a difference of {numbers.plain(comparison.detectable)} would have been shown with 80 % power"
    if comparison.more_questions is not None:
        groups = count_groups(comparison.more_groups or 0)
        said += f"; {comparison.more_questions:,} more questions, in {groups} like these, would show this difference"
    return f"{said}."


def _describe_declining(comparison: Comparison) -> str:
    """Describe how the two decline questions; "" if they decline as many of those without an answer."""
    found = comparison.declining
    if found is None or len(set(found.declined)) == 1:
        return ""
    ours, theirs = found.declined
    said = (
        f" Of {found.unanswerable:,} questions without an answer it declines {ours:,}, {comparison.against} "
        f"{theirs:,} ({_equals('p', numbers.probability(found.p))}, unadjusted)"
    )
    wrong, other = found.refused
    wrongly = f"; wrongly, of {found.answerable:,} with an answer, {wrong:,} and {other:,}" * bool(wrong or other)
    return f"{said}{wrongly}."


INTERVAL_AND_P = (
    "Where an interval excludes 0 and no difference is shown, p decides: it is exact for few groups, and adjusted for "
    "the number of comparisons and of looks, and an interval is neither."
)

MIN_TOLD_GROUPS = 12
"""With fewer groups than these, it is said how many of them have to agree for a difference to be shown."""


def explain_limits(comparisons: Sequence[Comparison]) -> str:
    """Explain how many of few groups have to agree for a difference to be shown, and what decides against an interval.

    The result is "" with at least `MIN_TOLD_GROUPS` groups, and no interval that excludes 0 where nothing is shown.
    """
    unshown = (one.difference for one in comparisons if one.verdict in (Verdict.NO_DIFFERENCE, Verdict.NOT_WORSE))
    excludes = any(its and (its.low > 0 or its.high < 0) for its in unshown)
    return " ".join(filter(None, (INTERVAL_AND_P * excludes, _explain_few_groups(comparisons))))


def _explain_few_groups(comparisons: Sequence[Comparison]) -> str:
    one = max((one for one in comparisons if one.difference), key=lambda one: one.dissenting or -1, default=None)
    if one is None or one.difference is None or one.difference.groups >= MIN_TOLD_GROUPS:
        return ""
    groups = count_groups(one.difference.groups)
    tests = f"{one.family} comparison{'' if one.family == 1 else 's'}"
    looks = [count_earlier_looks(one.look)] if one.look > 1 else []
    given = f"With {join_names([groups, tests, *looks], 'and')}"
    if one.dissenting is None:
        return f"{given} no difference can be shown, however large it is."
    if not one.dissenting:
        return f"{given} a difference is shown only if all {groups} agree on it."
    return f"{given} a difference is shown only if all but {one.dissenting} of the {groups} agree on it."


def describe_noise(report: RunReport) -> str:
    """Describe how far answering again changes F, and the differences that it may explain; "" if it is not known.

    The variance of F between answers is half the mean squared change. A difference of two pipelines has twice that
    variance, divided by its number of questions.
    """
    changes = report.about.record.noise
    known = [
        (one.against, its) for one in sort_rivals(report.comparisons) if one.of == "fitness" and (its := one.difference)
    ]
    if not changes or not known:
        return ""
    deviation = math.sqrt(math.fsum(change**2 for change in changes) / len(changes) / known[0][1].n)
    within = [name for name, its in known if its.nonzero and abs(its.mean_difference) <= 2 * deviation]
    return (
        f"Answering again changed F on {sum(change != 0 for change in changes)} of {len(changes)} test questions, and "
        f"so changes a difference by about {numbers.plain(deviation)} (standard deviation, part of the intervals)."
        + (f" The difference from {join_names(within, 'and')} may be that alone." if within else "")
    )


def count_groups(number: int) -> str:
    """Return a number of groups, such as ``1 group`` or ``8 groups``."""
    return f"{number:,} group{'' if number == 1 else 's'}"


def count_earlier_looks(look: int) -> str:
    """Return the number of looks before the one of number ``look``, in words."""
    return f"{'one earlier look' if look == 2 else f'{look - 1:,} earlier looks'} at these questions"


def _describe_counting(look: HoldoutUse) -> str:
    """Return where looks are counted: the ledger, or the cache alone if the ledger is disabled or not usable."""
    return describe_ledger() if look.remembered else CACHE_ALONE


def describe_cost(look: HoldoutUse, *, recorded: bool, how: str = "tested") -> str:
    """Describe what a look at test questions costs, before it is taken; a ``recorded`` one costs nothing more."""
    where = _describe_counting(look)
    if recorded:
        return f"This is look {look.number} again ({where}): {how} at {look.level:.4g} as before, at no further cost."
    return f"This is look {look.number} at these questions ({where}): {how} at {look.level:.4g}, later looks at half."


def describe_search_cost(look: HoldoutUse) -> str:
    """Describe what the test of a search costs, before its winner is known."""
    return f"{describe_cost(look, recorded=False)} A comparison that was made before keeps its number."


def describe_untested(look: HoldoutUse, command: str) -> str:
    """Describe that a search did not take this look, and what the ``command`` that takes it would cost."""
    return (
        "Not tested: the test questions "
        + (f"were looked at {format_times(look.earlier)} before" if look.earlier else "are left for later")
        + f", so this search ends with estimates on search questions, and {command} would test at level "
        f"{look.level:.4g} ({_describe_counting(look)})."
    )


def describe_estimate(estimate: Comparison) -> str:
    """Describe an estimate without a test."""
    found = estimate.difference
    assert found is not None
    size = f"{numbers.signed(found.mean_difference)} {estimate.of} {numbers.interval(found.low, found.high, sign=True)}"
    counted = f"{found.n} search questions in {count_groups(found.groups)}"
    return f"Estimate against {estimate.against}: {size} on {counted}."


ESTIMATES_EXPLAINED = (
    "Estimates on search questions, by cross-validation of the selection: each fold is scored by the pipeline that is "
    "best on the other folds. This corrects the choice among the evaluated pipelines, and not that the search that "
    "proposed them saw all folds: estimates are somewhat too high, and no verdict."
)


def explain_front(report: RunReport) -> str:
    """Explain the Pareto front, and how to export another of its pipelines."""
    margin = numbers.plain(report.about.record.settings.margin)
    unless = "it finds nothing" + " or has no latency" * report.about.record.settings.timed
    return (
        f"Includes every pipeline that was evaluated on all search questions, unless {unless}. "
        f"`{report.about.export('knee', '')}` writes the one "
        "beyond which more calls gain little; in place of knee, cheapest is the one with the fewest calls that search "
        f"questions show to be less than {margin} behind the winner, 'calls<=2' the best with at most 2 calls, and a "
        "number the one of that rank." + _describe_latency(report.about.record.settings) + _explain_untested(report)
    )


def _explain_untested(report: RunReport) -> str:
    """Explain why the pipeline of the front with the highest F at no more calls is not the one to take; else ""."""
    taken, tested = report.roles.get(report.take), {one.test.key for one in report.finalists}
    able = taken and tested and [one for one in report.front if one.usage["calls"] <= taken.usage["calls"]]
    record = report.about.record
    if not taken or not able or able[0].key in tested or able[0].level <= taken.level:
        return ""
    if record.settings.verdict == CROSSFIT or not record.split.test:
        return ""  # there are no test questions to compare it on
    about, file = report.about, f"other-{report.about.folder}.yaml"
    return (
        f" {able[0].label} has a higher F ({numbers.plain(able[0].level)}) than {name_role(report.take)} "
        f"({numbers.plain(taken.level)}) at no more calls, and is not the one to take: F on search questions is biased "
        "upwards for what the search found, and this pipeline was not compared on test questions. After "
        f"`{about.export(str(1 + report.ranking.index(able[0])), file)}`, "
        f"`{about.use('compare', file, about.taken_file, '--split=test')}` does, "
        "which is a look at them."
    )


def _describe_latency(settings: RunSettings) -> str:
    """Explain how latency was measured; "" if it was not."""
    return settings.timed * (
        f" 'latency<=0.5' picks one by its seconds: latency is the median over {TIMED_QUESTIONS} questions, one at a "
        "time, with loaded models. Replies of chat models count with their duration in the search. "
        f"Measured on {settings.machine}."
    )


CHEAPER_VERDICTS: Mapping[Verdict, str] = {
    Verdict.BETTER: "the winner is shown to be better",
    Verdict.WORSE: "it is shown to be better than the winner",
    Verdict.NOT_WORSE: "the winner is not shown to be better",
    Verdict.NO_DIFFERENCE: "no difference between the two is shown",
    Verdict.TOO_FEW: "nothing is shown of the two",
}
"""Descriptions of the verdict of the winner against a cheaper pipeline."""


def describe_within_margin(found: Cheapest) -> str:
    """Describe the calls of the cheapest pipeline within the margin, and its comparison with the winner."""
    digits = next((n for n in (1, 2) if f"{found.calls:.{n}f}" != f"{found.winner_calls:.{n}f}"), 3)
    behind = f"{numbers.plain(abs(found.loss))} {'behind' if found.loss > 0 else 'ahead of'} the winner"
    apart = "the same score" if numbers.signed(found.loss) == numbers.signed(0.0) else behind
    return (
        f"The cheapest within the margin, {found.label or NAIVE}, makes {found.calls:.{digits}f} calls a question, "
        f"the winner {found.winner_calls:.{digits}f}: {CHEAPER_VERDICTS[found.verdict]} "
        f"({apart} on {found.n} test questions). No pipeline with fewer calls is shown on the search questions to be "
        "within the margin behind the winner."
    )


def describe_duplicates(report: RunReport) -> list[str]:
    """Return a sentence for each role whose pipeline has another role, on the recommended and the cheapest pipeline."""
    found = {name: other for name, other in report.same.items() if name != "cheapest"}
    itself = [name_role(name) for name, other in found.items() if other == "winner"]
    said = []
    if itself:
        where = "In every fold the winner" if report.folds else "The winner"
        said.append(f"{where} is {join_names(itself, 'and')}: it is not compared with itself.")
    said += [f"The {TITLES[name]} is {name_role(other)}." for name, other in found.items() if other != "winner"]
    if report.about.record.recommended:
        about, name = report.about, report.about.record.space.name
        given = re.search(r"--space[ =](\S+)", about.record.command)
        command = about.command("recommend", "--space", given[1] if given else name, "--output", "recommended.yaml")
        said.append(
            f"The recommended pipeline is that of the space {name}, the best of its pipelines by effects learned on "
            f"other data sets: `{command}` names it without a search, if the models are the same."
            + " `compare` and `test` take that of the space default."
            * (name != "default")
        )
    return [*said, *filter(None, [describe_cheapest(report)])]


def describe_cheapest(report: RunReport) -> str:
    """Describe the cheapest pipeline within the margin, or that there is none; "" if it was not computed."""
    if report.cheapest:
        return describe_within_margin(report.cheapest)
    if report.same.get("cheapest") != "winner":
        return ""
    margin = numbers.plain(report.about.record.settings.margin)
    return (
        "No cheaper pipeline is within the margin: none that makes fewer model calls than the winner is shown on the "
        f"search questions to be less than {margin} behind it."
    )


def name_role(name: str) -> str:
    """Return the name of a role in a sentence, such as ``the winner`` or ``BM25``; that of a file is its own."""
    return TITLES.get(name, name) if name in PROPER_NAMES or name not in TITLES else f"the {TITLES[name]}"


def summarize_verdicts(report: RunReport) -> str:
    """Summarize the verdicts in one or two sentences."""
    if report.about.record.no_winner:
        return f"No winner: {report.about.record.no_winner}."
    if not report.ranking:
        return "No pipeline has been evaluated on enough questions yet."
    record = report.about.record
    if record.settings.verdict == CROSSFIT and not record.folds:
        return "No verdict yet: not every fold has been searched for and tested."
    if record.untested or not record.tested:
        rule = record.split.rule.removesuffix(", nothing is claimed")
        nothing = f"Nothing is claimed: there are no test questions ({rule})."
        return describe_untested(record.untested, report.about.repeat("--test")) if record.untested else nothing
    if not report.comparisons:
        met = "winner" in report.same.values()
        return f"No verdict{NOTHING_TO_BEAT if met else ' yet: the test questions have not been used'}."
    about = "What such a search finds, by crossfit: " if record.folds else ""
    return about + describe_verdicts(report.comparisons)


def describe_extra_evaluations(report: RunReport) -> str:
    """Describe the evaluations in addition to the proposals of the search; "" if there were none."""
    found, folds = report.besides, len(report.folds)
    parts = (
        (found.before, "baselines and single options before it"),
        (found.drawn, "random pipelines"),
        (found.simplify, "to simplify the winner"),
        (found.apart, "for its ablation"),
    )
    ranked = report.about.record.rankings
    if not (found.total or ranked):
        return ""
    more = f"; and a search in each of {folds} folds" if folds else ""
    first = f"{ranked:,} rankings were searched first, without an answer; " if ranked else ""
    return (
        f"{first}{found.total:,} pipelines were evaluated in addition to the {report.proposed:,} that the search "
        f"proposed: "
        f"{join_names([f'{count:,} {what}' for count, what in parts if count], 'and')}{more}"
    )


def describe_questions(record: RunRecord) -> str:
    """Describe the numbers of search and test questions."""
    return f"{len(record.split.search)} " + (
        f"search and {len(record.split.test)} test questions"
        if record.settings.verdict != CROSSFIT
        else f"questions, {len(record.tested)} of them tested in {len(record.folds)} folds"
        if record.folds
        else "questions, to be tested by crossfit"
    )


def explain_crossfit(report: RunReport) -> str:
    """Explain a verdict by crossfit."""
    record = report.about.record
    return (
        f"Cross-validation of the search: the questions were split into {len(record.folds)} folds. For each fold, a "
        "search ran on the other questions, without those whose gold is near that of the fold, and its winner was "
        f"tested on the fold: each of the {len(record.tested)} questions was tested once, by a pipeline that was "
        "selected without it. The claim is about the search procedure, not about one pipeline: the winner below was "
        "found by another search on all questions, which leaves none to test it on. Searches of different folds share "
        "questions, so the intervals are slightly too narrow, by an amount that has no unbiased estimate (Bengio and "
        "Grandvalet 2004)."
    )


def describe_verdicts(comparisons: Sequence[Comparison]) -> str:
    """Return a sentence per verdict, in the order of `RIVAL_ORDER`."""
    margin = numbers.plain(comparisons[0].margin)
    texts = {
        Verdict.BETTER: ("and", "Better than {}."),
        Verdict.WORSE: ("and", "Worse than {}."),
        Verdict.NOT_WORSE: ("or", f"Not more than {margin} worse than {{}}."),
        Verdict.NO_DIFFERENCE: ("or", "No difference from {} shown."),
        Verdict.TOO_FEW: ("or", "Too few questions to tell it from {}."),
        None: ("and", "Not compared with {}."),
    }
    spent = ("or", "Test questions looked at too often to tell it from {}.")
    said = group_values((spent if one.spent else texts[one.verdict], one.against) for one in sort_rivals(comparisons))
    about = "In retrieval alone, as a machine drafted test questions: " * (comparisons[0].of == RETRIEVAL)
    return about + " ".join(text.format(join_names(names, last)) for (last, text), names in said.items())


def describe_risk(report: RunReport) -> str:
    """Say what the search can promise about the stated risk, and how the test agrees; "" if none was stated."""
    about, found = report.about, report.about.record.declining
    if found is None:
        return ""
    sure = f"with {100 * found.confidence:g} % confidence"
    if not found.key:
        below = f" below {100 * found.attainable:g} %" if found.attainable else ""
        larger = f"{about.repeat(f'--max-risk={found.attainable:g}')}, " if found.attainable else ""
        return (
            f"No share of wrong answers{below} can be promised {sure}, so not the stated {100 * found.risk:g} %: give "
            f"{larger}better models, or search questions on more documents. The winner is left as it is, and declines "
            f"no more: {found.whole.describe('search')}."
        )
    counts = [one.describe(part) for one, part in ((found.calibrated, "search"), (found.tested, "test")) if one]
    exceeded = found.tested is not None and (found.tested.risk or 0) > found.risk
    taken = report.roles.get(report.take)
    return (
        f"The calibrated winner promises at most {100 * found.risk:g} % wrong answers {sure}, by declining below a "
        f"score of {numbers.plain(found.least)}: {'; '.join(counts)}. "
        + "More are wrong in the test than promised, by chance or because its questions are harder: answers of a "
        "document are often wrong together, so the counts do not tell which. "
        * exceeded
        + f"It is in `{about.winner_file}`."
        + " The pipeline to take is not calibrated and keeps no such promise; "
        f"`{about.export('calibrated', '')}` writes the one that does." * (taken is not None and taken.key != found.key)
    )


def describe_taken(role: str, changed: int, stages: int) -> str:
    """Describe how many stages of the pipeline to take, or of the winner if that is naive RAG, are other than there."""
    if role == "naive":
        return f"Naive RAG, which is to be taken, above the winner, of which {changed} of {stages} stages differ."
    if not changed:
        return f"The pipeline to take, {name_role(role)}, has the options of naive RAG in all {stages} stages."
    return f"The {stages} stages of {name_role(role)}, {changed} other than in naive RAG, whose options are above them."


def explain_one(report: RunReport) -> str:
    """Name what explains the wrong answers of the pipeline to take, or of a system, whose file the search writes."""
    about = report.about
    of_system = report.winner is not None and SYSTEM in report.winner.genes
    first, file = f"After `{about.export(report.take)}`", about.taken_file
    if of_system:
        first, file = "In the folder in which the search was started", about.winner_file
    role = "winner" if of_system else report.take
    question = find_example(report, role) or report.questions.asked[0].question
    said = EXPLAIN_ONE.format(first, about.use("explain", file), about.use("explain", file, question))
    swaps = f" `{about.use('ablate', file, '--swaps')}` tries every other option of the space in place of each."
    return said + swaps * (not of_system)


def explain_counts(report: RunReport) -> str:
    """Explain why F decides, where the pipeline to take is not shown to answer more questions well than naive RAG.

    The counts are compared by the sign flips of `compute_difference`. The result is "" if they differ beyond chance, if
    the test could show nothing, or if the F of the pipeline is not above that of naive RAG.
    """
    rows, step = {one.name: one.test.scores for one in report.finalists}, report.next_step
    means = {name: scores["fitness"].mean for name, scores in rows.items() if "fitness" in scores}
    if step is None or not step.is_shown or means.get(report.take, 0.0) <= means.get("naive", math.inf):
        return ""
    clusters = report.about.record.tested_groups or Clusters()
    well, wells = (
        {
            one.question: one.cause == Cause.WELL
            for one in report.answered
            if (one.pipeline, one.split) == (role, "test")
        }
        for role in (report.take, "naive")
    )
    both = clusters.tested([question for question in well if question in wells])
    ours, theirs = ([float(each[question]) for question in both] for each in (well, wells))
    found = compute_difference(ours, theirs, clusters.group_numbers(both)) if both else None
    if not found or not found.nonzero or found.p <= ALPHA:
        return ""
    moved = [
        f"{HEADLINE[part]} goes from {numbers.plain(rows['naive'][part].mean)} to "
        f"{numbers.plain(rows[report.take][part].mean)}"
        for part in COMPOSITES
        if all(part in rows[role] for role in ("naive", report.take))
    ]
    return (
        f"F decides, and not the number of questions answered well, in which {name_role(report.take)} is not shown to "
        f"differ from naive RAG ({_equals('p', numbers.probability(found.p))}, unadjusted). F is the "
        f"{report.about.record.settings.fitness.formula}: on test questions {join_names(moved, 'and')}."
    ) + " The embedded language model, which joins sentences of the passages, writes the answers of both." * any(
        one.role == "language_model" and one.description.startswith("embedded") for one in report.models
    )


def explain_use(report: RunReport) -> str:
    """Name the commands that use the exported pipeline to take."""
    about, file = report.about, report.about.taken_file
    return (
        f"Then `{about.use('ask', file, 'your question')}` answers a question with it, and "
        f"`{about.use('verify', file)}` checks that it scores as in this search."
    )


def count_causes(report: RunReport, role: str) -> Counter[Cause]:
    """Count the causes of wrong answers of the pipeline with a role, on search and test questions."""
    each = [one.counts for one in report.questions.causes if one.pipeline == role]
    return Counter({cause: n for cause in REMEDIES if (n := sum(counts.get(cause, 0) for counts in each))})


def find_example(report: RunReport, role: str) -> str:
    """Return the id of a question with the most frequent cause of wrong answers of the pipeline with a role.

    Search questions come first, then those whose answers are in the report, then the lowest fitness; "" without any.
    If causes were not counted, the question has any of them.
    """
    frequent = [cause for cause, _ in count_causes(report, role).most_common(1)] or REMEDIES
    shown = {one.question for one in report.questions.shown}
    ranked = (
        (one.split, one.question not in shown, one.measures.get("fitness", 0.0), one.question)
        for one in report.answered
        if one.pipeline == role and one.cause in frequent
    )
    return min(ranked, default=("",))[-1]


def explain_scores(report: RunReport) -> str:
    """Define F, R and G."""
    known = measures()
    fitness = report.about.record.settings.fitness
    made_of = "; ".join(
        f"{HEADLINE[name]}, {name}: the mean of {', '.join(known[member].label for member in members)}"
        for name, members in COMPOSITES.items()
        if name == RETRIEVAL or not fitness.ranking_only
    )
    return f"F, fitness: {fitness.formula}. {made_of}.{_describe_missing_parts(report)}"


def _describe_missing_parts(report: RunReport) -> str:
    """Describe how questions without evidence are scored; "" if there are none."""
    rows = [row for row in (*report.ranking, *report.baselines.values()) if row.scores]
    if not rows:
        return ""
    first = rows[0]
    unlabelled = first.coverage.scored - count_questions(first, RETRIEVAL)
    found = ""
    if unlabelled and not report.about.record.settings.fitness.ranking_only:
        found += (
            f" Questions without evidence ({unlabelled}) have no R, and their F is G. F of all questions, with these, "
            "ranks the pipelines of a search; F of questions with gold, without these, is that of comparisons."
        )
    if (refused := count_questions(first, REFUSAL)) > 0:
        those = "they" if refused == unlabelled else f"{refused} of them"
        found += f" As {those} have no answer in the documents, G is 1 if declined, else 0."
    return found


def count_questions(row: PipelineRow, name: str) -> int:
    """Return the number of questions of a mean."""
    score = row.scores.get(name)
    return 0 if score is None else score.n or row.coverage.scored


def describe_choice(report: RunReport) -> str:
    """Return the criterion by which the pipeline was chosen before it was simplified."""
    record = report.about.record
    by_estimate = record.settings.choose == "estimate" and record.estimated not in (None, record.leader)
    return TITLES["estimate" if by_estimate else "leader"]


def explain_first_place(report: RunReport) -> str:
    """Explain why the winner comes first if another pipeline has a higher fitness; "" if none has."""
    if not report.winner or not report.ranking or report.ranking[0].key != report.winner.key:
        return ""
    first, *others = report.ranking
    if all(numbers.plain(one.level) <= numbers.plain(first.level) for one in others if one.scores):
        return ""
    why = (
        "options that did not pay were removed from it, which may lower its fitness slightly"
        if any(removal.left_out for removal in report.about.record.removals)
        else f"it has the {describe_choice(report)}, by which it was chosen"
    )
    return f"The winner comes first although others have a higher fitness: {why}."


def explain_simplification(report: RunReport) -> str:
    """Explain the simplification of the winner."""
    shrunk = (
        "The estimate of the fitness of a pipeline is its mean, shrunk towards its prior expectation according to the "
        "sampling error of its mean and of those of similar pipelines: the highest of many means is biased upwards. "
    )
    return (shrunk if report.about.record.settings.choose == "estimate" else "") + (
        f"Options of the pipeline with the {describe_choice(report)} were removed in turn, on the search questions, "
        "the one that saved most model calls first. An option was left out if the pipeline without it saved calls, or "
        "saved none and gained nothing, and was shown to be behind by "
        f"{numbers.plain(report.about.record.settings.max_loss)} at most: the upper end of a one-sided 95 % interval "
        "by group of questions, adjusted for the number of options tried. Options and parameters that changed no "
        f"answer needed no test. The result is the winner, {_describe_simplified(report)}. Losses are relative to the "
        f"pipeline with the {describe_choice(report)}, on questions with gold."
    )


def _describe_simplified(report: RunReport) -> str:
    gone = [removal for removal in report.about.record.removals if removal.left_out]
    return describe_loss(gone[-1], report.simplified) if gone else "from which nothing was left out"


def describe_loss(last: AblationStep, tested: Difference | None) -> str:
    """Describe what simplification cost: its ``last`` step, and the difference on the test questions, if tested."""
    side = "ahead" if last.loss < 0 else "behind"
    most = "" if last.bound is None else f" (at most {numbers.plain(max(0.0, last.bound))} behind, 95 %)"
    found = f"{numbers.plain(abs(last.loss))} {side} on the search questions{most}"
    if tested is None:
        return found
    shown = (tested.low, tested.high) if tested.groups >= MIN_GROUPS else (None, None)
    return f"{found}, and {numbers.signed(tested.mean_difference)} {numbers.by_group(*shown)} on the test questions"


def explain_failures(report: RunReport) -> str:
    """Explain how failures are scored."""
    most = numbers.share(report.about.record.settings.max_failure_rate)
    return (
        f"{report.failed:,} answers failed. A failed question has no score. A question on which every pipeline "
        f"failed is excluded. A pipeline may fail on up to {most} of the others; with more failures it has no score "
        "and cannot win."
    )


def explain_ranking(report: RunReport) -> str:
    """Explain the ranking of pipelines that failed on some questions."""
    return (
        f"Some pipelines failed on questions; F, R and G are then means over the n that they finished. They are ranked "
        f"as if each failure had scored {numbers.plain(report.lowest)}, the lowest score, so that no pipeline "
        "gains by failing. The lead of the winner is measured on the questions that both finished."
    )


def explain_parts(found: Ablation, named: str = "the winner", *, was_selected: bool = True) -> str:
    """Explain an ablation; ``was_selected`` is whether the pipeline was selected on the search questions."""
    groups = next((one.worth["fitness"].groups for one in found.outs if "fitness" in one.worth), 0)
    linked = f" in {count_groups(groups)} of related questions" if groups else ""
    asked = "" if found.part == "all" else f"{found.part} "
    biased = f" These questions were used to select {named}, so the contributions are slightly overestimated."
    return (
        f"Each part of {named} was replaced in turn by naive RAG's option, on {found.questions} "
        f"{asked}questions{linked}. The contribution of a part is the paired difference between {named} and the "
        "pipeline without it: above 0 the part helps, and an interval that includes 0 shows nothing. Intervals are not "
        f"adjusted for the number of parts.{biased if was_selected and found.part == 'search' else ''}"
    )


def describe_interaction(one: Interaction) -> str:
    """Describe whether the joint gain of all parts is the sum of their single gains."""
    less = "less" if one.beyond.mean < 0 else "more"
    far = numbers.plain(abs(one.beyond.mean))
    bounds = numbers.by_group(one.beyond.low, one.beyond.high)
    added = (
        f"Alone in naive RAG the parts gain {numbers.signed(one.expected.mean)} fitness in total; together they gain "
        f"{numbers.signed(one.observed.mean)}. "
    )
    return added + (
        f"That is {far} {less} than the total {bounds}: their effects are not additive."
        if one.beyond.excludes_zero
        else f"The difference of {numbers.signed(one.beyond.mean)} {bounds} may be chance: no interaction is shown."
    )


def list_inert_options(report: RunReport) -> list[str]:
    """Return the inert options as ``family: option``."""
    return [f"{one.family}: {one.name}" for one in report.options if one.probe and one.probe.inert]


def describe_work(report: RunReport) -> str:
    """Describe what the last command computed and reused from the cache."""
    record = report.about.record
    account, made = record.account, record.settings.fitness.output_name
    text = f"This run's last command computed {account.computed:,} {made} and took {account.reused:,} from the cache."
    if account.spent.calls:
        text += f" All its commands sent {account.spent.calls:,} requests, of {account.spent.tokens:,} tokens"
        text += f", for {account.spent.cost:.4f} in money." if account.spent.cost else "."
        text = f"{text} {describe_forecast(report)}".rstrip()
    if not account.stages_requested:
        return f"{text} No stage ran and no model was called."
    ratio = account.stages_computed / account.stages_requested
    return (
        f"{text} Of {account.stages_requested:,} stages that pipelines required, {account.stages_computed:,} were "
        f"computed ({numbers.share(ratio)}); the rest was shared."
    )


def describe_forecast(report: RunReport) -> str:
    """Return how far the spending of a finished run was from the forecast; "" if by less than a quarter.

    A crossfit has an upper bound in place of a forecast, and both have no money if a price was not known.
    """
    record = report.about.record
    expected, is_bound = record.expected, record.settings.verdict == CROSSFIT
    spent = record.account.spent if expected.cost else replace(record.account.spent, cost=0.0)
    is_off = expected.differs_from(spent.maximum(expected) if is_bound else spent)
    if report.about.state != "finished" or not expected.calls or not is_off:
        return ""
    return f"The search took {spent}; while it ran, {'at most ' * is_bound}{expected} were expected."


def title_of_random(report: RunReport) -> str:
    """Return the title of the best random pipeline in tables."""
    return f"best of {len(report.random_curve):,} random"


def join_names(names: Sequence[str], last: str) -> str:
    """Join names, such as ``a, b and c``, where ``last`` is the conjunction."""
    return f" {last} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def describe_marks(found: MarkedAnswers) -> str:
    """Return how far the judge agrees with people on the answers that they marked."""
    marked, untold = sum(map(sum, found.table)), f", and could not tell of {found.untold:,}" if found.untold else ""
    within = numbers.interval(*(found.kappa_interval or (None, None)), digits=2)
    kappa = f" Agreement beyond chance: kappa {numbers.plain(found.kappa, 2)} {within}." if within else ""
    wrong, right = (
        f"{rate.hits:,} of the {rate.n:,} ({' to '.join(map(numbers.share, rate.interval or (0, 1)))})"
        for rate in (found.overrated, found.underrated)
    )
    return (
        f"People marked {marked:,} answers{untold}, without knowing which pipeline wrote them.{kappa} The judge marks "
        f"right {wrong} that people mark wrong, and wrong {right} that people mark right (95 % intervals)."
        + f" Intervals from fewer than {FEW_MARKS} marks are not calibrated."
        * (marked < FEW_MARKS)
    )


def explain_measures(report: RunReport) -> str:
    """Return the summaries of the reported measures, and their embedder."""
    embedder = next((shorten_model_id(model.id) for model in report.models if model.role == "embedder"), "the embedder")
    shown = {name for row in (*report.ranking, *report.baselines.values()) for name in row.scores}
    said = " ".join(f"{known.label}: {known.summary}" for known in measures().values() if known.name in shown)
    return f"{said} The embedder is {embedder}. n is the number of questions with a value, if not all have one."


def shorten_model_id(text: str) -> str:
    """Return the id of a model with fingerprints of 32 digits shortened to 8."""
    return ":".join(part[:8] if len(part) == 32 and part.isalnum() else part for part in text.split(":"))


def format_fitted(found: Mapping[str, Any] | None) -> str:
    """Return fitted numbers as compact JSON with six decimals, truncated to `MAX_FITTED_LENGTH` characters."""
    if found is None:
        return ""
    text = json.dumps(round_values(found), ensure_ascii=False, sort_keys=True, separators=(", ", ":"))
    more = f"… ({len(text):,} characters; the exported pipeline has them all)" * (len(text) > MAX_FITTED_LENGTH)
    return text[:MAX_FITTED_LENGTH] + more


def _equals(name: str, value: str) -> str:
    return f"{name} {value}" if value.startswith("<") else f"{name} = {value}"
