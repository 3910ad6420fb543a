"""The page across data sets: one set of numbers in HTML, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from toy import put_toy

from ragsmith.comparison.questions import Clusters
from ragsmith.diagnosis.estimates import Estimate, TransferEstimate, load_transfers, pool_estimates, store_transfer
from ragsmith.reporting import load_report
from ragsmith.reporting.overview import combine_reports
from ragsmith.reporting.report_files import WrittenReports, write_report
from ragsmith.store.store import Store
from ragsmith.text import numbers

NAMES = ("hills", "lakes", "toy", "woods")


@pytest.fixture
def written(store: Store, tmp_path: Path) -> WrittenReports:
    for name in NAMES:
        put_toy(store, name, run=f"run of {name}")
    found = TransferEstimate(
        *("hills", "lakes", "search", "bm25", "some key", 10, 0.512, 1.5, 0.7),
        *(Estimate(0.188, 0.101, 0.275, 10, 10, 0.04), 2, 5),
    )
    store_transfer(store, found, "run of hills", "run of lakes", "digest of lakes")
    return write_report(store, tmp_path / "reports")


def rows(written: WrittenReports, name: str) -> list[dict[str, str]]:
    [path] = [path for path in written.paths if path.name == name and path.parent.name == "reports"]
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_the_test_is_pooled_over_data_sets(written: WrittenReports) -> None:
    found = written.across
    assert found is not None
    by_name = {one.name: one for one in found.tested}
    assert list(by_name) == ["naive", "bm25"]  # nothing was recommended
    naive, bm25 = by_name["naive"], by_name["bm25"]
    assert naive.pooled is not None
    assert (naive.pooled.mean, naive.pooled.agree, naive.pooled.datasets) == (pytest.approx(0.2), 4, 4)
    difference = written.reports[0].comparisons[1].difference
    assert difference is not None
    assert bm25.pooled == pool_estimates([difference.mean_difference] * 4, [difference.error] * 4)


def test_a_data_set_of_unequal_groups_weighs_by_the_error_that_these_make(store: Store) -> None:
    put_toy(store, "toy")
    report = load_report(store, "toy")
    one = report.comparisons[1]
    assert one.difference is not None
    seen = replace(one.difference, groups=10, effective=10.0, mean_difference=0.1, error=0.01)
    pairs = (seen, replace(seen, mean_difference=0.3, effective=2.0))
    alike = [replace(report, comparisons=(replace(one, difference=difference),)) for difference in pairs]
    named = [replace(each, about=replace(each.about, dataset=name)) for each, name in zip(alike, NAMES, strict=False)]
    [found] = combine_reports(named).tested
    wide = (2 / (2 - 1) / (10 / 9)) ** 0.5 * 0.01
    assert found.each["lakes"].error == pytest.approx(wide)
    expected = pool_estimates([0.1, 0.3], [0.01, wide])
    assert found.pooled is not None
    assert expected is not None
    assert found.pooled.low == pytest.approx(expected.low)


def test_a_winner_that_is_what_was_recommended_is_ahead_of_it_by_nothing(store: Store) -> None:
    put_toy(store, "toy")
    report = load_report(store, "toy")
    record = report.about.record
    same = replace(report, about=replace(report.about, record=replace(record, recommended=record.winner)))
    other = replace(report, about=replace(report.about, record=replace(record, recommended=record.test["bm25"])))
    found = {one.name: one for one in combine_reports([same, other]).tested}["recommended"]
    assert found.each["toy"].mean == report.comparisons[1].difference.mean_difference  # type: ignore[union-attr]
    assert {one.name: one for one in combine_reports([same, same]).tested}["recommended"].each["toy"].mean == 0


def test_every_file_has_the_same_numbers(written: WrittenReports) -> None:
    found = written.across
    assert found is not None
    [folder] = {path.parent for path in written.paths if path.name == "across.json"}
    page, text = ((folder / name).read_text(encoding="utf-8") for name in ("index.html", "index.md"))
    plain = json.loads((folder / "across.json").read_text(encoding="utf-8"))
    for one in found.tested:
        assert one.pooled is not None
        said = numbers.signed(one.pooled.mean)
        assert said in text
        assert said in page
        [row] = [row for row in rows(written, "test.csv") if (row["against"], row["dataset"]) == (one.name, "pooled")]
        assert float(row["difference"]) == pytest.approx(one.pooled.mean, abs=1e-6)
        assert int(row["agree"]) == one.pooled.agree
        [kept_plain] = [its for its in plain["tested"] if its["name"] == one.name]
        assert kept_plain["pooled"]["low"] == pytest.approx(one.pooled.low, abs=1e-6)
    hybrid = next(one for one in found.effects if one.option == "hybrid")
    assert hybrid.pooled is not None
    assert hybrid.pooled.mean == pytest.approx(0.2)
    assert hybrid.pooled.agree == 4
    listed = [row for row in rows(written, "effects.csv") if row["option"] == "hybrid"]
    assert [row["dataset"] for row in listed] == [*NAMES, "pooled"]
    assert {float(row["gain"]) for row in listed} == {0.2}
    assert "| retrieval | hybrid | +0.200" in text
    moved = [row for row in rows(written, "transfer.csv") if (row["winner_of"], row["on"]) == ("hills", "lakes")]
    assert [(row["part"], row["fitness"], row["behind"], row["place"]) for row in moved] == [
        ("search", "0.512", "0.188", "2")
    ]
    assert "0.512 (−0.188), 2 of 5" in text
    assert "0.512 (−0.188)" in page.replace("\u00a0", " ")


def test_a_winner_that_the_search_there_met_needs_no_evaluation(store: Store) -> None:
    for name in NAMES[:2]:
        put_toy(store, name, run=f"run of {name}")
    reports = [load_report(store, name) for name in NAMES[:2]]
    found = {(one.source, one.target, one.part): one for one in combine_reports(reports).transfers}
    met = found["hills", "lakes", "search"]
    assert (met.place, met.of, met.behind) == (1, 3, None)
    assert met.fitness == pytest.approx(0.7)
    assert met.regret == pytest.approx(0)
    assert found["hills", "hills", "test"].fitness == pytest.approx(0.7)
    elsewhere = replace(reports[1].about, record=replace(reports[1].about.record, chunk_size=300))
    other = combine_reports([reports[0], replace(reports[1], about=elsewhere)])
    assert not any(one.source != one.target for one in other.transfers)  # other chunks, another pipeline


def test_transfers_are_kept_by_the_runs_that_they_lead_between(store: Store) -> None:
    found = TransferEstimate("a", "b", "test", "bm25", "key", 5, 0.5, 1.0, 0.6, Estimate(0.1, 0.0, 0.2, 9, 9, 0.05))
    store_transfer(store, found, "run a", "run b", "digest")
    assert load_transfers(store, ["run a", "run b"]) == [found]
    assert load_transfers(store, ["run b", "a newer run of a"]) == []
    assert found.regret == 0.1


def test_runs_that_never_kept_their_groups_count_each_question_by_itself(store: Store) -> None:
    put_toy(store, "toy")
    report = load_report(store, "toy")
    assert report.about.record.split.search_groups is None
    assert {one.gain.groups for one in report.effects} == {10}
    assert Clusters.singletons(["a", "b"]).group_numbers(["b", "a"]) == [0, 1]
