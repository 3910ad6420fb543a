"""Gold that stands in several places counts once, whichever place is found."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dataset_folder import questions, record
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.anchoring.other_documents import put_on_documents
from ragsmith.datasets.dataset import load_dataset, make_dataset, validate_dataset, write_dataset
from ragsmith.datasets.groups import group_by_document
from ragsmith.datasets.questions import write_offsets
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.measures.case import Case
from ragsmith.measures.registry import measures
from ragsmith.systems.system import relevance_of_contexts
from ragsmith.types import Chunk, Document, Example, Hit, Passage, RepeatedSpan, Scale, Span

COPIES = ("handbook", "intranet", "slides")
PIECES = 3


def gold(piece: int) -> RepeatedSpan:
    first, *others = (Span(doc, 100 * piece, 100 * piece + 50) for doc in COPIES)
    return RepeatedSpan(first.doc, first.start, first.end, tuple(others))


def chunk(doc: str, number: int, start: int, end: int) -> Chunk:
    return Chunk(f"{doc}-{number}", doc, number, start, end, "x" * (end - start))


# One chunk for each piece in every copy, and two chunks of a document that says nothing of it.
CHUNKS = {
    (doc, piece): chunk(doc, piece, 100 * piece, 100 * piece + 100) for doc in COPIES for piece in range(PIECES)
} | {("other", number): chunk("other", number, 100 * number, 100 * number + 100) for number in range(2)}
SCORED = [
    *(name for name, measure in measures().items() if measure.subject == "ranking"),
    *("context_precision", "citation_precision", "citation_recall"),
]


def scores(ranking: list[Chunk], evidence: tuple[Span, ...]) -> dict[str, Any]:
    hits = tuple(Hit(one, 1 / rank, Scale.BM25) for rank, one in enumerate(ranking, start=1))
    passages = tuple(Passage(one.text, (one.span,), 1.0) for one in ranking)
    relevance = ChunkMap(CHUNKS.values()).relevance(evidence)
    case = Case(
        answer="It is said.",
        hits=hits,
        pool=hits,
        passages=passages,
        cited=tuple(range(len(passages))),
        evidence=evidence,
        relevance=relevance,
    )
    return {name: measures()[name](case, {}) for name in SCORED}


PLACES = st.permutations([*((piece, 0) for piece in range(PIECES)), (0, 1), (1, 1)])


@settings(max_examples=80, deadline=None)
@given(order=PLACES, kept=st.integers(1, 5), copies=st.lists(st.sampled_from(COPIES), min_size=PIECES, max_size=PIECES))
def test_scores_are_the_same_whichever_copy_is_found(
    order: list[tuple[int, int]], kept: int, copies: list[str]
) -> None:
    evidence = (gold(0), gold(2))

    def ranking(docs: list[str]) -> list[Chunk]:
        return [CHUNKS[("other", n) if other else (docs[n], n)] for n, other in order[:kept]]

    assert scores(ranking(copies), evidence) == scores(ranking(["handbook"] * PIECES), evidence)


def test_one_copy_of_each_piece_is_all_and_a_second_copy_gains_nothing() -> None:
    evidence = (gold(0), gold(1))
    complete = scores([CHUNKS["slides", 0], CHUNKS["intranet", 1]], evidence)
    assert {complete[name] for name in ("map", "ndcg", "ndcg_10", "recall", "recall_50", "span_recall", "mrr")} == {1.0}
    half = scores([CHUNKS["slides", 0], CHUNKS["handbook", 0], CHUNKS["intranet", 0]], evidence)
    assert (half["recall"], half["span_recall"], half["kept_precision"]) == (0.5, 0.5, 1.0)


def test_a_chunk_with_two_pieces_finds_both() -> None:
    both = chunk("handbook", 9, 0, 200)
    found = ChunkMap([both, CHUNKS["slides", 0], CHUNKS["slides", 1]]).relevance([gold(0), gold(1)])
    assert found.rank_units([both.id, "slides-0", "slides-1"]) == ("gold 0", "gold 1")
    assert found.units == {"gold 0": 1.0, "gold 1": 1.0}


def test_gold_is_missed_or_partial_only_if_no_place_is_better() -> None:
    cut = ChunkMap([chunk("handbook", 0, 0, 20), chunk("handbook", 1, 20, 40), chunk("slides", 0, 0, 60)])
    assert cut.relevance([gold(0)]).partial == ()
    assert cut.relevance([gold(0)]).relevant == {"handbook-0", "handbook-1", "slides-0"}
    assert ChunkMap([CHUNKS["slides", 1]]).relevance([gold(0)]).missed == (gold(0),)


def test_a_context_of_another_system_is_relevant_in_any_place() -> None:
    chunk_map = ChunkMap(CHUNKS.values())
    for doc in COPIES:
        contexts = (CHUNKS["other", 0], replace(CHUNKS[doc, 1], id="context"), CHUNKS["intranet", 1])
        found = relevance_of_contexts(contexts, (gold(1), gold(2)), chunk_map)
        assert sorted(found.units.values()) == [1.0, 1.0]
        assert found.rank_units(one.id for one in contexts)[1:] == ("context",) or doc == "intranet"


def test_questions_with_a_common_place_are_in_one_group() -> None:
    first = Example("a", "One?", "", "t", (gold(0),))
    second = Example("b", "Two?", "", "t", (Span("slides", 900, 950),))
    third = Example("c", "Three?", "", "t", (Span("other", 0, 9),))
    groups = group_by_document([first, second, third])
    assert sorted(tuple(one.id for one in group.examples) for group in groups) == [("a", "b"), ("c",)]


SLIDES = "# Welcome\n\n* Badges are replaced free of charge\n  within two working days.\n"
RULE = "Badges are replaced free of charge within two working days."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a data set whose rule stands in two documents, once with another line end and bullet."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "dataset.yaml").write_text("name: company\nlanguage: en\n")
    (tmp_path / "documents" / "handbook.md").write_text(f"# Badges\n\nAsk at the desk. {RULE}\n")
    (tmp_path / "documents" / "slides.md").write_text(SLIDES)
    return tmp_path


def places(*texts: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"any": [{"doc": doc, "text": text} for doc, text in texts]}]


BOTH = places(("slides", "within two working days"), ("handbook", RULE))


def test_evidence_by_hand_may_name_several_places(folder: Path) -> None:
    questions(folder, record(1, evidence=BOTH))
    (found,) = load_dataset(folder).examples[0].evidence
    assert isinstance(found, RepeatedSpan)
    assert (found.doc, [place.doc for place in found.alternatives]) == ("handbook", ["slides"])


def test_places_get_offsets_and_are_read_back(folder: Path, tmp_path: Path) -> None:
    questions(folder, record(1, evidence=BOTH))
    before = load_dataset(folder)
    assert write_offsets(folder) == 1
    written = json.loads((folder / "questions.jsonl").read_text())["evidence"][0]["any"]
    found = {place["doc"]: place["text"] for place in written}
    assert found == {"handbook": RULE, "slides": "within two working days"}
    assert load_dataset(folder).digest == before.digest
    write_dataset(before, tmp_path / "copy")
    assert load_dataset(tmp_path / "copy").examples == before.examples


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"any": []}, "'any' must be a list of two or more places, each written as evidence of its own"),
        ({"any": [{"text": RULE}]}, "'any' must be a list of two or more places"),
        ({"any": [{"text": RULE}, {"text": RULE}]}, "'any' has the same place twice; keep one of them"),
        ({"any": [{"text": RULE}, {"doc": "slides", "text": "no such words"}]}, "place 2: the text 'no such words'"),
        ({"any": [{"text": RULE}, {"doc": "slides"}], "doc": "handbook"}, "unknown key 'doc'"),
    ],
)
def test_mistakes_in_several_places(folder: Path, entry: dict[str, Any], problem: str) -> None:
    questions(folder, record(1, evidence=[entry]))
    (mistake,) = validate_dataset(folder)
    assert problem in mistake


def test_a_question_remains_while_one_place_of_its_gold_does() -> None:
    documents = [Document(doc, doc, f"{doc}. {RULE}") for doc in COPIES]
    spans = [Span(doc, len(doc) + 2, len(doc) + 2 + len(RULE)) for doc in COPIES]
    repeated = RepeatedSpan(spans[0].doc, spans[0].start, spans[0].end, tuple(spans[1:]))
    data = make_dataset({"name": "before"}, documents, [Example("a", "Q?", "", "t", (repeated,))])
    (kept,) = put_on_documents(data, make_dataset({"name": "now"}, documents[1:], [])).examples
    assert kept.evidence == (RepeatedSpan(spans[1].doc, spans[1].start, spans[1].end, (spans[2],)),)
    assert put_on_documents(data, make_dataset({"name": "now"}, [], [])).examples == ()


def test_places_in_identical_documents_are_one(folder: Path) -> None:
    documents = [Document("a", "a", RULE), Document("b", "b", RULE)]
    example = Example("q", "Q?", "", "t", (RepeatedSpan("a", 0, 10, (Span("b", 0, 10),)),))
    assert make_dataset({"name": "n"}, documents, [example]).examples[0].evidence == (Span("a", 0, 10),)
