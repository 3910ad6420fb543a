"""``ragsmith ablate``: a winner taken apart, by the search itself and on request."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragsmith as library
from ragsmith.errors import UsageError
from ragsmith.reporting import load_report
from ragsmith.store.store import Store

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("searched")


@pytest.fixture
def winner(searched: Path, ragsmith: Command, search_arguments: Arguments, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The winner of one search that all tests here share."""
    monkeypatch.chdir(searched)
    if not (searched / "cache.sqlite").exists():
        assert ragsmith(*search_arguments("--workers", 1, "--quiet")).code == 0
    return searched / "reports" / "island" / "winner.yaml"


def test_a_search_leaves_what_each_part_of_its_winner_is_worth(winner: Path) -> None:
    with Store.open(winner.parents[2] / "cache.sqlite", read_only=True) as store:
        found = load_report(store, "island").ablation
    assert found is not None
    assert found.part == "search"
    assert found.outs
    assert all(not one.why_not and one.worth["fitness"].n == found.questions for one in found.outs)
    rows = list(csv.DictReader((winner.parent / "parts.csv").read_text().splitlines()))
    assert [row["option"] for row in rows if row["kind"] == "out"] == [one.option for one in found.outs]
    said = (winner.parent / "report.md").read_text()
    assert "## What each part is worth" in said
    assert f"on {found.questions} search questions" in said


def test_a_plan_says_how_much_there_is_and_does_nothing(winner: Path, ragsmith: Command, tiny_space: Path) -> None:
    shown = ragsmith("ablate", winner, "--space", tiny_space, "--swaps", "--plan", "--json", "--workers", 1)
    assert shown.code == 0
    plan = json.loads(shown.out)["plan"]
    assert plan["answers"] == (plan["pipelines"] - plan["known"]) * plan["questions"]
    again = json.loads(ragsmith("ablate", winner, "--space", tiny_space, "--swaps", "--plan", "--json").out)["plan"]
    assert again == plan


def test_what_lacks_is_evaluated_on_search_questions_and_kept_for_the_report(
    winner: Path, ragsmith: Command, tiny_space: Path, tmp_path: Path
) -> None:
    asked = ("ablate", winner, "--space", tiny_space, "--swaps", "--pairs", "--workers", 1)
    shown = ragsmith(*asked)
    assert shown.code == 0
    assert "What each part is worth" in shown.out
    assert "These questions chose this pipeline, so each part" in " ".join(shown.out.split())
    again = json.loads(ragsmith(*asked, "--json").out)
    assert again["plan"]["answers"] == 0
    assert {one["kind"] for one in again["parts"]} == {"out", "swap"}
    cache = winner.parents[2] / "cache.sqlite"
    with Store.open(cache, read_only=True) as store:
        domain = load_report(store, "island")
        [run] = store.runs()
        tested = set(run.value["test"].values())
        test = set(run.value["split"]["test"])
        for one in again["parts"]:
            met = store.results(one["key"]).keys() & test
            assert not met or one["key"] in tested  # the test questions stay unseen
    assert domain.ablation is not None
    assert len(domain.ablation.parts) == len(again["parts"])
    library.report(cache, tmp_path, "island")
    assert "Against other options of the space" in (tmp_path / "island" / "report.md").read_text()


def test_another_data_set_is_asked_its_search_questions_unless_all_are_named(
    winner: Path, ragsmith: Command, tiny_space: Path, tmp_path: Path
) -> None:
    found = library.ablate(winner, dataset="workshop", space=tiny_space, workers=1, cache=tmp_path / "other.sqlite")
    assert found is not None
    assert (found.dataset, found.part) == ("workshop", "search")
    plans: list[Any] = []
    asked = {"dataset": "workshop", "space": tiny_space, "workers": 1, "cache": tmp_path / "other.sqlite"}
    for part in ("test", "all"):
        assert library.ablate(winner, part=part, on_plan=lambda plan: bool(plans.append(plan)), **asked) is None
    assert [plan.part for plan in plans] == ["test", "all"]
    assert plans[1].questions >= plans[0].questions + found.questions
    with pytest.raises(UsageError, match="part is 'half': give search, test or all"):
        library.ablate(winner, part="half", **asked)


def test_of_a_recommended_pipeline_it_is_not_said_that_the_questions_chose_it(
    ragsmith: Command, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    named = tmp_path / "recommended.yaml"
    assert ragsmith("recommend", tiny_folder, "-o", named, "--calls", 1).code == 0
    shown = ragsmith("ablate", named, "--space", tiny_space, "--workers", 1, "--cache", tmp_path / "c.sqlite")
    said = " ".join(shown.out.split())
    assert (shown.code, "Each part of this pipeline was taken out" in said, "chose" in said) == (0, True, False)


def test_naive_rag_has_nothing_to_take_out(winner: Path, ragsmith: Command, tiny_space: Path, tmp_path: Path) -> None:
    plain = tmp_path / "naive.yaml"
    plain.write_text(
        "dataset: {bundled: law}\npipeline:\n"
        + "".join(
            f"  {family}: {{technique: {technique}}}\n"
            for family, technique in {
                "pre_embedding": "none",
                "query_expansion": "none",
                "retrieval": "vector",
                "reranking": "none",
                "passage_filter": "top_k",
                "passage_augment": "none",
                "passage_compress": "none",
                "prompt_maker": "listing",
                "post_generation": "none",
            }.items()
        )
    )
    shown = ragsmith("ablate", plain, "--cache", tmp_path / "c.sqlite", "--workers", 1)
    assert shown.code == 0
    assert "there is no part to take out" in shown.out
