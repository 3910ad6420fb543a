"""A strategy of a user's own file, by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.errors import UsageError
from ragsmith.records.record import RunSettings
from ragsmith.strategies import STRATEGIES, make_strategy

OWN = '''
from itertools import product

from ragsmith.extensions import Package
from ragsmith.plugins import Count
from ragsmith.strategies import SearchProblem, SteppedSearch
from ragsmith.strategies.registry import strategy


class Backwards(SteppedSearch):
    size = 1

    def steps(self):
        last_first = product(*(range(size)[::-1] for size in self.sizes))
        yield from self.in_batches(filter(self.feasible, last_first), self.size)


@strategy("backwards", paper="none")
def backwards(problem: SearchProblem, *, size: Count = 2) -> Backwards:
    """The last pipeline first."""
    search = Backwards(problem.sizes, **problem.bounds)
    search.size = size
    return search


@strategy("nothing")
def nothing(problem: SearchProblem) -> int:
    """No search."""
    return 7


class Outside(SteppedSearch):
    def steps(self):
        yield from self.in_batches(iter([(99,) * len(self.sizes)]), 1)


@strategy("outside")
def outside(problem: SearchProblem) -> Outside:
    """A pipeline that the space does not have."""
    return Outside(problem.sizes, **problem.bounds)


class Breaking(SteppedSearch):
    def steps(self):
        yield self.sizes[len(self.sizes)]


@strategy("breaking")
def breaking(problem: SearchProblem) -> Breaking:
    """An error in a step."""
    return Breaking(problem.sizes, **problem.bounds)


@strategy("lacking", package=Package("no_such_module", "no-such-package"))
def lacking(problem: SearchProblem) -> Backwards:
    """A strategy whose package is not installed."""
'''
FAMILIES = ("pre_embedding", "query_expansion", "reranking", "passage_augment", "passage_compress", "post_generation")
CHOICES = {
    "retrieval": "[vector, bm25, hybrid]",
    "passage_filter": "[{top_k: {k: [1, 2, 3]}}]",
    "prompt_maker": "[listing, long_context_reorder]",
}


@pytest.fixture
def search(tmp_path: Path, tiny_folder: Path, spawn: Callable[..., Any]) -> Callable[..., tuple[int, str, str]]:
    """Search a small space with the strategies of ``own.py``: the exit code, and both streams."""
    (tmp_path / "own.py").write_text(OWN)
    options = CHOICES | dict.fromkeys(FAMILIES, "[none]")
    (tmp_path / "space.yaml").write_text("families:\n" + "".join(f"  {k}: {v}\n" for k, v in options.items()))

    def run(*arguments: object, imports: bool = True) -> tuple[int, str, str]:
        data = ("--dataset", tiny_folder, "--space", "space.yaml", "--chunk-size", 100, "--max-evaluations", 5)
        more = ("--no-probes", "--no-warm-start", "--json", *(("--import", "own.py") if imports else ()))
        process = spawn("search", *data, *more, *arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return run


@pytest.mark.processes
def test_a_strategy_of_a_users_file_searches_is_listed_and_resumes(search: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = search("--strategy", "backwards(size=3)")
    assert code == 0, err
    first = json.loads(out)
    code, out, err = search("--strategy", "backwards( size = 3 )")
    again = json.loads(out)
    assert (again["run"], again["computed"]) == (first["run"], 0)
    code, out, _ = search("--strategy", "backwards")
    assert json.loads(out)["run"] != first["run"]
    code, out, _ = search("--help")
    assert "The last pipeline first. Options: size=2." in " ".join(out.split())


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--strategy", "backward"), "unknown strategy 'backward': did you mean 'backwards'"),
        (("--strategy", "backwards(sizes=3)"), "backwards has no option 'sizes': did you mean 'size'"),
        (("--strategy", "backwards(size=0)"), "the option 'size' of backwards must be a whole number from 1 on, not 0"),
        (("--strategy", "nothing"), "the strategy nothing returned 7: return a SteppedSearch"),
        (("--strategy", "outside"), "the strategy outside proposed (99, 99, 99, 99, 99, 99, 99, 99, 99), which is not"),
        (("--strategy", "breaking"), "failed: IndexError: tuple index out of range"),
        (("--strategy", "lacking"), "no-such-package is not installed: run pip install no-such-package"),
        (
            ("--strategy", "backwards", "--crossover", "uniform"),
            "is uniform, and the strategy backwards does not use it; genetic or nsga2 does",
        ),
        (("--tournament", "2"), "--tournament is 2, and parents are selected by elite: add --selection tournament"),
    ],
)
def test_what_cannot_be_searched_with_is_refused(
    search: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], said: str
) -> None:
    code, _, err = search(*arguments)
    assert code == 2
    assert said in " ".join(err.split())


def test_a_record_of_a_strategy_whose_file_is_missing_can_be_read() -> None:
    assert RunSettings(strategy="theirs(size=3)", objectives=("quality", "calls"), racing=None).steps is None
    with pytest.raises(UsageError, match="unknown strategy 'theirs'"):
        make_strategy("theirs(size=3)", (2, 2))


def test_every_strategy_describes_itself() -> None:
    for known in STRATEGIES:
        assert known.summary.endswith(".")
        assert str(STRATEGIES.parse(str(known))) == known.name
