from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import Vectors
from ragsmith.techniques.query_expansion.entropy_router import distances, entropy_router, softmax_entropy
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Chunk, Hits, Question

QUESTION = Question("0")


class AngleEmbedder:
    """Gives each text the unit vector at the angle, in degrees, that it spells."""

    id = "angle"

    def embed(self, texts: Sequence[str]) -> Vectors:
        angles = np.radians([float(text) for text in texts])
        return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


def at(*angles: float) -> Hits:
    chunks = tuple(Chunk(f"c{i:02}", "d", i, 0, 1, str(angle)) for i, angle in enumerate(angles))
    return hits_of(chunks, [1 - i / 100 for i in range(len(angles))])


def model() -> ScriptedModel:
    return ScriptedModel({"imagine_passage": ["10"], "broader_question": ["20"]})


def went(search: Any, **parameters: float) -> str:
    asked = model()
    entropy_router(QUESTION, search, language_model=asked, embedder=AngleEmbedder(), **parameters)
    return asked.calls[0].task if asked.calls else "plain"


# --- the entropy -----------------------------------------------------------------------------------------------------


def test_limits_of_the_entropy() -> None:
    assert softmax_entropy([0.7] * 20, 0.05) == pytest.approx(math.log(20))
    assert softmax_entropy([0.1, *[1.9] * 19], 0.02) == 0
    assert softmax_entropy([0.4], 1.0) == 0
    assert softmax_entropy([], 1.0) == 0
    assert softmax_entropy([0.3, 0.3, 3.9], 0.01) == pytest.approx(math.log(2))
    assert math.copysign(1, softmax_entropy([0.4], 1.0)) == 1


@given(st.lists(st.floats(0, 4), min_size=1, max_size=20), st.sampled_from([0.02, 0.05, 1.0]))
@settings(max_examples=80)
def test_the_entropy_is_that_of_the_softmax(values: list[float], temperature: float) -> None:
    p = np.exp(-np.array(values) / temperature)
    if p.sum() > 1e-280:  # below, the textbook formula loses digits
        p = p[p > 0] / p.sum()
        assert softmax_entropy(values, temperature) == pytest.approx(float(-(p * np.log(p)).sum()), abs=1e-8)
    assert 0 <= softmax_entropy(values, temperature) <= math.log(len(values)) + 1e-9
    assert softmax_entropy(values, temperature) <= softmax_entropy(values, 2 * temperature) + 1e-8


def test_distances_are_squared_euclidean() -> None:
    found = distances(QUESTION, at(0, 90, 180, 60), AngleEmbedder())
    assert found == pytest.approx((0.0, 2.0, 4.0, 1.0))
    assert distances(QUESTION, (), AngleEmbedder()) == ()


# --- the routes ------------------------------------------------------------------------------------------------------


def test_one_near_hit_few_and_many(search: Callable[..., Any]) -> None:
    far = [100.0] * 16
    assert went(search(at(1, *far))) == "plain"
    assert went(search(at(*[1.0] * 9, *far))) == "imagine_passage"  # log 9 = 2.2
    assert went(search(at(*[1.0] * 20))) == "broader_question"  # log 20 = 3.0


def test_the_thresholds_are_half_open(search: Callable[..., Any]) -> None:
    two = softmax_entropy([1.0, 1.0], 1.0)
    assert went(search(at(5, 5)), low=two, high=two + 1) == "imagine_passage"
    assert went(search(at(5, 5)), low=0.0, high=two) == "broader_question"


def test_at_the_published_temperature_everything_is_undecided(search: Callable[..., Any]) -> None:
    found = at(*(25 + 2 * i for i in range(20)))  # distances from 0.19 to 1.1, wider than the paper's
    assert went(search(found), temperature=1.0) == "broader_question"
    assert softmax_entropy(distances(QUESTION, found, AngleEmbedder()), 1.0) > 2.9
    assert went(search(found)) != "broader_question"


def test_only_the_nearest_count(search: Callable[..., Any]) -> None:
    assert went(search(at(*[1.0] * 20)), nearest=4) == "plain"


def test_the_plain_hits_are_searched_once_and_cut(search: Callable[..., Any]) -> None:
    results = search(at(1, *[100.0] * 9))
    kept = entropy_router(QUESTION, results, language_model=model(), embedder=AngleEmbedder(), depth=3)
    assert kept == at(1, *[100.0] * 9)[:3]
    assert results.calls == [("0",)]


def test_a_search_without_hits_is_broadened(search: Callable[..., Any]) -> None:
    assert went(search({"20": at(3)})) == "broader_question"
    assert entropy_router(QUESTION, search(()), language_model=model(), embedder=AngleEmbedder()) == ()


def test_wrong_parameters_are_refused(search: Callable[..., Any]) -> None:
    for wrong in ({"temperature": 0.0}, {"low": 3.0}, {"nearest": 0}):
        with pytest.raises(ValueError, match="give a temperature above 0, low up to high"):
            went(search(()), **wrong)


def test_with_the_embedded_embedder(search: Callable[..., Any], hits: Any, embedder: WordLlamaEmbedder) -> None:
    found = hits([1 - i / 10 for i in range(10)])
    values = distances(Question("Who rings the bell?"), found, embedder)
    assert all(0 <= value <= 4 for value in values)
    assert min(values) == values[1]  # the chunk about the bell
