"""Contexts given as text are found at their place, however they were changed on the way, or are named."""

from __future__ import annotations

import os
import random
import re

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.relevance import count_overlap
from ragsmith.errors import DatasetError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.systems.answers import Context, GivenAnswer
from ragsmith.systems.contexts import ContextLocator
from ragsmith.types import Span

PASSAGES = int(os.environ.get("RAGSMITH_PASSAGES", "100"))
"""The number of passages; 500 take half a minute of a processor."""


def retouch(text: str, draw: random.Random) -> str:
    """Change white space, quotes, dashes and hyphenation, as splitters and converters do."""
    words = []
    for word in text.split(" "):
        hyphenated = len(word) > 7 and word.isalpha() and draw.random() < 0.1
        words.append((f"{word[:4]}-\n{word[4:]}" if hyphenated else word) + draw.choice(["", "", "", " ", "\n"]))
    changed = " ".join(words)
    for plain, others in {"'": "’‘'", '"': '“”"', "-": "-‐–", "–": "–-—"}.items():
        changed = "".join(draw.choice(others) if mark == plain else mark for mark in changed)
    return changed


def cut(text: str, draw: random.Random) -> tuple[int, int]:
    """Draw a passage of 200 to 1,200 characters that begins and ends between words."""
    start = draw.randrange(max(1, len(text) - 250))
    start = next((m.end() for m in [re.compile(r"\s+").search(text, start)] if m), start) if start else 0
    end = min(len(text), start + draw.randrange(200, 1200))
    end = text.rfind(" ", start + 100, end) if end < len(text) else end
    return start, max(end, start + 100)


def test_passages_that_were_retouched_are_found_at_their_place_and_none_elsewhere() -> None:
    """The place is right if it has nine tenths of what the passage and the place found have together."""
    data = load_dataset("finance")
    corpus, draw = Experiment(data).corpus, random.Random(0)
    locator = ContextLocator(corpus, {})
    right, wrong = 0, []
    for number in range(PASSAGES):
        document = draw.choice(data.documents)
        start, end = cut(document.text, draw)
        text = retouch(document.text[start:end], draw)
        [chunk] = locator.locate(f"q{number}", GivenAnswer("", (Context(text),))).chunks
        if not chunk.doc:
            continue
        shared = count_overlap(chunk.span, Span(document.id, start, end))
        if shared >= 0.9 * (max(chunk.end, end) - min(chunk.start, start)):
            right += 1
        else:
            wrong.append((document.id, start, end, chunk.id))
    assert not wrong
    assert right >= 0.98 * PASSAGES
    assert right + len(locator.not_found) == PASSAGES


def test_a_place_is_taken_as_it_is_and_a_whole_document_without_its_margins(tiny_setup: Experiment) -> None:
    document = tiny_setup.dataset.documents[0]
    given = GivenAnswer("", (Context(doc=document.id, start=3, end=20), Context(doc=document.id)))
    first, whole = ContextLocator(tiny_setup.corpus, {}).locate("q", given).chunks
    assert (first.span, first.text) == (Span(document.id, 3, 20), document.text[3:20])
    assert whole.text == document.text.strip()


def test_a_text_is_searched_in_the_document_that_it_names_which_may_be_a_duplicate(tiny_setup: Experiment) -> None:
    document = tiny_setup.dataset.documents[0]
    text = document.text[20:90]
    given = GivenAnswer("", (Context(text, "copy"),))
    [chunk] = ContextLocator(tiny_setup.corpus, {"copy": document.id}).locate("q", given).chunks
    assert chunk.doc == document.id


def test_what_is_nowhere_or_in_several_places_is_named_and_keeps_its_rank(tiny_setup: Experiment) -> None:
    locator = ContextLocator(tiny_setup.corpus, {})
    document = tiny_setup.dataset.documents[0]
    given = GivenAnswer("", (Context("Nothing of the kind was ever written."), Context(document.text[20:90])))
    nowhere, found = locator.locate("coast-1", given).chunks
    assert (nowhere.doc, found.doc) == ("", document.id)
    [named] = locator.not_found
    assert named.startswith("question 'coast-1', context 1: ")
    assert "Nothing of the kind" in named


def test_a_document_is_named_by_its_path_as_well(tiny_setup: Experiment) -> None:
    document = tiny_setup.dataset.documents[0]
    context = Context(doc=f"/srv/wiki/{document.id}.md", start=20, end=90)
    [chunk] = ContextLocator(tiny_setup.corpus, {}).locate("q", GivenAnswer("", (context,))).chunks
    assert (chunk.doc, chunk.start, chunk.end) == (document.id, 20, 90)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (Context(doc="nowhere", start=0, end=3), "question 'q', context 1: there is no document 'nowhere'; known: "),
        (Context(doc="DOC", start=5, end=3), "question 'q', context 1: [5, 3) is not in 'DOC', which has "),
        (Context(doc="DOC", start=0, end=10**6), "offsets count them from 0"),
    ],
)
def test_places_that_do_not_exist_are_refused(context: Context, said: str, tiny_setup: Experiment) -> None:
    name = tiny_setup.dataset.documents[0].id
    changed = Context(context.text, name if context.doc == "DOC" else context.doc, context.start, context.end)
    with pytest.raises(DatasetError) as error:
        ContextLocator(tiny_setup.corpus, {}).locate("q", GivenAnswer("", (changed,)))
    assert said.replace("DOC", name) in str(error.value)
