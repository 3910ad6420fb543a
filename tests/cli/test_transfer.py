"""``ragsmith transfer``: the winners of two searches change places."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from facts_folder import facts_folder

import ragsmith as library
from ragsmith.errors import UsageError
from ragsmith.store.store import Store

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_space: Path) -> Path:
    """A cache with searches on the island and on an isle that is nearly the same."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(tiny_folder, home / "island")
    shutil.copytree(tiny_folder, home / "isle")
    described = home / "isle" / "dataset.yaml"
    described.write_text(described.read_text().replace("island", "isle"))
    (home / "isle" / "documents" / "more.md").write_text("# Weather\n\nIt rains on the isle from May to March.\n")
    for name, seed in (("island", 1), ("isle", 2)):
        found = library.search(
            home / name,
            space=tiny_space,
            cache=home / "cache.sqlite",
            chunk_size=100,
            seed=seed,
            population=6,
            generations=1,
            workers=1,
        )
        assert found.state == "finished"
    return home


def test_each_winner_is_evaluated_on_the_other_data_set_and_kept(searched: Path, ragsmith: Command) -> None:
    cache = searched / "cache.sqlite"
    asked = ("transfer", searched / "island", searched / "isle", "--cache", cache, "--workers", 1)
    shown = ragsmith(*asked)
    assert shown.code == 0, shown.err
    assert "winner of" in shown.out
    said = json.loads(ragsmith(*asked, "--json").out)
    assert (said["pairs"], said["answers"]) == (2, 0)  # everything is known by now
    names = {name for one in said["transfers"] for name in (one["source"], one["target"])}
    assert len(names) == 2
    with Store.open(cache, read_only=True) as store:
        splits = {run.dataset: run.value for run in store.runs()}
        for one in said["transfers"]:
            row = store.evaluation(one["key"])
            assert row is not None
            record = splits[row.dataset]
            met = store.results(one["key"]).keys()
            assert set(record["split"]["search"]) <= met
            assert one["key"] in record["test"].values() or not met & set(record["split"]["test"])
            assert one["behind"]["mean"] == pytest.approx(one["own"] - one["fitness"])
    written = library.report(cache, searched / "reports")
    assert written.across is not None
    shown_pairs = {(one.source, one.target) for one in written.across.transfers if one.behind is not None}
    assert len(shown_pairs) == 2
    assert "## Winners on other data sets" in (searched / "reports" / "index.md").read_text()


def test_a_plan_changes_nothing_and_test_questions_are_asked_for_by_name(searched: Path, ragsmith: Command) -> None:
    asked = ("transfer", searched / "island", searched / "isle", "--cache", searched / "cache.sqlite", "--workers", 1)
    planned = ragsmith(*asked, "--part", "test", "--plan")
    assert (planned.code, planned.out) == (0, "")
    assert "2 pairs of a winner and another data set" in planned.err
    found = json.loads(ragsmith(*asked, "--part", "test", "--json").out)["transfers"]
    assert {one["part"] for one in found} == {"test"}
    assert {one["place"] for one in found} == {None}


def test_what_cannot_be_transferred_is_said(searched: Path, tmp_path: Path) -> None:
    cache = searched / "cache.sqlite"
    with pytest.raises(UsageError, match="name two data sets or more"):
        library.transfer([searched / "island"], cache=cache)
    with pytest.raises(UsageError, match="has no search on 'law'"):
        library.transfer([searched / "island", "law"], cache=cache)
    with pytest.raises(UsageError, match="part is 'all': give search or test"):
        library.transfer([searched / "island", searched / "isle"], part="all", cache=cache)


def test_a_winner_is_not_taken_to_where_it_is_at_home(searched: Path, ragsmith: Command) -> None:
    cache = searched / "cache.sqlite"
    shutil.copytree(searched / "island", searched / "copy", dirs_exist_ok=True)
    for named in ((searched / "island", searched / "island"), (searched / "island", searched / "copy")):
        shown = ragsmith("transfer", *named, "--cache", cache, "--workers", 1)
        assert (shown.code, shown.out) == (2, "")
        assert "that is one data set, 'island', 2 times" in shown.err
    twice = (searched / "island", searched / "isle", searched / "island")
    assert json.loads(ragsmith("transfer", *twice, "--cache", cache, "--workers", 1, "--json").out)["pairs"] == 2


def test_questions_that_all_chose_the_winner_test_nobody(
    tmp_path: Path, ragsmith: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ("--space", "quick", "--max-evaluations", 2, "--no-probes", "--no-warm-start", "--workers", 1, "--quiet")
    facts_folder(tmp_path / "facts"), facts_folder(tmp_path / "others", "others")
    rows = (tmp_path / "others" / "questions.jsonl").read_text()
    (tmp_path / "others" / "questions.jsonl").write_text(rows.replace("When was", "In which year was"))
    assert ragsmith("search", "--dataset", "facts", *few, "--verdict", "crossfit", "--folds", 3).code == 0
    assert ragsmith("search", "--dataset", "others", *few).code == 0
    shown = ragsmith("transfer", "facts", "others", "--part", "test", "--workers", 1)
    assert (shown.code, shown.out) == (2, "")
    assert "'facts' has no test questions (its search was a crossfit, and all were used to choose" in shown.err
    assert ragsmith("transfer", "facts", "others", "--workers", 1).code == 0


def test_a_cache_that_is_not_there_is_not_made(searched: Path, ragsmith: Command, tmp_path: Path) -> None:
    ended = ragsmith("transfer", searched / "island", searched / "isle", "--cache", tmp_path / "typo.sqlite")
    assert ended.code == 2
    assert "there is no cache" in ended.err
    assert not list(tmp_path.glob("typo*"))
