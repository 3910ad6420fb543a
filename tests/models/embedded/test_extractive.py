import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Task, parse_text

TEXTS = (
    "A trade secret is information with economic value. Employers protect it by contracts.",
    "Copyright protects original works of authors. It lasts for decades.",
    "A mediator is neutral. The mediator helps parties to settle a dispute.",
    "The limitation period starts with the damage. Courts may suspend the period.",
)
QUESTION = "How long does copyright last?"


@pytest.fixture(scope="module")
def model(embedder: WordLlamaEmbedder) -> ExtractiveModel:
    return ExtractiveModel(TEXTS, embedder)


def everything(model: ExtractiveModel, question: str, passages: Sequence[str]) -> list[object]:
    """One result of every method."""
    sentences = [sentence for passage in passages for sentence in model.sentences(passage)]
    return [
        sentences,
        model.terms(question),
        [model.idf(term) for term in model.terms(question)],
        model.relevance(question, sentences).tolist(),
        model.similarity(question, passages[0]),
        model.select(question, sentences, 4),
        model.feedback(question, 3),
        model.expansion_terms(question, 6),
        [model.related(word, 4) for word in question.split()],
    ]


def answer_offline(model: ExtractiveModel, *, sample: int, question: str, passages: tuple[str, ...]) -> str:
    sentences = [sentence for passage in passages for sentence in model.sentences(passage)]
    return sentences[model.select(question, sentences, sample + 1)[sample]]


def test_it_performs_a_task_by_its_classical_method(model: ExtractiveModel) -> None:
    task = Task(name="answer", prompt="{question} {passages}", parse=parse_text, offline=answer_offline)
    worker: LanguageModel = model
    assert worker.run(task, question=QUESTION, passages=TEXTS) == "Copyright protects original works of authors."
    assert worker.run(task, sample=1, question=QUESTION, passages=TEXTS) != worker.run(
        task, question=QUESTION, passages=TEXTS
    )


def test_an_empty_corpus_answers_everything_with_nothing(embedder: WordLlamaEmbedder) -> None:
    empty = ExtractiveModel((), embedder)
    assert empty.feedback(QUESTION, 3) == empty.expansion_terms(QUESTION, 3) == empty.related("court", 3) == ()
    assert empty.relevance("court", ["court"]).tolist() == [1.0]


def test_identity_covers_code_corpus_and_embedder(embedder: WordLlamaEmbedder, word_vectors, model) -> None:
    provider, code, corpus = model.id.split(":")
    assert provider == "extractive"
    assert (len(code), len(corpus)) == (16, 32)
    assert model.id == ExtractiveModel(TEXTS, embedder).id
    assert model.id != ExtractiveModel(TEXTS[:3], embedder).id
    assert model.id != ExtractiveModel(TEXTS, word_vectors({"court": [1.0]})).id


def test_it_travels_to_another_process(model: ExtractiveModel) -> None:
    copy = pickle.loads(pickle.dumps(model))
    assert copy.id == model.id
    assert everything(copy, QUESTION, TEXTS) == everything(model, QUESTION, TEXTS)


def test_threads_get_what_one_thread_gets(embedder: WordLlamaEmbedder) -> None:
    questions = [QUESTION, "Who helps parties?", "What starts the limitation period?", "secret value"] * 8
    shared, alone = ExtractiveModel(TEXTS, embedder), ExtractiveModel(TEXTS, embedder)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda question: everything(shared, question, TEXTS), questions))
    assert together == [everything(alone, question, TEXTS) for question in questions]


SCRIPT = """
import json, sys
from test_extractive import QUESTION, TEXTS, everything
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
print(json.dumps(everything(ExtractiveModel(TEXTS, WordLlamaEmbedder()), QUESTION, TEXTS)))
"""


@pytest.mark.processes
def test_results_do_not_depend_on_the_hash_seed_or_on_threads_of_the_blas(model: ExtractiveModel) -> None:
    here = json.loads(json.dumps(everything(model, QUESTION, TEXTS)))
    root = Path(__file__).resolve().parents[3]
    paths = os.pathsep.join([str(root), str(Path(__file__).parent)])
    for seed, threads in (("1", "1"), ("2", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": paths}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True, text=True
        )
        assert json.loads(run.stdout) == here
