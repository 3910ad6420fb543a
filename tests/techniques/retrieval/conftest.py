import pytest

from ragsmith.index.entity_graph import build_graph
from ragsmith.index.index import Index
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.testing import example_chunks


@pytest.fixture
def index():
    return Index(none(example_chunks()))


@pytest.fixture(scope="session")
def entity_graph(extractive):
    return build_graph(example_chunks(), extractive)
