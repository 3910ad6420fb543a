"""An exported pipeline can be asked, evaluated on other data and verified, and a wrong file is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragsmith as library
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import SpaceError, UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.evaluation.keys import evaluation_key
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.reference import Reference
from ragsmith.exported.writing import dataset_location, load_run_experiment, winner_yaml, write_winner
from ragsmith.models.vector_stores import from_relative_address, to_relative_address
from ragsmith.pipelines.space import Space
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Run, RunOutcome
from ragsmith.store.rows import RunState
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import FAMILIES

SETTINGS = RunSettings(genetic=GeneticSettings(population=4, generations=1, elitism=1))


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, space: Space
) -> Iterator[tuple[Store, RunOutcome]]:
    with Store.open(tmp_path_factory.mktemp("export") / "cache.sqlite") as opened:
        yield opened, Run(tiny_setup, space, opened, SETTINGS).go()


@pytest.fixture
def winner(found: tuple[Store, RunOutcome], tiny_setup: Experiment, tiny_folder: Path, tmp_path: Path) -> Path:
    store, outcome = found
    return write_winner(store, outcome.key, tiny_setup, tmp_path / "out" / "winner.yaml")


@pytest.fixture
def changed(winner: Path) -> Callable[..., Path]:
    """The winner's file with a value replaced: ``changed("expected", "search", "mrr", to=0.5)``."""

    def change(*path: str, to: Any) -> Path:
        data = yaml.safe_load(winner.read_text())
        place = data
        for step in path[:-1]:
            place = place[step]
        if to is None:
            del place[path[-1]]
        else:
            place[path[-1]] = to
        winner.write_text(yaml.safe_dump(data, sort_keys=False))
        return winner

    return change


# --- what is in it ---------------------------------------------------------------------------------------------------


def test_the_file_says_everything_that_matters(
    winner: Path, found: tuple[Store, RunOutcome], tiny_setup: Experiment
) -> None:
    _, outcome = found
    data = yaml.safe_load(winner.read_text())
    assert list(data) == [
        *("format", "ragsmith", "dataset", "chunk_size", "models", "fitness", "pipeline", "run", "expected"),
        "reference",
    ]
    assert data["dataset"]["digest"] == tiny_setup.dataset.digest
    assert data["chunk_size"] == 100
    for gene in outcome.winner.candidate:
        written = data["pipeline"][gene.technique.family]
        assert written == {"technique": gene.technique.name, "parameters": dict(gene.parameters)}
        assert set(written["parameters"]) == set(gene.technique.defaults)
    assert data["expected"]["search"]["fitness"] == outcome.winner.mean("fitness")
    assert set(data["expected"]["search"]) == {"questions", *HEADLINE, *outcome.winner.measures}
    assert data["expected"]["test"]["questions"] == 6
    assert data["models"]["ids"] == tiny_setup.loaded_models.ids()


def test_the_file_has_the_scores_of_its_test_questions(winner: Path, tiny_setup: Experiment) -> None:
    loaded = Pipeline.load(winner)
    kept = loaded.reference
    assert kept is not None
    assert set(kept.scores) == {example.id for example in tiny_setup.split.test}
    for place, name in enumerate(HEADLINE):
        mean = sum(scores[place] or 0.0 for scores in kept.scores.values()) / len(kept.scores)
        assert mean == pytest.approx(loaded.expected["test"][name], abs=1e-6)
    assert Reference.from_dict(kept.to_dict()) == kept
    assert kept.incomparability(loaded.setup, loaded.fitness) == ""


def test_an_older_file_keeps_none_and_a_wrong_one_is_refused(changed: Callable[..., Path]) -> None:
    kept = Pipeline.load(changed("reference", "test", to='0.5 - 0.25 "q 1"\n')).reference
    assert kept is not None
    assert kept.scores == {"q 1": (0.5, None, 0.25)}
    with pytest.raises(SpaceError, match=r"winner\.yaml:\d+: reference must have 'documents'"):
        Pipeline.load(changed("reference", "test", to="0.5 nan 0.5 q1\n"))
    assert Pipeline.load(changed("reference", to=None)).reference is None


def test_nothing_in_the_file_depends_on_where_it_was_found(winner: Path, tmp_path: Path) -> None:
    text = winner.read_text()
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_a_data_set_is_named_by_its_bundled_name_or_by_the_way_to_it(tiny_folder: Path, tmp_path: Path) -> None:
    assert dataset_location(load_dataset("law"), tmp_path) == {"bundled": "law"}
    location = dataset_location(load_dataset(tiny_folder), tmp_path / "a" / "b")["path"]
    assert not Path(location).is_absolute()
    assert (tmp_path / "a" / "b" / location).resolve() == tiny_folder.resolve()


# --- the way back ----------------------------------------------------------------------------------------------------


def test_a_loaded_pipeline_is_the_winner(winner: Path, found: tuple[Store, RunOutcome], tiny_setup: Experiment) -> None:
    _, outcome = found
    loaded = Pipeline.load(winner)
    assert loaded.candidate == outcome.winner.candidate
    assert loaded.setup.dataset == tiny_setup.dataset
    assert evaluation_key(loaded.setup, loaded.candidate) == outcome.winner.key


def test_folder_and_file_can_be_moved_together(winner: Path, tiny_folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    location = Path(yaml.safe_load(winner.read_text())["dataset"]["path"])
    shutil.copytree(tiny_folder, moved / "data" / "island")
    data = yaml.safe_load(winner.read_text())
    assert ".." in location.parts
    data["dataset"]["path"] = "../data/island"
    (moved / "out").mkdir()
    (moved / "out" / "winner.yaml").write_text(yaml.safe_dump(data))
    assert Pipeline.load(moved / "out" / "winner.yaml").ask("Who founded the library?").answer


def test_a_pipeline_can_be_put_on_other_documents(winner: Path) -> None:
    loaded = Pipeline.load(winner, dataset="law")
    assert loaded.setup.dataset.name == "law"
    assert loaded.expected == {}
    reply = loaded.ask("Does a Saturday count as a working day at the counters of the Chancery of Registers?")
    assert reply.sources
    with pytest.raises(UsageError, match="there is nothing to verify"):
        loaded.verify()


def test_an_evaluation_gives_the_expected_scores(winner: Path, found: tuple[Store, RunOutcome]) -> None:
    store, outcome = found
    loaded = Pipeline.load(winner)
    examples = [loaded.setup.examples[question] for question in outcome.winner.questions]
    evaluation = loaded.evaluate(store, examples)
    assert evaluation.mean("fitness") == loaded.expected["search"]["fitness"]


# --- verification ----------------------------------------------------------------------------------------------------


def test_scores_are_reproduced_from_the_documents(winner: Path) -> None:
    assert Pipeline.load(winner).verify() == []


@pytest.fixture(scope="module")
def loaded(found: tuple[Store, RunOutcome], tiny_setup: Experiment) -> Pipeline:
    """The winner, whose answers are remembered from one verification to the next."""
    return Pipeline(found[1].winner.candidate, tiny_setup)


@pytest.mark.parametrize("part", ["search", "test"])
@pytest.mark.parametrize("metric", ["fitness", "retrieval", "recall", "judge", "faithfulness", "context_chars"])
def test_a_changed_score_is_noticed(
    changed: Callable[..., Path], winner: Path, loaded: Pipeline, part: str, metric: str
) -> None:
    exported = yaml.safe_load(winner.read_text())["expected"][part][metric]
    file = ExportedFile(changed("expected", part, metric, to=exported + 1e-6))
    loaded.expected = {part: file.expected()[part]}
    [difference] = loaded.verify()
    assert (difference.part, difference.metric) == (part, metric)
    assert difference.expected == exported + 1e-6
    assert difference.found == exported


def test_a_changed_number_of_questions_is_noticed(changed: Callable[..., Path]) -> None:
    [difference] = Pipeline.load(changed("expected", "test", "questions", to=7)).verify()
    assert (difference.part, difference.metric, difference.found) == ("test", "questions", 6)


def test_another_pipeline_does_not_reproduce_the_scores(changed: Callable[..., Path]) -> None:
    worse = changed("pipeline", "retrieval", to={"technique": "graph", "parameters": {"k": 2}})
    assert Pipeline.load(worse).verify() != []


def test_a_score_of_a_measure_that_no_longer_exists_is_not_reproduced(changed: Callable[..., Path]) -> None:
    [difference] = Pipeline.load(changed("expected", "search", "answer_words", to=3.0)).verify()
    assert (difference.metric, difference.expected, difference.found) == ("answer_words", 3.0, None)


# --- what is refused -------------------------------------------------------------------------------------------------

WRONG: list[tuple[tuple[str, ...], Any, str]] = [
    (("format",), 3, "this version of ragsmith reads format 1, not 3: export the pipeline again"),
    (("pipelin",), {}, "unknown key 'pipelin'"),
    (("pipeline",), None, "'pipeline' is missing"),
    (("pipeline",), [1], "'pipeline' must be 'name: value' pairs"),
    (("pipeline", "retrieval"), None, "the pipeline has no retrieval"),
    (("pipeline", "retrieval"), "bm25", "retrieval must have a 'technique' by name, and 'parameters'"),
    (("pipeline", "retrieval", "technique"), "bm52", "no retrieval technique is called 'bm52'"),
    (("pipeline", "retrieval", "technique"), ["bm25"], "retrieval"),
    (("pipeline", "retrieval", "technique"), 25, "retrieval"),
    (("pipeline", "retrieval", "parameters"), [3], "retrieval"),
    (("pipeline", "retrieval", "parameters"), "k", "retrieval"),
    (("pipeline", "retrieval", "parameters", "k"), "many", "k must be a whole number"),
    (("pipeline", "retrievals"), {"technique": "bm25"}, "unknown family 'retrievals'"),
    (("models", "llm"), "x", "unknown key"),
    (("models", "embedder"), "bert", "unknown embedder 'bert'"),
    (("models", "language_model"), 3, "language_model"),
    (("models", "judge"), ["x"], "judge"),
    (("models",), "x", "'models' must be 'name: value' pairs"),
    (("chunk_size",), 0, "chunk_size must be a positive whole number, not 0"),
    (("chunk_size",), "big", "chunk_size must be a positive whole number, not 'big'"),
    (("chunk_overlap",), 100, "chunks of 100 characters cannot overlap by 100: give less"),
    (("fitness", "weights", "retrieval"), "half", "retrieval is 'half': give a number"),
    (("fitness", "weights"), {"retrieval": 0, "generation": 0}, "weights"),
    (("fitness", "weights"), {"retrieval": -1, "generation": 1}, "weights"),
    (("expected", "search", "fitness"), None, "search must have 'questions', 'fitness'"),
    (("expected", "search", "mrr"), "high", "mrr"),
    (("expected", "search", "questions"), "all", "questions"),
    (("expected", "train"), {}, "train must have 'questions'"),
    (("expected",), None, "there is nothing to verify"),
    (("dataset",), None, "'dataset' is missing"),
    (("dataset", "path"), "nowhere", "nowhere"),
    (("dataset", "path"), ["law"], "'dataset' must have a 'path'"),
    (("dataset", "bundled"), "law", "'dataset' must have a 'path'"),
    (("dataset", "digest"), "0" * 32, "is not the one this pipeline was found on"),
]


@pytest.mark.parametrize(
    ("given", "written", "opened"),
    [
        ("qdrant:{here}/vectors", "qdrant:../vectors", "qdrant:{here}/out/../vectors"),
        ("qdrant:http://me:secret@localhost:6333?api_key=s", "qdrant:http://localhost:6333", None),
        ("qdrant::memory:", "qdrant::memory:", None),
        ("approximate", "approximate", None),
        ("approximate:{here}/vectors", "approximate:../vectors", "approximate:{here}/out/../vectors"),
        ("postgresql://me:secret@host:5432/db?password=s", "postgresql://me@host:5432/db", None),
        ("exact", "exact", None),
    ],
)
def test_a_vector_store_is_named_relative_to_the_file_and_without_secrets(
    tmp_path: Path, given: str, written: str, opened: str | None
) -> None:
    folder = tmp_path / "out"
    assert to_relative_address(folder, given.format(here=tmp_path)) == written
    assert from_relative_address(folder, written) == (opened or written).format(here=tmp_path)


def test_the_vector_store_is_in_the_file_and_another_may_be_named(changed: Callable[..., Path]) -> None:
    file = changed("vector_store", to="qdrant:../vectors")
    assert Pipeline.load(file).setup.models.vector_store_address == f"qdrant:{file.parent / '../vectors'}"
    assert Pipeline.load(file, vector_store="exact").setup.models.vector_store_address == "exact"


def test_a_pipeline_that_was_written_by_hand_is_asked_and_evaluated_and_has_nothing_to_verify(
    tiny_folder: Path, tmp_path: Path, ragsmith: Callable[..., Any]
) -> None:
    path = tmp_path / "mine.yaml"
    options = dict.fromkeys((family.name for family in FAMILIES), "none") | {
        "retrieval": "bm25",
        "passage_filter": "top_k",
        "prompt_maker": "listing",
    }
    path.write_text(
        f"dataset: {{path: {os.path.relpath(tiny_folder, tmp_path)}}}\n"
        "pipeline:\n" + "".join(f"  {family}: {{technique: {name}}}\n" for family, name in options.items())
    )
    loaded = Pipeline.load(path)
    assert loaded.ask("When does the ferry to Marrow leave?").answer
    assert loaded.candidate == baseline("bm25")
    cache = ("--cache", tmp_path / "cache.sqlite")
    evaluated = ragsmith("evaluate", path, *cache, "--json")
    assert evaluated.code == 0, evaluated.err
    verified = ragsmith("verify", path, *cache)
    assert verified.code == 2
    assert verified.err.startswith("error: there is nothing to verify")


@pytest.mark.parametrize(("path", "to", "said"), WRONG, ids=[f"{'.'.join(path)}={to!r}" for path, to, _ in WRONG])
def test_a_wrong_file_is_refused_in_one_sentence(
    changed: Callable[..., Path], path: tuple[str, ...], to: Any, said: str
) -> None:
    file = changed(*path, to=to)
    with pytest.raises(UsageError) as raised:
        Pipeline.load(file).verify()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "- a\n", "hello", "a: [", "format: 1\nformat: 1\n"])
def test_what_is_no_pipeline_at_all_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    path = tmp_path / "winner.yaml"
    path.write_text(text)
    with pytest.raises(SpaceError) as raised:
        Pipeline.load(path)
    assert str(raised.value).startswith(f"{path}:")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.yaml"):
        Pipeline.load(tmp_path / "nothing.yaml")


def test_changed_documents_are_noticed(winner: Path, tiny_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    document = copy / "documents" / "ferry.md"
    document.write_text(document.read_text() + "\nA new rule.\n")
    data = yaml.safe_load(winner.read_text())
    data["dataset"]["path"] = "../copy"
    winner.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(SpaceError, match="its documents or questions changed"):
        Pipeline.load(winner)


def test_a_pipeline_of_a_search_is_asked_after_its_questions_changed_and_not_verified(
    winner: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    question = "When does the ferry to Marrow leave?"
    before = library.ask(winner, question, cache=tmp_path / "cache.sqlite")
    copy = tmp_path / "copy"
    shutil.copytree(tiny_folder, copy)
    rows = (copy / "questions.jsonl").read_text().splitlines(keepends=True)
    (copy / "questions.jsonl").write_text("".join(rows[1:]))
    data = yaml.safe_load(winner.read_text())
    data["dataset"]["path"] = "../copy"
    winner.write_text(yaml.safe_dump(data, sort_keys=False))
    assert library.ask(winner, question, cache=tmp_path / "cache.sqlite") == before
    with pytest.raises(SpaceError, match="its documents or questions changed"):
        library.verify(winner, cache=tmp_path / "cache.sqlite")


# --- from a run ------------------------------------------------------------------------------------------------------


def test_the_latest_finished_search_is_found(
    found: tuple[Store, RunOutcome], tiny_folder: Path, tiny_setup: Experiment
) -> None:
    store, outcome = found
    key, setup = load_run_experiment(store, str(tiny_folder))
    assert (key, setup) == (outcome.key, tiny_setup)
    assert load_run_experiment(store, str(tiny_folder), outcome.key[:8])[0] == outcome.key


def test_a_search_that_was_killed_is_named_with_how_it_goes_on(
    tiny_folder: Path, tiny_setup: Experiment, space: Space, store: Store
) -> None:
    settings = RunSettings("random", seed=1, max_evaluations=2, probes=False, simplify=False)
    key = Run(tiny_setup, space, store, settings).go().key
    [row] = store.runs()
    record = replace(RunRecord.from_dict(row.value), winner=None)
    gone = "was stopped after 3 pipelines and has no winner yet: the same search command resumes it, and "
    states: tuple[tuple[RunState, str], ...] = (
        ("interrupted", gone),
        ("running", "is still running and has no winner yet: wait until it "),
    )
    for state, said in states:
        store.update_run(key, state, record.to_dict())
        for named in (None, key[:8]):
            with pytest.raises(UsageError) as refused:
                load_run_experiment(store, str(tiny_folder), named)
            assert str(refused.value).startswith(f"the search {key[:12]} on 'island' {said}")
    with pytest.raises(UsageError, match="no search 'ffff' on 'island' is in the cache"):
        load_run_experiment(store, str(tiny_folder), "ffff")


def test_a_search_that_is_not_there_is_named(found: tuple[Store, RunOutcome], tiny_folder: Path, store: Store) -> None:
    with pytest.raises(UsageError, match="the cache has no search on 'island'"):
        load_run_experiment(store, str(tiny_folder))
    with pytest.raises(UsageError):
        load_run_experiment(found[0], str(tiny_folder), "ffff")
    _, setup = load_run_experiment(found[0], str(tiny_folder))
    with pytest.raises(UsageError, match="no winner yet"):
        winner_yaml(store, "nothing", setup, Path())


# --- written out in Python -------------------------------------------------------------------------------------------


@pytest.fixture
def families(winner: Path) -> dict[str, Any]:
    """The techniques of the winner, as plain data."""
    plain: dict[str, Any] = yaml.safe_load(winner.read_text())["pipeline"]
    return plain


def test_a_pipeline_of_plain_python_is_that_of_the_file(
    winner: Path, families: dict[str, Any], tiny_folder: Path
) -> None:
    models = {"embedder": {"model": "wordllama"}}
    made = Pipeline.of(tiny_folder, families, models=models, chunk_size=100)
    loaded = Pipeline.load(winner)
    assert made.candidate == loaded.candidate
    for question in ("Who steers the ferry?", "How high is the lighthouse?"):
        assert made.ask(question) == loaded.ask(question)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"chunk_size": 0}, "chunk_size from 1 on"),
        ({"chunk_size": 50, "chunk_overlap": 50}, "cannot overlap by 50"),
        ({"models": {"embedder": "wordlama"}}, "did you mean 'wordllama'"),
        ({"models": {"writer": "extractive"}}, "no role 'writer'"),
    ],
)
def test_what_is_wrong_in_it_is_said(
    families: dict[str, Any], tiny_folder: Path, more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        Pipeline.of(tiny_folder, families, **more)
    del families["retrieval"]
    with pytest.raises(UsageError, match="the pipeline has no retrieval"):
        Pipeline.of(tiny_folder, families)


def test_the_path_of_a_data_set_does_not_depend_on_the_encoding_of_the_file_system(
    tiny_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "marées")
    program = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from ragsmith.datasets.dataset import load_dataset\n"
        "from ragsmith.exported.file import ExportedFile\n"
        "from ragsmith.exported.writing import dataset_location\n"
        "here, folder = map(Path, sys.argv[1:])\n"
        "place = dataset_location(load_dataset(folder), here)\n"
        "(here / 'winner.yaml').write_text(json.dumps({'dataset': place, 'pipeline': {}}))\n"
        "assert ExportedFile(here / 'winner.yaml').folder().is_dir()\n"
        "print(json.dumps(place))\n"
    )
    other = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", program, tmp_path, folder]
    said = [
        subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=True).stdout
        for more in ({}, other)
    ]
    assert [json.loads(each) for each in said] == [{"path": "marées"}] * 2
