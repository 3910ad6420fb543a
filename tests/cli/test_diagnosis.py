"""``ragsmith ablate | transfer | explain``."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from facts_folder import facts_folder

import ragsmith as library
from ragsmith.diagnosis.causes import Cause
from ragsmith.errors import UsageError
from ragsmith.pipelines.genes import Candidate, configuration
from ragsmith.reporting import load_report
from ragsmith.store.store import Store

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]


@pytest.fixture(scope="module")
def island(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("searched")


@pytest.fixture
def taken_apart(island: Path, ragsmith: Command, search_arguments: Arguments, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The taken_apart of one search that all tests here share."""
    monkeypatch.chdir(island)
    if not (island / "cache.sqlite").exists():
        assert ragsmith(*search_arguments("--workers", 1, "--quiet")).code == 0
    return island / "reports" / "island" / "winner.yaml"


def test_a_search_leaves_what_each_part_of_its_winner_is_worth(taken_apart: Path) -> None:
    with Store.open(taken_apart.parents[2] / "cache.sqlite", read_only=True) as store:
        found = load_report(store, "island").ablation
    assert found is not None
    assert found.part == "search"
    assert found.outs
    assert all(not one.why_not and one.worth["fitness"].n == found.questions for one in found.outs)
    rows = list(csv.DictReader((taken_apart.parent / "parts.csv").read_text().splitlines()))
    assert [row["option"] for row in rows if row["kind"] == "out"] == [one.option for one in found.outs]
    said = (taken_apart.parent / "report.md").read_text()
    assert "## Contribution of each part" in said
    assert f"on {found.questions} search questions" in said


def test_a_plan_says_how_much_there_is_and_does_nothing(taken_apart: Path, ragsmith: Command, tiny_space: Path) -> None:
    shown = ragsmith("ablate", taken_apart, "--space", tiny_space, "--swaps", "--plan", "--json", "--workers", 1)
    assert shown.code == 0
    plan = json.loads(shown.out)["plan"]
    assert plan["answers"] == (plan["pipelines"] - plan["known"]) * plan["questions"]
    again = json.loads(ragsmith("ablate", taken_apart, "--space", tiny_space, "--swaps", "--plan", "--json").out)[
        "plan"
    ]
    assert again == plan


def test_what_lacks_is_evaluated_on_search_questions_and_kept_for_the_report(
    taken_apart: Path, ragsmith: Command, tiny_space: Path, tmp_path: Path
) -> None:
    asked = ("ablate", taken_apart, "--space", tiny_space, "--swaps", "--pairs", "--workers", 1)
    shown = ragsmith(*asked)
    assert shown.code == 0
    assert "Contribution of each part" in shown.out
    assert "These questions were used to select" in " ".join(shown.out.split())
    again = json.loads(ragsmith(*asked, "--json").out)
    assert again["plan"]["answers"] == 0
    assert {one["kind"] for one in again["parts"]} == {"out", "swap"}
    cache = taken_apart.parents[2] / "cache.sqlite"
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
    taken_apart: Path, ragsmith: Command, tiny_space: Path, tmp_path: Path
) -> None:
    found = library.ablate(
        taken_apart, dataset="workshop", space=tiny_space, workers=1, cache=tmp_path / "other.sqlite"
    )
    assert found is not None
    assert (found.dataset, found.part) == ("workshop", "search")
    plans: list[Any] = []
    asked = {"dataset": "workshop", "space": tiny_space, "workers": 1, "cache": tmp_path / "other.sqlite"}
    for part in ("test", "all"):
        assert library.ablate(taken_apart, split=part, on_plan=lambda plan: bool(plans.append(plan)), **asked) is None
    assert [plan.part for plan in plans] == ["test", "all"]
    assert plans[1].questions >= plans[0].questions + found.questions
    with pytest.raises(UsageError, match="unknown split 'half': known: all, search, test"):
        library.ablate(taken_apart, split="half", **asked)


def test_of_a_recommended_pipeline_it_is_not_said_that_the_questions_chose_it(
    ragsmith: Command, tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    named = tmp_path / "recommended.yaml"
    assert ragsmith("recommend", tiny_folder, "-o", named, "--calls", 1).code == 0
    shown = ragsmith("ablate", named, "--space", tiny_space, "--workers", 1, "--cache", tmp_path / "c.sqlite")
    said = " ".join(shown.out.split())
    assert (shown.code, "Each part of this pipeline was replaced" in said, "select" in said) == (0, True, False)


def test_naive_rag_has_nothing_to_ablate(
    taken_apart: Path, ragsmith: Command, tiny_space: Path, tmp_path: Path
) -> None:
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
    assert "there is no part to remove" in shown.out


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
    planned = ragsmith(*asked, "--split", "test", "--plan")
    assert (planned.code, planned.out) == (0, "")
    assert "2 pairs of a winner and another data set" in planned.err
    ended = ragsmith(*asked, "--split", "test", "--json")
    assert "look 2 at these questions" in ended.err
    found = json.loads(ended.out)["transfers"]
    assert {one["part"] for one in found} == {"test"}
    assert {one["place"] for one in found} == {None}


def test_what_cannot_be_transferred_is_said(searched: Path, tmp_path: Path) -> None:
    cache = searched / "cache.sqlite"
    with pytest.raises(UsageError, match="give at least two data sets"):
        library.transfer([searched / "island"], cache=cache)
    with pytest.raises(UsageError, match="has no search on 'law'"):
        library.transfer([searched / "island", "law"], cache=cache)
    with pytest.raises(UsageError, match="unknown split 'all'"):
        library.transfer([searched / "island", searched / "isle"], split="all", cache=cache)


def test_a_winner_is_not_taken_to_where_it_is_at_home(searched: Path, ragsmith: Command) -> None:
    cache = searched / "cache.sqlite"
    shutil.copytree(searched / "island", searched / "copy", dirs_exist_ok=True)
    for named in ((searched / "island", searched / "island"), (searched / "island", searched / "copy")):
        shown = ragsmith("transfer", *named, "--cache", cache, "--workers", 1)
        assert (shown.code, shown.out) == (2, "")
        assert "these are one data set, 'island', 2 times" in shown.err
    twice = (searched / "island", searched / "isle", searched / "island")
    assert json.loads(ragsmith("transfer", *twice, "--cache", cache, "--workers", 1, "--json").out)["pairs"] == 2


def test_questions_that_chose_the_winner_cannot_test_a_transfer(
    tmp_path: Path, ragsmith: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ("--space", "quick", "--max-evaluations", 2, "--no-probes", "--no-warm-start", "--workers", 1, "--quiet")
    facts_folder(tmp_path / "facts"), facts_folder(tmp_path / "others", "others")
    rows = (tmp_path / "others" / "questions.jsonl").read_text()
    (tmp_path / "others" / "questions.jsonl").write_text(rows.replace("When was", "In which year was"))
    assert ragsmith("search", "--dataset", "facts", *few, "--verdict", "crossfit", "--folds", 3).code == 0
    assert ragsmith("search", "--dataset", "others", *few).code == 0
    shown = ragsmith("transfer", "facts", "others", "--split", "test", "--workers", 1)
    assert (shown.code, shown.out) == (2, "")
    assert "'facts' has no test questions (its search was a crossfit, which selected" in shown.err
    assert ragsmith("transfer", "facts", "others", "--workers", 1).code == 0


def test_a_missing_cache_is_not_created(searched: Path, ragsmith: Command, tmp_path: Path) -> None:
    ended = ragsmith("transfer", searched / "island", searched / "isle", "--cache", tmp_path / "typo.sqlite")
    assert ended.code == 2
    assert "there is no cache" in ended.err
    assert not list(tmp_path.glob("typo*"))


@pytest.fixture
def winner(tmp_path: Path, tiny_folder: Path, pipeline: Callable[..., Candidate]) -> Path:
    candidate = pipeline(
        retrieval="bm25", reranking="cross_encoder", passage_filter=("top_k", {"k": 2}), passage_augment="prev_next"
    )
    path = tmp_path / "winner.yaml"
    content = {
        "format": 1,
        "ragsmith": "0.1.0",
        "dataset": {"name": "island", "path": str(tiny_folder)},
        "chunk_size": 100,
        "models": {"language_model": "extractive", "embedder": "wordllama", "cross_encoder": "late_interaction"},
        "pipeline": configuration(candidate),
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def test_the_way_of_a_question_fits_80_columns_and_names_every_stage(winner: Path, ragsmith: Command) -> None:
    ended = ragsmith("explain", winner, "ferry-1")
    assert ended.code == 0, ended.err
    assert max(map(len, ended.out.splitlines())) <= 80
    for family in ("pre_embedding", "query_expansion", "reranking", "passage_filter", "passage_augment"):
        assert f"\n{family} " in ended.out
    marks = " ".join(ended.out.split("\nmarks ")[1].split("\n\n")[0].split())
    assert marks == (
        "gold 1: 100 % is the share of it that is present, *gold 1* marks a hit with a part of it, and « and » enclose "
        "it in the passages that were read"
    )
    stages, read = ended.out.split("\nread\n")
    assert re.search(r"gold 1: \d+ %", stages)
    assert re.search(r"#\d+ \*gold 1\*", stages)
    assert read.count("«") == read.count("»") > 0
    assert not re.search(r"^\s*%|: *$", stages.split("pre_embedding")[1], re.MULTILINE)  # no share is torn
    assert any(f"cause            {cause.value}: " in ended.out for cause in Cause)


@pytest.mark.parametrize("question", ["ferry-1", "market-1", "school-3"])
def test_shortened_text_ends_at_word_boundaries(winner: Path, ragsmith: Command, question: str) -> None:
    told = json.loads(ragsmith("explain", winner, question, "--json").out)
    printed = ragsmith("explain", winner, question).out
    known = set(json.dumps(told, ensure_ascii=False).split()) | set(told["prompt"].split())
    known = {part.strip('".,;:?!()[]«»') for word in known for part in (word, *word.split("\\n"))}
    ends = re.findall(r"(\S+)…", printed)
    assert ends
    assert {end.strip('".,;:?!()[]«»') for end in ends} <= known


def test_the_same_as_json_is_consistent(winner: Path, ragsmith: Command) -> None:
    told = json.loads(ragsmith("explain", winner, "market-1", "--json").out)
    stages = {stage["family"]: stage for stage in told["stages"]}
    before, after = stages["query_expansion"]["hits"], stages["reranking"]["hits"]
    kept = stages["passage_filter"]
    assert {hit["chunk"] for hit in after} <= {hit["chunk"] for hit in before}
    assert [hit["place"] for hit in kept["hits"]] == [1, 2]
    assert len(kept["hits"]) + len(kept["dropped"]) == len(after)
    places = {hit["chunk"]: hit["place"] for hit in before}
    assert all(hit["before"] == places[hit["chunk"]] for hit in after)
    assert told["cause"] in [cause.value for cause in Cause]
    assert told["prompt"].startswith("[1] ")
    assert told["scores"].keys() == {"fitness", "retrieval", "generation", "judge"}
    assert stages["query_expansion"]["queries"] == [told["question"]]


def test_a_question_is_known_by_its_text_too(winner: Path, ragsmith: Command) -> None:
    by_id = json.loads(ragsmith("explain", winner, "school-3", "--json").out)
    for typed in (f"  {by_id['question'].upper()} ", by_id["question"].rstrip("?")):
        found = ragsmith("explain", winner, typed, "--json")
        assert json.loads(found.out) == by_id
        assert "followed without gold" not in found.err
    assert by_id["note"] == ""


def test_any_other_question_is_followed_without_gold(winner: Path, ragsmith: Command) -> None:
    ended = ragsmith("explain", winner, "Who rings the noon bell?", "--prompt")
    assert ended.code == 0, ended.err
    assert "cause" not in ended.out
    assert "gold" not in ended.out
    assert "  | [1] " in ended.out
    said = "not a question of island: followed without gold"
    assert said in ended.err
    assert json.loads(ragsmith("explain", winner, "Who rings the noon bell?", "--json").out)["note"] == said


@pytest.mark.parametrize("typed", ["ferry-999", "FERRY-1"])
def test_what_looks_like_an_id_and_is_none_is_refused(winner: Path, ragsmith: Command, typed: str) -> None:
    ended = ragsmith("explain", winner, typed)
    assert ended.code == 2
    assert f"'island' has no question '{typed}': did you mean 'ferry-" in ended.err


def test_a_blank_question_is_refused(winner: Path, ragsmith: Command) -> None:
    ended = ragsmith("explain", winner, " ")
    assert ended.code == 2
    assert "the question is blank" in ended.err


def test_interventions_ask_for_what_they_say_and_are_kept(winner: Path, ragsmith: Command, tmp_path: Path) -> None:
    only = ragsmith("explain", winner, "--interventions", "--plan", "--cache", tmp_path / "cache.sqlite")
    assert only.code == 0, only.err
    assert "108 answers at most" in only.err
    assert not only.out
    asked = ("explain", winner, "--interventions", "--json", "--cache", tmp_path / "cache.sqlite")
    searched = ragsmith(*asked)
    assert "look" not in searched.err
    told = json.loads(searched.out)
    assert {one["what"] for one in told["winner"]} == {"as it is", "gold put in", "noise taken out", "gold alone"}
    shown = ragsmith("explain", winner, "--interventions", "--cache", tmp_path / "cache.sqlite").out
    assert {line.split()[0] for line in shown.splitlines()[2:]} == {str(winner), "naive"}
    assert {one["split"] for one in told["naive"]} == {"search"}
    both = ragsmith(*asked, "--split", "all")
    assert "This is look 1 at these questions" in both.err
    assert {one["split"] for one in json.loads(both.out)["naive"]} == {"search", "test"}


@pytest.mark.parametrize(
    "command", [("explain",), ("explain", "--interventions"), ("evaluate",), ("ablate", "--space", "quick")]
)
def test_scores_of_test_questions_are_a_look_at_them_that_is_counted_once(
    command: tuple[str, ...], winner: Path, ragsmith: Command, tmp_path: Path
) -> None:
    def shown(split: str) -> str:
        name, *more = command
        ended = ragsmith(name, winner, *more, "--split", split, "--workers", 1, "--cache", tmp_path / "cache.sqlite")
        assert ended.code == 0, ended.err
        said: str = ended.err
        return said

    assert "look" not in shown("search")
    assert "This is look 1 at these questions" in (said := shown("test"))
    assert "counted at 0.05, later looks at half." in said
    assert "This is look 1 again" in shown("test")
    other = ragsmith("compare", winner, "bm25", "--split", "test", "--cache", tmp_path / "cache.sqlite")
    assert "This is look 2 at these questions" in other.err


def test_what_a_search_has_shown_of_its_winner_is_no_further_look(taken_apart: Path, ragsmith: Command) -> None:
    for command in (("explain",), ("evaluate",)):
        ended = ragsmith(*command, taken_apart, "--split", "test", "--workers", 1)
        assert (ended.code, ended.err) == (0, "")
    assert "test" in json.loads(ragsmith("evaluate", taken_apart, "--workers", 1, "--json").out)


def test_a_question_and_interventions_are_not_both_given(winner: Path, ragsmith: Command) -> None:
    ended = ragsmith("explain", winner, "ferry-1", "--interventions")
    assert ended.code == 2
    assert "both a question and --interventions were given" in ended.err


def test_without_a_question_the_causes_of_all_are_counted(winner: Path, ragsmith: Command) -> None:
    ended = ragsmith("explain", winner, "--json")
    found = json.loads(ended.out)
    assert (ended.code, found["part"], found["questions"]) == (0, "search", 18)
    for one in found["causes"]:
        for question in one["questions"]:
            assert json.loads(ragsmith("explain", winner, question, "--json").out)["cause"] == one["cause"]
    assert ragsmith("explain", winner, "--split", "some").code == 2


@pytest.mark.parametrize("arguments", [("explain", "naive", "law-046"), ("verify", "nofile.yaml")])
def test_without_a_file_it_says_what_is_expected(arguments: tuple[str, ...], ragsmith: Command) -> None:
    ended = ragsmith(*arguments)
    assert ended.code == 2
    assert "`ragsmith recommend`, `search` and `export` write a pipeline" in ended.err
    assert ended.err.count(": ") == 2  # the word error, and what to do
