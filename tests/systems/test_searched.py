"""The parameters of another system are searched like genes: raced, resumed, within limits, and compared."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragsmith as package
from ragsmith.cli.interrupts import EXIT_INTERRUPTED
from ragsmith.errors import SpaceError, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space_file import load_space
from ragsmith.systems.searched import ParameterSearch
from ragsmith.types import Question

Command = Callable[..., Any]

PROGRAM = '''
"""Overlap of words, with as many passages of as many characters as its parameters say; it notes what it is asked."""

import os
import re
import signal
from pathlib import Path

from ragsmith.datasets.dataset import load_dataset

HERE = Path("@HOME@")
documents = load_dataset(HERE / "island").documents


def words(text):
    return set(re.findall(r"\\w+", text.lower()))


def build(k=2, size=200, stop=0):
    if size == 13:
        raise ValueError("13 brings bad luck")
    passages = [(one, at, min(at + size, len(one.text))) for one in documents for at in range(0, len(one.text), size)]

    def answer(question):
        with (HERE / "asked.txt").open("a") as file:
            print(f"{k} {size} {question}", file=file)
        if stop and (HERE / "kill").exists() and len((HERE / "asked.txt").read_text().splitlines()) >= stop:
            (HERE / "kill").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        best = sorted(passages, key=lambda one: -len(words(question) & words(one[0].text[one[1] : one[2]])))[:k]
        found = [{"doc": one.id, "start": at, "end": end} for one, at, end in best]
        return best[0][0].text[best[0][1] : best[0][2]], found

    return answer
'''

SPACE: dict[str, Any] = {"name": "mine", "system": "mine.py:build", "parameters": {"k": [2, 1, 3], "size": [200, 100]}}
SEARCH = (
    "search",
    "--dataset",
    "island",
    "--space",
    "mine.yaml",
    "--seed",
    "1",
    "--workers",
    "1",
    "--reports",
    "reports",
)


@pytest.fixture
def home(tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "island").symlink_to(tiny_folder)
    (tmp_path / "mine.py").write_text(PROGRAM.replace("@HOME@", str(tmp_path)))
    write_space(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_space(home: Path, **changes: Any) -> None:
    (home / "mine.yaml").write_text(yaml.safe_dump({**SPACE, **changes}))


def asked(home: Path) -> Counter[str]:
    return Counter((home / "asked.txt").read_text().splitlines())


def test_a_search_chooses_among_all_combinations_and_asks_each_of_them_a_question_once(
    home: Path, ragsmith: Command
) -> None:
    ended = ragsmith(*SEARCH)
    assert ended.code == 0, ended.err
    assert "winner" in ended.out
    assert "compare it  ragsmith compare reports/island/winner.yaml recommended bm25" in ended.out
    assert set(asked(home).values()) == {1}
    assert {tuple(line.split()[:2]) for line in asked(home)} == {(k, s) for k in "123" for s in ("200", "100")}
    before = asked(home)
    assert ragsmith(*SEARCH).code == 0
    assert asked(home) == before, "the same command reads what is there"


def test_the_winner_is_a_file_that_scores_what_the_search_scored_and_asks_nothing_again(
    home: Path, ragsmith: Command
) -> None:
    ragsmith(*SEARCH)
    winner = yaml.safe_load((home / "reports/island/winner.yaml").read_text())
    assert winner["system"] == "../../mine.py:build"
    before = asked(home)
    scores = json.loads(ragsmith("evaluate", "reports/island/winner.yaml", "--json").out)
    expected = winner["expected"]["search"]
    for name in ("fitness", "retrieval", "recall", "ndcg_10", "token_f1"):
        assert scores["search"]["metrics"][name]["mean"] == pytest.approx(expected[name], abs=1e-12)
    new = asked(home) - before
    assert not [line for line in new if line in before]
    compared = ragsmith("compare", "reports/island/winner.yaml", "bm25")
    assert compared.code == 0, compared.err


@pytest.mark.parametrize("folder", ["reports", "other"])
def test_the_commands_of_its_report_work_where_the_search_was_started_and_ask_nothing_again(
    home: Path, ragsmith: Command, folder: str
) -> None:
    assert ragsmith(*SEARCH[:-1], folder, "--cache", "my.sqlite").code == 0
    report = (home / folder / "island" / "report.md").read_text(encoding="utf-8")
    commands = [shlex.split(line)[1:] for line in re.findall(r"`(ragsmith explain [^`]+)`", report)]
    assert [command[1] for command in commands] == [f"{folder}/island/winner.yaml"] * 2
    before = asked(home)
    for command in commands:
        ended = ragsmith(*command)
        assert ended.code == 0, ended.err
    assert asked(home) == before
    assert not list((home / folder).rglob("*.sqlite"))


@pytest.mark.filterwarnings("ignore::ragsmith.errors.Notice")
def test_the_same_program_by_hand_has_the_scores_of_the_winner(home: Path, ragsmith: Command) -> None:
    """The function with the parameters of the winner is a system of its own, scored without any of the search."""
    ragsmith(*SEARCH)
    winner = yaml.safe_load((home / "reports/island/winner.yaml").read_text())
    alone = (home / "mine.py").read_text() + f"\n\nanswer = build(**{winner['parameters']!r})\n"
    (home / "alone.py").write_text(alone)
    found = package.compare("alone.py:answer", "reports/island/winner.yaml", dataset="island", split="all")
    assert found.fitness.difference.mean_difference == 0
    assert found.fitness.difference.n > 20


def test_a_killed_search_is_resumed_and_asks_only_the_question_in_flight_again(home: Path, ragsmith: Command) -> None:
    write_space(home, parameters={**SPACE["parameters"], "stop": [15]})
    (home / "kill").touch()
    command = [sys.executable, "-m", "ragsmith", *SEARCH]
    killed = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    begun = asked(home)
    assert sum(begun.values()) == 15
    ended = ragsmith(*SEARCH)
    assert ended.code == 0, ended.err
    assert sum(asked(home).values()) == len(asked(home)) + 1
    whole = (home / "reports/island/winner.yaml").read_text()
    for left in ("cache.sqlite", "reports"):
        assert (home / left).exists()
    again = ragsmith(*SEARCH[:-2], "--reports", "again", "--cache", "other.sqlite")
    assert again.code == 0
    assert (home / "again/island/winner.yaml").read_text() == whole, "the winner is that of a search without a kill"


def test_limits_hold_and_the_same_command_goes_on(home: Path, ragsmith: Command) -> None:
    paused = ragsmith(*SEARCH, "--max-calls", "20")
    assert paused.code == EXIT_INTERRUPTED, paused.err
    assert "--max-calls 20" in paused.err
    assert sum(asked(home).values()) == 20
    assert ragsmith(*SEARCH).code == 0
    assert set(asked(home).values()) == {1}


def test_its_space_is_shown_by_its_parameters(home: Path, ragsmith: Command) -> None:
    shown = ragsmith("space", "mine.yaml")
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines() if line] == [
        ["system", "1", "mine.py:build"],
        ["system.k", "3", "2,", "1,", "3"],
        ["system.size", "2", "200,", "100"],
        ["1", "x", "3", "x", "2", "=", "6", "pipelines,", "6", "of", "them", "feasible"],
    ]


def test_without_a_test_the_system_is_estimated_and_not_a_baseline_that_is_ahead(home: Path) -> None:
    package.search("island", space="mine.yaml", seed=1)
    write_space(home, parameters={"k": [1, 2], "size": [60, 50]})
    found = package.search("island", space="mine.yaml", seed=1)
    assert found.run_report.about.record.untested
    estimates = {one.name: one.difference for one in found.verdict.estimates}
    rows = {"naive": found.run_report.baselines["naive"], "bm25": found.run_report.baselines["bm25"]}
    best = found.ranking[0].scores["fitness"].mean
    for name, row in rows.items():
        difference = estimates[name]
        assert difference is not None
        assert difference.mean_difference <= best - row.scores["fitness"].mean + 0.05
        assert difference.mean_difference < 0
    assert found.decision.take in rows
    assert "--pick" in found.decision.command


def test_an_edited_program_is_another_system_and_so_is_a_copy_elsewhere(home: Path) -> None:
    before, program = load_space("mine.yaml").digest, (home / "mine.py").read_text()
    for folder, text in (("moved", program), ("edited", program.replace("HERE =", "HERE  ="))):
        (home / folder).mkdir()
        (home / folder / "mine.py").write_text(text)
        (home / folder / "mine.yaml").write_text((home / "mine.yaml").read_text())
    others = {load_space(f"{folder}/mine.yaml").digest for folder in ("moved", "edited")}
    assert before not in others, "a program may read what is beside it"
    assert len(others) == 2


def test_a_combination_that_cannot_be_built_fails_and_others_win(home: Path, ragsmith: Command) -> None:
    write_space(home, parameters={"k": [2, 1], "size": [200, 13]})
    ended = ragsmith(*SEARCH)
    assert ended.code == 0, ended.err
    assert yaml.safe_load((home / "reports/island/winner.yaml").read_text())["parameters"]["size"] == 200
    assert "13 brings bad luck" in (home / "reports/island/report.md").read_text()


HEAD = "def build(k=2, size=200, stop=0):"


def edit(home: Path, old: str, new: str) -> None:
    text = (home / "mine.py").read_text()
    assert old in text
    (home / "mine.py").write_text(text.replace(old, new))


def test_values_of_other_types_are_other_combinations(home: Path, ragsmith: Command) -> None:
    edit(home, HEAD, f"{HEAD}\n    k = int(k)")
    write_space(home, parameters={"k": [2, "2"]})
    assert ragsmith(*SEARCH).code == 0
    assert len(list((home / "cache.sqlite.answers").iterdir())) == 2


def test_a_combination_is_built_once_and_costs_no_request_if_it_cannot_be(home: Path, ragsmith: Command) -> None:
    edit(home, HEAD, f'{HEAD}\n    with (HERE / "built.txt").open("a") as file:\n        print(k, size, file=file)')
    write_space(home, parameters={"k": [2, 1], "size": [200, 13]})
    ended = ragsmith(*SEARCH, "--json")
    assert ended.code == 0, ended.err
    assert sorted((home / "built.txt").read_text().splitlines()) == ["1 13", "1 200", "2 13", "2 200"]
    assert "ValueError: 13 brings bad luck (mine.py, line" in (home / "reports/island/report.md").read_text()
    unlimited = sum(asked(home).values())
    limited = ragsmith(*SEARCH, "--cache", "other.sqlite", "--max-calls", str(unlimited))
    assert limited.code == 0, limited.err


def test_what_a_program_prints_is_no_result_and_a_wrong_context_fails_its_question(
    home: Path, ragsmith: Command
) -> None:
    edit(home, "        with (HERE", "        print('said')\n        with (HERE")
    wrong = 'if "ferry to Marrow" in question:\n            return "x", [{"doc": "nowhere", "text": "x"}]'
    edit(home, "        best =", f"        {wrong}\n        best =")
    ended = ragsmith(*SEARCH, "--max-failure-rate", "0.2", "--json")
    assert ended.code == 0, ended.err
    json.loads(ended.out)
    assert "there is no document 'nowhere'" in (home / "reports/island/report.md").read_text()


MISTAKES = {
    "no function": ({"system": "mine.py"}, "there is no file ''"),
    "a file that is not there": ({"system": "nope.py:build"}, "there is no file 'nope.py'"),
    "a function that is not there": ({"system": "mine.py:bild"}, "mine.py has no function 'bild'"),
    "an unknown parameter": ({"parameters": {"j": [1]}}, "build cannot be called with them"),
    "no list": ({"parameters": {"k": 3}}, "k must be a list of values, the default first"),
    "no parameter": ({"parameters": {}}, "list values for at least one parameter"),
    "a value twice": ({"parameters": {"k": [3, 3]}}, "k lists 3 twice"),
    "a value that is a list": ({"parameters": {"k": [[3]]}}, "k must be text, a number, true or false"),
    "families as well": ({"families": {}}, "unknown key 'families'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_file_is_named_with_its_line(mistake: str, home: Path) -> None:
    changes, said = MISTAKES[mistake]
    write_space(home, **changes)
    with pytest.raises(SpaceError, match=r"mine.yaml:\d+: ") as caught:
        load_space("mine.yaml")
    assert said in str(caught.value)


@pytest.mark.parametrize("mistake", ["no function", "a file that is not there", "a function that is not there"])
def test_a_mistake_in_the_file_of_a_winner_is_named_with_its_line(mistake: str, home: Path, ragsmith: Command) -> None:
    changes, said = MISTAKES[mistake]
    file = {"dataset": {"path": "island"}, "version": "", "parameters": {"k": 1}, **changes}
    (home / "winner.yaml").write_text(yaml.safe_dump(file, sort_keys=False))
    ended = ragsmith("evaluate", "winner.yaml", "--dataset", "island")
    assert (ended.code, ended.out) == (2, "")
    assert "winner.yaml:6: " in ended.err
    assert said in ended.err
    assert "name the function that takes the parameters" in ended.err


def test_what_a_system_cannot_do_is_refused_in_a_sentence(home: Path, ragsmith: Command) -> None:
    planned = ragsmith("plan", "--dataset", "island", "--space", "mine.yaml")
    assert planned.code == 2
    assert "whose costs ragsmith does not know" in planned.err
    ragsmith(*SEARCH)
    for command in (("ask", "reports/island/winner.yaml", "Why?"), ("verify", "reports/island/winner.yaml")):
        ended = ragsmith(*command)
        assert ended.code == 2
        assert "is another system, and this runs a pipeline" in ended.err
    assert "this is a search space, and no pipeline" in ragsmith("evaluate", "mine.yaml", "--dataset", "island").err
    exported = ragsmith("export", "--dataset", "island")
    assert exported.code == 2
    assert "no program is in the cache: run its search once more" in exported.err
    assert ragsmith("export", "--dataset", "island", "--pick", "bm25").code == 0
    found = package.search("island", space="mine.yaml", seed=1)
    with pytest.raises(UsageError, match=r"the winner is another system, mine.py:build\(k="):
        assert found.winner


@pytest.mark.parametrize(
    "command",
    [
        ("models", "check"),
        ("audit", "--dataset", "island"),
        ("recommend", "island", "-o", "mine_too.yaml"),
        ("ablate", "plain.yaml"),
    ],
)
def test_a_space_of_a_system_is_refused_where_pipelines_are_needed(
    command: tuple[str, ...], home: Path, ragsmith: Command
) -> None:
    assert ragsmith("recommend", "island", "-o", "plain.yaml").code == 0
    ended = ragsmith(*command, "--space", "mine.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("--space 'mine' is of another system, and this needs pipelines: only a search takes it\n")
    assert not (home / "mine_too.yaml").exists()


def test_a_cluster_does_not_ask_another_system(home: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    with pytest.raises(UsageError, match="another system is asked from this process"):
        package.search("island", space="mine.yaml", engine="ray")


def test_questions_with_the_same_text_are_asked_once_and_scored_alike(home: Path) -> None:
    data = package.load_dataset("island")
    first = next(one for one in data.examples if one.evidence)
    twins = [replace(first, id=f"{first.id}-{n}") for n in (1, 2)]
    setup = Experiment(replace(data, examples=(*data.examples, *twins)))
    space = load_space("mine.yaml")
    setup = replace(setup, system=ParameterSearch(space.system, home / "answers")).with_searched_settings(
        space.settings
    )
    variant = setup.for_candidate(tuple(genes[0] for genes in space.options))
    variant.engine().rank(space.candidate((0,) * len(space.sizes)), Question(first.question))
    assert sum(asked(home).values()) == 1
    relevances = [variant.relevance[id_] for id_ in (first.id, *(one.id for one in twins))]
    assert relevances[0].relevant
    assert relevances[0] == relevances[1] == relevances[2]
    assert all(one.id in variant.answers for one in twins)


def test_several_workers_find_the_same(home: Path) -> None:
    alone, several = (
        package.search("island", space="mine.yaml", seed=1, workers=n, cache=f"{n}.sqlite") for n in (1, 3)
    )
    assert [(row.label, row.scores) for row in alone.ranking] == [(row.label, row.scores) for row in several.ranking]


@pytest.mark.filterwarnings("ignore::ragsmith.errors.Notice")
def test_a_search_and_a_comparison_of_the_system_that_it_found_are_the_same_look(home: Path, ragsmith: Command) -> None:
    write_space(home, parameters={"k": [2, 3], "size": [200, 300]})
    assert ragsmith(*SEARCH).code == 0
    [(look, before)] = looks(home)
    package.compare_all("reports/island/winner.yaml", "naive", "bm25", "recommended", dataset="island", split="test")
    assert looks(home) == [(look, before)]
    package.compare("reports/island/winner.yaml", "naive", dataset="island", split="test")
    assert len(looks(home)) == 2


def looks(home: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(home / "cache.sqlite")) as connection:
        return connection.execute("SELECT look, number FROM look").fetchall()
