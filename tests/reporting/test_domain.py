from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from toy import put_toy

from ragsmith.datasets.splits import Leaks
from ragsmith.errors import UsageError
from ragsmith.evaluation.statistics import Verdict
from ragsmith.pipelines.genes import Fit
from ragsmith.records.record import RunRecord
from ragsmith.reporting import Domain, load_domain, run_tables, summary_lines
from ragsmith.reporting.domain import read_domain
from ragsmith.reporting.markdown import domain_markdown
from ragsmith.reporting.material import choose_run
from ragsmith.reporting.page import domain_page
from ragsmith.reporting.rows import best_so_far, score
from ragsmith.reporting.sections import WRITERS
from ragsmith.reporting.spreadsheet import ranking_csv
from ragsmith.reporting.values import Option
from ragsmith.reporting.wording import headline
from ragsmith.store.store import EvaluationRow, ResultRow, Store
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Fitting, Technique
from ragsmith.types import Fitted, Gold, Hits, Question


def option(domain: Domain, family: str, name: str) -> Option:
    return next(o for o in domain.options if (o.family, o.name) == (family, name))


def test_the_ranking_has_one_row_for_each_phenotype_and_none_for_the_incomplete(domain: Domain) -> None:
    assert [row.key for row in domain.ranking] == ["toy: hybrid", "toy: bm25", "toy: naive"]
    assert [row.label for row in domain.ranking] == ["retrieval hybrid", "bm25", "vector"]
    assert [row.shared for row in domain.ranking] == [2, 1, 1]
    assert domain.winner == domain.ranking[0]


def test_scores_are_means_over_the_search_questions(domain: Domain) -> None:
    assert domain.winner is not None
    scores = {name: found.mean for name, found in domain.winner.scores.items()}
    assert scores["retrieval"] == pytest.approx(0.8)
    assert scores["generation"] == pytest.approx(0.6)
    assert scores["fitness"] == pytest.approx(0.7)
    assert scores["mrr"] == pytest.approx(0.8)
    assert domain.winner.usage["calls"] == 2
    assert domain.winner.coverage.attempted == 10


def test_intervals_are_the_bootstrap_over_questions() -> None:
    values = np.random.default_rng(3).random(30)
    drawn = np.random.default_rng(0).integers(0, 30, (10_000, 30))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    found = score(values.tolist())
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high))


def test_the_baselines_and_the_best_random_pipeline_stand_beside_it(domain: Domain) -> None:
    assert list(domain.baselines) == ["naive", "bm25"]
    assert domain.baselines["bm25"].scores["fitness"].mean == pytest.approx(0.51)
    assert domain.random is not None
    assert domain.random.key == "toy: hybrid reranked"


def test_the_curves_hold_the_best_fitness_after_each_pipeline(domain: Domain) -> None:
    assert domain.search_curve == pytest.approx((0.5, 0.51, 0.7, 0.7, 0.7))
    assert domain.random_curve == pytest.approx((0.5, 0.7))


def test_the_verdict_is_on_the_test_questions_with_holm_over_all_comparisons(domain: Domain) -> None:
    by_name = {comparison.name: comparison for comparison in domain.comparisons}
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


def test_a_pipeline_with_several_titles_is_compared_once(store: Store) -> None:
    put_toy(store)
    about = choose_run(store, "toy")
    roles = {"leader": "toy: bm25", "recommended": "toy: bm25", "single": "toy: reranked", "cheapest": "toy: reranked"}
    record = replace(about.record, test={**about.record.test, **roles})
    domain = read_domain(store, replace(about, record=record))
    assert {f.name for f in domain.finalists} == {"winner", "naive", "bm25", "random", *roles}
    assert {one.name for one in domain.comparisons} == {"naive", "bm25", "random", "single"}


def test_a_pipeline_that_is_the_winner_is_not_compared_with_it_and_that_is_said(store: Store) -> None:
    put_toy(store)
    about = choose_run(store, "toy")
    winner = "toy: bm25"
    test = {"winner": winner, "naive": "toy: naive", "bm25": winner, "cheapest": "toy: naive"}
    record = replace(about.record, winner=winner, recommended=winner, test=test)
    domain = read_domain(store, replace(about, record=record))
    assert {one.name for one in domain.comparisons} == {"naive"}
    assert domain.same == {"bm25": "winner", "recommended": "winner", "cheapest": "naive"}
    said = "The winner is BM25 and the recommended pipeline: it is not compared with itself."
    printed = summary_lines(domain, columns=1000)
    assert f"  {said}" in printed
    assert said in domain_markdown(domain)
    assert said in domain_page(domain)
    assert not any(line.startswith("    BM25") for line in printed)


@pytest.mark.parametrize(("cheapest", "same"), [(None, {"cheapest": "winner"}), ("toy: reranked", {})])
def test_it_is_said_that_nothing_is_cheaper_within_the_margin(
    store: Store, cheapest: str | None, same: dict[str, str]
) -> None:
    put_toy(store)
    about = choose_run(store, "toy")
    test = {**about.record.test, **({"cheapest": cheapest} if cheapest else {})}
    record = replace(about.record, leader=about.record.winner, test=test)
    domain = read_domain(store, replace(about, record=record))
    assert domain.same == same
    said = "No cheaper pipeline is within the margin"
    for shown in ("\n".join(summary_lines(domain, columns=1000)), domain_markdown(domain), domain_page(domain)):
        assert (said in shown) is (cheapest is None)
    earlier = replace(about, record=replace(record, leader=None))  # a version that did not look for one
    assert read_domain(store, earlier).same == {}


def test_a_winner_that_is_all_that_it_has_to_beat_gets_no_verdict(store: Store) -> None:
    put_toy(store)
    about = choose_run(store, "toy")
    record = replace(about.record, winner="toy: naive", test={"winner": "toy: naive", "naive": "toy: naive"})
    domain = read_domain(store, replace(about, record=record))
    assert domain.comparisons == ()
    assert headline(domain) == "No verdict: the winner is all that it would have to beat."


def test_finalists_show_search_and_test_scores_side_by_side(domain: Domain) -> None:
    bm25 = next(f for f in domain.finalists if f.name == "bm25")
    assert bm25.search is not None
    assert bm25.search.scores["fitness"].mean == pytest.approx(0.51)
    assert bm25.test.scores["fitness"].mean == pytest.approx((5 * 0.7 + 3 * 0.51) / 8)


def test_without_test_questions_nothing_is_compared(store: Store) -> None:
    put_toy(store, test=False)
    domain = load_domain(store, "toy")
    assert domain.comparisons == ()
    assert domain.finalists == ()
    assert domain.groups_split == "search"


def test_activity_is_the_share_of_questions_whose_stage_says_something_else(domain: Domain) -> None:
    bm25, hybrid = option(domain, "retrieval", "bm25").probe, option(domain, "retrieval", "hybrid").probe
    assert bm25 is not None
    assert hybrid is not None
    assert (bm25.activity, bm25.calls) == (0.5, 0)
    assert (hybrid.activity, hybrid.calls) == (1, 1)
    assert hybrid.change is not None
    assert (hybrid.change.mean, hybrid.change.low, hybrid.change.high) == pytest.approx((0.2, 0.2, 0.2))
    assert hybrid.retrieval is not None
    assert (hybrid.retrieval.mean, hybrid.retrieval.low, hybrid.retrieval.high) == pytest.approx((0.3, 0.3, 0.3))
    assert (hybrid.against, hybrid.difference) == ("", "")


def test_an_option_that_changes_no_output_is_inert_and_is_judged_where_it_answered(domain: Domain) -> None:
    probe = option(domain, "reranking", "cross_encoder").probe
    assert probe is not None
    assert probe.inert
    assert probe.compared == 9  # one question failed
    assert probe.change is None
    assert probe.calls == 2


def test_what_naive_rag_has_is_not_probed(domain: Domain) -> None:
    assert option(domain, "retrieval", "vector").probe is None


def test_effects_are_means_over_scored_proposals(domain: Domain) -> None:
    effect = option(domain, "retrieval", "hybrid").effect
    assert (effect.with_n, effect.without_n) == (2, 2)
    assert (effect.with_mean, effect.without_mean) == pytest.approx((0.7, 0.505))
    assert effect.difference == pytest.approx(0.195)
    assert option(domain, "post_generation", "none").effect.difference is None


def test_a_measure_is_a_mean_over_the_questions_that_have_it(domain: Domain) -> None:
    assert domain.winner is not None
    found = domain.winner.scores["redundancy_ratio"]
    assert (found.mean, found.low, found.high, found.n) == (0.25, 0.25, 0.25, 5)
    assert "faithfulness" not in domain.winner.scores  # no question has it
    assert domain.winner.scores["recall_50"].n is None
    assert domain.baselines["bm25"].scores["redundancy_ratio"].low is None


def test_an_option_is_compared_with_the_pipeline_it_was_switched_on_in(store: Store) -> None:
    put_toy(store)
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    probes = [
        {"family": "retrieval", "option": "bm25", "key": "toy: bm25", "reference": "toy: naive"},
        {
            **{"family": "retrieval", "option": "hybrid", "key": "toy: hybrid", "reference": "toy: bm25"},
            "difference": "adds vectors to BM25",
        },
        {"family": "reranking", "option": "cross_encoder", "key": "toy: hybrid reranked", "reference": "gone"},
    ]
    store.update_run("run", "finished", {**value, "probes": probes})
    domain = load_domain(store, "toy")
    bm25, hybrid = option(domain, "retrieval", "bm25").probe, option(domain, "retrieval", "hybrid").probe
    assert bm25 is not None
    assert hybrid is not None
    assert (bm25.against, bm25.difference) == ("", "")
    assert (hybrid.against, hybrid.difference) == ("bm25", "adds vectors to BM25")
    assert (hybrid.activity, hybrid.calls) == (0.5, 1)  # every other output of bm25 was the same
    assert hybrid.change is not None
    assert hybrid.change.mean == pytest.approx(0.7 - 0.51)
    assert option(domain, "reranking", "cross_encoder").probe is None
    assert any("lost 1 of the 6 pipelines" in note for note in domain.notes)


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
    kept["passage_filter"] = {"technique": "kept_share", "parameters": {}, "fitted": fit.plain()}
    store.put_evaluations([EvaluationRow("toy: fitted", "digest of toy", {"pipeline": kept})])
    store.put_results([replace(row, evaluation="toy: fitted") for row in store.results("toy: hybrid").values()])
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    store.update_run("run", "finished", {**value, "baselines": {**value["baselines"], "naive": "toy: fitted"}})
    domain = load_domain(store, "toy")
    assert domain.baselines["naive"].fitted == {"passage_filter": {"keep": 0.123456789}}
    assert domain.baselines["bm25"].fitted == {}


def test_groups_of_questions_have_scores_and_costs(domain: Domain) -> None:
    assert domain.groups_split == "test"
    found = {(group.group, group.pipeline): group for group in domain.modalities}
    assert [group.group for group in domain.modalities[::4]] == ["prose", "table"]
    assert found["table", "bm25"].n == 2  # t6, t7
    assert found["table", "bm25"].scores["fitness"].mean == pytest.approx(0.51)
    assert found["prose", "bm25"].scores["retrieval"].mean == pytest.approx((5 * 0.8 + 0.62) / 6)
    assert found["prose", "winner"].costs == {
        **{"calls": 2, "input_tokens": 10, "output_tokens": 2, "texts_embedded": 1, "pairs_scored": 0},
        "context_chars": 2000,
    }


def test_kinds_of_documents_that_the_store_does_not_know_are_left_out(store: Store) -> None:
    put_toy(store)
    [row] = [row for row in store.datasets() if row.name == "toy"]
    store.put_dataset(row.digest, row.name, {k: v for k, v in row.value.items() if k != "modalities"})
    domain = load_domain(store, "toy")
    assert domain.modalities == ()
    assert {answered.modality for answered in domain.answered} == {""}
    assert "Kind of document" not in domain_page(domain) + domain_markdown(domain)


def test_types_are_shown_on_the_test_questions(domain: Domain) -> None:
    assert domain.groups_split == "test"
    found = {(t.group, t.pipeline): (t.n, t.scores["fitness"].mean) for t in domain.types}
    assert found["even", "bm25"] == (4, pytest.approx((3 * 0.7 + 0.51) / 4))  # t0, t2, t4 are good; t6 is not
    assert found["odd", "bm25"] == (4, pytest.approx((2 * 0.7 + 2 * 0.51) / 4))


def test_failures_are_counted_by_stage_and_exception(domain: Domain) -> None:
    (failure,) = domain.failures
    assert (failure.stage, failure.exception, failure.count) == ("reranking.cross_encoder", "ModelError", 1)
    assert failure.example == "no reply | <b>"


def test_embedded_models_are_called_what_they_are(domain: Domain) -> None:
    said = {model.role: model.description for model in domain.models}
    assert "agreement with the reference" in said["judge"]
    assert "static token vectors" in said["embedder"]
    assert "in a cross-encoder's place" in said["cross_encoder"]
    assert said["language_model"] == "a model served elsewhere"
    assert any("not comparable with scores by an LLM judge" in note for note in domain.notes)
    assert domain.judged is not None
    assert f"The judge was checked: {domain.judged}." in WRITERS["run"][2](domain)


def test_questions_are_kept_one_by_one(domain: Domain) -> None:
    assert len(domain.answered) == 4 * 18
    (found,) = [a for a in domain.answered if (a.question, a.pipeline) == ("t7", "bm25")]
    assert (found.split, found.type, found.measures["fitness"]) == ("test", "odd", pytest.approx(0.51))


def test_a_run_that_was_killed_is_reported_as_far_as_it_went(store: Store) -> None:
    put_toy(store, state="running", done=False)
    domain = load_domain(store, "toy")
    assert "partial" in domain.notes[0]
    assert [row.label for row in domain.ranking] == ["retrieval hybrid", "bm25", "vector"]
    assert (domain.baselines, domain.comparisons, domain.random) == ({}, (), None)
    assert all(o.probe is None for o in domain.options)


def test_a_pipeline_that_fails_on_a_test_question_is_not_compared(store: Store) -> None:
    put_toy(store)
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    value["test"] = {**value["test"], "bm25": "toy: lost questions"}
    pipeline = store.evaluation("toy: bm25").configuration  # type: ignore[union-attr]
    store.put_evaluations([EvaluationRow("toy: lost questions", "digest of toy", pipeline)])
    store.update_run("run", "finished", value)
    domain = load_domain(store, "toy")
    found = {comparison.name: comparison for comparison in domain.comparisons}
    assert found["bm25"].verdict is None
    assert found["naive"].adjusted_p == 3 * 2**-7  # the family stays as large as it was asked for


def test_what_the_cache_has_lost_is_said(store: Store) -> None:
    put_toy(store)
    value = dict(store.run("run").value)  # type: ignore[union-attr]
    store.update_run("run", "finished", {**value, "random": [*value["random"], "gone"]})
    assert any("lost 1 of the 6 pipelines" in note for note in load_domain(store, "toy").notes)


def test_a_test_that_is_not_unseen_is_said(store: Store) -> None:
    put_toy(store)
    record = RunRecord.read(store.run("run").value)  # type: ignore[union-attr]
    assert record.split.leaks is None
    assert not any("unseen" in note for note in load_domain(store, "toy").notes)
    leaky = replace(record, split=replace(record.split, unused=("u1", "u2"), leaks=Leaks(8, 1, 3)))
    store.update_run("run", "finished", leaky.plain())
    domain = load_domain(store, "toy")
    assert domain.about.record == leaky
    said = (
        "3 of 8 test questions have gold within 900 characters of a search question's, "
        "1 share a relevant chunk with one"
    )
    assert f"The test is less unseen than it should be: {said}." in domain.notes
    rows = {row[0]: row[1] for row in run_tables.run(domain).rows}
    assert rows["Questions"] == f"10 search, 8 test, 2 in neither part; split given; {said}"


def test_the_latest_finished_run_is_reported(store: Store) -> None:
    put_toy(store, run="old", started="2026-01-01T00:00:00+00:00")
    put_toy(store, run="new", started="2026-01-02T00:00:00+00:00")
    put_toy(store, run="newest", started="2026-01-03T00:00:00+00:00", state="interrupted", done=False)
    assert load_domain(store, "toy").about.run == "new"


def test_an_unknown_data_set_is_answered_with_those_that_have_a_run(store: Store) -> None:
    put_toy(store, "toy")
    put_toy(store, "law", run="other")
    with pytest.raises(UsageError, match=r"no run on data set 'tony': did you mean 'toy'\? known: law, toy"):
        load_domain(store, "tony")


def test_an_empty_cache_says_how_to_start(store: Store) -> None:
    with pytest.raises(UsageError, match="ragsmith search --dataset NAME"):
        load_domain(store, "toy")


@hypothesis_settings(max_examples=50)
@given(st.lists(st.none() | st.floats(0, 1)))
def test_the_best_so_far_is_the_maximum_of_what_was_seen(scores: list[float | None]) -> None:
    for place, best in enumerate(best_so_far(scores)):
        assert best == max((s for s in scores[: place + 1] if s is not None), default=None)


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_pipeline_that_failed_no_more_than_it_may_is_ranked_with_how_many_questions_it_finished(store: Store) -> None:
    put_toy(store, may_miss=0.1)
    domain = load_domain(store, "toy")
    assert [row.key for row in domain.ranking] == ["toy: hybrid", "toy: bm25", "toy: naive", "toy: reranked"]
    row = domain.ranking[-1]
    assert (row.scores["fitness"].mean, row.scores["fitness"].n) == (0.5, 9)
    assert (row.ranked_by, row.level) == (pytest.approx(0.45), pytest.approx(0.45))
    assert {row.ranked_by for row in domain.ranking[:-1]} == {None}
    lead = domain.leads["toy: reranked"]
    assert (lead.mean, lead.n) == (pytest.approx(0.2), 9)
    assert domain.leads["toy: bm25"].n is None
    assert option(domain, "reranking", "cross_encoder").probe.change.n == 9  # type: ignore[union-attr]
    listed = list(csv.DictReader(ranking_csv(domain).splitlines()))
    assert [cells["ranked_by"] for cells in listed[:4]] == ["0.7", "0.51", "0.5", "0.45"]


@pytest.mark.parametrize("may_miss", [0.0, 0.1])
def test_the_terminal_says_how_a_pipeline_with_failures_is_ranked_if_it_lists_one(
    store: Store, may_miss: float
) -> None:
    put_toy(store, may_miss=may_miss)
    explained = "  (n: questions that it finished; it is ranked as if each of its failures had scored 0.000)"
    assert (explained in summary_lines(load_domain(store, "toy"), columns=1000)) is bool(may_miss)


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
    put_toy(store, may_miss=0.25)
    lose(store, ["t0", "t1"], "bm25")
    domain = load_domain(store, "toy")
    assert {finalist.test.scores["fitness"].n for finalist in domain.finalists} == {6}
    assert {comparison.difference.n for comparison in domain.comparisons} == {6}  # type: ignore[union-attr]
    assert {group.n for group in domain.types} == {3}


def test_a_winner_that_failed_where_others_were_scored_has_to_win_with_its_failures_at_the_lowest(store: Store) -> None:
    put_toy(store, may_miss=0.25)
    clean = load_domain(store, "toy")
    before = {c.name: c.difference for c in clean.comparisons}
    lose(store, ["t5", "t6"], "hybrid")
    domain = load_domain(store, "toy")
    found = {c.name: c.difference for c in domain.comparisons}
    explained = "p also has to hold with the failures of whoever is ahead as the lowest score"
    assert [explained in "\n".join(summary_lines(one, columns=1000)) for one in (clean, domain)] == [False, True]
    assert found["naive"].mean_difference == pytest.approx(before["naive"].mean_difference)  # type: ignore[union-attr]
    assert found["naive"].n == 6  # type: ignore[union-attr]
    assert found["naive"].p > 2**-5  # type: ignore[union-attr]  # that of 6 differences of one sign


def test_test_questions_that_all_finalists_failed_on_are_set_aside_by_name(store: Store) -> None:
    put_toy(store)
    lose(store, ["t3"], "hybrid", "naive", "bm25", "hybrid reranked")
    domain = load_domain(store, "toy")
    [aside] = domain.aside
    assert (aside.question, aside.split) == ("t3", "test")
    assert str(aside.why) == "refused content, generation.answer: RefusedContent: not this one"
    assert {comparison.difference.n for comparison in domain.comparisons} == {7}  # type: ignore[union-attr]
    said = "\n".join(summary_lines(domain, columns=1000))
    assert "t3 (test), refused content, generation.answer: RefusedContent: not this one" in said
    assert "5 answers failed" in said
    assert "t3" in domain_markdown(domain)


def test_a_run_without_a_winner_says_so_and_shows_what_there_is(store: Store) -> None:
    put_toy(store)
    value = {**store.run("run").value, "winner": None, "test": {}, "no_winner": "it cannot be told"}  # type: ignore[union-attr]
    store.update_run("run", "finished", value)
    domain = load_domain(store, "toy")
    assert domain.winner is None
    assert headline(domain) == "No winner: it cannot be told."
    assert len(domain.ranking) == 3
    assert "| 1 | retrieval hybrid |" in domain_markdown(domain)
    assert "No winner: it cannot be told." in domain_page(domain)
