from dataclasses import replace

import pytest

from ragsmith.techniques.pre_embedding.contextual_chunk_headers import (
    MAX_HEADER_CHARACTERS,
    WRITE_HEADER,
    contextual_chunk_headers,
    parse_header,
)
from ragsmith.testing import ScriptedModel


def test_headings_come_from_the_document_without_a_call(chunks):
    model = ScriptedModel()
    entries = contextual_chunk_headers(chunks, language_model=model)
    assert entries[1].keys == (f"The harbour of Velmouth > The bell\n\n{chunks[1].text}",)
    assert entries[0].keys == (f"The harbour of Velmouth\n\n{chunks[0].text}",)
    assert model.calls == []


def test_only_the_key_changes_never_what_is_read(chunks):
    assert tuple(entry.chunk for entry in contextual_chunk_headers(chunks, language_model=ScriptedModel())) == chunks


def test_a_heading_that_repeats_the_title_stands_once(chunks):
    chunk = replace(chunks[0], title="Dues", headings=("Dues", "Paying"))
    (entry,) = contextual_chunk_headers((chunk,), language_model=ScriptedModel())
    assert entry.keys[0].startswith("Dues > Paying\n\n")


def test_without_title_and_headings_the_key_is_the_text(chunks):
    chunk = replace(chunks[0], title="", headings=())
    assert contextual_chunk_headers((chunk,), language_model=ScriptedModel())[0].keys == (chunk.text,)


def test_a_language_model_adds_a_header_below_the_headings(chunks):
    model = ScriptedModel({"write_header": ["Who rings the bell", "Dues of the guild"]})
    entries = contextual_chunk_headers(chunks[1:3], language_model=model, source="language_model")
    assert entries[0].keys[0].startswith("The harbour of Velmouth > The bell > Who rings the bell\n\n")
    assert model.count("write_header") == 2
    assert model.calls[0].inputs == {"passage": chunks[1].text, "place": "The harbour of Velmouth > The bell"}


@pytest.mark.parametrize(("reply", "expected"), [(" ## The bell. \n", "The bell"), ('"The bell"', "The bell")])
def test_header_is_one_clean_line(reply, expected):
    assert parse_header(reply) == expected


@pytest.mark.parametrize("reply", ["", " \n ", "The bell\nand the tower", "x" * (MAX_HEADER_CHARACTERS + 1)])
def test_header_refuses_what_is_no_header(reply):
    with pytest.raises(ValueError, match=r"blank|not a header"):
        parse_header(reply)


def test_offline_header_is_telling_words_that_the_place_does_not_say(extractive, chunks):
    made = extractive.run(WRITE_HEADER, passage=chunks[1].text, place="The harbour of Velmouth > The bell")
    assert made == extractive.run(WRITE_HEADER, passage=chunks[1].text, place="The harbour of Velmouth > The bell")
    assert {"bronze", "tower"} <= set(made.split())
    assert len(made.split()) == 5
    assert not {"harbour", "bell", "the"} & set(made.split())


def test_offline_header_of_a_text_without_words(extractive):
    assert extractive.run(WRITE_HEADER, passage="***", place="") == "***"
    assert extractive.run(WRITE_HEADER, passage="the of", place="Dues") == "Dues"
