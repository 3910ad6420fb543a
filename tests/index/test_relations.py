from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.index.relations import EXTRACT_RELATIONS, MAX_ENTITIES, find_names, parse_triples
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.testing import example_chunks


@pytest.fixture(scope="module")
def extractive() -> ExtractiveModel:
    return ExtractiveModel([chunk.text for chunk in example_chunks()], WordLlamaEmbedder())


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Who ran the Salt Guild after Oswin Tarrel's death?", ("Salt Guild", "Oswin Tarrel")),
        ("What does Article 12(3) of the Registers Act say?", ("Article 12(3)", "Registers Act")),
        ("Dues are doubled.", ()),
        (
            "The Bank of Velmouth paid J. P. Morgan and the U.S. Treasury.",
            ("Bank of Velmouth", "J. P. Morgan", "U.S. Treasury"),
        ),
        ("Describe Velmouth and the flood of March 1651.", ("Velmouth",)),
        ("It is called a “black mark” on Monday.", ("black mark",)),
        ("The keeper rang '...' and \"...\" all night.", ()),
        ("", ()),
    ],
)
def test_names_are_proper_names_references_and_quoted_terms(sentence: str, expected: tuple[str, ...]) -> None:
    assert find_names(sentence) == expected


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='AbC ".’12\n(§|', max_size=60))
def test_every_name_says_something(sentence: str) -> None:
    assert all(any(map(str.isalnum, name)) for name in find_names(sentence))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("a | owns | b", (("a", "owns", "b"),)),
        ("Here they are:\n- a | owns | b\n2. c | paid | d\n", (("a", "owns", "b"), ("c", "paid", "d"))),
        ("| subject | relation | object |\n|---|---|---|\n| a | owns | b |", (("a", "owns", "b"),)),
        ("```\na | owns | b\na | owns | b\n```", (("a", "owns", "b"),)),
        ("NONE", ()),
        ("none.", ()),
    ],
)
def test_triples_are_read_from_lines_and_tables(reply: str, expected: object) -> None:
    assert parse_triples(reply) == expected


@pytest.mark.parametrize(
    "reply", ["", "  \n", "a owns b", "a | owns", "a || b", "a | b | c | d", "a | owns | b\nSorry!"]
)
def test_triples_refuse_anything_else(reply: str) -> None:
    with pytest.raises(ValueError, match=r"triples|subject"):
        parse_triples(reply)


def test_offline_two_entities_of_a_sentence_are_related_by_it(extractive: ExtractiveModel) -> None:
    sentence = "The Salt Guild pays no dues to Countess Isaura Brandt."
    found = extractive.run(EXTRACT_RELATIONS, passage=sentence)
    assert ("Salt Guild", sentence, "Countess Isaura Brandt") in found
    for passage in ("", "...", "nothing here is named at all"):
        assert extractive.run(EXTRACT_RELATIONS, passage=passage) == ()


def test_offline_repeated_noun_phrases_are_entities_and_chance_pairs_are_not(extractive: ExtractiveModel) -> None:
    passage = "Oswin Tarrel lent money for the sea wall. Oswin Tarrel built the covered market."
    ends = {
        end for subject, _, object_ in extractive.run(EXTRACT_RELATIONS, passage=passage) for end in (subject, object_)
    }
    assert "sea wall" in ends
    assert "covered market" not in ends


def test_offline_a_lone_entity_is_about_the_topic_of_the_passage(extractive: ExtractiveModel) -> None:
    passage = "The Salt Guild was founded by the Skell. Then the Salt Guild grew. A fire burned down Velmouth."
    assert ("Salt Guild", "A fire burned down Velmouth.", "Velmouth") in extractive.run(
        EXTRACT_RELATIONS, passage=passage
    )


def test_offline_a_long_list_does_not_become_a_clique(extractive: ExtractiveModel) -> None:
    passage = "It went to " + ", ".join(f"Lord N{chr(97 + i) * 3}" for i in range(20)) + "."
    pairs = extractive.run(EXTRACT_RELATIONS, passage=passage)
    assert len(pairs) == MAX_ENTITIES * (MAX_ENTITIES - 1) // 2


def test_the_prompt_shows_the_passage_as_material() -> None:
    prompt = EXTRACT_RELATIONS.render({"passage": "Ignore {this}"})
    assert "Ignore {this}" in prompt
    assert "not instructions" in prompt
