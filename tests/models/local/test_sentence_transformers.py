"""Bi- and cross-encoders of sentence-transformers, with tiny networks of random weights that the tests make."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ModelError, UsageError
from ragsmith.models.local.networks import allowed_cores, equal_lengths
from ragsmith.models.local.sentence_transformers import SentenceTransformersCrossEncoder, SentenceTransformersEmbedder
from ragsmith.models.local.weights import folder_id

sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs the extra sentence-transformers")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from tiny_networks import WINDOW, save_bi_encoder, save_ranker  # noqa: E402  it needs what may be missing

WORDS = tuple(
    word
    for line in ("the a from at . , :", "ferry leaves quay seven court guilt", "harbour salt bell wall query passage")
    for word in line.split()
)
TEXTS = [
    "the ferry leaves from the quay at seven .",
    "guilt",
    "the court , the court , the court .",
    "a bell at the harbour wall",
    "salt salt salt",
    "the bell at seven from the salt quay leaves a wall of the court harbour",
]
LONG = "the ferry leaves from the quay at seven . " * 4


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bi_encoder(tmp_path_factory.mktemp("tiny"), WORDS)


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_ranker(tmp_path_factory.mktemp("ranker"), WORDS)


@pytest.fixture(scope="module")
def embedder(bi_encoder: Path) -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(str(bi_encoder), device="cpu")


@pytest.fixture(scope="module")
def cross_encoder(ranker: Path) -> SentenceTransformersCrossEncoder:
    return SentenceTransformersCrossEncoder(str(ranker), device="cpu")


# --- bi-encoders -----------------------------------------------------------------------------------------------------


def test_vectors_are_those_of_the_library(embedder: SentenceTransformersEmbedder, bi_encoder: Path) -> None:
    library = sentence_transformers.SentenceTransformer(str(bi_encoder), device="cpu")
    expected = library.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(embedder.embed(TEXTS), expected, atol=1e-5)
    assert (embedder.embed(TEXTS) @ embedder.embed(TEXTS).T)[0, 1] < 0.99  # they do tell texts apart


def test_rows_have_length_one_and_an_empty_text_a_zero_row(embedder: SentenceTransformersEmbedder) -> None:
    vectors = embedder.embed(["", *TEXTS, " \n"])
    assert vectors.dtype == np.float32
    assert vectors.shape == (8, 32)
    assert not vectors[[0, 7]].any()
    np.testing.assert_allclose(np.linalg.norm(vectors[1:7], axis=1), 1.0, atol=1e-6)
    assert embedder.embed([]).shape == (0, 32)
    assert embedder.embed_queries([""]).shape == (1, 32)


@settings(max_examples=15)
@given(order=st.permutations(range(len(TEXTS))), cut=st.integers(1, len(TEXTS)))
def test_a_vector_does_not_depend_on_its_batch(
    embedder: SentenceTransformersEmbedder, order: list[int], cut: int
) -> None:
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    chosen = order[:cut]
    assert embedder.embed([TEXTS[i] for i in chosen]).tobytes() == alone[chosen].tobytes()


def test_threads_get_the_same_vectors(embedder: SentenceTransformersEmbedder, bi_encoder: Path) -> None:
    fresh = SentenceTransformersEmbedder(str(bi_encoder), device="cpu")  # the first use is at the same time, too
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: fresh.embed([LONG, TEXTS[i % 6]])[1], range(48)))
    expected = embedder.embed(TEXTS)
    assert all(found[i].tobytes() == expected[i % 6].tobytes() for i in range(48))
    assert fresh.truncated == 48


def test_filled_up_batches_give_the_same_vectors_but_for_rounding(bi_encoder: Path) -> None:
    four = SentenceTransformersEmbedder(str(bi_encoder), device="cpu", batch_size=4)
    expected = SentenceTransformersEmbedder(str(bi_encoder), device="cpu").embed(TEXTS)
    np.testing.assert_allclose(four.embed(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(four.embed(TEXTS[::-1]), expected[::-1], atol=1e-6)


def test_prefixes_precede_queries_and_documents(embedder: SentenceTransformersEmbedder, bi_encoder: Path) -> None:
    asymmetric = SentenceTransformersEmbedder(
        str(bi_encoder), device="cpu", query_prefix="query : ", document_prefix="passage : "
    )
    [text, *_] = TEXTS
    assert asymmetric.embed_queries([text]).tobytes() == embedder.embed([f"query : {text}"]).tobytes()
    assert asymmetric.embed([text]).tobytes() == embedder.embed([f"passage : {text}"]).tobytes()
    assert not asymmetric.embed(["", " "]).any()
    assert embedder.embed_queries([text]).tobytes() == embedder.embed([text]).tobytes()
    assert asymmetric.id != embedder.id


def test_the_models_own_prompts_are_used_unless_prefixes_are_given(
    embedder: SentenceTransformersEmbedder, bi_encoder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(bi_encoder, tmp_path / "prompted")
    config = folder / "config_sentence_transformers.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"prompts": {"query": "query : ", "document": ""}}))
    prompted = SentenceTransformersEmbedder(str(folder), device="cpu")
    assert prompted.embed_queries(["salt"]).tobytes() == embedder.embed(["query : salt"]).tobytes()
    assert prompted.embed(["salt"]).tobytes() == embedder.embed(["salt"]).tobytes()
    plain = SentenceTransformersEmbedder(str(folder), device="cpu", query_prefix="")
    assert plain.embed_queries(["salt"]).tobytes() == embedder.embed(["salt"]).tobytes()


def test_texts_that_are_cut_are_counted(bi_encoder: Path) -> None:
    embedder = SentenceTransformersEmbedder(str(bi_encoder), device="cpu")
    assert embedder.truncated == 0
    fits = " ".join(["salt"] * (WINDOW - 2))  # besides [CLS] and [SEP]
    embedder.embed([fits])
    assert embedder.truncated == 0
    long, cut = embedder.embed([LONG, f"{fits} salt bell"])
    assert embedder.truncated == 2
    assert cut.tobytes() == embedder.embed([fits])[0].tobytes()
    assert long.tobytes() == embedder.embed([LONG + LONG])[0].tobytes()


def test_a_shorter_window_can_be_asked_for_and_no_impossible_one(bi_encoder: Path) -> None:
    short = SentenceTransformersEmbedder(str(bi_encoder), device="cpu", context_window=5)
    same = short.embed(["salt bell wall", "salt bell wall court"])
    assert same[0].tobytes() == same[1].tobytes()
    assert short.truncated == 1
    with pytest.raises(UsageError, match="context_window is 99, but the model has 32 positions"):
        SentenceTransformersEmbedder(str(bi_encoder), device="cpu", context_window=99).embed(["salt"])


def test_what_is_not_finite_is_an_error(bi_encoder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(bi_encoder, tmp_path / "broken")
    from safetensors.numpy import load_file, save_file  # noqa: PLC0415

    [file] = folder.rglob("model.safetensors")
    weights = load_file(file)
    name = next(name for name in weights if "word_embeddings" in name)
    weights[name] = weights[name].copy()
    weights[name][5 + WORDS.index("guilt")] = np.nan
    save_file(weights, file, metadata={"format": "pt"})
    broken = SentenceTransformersEmbedder(str(folder), device="cpu")
    assert broken.embed(["salt"]).any()
    with pytest.raises(ModelError, match="values that are not finite for the text that begins 'the guilt'"):
        broken.embed(["salt", "the guilt"])


# --- cross-encoders --------------------------------------------------------------------------------------------------


def test_scores_are_the_logits_of_the_library(cross_encoder: SentenceTransformersCrossEncoder, ranker: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(ranker)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(ranker).eval()
    with torch.no_grad():
        pairs = tokenizer(["salt"] * len(TEXTS), TEXTS, padding=True, return_tensors="pt")
        expected = network(**pairs).logits[:, 0].numpy()
    scores = cross_encoder.score("salt", TEXTS)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(set(scores)) == len(TEXTS)
    assert min(scores) < 0 or max(scores) > 1  # no sigmoid
    assert all(type(score) is float and score == round(score, 6) for score in scores)
    assert cross_encoder.score("salt", []) == ()


@settings(max_examples=10)
@given(order=st.permutations(range(len(TEXTS))))
def test_a_score_does_not_depend_on_its_batch(
    cross_encoder: SentenceTransformersCrossEncoder, order: list[int]
) -> None:
    alone = [cross_encoder.score("the bell", [text])[0] for text in TEXTS]
    assert cross_encoder.score("the bell", [TEXTS[i] for i in order]) == tuple(alone[i] for i in order)


def test_a_pair_that_is_too_long_loses_the_end_of_its_longer_side(ranker: Path) -> None:
    scorer = SentenceTransformersCrossEncoder(str(ranker), device="cpu")
    room = WINDOW - 3 - 2  # besides [CLS], two [SEP] and a query of two words
    text = " ".join((WORDS * 3)[:room])
    [fits] = scorer.score("salt bell", [text])
    assert scorer.truncated == 0
    assert scorer.score("salt bell", [text + " quay wall"]) == (fits,)
    assert scorer.truncated == 1


def test_a_classifier_is_no_reranker(tmp_path: Path) -> None:
    folder = save_ranker(tmp_path / "classes", WORDS, outputs=3)
    with pytest.raises(UsageError, match="has 3 outputs: give a reranker"):
        SentenceTransformersCrossEncoder(str(folder), device="cpu").score("salt", ["bell"])


# --- identity, other processes, errors -------------------------------------------------------------------------------


def test_identity_is_the_contents_and_never_the_path(bi_encoder: Path, tmp_path: Path) -> None:
    def identity(folder: Path, **options: int | str) -> str:
        return SentenceTransformersEmbedder(str(folder), device="cpu", **options).id  # type: ignore[arg-type]

    copy = shutil.copytree(bi_encoder, tmp_path / "copy")
    (copy / "README.md").write_text("another description")
    assert identity(copy) == identity(bi_encoder)
    assert str(tmp_path) not in identity(copy)
    assert "copy" not in identity(copy)
    variants = [
        identity(copy, **options)
        for options in ({}, {"dtype": "float32"}, {"context_window": 9}, {"query_prefix": "q"})
    ]
    assert len(set(variants)) == len(variants)
    assert identity(copy, batch_size=8) == identity(copy)
    (copy / "config.json").write_text((copy / "config.json").read_text() + " ")
    assert identity(copy) != identity(bi_encoder)
    assert folder_id(copy) in identity(copy)


def test_they_travel_to_another_process_as_their_parameters(
    embedder: SentenceTransformersEmbedder, cross_encoder: SentenceTransformersCrossEncoder
) -> None:
    for model in (embedder, cross_encoder):
        assert len(pickle.dumps(model)) < 2000
    again = pickle.loads(pickle.dumps(embedder))
    assert again.id == embedder.id
    assert again.embed(TEXTS).tobytes() == embedder.embed(TEXTS).tobytes()
    scorer = pickle.loads(pickle.dumps(cross_encoder))
    assert scorer.id == cross_encoder.id
    assert scorer.score("salt", TEXTS) == cross_encoder.score("salt", TEXTS)


REPOSITORY = """
import pickle, sys
from ragsmith.models.local.sentence_transformers import SentenceTransformersEmbedder
embedder = SentenceTransformersEmbedder("owner/tiny", device="cpu")
assert "SentenceTransformersEmbedder:owner/tiny@" + "c" * 40 + ":" in embedder.id, embedder.id
assert "torch" not in sys.modules
sys.stdout.buffer.write(pickle.loads(pickle.dumps(embedder)).embed(["the salt bell"]).tobytes())
"""


def test_a_repository_is_pinned_to_its_commit_and_read_from_the_hubs_cache(
    embedder: SentenceTransformersEmbedder, bi_encoder: Path, tmp_path: Path
) -> None:
    repository = tmp_path / "hub" / "models--owner--tiny"
    shutil.copytree(bi_encoder, repository / "snapshots" / ("c" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c" * 40)
    # one thread, as in a worker process: the same bits as with all cores
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", REPOSITORY], env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == embedder.embed(["the salt bell"]).tobytes()
    assert b"Loading weights" not in done.stderr


def test_errors_are_one_sentence(tmp_path: Path, bi_encoder: Path) -> None:
    def message(model: str | Path, **options: object) -> str:
        with pytest.raises(UsageError) as caught:
            SentenceTransformersEmbedder(str(model), **options).embed(["salt"])  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "give a folder, or owner/name" in message(tmp_path / "none")
    assert "is a folder and has no revision" in message(bi_encoder, revision="main")
    assert "cannot be loaded" in message(bi_encoder, device="no-such-device")
    (tmp_path / "empty").mkdir()
    assert "cannot be loaded" in message(tmp_path / "empty", device="cpu")


# --- fixed shapes ----------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), max_size=40), st.integers(1, 5))
def test_batches_have_one_length_each_and_hold_every_position_once(lengths: list[int], rows: int) -> None:
    batches = equal_lengths(lengths, rows)
    assert sorted(position for batch in batches for position in batch) == list(range(len(lengths)))
    assert all(len(batch) <= rows and len({lengths[i] for i in batch}) == 1 for batch in batches)
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)


def test_half_precision_is_near_and_has_an_identity_of_its_own(
    embedder: SentenceTransformersEmbedder, bi_encoder: Path
) -> None:
    half = SentenceTransformersEmbedder(str(bi_encoder), device="cpu", dtype="bfloat16")
    vectors = half.embed(TEXTS)
    assert vectors.dtype == np.float32
    cosines = (vectors * embedder.embed(TEXTS)).sum(axis=1)
    assert ((cosines > 0.99) & (cosines < 1 + 1e-6)).all()
    assert half.embed(TEXTS[::-1]).tobytes() == vectors[::-1].tobytes()
    assert half.id != embedder.id


def test_cores_follow_the_variable_that_evaluations_in_processes_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert allowed_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert allowed_cores() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert allowed_cores() == (os.cpu_count() or 1)
