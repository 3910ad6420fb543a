"""The worked examples of CONTRIBUTING.md, executed: each is loaded from a file of its own and used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import ragsmith
from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment, prepare_experiment
from ragsmith.evaluation.fitness import Fitness, composite
from ragsmith.measures.registry import REGISTERED_MEASURES
from ragsmith.models.names import ModelNames
from ragsmith.models.registry import REGISTRY
from ragsmith.pipelines.genes import Gene
from ragsmith.pipelines.space_file import load_space
from ragsmith.plugins import load_file
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES, passage_filter
from ragsmith.types import Chunk, Hit, Hits, Question, Scale

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block(title: str, language: str = "python", number: int = 0) -> str:
    """An example below the heading ``title``."""
    below = TEXT.split(f"\n### {title}\n")[1].split("\n### ")[0]
    return re.findall(rf"```{language}\n(.*?)```", below, re.DOTALL)[number]


def loaded(title: str, folder: Path) -> ModuleType:
    file = folder / "example.py"
    file.write_text(block(title), encoding="utf-8")
    return load_file(file)


def hits(*scores: float) -> Hits:
    return tuple(Hit(Chunk(f"d#{i:04d}", "d", i, i, i + 1, "x"), score, Scale.COSINE) for i, score in enumerate(scores))


@pytest.fixture(scope="module")
def score_gap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The technique, gone again afterwards."""
    yield loaded("A technique", tmp_path_factory.mktemp("technique"))
    passage_filter.techniques.pop("score_gap")


def test_the_technique_cuts_where_the_score_falls_most(score_gap: ModuleType) -> None:
    question, cut = Question("?"), score_gap.score_gap
    assert len(cut(question, hits(0.9, 0.85, 0.8, 0.3, 0.2))) == 3
    assert len(cut(question, hits(0.9, 0.1, 0.1), keep_at_least=1)) == 1
    assert cut(question, hits(0.5)) == hits(0.5)
    assert cut(question, ()) == ()


@pytest.mark.usefixtures("score_gap")
def test_the_technique_is_found_by_name_in_a_space(tmp_path: Path) -> None:
    lines = [f"  {family.name}: [{'vector' if family.name == 'retrieval' else 'none'}]" for family in FAMILIES]
    listed = [line for line in lines if "passage_filter" not in line and "prompt_maker" not in line]
    listed += ["  prompt_maker: [listing]", block("A technique", "yaml").rstrip()]
    path = tmp_path / "mine.yaml"
    path.write_text("families:\n" + "\n".join(listed), encoding="utf-8")
    space = load_space(path)
    assert space.size == 3
    assert [str(gene) for gene in space.options[4]] == ["top_k", "score_gap(keep_at_most=5)", "score_gap"]


DATASETS = ("law", "finance", "workshop")


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.usefixtures("score_gap")
def test_the_technique_runs_in_a_pipeline(name: str) -> None:
    setup = Experiment(load_dataset(name))
    technique = passage_filter["score_gap"]
    gene = Gene(technique, technique.resolve_parameters({}))
    plain = baseline("naive")
    trace = setup.engine().answer((*plain[:4], gene, *plain[5:]), Question(setup.dataset.examples[0].question))
    assert 2 <= len(trace.hits) <= 10
    assert trace.answer.text


@pytest.fixture(scope="module")
def _precision(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The measure is registered, and gone again afterwards."""
    loaded("A measure", tmp_path_factory.mktemp("measure"))
    yield
    del REGISTERED_MEASURES["precision"]


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.usefixtures("_precision")
def test_the_measure_is_in_a_record_and_in_a_fitness_of_one_s_own(name: str, tmp_path: Path) -> None:
    fitness = tmp_path / "my_fitness.py"
    fitness.write_text(block("A measure", number=1), encoding="utf-8")
    setup = Experiment(load_dataset(name))
    without_evidence = [example for example in setup.dataset.examples if not example.evidence]
    examples = [example for example in setup.dataset.examples if example.evidence][:3] + without_evidence[:1]
    with Store.open(tmp_path / "cache.sqlite") as store, Evaluator(setup, store, 1) as evaluator:
        [found] = evaluator.evaluate([baseline("bm25")], examples)
    assert found.complete
    careful = Fitness.from_spec(f"{fitness}:careful")
    for example, value in zip(examples, found.values("fitness", careful), strict=True):
        measured = found.records[example.id]["measures"]
        precision, answer = measured["precision"], composite("generation", measured)
        assert (precision is None) == (not example.evidence)
        assert value == pytest.approx(answer if precision is None else (precision * answer) ** 0.5)


def test_the_provider_embeds_the_documents_of_a_search_by_its_name(tmp_path: Path) -> None:
    loaded("A provider of models", tmp_path)
    try:
        for name in DATASETS:
            setup = prepare_experiment(name, ModelNames(embedder="hashing"), 900)
            trace = setup.engine().answer(baseline("naive"), Question(setup.dataset.examples[0].question))
            assert trace.hits, name
        embedder = setup.loaded_models.embedder
    finally:
        del REGISTRY["embedder", "hashing"]
    assert embedder.id.startswith("hashing:words@dimensions=512@code=")  # as the file is somebody's own
    assert np.linalg.norm(embedder.embed(["the court of appeal", ""]), axis=1) == pytest.approx([1, 0])


@pytest.mark.parametrize(("caught", "said"), [("Exception", "broad handlers"), ("BaseException", "`BaseException`")])
def test_every_broad_handler_is_listed(caught: str, said: str) -> None:
    """Whoever catches any exception decides what becomes of errors that nobody thought of."""
    folder = Path(ragsmith.__file__).parent
    broad = re.compile(rf"^ *except .*\b{caught}\b", re.MULTILINE)
    found = {str(file.relative_to(folder.parent)) for file in folder.rglob("*.py") if broad.search(file.read_text())}
    [rule] = [rule for rule in TEXT.split("\n- ") if said in rule]
    assert found == set(re.findall(r"`(ragsmith/\S+\.py)`", rule))
