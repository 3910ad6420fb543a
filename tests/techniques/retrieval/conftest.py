from __future__ import annotations

import pytest

from ragsmith.index.entity_graph import EntityGraph, build_graph
from ragsmith.index.index import Index
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.testing import example_chunks


@pytest.fixture
def index() -> Index:
    return Index(none(example_chunks()))


@pytest.fixture(scope="session")
def entity_graph(extractive: ExtractiveModel) -> EntityGraph:
    return build_graph(example_chunks(), extractive)
