"""The worked example of CONTRIBUTING.md, executed."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.testbed import Setup
from ragsmith.pipelines.genes import Gene
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.baselines import baseline
from ragsmith.techniques.families import FAMILIES, passage_filter
from ragsmith.types import Chunk, Hit, Question, Scale

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)[0]


@pytest.fixture
def score_gap(tmp_path):
    """The technique of the worked example, from a file of its own, gone again afterwards."""
    file = tmp_path / "score_gap_example.py"
    file.write_text(block("python"), encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        spec = importlib.util.spec_from_file_location("score_gap_example", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules["score_gap_example"] = module
        spec.loader.exec_module(module)
        yield module.score_gap
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("score_gap_example", None)
        passage_filter.techniques.pop("score_gap", None)


def hits(*scores):
    return tuple(Hit(Chunk(f"d#{i:04d}", "d", i, i, i + 1, "x"), score, Scale.COSINE) for i, score in enumerate(scores))


def test_the_worked_example_cuts_where_the_score_falls_most(score_gap):
    question = Question("?")
    assert len(score_gap(question, hits(0.9, 0.85, 0.8, 0.3, 0.2))) == 3
    assert len(score_gap(question, hits(0.9, 0.1, 0.1), keep_at_least=1)) == 1
    assert score_gap(question, hits(0.5)) == hits(0.5)
    assert score_gap(question, ()) == ()


def test_the_worked_example_is_found_by_name_in_a_space(score_gap, tmp_path):
    lines = [f"  {family.name}: [{'vector' if family.name == 'retrieval' else 'none'}]" for family in FAMILIES]
    listed = [line for line in lines if "passage_filter" not in line and "prompt_maker" not in line]
    listed += ["  prompt_maker: [listing]", block("yaml").rstrip()]
    path = tmp_path / "mine.yaml"
    path.write_text("families:\n" + "\n".join(listed), encoding="utf-8")
    space = load_space(path)
    assert space.size == 3
    assert [str(gene) for gene in space.options[4]] == ["top_k", "score_gap(keep_at_most=5)", "score_gap"]


def test_the_worked_example_runs_in_a_pipeline(score_gap):
    setup = Setup(load_dataset("law"))
    technique = passage_filter["score_gap"]
    gene = Gene(technique, technique.resolved({}))
    plain = baseline("naive")
    example = setup.dataset.examples[0]
    trace = setup.engine().answer((*plain[:4], gene, *plain[5:]), Question(example.question))
    assert 2 <= len(trace.hits) <= 10
    assert trace.answer.text
