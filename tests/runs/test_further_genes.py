"""Hyperparameter genes: a search over chunk size, overlap and embedder besides the families, on one gateway."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from stored import recorded

import ragsmith
from ragsmith.api.result import Result
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation, load_evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key, pipeline_key, ranking_key
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.writing import winner_yaml
from ragsmith.measures.registry import REGISTERED_MEASURES, Measure
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.genes import N_FAMILIES, configuration, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.plugins import load_file
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
from ragsmith.strategies import GeneticSettings
from ragsmith.techniques.families import FILTER_INDEX

EMBEDDER = '''
"""Counts letters, and writes down every text that it is asked to embed."""

import numpy as np

from ragsmith.models.registry import provider


@provider("embedder", "{name}")
class Letters:
    id = "{name}:1"

    def embed(self, texts):
        with open({ledger!r}, "a") as file:
            file.writelines(repr(text) + "\\n" for text in texts)
        vectors = np.zeros((len(texts), 26), dtype=np.float32)
        for row, text in enumerate(texts):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    vectors[row, ord(letter) - 97] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
'''

SEARCHED = """\
imports: [embedders.py]
corpus: {{chunk_size: [100, 200, 400], chunk_overlap: [0, 40]}}
models: {{embedder: [wordllama, {name}]}}
"""

SETTINGS = RunSettings(genetic=GeneticSettings(population=8, generations=3, elitism=2), seed=3)

_numbers = itertools.count()


@dataclass
class Searched:
    """A search over settings that was made to its end."""

    folder: Path
    setup: Experiment
    space: Space
    ledger: Path
    store: Store
    run: Run
    winner: Evaluation

    @property
    def record(self) -> RunRecord:
        return recorded(self.store, self.run.key)

    @property
    def met(self) -> list[Evaluation]:
        """Everything that finished the search questions."""
        keys = dict.fromkeys([*(row.evaluation for row in self.store.proposals(self.run.key)), *self.record.told])
        found = [load_evaluation(self.store, key, self.record.split.search) for key in keys]
        return [evaluation for evaluation in found if evaluation.complete]

    @property
    def rows(self) -> dict[str, Any]:
        return rows(self.store, self.setup)


def rows(store: Store, setup: Experiment) -> dict[str, Any]:
    return store.results_many([row.key for row in store.evaluations(setup.dataset.digest)])


def written(folder: Path, plain: Path) -> tuple[Path, Path]:
    """A space over settings, and the ledger of its own embedder; a name is registered once in a process."""
    name, ledger = f"letters_{next(_numbers)}", folder / "ledger"
    (folder / "embedders.py").write_text(EMBEDDER.format(name=name, ledger=str(ledger)))
    (folder / "space.yaml").write_text(
        plain.read_text().replace("name: tiny", "name: further") + SEARCHED.format(name=name)
    )
    return folder / "space.yaml", ledger


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, tiny_setup: Experiment, tiny_space: Path) -> Iterator[Searched]:
    folder = tmp_path_factory.mktemp("further")
    path, ledger = written(folder, tiny_space)
    space = load_space(path)
    with Store.open(folder / "cache.sqlite") as store:
        run = Run(tiny_setup, space, store, SETTINGS)
        outcome = run.go()
        assert outcome.winner is not None
        yield Searched(
            folder, tiny_setup.with_searched_settings(space.settings), space, ledger, store, run, outcome.winner
        )


def test_experiments_that_cut_alike_share_their_chunks(searched: Searched) -> None:
    setup, space = replace(searched.setup), searched.space
    corpus = setup.corpus
    assert setup.with_searched_settings(space.settings).corpus is corpus
    first, other, *_ = space.settings[0]
    alike, longer = (
        setup.for_candidate((*baseline("bm25"), size, space.settings[1][0], embedder))
        for size, embedder in ((first, space.settings[2][1]), (other, space.settings[2][0]))
    )
    assert alike is not setup
    assert alike.corpus is corpus
    assert len(longer.corpus.chunks) < len(corpus.chunks)


def test_settings_multiply_the_space(searched: Searched) -> None:
    space = searched.space
    assert space.names[N_FAMILIES:] == ("chunk_size", "chunk_overlap", "embedder")
    assert space.sizes[N_FAMILIES:] == (3, 2, 2)
    assert space.size == space.without_settings().size * 12
    last = tuple(size - 1 for size in space.sizes)
    assert space.genome(space.candidate(last)) == last


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("corpus: {chunk_size: [50]}", "chunk_size must be a whole number of characters from 100, not 50"),
        ("corpus: {chunk_size: 500}", "chunk_size must be a list of values, the default first"),
        ("corpus: {chunk_size: [500, 500]}", "chunk_size lists 500 twice"),
        ("corpus: {chunks: [500]}", "unknown key 'chunks'"),
        ("models: {embedder: [wordlama]}", "unknown embedder 'wordlama'; did you mean 'wordllama'?"),
        ("models: {judge: [extractive]}", "unknown key 'judge'"),
        (
            "corpus: {chunk_size: [300, 100], chunk_overlap: [0, 100]}",
            "chunks of 100 characters cannot overlap by 100: list less, or longer chunks only",
        ),
        (
            "models: {language_model: ['openai:a', {model: 'openai:b', base_url: 'http://u:p@host/v1'}]}",
            "the base URL must not contain a user, password or query",
        ),
        ("models: {language_model: [{model: 'openai:b', api_key_env: sk-1}]}", "the name of an environment variable"),
        ("models: {language_model: [{model: 'openai:b', in_flight: 0}]}", "in_flight must be a whole number"),
        ("models: {language_model: [{model: 'openai:b', base_rul: x}]}", "did you mean 'base_url'"),
        ("models: {language_model: [{base_url: 'http://host/v1'}]}", "a mapping with the key 'model'"),
        (
            "models: {language_model: ['openai:b', {model: 'openai:b', base_url: 'http://host/v1'}]}",
            "language_model lists openai:b twice",
        ),
        ("models: {embedder: ['given:mine']}", "given:mine is an object in Python, which no space can search over"),
    ],
)
def test_what_is_wrong_with_settings_is_said_with_its_line(
    tiny_space: Path, tmp_path: Path, section: str, said: str
) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(f"{tiny_space.read_text()}{section}\n")
    line = len(tiny_space.read_text().splitlines()) + 1
    with pytest.raises(UsageError) as error:
        load_space(file)
    assert said in str(error.value)
    assert f"space.yaml:{line}" in str(error.value)


def test_chunks_overlap_by_less_than_they_are_long(tiny_space: Path, tiny_setup: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(f"{tiny_space.read_text()}corpus: {{chunk_overlap: [0, {tiny_setup.chunk_size}]}}\n")
    with pytest.raises(UsageError, match="as the space has it: list less as its chunk_overlap, or give longer chunks"):
        tiny_setup.with_searched_settings(load_space(file).settings)


@pytest.mark.parametrize("given", [{"chunk_size": 300}, {"models": {"embedder": "wordllama"}}])
def test_what_is_searched_over_is_not_given_as_well(searched: Searched, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is searched over by the space 'further': leave it out"):
        ragsmith.search(searched.setup.dataset, space=searched.space, cache=searched.store, **given)


def test_the_winner_names_every_setting(searched: Searched) -> None:
    families = [gene.technique.family for gene in searched.winner.candidate]
    assert families[N_FAMILIES:] == ["chunk_size", "chunk_overlap", "embedder"]
    assert len({evaluation.candidate[N_FAMILIES:] for evaluation in searched.met}) > 4


def test_nothing_is_embedded_twice(searched: Searched) -> None:
    asked = Counter(searched.ledger.read_text().splitlines())
    assert asked
    assert set(asked.values()) == {1}
    counts = searched.record.account.calls["embedder"]
    assert counts.made == counts.distinct < counts.asked


def test_chunks_and_vectors_are_those_of_the_settings(searched: Searched) -> None:
    tried = next(one for one in searched.met if searched.setup.for_candidate(one.candidate).chunk_size == 200)
    own = searched.setup.for_candidate(tried.candidate)
    assert max(len(chunk.text) for chunk in own.corpus.chunks) > 100
    plain = Experiment(own.dataset, own.models, own.chunk_size, chunk_overlap=own.chunk_overlap)
    ranked = plain.engine()
    for question in tried.questions:
        trace = ranked.rank(tried.candidate[:N_FAMILIES], ragsmith.types.Question(own.examples[question].question))
        assert [hit.chunk.id for hit in trace.hits] == tried.records[question]["retrieved"]


def test_any_pipeline_of_it_is_verified_from_its_file(searched: Searched) -> None:
    others = {}
    for place in range(1, len(searched.met) + 1):
        text = winner_yaml(searched.store, searched.run.key, searched.setup, searched.folder, str(place))
        stands = yaml.safe_load(text)
        others.setdefault((place == 1, stands["models"]["embedder"], stands["chunk_size"] != 100), text)
        if len(others) > 3:
            break
    assert len(others) > 2
    for number, text in enumerate(others.values()):
        file = searched.folder / f"pipeline_{number}.yaml"
        file.write_text(text)
        loaded = Pipeline.load(file)
        assert loaded.verify() == []
        assert not loaded.changed_models()
        assert len(loaded.candidate) == N_FAMILIES
        assert loaded.ask("How high is the lighthouse?").answer


def test_the_report_shows_settings_as_options(searched: Searched, tmp_path: Path) -> None:
    again = ragsmith.search(
        searched.setup.dataset, space=searched.space, settings=SETTINGS, cache=searched.store, workers=1
    )
    assert isinstance(again, Result)
    named = {(option.family, option.name) for option in again.run_report.options}
    assert {("chunk_size", "200"), ("chunk_overlap", "40"), ("embedder", "wordllama")} <= named
    report = next(file for file in again.report(tmp_path) if file.suffix == ".md").read_text()
    assert "| chunk_size |" in report
    assert again.winner.verify() == []


def test_models_at_one_server_share_its_limit(tiny_setup: Experiment, tiny_space: Path, tmp_path: Path) -> None:
    file = tmp_path / "space.yaml"
    file.write_text(f"{tiny_space.read_text()}models: {{language_model: ['openai:one', 'openai:other']}}\n")
    setup = replace(tiny_setup, models=ModelNames(base_url="http://127.0.0.1:1")).with_searched_settings(
        load_space(file).settings
    )
    writers: list[Any] = [variant.loaded_models.language_model for variant in setup.variants]
    assert [writer.id.partition("@")[0] for writer in writers] == ["openai:one", "openai:other"]
    assert writers[0].provider is writers[1].provider


def own_models(tiny_space: Path, folder: Path, *listed: str) -> Space:
    (folder / "space.yaml").write_text(f"{tiny_space.read_text()}models: {{language_model: [{', '.join(listed)}]}}\n")
    return load_space(folder / "space.yaml")


@pytest.mark.parametrize(
    ("first", "second", "limits"),
    [("", "", (None, None)), (", in_flight: 3", "", (3, 3)), ("", ", in_flight: 3", (3, 3))],
)
def test_a_limit_of_one_model_of_a_space_is_that_of_its_server(
    tiny_setup: Experiment, tiny_space: Path, tmp_path: Path, first: str, second: str, limits: tuple[int, int]
) -> None:
    at = "base_url: 'http://127.0.0.1:1'"
    space = own_models(
        tiny_space, tmp_path, f"{{model: 'openai:a', {at}{first}}}", f"{{model: 'openai:b', {at}{second}}}"
    )
    setup = tiny_setup.with_searched_settings(space.settings)
    found = [variant.loaded_models.language_model.provider for variant in setup.variants]  # type: ignore[union-attr]
    assert found[0] is found[1]
    assert tuple(one.policy.in_flight for one in found) == limits


def test_two_limits_for_one_server_are_refused(tiny_setup: Experiment, tiny_space: Path, tmp_path: Path) -> None:
    at = "base_url: 'http://127.0.0.1:1'"
    space = own_models(tiny_space, tmp_path, *(f"{{model: 'openai:{n}', {at}, in_flight: {n}}}" for n in (2, 5)))
    with pytest.raises(
        UsageError, match="in_flight is 2 for the language model and 5 for another, which share a server"
    ):
        _ = tiny_setup.with_searched_settings(space.settings).loaded_models


def test_a_gene_of_a_model_keeps_its_address_in_other_processes_and_no_where_else(
    tiny_setup: Experiment, tiny_space: Path, tmp_path: Path
) -> None:
    elsewhere = "{model: 'openai:b', base_url: 'http://127.0.0.1:1/v1', api_key_env: B_KEY, context_window: 4000}"
    space = own_models(tiny_space, tmp_path, "extractive", elsewhere)
    plain = own_models(tiny_space, tmp_path, "extractive", "{model: 'openai:b', context_window: 4000}")
    gene = space.settings[0][1]
    assert str(gene) == "openai:b(context_window=4000)"
    assert space.digest == plain.digest
    candidate = space.candidate(tuple(size - 1 for size in space.sizes))
    stored = configuration(candidate)
    assert stored["language_model"]["parameters"] == {"value": {"model": "openai:b", "context_window": 4000}}
    sent = pickle.loads(pickle.dumps(tiny_setup.with_searched_settings(space.settings)))
    for asked in (candidate, read_configuration(stored)):
        assert sent.for_candidate(asked).models.for_role("language_model").options == {
            "base_url": "http://127.0.0.1:1/v1",
            "api_key_env": "B_KEY",
            "context_window": 4000,
        }


def test_keys_are_of_what_a_candidate_asks_for(searched: Searched) -> None:
    setup, space = searched.setup, searched.space
    first = space.with_default_settings(baseline("naive"))
    keys = {}
    for settings in itertools.product(*space.settings):
        candidate = (*first[:N_FAMILIES], *settings)
        keys[settings] = evaluation_key(setup, candidate), ranking_key(setup, candidate)
    assert len({key for key, _ in keys.values()}) == 12
    assert len({key for _, key in keys.values()}) == 12
    assert ranking_key(setup, first) == ranking_key(setup, first[:N_FAMILIES])  # shared with a search without settings


MEASURES = '''
"""Measures of rankings that ask a model."""

from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.models.protocols import Embedder, LanguageModel


@measure(label="Embedded", subject="ranking")
def embedded_ranking(case: Case, embedder: Embedder) -> float:
    """The number of vectors of a question."""
    return float(len(embedder.embed([case.question])))


@measure(label="Judged", subject="ranking")
def judged_ranking(case: Case, language_model: LanguageModel) -> float:
    """The length of the judge's name."""
    return float(len(language_model.id))
'''


@pytest.fixture(scope="module")
def measures_that_ask(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measure]:
    """`MEASURES`, which are not registered any more; a file is read once in a process."""
    path = tmp_path_factory.mktemp("measures") / "measures_that_ask.py"
    path.write_text(MEASURES)
    load_file(path)
    return {name: REGISTERED_MEASURES.pop(name) for name in ("embedded_ranking", "judged_ranking")}


def keys_where(setup: Experiment, **first: str) -> dict[str, str]:
    """The keys of one pipeline with one embedder, where the ``first`` models of a space mark."""
    named = {"language_model": "openai:writes", "embedder": "openai:works", **first}
    marks = replace(setup, models=ModelNames(base_url="http://127.0.0.1:1", **named))
    works = replace(marks, models=replace(marks.models, embedder="openai:works"), scored_by=marks)
    naive = baseline("naive")
    return {
        "answers": evaluation_key(works, naive),
        "rankings": ranking_key(works, naive),
        "fit": pipeline_key(works, naive[: FILTER_INDEX + 1]),
    }


def changed_keys(setup: Experiment, **first: str) -> set[str]:
    plain, other = keys_where(setup), keys_where(setup, **first)
    return {name for name, key in plain.items() if other[name] != key}


@pytest.mark.parametrize("first", [{"judge": "openai:other"}, {"embedder": "openai:other"}])
def test_a_model_that_marks_is_in_the_keys_of_what_it_marks(tiny_setup: Experiment, first: dict[str, str]) -> None:
    assert changed_keys(tiny_setup, **first) == {"answers"}


@pytest.mark.parametrize(("measured", "asked"), [("embedded_ranking", "embedder"), ("judged_ranking", "judge")])
def test_a_measure_of_rankings_that_asks_a_model_has_it_in_its_keys(
    tiny_setup: Experiment, measures_that_ask: dict[str, Measure], measured: str, asked: str
) -> None:
    REGISTERED_MEASURES[measured] = measures_that_ask[measured]
    try:
        changed = {role: changed_keys(tiny_setup, **{role: "openai:other"}) for role in ("embedder", "judge")}
    finally:
        del REGISTERED_MEASURES[measured]
    assert changed.pop(asked) == {"answers", "rankings"}
    assert list(changed.values()) == [{"answers"}]


def test_the_generator_is_in_no_key_of_what_comes_before_it(tiny_setup: Experiment) -> None:
    assert changed_keys(tiny_setup, language_model="openai:other") == {"answers"}
