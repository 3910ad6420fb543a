"""Several data sets in one command: each is searched as it is alone, and none loses what another has found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import ragsmith
from ragsmith.api.reporting import Searched
from ragsmith.api.result import Result
from ragsmith.datasets.bundled import bundled_domains
from ragsmith.errors import BudgetExhausted
from ragsmith.text.redaction import remember_secret

Command = Callable[..., Any]
Arguments = Callable[..., list[object]]


@pytest.fixture(scope="module")
def islands(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path) -> dict[str, Path]:
    """Two islands: the second has other documents, so that nothing of the first answers for it."""
    home = tmp_path_factory.mktemp("islands")
    found = {}
    for name, said in (("marrow", "Marrow"), ("harrow", "Harrow")):
        found[name] = shutil.copytree(tiny_folder, home / name)
        for path in (file for file in found[name].rglob("*") if file.is_file()):
            path.write_text(path.read_text().replace("Marrow", said).replace("name: island", f"name: {name}"))
    return found


@pytest.fixture
def command(tiny_space: Path, ragsmith: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A small search of the data sets that are named, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def search(*datasets: object, more: tuple[object, ...] = ()) -> Any:
        named = [part for one in datasets for part in ("--dataset", one)]
        return ragsmith(
            *("search", *named, "--space", tiny_space, "--chunk-size", 100, "--workers", 1, "--no-probes"),
            *("--max-evaluations", 4, *more),
        )

    return search


def test_each_is_searched_as_it_is_alone(command: Command, islands: dict[str, Path], tmp_path: Path) -> None:
    ended = command(*islands.values())
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["marrow", "harrow"]
    assert [line for line in ended.err.splitlines() if " of 2: " in line] == ["1 of 2: marrow", "2 of 2: harrow"]
    assert "report  reports/index.html" in lines
    assert (tmp_path / "reports" / "across.json").is_file()
    winners = {name: (tmp_path / "reports" / name / "winner.yaml").read_text() for name in islands}
    reports = {name: (tmp_path / "reports" / name / "ranking.csv").read_text() for name in islands}
    shutil.rmtree(tmp_path / "reports")
    (tmp_path / "cache.sqlite").unlink()
    for name, folder in islands.items():
        assert command(folder).code == 0
        assert (tmp_path / "reports" / name / "winner.yaml").read_text() == winners[name]
        assert (tmp_path / "reports" / name / "ranking.csv").read_text() == reports[name]


def test_again_it_computes_nothing_and_says_the_same(command: Command, islands: dict[str, Path]) -> None:
    first = json.loads(command(*islands.values(), more=("--json",)).out)
    again = json.loads(command(*islands.values(), more=("--json",)).out)
    assert list(first["datasets"]) == list(islands)
    assert {one["state"] for one in first["datasets"].values()} == {"finished"}
    assert [one["computed"] for one in again["datasets"].values()] == [0, 0]
    assert first["across"] == again["across"]
    assert {one["name"] for one in first["across"]["tested"]} >= {"naive", "bm25"}
    assert all(Path(path).is_file() for path in first["report"])
    assert first["report"] == again["report"]


def test_a_time_limit_is_that_of_all_and_the_same_command_goes_on(command: Command, islands: dict[str, Path]) -> None:
    paused = command(*islands.values(), more=("--json", "--time-limit", 0.000001))
    assert paused.code == 130
    said = json.loads(paused.out)["datasets"]
    assert [one["state"] for one in said.values()] == ["waiting", "waiting"]
    assert "waiting: harrow: " in paused.err
    whole = command(*islands.values(), more=("--json",))
    assert whole.code == 0
    shutil.rmtree("reports")
    Path("cache.sqlite").unlink()
    direct = command(*islands.values(), more=("--json",))
    assert json.loads(direct.out)["across"] == json.loads(whole.out)["across"]


def test_one_that_fails_is_said_and_the_others_are_kept(
    command: Command, islands: dict[str, Path], tmp_path: Path
) -> None:
    """Questions without answers can be scored for retrieval, which is not what is asked for."""
    broken = shutil.copytree(islands["harrow"], tmp_path / "broken")
    (broken / "dataset.yaml").write_text((broken / "dataset.yaml").read_text().replace("name: harrow", "name: broken"))
    rows = [json.loads(line) for line in (broken / "questions.jsonl").read_text().splitlines()]
    unanswered = [{name: value for name, value in row.items() if name != "answer"} for row in rows]
    (broken / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unanswered))
    # Questions of the two are the same, so that the second has to be tested on purpose.
    ended = command(islands["marrow"], broken, islands["harrow"], more=("--json", "--test"))
    assert ended.code == 1
    said = json.loads(ended.out)
    assert {name: one["state"] for name, one in said["datasets"].items()} == {
        "marrow": "finished",
        "harrow": "finished",
        "broken": "failed",
    }
    assert said["datasets"]["broken"]["why"] in ended.err
    assert "error: broken: " in ended.err
    assert len(said["across"]["tested"][0]["each"]) == 2
    shown = command(islands["marrow"], broken)
    assert shown.code == 1
    assert [line.split() for line in shown.out.splitlines()[3:4]] == [["broken", "failed"]]


def test_mistakes_of_all_data_sets_are_listed_before_anything_is_computed(
    command: Command, islands: dict[str, Path], tmp_path: Path
) -> None:
    for name in ("one", "other"):
        copy = shutil.copytree(islands["harrow"], tmp_path / name)
        (copy / "questions.jsonl").write_text('{"id": "q"}\n')
    ended = command(islands["marrow"], "one", "other")
    assert ended.code == 2
    assert {line.split(":")[1].strip() for line in ended.err.splitlines()} == {"one", "other"}
    assert not Path("cache.sqlite").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--space", "no_such_space"), "'no_such_space' is neither a YAML file nor the name of a search space"),
        (("--accept-spent", "3"), "--accept-spent applies to the search of one data set: search that data set alone"),
        (("--max-evaluations", "0"), "--max-evaluations is 0: give at least 1"),
    ],
)
def test_what_is_wrong_with_the_request_is_said_once(
    command: Command, islands: dict[str, Path], more: tuple[object, ...], said: str
) -> None:
    ended = command(*islands.values(), more=more)
    assert ended.code == 2
    assert ended.err.count("error: ") == 1
    assert said in ended.err


def test_two_data_sets_of_one_name_are_refused(command: Command, islands: dict[str, Path], tmp_path: Path) -> None:
    other = shutil.copytree(islands["marrow"], tmp_path / "other")
    ended = command(islands["marrow"], other)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: --dataset names several data sets called marrow: rename one in its dataset.yaml\n"
    assert command("nowhere", islands["marrow"]).code == 2
    assert not Path("cache.sqlite").exists()


def test_one_that_is_named_twice_is_searched_once(command: Command, islands: dict[str, Path]) -> None:
    said = json.loads(command(islands["marrow"], islands["marrow"], more=("--json",)).out)
    assert list(said["datasets"]) == ["marrow"]
    assert "across" not in said


def test_all_is_every_bundled_domain_and_a_folder_of_that_name_goes_before_it(
    command: Command, islands: dict[str, Path], tmp_path: Path
) -> None:
    ended = command("all", more=("--time-limit", 0.000001, "--json"))
    assert tuple(json.loads(ended.out)["datasets"]) == bundled_domains()
    assert "workshop" not in bundled_domains()
    shutil.copytree(islands["marrow"], tmp_path / "all")
    assert json.loads(command("all", more=("--json",)).out)["state"] == "finished"


SECRET = "tide-tables-of-1620"


def test_why_a_data_set_failed_or_waits_holds_no_secret_in_json_nor_on_stderr(
    command: Command, islands: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_secret(SECRET)
    ended = Searched({}, {"marrow": f"the key {SECRET} is refused"}, {"harrow": f"the key {SECRET} has no credit"})
    monkeypatch.setattr(ragsmith, "search_each", lambda *_, **__: ended)
    shown = command(*islands.values(), more=("--json",))
    assert SECRET not in shown.out + shown.err
    said = json.loads(shown.out)["datasets"]
    assert {name: one["why"] for name, one in said.items()} == {
        "marrow": "the key *** is refused",
        "harrow": "the key *** has no credit",
    }


def test_why_a_search_is_paused_holds_no_secret(
    command: Command, islands: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise BudgetExhausted(f"the key {SECRET} has no credit")

    remember_secret(SECRET)
    monkeypatch.setattr(ragsmith, "search", stopped)
    shown = command(islands["marrow"], more=("--json",))
    assert shown.code == 130
    assert SECRET not in shown.out + shown.err
    assert json.loads(shown.out)["why"].endswith("the key *** has no credit")
    assert "the key *** has no credit." in shown.err


@pytest.mark.parametrize("more", [("--json",), ()])
@pytest.mark.parametrize("several", [False, True])
def test_why_there_is_no_winner_holds_no_secret(
    command: Command, islands: dict[str, Path], monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], several: bool
) -> None:
    def without_winner(result: Result) -> Result:
        result.no_winner = f"the key {SECRET} is refused"
        return result

    remember_secret(SECRET)
    one, each = ragsmith.search, ragsmith.search_each

    def searched_each(datasets: Sequence[str], *, on_end: Callable[..., None], **given: Any) -> Searched:
        return each(datasets, on_end=lambda name, result: on_end(name, without_winner(result)), **given)

    monkeypatch.setattr(ragsmith, "search", lambda *names, **given: without_winner(one(*names, **given)))
    monkeypatch.setattr(ragsmith, "search_each", searched_each)
    shown = command(*(islands.values() if several else [islands["marrow"]]), more=more)
    assert shown.code == 1
    assert SECRET not in shown.out + shown.err
    if several or not more:
        assert "the key *** is refused." in shown.err
    if more:
        said = json.loads(shown.out)
        assert (said["datasets"]["marrow"] if several else said)["no_winner"] == "the key *** is refused"
