from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from toy import SEARCH, put_toy, result

from ragsmith.datasets.splits import Leaks
from ragsmith.diagnosis.ablation import AblatedOption, Ablation
from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import QuestionDiagnosis
from ragsmith.errors import UsageError
from ragsmith.evaluation.statistics import Verdict
from ragsmith.pipelines.genes import Fit
from ragsmith.records.record import AblationStep
from ragsmith.reporting import RunReport, load_report, run_tables, summary_lines
from ragsmith.reporting.building import read_report
from ragsmith.reporting.rendering import report_markdown, report_page
from ragsmith.reporting.report_files import ranking_csv
from ragsmith.reporting.results import best_so_far, question_results
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.reporting.sections import SECTION_WRITERS
from ragsmith.reporting.values import SpaceOption
from ragsmith.reporting.wording import summarize_verdicts
from ragsmith.store.store import DiagnosisRow, EvaluationRow, ResultRow, Store
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Fitting, Technique
from ragsmith.types import Fitted, Gold, Hits, Question


def option(report: RunReport, family: str, name: str) -> SpaceOption:
    return next(o for o in report.options if (o.family, o.name) == (family, name))


def test_the_ranking_has_one_row_for_each_phenotype_and_none_for_the_incomplete(report: RunReport) -> None:
    rows = [(row.key, row.label, row.shared) for row in report.ranking]
    assert rows == [("toy: hybrid", "retrieval hybrid", 2), ("toy: bm25", "bm25", 1), ("toy: naive", "vector", 1)]
    assert report.winner == report.ranking[0]


def test_scores_are_means_over_the_questions_that_have_them(report: RunReport) -> None:
    assert report.winner is not None
    scores = {name: found.mean for name, found in report.winner.scores.items()}
    assert [scores[name] for name in ("retrieval", "generation", "fitness", "mrr")] == pytest.approx(
        [0.8, 0.6, 0.7, 0.8]
    )
    assert (report.winner.usage["calls"], report.winner.coverage.attempted) == (2, 10)
    found = report.winner.scores["redundancy_ratio"]
    assert (found.mean, found.low, found.high, found.n) == (0.25, 0.25, 0.25, 5)
    assert "faithfulness" not in report.winner.scores  # no question has it
    assert report.winner.scores["recall_50"].n is None
    assert report.baselines["bm25"].scores["redundancy_ratio"].low is None


def test_the_winner_is_shown_with_baselines_random_search_and_finalists(report: RunReport) -> None:
    assert {name: row.scores["fitness"].mean for name, row in report.baselines.items()} == pytest.approx(
        {"naive": 0.5, "bm25": 0.51}
    )
    assert report.random is not None
    assert report.random.key == "toy: hybrid reranked"
    assert report.search_curve == pytest.approx((0.5, 0.51, 0.7, 0.7, 0.7))
    assert report.random_curve == pytest.approx((0.5, 0.7))
    bm25 = next(one for one in report.finalists if one.name == "bm25")
    assert bm25.search is not None
    assert bm25.search.scores["fitness"].mean == pytest.approx(0.51)
    assert bm25.test.scores["fitness"].mean == pytest.approx((5 * 0.7 + 3 * 0.51) / 8)


def test_the_verdict_is_on_the_test_questions_with_holm_over_all_comparisons(report: RunReport) -> None:
    by_name = {comparison.name: comparison for comparison in report.comparisons}
    naive, bm25, random = (by_name[name] for name in ("naive", "bm25", "random"))
    assert naive.difference is not None
    assert naive.difference.mean_difference == pytest.approx(0.2)
    assert naive.difference.p == 2**-7  # eight differences of one sign
    assert naive.adjusted_p == 3 * 2**-7
    assert naive.verdict is Verdict.BETTER
    assert bm25.difference is not None
    assert (bm25.difference.nonzero, bm25.difference.p) == (3, 0.25)
    assert bm25.adjusted_p == 0.5
    assert bm25.verdict is Verdict.NOT_WORSE  # it is ahead by 0.19 on three questions, and by 0 on five
    assert random.difference is not None
    assert random.difference.nonzero == 0
    assert random.against == "the best of 2 random pipelines"


def with_record(store: Store, **found: Any) -> RunReport:
    """The report of the toy's run whose record has ``found``."""
    put_toy(store)
    about = choose_run(store, "toy")
    return read_report(store, replace(about, record=replace(about.record, **found)))


def test_a_pipeline_with_several_titles_is_compared_once(store: Store) -> None:
    put_toy(store)
    roles = {"leader": "toy: bm25", "recommended": "toy: bm25", "single": "toy: reranked", "cheapest": "toy: reranked"}
    report = with_record(store, test={**choose_run(store, "toy").record.test, **roles})
    assert {one.name for one in report.finalists} == {"winner", "naive", "bm25", "random", *roles}
    assert {one.name for one in report.comparisons} == {"naive", "bm25", "random", "single"}


def test_a_pipeline_that_is_the_winner_is_not_compared_with_it_and_that_is_said(store: Store) -> None:
    winner = "toy: bm25"
    test = {"winner": winner, "naive": "toy: naive", "bm25": winner, "cheapest": "toy: naive"}
    report = with_record(store, winner=winner, recommended=winner, test=test)
    assert {one.name for one in report.comparisons} == {"naive"}
    assert report.same == {"bm25": "winner", "recommended": "winner", "cheapest": "naive"}
    said = "The winner is BM25 and the recommended pipeline: it is not compared with itself."
    printed = summary_lines(report, columns=1000)
    assert f"  {said}" in printed
    assert said in report_markdown(report)
    assert said in report_page(report)
    assert not any(line.startswith("    BM25") for line in printed)


def test_it_is_said_that_nothing_is_cheaper_within_the_margin(store: Store) -> None:
    put_toy(store)
    record = choose_run(store, "toy").record
    report = with_record(store, leader=record.winner)
    cheaper = with_record(store, leader=record.winner, test={**record.test, "cheapest": "toy: reranked"})
    assert (report.same, cheaper.same) == ({"cheapest": "winner"}, {})
    said = "No cheaper pipeline is within the margin"
    for shown in (lambda one: "\n".join(summary_lines(one, columns=1000)), report_markdown, report_page):
        assert (said in shown(report), said in shown(cheaper)) == (True, False)


def test_a_winner_that_is_all_that_it_has_to_beat_gets_no_verdict(store: Store) -> None:
    report = with_record(store, winner="toy: naive", test={"winner": "toy: naive", "naive": "toy: naive"})
    assert report.comparisons == ()
    assert summarize_verdicts(report) == "No verdict: the winner is its only rival."


def test_without_test_questions_nothing_is_compared_and_nothing_claimed(store: Store) -> None:
    put_toy(store, test=False)
    report = load_report(store, "toy")
    assert (report.comparisons, report.finalists, report.groups_split) == ((), (), "search")
    said = "verdict: Nothing is claimed: there are no test questions (too small to split)."
    assert said in summary_lines(report, columns=1000)


def test_activity_is_the_share_of_questions_whose_stage_says_something_else(report: RunReport) -> None:
    bm25, hybrid = option(report, "retrieval", "bm25").probe, option(report, "retrieval", "hybrid").probe
    assert bm25 is not None
    assert hybrid is not None
    assert (bm25.activity, bm25.calls) == (0.5, 0)
    assert (hybrid.activity, hybrid.calls) == (1, 1)
    assert hybrid.change is not None
    assert (hybrid.change.mean, hybrid.change.low, hybrid.change.high) == pytest.approx((0.2, 0.2, 0.2))
    assert hybrid.retrieval is not None
    assert (hybrid.retrieval.mean, hybrid.retrieval.low, hybrid.retrieval.high) == pytest.approx((0.3, 0.3, 0.3))
    assert (hybrid.against, hybrid.difference) == ("", "")


def test_an_option_that_changes_no_output_is_inert_and_what_naive_rag_has_is_not_probed(report: RunReport) -> None:
    probe = option(report, "reranking", "cross_encoder").probe
    assert probe is not None
    assert probe.inert
    assert (probe.compared, probe.change, probe.calls) == (9, None, 2)  # one question failed
    assert option(report, "retrieval", "vector").probe is None


def test_effects_are_means_over_scored_proposals(report: RunReport) -> None:
    effect = option(report, "retrieval", "hybrid").effect
    assert (effect.with_n, effect.without_n) == (2, 2)
    assert (effect.with_mean, effect.without_mean) == pytest.approx((0.7, 0.505))


def test_failures_and_answers_are_kept_one_by_one(report: RunReport) -> None:
    (failure,) = report.failures
    assert (failure.stage, failure.exception, failure.count) == ("reranking.cross_encoder", "ModelError", 1)
    assert failure.example == "no reply | <b>"
    assert len(report.answered) == 4 * 18
    (found,) = [one for one in report.answered if (one.question, one.pipeline) == ("t7", "bm25")]
    assert (found.split, found.type, found.measures["fitness"]) == ("test", "odd", pytest.approx(0.51))


def test_a_question_with_a_diagnosis_and_no_result_has_no_outcome_and_moves_no_score(store: Store) -> None:
    put_toy(store)
    removed = AblatedOption("out", "retrieval", "hybrid", "vector", "toy: naive")
    Ablation("toy: hybrid", "hybrid", "toy", "search", 10, (removed,)).save(store, "digest of toy")
    store.put_diagnoses([DiagnosisRow("toy: naive", "s0", QuestionDiagnosis(Cause.FOUND, 1, 1).to_dict())])
    run = RunData(store, choose_run(store, "toy"), {})
    parts = (run.search, run.on_search), (run.test, run.on_test)
    known = {(key, part): one for key in run.keys for part, read in parts if (one := read(key))}
    searched = known["toy: naive", run.search]
    scored = {question: row for question, row in searched.records.items() if question != "s0"}
    known["toy: naive", run.search] = replace(searched, records=scored)
    asked = question_results(RunData(store, run.about, known, whole=True), "winner").asked
    assert [one.question for one in asked if one.naive is None] == ["s0"]
    assert {one.naive.scores["fitness"] for one in asked if one.naive} == {0.5}


def test_pipelines_that_dropped_out_and_may_be_better_are_named_beside_the_winner(store: Store, tmp_path: Path) -> None:
    put_toy(store)
    dropped = "Pipelines without a score, as they failed on more than 5 % of the questions: 1 of 5."
    assert load_report(store, "toy").notes[0] == dropped
    [key] = [row.evaluation for row in store.proposals(store.runs()[0].key) if row.fitness is None]
    with Store.open(tmp_path / "better.sqlite") as better:
        good = [ResultRow(key, one, "ok", result(0.9, 0.9, said=f"best {one}", stages={})) for one in SEARCH[1:]]
        better.put_results(good)  # stored results are kept
        put_toy(better)
        report = load_report(better, "toy")
    assert report.notes[0] == dropped
    said = r"cannot be told from .*cross_encoder.*, which failed on 1 of 10 questions and is ahead on the others"
    assert re.search(said, report.notes[1])
    assert f"! {dropped}" in summary_lines(report, columns=10_000)


def test_an_option_is_compared_with_the_pipeline_it_was_switched_on_in(store: Store) -> None:
    put_toy(store)
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    probes = [
        {"family": "retrieval", "option": "bm25", "key": "toy: bm25", "reference": "toy: naive", "difference": ""},
        {
            **{"family": "retrieval", "option": "hybrid", "key": "toy: hybrid", "reference": "toy: bm25"},
            "difference": "adds vectors to BM25",
        },
        {
            **{"family": "reranking", "option": "cross_encoder", "key": "toy: hybrid reranked", "reference": "gone"},
            "difference": "",
        },
    ]
    store.update_run("run", "finished", {**value, "probes": probes})
    report = load_report(store, "toy")
    bm25, hybrid = option(report, "retrieval", "bm25").probe, option(report, "retrieval", "hybrid").probe
    assert bm25 is not None
    assert hybrid is not None
    assert (bm25.against, bm25.difference) == ("", "")
    assert (hybrid.against, hybrid.difference) == ("bm25", "adds vectors to BM25")
    assert (hybrid.activity, hybrid.calls) == (0.5, 1)  # every other output of bm25 was the same
    assert hybrid.change is not None
    assert hybrid.change.mean == pytest.approx(0.7 - 0.51)
    assert option(report, "reranking", "cross_encoder").probe is None
    assert any("lost 1 of the 6 pipelines" in note for note in report.notes)


def test_what_was_fitted_is_shown_with_its_pipeline(store: Store, registered: Callable[..., Technique]) -> None:
    def kept_share(question: Question, hits: Hits, *, fitted: Fitted) -> Hits:
        return hits

    def observe(question: Question, hits: Hits, *, gold: Gold) -> int:
        return len(hits)

    def solve(observations: Sequence[int]) -> dict[str, float]:
        return {"keep": max(observations)}

    registered(passage_filter, kept_share, Fitting(observe, solve))
    put_toy(store)
    kept = dict(store.evaluation("toy: hybrid").configuration["pipeline"])  # type: ignore[union-attr]
    fit = Fit({"keep": 0.123456789})
    kept["passage_filter"] = {"technique": "kept_share", "parameters": {}, "fitted": fit.to_dict()}
    store.put_evaluations([EvaluationRow("toy: fitted", "digest of toy", {"pipeline": kept})])
    store.put_results([replace(row, evaluation="toy: fitted") for row in store.results("toy: hybrid").values()])
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    store.update_run("run", "finished", {**value, "baselines": {**value["baselines"], "naive": "toy: fitted"}})
    report = load_report(store, "toy")
    assert report.baselines["naive"].fitted == {"passage_filter": {"keep": 0.123456789}}
    assert report.baselines["bm25"].fitted == {}


def test_groups_of_questions_have_scores_and_costs(report: RunReport) -> None:
    assert report.groups_split == "test"
    found = {(group.group, group.pipeline): group for group in report.modalities}
    assert [group.group for group in report.modalities[::4]] == ["prose", "table"]
    assert found["table", "bm25"].n == 2  # t6, t7
    assert found["table", "bm25"].scores["fitness"].mean == pytest.approx(0.51)
    assert found["prose", "bm25"].scores["retrieval"].mean == pytest.approx((5 * 0.8 + 0.62) / 6)
    assert found["prose", "winner"].costs == {
        **{"calls": 2, "input_tokens": 10, "output_tokens": 2, "texts_embedded": 1, "pairs_scored": 0},
        "context_chars": 2000,
    }


def test_embedded_models_are_called_what_they_are(report: RunReport) -> None:
    said = {model.role: model.description for model in report.models}
    assert "agreement with the reference" in said["judge"]
    assert "static token vectors" in said["embedder"]
    assert "in a cross-encoder's place" in said["cross_encoder"]
    assert said["language_model"] == "a model served elsewhere"
    assert any("not comparable with scores by an LLM judge" in note for note in report.notes)
    assert report.judged is not None
    assert f"The judge was checked: {report.judged}." in SECTION_WRITERS["run"][2](report)


def test_a_pipeline_that_fails_on_a_test_question_is_not_compared(store: Store) -> None:
    put_toy(store)
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    value["test"] = {**value["test"], "bm25": "toy: lost questions"}
    pipeline = store.evaluation("toy: bm25").configuration  # type: ignore[union-attr]
    store.put_evaluations([EvaluationRow("toy: lost questions", "digest of toy", pipeline)])
    store.update_run("run", "finished", value)
    report = load_report(store, "toy")
    found = {comparison.name: comparison for comparison in report.comparisons}
    assert found["bm25"].verdict is None
    assert found["naive"].adjusted_p == 3 * 2**-7  # the family stays as large as it was asked for


def test_a_test_that_is_not_unseen_is_said(store: Store) -> None:
    put_toy(store)
    record = choose_run(store, "toy").record
    leaky = replace(record, split=replace(record.split, unused=("u1", "u2"), leaks=Leaks(8, 1, 3)))
    store.update_run("run", "finished", leaky.to_dict())
    report = load_report(store, "toy")
    assert report.about.record == leaky
    said = (
        "3 of 8 test questions have gold within 900 characters of a search question's, "
        "1 share a relevant chunk with one"
    )
    assert f"The test questions are not independent of the search questions: {said}." in report.notes
    rows = dict(run_tables.run_table(report).rows)
    assert rows["Questions"] == f"10 search, 8 test, 2 in neither part; split given; {said}"


def test_the_latest_finished_run_is_reported(store: Store) -> None:
    put_toy(store, run="old", started="2026-01-01T00:00:00+00:00")
    put_toy(store, run="new", started="2026-01-02T00:00:00+00:00")
    put_toy(store, run="newest", started="2026-01-03T00:00:00+00:00", state="interrupted", done=False)
    assert load_report(store, "toy").about.run == "new"


def test_an_unknown_data_set_is_answered_with_those_that_have_a_run(store: Store) -> None:
    with pytest.raises(UsageError, match="ragsmith search NAME"):
        load_report(store, "toy")
    put_toy(store, "toy")
    put_toy(store, "law", run="other")
    with pytest.raises(UsageError, match=r"no run on data set 'tony': did you mean 'toy'\? known: law, toy"):
        load_report(store, "tony")


@hypothesis_settings(max_examples=50)
@given(st.lists(st.none() | st.floats(0, 1)))
def test_the_best_so_far_is_the_maximum_of_what_was_seen(scores: list[float | None]) -> None:
    for place, best in enumerate(best_so_far(scores)):
        assert best == max((s for s in scores[: place + 1] if s is not None), default=None)


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_pipeline_that_failed_no_more_than_it_may_is_ranked_with_how_many_questions_it_finished(store: Store) -> None:
    explained = "  (n: questions that it finished; failures are ranked as scores of 0.000)"
    put_toy(store)
    assert explained not in summary_lines(load_report(store, "toy"), columns=1000)
    put_toy(store, run="later", started="2026-02-01T00:00:00+00:00", max_failure_rate=0.1)
    report = load_report(store, "toy")
    assert [row.key for row in report.ranking] == ["toy: hybrid", "toy: bm25", "toy: naive", "toy: reranked"]
    row = report.ranking[-1]
    assert (row.scores["fitness"].mean, row.scores["fitness"].n) == (0.5, 9)
    assert (row.ranked_by, row.level) == (pytest.approx(0.45), pytest.approx(0.45))
    assert {row.ranked_by for row in report.ranking[:-1]} == {None}
    lead = report.leads["toy: reranked"]
    assert (lead.mean, lead.n) == (pytest.approx(0.2), 9)
    assert report.leads["toy: bm25"].n is None
    assert option(report, "reranking", "cross_encoder").probe.change.n == 9  # type: ignore[union-attr]
    listed = list(csv.DictReader(ranking_csv(report).splitlines()))
    assert [cells["ranked_by"] for cells in listed[:4]] == ["0.7", "0.51", "0.5", "0.45"]
    assert explained in summary_lines(report, columns=1000)


def lose(store: Store, questions: list[str], *labels: str) -> None:
    """Let pipelines fail on questions, as if the run had met that."""
    failure = {"stage": "generation.answer", "kind": "refused content", "error": "RefusedContent: not this one"}
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    for label in labels:
        rows = store.results(f"toy: {label}")
        store.put_evaluations(
            [EvaluationRow(f"toy: {label} lost", "digest of toy", store.evaluation(f"toy: {label}").configuration)]
        )  # type: ignore[union-attr]
        lost = [ResultRow(f"toy: {label} lost", q, "failed", failure) for q in questions]
        kept = [ResultRow(f"toy: {label} lost", q, "ok", row.value) for q, row in rows.items() if q not in questions]
        store.put_results([*lost, *kept])
        value["test"] = {
            name: f"toy: {label} lost" if key == f"toy: {label}" else key for name, key in value["test"].items()
        }
    store.update_run("run", "finished", value)


def test_finalists_are_compared_on_the_questions_that_all_of_them_finished(store: Store) -> None:
    put_toy(store, max_failure_rate=0.25)
    lose(store, ["t0", "t1"], "bm25")
    report = load_report(store, "toy")
    assert {finalist.test.scores["fitness"].n for finalist in report.finalists} == {6}
    assert {comparison.difference.n for comparison in report.comparisons} == {6}  # type: ignore[union-attr]
    assert {group.n for group in report.types} == {3}


def test_a_winner_that_failed_where_others_were_scored_has_to_win_with_its_failures_at_the_lowest(store: Store) -> None:
    put_toy(store, max_failure_rate=0.25)
    clean = load_report(store, "toy")
    before = {c.name: c.difference for c in clean.comparisons}
    lose(store, ["t5", "t6"], "hybrid")
    report = load_report(store, "toy")
    found = {c.name: c.difference for c in report.comparisons}
    explained = "p also has to hold if failures of the leader are scored as the lowest score"
    assert [explained in "\n".join(summary_lines(one, columns=1000)) for one in (clean, report)] == [False, True]
    assert found["naive"].mean_difference == pytest.approx(before["naive"].mean_difference)  # type: ignore[union-attr]
    assert found["naive"].n == 6  # type: ignore[union-attr]
    assert found["naive"].p > 2**-5  # type: ignore[union-attr]  # that of 6 differences of one sign


def test_test_questions_that_all_finalists_failed_on_are_excluded_by_name(store: Store) -> None:
    put_toy(store)
    lose(store, ["t3"], "hybrid", "naive", "bm25", "hybrid reranked")
    report = load_report(store, "toy")
    [excluded] = report.excluded
    assert (excluded.question, excluded.split) == ("t3", "test")
    assert str(excluded.why) == "refused content, generation.answer: RefusedContent: not this one"
    assert {comparison.difference.n for comparison in report.comparisons} == {7}  # type: ignore[union-attr]
    said = "\n".join(summary_lines(report, columns=1000))
    assert "t3 (test), refused content, generation.answer: RefusedContent: not this one" in said
    assert "5 answers failed" in said
    assert "t3" in report_markdown(report)


def test_a_simplified_winner_is_compared_with_what_it_was_simplified_from(store: Store) -> None:
    """BM25 has the winner's fitness, 0.7, on five of eight test questions, and 0.51 on three."""
    gone = AblationStep("reranking", "cross_encoder", "toy: hybrid", 0.001, 0.001, 1.0, 0.002, left_out=True)
    tested = {"winner": "toy: hybrid", "leader": "toy: bm25", "naive": "toy: naive"}
    found = with_record(store, leader="toy: bm25", test=tested, removals=(gone,)).simplified
    assert found is not None
    assert (found.n, found.groups, found.mean_difference) == (8, 8, pytest.approx(3 * 0.19 / 8))
    stays = replace(gone, left_out=False)
    assert with_record(store, leader="toy: bm25", test=tested, removals=(stays,)).simplified is None


def test_a_run_without_a_winner_says_so_and_shows_what_there_is(store: Store) -> None:
    report = with_record(store, winner=None, test={}, no_winner="it cannot be told")
    assert report.winner is None
    assert summarize_verdicts(report) == "No winner: it cannot be told."
    assert len(report.ranking) == 3
    assert "| 1 | retrieval hybrid |" in report_markdown(report)
    assert "No winner: it cannot be told." in report_page(report)
