"""What makes a stored evaluation stale, seen on copies of the package in which one thing is changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

import ragsmith

PROGRAM = """
import json, sys
from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.genes import read_configuration
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques

load_techniques()
setup = Experiment(load_dataset(sys.argv[1]), chunk_size=100)
plain = dict(zip((family.name for family in FAMILIES), (
    "none", "none", "vector", "none", "top_k", "none", "none", "listing", "none")))
found = {f"{family.name}.{name}": technique.code
         for family in FAMILIES for name, technique in family.techniques.items()}
for family, name in (("query_expansion", "none"), ("query_expansion", "hyde")):
    genes = {key: {"technique": value} for key, value in {**plain, family: name}.items()}
    found[f"evaluation {name}"] = evaluation_key(setup, read_configuration(genes))
print(json.dumps(found))
"""

pytestmark = pytest.mark.processes
Keys = Callable[..., set[str]]


@pytest.fixture
def stale(tmp_path: Path, tiny_folder: Path, keys_before: dict[str, str]) -> Keys:
    """What misses after ``edits`` of a copy: the keys of evaluations, and the names of techniques, that are others.

    An edit is a file with a text and what stands instead; ``renamed`` are modules and their new names.
    """

    def change(edits: dict[str, tuple[str, str]], renamed: dict[str, str] | None = None, path: str = "") -> set[str]:
        root = tmp_path / "ragsmith"
        shutil.copytree(Path(ragsmith.__file__).parent, root, ignore=shutil.ignore_patterns("__pycache__"))
        for file, (text, instead) in edits.items():
            source = (root / file).read_text()
            assert text in source, f"{file} has no {text!r}"
            (root / file).write_text(source.replace(text, instead))
        for old, new in (renamed or {}).items():
            (root / f"{old.replace('.', '/')}.py").rename(root / f"{new.replace('.', '/')}.py")
            for file in root.rglob("*.py"):
                source = file.read_text()
                (folder, name), (_, called) = old.rsplit(".", 1), new.rsplit(".", 1)
                source = source.replace(f"ragsmith.{old} ", f"ragsmith.{new} ")
                source = source.replace(
                    f"from ragsmith.{folder} import {name}", f"from ragsmith.{folder} import {called}"
                )
                file.write_text(source)
        after = keys(tmp_path, tiny_folder, path)
        return {name for name, key in keys_before.items() if after[name] != key}

    return change


@pytest.fixture(scope="module")
def keys_before(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return keys(Path(ragsmith.__file__).parents[1], tiny_folder)


def keys(root: Path, dataset: Path, path: str = "") -> dict[str, str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, str(root))))}
    command = [sys.executable, "-c", PROGRAM, str(dataset)]
    run = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout)
    return found


def test_names_of_files_wordings_timeouts_and_docstrings_miss_nothing(stale: Keys) -> None:
    edits = {
        "index/index.py": ("has no key: it could never be found", "cannot be found without a key"),
        "models/served/policy.py": ("MAX_SILENCE_RATIO = 2.0", "MAX_SILENCE_RATIO = 3.0"),
        "text/words.py": ('"""Return the runs of letters', '"""Give the runs of letters'),
        "techniques/fusion.py": ("give 0 or more", "give no negative number"),
        "reporting/facts.py": ("Answers were scored by", "What scored the answers:"),
        "text/strict_yaml.py": ("raise ", "raise  "),
    }
    renamed = {"text.words": "text.wording", "models.tasks": "models.requests", "index.top": "index.best"}
    assert stale(edits, renamed) == set()


def test_a_changed_measure_misses_evaluations_and_the_one_technique_that_measures(stale: Keys) -> None:
    edits = {"measures/rankings.py": ("gains(ranking, relevant, k)) / len", "gains(ranking, relevant, k)) / 2 / len")}
    assert stale(edits) == {"evaluation none", "evaluation hyde", "query_expansion.oracle_router"}


def test_a_changed_tokeniser_misses_what_counts_words(stale: Keys) -> None:
    missed = stale({"text/words.py": (r're.compile(r"[^\W_]+")', r're.compile(r"\w+")')})
    assert {"evaluation none", "evaluation hyde", "retrieval.bm25", "retrieval.hybrid"} <= missed
    assert not missed & {"query_expansion.none", "passage_filter.top_k", "reranking.cross_encoder"}


def test_another_version_of_numpy_misses_what_computes_with_it(stale: Keys, tmp_path: Path) -> None:
    other = tmp_path / "libraries" / f"numpy-{version('numpy')}.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text(f"Metadata-Version: 2.1\nName: numpy\nVersion: {version('numpy')}.1\n")
    missed = stale({}, path=str(other.parent))
    assert {"evaluation none", "evaluation hyde", "retrieval.vector"} <= missed
    assert not missed & {"passage_filter.top_k", "prompt_maker.listing", "query_expansion.none"}
