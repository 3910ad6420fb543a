"""``ragsmith explain``: the way of one question, as text and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragsmith.diagnosis.causes import Cause
from ragsmith.pipelines.genes import Candidate, configuration

Command = Callable[..., Any]


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
        "gold 1: 100 % is how much of it is there, *gold 1* a hit that has some, and « and » stand around it in what "
        "was read"
    )
    stages, read = ended.out.split("\nread\n")
    assert re.search(r"gold 1: \d+ %", stages)
    assert re.search(r"#\d+ \*gold 1\*", stages)
    assert read.count("«") == read.count("»") > 0
    assert not re.search(r"^\s*%|: *$", stages.split("pre_embedding")[1], re.MULTILINE)  # no share is torn
    assert any(f"cause            {cause.value}: " in ended.out for cause in Cause)


@pytest.mark.parametrize("question", ["ferry-1", "market-1", "school-3"])
def test_what_is_printed_has_whole_words_alone(winner: Path, ragsmith: Command, question: str) -> None:
    told = json.loads(ragsmith("explain", winner, question, "--json").out)
    printed = ragsmith("explain", winner, question).out
    known = set(json.dumps(told, ensure_ascii=False).split()) | set(told["prompt"].split())
    known = {part.strip('".,;:?!()[]«»') for word in known for part in (word, *word.split("\\n"))}
    ends = re.findall(r"(\S+)…", printed)
    assert ends
    assert {end.strip('".,;:?!()[]«»') for end in ends} <= known


def test_the_same_as_json_is_consistent(winner: Path, ragsmith: Command) -> None:
    told = json.loads(ragsmith("explain", winner, "market-1", "--json").out)
    stations = {station["family"]: station for station in told["stations"]}
    before, after = stations["query_expansion"]["hits"], stations["reranking"]["hits"]
    kept = stations["passage_filter"]
    assert {hit["chunk"] for hit in after} <= {hit["chunk"] for hit in before}
    assert [hit["place"] for hit in kept["hits"]] == [1, 2]
    assert len(kept["hits"]) + len(kept["dropped"]) == len(after)
    places = {hit["chunk"]: hit["place"] for hit in before}
    assert all(hit["before"] == places[hit["chunk"]] for hit in after)
    assert told["cause"] in [cause.value for cause in Cause]
    assert told["prompt"].startswith("[1] ")
    assert told["scores"].keys() == {"fitness", "retrieval", "generation", "judge"}
    assert stations["query_expansion"]["queries"] == [told["question"]]


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
    assert "144 answers at most" in only.err
    assert not only.out
    told = json.loads(
        ragsmith("explain", winner, "--interventions", "--json", "--cache", tmp_path / "cache.sqlite").out
    )
    assert {one["what"] for one in told["winner"]} == {"as it is", "gold put in", "noise taken out", "gold alone"}
    assert {one["split"] for one in told["naive"]} == {"search", "test"}


@pytest.mark.parametrize("arguments", [(), ("ferry-1", "--interventions")])
def test_either_a_question_or_interventions(winner: Path, ragsmith: Command, arguments: tuple[str, ...]) -> None:
    ended = ragsmith("explain", winner, *arguments)
    assert ended.code == 2
    assert "give a question, by its id or its text, or --interventions" in ended.err


@pytest.mark.parametrize("arguments", [("explain", "naive", "law-046"), ("verify", "nofile.yaml")])
def test_without_a_file_it_says_what_is_expected(arguments: tuple[str, ...], ragsmith: Command) -> None:
    ended = ragsmith(*arguments)
    assert ended.code == 2
    assert "name the file of a pipeline" in ended.err
    assert "naive, bm25 and recommended" in ended.err
    assert ended.err.count(": ") == 2  # the word error, and what to do
