"""From a search to an answer: search, report, export, ask, evaluate, verify, runs, cache."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragsmith as library
from ragsmith.errors import UsageError
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Technique
from ragsmith.types import Hits, Question

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that one search has been run in; tests only read it."""
    return tmp_path_factory.mktemp("searched")


@pytest.fixture
def home(searched: Path, ragsmith: Command, search_arguments: Arguments, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(searched)
    if not (searched / "cache.sqlite").exists():
        assert ragsmith(*search_arguments("--workers", 1, "--quiet")).code == 0
    return searched


@pytest.fixture
def winner(home: Path) -> Path:
    return home / "reports" / "island" / "winner.yaml"


# --- search ----------------------------------------------------------------------------------------------------------


def test_a_search_says_what_it_found_and_where_it_is(
    ragsmith: Command, search_arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = ragsmith(*search_arguments("--workers", 1))
    assert shown.code == 0
    assert "Traceback" not in shown.err
    assert "island: 4 documents, 24 chunks, 24 questions; space 'tiny': 48 pipelines" in shown.err
    assert len(re.findall(r"^\[ *\d+\.\d s\] search +\d+ ", shown.err, re.MULTILINE)) >= 2
    assert "\x1b" not in shown.err + shown.out
    assert re.search(r"^\d+ answers computed, \d+ from the cache, [\d,]+ model calls, ", shown.out, re.MULTILINE)
    report, winner = tmp_path / "reports" / "island" / "index.html", tmp_path / "reports" / "island" / "winner.yaml"
    assert report.exists()
    assert winner.exists()
    assert "ragsmith ask take-island.yaml" in shown.out
    text = winner.read_text()
    again = ragsmith(*search_arguments("--workers", 1))
    assert re.search(r"^0 answers computed, \d+ from the cache, 0 model calls, ", again.out, re.MULTILINE)
    assert winner.read_text() == text


def test_a_quiet_search_says_nothing_on_the_way(home: Path, ragsmith: Command, search_arguments: Arguments) -> None:
    shown = ragsmith(*search_arguments("--workers", 1, "--quiet"))
    assert (shown.code, shown.err) == (0, "")
    assert "winner" in shown.out


def test_a_search_for_programs(home: Path, ragsmith: Command, search_arguments: Arguments) -> None:
    shown = ragsmith(*search_arguments("--workers", 1, "--json"))
    assert shown.code == 0
    assert json.loads(shown.err.splitlines()[0])["event"] == "begin"
    said = json.loads(shown.out)
    assert said["state"] == "finished"
    assert said["computed"] == 0
    assert Path(said["winner"]).exists()
    assert all(Path(path).exists() for path in said["report"])


def test_a_stated_risk_is_among_what_programs_read(
    home: Path, ragsmith: Command, search_arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(home / "cache.sqlite", tmp_path / "cache.sqlite")
    monkeypatch.chdir(tmp_path)  # a further run in the cache of all tests of this file would be listed by them
    options = ("--workers", 1, "--json", "--max-risk", 0.01)
    said = json.loads(ragsmith(*search_arguments(*options, reports=str(tmp_path))).out)
    risk = said["risk"]
    assert (risk["risk"], risk["confidence"], risk["key"], risk["calibrated"]) == (0.01, 0.9, "", None)
    assert risk["whole"]["answered"] > 0
    assert "can be promised with 90 % confidence, so not the stated 1 %: give" in risk["said"]
    assert "".join(f"risk: {risk['said']}".split()) in "".join("".join(said["summary"]).split())  # lines are wrapped


def test_a_time_limit_is_said(
    ragsmith: Command, search_arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paused = ragsmith(*search_arguments("--workers", 1, "--time-limit", 0.000001))
    assert paused.code == 130
    assert "the same command resumes the search" in paused.err
    whole = ragsmith(*search_arguments("--workers", 1))
    assert whole.code == 0
    assert "the same command resumes the search" not in whole.err


def test_a_search_without_a_winner_fails_with_a_report_that_says_why(
    ragsmith: Command,
    search_arguments: Arguments,
    tiny_folder: Path,
    tiny_space: Path,
    registered: Callable[..., Technique],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(question: Question, hits: Hits) -> Hits:
        """Fail."""
        raise LookupError("no luck")

    registered(passage_filter, never)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "never.yaml").write_text(tiny_space.read_text().replace("top_k: {k: [2, 4]}", "never"))
    arguments = search_arguments("--space", tmp_path / "never.yaml", "--workers", 1, "--quiet")
    shown, said = ragsmith(*arguments), ragsmith(*arguments, "--json")
    assert shown.code == said.code == 1
    why = json.loads(said.out)["no_winner"]
    assert "failures are like this one: defect, passage_filter.never: LookupError: no luck" in why
    assert shown.err == f"no winner: {why}.\n"
    assert re.search(
        r"^[\d,]+ answers failed: see Failures in the report; `ragsmith search .* --retry-failed` retries them$",
        re.sub(r"\n +", " ", shown.out),
        re.MULTILINE,
    )
    report = tmp_path / "reports" / "island"
    assert "LookupError: no luck" in (report / "report.md").read_text()
    assert json.loads(said.out)["winner"] is None
    assert not (report / "winner.yaml").exists()
    exported = ragsmith("export", "--dataset", tiny_folder, "-o", tmp_path / "winner.yaml")
    key = json.loads(said.out)["run"]
    assert (exported.code, exported.err) == (2, f"error: the search {key[:12]} on 'island' has no winner: {why}\n")
    assert ragsmith("export", "--dataset", tiny_folder, "--run", key, "-o", tmp_path / "winner.yaml") == exported


def test_a_place_that_cannot_be_written_is_said_in_a_sentence(
    home: Path, ragsmith: Command, search_arguments: Arguments, tiny_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    for arguments in (
        search_arguments("--workers", 1, "--quiet", reports=str(tmp_path / "taken")),
        ["report", "-o", tmp_path / "taken"],
        ["export", "--dataset", str(tiny_folder), "-o", tmp_path / "taken" / "winner.yaml"],
    ):
        shown = ragsmith(*arguments)
        assert shown.code in (1, 2)
        assert "Traceback" not in shown.err
        assert "taken" in shown.err


# --- export ----------------------------------------------------------------------------------------------------------


def test_an_export_is_what_the_search_wrote(
    home: Path, winner: Path, ragsmith: Command, tiny_folder: Path, tmp_path: Path
) -> None:
    shown = ragsmith("export", "--dataset", tiny_folder, "-o", winner.parent / "again.yaml")
    assert shown.code == 0
    assert (winner.parent / "again.yaml").read_bytes() == winner.read_bytes()
    assert shown.out.startswith(f"{winner.parent / 'again.yaml'}: ")
    (winner.parent / "again.yaml").unlink()


def test_an_export_says_which_pipeline_it_wrote_and_what_it_replaced(
    home: Path, winner: Path, ragsmith: Command, tiny_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "winner.yaml"
    asked = ("export", "--dataset", tiny_folder, "-o", path)
    run, scores = (yaml.safe_load(winner.read_text())[name] for name in ("run", "expected"))
    first, again, third = ragsmith(*asked), ragsmith(*asked), ragsmith(*asked, "--pick", "3")
    on = f"on {scores['search']['questions']} search questions"
    for ended, which in ((first, "the winner"), (third, "not the winner, picked by 3")):
        file, of, figures, then = ended.out.splitlines()
        assert then == f'ask it  ragsmith ask {path} "your question"'
        assert file.startswith(f"{path}: ")
        assert of == f"of the search {run['key'][:12]}, {which}"
        assert re.fullmatch(rf"fitness [\d.]+ {on}, [\d.]+ calls a question", figures)
    assert f"fitness {scores['search']['fitness']:.3f} " in first.out
    assert first.err == again.err == ""
    assert third.err == f"warning: {path} replaced a file with different content.\n"
    said = json.loads(ragsmith(*asked, "--json").out)
    assert (said["winner"], said["pick"], said["is_winner"]) == (str(path), "best", True)
    assert said["fitness"] == scores["search"]["fitness"]


def test_what_is_picked_is_no_winner_yaml(home: Path, winner: Path, ragsmith: Command, tiny_folder: Path) -> None:
    for pick, name in (("3", "place-3.yaml"), ("cheapest", "cheapest.yaml"), ("calls<=1.5", "calls-1.5.yaml")):
        said = json.loads(ragsmith("export", "--dataset", tiny_folder, "--pick", pick, "--json").out)
        assert (said["winner"], said["pick"]) == (name, pick)
        Path(name).unlink()
    assert not Path("winner.yaml").exists()


def test_an_export_elsewhere_finds_its_documents(
    home: Path, winner: Path, ragsmith: Command, tiny_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "down" / "winner.yaml"
    assert ragsmith("export", "--dataset", tiny_folder, "-o", path).code == 0
    exported, original = yaml.safe_load(path.read_text()), yaml.safe_load(winner.read_text())
    del exported["dataset"]["path"], original["dataset"]["path"]
    assert exported == original
    assert ragsmith("ask", path, "Who founded the library?").code == 0


def test_an_export_of_what_was_not_searched_is_refused(home: Path, ragsmith: Command, tmp_path: Path) -> None:
    shown = ragsmith("export", "--dataset", "law", "-o", tmp_path / "w.yaml")
    assert shown.code == 2
    assert "the cache has no search on 'law' as it is now" in shown.err
    shown = ragsmith("export", "--dataset", "law", "--run", "zzz", "-o", tmp_path / "w.yaml")
    assert shown.code == 2
    assert not (tmp_path / "w.yaml").exists()


# --- ask -------------------------------------------------------------------------------------------------------------


def test_a_question_before_the_pipeline_is_answered_with_a_note(winner: Path, ragsmith: Command) -> None:
    right = ragsmith("ask", winner, "Who founded the library?")
    swapped = ragsmith("ask", "Who founded the library?", winner)
    assert (swapped.code, swapped.out) == (0, right.out)
    assert "is read as the pipeline, and 'Who founded the library?' as the question" in swapped.err
    assert "is read as the pipeline" in ragsmith("explain", "Who founded the library?", winner).err


def test_a_question_may_be_longer_than_the_name_of_a_file(winner: Path, ragsmith: Command) -> None:
    question = f"Who founded the library? {'I have read all of its pages and have not found the name. ' * 5}"
    assert len(question) > 300
    right = ragsmith("ask", winner, question)
    assert (right.code, right.err) == (0, "")
    assert library.ask(str(winner), question).answer == right.out.partition("\n")[0]
    swapped = ragsmith("ask", question, winner)
    assert (swapped.code, swapped.out) == (0, right.out)
    with pytest.raises(UsageError, match="the pipeline is given first, and then the question"):
        library.ask(question, str(winner))
    assert ragsmith("ask", question, question).code == 2
    unknown = ragsmith("ask", winner, "Who?", "--models", "m" * 300)
    assert (unknown.code, unknown.err.startswith(f"error: {'m' * 300} is no file of models")) == (2, True)


def test_an_answer_quotes_its_passages_with_document_and_position(
    winner: Path, ragsmith: Command, tiny_folder: Path
) -> None:
    shown = ragsmith("ask", winner, "Who founded the library?")
    assert (shown.code, shown.err) == (0, "")
    answer, _, rest = shown.out.partition("\n")
    assert "Oda Lenz" in answer
    assert rest.splitlines()[1] == "sources"
    quoted = re.findall(r"^(\w+) \[(\d+):(\d+)\]  (.*)\n((?:  \| .*\n)+)", rest, re.MULTILINE)
    assert quoted
    for doc, start, end, title, lines in quoted:
        text = (tiny_folder / "documents" / f"{doc}.md").read_text()
        assert title == f"The {doc}"
        expected = "".join(f"  | {line}\n" for line in text[int(start) : int(end)].splitlines())
        assert lines == expected


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_terminal_shows_that_the_embedded_model_copies_sentences(winner: Path, options: tuple[str, ...]) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "ragsmith", "ask", winner, "When does the ferry leave?", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.write(theirs, b"end")
    said = os.read(ours, 4096).decode().removesuffix("end").split()
    os.close(ours)
    os.close(theirs)
    assert done.stdout
    copies = (
        "note: the embedded language model copies sentences from the passages and generates none; name a chat model "
    )
    assert " ".join(said) == ("" if options else f"{copies}with --llm or --models for answers in other words")


def test_a_blank_question_is_refused(winner: Path, ragsmith: Command) -> None:
    shown = ragsmith("ask", winner, " ")
    assert (shown.code, shown.err) == (2, "error: the question is blank: give a question\n")


def test_documents_do_not_drive_the_terminal(
    winner: Path, ragsmith: Command, tiny_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "island"
    shutil.copytree(tiny_folder, folder)
    for question in ("\x1b[2J who founded the library", "who \x07 founded the library?"):
        shown = ragsmith("ask", winner, question, "--dataset", folder)
        assert shown.code == 0
        assert not set(shown.out) & set("\x1b\x07")


# --- evaluate and verify ---------------------------------------------------------------------------------------------


def test_an_evaluation_has_intervals_and_denominators(winner: Path, ragsmith: Command, tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    shown = ragsmith("evaluate", winner, "--cache", cache, "--workers", 1)
    assert shown.code == 0
    assert "island, search questions: 18 attempted = 18 scored + 0 failed" in shown.out
    assert "island, test questions: 6 attempted = 6 scored + 0 failed" in shown.out
    assert "95 % interval" in shown.out
    said = json.loads(ragsmith("evaluate", winner, "--cache", cache, "--workers", 1, "--json").out)
    for part, questions in (("search", 18), ("test", 6)):
        scores = said[part]
        assert (scores["attempted"], scores["scored"], scores["failed"]) == (questions, questions, 0)
        for row in scores["metrics"].values():
            assert row["low"] <= row["mean"] <= row["high"]


def test_an_evaluation_on_another_data_set(winner: Path, ragsmith: Command, tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(tiny_folder, folder)
    lines = (folder / "questions.jsonl").read_text().splitlines(keepends=True)
    (folder / "questions.jsonl").write_text("".join(lines[::2]))
    cache = tmp_path / "c.sqlite"
    shown = ragsmith("evaluate", winner, "--dataset", folder, "--cache", cache, "--workers", 1, "--json")
    said = json.loads(shown.out)
    assert (said["all"]["attempted"], said["all"]["scored"]) == (12, 12)


def test_the_exported_scores_are_reproduced(winner: Path, ragsmith: Command) -> None:
    shown = ragsmith("verify", winner)
    assert shown.code == 0
    assert shown.out.startswith("verified: every score is reproduced")
    assert "18 search questions, 6 test questions" in shown.out
    assert json.loads(ragsmith("verify", winner, "--json").out) == {
        "verified": True,
        "differences": [],
        "changed_models": {},
    }


def test_a_changed_number_is_noticed(winner: Path, ragsmith: Command) -> None:
    data = yaml.safe_load(winner.read_text())
    data["expected"]["test"]["mrr"] -= 0.001
    changed = winner.parent / "changed.yaml"
    changed.write_text(yaml.safe_dump(data))
    try:
        shown, said = ragsmith("verify", changed), ragsmith("verify", changed, "--json")
    finally:
        changed.unlink()
    assert shown.code == said.code == 1
    assert shown.out.startswith("test mrr: exported ")
    assert json.loads(said.out)["differences"][0]["metric"] == "mrr"


# --- report, runs, cache ---------------------------------------------------------------------------------------------


def test_a_report_is_written_from_the_cache_alone(home: Path, ragsmith: Command, tmp_path: Path) -> None:
    shown = ragsmith("report", "-o", tmp_path / "out")
    assert shown.code == 0
    assert (tmp_path / "out" / "island" / "index.html").exists()
    said = json.loads(ragsmith("report", "-o", tmp_path / "out", "--json").out)
    assert said["paths"]
    assert len(said["domains"]) == 1


def test_runs_are_listed(home: Path, ragsmith: Command) -> None:
    shown = ragsmith("runs").out
    [run] = json.loads(ragsmith("runs", "--json").out)
    assert "finished" in shown
    assert run["key"][:12] in shown
    assert run["key"] not in shown
    assert run["command"].startswith("ragsmith search ")
    assert "".join(run["command"].split()) in "".join(shown.split())  # lines are wrapped
    assert all(len(line) <= 80 for line in shown.splitlines() if "/" not in line)
    assert (run["data set"], run["state"], run["space"], run["strategy"]) == ("island", "finished", "tiny", "genetic")
    assert run["candidates"] >= 8


def test_the_cache_says_what_it_holds(home: Path, ragsmith: Command) -> None:
    shown = ragsmith("cache", "--verify")
    assert shown.code == 0
    assert re.search(r"damaged rows +none", shown.out)
    assert json.loads(ragsmith("cache", "--verify", "--json").out)["damaged rows"] == []


@pytest.fixture
def damage(home: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the cache in which a column of the rows of a table is not what was written."""

    def damaged(statement: str) -> Path:
        path = tmp_path / "damaged.sqlite"
        shutil.copyfile(home / "cache.sqlite", path)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        return path

    return damaged


def test_a_damaged_row_is_named_by_every_command_that_reads_it(
    home: Path, tiny_folder: Path, damage: Callable[[str], Path], ragsmith: Command, tmp_path: Path
) -> None:
    cache = damage("update result set value = replace(value, 'answer', 'another')")
    shown = ragsmith("report", "--cache", cache, "-o", tmp_path / "out")
    assert re.search(r"warning: damaged in .*, and left out: result:.* and [\d,]+ more; run the same search", shown.err)
    cache = damage("update evaluation set configuration = replace(configuration, 'bm25', 'vector')")
    shown = ragsmith("export", "--cache", cache, "--dataset", tiny_folder, "-o", tmp_path / "winner.yaml")
    assert (shown.code != 0) == ("and left out: evaluation:" in shown.err)
    cache = damage("update run set value = replace(value, 'genetic', 'random')")
    shown = ragsmith("runs", "--cache", cache)
    assert re.search(r"and left out: run:\w+; run the same search again to compute these rows anew\n", shown.err)


def test_verifying_a_damaged_cache_fails_and_names_every_row(
    home: Path, damage: Callable[[str], Path], ragsmith: Command
) -> None:
    cache = damage("update result set value = replace(value, 'answer', 'another')")
    command = ("cache", "--verify", "--cache", cache)
    shown, said = ragsmith(*command), ragsmith(*command, "--json")
    assert shown.code == said.code == 1
    rows = json.loads(said.out)["damaged rows"]
    assert len(rows) > 100
    assert all(f"damaged: {row['row']}, {row['what']}\n" in shown.out for row in rows)
    assert re.fullmatch(r"question \w+-\d of evaluation \w+ on data set island", rows[0]["what"])
    assert f"{len(rows):,} of result, each: computed again by the same search" in shown.out
    assert "warning" not in shown.err


def test_reading_does_not_write(home: Path, winner: Path, ragsmith: Command, tmp_path: Path) -> None:
    before = (home / "cache.sqlite").read_bytes()
    for arguments in (("runs",), ("cache",), ("report", "-o", tmp_path / "out"), ("ask", winner, "Who?")):
        assert ragsmith(*arguments).code == 0
    assert (home / "cache.sqlite").read_bytes() == before


def test_findings_of_another_shape_are_refused_with_a_sentence(home: Path, ragsmith: Command, tmp_path: Path) -> None:
    cache = tmp_path / "other.sqlite"
    shutil.copyfile(home / "cache.sqlite", cache)
    with Store.open(cache) as store:
        [run] = store.runs()
        value: Any = run.value
        store.put_finding("ablation", f"{value['winner']}:search", run.dataset, {"parts": 7})
    shown = ragsmith("report", "--cache", cache, "-o", tmp_path / "out")
    assert shown.code == 2
    assert "error: the ablation of a pipeline in this cache cannot be read (" in shown.err
    assert "give another cache with --cache" in shown.err


def test_a_strategy_that_exhaustive_search_replaced_is_said(
    ragsmith: Command, search_arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = search_arguments("--workers", 1, "--strategy", "tpe", "--max-evaluations", 1000, "--no-probes")
    note = "the strategy tpe was replaced by exhaustive search"
    shown = ragsmith(*command, "--quiet")
    assert shown.code == 0
    assert f"note: {note}" in shown.err
    assert json.loads(ragsmith(*command, "--json").out)["note"].startswith(note)


def test_a_plan_needs_no_key(
    ragsmith: Command, search_arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    _, *options = search_arguments("--llm", "openai:gpt-4o-mini", "--sample", 15)
    del options[options.index("--reports") : options.index("--reports") + 2]
    planned = ragsmith("plan", *options, "--json")
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["totals"]["calls"] > 0
    asked = ragsmith(*search_arguments("--llm", "openai:gpt-4o-mini", "--quiet"))
    assert asked.code == 2
    assert "OPENAI_API_KEY is not set" in asked.err


def test_what_cannot_be_written_in_a_file_is_refused_with_a_sentence(
    ragsmith: Command, tiny_folder: Path, search_arguments: Arguments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    recommended = ragsmith("recommend", tiny_folder, "-o", "file/winner.yaml")
    searched = ragsmith(*search_arguments(reports="file"))
    for ended in (recommended, searched):
        assert ended.code == 2
        assert "file is a file, so that nothing can be written in it: name a folder" in ended.err
    assert Path("file").read_text() == "kept"


def test_a_data_set_without_questions_says_what_is_missing(ragsmith: Command, tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "oak.md").write_text("# Oak\n\nThe oak is nine metres tall.\n")
    assert ragsmith("dataset", "init", tmp_path / "files", "-o", tmp_path / "data").code == 0
    for command in ("show", "validate"):
        ended = ragsmith("dataset", command, tmp_path / "data")
        assert ended.code == 2
        assert "questions.jsonl: is missing; draft questions with `ragsmith dataset draft" in ended.err


def test_a_report_takes_the_folder_as_a_search_does(home: Path, ragsmith: Command, tmp_path: Path) -> None:
    ended = ragsmith("report", "--cache", home / "cache.sqlite", "--reports", tmp_path / "new")
    assert ended.code == 0
    assert (tmp_path / "new" / "island" / "index.html").is_file()
    empty = ragsmith("report", "--cache", tmp_path / "none.sqlite", "--reports", tmp_path)
    assert empty.code == 2
    assert "run a search first, or name the cache of one" in empty.err
