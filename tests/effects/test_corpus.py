"""What documents are like, from their text alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.effects.corpus import CorpusProfile, profile_corpus
from ragsmith.types import Document, Example, Modality, Span

PROSE = "The tenant pays the rent on the first day of the month, and the landlord gives a receipt for it.\n"
ROWS = "| part | price | stock |\n| --- | --- | --- |\n| bolt M4 | 0.12 | 900 |\n| nut M4 | 0.08 | 1200 |\n"
TALK = "Ann: Did you see the pump?\nBob: It was off when I left.\nAnn: Then who turned it on?\nBob: Nobody did.\n"
GERMAN = "Der Mieter zahlt die Miete am ersten Tag des Monats, und der Vermieter gibt ihm eine Quittung.\n"


def corpus(*texts: str, modality: Modality = Modality.PROSE, questions: tuple[Example, ...] = ()) -> CorpusProfile:
    documents = [Document(str(place), "", text, modality) for place, text in enumerate(texts)]
    return profile_corpus(documents, questions)


def question(*documents: str) -> Example:
    return Example("q", "What?", "That.", "fact", tuple(Span(doc, 0, 5) for doc in documents))


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (corpus(PROSE * 5), "prose"),
        (corpus(ROWS * 5), "tables"),
        (corpus(PROSE * 2 + ROWS), "mixed"),
        (corpus("part: bolt; price: 0.12; stock: 900\n" * 5), "tables"),
        (corpus("def f(x):\n    return x\n", modality=Modality.CODE), "code"),
        (corpus(f"{PROSE}```\nx = 1\n{'y = g(x)  # and so on' * 20}\n```\n"), "code"),
        (corpus(TALK * 3), "conversation"),
        (corpus(ROWS * 3, TALK * 3), "mixed"),
        (corpus(PROSE, PROSE, questions=(question("0", "1"),)), "multi-hop"),
        (corpus(PROSE, PROSE, questions=(question("0"),)), "prose"),
    ],
)
def test_kinds(found: CorpusProfile, kind: str) -> None:
    assert found.kind == kind


@pytest.mark.parametrize(("text", "language"), [(PROSE, "en"), (GERMAN, "de"), ("lorem ipsum dolor sit amet " * 9, "")])
def test_languages(text: str, language: str) -> None:
    assert corpus(text).language == language


def test_a_question_that_very_many_documents_answer_is_not_one_of_several_steps() -> None:
    many = [str(place) for place in range(9)]
    assert corpus(*[PROSE] * 9, questions=(question(*many),)).kind == "prose"


def test_what_sets_documents_apart_is_said() -> None:
    known = [corpus(PROSE * 5), corpus(ROWS * 5)]
    assert corpus(PROSE * 4).unlike(known) == ()
    kind, size = replace(corpus(TALK * 5), characters=10**9, length=500.0).unlike(known)
    assert kind == "these documents are of the kind conversation, and the effects were learned from prose, tables"
    kind, language = corpus(GERMAN * 5).unlike(known)
    assert kind == "these documents are of the kind not English, and the effects were learned from prose, tables"
    assert language == "these documents are in de, and the effects were learned from en"
    assert size.startswith("there are 1,000,000,000 characters, and ")
    assert corpus(PROSE).unlike([])


def test_bundled_data_sets() -> None:
    kinds = {name: profile_corpus(load_dataset(name).documents).kind for name in ("law", "workshop")}
    assert kinds == {"law": "prose", "workshop": "mixed"}
