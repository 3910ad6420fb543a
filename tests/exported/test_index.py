"""A pipeline with a stored index answers like one that builds it."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragsmith.api.asking import MIN_STORED_CHARACTERS, ask
from ragsmith.api.comparing import evaluate
from ragsmith.datasets.changes import DocumentChanges
from ragsmith.datasets.dataset import load_documents, make_dataset, write_dataset
from ragsmith.errors import Notice, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.exported.index import artifact_cache_for, open_with_index
from ragsmith.exported.pipeline import Pipeline
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.index.index import Corpus
from ragsmith.pipelines.genes import Candidate, configuration, read_configuration
from ragsmith.techniques.families import pre_embedding, retrieval
from ragsmith.techniques.registry import load_techniques
from ragsmith.types import Chunks, Dataset, Document, Example, Modality, Span

load_techniques()

QUESTIONS = ("Who pays the salt dues of the harbour?", "When was the tower wall mended?", "bell")
PLACES = ("Aldham", "Brenwick", "Corsey", "Dunmere", "Eastfold", "Farrow")
FACTS = (
    "The harbour of {0} has levied salt dues since 1402, and the master of {0} collects them.",
    "In {1} the tower wall was mended after the flood of 1620.",
    "The bell of {0} is rung for every ship from {1}.",
    "An oath is sworn at {1} by whoever keeps the bell.",
    "The council of {0} doubled the dues; merchants of {1} complained to the king.",
)


def document(name: str, draw: random.Random) -> Document:
    parts = [draw.choice(FACTS).format(*draw.sample(PLACES, 2)) for _ in range(draw.randint(4, 9))]
    return Document(name, f"Annals of {draw.choice(PLACES)}", "\n\n".join(["# Dues and bells", *parts]))


def collection(documents: dict[str, Document]) -> Dataset:
    return make_dataset({"name": "annals", "language": "en"}, list(documents.values()), [])


def states(seed: int, steps: int = 4) -> list[Dataset]:
    """Collections, one after the other; each adds, changes or removes documents of the one before."""
    draw = random.Random(seed)
    documents = {name: document(name, draw) for name in "abc"}
    found = [collection(documents)]
    for _ in range(steps):
        for _ in range(draw.randint(1, 2)):
            kind = draw.choice(("add", "change", "remove"))
            if kind == "remove" and len(documents) > 1:
                del documents[draw.choice(sorted(documents))]
            else:
                names = sorted(documents) if kind == "change" else [f"new{draw.randint(0, 99)}"]
                name = draw.choice(names)
                documents[name] = document(name, draw)
        found.append(collection(documents))
    return found


def candidate(**techniques: str) -> Candidate:
    plain = {
        "pre_embedding": "none",
        "query_expansion": "none",
        "retrieval": "hybrid",
        "reranking": "none",
        "passage_filter": "top_k",
        "passage_augment": "prev_next",
        "passage_compress": "none",
        "prompt_maker": "listing",
        "post_generation": "none",
    }
    return read_configuration({family: {"technique": name} for family, name in {**plain, **techniques}.items()}, "here")


def pipeline(data: Dataset, chosen: Candidate) -> Pipeline:
    return Pipeline(chosen, Experiment(data, chunk_size=200))


def unfitted(name: str) -> bool:
    return any(gene.unfitted for gene in candidate(retrieval=name))


RETRIEVERS = [name for name in sorted(retrieval.techniques) if not unfitted(name)]


def assert_equal(data: Dataset, chosen: Candidate, shelf: ArtifactCache) -> None:
    kept, plain = pipeline(data, chosen), pipeline(data, chosen)
    open_with_index(kept, shelf)
    entries, expected = (each.engine.index(chosen[0]) for each in (kept, plain))
    assert entries.id == expected.id
    assert entries.entries == expected.entries
    for question in QUESTIONS:
        found, as_ever = kept.run(question), plain.run(question)
        assert found.outputs["query_expansion"].value == as_ever.outputs["query_expansion"].value
        assert found.answer == as_ever.answer


def folder_of(data: Dataset, folder: Path) -> Path:
    """The documents of a data set as files."""
    folder.mkdir()
    for each in data.documents:
        (folder / f"{each.id}.md").write_text(each.text)
    return folder


def winner(folder: Path, documents: Path, **techniques: str) -> Path:
    """The file of a pipeline that was found on the documents in a folder."""
    content = {
        "dataset": {"name": "annals", "documents": documents.name, "digest": load_documents(documents).digest},
        "pipeline": configuration(candidate(**techniques)),
    }
    path = folder / "winner.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("name", RETRIEVERS)
def test_every_retriever_finds_the_same_through_changes(name: str, tmp_path: Path) -> None:
    chosen = candidate(retrieval=name)
    for data in states(seed=len(name)):
        assert_equal(data, chosen, ArtifactCache(tmp_path))
        assert_equal(data, chosen, ArtifactCache(tmp_path))


@pytest.mark.parametrize("name", sorted(pre_embedding.techniques))
def test_every_pre_embedding_makes_the_same_through_changes(name: str, tmp_path: Path) -> None:
    chosen = candidate(pre_embedding=name)
    for data in states(seed=len(name) + 100, steps=2):
        assert_equal(data, chosen, ArtifactCache(tmp_path))
        assert_equal(data, chosen, ArtifactCache(tmp_path))


def test_a_complete_index_is_only_read_the_next_time(tmp_path: Path) -> None:
    data, shelf = states(seed=1, steps=0)[0], ArtifactCache(tmp_path)
    open_with_index(pipeline(data, candidate(retrieval="complete_hybrid", pre_embedding="hype")), shelf, complete=True)
    kinds = {one.key.kind for one in shelf.list_entries()}
    assert kinds == {"documents", "entity graph", "entries", "relations", "vectors", "words"}
    changed = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    again = pipeline(data, candidate(retrieval="complete_hybrid", pre_embedding="hype"))
    open_with_index(again, shelf)
    again.ask(QUESTIONS[0])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")} == changed
    assert again.engine.collection_usage.total().calls == 0


@pytest.mark.parametrize(
    "changed",
    [{"headings": ("Oaths", "Of the bell")}, {"section": 3}, {"modality": Modality.TABLE}, {"title": "Another"}],
    ids=lambda changed: next(iter(changed)),
)
def test_what_models_made_of_chunks_is_not_believed_of_equal_cuts_that_differ(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    data, shelf = states(seed=4, steps=0)[0], ArtifactCache(tmp_path)
    chosen = candidate(retrieval="complete_hybrid", pre_embedding="hype")

    def made(chunks: Chunks) -> dict[str, int]:
        opened = pipeline(data, chosen)
        opened.engine.corpus = Corpus(data.documents, chunks)
        open_with_index(opened, shelf)
        kinds = "entries", "relations", "entity graph"
        return Counter(one.key.kind for one in shelf.list_entries() if one.key.kind in kinds)

    chunks = pipeline(data, chosen).engine.corpus.chunks
    other = tuple(replace(chunk, **changed) for chunk in chunks)
    assert made(chunks) == made(chunks) == {"entries": 1, "relations": 1, "entity graph": 1}
    assert made(other) == made(other) == {"entries": 2, "relations": 2, "entity graph": 2}


def test_a_damaged_index_is_built_anew_with_a_warning(tmp_path: Path) -> None:
    data, shelf = states(seed=2, steps=0)[0], ArtifactCache(tmp_path)
    open_with_index(pipeline(data, candidate()), shelf, complete=True)
    vectors = next(tmp_path.rglob("vectors.npy"))
    content = bytearray(vectors.read_bytes())
    content[-100] ^= 64
    vectors.write_bytes(content)
    with pytest.warns(Notice, match="is damaged and is computed again"):
        assert_equal(data, candidate(), shelf)
    assert_equal(data, candidate(), shelf)


def test_ask_says_how_the_documents_differ(tmp_path: Path) -> None:
    before, *_, after = states(seed=5)
    now, cache = folder_of(after, tmp_path / "now"), tmp_path / "cache.sqlite"
    path = winner(tmp_path, folder_of(before, tmp_path / "then"))
    reply = ask(path, QUESTIONS[0], documents=now, cache=cache)
    texts = [{each.id: each.text for each in data.documents} for data in (before, after)]
    assert reply.changes == DocumentChanges(
        tuple(sorted(texts[1].keys() - texts[0].keys())),
        tuple(sorted(name for name in texts[0].keys() & texts[1].keys() if texts[0][name] != texts[1][name])),
        tuple(sorted(texts[0].keys() - texts[1].keys())),
    )
    assert reply.changes
    assert {source.doc for source in reply.sources} <= texts[1].keys()
    same = ask(path, QUESTIONS[0], documents=tmp_path / "then", cache=cache)
    assert same.changes == DocumentChanges()
    assert ask(path, QUESTIONS[0], cache=cache) == replace(same, changes=None)


def test_how_documents_differ_is_known_after_they_were_replaced(tmp_path: Path) -> None:
    before, *_, after = states(seed=6)
    documents, cache = folder_of(before, tmp_path / "mine"), tmp_path / "cache.sqlite"
    path = winner(tmp_path, documents)
    ask(path, QUESTIONS[0], documents=documents, cache=cache)
    shutil.rmtree(documents)
    folder_of(after, documents)
    known = ask(path, QUESTIONS[0], documents=documents, cache=cache)
    assert known.changes is not None
    assert set(known.changes.added) == {d.id for d in after.documents} - {d.id for d in before.documents}
    assert ask(path, QUESTIONS[0], documents=documents, cache=tmp_path / "other.sqlite").changes is None


def test_asking_a_large_collection_stores_its_index(tmp_path: Path) -> None:
    cache, few = tmp_path / "cache.sqlite", states(seed=8, steps=0)[0]
    small = winner(tmp_path, folder_of(few, tmp_path / "few"))
    ask(small, QUESTIONS[0], cache=cache)
    assert artifact_cache_for(cache).list_entries() == []
    draw = random.Random(9)
    long = Document(
        "long", "long", "\n\n".join(document("x", draw).text for _ in range(1 + MIN_STORED_CHARACTERS // 300))
    )
    many = tmp_path / "many"
    many.mkdir()
    path = winner(many, folder_of(collection({"long": long}), many / "documents"), retrieval="bm25")
    first = ask(path, QUESTIONS[0], cache=cache)
    assert {one.key.kind for one in artifact_cache_for(cache).list_entries()} == {"documents", "words"}
    assert ask(path, QUESTIONS[0], cache=cache) == first


@pytest.mark.parametrize("server", ["postgresql://me@host/db", "postgresql+psycopg://me@host/db"])
def test_the_indexes_of_a_database_server_lie_on_this_machine(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert artifact_cache_for(server).folder == tmp_path / "ragsmith" / "indexes"
    assert artifact_cache_for("sqlite:///here/cache.sqlite").folder == Path("here/cache.sqlite.indexes")
    assert artifact_cache_for(Path("cache.sqlite")).folder == Path("cache.sqlite.indexes")


def test_scores_before_and_after_are_of_the_questions_that_are_still_answered(tmp_path: Path) -> None:
    texts = {
        "harbour": "The harbour of Aldham has levied salt dues since 1402.",
        "tower": "The tower wall of Brenwick was mended after the flood of 1620.",
        "bell": "The bell of Corsey is rung for every ship.",
    }
    asked = {
        "harbour": "Since when are salt dues levied?",
        "tower": "After what was the wall mended?",
        "bell": "When is the bell rung?",
    }
    documents = [Document(name, name, text) for name, text in texts.items()]
    examples = [
        Example(name, question, texts[name], "fact", (Span(name, 0, len(texts[name])),))
        for name, question in asked.items()
    ]
    data = make_dataset({"name": "annals", "language": "en"}, documents, examples)
    write_dataset(data, tmp_path / "annals")
    path = tmp_path / "winner.yaml"
    pipeline_ = configuration(candidate(retrieval="bm25"))
    path.write_text(yaml.safe_dump({"dataset": {"name": "annals", "path": "annals"}, "pipeline": pipeline_}))
    now = tmp_path / "now"
    now.mkdir()
    (now / "harbour.md").write_text(texts["harbour"])
    (now / "tower.md").write_text(f"Of old.\n\n{texts['tower']}")
    (now / "rival.md").write_text("Salt dues are levied. Since when are salt dues levied? Since when?")
    found = evaluate(path, documents=now, cache=tmp_path / "cache.sqlite")
    assert {part: scored.attempted for part, scored in found.parts.items()} == {"before": 2, "after": 2}
    assert found.parts["before"].metrics["mrr"].mean == 1.0
    assert found.parts["after"].metrics["mrr"].mean < 1.0
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "x.md").write_text("Nothing of it.")
    with pytest.raises(UsageError, match="no question of 'annals' has its evidence"):
        evaluate(path, documents=tmp_path / "none", cache=tmp_path / "cache.sqlite")
