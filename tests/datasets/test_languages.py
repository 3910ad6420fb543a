"""Languages of documents come from ``dataset.yaml`` or detection, and affect processing."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_folder import small_dataset
from numpy.typing import NDArray
from passages import PARAGRAPHS, PASSAGES

from ragsmith.api.resources import Resources, warn_unsupported_languages
from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset, make_dataset, validate_dataset, write_dataset
from ragsmith.errors import Notice
from ragsmith.index.index import Corpus, Index
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.text.languages import stem
from ragsmith.types import Dataset, Document, Example, IndexEntry, Span

ENGLISH = f"{PARAGRAPHS['en']} What is paid late has to be paid with interest, as the law has it. " * 3
TABLE = "part: BK-180; price_eur: 38.00; stock: 12\n" * 9


def dataset(*texts: str, language: str | None = None, **languages: str) -> Dataset:
    documents = [Document(f"d{n}", f"d{n}", text) for n, text in enumerate(texts)]
    example = Example("q", "Which?", "That.", "fact", (Span("d0", 0, 5),))
    about = {"name": "n"} | ({"language": language} if language else {})
    return make_dataset(about, documents, [example], languages=languages)


def languages(found: Dataset) -> list[str]:
    return [document.language for document in found.documents]


def test_each_document_is_in_the_language_that_its_text_tells() -> None:
    german, turkish = (" ".join(PASSAGES[code]) for code in ("de", "tr"))
    found = dataset(german, turkish, PASSAGES["zh"][0], TABLE, german + TABLE, ENGLISH)
    assert languages(found) == ["de", "tr", "zh", "de", "de", "en"]
    assert found.language == "de"


def test_tables_alone_are_taken_for_english() -> None:
    assert languages(dataset(TABLE, "1234")) == ["en", "en"]


def test_a_short_document_with_a_foreign_title_is_in_the_language_of_all_others() -> None:
    film = "# Wenn der Vater mit dem Sohne\n\nWenn der Vater mit dem Sohne is a film."
    others = [f"{ENGLISH} {n}" for n in range(10)]
    assert languages(dataset(film, *others)) == ["en"] * 11
    assert languages(dataset(film, others[0])) == ["de", "en"]
    assert languages(dataset(PASSAGES["zh"][0], *others))[0] == "zh", "another script is no matter of doubt"


def test_what_is_said_of_a_language_goes_before_what_a_text_tells() -> None:
    german = " ".join(PASSAGES["de"])
    assert languages(dataset(german, ENGLISH, language="nl")) == ["nl", "nl"]
    assert languages(dataset(german, ENGLISH, language="Dutch", d1="fr")) == ["nl", "fr"]
    assert languages(dataset(german, ENGLISH, d1="fr")) == ["de", "fr"]


def test_a_manifest_names_the_language_of_all_documents_and_of_some(tmp_path: Path) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "dataset.yaml").write_text("name: small\nlanguage: de-AT\nlanguages: {beta: Turkish}\n")
    found = load_dataset(folder)
    assert {document.id: document.language for document in found.documents} == {"alpha": "de", "beta": "tr"}
    assert found.language == "de"


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        (
            "language: Klingon",
            "dataset.yaml:2: a language is a code such as 'en' or 'de' (ISO 639-1), or its English name",
        ),
        ("languages: {beta: '??'}", "dataset.yaml:2: of 'beta': a language is a code such as 'en' or 'de'"),
        ("languages: {gamma: de}", "dataset.yaml:2: 'languages' names a document, but there is no document 'gamma'"),
        ("languages: [de]", "dataset.yaml:2: 'languages' must be languages by document, not a list; write"),
    ],
)
def test_a_language_that_is_none_is_refused(tmp_path: Path, said: str, mistake: str) -> None:
    folder = small_dataset(tmp_path / "small")
    (folder / "dataset.yaml").write_text(f"name: small\n{said}\n")
    [found] = validate_dataset(folder)
    assert found.startswith(mistake)


def test_languages_are_written_and_read_back(tmp_path: Path) -> None:
    before = dataset(" ".join(PASSAGES["de"]), " ".join(PASSAGES["tr"]), TABLE, d2="ja")
    write_dataset(before, tmp_path / "out")
    after = load_dataset(tmp_path / "out")
    assert languages(after) == ["de", "tr", "ja"]
    assert after.digest == before.digest


def test_a_language_is_part_of_the_digest() -> None:
    german = " ".join(PASSAGES["de"])
    assert len({dataset(german, language=code).digest for code in ("de", "en", "nl")}) == 3


def test_chunks_are_in_the_language_of_their_document_and_an_index_searches_in_it() -> None:
    found = dataset(" ".join(PASSAGES["tr"]), " ".join(PASSAGES["de"]), ENGLISH)
    chunks = chunk_documents(found.documents, size=120)
    assert {chunk.doc: chunk.language for chunk in chunks} == {"d0": "tr", "d1": "de", "d2": "en"}
    index = Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks))
    asked = {"filtre temizliği": "Makinenin filtreleri", "Urlaubstag": "Den Angestellten", "landlords": "The tenant"}
    for query, beginning in asked.items():
        [hits] = pickle.loads(pickle.dumps(index)).by_words([query], 1)
        assert hits[0].chunk.text.startswith(beginning)
    english = Index(tuple(IndexEntry((c.text,), replace(c, language="en")) for c in chunks))
    assert len(english.by_words(["filtre temizliği"], 1)[0]) == 0
    assert english.id != index.id
    assert Corpus(found.documents, chunks).id != Corpus(found.documents, [replace(c, language="en") for c in chunks]).id


def test_the_embedded_model_counts_words_in_the_languages_of_its_texts() -> None:
    texts, spoken = [*PASSAGES["tr"], *PASSAGES["de"]], ["tr"] * 4 + ["de"] * 4
    model = ExtractiveModel(texts, WordLlamaEmbedder(), spoken)
    assert model.feedback("filtre temizliği", 1) == (texts[2],)
    assert model.feedback("Urlaubstag", 1) == (texts[5],)
    assert {stem("maschinen", "de"), stem("maschinen", "tr")} == set(model.terms("Maschinen"))
    assert pickle.loads(pickle.dumps(model)).id == model.id
    plain = ExtractiveModel(texts, WordLlamaEmbedder())
    assert plain.feedback("filtre temizliği", 1) == ()
    assert plain.id != model.id
    assert ExtractiveModel(texts, WordLlamaEmbedder(), ["en"] * 8).id == plain.id


class OneOfMany:
    """An embedder that says which languages it knows."""

    id = "one of many"
    languages = frozenset({"de", "tr", "en"})

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return WordLlamaEmbedder().embed(texts)


def test_languages_that_the_embedder_does_not_know_are_said(recwarn: pytest.WarningsRecorder) -> None:
    found = dataset(" ".join(PASSAGES["de"]), " ".join(PASSAGES["tr"]), ENGLISH, f"{ENGLISH} 2", d1="sw")
    with pytest.warns(
        Notice,
        match=r"^of 4 documents 1 in German, 1 in sw: the embedder wordllama supports English only.*pip install "
        r"'ragsmith\[multilingual\]', then --embedder multilingual-e5-small$",
    ):
        warn_unsupported_languages(Resources().setup(found))
    with pytest.warns(
        Notice, match=r"^of 4 documents 1 in sw: the embedder given:.* supports English, German, Turkish only"
    ):
        warn_unsupported_languages(Resources(models={"embedder": OneOfMany()}).setup(found))
    recwarn.clear()
    warn_unsupported_languages(Resources().setup(dataset(ENGLISH)))
    warn_unsupported_languages(Resources().setup("law"))
    assert not recwarn
