"""How a function becomes a technique: names, tools, parameters, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from ragsmith.errors import SpaceError
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
from ragsmith.plugins import Count, Range, Share
from ragsmith.techniques.families import FAMILIES, passage_filter, reranking
from ragsmith.techniques.registry import Family, Technique, load_techniques
from ragsmith.types import Hits, Question


def shuffle(
    question: Question,
    hits: Hits,
    *,
    language_model: LanguageModel,
    cross_encoder: CrossEncoder,
    embedder: Embedder,
    entity_graph: EntityGraph,
    depth: Count = 20,
    weight: Share = 0.5,
    shift: float = 0.0,
    how: str = "rrf",
    keep: bool = False,
) -> Hits:
    """Put hits in another order.

    And more about it.
    """
    return hits


def test_techniques_of_a_paper_without_a_link_name_that_paper() -> None:
    load_techniques()
    title = "Beyond the Reranker"
    everything = [one for family in FAMILIES for one in family.techniques.values()]
    headings = {one.name: (sys.modules[one.fn.__module__].__doc__ or "").splitlines()[0] for one in everything}
    named = {one.name for one in everything if title in headings[one.name]}
    assert named
    assert {one.name for one in everything if one.name in named and title in one.paper} == named


@pytest.fixture
def technique(registered: Callable[..., Technique]) -> Technique:
    return registered(reranking, shuffle, how=("rrf", "convex"), depth=(10, 20))


def test_everything_is_read_from_the_function(technique: Technique) -> None:
    assert (technique.family, technique.name) == ("reranking", "shuffle")
    assert technique.summary == "Put hits in another order."
    assert technique.paper == "https://example.org"
    assert list(technique.tools.items()) == [
        ("language_model", "language_model"),
        ("cross_encoder", "cross_encoder"),
        ("embedder", "embedder"),
        ("entity_graph", "entity_graph"),
    ]
    assert technique.defaults == {"depth": 20, "weight": 0.5, "shift": 0.0, "how": "rrf", "keep": False}
    assert technique.ranges == {"depth": Range(1), "weight": Range(0, 1)}


def test_a_decorated_function_is_still_the_function(technique: Technique) -> None:
    assert technique.fn is shuffle


def test_a_name_is_registered_once(technique: Technique) -> None:
    with pytest.raises(ValueError, match=r"reranking\.shuffle is registered twice"):
        reranking(paper="https://example.org")(shuffle)


def test_the_same_name_may_stand_in_two_families() -> None:
    with_none = [family for family in FAMILIES if "none" in family.techniques]
    assert len(with_none) >= 6
    assert len({family["none"].fn for family in with_none}) == len(with_none)


def test_an_unknown_technique_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SpaceError) as raised:
        passage_filter["topk"]
    message = str(raised.value)
    assert "passage_filter" in message
    assert "did you mean 'top_k'" in message
    assert "similarity_threshold" in message


def test_defaults_are_applied_and_whole_numbers_become_floats_where_floats_are_meant(technique: Technique) -> None:
    assert technique.resolve_parameters({}) == technique.defaults
    resolved = technique.resolve_parameters({"weight": 1, "depth": 5, "keep": True})
    assert resolved == {"depth": 5, "weight": 1.0, "shift": 0.0, "how": "rrf", "keep": True}
    assert isinstance(resolved["weight"], float)
    assert list(resolved) == list(technique.defaults)


def test_a_number_outside_the_suggested_choices_is_allowed(technique: Technique) -> None:
    assert technique.resolve_parameters({"depth": 17})["depth"] == 17
    assert technique.resolve_parameters({"shift": -3})["shift"] == -3.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dept": 5}, "reranking.shuffle has no parameter 'dept': did you mean 'depth'?"),
        ({"language_model": "gpt"}, "has no parameter 'language_model'"),
        ({"question": "x"}, "has no parameter 'question'"),
        ({"depth": "5"}, "depth must be a whole number like 20, not '5'"),
        ({"depth": 5.0}, "depth must be a whole number like 20, not 5.0"),
        ({"depth": True}, "depth must be a whole number like 20, not True"),
        ({"depth": None}, "depth must be a whole number like 20, not None"),
        ({"weight": "high"}, "weight must be a number like 0.5, not 'high'"),
        ({"weight": False}, "weight must be a number like 0.5, not False"),
        ({"weight": 1.5}, "weight must be a number from 0 to 1, not 1.5"),
        ({"weight": float("nan")}, "weight must be a number from 0 to 1, not nan"),
        ({"depth": 0}, "depth must be a whole number from 1 on, not 0"),
        ({"shift": float("inf")}, "shift must be a number that is finite, not inf"),
        ({"keep": 1}, "keep must be true or false like False, not 1"),
        ({"how": 3}, "how must be a word like 'rrf', not 3"),
        ({"how": "borda"}, "how must be one of 'rrf', 'convex', not 'borda'"),
        ({"how": ["rrf"]}, "how must be a word like 'rrf', not ['rrf']"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_sentence(
    technique: Technique, given: dict[str, object], said: str
) -> None:
    with pytest.raises(SpaceError) as raised:
        technique.resolve_parameters(given, "space.yaml:7")
    message = str(raised.value)
    assert said in message
    assert message.startswith("space.yaml:7: ")
    assert "\n" not in message


def test_loading_again_changes_nothing() -> None:
    before = {family.name: dict(family.techniques) for family in FAMILIES}
    load_techniques()
    assert {family.name: dict(family.techniques) for family in FAMILIES} == before


def test_a_family_is_registered_in_pipeline_order() -> None:
    assert [family.name for family in FAMILIES] == [
        "pre_embedding",
        "query_expansion",
        "retrieval",
        "reranking",
        "passage_filter",
        "passage_augment",
        "passage_compress",
        "prompt_maker",
        "post_generation",
    ]
    assert [family.tier for family in FAMILIES[:3]] == ["collection", "question", "search"]


def test_techniques_can_be_registered_in_a_family_of_one_s_own() -> None:
    family: Family[Callable[[str], str]] = Family("tests", ("text",), "text", "for a test")

    @family()
    def upper(text: str, *, twice: bool = False) -> str:
        """Shout."""
        return text.upper() * (1 + twice)

    assert family["upper"].defaults == {"twice": False}
    assert family["upper"].tools == {}
    assert family["upper"].paper == ""
    assert family["upper"].fn("a", twice=True) == "AA"
