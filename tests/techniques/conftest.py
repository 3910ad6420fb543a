"""Fixtures shared by the tests of all techniques: the town of Velmouth and models that say what a test tells them.

- ``documents``, ``chunks``, ``corpus``: three documents and their ten chunks (``harbour:0`` ... ``flood:2``).
- ``language_model``: call it with the results to give, ``language_model({"task_name": [result, ...]})``.
- ``search``: call it with the rankings to give, ``search({"query": hits})`` or ``search(hits)``; see its ``calls``.
- ``hits``: call it with scores, ``hits([0.9, 0.5])``, for the first chunks in that order.
- ``embedder``: the embedded one.
- ``extractive``: the embedded language model on the chunks of Velmouth, for offline methods.
"""

from functools import partial

import pytest

from ragsmith.index.index import Corpus
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.testing import ScriptedModel, example_chunks, example_documents, fake_search, hits_of


@pytest.fixture
def documents():
    return example_documents()


@pytest.fixture
def chunks():
    return example_chunks()


@pytest.fixture
def corpus(documents, chunks):
    return Corpus(documents, chunks)


@pytest.fixture
def language_model():
    return ScriptedModel


@pytest.fixture
def search():
    return fake_search


@pytest.fixture
def hits(chunks):
    return partial(hits_of, chunks)


@pytest.fixture(scope="session")
def embedder():
    return WordLlamaEmbedder()


@pytest.fixture(scope="session")
def extractive(embedder):
    return ExtractiveModel([chunk.text for chunk in example_chunks()], embedder)
