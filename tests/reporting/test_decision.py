"""The decision that a report begins with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from toy import put_toy

from ragsmith.comparison.advice import NextStep
from ragsmith.comparison.difference import Difference
from ragsmith.comparison.questions import Clusters
from ragsmith.comparison.verdicts import Comparison, Declining
from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms
from ragsmith.evaluation.selective import AnswerCounts
from ragsmith.evaluation.statistics import Verdict
from ragsmith.pipelines.genes import make_gene
from ragsmith.records.front import pick_pipeline
from ragsmith.records.record import CROSSFIT, RiskCalibration, RunSettings
from ragsmith.reporting import RunReport, report_json, summary_lines
from ragsmith.reporting.decision import decide, explain_levels
from ragsmith.reporting.facts import estimate_leads, take_highest
from ragsmith.reporting.plots import plot_options
from ragsmith.reporting.rendering import report_markdown, report_page
from ragsmith.reporting.results import count_good_answers
from ragsmith.reporting.run_data import choose_run
from ragsmith.reporting.values import (
    CauseCounts,
    GoodAnswerCounts,
    ModelUsed,
    OptionAlone,
    PipelineAnswer,
    ProposalMeans,
    QuestionExample,
    Questions,
    Score,
    Share,
    SpaceOption,
)
from ragsmith.reporting.wording import describe_comparison, explain_counts, explain_front, explain_limits, find_example
from ragsmith.store.store import Store
from ragsmith.text.declining import NOT_FOUND


def evaluation(judged: list[float | None], refusals: list[float | None], refused: list[float | None]) -> Evaluation:
    """Questions with a judge's score have an answer; ``refusals`` has a value for each without one."""
    names = ("recall", "map", "ndcg", "mrr")
    records = {
        f"q{at}": {
            "answer": NOT_FOUND if 1.0 in (right, wrong) else "At night.",
            "measures": dict.fromkeys(names, judge)
            | {"judge": judge, "similarity": judge, "refusal": right}
            | {"false_refusal": wrong, "citation_precision": None if judge is None else 0.5},
        }
        for at, (judge, right, wrong) in enumerate(zip(judged, refusals, refused, strict=True))
    }
    return Evaluation("key", (make_gene("retrieval", "vector"),), tuple(records), records, {})


def test_answers_are_counted_where_there_is_one_and_refusals_where_there_is_none() -> None:
    one = evaluation([0.9, 0.5, 0.2, None, None], [None, None, None, 1.0, 0.0], [0.0, 0.0, 1.0, None, None])
    clusters = Clusters((("q0", "q1"), ("q2",)), "document", 2, ("q3", "q4"))
    embedded = count_good_answers({"winner": one}, 0.25, Fitness(), clusters)["winner"]
    assert (embedded.well, embedded.refused, embedded.declined) == (Share(2, 3), Share(1, 3), Share(1, 2))
    assert (embedded.questions, embedded.cited) == (5, 0.5)
    assert embedded.fitness is not None
    assert (embedded.fitness.mean, embedded.fitness.n) == (pytest.approx(1.6 / 3), 3)
    assert count_good_answers({"winner": one}, 0.75, Fitness(), clusters)["winner"].well == Share(1, 3)
    found = count_good_answers({"winner": one}, None, Fitness(), clusters)["winner"]
    assert (found.judged, found.well) == (False, Share(0, 3))


def test_every_form_of_a_report_says_first_what_to_take_and_how_to_get_it(report: RunReport) -> None:
    advised = replace(report, next_step=NextStep("keep", "Use BM25: it is as good.", "bm25"))
    decision = decide(advised)
    assert decision is not None
    assert (decision.take, decision.command) == (
        "bm25",
        "ragsmith export toy --pick bm25 --run run -o take-toy.yaml",
    )
    assert [one.role for one in decision.contenders] == ["bm25", "winner", "naive"]
    for form in (report_page(advised), report_markdown(advised), "\n".join(summary_lines(advised, columns=1000))):
        assert form.index("ragsmith export toy --pick bm25 --run run -o take-toy.yaml") < form.index(
            "Better than naive RAG"
        )
    first = next(iter(report_json(advised).items()))
    assert first[0] == "decision"
    assert (first[1]["take"], first[1]["name"], first[1]["calls"]) == ("bm25", "bm25", 1.0)
    assert first[1]["answered_well"] == {"right": 8, "of": 8}
    said = [one["verdict"] for one in first[1]["differences"]]
    assert said == ["better", "not more than 0.020 worse", "always the same"]
    json.dumps(first[1])


@pytest.mark.parametrize(
    ("cause", "space", "embedded", "command"),
    [
        ("read and not used", "quick", True, "ragsmith search toy --space quick --llm=openai:MODEL"),
        ("not retrieved", "quick", True, "ragsmith search toy"),
        ("not retrieved", "default", True, "--embedder=sentence-transformers:MODEL"),
        ("not retrieved", "default", False, "ragsmith ablate take-toy.yaml --swaps"),
        ("lost by the reranker", "default", True, "ragsmith ablate take-toy.yaml --swaps"),
    ],
)
def test_next_is_what_may_mend_most_wrong_answers(
    report: RunReport, cause: str, space: str, embedded: bool, command: str
) -> None:
    record = replace(
        report.about.record,
        command="ragsmith search toy --space quick",
        space=replace(report.about.record.space, name=space),
    )
    means = "embedded: words" if embedded else "a model served elsewhere"
    shown = replace(
        report,
        about=replace(report.about, record=record),
        models=tuple(ModelUsed(role, "", means) for role in ("language_model", "embedder")),
        questions=Questions(
            causes=(CauseCounts("winner", "test", 9, {"answered well": 5, "not refused": 1, cause: 3}),)
        ),
    )
    decision = decide(shown)
    assert decision is not None
    assert f"Of the 4 test questions that the winner does not answer well, the most, 3, are '{cause}'" in decision.next
    assert f"{command}`" in decision.next
    for form in (report_page(shown), report_markdown(shown), "\n".join(summary_lines(shown, columns=1000))):
        assert f"{command}" in form


WHOLE = AnswerCounts(108, 107, 67)


def at_risk(
    report: RunReport, found: RiskCalibration, command: str = "ragsmith search toy --max-risk=0.5"
) -> RunReport:
    """Return the report of a search with a stated risk, whose winner declines too few questions without an answer."""
    settings = replace(report.about.record.settings, max_risk=found.risk)
    record = replace(report.about.record, command=command, settings=settings, declining=found)
    counts = GoodAnswerCounts(20, 0.25, Share(1, 12), Share(0, 12), Share(0, 8))
    return replace(
        report,
        about=replace(report.about, record=record),
        questions=Questions(causes=(CauseCounts("winner", "test", 9, {"answered well": 5, "not refused": 4}),)),
        counted={report.groups_split: {"winner": counts}},
    )


def test_declining_is_advised_unless_a_risk_was_stated(report: RunReport) -> None:
    shown = at_risk(report, RiskCalibration(0.5, 0.9, WHOLE), "ragsmith search toy")
    unstated = replace(shown.about.record, settings=RunSettings(), declining=None)
    decision, advised = decide(shown), decide(replace(shown, about=replace(shown.about, record=unstated)))
    assert decision is not None
    assert advised is not None
    assert "--max-risk" not in decision.next
    assert advised.next.endswith(
        "Of 8 test questions without an answer it declines 0: `ragsmith search toy --max-risk=0.5` calibrates the "
        "winner to decline, or names the least share of wrong answers that declining can keep."
    )
    assert advised.risk == ""


@pytest.mark.parametrize(
    ("attainable", "said"),
    [
        (
            0.68,
            "No share of wrong answers below 68 % can be promised with 90 % confidence, so not the stated 50 %: give "
            "`ragsmith search toy --max-risk=0.68`, better models, or search questions on more documents. ",
        ),
        (
            None,
            "No share of wrong answers can be promised with 90 % confidence, so not the stated 50 %: give better "
            "models, or search questions on more documents. ",
        ),
    ],
)
def test_a_risk_that_cannot_be_promised_is_said_in_every_form_with_the_least_that_can(
    report: RunReport, attainable: float | None, said: str
) -> None:
    shown = at_risk(report, RiskCalibration(0.5, 0.9, WHOLE, attainable=attainable))
    decision = decide(shown)
    assert decision is not None
    assert decision.risk == (
        f"{said}The winner is left as it is, and declines no more: 107 of 108 search questions answered, 67 of these "
        "answers wrong (63 %)."
    )
    assert decision.command == "ragsmith export toy --run run -o take-toy.yaml"
    assert report_json(shown)["decision"]["risk"] == decision.risk
    for form in (report_page(shown), report_markdown(shown), "\n".join(summary_lines(shown, columns=1000))):
        assert form.count(said.partition(":")[0]) == 1


@pytest.mark.parametrize(
    ("tested", "said"),
    [
        (AnswerCounts(92, 12, 8), ""),
        (
            AnswerCounts(92, 12, 9),
            "More are wrong in the test than promised, by chance or because its questions are harder: answers of a "
            "document are often wrong together, so the counts do not tell which. ",
        ),
        (AnswerCounts(92, 0, 0), ""),
    ],
)
def test_a_promise_is_compared_with_the_test_and_its_pipeline_can_be_exported(
    report: RunReport, tested: AnswerCounts, said: str
) -> None:
    found = RiskCalibration(0.68, 0.9, WHOLE, "its key", 0.496, AnswerCounts(108, 27, 14), tested)
    decision = decide(at_risk(report, found))
    assert decision is not None
    assert decision.risk == (
        "The calibrated winner promises at most 68 % wrong answers with 90 % confidence, by declining below a score of "
        f"0.496: 27 of 108 search questions answered, 14 of these answers wrong (52 %); {tested.describe('test')}. "
        f"{said}It is in `reports/toy/winner.yaml`. The pipeline to take is not calibrated and keeps no such promise; "
        "`ragsmith export toy --pick calibrated --run run` writes the one that does."
    )
    assert decision.command == "ragsmith export toy --pick winner --run run -o take-toy.yaml"
    taken = decide(at_risk(report, replace(found, key=report.ranking[0].key)))
    assert taken is not None
    assert taken.risk.endswith("It is in `reports/toy/winner.yaml`.")


def test_a_table_with_many_pipelines_fits_into_a_terminal(report: RunReport) -> None:
    rows = {role: replace(row, key=role) for role, row in report.baselines.items()}
    others = {role: replace(report.ranking[0], key=role) for role in ("recommended", "calibrated")}
    counts = GoodAnswerCounts(92, 0.25, Share(15, 84), Share(0, 84), Share(0, 8))
    step = NextStep("keep", "Use it.", "recommended")
    roles = ("recommended", "calibrated", "winner", "naive", "bm25")
    counted = {report.groups_split: dict.fromkeys(roles, counts)}
    shown = replace(report, baselines={**rows, **others}, counted=counted, next_step=step)
    lines = summary_lines(shown)
    head = next(place for place, line in enumerate(lines) if "recommended" in line.split() and "BM25" in line)
    assert lines[head].split() == ["recommended", "calibrated", "winner", "naive", "BM25"]
    assert lines[head + 1].split() == ["pipeline", "winner", "RAG"]
    assert lines[head + 2] == "    Answered well        15 of 84    15 of 84  15 of 84  15 of 84  15 of 84"


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        ("--max-risk=0.68 --seed 1", ["--max-risk=0.5"], "--seed 1 --max-risk=0.5"),
        ("--max-risk 0.68 --seed 1", ["--max-risk=0.5"], "--seed 1 --max-risk=0.5"),
        ("--retry-failed --seed 1", ["--retry-failed"], "--retry-failed --seed 1"),
        ("--seed 1", ["--test"], "--seed 1 --test"),
    ],
)
def test_an_option_that_a_step_sets_replaces_that_of_the_search(
    report: RunReport, command: str, options: list[str], expected: str
) -> None:
    record = replace(report.about.record, command=f"ragsmith search toy {command}")
    assert replace(report.about, record=record).repeat(*options) == f"`ragsmith search toy {expected}`"


def test_an_example_of_the_most_frequent_cause_is_a_search_question_that_is_shown_and_else_the_worst(
    report: RunReport,
) -> None:
    first = next(row for row in report.answered if row.pipeline == "winner")
    rows = [("t0", "test", 0.0), ("s1", "search", 0.2), ("s0", "search", 0.3), ("s2", "search", 0.1)]
    causes = dict.fromkeys(("t0", "s1", "s0"), "read and not used") | {"s2": "not retrieved"}
    answered = tuple(
        replace(first, question=question, split=split, measures={"fitness": fitness}, cause=causes[question])
        for question, split, fitness in rows
    )
    counts = (CauseCounts("winner", "search", 4, {"read and not used": 3, "not retrieved": 1}),)
    shown = QuestionExample("s0", "wrong", (), PipelineAnswer("", ()), PipelineAnswer("", ()))
    found = replace(report, answered=answered, questions=Questions(causes=counts))
    decision = decide(found)
    assert decision is not None
    assert "`ragsmith explain take-toy.yaml s1` follows one of them, once it is exported" in decision.next
    assert find_example(replace(found, questions=replace(found.questions, shown=(shown,))), "winner") == "s0"


def test_what_is_known_of_a_pipeline_that_is_taken_in_place_of_the_winner_is_an_estimate() -> None:
    questions = [f"q{at}" for at in range(18)]
    clusters = Clusters(tuple((one,) for one in questions), "document", 18)
    taken, naive = (replace(evaluation([x] * 18, [None] * 18, [0.0] * 18), key=str(x)) for x in (0.6, 0.5))
    tested = {"winner": taken, "recommended": taken, "naive": naive}
    terms = Terms.from_evaluations([taken, naive], Fitness())
    [lead] = estimate_leads("recommended", tested, terms, clusters)
    assert (lead.name, lead.adjusted_p, lead.verdict) == ("naive", None, None)
    assert lead.difference is not None
    assert lead.difference.mean_difference == pytest.approx(0.1)
    assert estimate_leads("winner", tested, terms, clusters) == ()


@pytest.mark.parametrize(("winners", "lost"), [(0.56, " The winner cites 56 % rightly, this one 38 %."), (0.3, "")])
def test_it_is_said_what_is_given_up_with_the_winner(report: RunReport, winners: float, lost: str) -> None:
    difference = Difference(9, 0.1, 0.05, 0.15, 0.01, 9, 9, 9, 0.02)
    lead = Comparison("naive", "naive RAG", "", difference, None, None)

    def counts(cited: float) -> GoodAnswerCounts:
        return GoodAnswerCounts(9, 0.25, Share(1, 9), Share(0, 9), Share(0, 0), cited=cited)

    counted = {report.groups_split: {"bm25": counts(0.38), "winner": counts(winners)}}
    step = NextStep("keep", "Use BM25.", "bm25")
    decision = decide(replace(report, next_step=step, taken_leads=(lead,), counted=counted))
    assert decision is not None
    assert decision.evidence == (
        "BM25 leads naive RAG by +0.100 [+0.050, +0.150] (95 % intervals; only the winner's differences are tested, "
        f"so these have no p).{lost}"
    )
    behind = replace(lead, against="another", difference=Difference(9, -0.039, -0.06, 0.01, 0.01, 9, 9, 9, 0.02))
    both = decide(replace(report, next_step=step, taken_leads=(behind, lead), counted=counted))
    assert both is not None
    assert both.evidence.startswith(
        "BM25 leads naive RAG by +0.100 [+0.050, +0.150] and is behind another by 0.039 [−0.010, +0.060] (95 %"
    )


def test_it_is_said_why_fitness_decides_where_as_many_questions_are_answered_well(report: RunReport) -> None:
    """The counts of answers are compared by groups of questions, and nothing is said where they differ."""
    questions = [f"q{at}" for at in range(10)]
    split = replace(report.about.record.split, groups=Clusters(tuple((one,) for one in questions), "document", 10))
    about = replace(report.about, record=replace(report.about.record, split=split))
    first = next(row for row in report.answered if row.pipeline == "winner")

    def explain(well: int, kind: str = "take", naive: float = 0.0) -> str:
        causes = {"winner": ["answered well"] * well + ["not retrieved"] * (10 - well), "naive": ["not retrieved"] * 10}
        answered = tuple(
            replace(first, pipeline=role, question=question, split="test", cause=cause)
            for role, each in causes.items()
            for question, cause in zip(questions, each, strict=True)
        )
        below = {"fitness": Score(naive)}
        finalists = tuple(
            replace(one, test=replace(one.test, scores=below)) if one.name == "naive" else one
            for one in report.finalists
        )
        step = NextStep(kind, "Take it.")
        return explain_counts(replace(report, about=about, answered=answered, finalists=finalists, next_step=step))

    assert "in which the winner is not shown to differ from naive RAG (p = 1.000, unadjusted)" in explain(1)
    assert explain(10) == ""
    assert explain(1, naive=1.0) == ""  # F does not speak for the winner
    assert [explain(1, kind) for kind in ("write", "groups", "fresh")] == ["", "", ""]  # nothing could be shown


def test_it_is_said_why_a_better_pipeline_on_search_questions_is_not_the_one_to_take(report: RunReport) -> None:
    bm25 = report.baselines["bm25"]
    better = replace(bm25, key="other", label="another", scores={"fitness": Score(bm25.level + 0.01)})
    found = replace(
        report,
        next_step=NextStep("keep", "Use BM25: it is as good.", "bm25"),
        ranking=(*report.ranking, better),
        front=(better,),
    )
    said = explain_front(found)
    assert f"another has a higher F ({bm25.level + 0.01:.3f}) than BM25 ({bm25.level:.3f}) at no more calls" in said
    assert f"`ragsmith export toy --pick {len(report.ranking) + 1} --run run -o other-toy.yaml`" in said
    assert "`ragsmith compare other-toy.yaml take-toy.yaml --split=test`" in said
    assert "not the one to take" not in explain_front(replace(found, front=(bm25,)))
    record = found.about.record
    for other in (
        replace(record, settings=replace(record.settings, verdict=CROSSFIT)),
        replace(record, split=replace(record.split, test=())),
    ):
        assert "--split=test" not in explain_front(replace(found, about=replace(found.about, record=other)))
    in_memory = replace(report.about, record=replace(report.about.record, in_memory=True))
    called = in_memory.use("compare", "a", "b", "--split=test", "--json")
    assert called == "ragsmith.compare('a', 'b', split='test', json=True)"


def test_a_pipeline_with_two_roles_is_listed_once_and_the_command_quotes_what_was_given(report: RunReport) -> None:
    about = replace(report.about, given="my folder", cache="x.sqlite")
    decision = decide(replace(report, about=about, baselines={**report.baselines, "bm25": report.ranking[0]}))
    assert decision is not None
    assert [one.role for one in decision.contenders] == ["winner", "naive"]
    assert decision.command == "ragsmith export 'my folder' --run run -o take-toy.yaml --cache x.sqlite"


@pytest.mark.parametrize(("pick", "key"), [("best", "toy: hybrid"), ("naive", "toy: naive"), ("bm25", "toy: bm25")])
def test_the_pipelines_that_may_be_taken_can_be_picked_by_their_roles(store: Store, pick: str, key: str) -> None:
    put_toy(store)
    assert pick_pipeline(store, "run", choose_run(store, "toy").record, pick).key == key


@pytest.mark.parametrize("role", ["single", "cheapest", "random"])
def test_the_pipeline_that_was_tested_is_picked_and_not_one_that_simplification_tried(store: Store, role: str) -> None:
    put_toy(store)
    record = replace(choose_run(store, "toy").record, test={role: "toy: naive"})
    assert pick_pipeline(store, "run", record, role).key == "toy: naive"


def test_a_role_that_was_not_tested_cannot_be_picked(store: Store) -> None:
    put_toy(store)
    record = replace(choose_run(store, "toy").record, baselines={})
    with pytest.raises(UsageError, match="pick is bm25, and nothing was tested under this name"):
        pick_pipeline(store, "run", record, "bm25")


def test_a_recommended_pipeline_that_was_not_tested_can_be_taken_and_it_is_said_why(report: RunReport) -> None:
    other = report.ranking[1]
    about = replace(report.about, record=replace(report.about.record, recommended=other.key))
    step = NextStep("write", "Write 8 more questions.", "recommended", "no question is held out")
    decision = decide(replace(report, about=about, next_step=step))
    assert decision is not None
    assert (decision.take, decision.taken.name, decision.reason) == (
        "recommended",
        other.label,
        "no question is held out.",
    )


@pytest.mark.parametrize(
    ("step", "take", "reason"),
    [
        (None, "bm25", "it has the highest mean, and nothing is shown"),
        (NextStep("fresh", "Take fresh ones."), "bm25", "it has the highest mean, and nothing is shown"),
        (NextStep("take", "Take the winner: it is better."), "winner", ""),
        (NextStep("write", "Write more.", "naive", "it is learned"), "naive", "it is learned"),
    ],
)
def test_a_system_that_is_behind_the_baselines_is_not_taken_unless_that_is_shown(
    report: RunReport, step: NextStep | None, take: str, reason: str
) -> None:
    winner, other = report.ranking[:2]
    low, high = (
        replace(row, scores={"fitness": replace(row.scores["fitness"], mean=mean)}, ranked_by=None)
        for row, mean in ((winner, 0.4), (other, 0.6))
    )
    failed = replace(other, scores={}, ranked_by=None)
    found = take_highest(step, {"winner": low, "bm25": high, "naive": failed})
    assert (found.take, found.reason, found.kind) == (take, reason, step.kind if step else "untested")
    ahead = take_highest(step, {"winner": high, "bm25": low})
    assert ahead.take == (step.take if step else "winner")
    assert ahead.reason == (step.reason if step else "it has the highest mean, and nothing is shown")


def test_without_a_winner_nothing_is_decided(report: RunReport) -> None:
    assert decide(replace(report, ranking=())) is None


@pytest.mark.parametrize(
    ("tested", "words"),
    [(0.40, "loses 0.050 more is the price of choosing it"), (0.46, "loses no more than that")],
)
def test_the_fall_from_search_to_test_is_divided_into_other_questions_and_choosing(
    report: RunReport, tested: float, words: str
) -> None:
    def counts(mean: float) -> GoodAnswerCounts:
        return GoodAnswerCounts(9, 0.25, Share(1, 9), Share(0, 9), Share(0, 0), fitness=Score(mean, n=9))

    levels = {"search": {"winner": counts(0.55), "naive": counts(0.5)}}
    levels["test"] = {"winner": counts(tested), "naive": counts(0.4)}
    said = explain_levels(replace(report, counted=levels))
    assert "naive RAG, which was not selected, goes from 0.500 to 0.400" in said
    assert words in said


def test_few_groups_are_told_how_many_of_them_have_to_agree() -> None:
    def said(groups: int, family: int) -> str:
        found = Difference(84, 0.1, 0.05, 0.15, 0.01, 80, groups, groups, 0.02)
        one = Comparison("naive", "naive RAG", "", found, 0.01, Verdict.BETTER, family=family)
        return explain_limits([one])

    assert said(9, 5) == "With 9 groups and 5 comparisons a difference is shown only if all 9 groups agree on it."
    assert said(11, 1) == (
        "With 11 groups and 1 comparison a difference is shown only if all but 1 of the 11 groups agree on it."
    )
    assert "no difference can be shown" in said(7, 5)
    assert said(12, 5) == ""


def test_where_an_interval_excludes_0_and_nothing_is_shown_it_is_said_what_decides() -> None:
    found = Difference(84, 0.1, 0.05, 0.15, 0.03, 80, 20, 20, 0.02)
    one = Comparison("naive", "naive RAG", "", found, 0.12, Verdict.NO_DIFFERENCE, family=4)
    assert explain_limits([one]).startswith("Where an interval excludes 0 and no difference is shown, p decides: ")
    for verdict in (Verdict.BETTER, Verdict.TOO_FEW, None):
        assert explain_limits([replace(one, verdict=verdict)]) == ""
    assert explain_limits([replace(one, difference=replace(found, low=-0.01))]) == ""


def test_declining_is_told_where_the_two_differ_in_it() -> None:
    found = Difference(84, 0.1, 0.05, 0.15, 0.01, 80, 9, 9, 0.02)
    one = Comparison("naive", "naive RAG", "", found, 0.01, Verdict.BETTER)
    apart = replace(one, declining=Declining(16, (9, 2), 84, (3, 1), 0.016))
    assert describe_comparison(apart).removeprefix(describe_comparison(one)) == (
        " Of 16 questions without an answer it declines 9, naive RAG 2 (p = 0.016, unadjusted); wrongly, of 84 with an "
        "answer, 3 and 1."
    )
    assert describe_comparison(replace(one, declining=Declining(16, (2, 2), 84, (0, 1), 1.0))) == describe_comparison(
        one
    )


def test_a_chart_of_options_never_mixes_numbers_of_questions() -> None:
    def option(name: str, compared: int, change: float) -> SpaceOption:
        tried = OptionAlone(compared, 0.5, 0.0, Score(change), None)
        return SpaceOption("retrieval", name, tried, ProposalMeans(None, 0, None, 0))

    charts = plot_options([option("a", 10, 0.1), option("b", 100, 0.2), option("c", 10, -0.1), option("d", 10, 0.0)])
    assert [chart.title.split(" on ")[1] for chart in charts] == [
        "100 questions, with its 95 % interval",
        "10 questions, with its 95 % interval",
    ]
    assert [[row.name for row in chart.rows] for chart in charts] == [["retrieval b"], ["retrieval a", "retrieval c"]]
