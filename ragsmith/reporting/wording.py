"""What a report says in sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragsmith.comparison.difference import Difference
from ragsmith.comparison.questions import FEWEST_GROUPS, times
from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import Ablation, Interaction
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE, REFUSAL, RETRIEVAL
from ragsmith.evaluation.latency import TIMED
from ragsmith.evaluation.statistics import Verdict
from ragsmith.measures.registry import measures
from ragsmith.records.record import CROSSFIT, RunRecord, RunSettings
from ragsmith.reporting.values import TITLES, Cheapest, PipelineRow, RunReport
from ragsmith.text import numbers
from ragsmith.text.table import rounded

SELECTION_BIAS = (
    "Scores on the search questions are optimistically biased for everything the search chose: the best of many looks "
    "better than it is (winner's curse). They rank candidates; only the comparison on the test questions is a claim."
)

PROPOSALS_EXPLAINED = (
    "With and without are means over the pipelines that the search happened to propose, which differ in their other "
    "options too: a hint, not an effect."
)

NAIVE = "naive RAG"

PROPER_NAMES = ("naive", "bm25")
"""Parts in the test that go by a name, without an article."""

OPTIONS_EXPLAINED = (
    "Every option switched on alone in naive RAG, or, where it needs another technique, in the pipeline that is named, "
    "on the search questions. Activity is the share of questions on which its stage gives another output than without "
    "it; an option that never does is inert here. Changes are means of differences question by question, with 95 % "
    "intervals that are not adjusted for the number of options: among many, some look good by chance."
)

GROUPS_EXPLAINED = (
    "The same pipelines on parts of the questions: what a search chose for all of them need not be best for each. A "
    "part has few questions, so its intervals are wide. Costs are means per question: model calls, tokens read and "
    "written, texts embedded, pairs scored by the cross-encoder, and the length of the prompt."
)

EFFECTS_EXPLAINED = (
    "Every two pipelines of the search that differ in one option alone, of which one has naive RAG's, question by "
    "question: the mean over all such pairs, the option alone in naive RAG among them. What a race dropped early "
    "counts on the questions that it answered, so large losses look a little larger than they are."
)

LATENCY_EXPLAINED = (
    "Each question was asked alone, by ragsmith evaluate --latency: warm with models opened and the index built, cold "
    "with nothing there, so that the first of them waits for both (the program itself was running, and had read its "
    "files before). Nothing that was found or answered before was remembered, and replies of models were waited for."
)

EXPLAIN_ONE = "`ragsmith explain winner.yaml {id}` follows one question through the pipeline; the ids are listed here."

QUESTIONS_EXPLAINED = (
    "Every question with the fitness that winner and naive RAG have on it, and what first went wrong in the winner. "
    "Questions that the winner changed most come first."
)

NOTHING_TO_BEAT = ": the winner is all that it would have to beat"

MAX_FITTED_LENGTH = 400
"""Characters of fitted numbers that are shown."""

VERDICT_WORDS: Mapping[Verdict, str] = {
    Verdict.BETTER: "better",
    Verdict.WORSE: "worse",
    Verdict.NO_DIFFERENCE: "no difference shown",
    Verdict.NOT_WORSE: "not worse",
    Verdict.TOO_FEW: "too few questions to tell",
}

RIVAL_ORDER = ("naive", "bm25", "recommended", "random", "single", "cheapest")
"""Rivals by what a verdict over them tells; a headline begins with the first."""


def describe_comparison(comparison: Comparison, *, asked: str = "test questions") -> str:
    """One comparison in words, with its numbers; ``asked`` is what its questions are called."""
    found, against = comparison.difference, comparison.against
    if found is None or comparison.verdict is None:
        return f"Not compared with {against}: one of the two failed on more {asked} than it may."
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
        return f"Not worse than {against} by {by}: {size}. {_describe_resolution(comparison)}"
    return f"{VERDICT_WORDS[comparison.verdict].capitalize()} than {against}: {size}."


def _describe_too_few(comparison: Comparison, found: Difference, asked: str, seen: str) -> str:
    """Why nothing could be shown: too often looked at, too few groups, or too few that differ."""
    if comparison.spent:
        return (
            f"Looked at too often to tell it from {comparison.against}: the {asked} were looked at "
            f"{times(comparison.look - 1)} before, and nothing could be shown on them any more ({seen})."
        )
    counted = f"{found.n} {asked} in {count_groups(found.groups)}"
    few = (
        f"{counted}, and with fewer than {FEWEST_GROUPS} nothing is called better"
        if found.groups < FEWEST_GROUPS
        else f"of {counted}, {found.nonzero} differ, in {found.telling}"
    )
    return f"Too few questions to tell it from {comparison.against}: {few} ({seen})."


def _describe_resolution(comparison: Comparison) -> str:
    """What is excluded where no difference is shown, what would have been shown, and what would settle it."""
    assert comparison.excluded is not None
    worse, better = map(numbers.plain, comparison.excluded)
    said = f"It is at most {worse} worse and at most {better} better"
    if comparison.detectable is not None:
        said += f"; {numbers.plain(comparison.detectable)} would have been shown four times in five"
    if comparison.more_questions is not None:
        groups = count_groups(comparison.more_groups or 0)
        said += f"; {comparison.more_questions:,} more questions, in {groups} like these, would show what was seen"
    return f"{said}."


def count_groups(number: int) -> str:
    """``1 group``, ``8 groups``."""
    return f"{number:,} group{'' if number == 1 else 's'}"


def count_earlier_looks(look: int) -> str:
    """The looks at the questions before this one, of the number ``look``."""
    return f"{'one earlier look' if look == 2 else f'{look - 1:,} earlier looks'} at these questions"


def front_explained(report: RunReport) -> str:
    """What the front is made of, and how another of its pipelines is written."""
    margin = numbers.plain(report.about.record.settings.margin)
    unless = "it finds nothing" + " or has no latency" * report.about.record.settings.timed
    return (
        f"Every pipeline that met all search questions counts, unless {unless}. "
        "`ragsmith export --pick` writes one: knee, where more calls begin to gain little; cheapest, which "
        f"search questions show to be less than {margin} behind the winner; calls<=2; or a place in the ranking."
        + _describe_latency(report.about.record.settings)
    )


def _describe_latency(settings: RunSettings) -> str:
    """How latency was measured, where it was."""
    if not settings.timed:
        return ""
    return (
        f" latency<=0.5 names one by its seconds: each pipeline was asked {TIMED} questions, one at a time, on warm "
        "models, and latency is the median. Replies of chat models count with the seconds they took in the search. "
        f"That was on {settings.machine}."
    )


CHEAPER_VERDICTS: Mapping[Verdict, str] = {
    Verdict.BETTER: "the winner is shown to be better",
    Verdict.WORSE: "it is shown to be better than the winner",
    Verdict.NOT_WORSE: "the winner is not shown to be better",
    Verdict.NO_DIFFERENCE: "no difference between the two is shown",
    Verdict.TOO_FEW: "nothing is shown of the two",
}
"""What a verdict of the winner over a cheaper pipeline says of the cheaper."""


def describe_within_margin(found: Cheapest) -> str:
    """What the cheapest within the margin saves on the test questions, and what its comparison shows."""
    digits = next((n for n in (1, 2) if f"{found.calls:.{n}f}" != f"{found.winner_calls:.{n}f}"), 3)
    behind = f"{numbers.plain(abs(found.loss))} {'behind' if found.loss > 0 else 'ahead of'} the winner"
    apart = "the same score" if numbers.signed(found.loss) == numbers.signed(0.0) else behind
    return (
        f"The cheapest within the margin, {found.label or NAIVE}, makes {found.calls:.{digits}f} calls a question, "
        f"the winner {found.winner_calls:.{digits}f}: {CHEAPER_VERDICTS[found.verdict]} "
        f"({apart} on {found.n} test questions)."
    )


def describe_duplicates(report: RunReport) -> list[str]:
    """A sentence for each pipeline that is no rival of its own, and one for what is cheaper than the winner."""
    found = {name: other for name, other in report.same.items() if name != "cheapest"}
    itself = [_role_title(name) for name, other in found.items() if other == "winner"]
    said = []
    if itself:
        where = "In every fold the winner" if report.folds else "The winner"
        said.append(f"{where} is {join_names(itself, 'and')}: it is not compared with itself.")
    said += [f"The {TITLES[name]} is {_role_title(other)}." for name, other in found.items() if other != "winner"]
    return [*said, *filter(None, [describe_cheapest(report)])]


def describe_cheapest(report: RunReport) -> str:
    """Which pipeline within the margin is cheaper than the winner, or that there is none; "" if it was not computed."""
    if report.cheapest:
        return describe_within_margin(report.cheapest)
    if report.same.get("cheapest") != "winner":
        return ""
    margin = numbers.plain(report.about.record.settings.margin)
    return (
        "No cheaper pipeline is within the margin: none that asks fewer model calls than the winner is shown on the "
        f"search questions to be less than {margin} behind it."
    )


def _role_title(name: str) -> str:
    return TITLES[name] if name in PROPER_NAMES else f"the {TITLES[name]}"


def headline(report: RunReport) -> str:
    """Whether the winner is really better, in one or two sentences."""
    if report.about.record.no_winner:
        return f"No winner: {report.about.record.no_winner}."
    if not report.ranking:
        return "No pipeline has been evaluated on enough questions yet."
    record = report.about.record
    if record.settings.verdict == CROSSFIT and not record.folds:
        return "No verdict yet: not every fold has been searched for and tested."
    if not record.tested:
        return (
            "Nothing is claimed: there are no test questions "
            f"({record.split.rule.removesuffix(', nothing is claimed')})."
        )
    if not report.comparisons:
        met = "winner" in report.same.values()
        return f"No verdict{NOTHING_TO_BEAT if met else ' yet: the test questions have not been used'}."
    about = "What such a search finds, by crossfit: " if record.folds else ""
    about += "In retrieval alone, as a machine drafted test questions: " * (report.comparisons[0].of == RETRIEVAL)
    return about + " ".join(part for part in _describe_verdicts(report.comparisons) if part)


def describe_extra_evaluations(report: RunReport) -> str:
    """What was evaluated besides the pipelines that the search proposed; nothing where nothing was."""
    found, folds = report.besides, len(report.folds)
    parts = (
        (found.before, "before it, the baselines and each option alone"),
        (found.drawn, "drawn at random"),
        (found.simplify, "to simplify the winner"),
        (found.apart, "to take it apart"),
    )
    if not found.total:
        return ""
    more = f"; and a search in each of {folds} folds" if folds else ""
    return (
        f"{found.total:,} pipelines were evaluated besides the {report.proposed:,} that the search proposed: "
        f"{join_names([f'{count:,} {what}' for count, what in parts if count], 'and')}{more}"
    )


def describe_questions(record: RunRecord) -> str:
    """How many questions were searched on and tested."""
    if record.settings.verdict != CROSSFIT:
        return f"{len(record.split.search)} search and {len(record.split.test)} test questions"
    if not record.folds:
        return f"{len(record.split.search)} questions, to be tested by crossfit"
    return f"{len(record.split.search)} questions, {len(record.tested)} of them tested in {len(record.folds)} folds"


def crossfit_explained(report: RunReport) -> str:
    """What a verdict by crossfit is about."""
    record = report.about.record
    return (
        f"The questions were dealt out to {len(record.folds)} folds. For each, one search ran on the others, without "
        "those that have gold near the fold's, and its winner answered the fold: so each of the "
        f"{len(record.tested)} questions was tested once, by a pipeline that was chosen without it. What is claimed is "
        "about the procedure, what such a search finds here, and not about one pipeline: the winner below was found by "
        "one more search, on all questions, which is the best use of them and leaves none to test it on. Searches of "
        "different folds share questions, so that intervals are a little too narrow, by an amount that has no "
        "unbiased estimate (Bengio and Grandvalet 2004)."
    )


def _describe_verdicts(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """A sentence for each verdict; what matters most comes first, and the cheapest, which is one to save by, last."""
    margin = numbers.plain(comparisons[0].margin)
    texts = {
        Verdict.BETTER: ("and", "Better than {}."),
        Verdict.WORSE: ("and", "Worse than {}."),
        Verdict.NOT_WORSE: ("or", f"Not worse than {{}} by {margin}."),
        Verdict.NO_DIFFERENCE: ("or", "No difference from {} shown."),
        Verdict.TOO_FEW: ("or", "Too few questions to tell it from {}."),
        None: ("and", "Not compared with {}."),
    }
    spent = ("or", "Test questions looked at too often to tell it from {}.")
    said: dict[tuple[str, str], list[str]] = {}
    for one in sorted(
        comparisons, key=lambda one: RIVAL_ORDER.index(one.name) if one.name in RIVAL_ORDER else len(RIVAL_ORDER)
    ):
        said.setdefault(spent if one.spent else texts[one.verdict], []).append(one.against)
    return tuple(text.format(join_names(names, last)) for (last, text), names in said.items())


def describe_winner(changed: int, stations: int) -> str:
    """How far the winner is from naive RAG."""
    if not changed:
        return "The winner is naive RAG: no station was worth changing."
    return f"The way of a question through {stations} stations; {changed} differ from those of naive RAG, above them."


def scores_explained(report: RunReport) -> str:
    """What F, R and G are."""
    known = measures()
    fitness = report.about.record.settings.fitness
    made_of = "; ".join(
        f"{HEADLINE[name]}, {name}: the mean of {', '.join(known[member].label for member in members)}"
        for name, members in COMPOSITES.items()
        if name == RETRIEVAL or not fitness.ranks
    )
    return f"F, fitness: {fitness.formula}. {made_of}.{_describe_missing_parts(report)}"


def _describe_missing_parts(report: RunReport) -> str:
    """What becomes of questions that have no R, or another G, where there are some."""
    rows = [row for row in (*report.ranking, *report.baselines.values()) if row.scores]
    if not rows:
        return ""
    first = rows[0]
    unlabelled = first.coverage.scored - count_questions(first, RETRIEVAL)
    found = ""
    if unlabelled and not report.about.record.settings.fitness.ranks:
        found += f" {unlabelled} questions have no evidence: they have no R, and count by G alone."
    if (refused := count_questions(first, REFUSAL)) > 0:
        found += f" {refused} of them the documents do not answer: their G is 1 if they are declined, else 0."
    return found


def count_questions(row: PipelineRow, name: str) -> int:
    """Of how many questions a mean is."""
    score = row.scores.get(name)
    return 0 if score is None else score.n or row.coverage.scored


def describe_choice(report: RunReport) -> str:
    """By what the pipeline was chosen that options were then left out of."""
    record = report.about.record
    by_estimate = record.settings.choose == "estimate" and record.estimated not in (None, record.leader)
    return TITLES["estimate" if by_estimate else "leader"]


def first_place_explained(report: RunReport) -> str:
    """Why the winner comes first although another listed pipeline has a higher fitness; "" if none has."""
    if not report.winner or not report.ranking or report.ranking[0].key != report.winner.key:
        return ""
    first, *others = report.ranking
    if all(numbers.plain(one.level) <= numbers.plain(first.level) for one in others if one.scores):
        return ""
    if any(removal.left_out for removal in report.about.record.removals):
        why = "what does not pay was left out of it, which may lower its fitness a little"
    else:
        why = f"it has the {describe_choice(report)}, by which it was chosen"
    return f"The winner comes first although others have a higher fitness: {why}."


def simplification_explained(report: RunReport) -> str:
    """How options were left out, in a paragraph."""
    shrunk = (
        "The estimate of what a pipeline is worth is its mean, shrunk towards what was expected of it before, by how "
        "far the questions that happen to be asked move it and those that do nearly the same: the highest of many "
        "means belongs to a pipeline that was lucky. "
    )
    return (shrunk if report.about.record.settings.choose == "estimate" else "") + (
        f"Each option of the pipeline with the {describe_choice(report)} was removed in turn, on the search questions. "
        "Options were left out if the pipeline without them was within one standard error and made fewer model calls, "
        "or if they made no calls and gained nothing; parameters that change no answer were reset to their defaults. "
        f"The result is the winner. Losses are relative to the pipeline with the {describe_choice(report)}."
    )


def failures_explained(report: RunReport) -> str:
    """What failures mean for a pipeline."""
    most = numbers.share(report.about.record.settings.max_failure_rate)
    return (
        f"{report.failed:,} answers failed. A failed question is no score. A question on which every pipeline "
        f"failed is excluded. On the others a pipeline may fail on up to {most}; one that fails on more has no "
        "score and cannot win."
    )


def ranking_explained(report: RunReport) -> str:
    """How pipelines that failed on some questions are ranked."""
    return (
        f"Some pipelines failed on questions; F, R and G are then means over the n that they finished. They are ranked "
        f"as if each failure had scored {numbers.plain(report.lowest)}, the lowest there is, so that no pipeline "
        "gains by failing. The lead of the winner is measured on the questions that both finished."
    )


def parts_explained(found: Ablation, named: str = "the winner", *, chosen: bool = True) -> str:
    """What the numbers are, and what they are not; ``chosen`` says whether search questions chose the pipeline."""
    groups = next((one.worth["fitness"].groups for one in found.outs if "fitness" in one.worth), 0)
    linked = f" in {count_groups(groups)} that hang together" if groups else ""
    asked = "" if found.part == "all" else f"{found.part} "
    biased = f" These questions chose {named}, so each part looks a little better than it is."
    return (
        f"Each part of {named} was taken out in turn, which leaves naive RAG's option there, on {found.questions} "
        f"{asked}questions{linked}. Worth is {named} less what is left, question by question: above 0 the part is "
        "worth having, and an interval that holds 0 shows nothing. Intervals are of one part by itself, not adjusted "
        f"for how many parts there are.{biased if chosen and found.part == 'search' else ''}"
    )


def describe_interaction(one: Interaction) -> str:
    """Whether all parts gain what they gain alone."""
    less = "less" if one.beyond.mean < 0 else "more"
    far = numbers.plain(abs(one.beyond.mean))
    bounds = numbers.by_group(one.beyond.low, one.beyond.high)
    added = (
        f"Alone in naive RAG the parts gain {numbers.signed(one.expected.mean)} fitness, added up; together they gain "
        f"{numbers.signed(one.observed.mean)}. "
    )
    if one.beyond.shown:
        return f"{added}That is {far} {less} than they add up to {bounds}: they do not add up."
    return (
        f"{added}The difference of {numbers.signed(one.beyond.mean)} {bounds} may be chance: no interaction is shown."
    )


def inert_options(report: RunReport) -> list[str]:
    """Options that changed nothing, as ``family: option``."""
    return [f"{one.family}: {one.name}" for one in report.options if one.probe and one.probe.inert]


def describe_work(report: RunReport) -> str:
    """What the last command computed and found in the cache."""
    record = report.about.record
    account, made = record.account, record.settings.fitness.made
    text = f"This run's last command computed {account.computed:,} {made} and took {account.reused:,} from the cache."
    if account.spent.calls:
        text += f" All its commands sent {account.spent.calls:,} requests, of {account.spent.tokens:,} tokens"
        text += f", for {account.spent.cost:.4f} in money." if account.spent.cost else "."
    if not account.stages_requested:
        return f"{text} No stage ran and no model was called."
    ratio = account.stages_computed / account.stages_requested
    return (
        f"{text} Of {account.stages_requested:,} stages that pipelines asked for, {account.stages_computed:,} were "
        f"computed ({numbers.share(ratio)}); the rest was shared."
    )


def against_random(report: RunReport) -> str:
    """What the best random pipeline is called in a table."""
    return f"best of {len(report.random_curve):,} random"


def join_names(names: Sequence[str], last: str) -> str:
    """``a, b and c``."""
    return f" {last} ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def measures_explained(report: RunReport) -> str:
    """What the measures that are shown are, in the words of their files, and by which embedder."""
    embedder = next((shorten_model_id(model.id) for model in report.models if model.role == "embedder"), "the embedder")
    shown = {name for row in (*report.ranking, *report.baselines.values()) for name in row.scores}
    said = " ".join(f"{known.label}: {known.summary}" for known in measures().values() if known.name in shown)
    return f"{said} Vectors are by {embedder}. Where not every question has a value, n says how many have."


def shorten_model_id(text: str) -> str:
    """The id of a model. Fingerprints of 32 digits say nothing to a reader; eight tell two of them apart."""
    return ":".join(part[:8] if len(part) == 32 and part.isalnum() else part for part in text.split(":"))


def format_fitted(found: Mapping[str, Any] | None) -> str:
    """Fitted numbers as compact JSON with six decimals; long ones are cut, and it is said where the whole is."""
    if found is None:
        return ""
    text = json.dumps(rounded(found), ensure_ascii=False, sort_keys=True, separators=(", ", ":"))
    if len(text) <= MAX_FITTED_LENGTH:
        return text
    return f"{text[:MAX_FITTED_LENGTH]}… ({len(text):,} characters; the exported pipeline has them all)"


def _equals(name: str, value: str) -> str:
    return f"{name} {value}" if value.startswith("<") else f"{name} = {value}"
