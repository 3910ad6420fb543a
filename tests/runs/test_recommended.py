"""A pipeline for documents without questions: from a folder to a file that can be asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ragsmith
from ragsmith.datasets.overlap import sample_shingles
from ragsmith.datasets.splits import split
from ragsmith.effects import ModelClasses, prior_for, profile_corpus
from ragsmith.effects.knowledge import read_effects
from ragsmith.errors import DatasetError, SpaceError, UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import Gene
from ragsmith.pipelines.space import Space
from ragsmith.runs.recommended import prior_for_search, recommend

PROSE = (
    "# {0}\n\nThe {0} is kept in the shed and not in the house. It was made by a smith in the village for the mill.\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "our notes"
    documents.mkdir()
    for thing in ("hammer", "anvil", "bellows"):
        (documents / f"{thing}.md").write_text(PROSE.format(thing))
    return documents


@pytest.mark.parametrize("inner", ["", "documents"])
def test_a_folder_of_documents_gets_a_pipeline_that_answers(folder: Path, tmp_path: Path, inner: str) -> None:
    if inner:
        (folder / inner).mkdir()
        for file in folder.glob("*.md"):
            file.rename(folder / inner / file.name)
    file = tmp_path / "files" / "winner.yaml"
    found = ragsmith.recommend(folder, calls=1, output=file)
    assert found.chosen.calls == 1
    assert found.corpus.kind == "prose"
    assert "documents: ../our notes" in file.read_text()
    reply = ragsmith.ask(file, "Where is the anvil kept?")
    assert reply.sources[0].doc == "anvil"
    assert ragsmith.Pipeline.load(file).candidate == found.chosen.candidate


def test_there_is_nothing_to_verify_or_to_score_by(folder: Path, tmp_path: Path) -> None:
    ragsmith.recommend(folder, output=tmp_path / "winner.yaml")
    with pytest.raises(UsageError, match="there is nothing to verify, as the file has no expected scores"):
        ragsmith.verify(tmp_path / "winner.yaml")
    with pytest.raises(UsageError, match="has no questions to score by: dataset must name a data set that has some"):
        ragsmith.evaluate(tmp_path / "winner.yaml", cache=tmp_path / "cache.sqlite")


def test_it_is_scored_on_a_data_set_that_has_questions(folder: Path, tiny_folder: Path, tmp_path: Path) -> None:
    ragsmith.recommend(folder, calls=1, output=tmp_path / "winner.yaml")
    scores = ragsmith.evaluate(tmp_path / "winner.yaml", dataset=tiny_folder, cache=tmp_path / "cache.sqlite")
    assert scores.parts["all"].scored == 24


def test_changed_documents_are_refused(folder: Path, tmp_path: Path) -> None:
    ragsmith.recommend(folder, output=tmp_path / "winner.yaml")
    (folder / "tongs.md").write_text(PROSE.format("tongs"))
    with pytest.raises(SpaceError, match="its documents or questions changed"):
        ragsmith.ask(tmp_path / "winner.yaml", "Where is the anvil kept?")


def test_a_bundled_data_set_is_named_and_what_was_learned_on_it_is_left_out(tmp_path: Path) -> None:
    found = ragsmith.recommend("law", output=tmp_path / "winner.yaml")
    assert found.left_out == ("law",)
    assert "law" not in found.learned_on
    assert "bundled: law" in (tmp_path / "winner.yaml").read_text()


def test_the_documents_of_a_data_set_are_recognised_without_its_questions(tmp_path: Path) -> None:
    data = ragsmith.load_dataset("law")
    for document in data.documents:
        (tmp_path / f"{document.id}.md").write_text(document.text)
    assert ragsmith.recommend(tmp_path).left_out == ("law",)


def test_what_cannot_be_read_is_listed(folder: Path) -> None:
    (folder / "page.html").write_text("<p>Hello</p>")
    (folder / "more").symlink_to("/etc")
    with pytest.raises(DatasetError) as caught:
        ragsmith.recommend(folder)
    page, more = caught.value.mistakes
    assert page.startswith(f"page.html cannot be read as it is: `ragsmith dataset init '{folder}' -o DIR` converts")
    assert more == "more: is a symbolic link, which is not followed; put the folder itself here"


def test_without_a_reranker_none_is_named(folder: Path) -> None:
    found = ragsmith.recommend(folder, models={"cross_encoder": "none"})
    assert all("cross_encoder" not in gene.technique.tools.values() for one in found.classes for gene in one.candidate)


def test_what_ships_was_learned_on_the_bundled_data_sets_as_they_are() -> None:
    known = read_effects()
    assert len(known.observed) >= 4
    for name in ("law", "workshop"):
        data = ragsmith.load_dataset(name)
        assert any(one.digest == data.digest for one in known.observed), f"{name} has changed: learn effects again"


def test_a_search_expects_of_pipelines_what_other_data_sets_taught() -> None:
    space, law = ragsmith.load_space("default"), Experiment(ragsmith.load_dataset("law"))
    prior = prior_for_search(law, space, Fitness())
    assert prior is not None
    genomes = prior.genomes([baseline("naive"), baseline("bm25")])
    (naive, bm25), (unsure, sure) = prior.predict_genomes(genomes)
    assert naive < bm25 == 0.0 == sure < unsure
    others = read_effects().without(sample_shingles(law.dataset.documents))
    assert len(others.observed) == len(read_effects().observed) - 1
    corpus = profile_corpus(law.dataset.documents, split(law.dataset).search)
    again = prior_for(space, others, corpus, ModelClasses())
    assert again.predict_genomes(again.genomes([baseline("naive")]))[0] == pytest.approx([naive])


def test_no_option_is_recommended_that_is_for_fewer_chunks(tiny_setup: Experiment, space: Space) -> None:
    chunks = len(tiny_setup.corpus.chunks)
    knowledge = read_effects()
    best = recommend(tiny_setup, space, knowledge, most_calls=None).chosen.candidate

    def for_at_most(gene: Gene, most: int) -> Gene:
        return replace(gene, technique=replace(gene.technique, most_chunks=most)) if gene in best[2:3] else gene

    for most, allowed in ((chunks, True), (chunks - 1, False)):
        limited = tuple(tuple(for_at_most(gene, most) for gene in genes) for genes in space.options)
        found = recommend(tiny_setup, replace(space, options=limited), knowledge, most_calls=None)
        assert {one.candidate[2].technique.name == best[2].technique.name for one in found.classes} == {allowed}
