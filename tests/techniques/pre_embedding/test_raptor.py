import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.techniques.pre_embedding.raptor import SUMMARISE_CLUSTER, cluster_rows, raptor, truncate_texts
from ragsmith.testing import ScriptedModel
from ragsmith.types import Chunk

TASK = "summarise_cluster"


class Directions:
    """Embeds "topic 3 ..." in the third direction with a little of its own; anything else in the last one."""

    id = "directions"

    def embed(self, texts):
        rows = np.zeros((len(texts), 40), dtype=np.float32)
        for row, text in enumerate(texts):
            words = text.split()
            rows[row, int(words[1]) if words[0] == "topic" else 39] = 1
            rows[row, 10 + sum(text.encode()) % 29] += 0.05
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / lengths


def document(topics, doc="a"):
    texts = [f"topic {topic} sentence number {n}." for n, topic in enumerate(topics)]
    return tuple(Chunk(f"{doc}#{n}", doc, n, 100 * n, 100 * n + 50, text, "Title") for n, text in enumerate(texts))


def summaries(n):
    return ScriptedModel({TASK: [f"topic {i} in short" for i in range(n)]})


def nodes(entries):
    return [entry.chunk for entry in entries if entry.chunk.level]


def test_every_cluster_gets_a_summary_and_chunks_stay_as_they_are():
    chunks = document([1, 2, 3] * 8)
    model = summaries(3)
    entries = raptor(chunks, language_model=model, embedder=Directions())
    assert [entry.chunk for entry in entries[:24]] == list(chunks)
    assert all(entry.keys == (entry.chunk.text,) for entry in entries)
    for topic, node in enumerate(nodes(entries)):
        assert node.sources == tuple(chunk.span for chunk in chunks[topic::3])
        assert (node.doc, node.title, node.index, node.start, node.end, node.level) == ("a", "Title", -1, 0, 0, 1)
        assert node.text == f"topic {topic} in short"
        assert node.id.startswith("a@1.")
        assert len(node.id) == len("a@1.") + 12
    # a member is shown in reading order; three summaries are too few to be summed up again
    assert model.calls[0].inputs == {"passages": tuple(chunk.text for chunk in chunks[0::3]), "words": 150}
    assert model.left(TASK) == 0


def test_a_document_that_is_one_cluster_gets_a_root():
    chunks = document([1] * 7)
    (root,) = nodes(raptor(chunks, language_model=summaries(1), embedder=Directions()))
    assert root.sources == tuple(chunk.span for chunk in chunks)


def test_levels_are_built_while_they_shrink():
    chunks = document([1, 2, 3, 4, 5] * 8)
    made = nodes(raptor(chunks, language_model=summaries(6), embedder=Directions()))
    assert [node.level for node in made] == [1, 1, 1, 1, 1, 2]
    assert made[-1].sources == tuple(chunk.span for chunk in chunks)  # of all leaves below, each once
    assert [n.level for n in nodes(raptor(chunks, language_model=summaries(5), embedder=Directions(), levels=1))] == [
        1
    ] * 5


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_document_of_so_few_chunks_has_no_tree(n):
    assert nodes(raptor(document([1] * n), language_model=summaries(0), embedder=Directions())) == []


def test_documents_have_trees_of_their_own():
    both = (*document([1] * 7, "a"), *document([1] * 7, "b"))
    made = nodes(raptor(both, language_model=summaries(2), embedder=Directions()))
    assert [{span.doc for span in node.sources} for node in made] == [{"a"}, {"b"}]
    alone = nodes(raptor(both[:7], language_model=summaries(1), embedder=Directions()))
    assert alone == made[:1]


def test_a_node_is_named_after_its_texts_not_their_order_or_ids():
    def name(chunks, model_id="scripted", **parameters):
        model = summaries(1)
        model.id = model_id
        (node,) = nodes(raptor(chunks, language_model=model, embedder=Directions(), **parameters))
        return node.id

    chunks = document([1] * 7)
    moved = tuple(Chunk(f"x{c.id}", "a", 6 - c.index, 900 - c.start, 950 - c.start, c.text, "Title") for c in chunks)
    assert name(moved) == name(chunks)
    edited = (*chunks[:6], Chunk("a#6", "a", 6, 600, 650, "topic 1 other.", "Title"))
    others = [name(edited), name(chunks, model_id="other"), name(chunks, max_words=99)]
    assert len({name(chunks), *others}) == 4


def test_a_cluster_of_one_goes_up_without_a_call():
    """One stray chunk among five topics: it is no cluster of one to be summarised, but joins the next level."""
    chunks = document([1, 2, 3, 4, 5] * 8)
    lone = Chunk("a#40", "a", 40, 4000, 4050, "topic 9 alone.", "Title")
    model = summaries(20)
    made = nodes(raptor((*chunks, lone), language_model=model, embedder=Directions(), covariance="full", levels=2))
    assert all(len(call.inputs["passages"]) > 1 for call in model.calls if isinstance(call.inputs["passages"], tuple))
    assert any(lone.span in node.sources for node in made)


def test_long_clusters_are_split_to_the_limit():
    vectors = np.random.default_rng(0).normal(size=(60, 20))
    sizes = [10] * 60
    for limit in (100, 200, 600):
        found = cluster_rows(vectors, sizes, limit, "diagonal")
        assert {i for members in found for i in members} == set(range(60))
        assert all(10 * len(members) <= limit for members in found if len(members) >= 16)
    assert cluster_rows(vectors, sizes, 600, "diagonal") == [tuple(range(60))]


def test_published_covariances_are_a_choice():
    chunks = document([0] * 20)
    made = {
        covariance: len(nodes(raptor(chunks, language_model=summaries(9), embedder=Random(), covariance=covariance)))
        for covariance in ("diagonal", "full")
    }
    assert made["diagonal"] == 1 < made["full"]


class Random:
    id = "random"

    def embed(self, texts):
        rows = [np.random.default_rng(list(text.encode())).normal(size=64) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


def test_the_longest_are_cut_to_one_length_at_the_end_of_a_sentence():
    long = "A sentence of thirty letters ok. " * 20
    short = "Short ones stay whole."
    cut = truncate_texts([long, short, long], 100)
    # 400 characters: 22 for the short one, 189 for either of the others, which holds five sentences of 33
    assert cut == ((long[: 5 * 33]).strip(), short, (long[: 5 * 33]).strip())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab .", min_size=1, max_size=60).filter(str.strip), max_size=8), st.integers(1, 40))
def test_nothing_is_left_out_and_the_limit_is_kept(texts, limit):
    cut = truncate_texts(texts, limit)
    assert len(cut) == len(texts)
    assert all(text.startswith(part) and part for part, text in zip(cut, texts, strict=True))
    assert sum(map(len, cut)) <= max(4 * limit, len(texts))


def test_a_reply_is_a_summary():
    assert SUMMARISE_CLUSTER.parse("Summary: The dues are doubled.") == "The dues are doubled."
    for reply in ("", "I'm sorry, I cannot help with that."):
        with pytest.raises(ValueError, match=r"blank|refusal"):
            SUMMARISE_CLUSTER.parse(reply)


def test_offline_the_sentences_nearest_to_the_middle_are_chosen(extractive):
    passages = (
        "The Salt Guild sells grey salt. The Salt Guild owns the salt pans.",
        "Grey salt comes from the salt pans of the Guild. A cat slept.",
    )
    made = extractive.run(SUMMARISE_CLUSTER, passages=passages, words=20)
    lines = made.split("\n")
    sentences = [s for passage in passages for s in extractive.sentences(passage)]
    assert lines == [s for s in sentences if s in lines]  # whole sentences in reading order
    assert "A cat slept." not in lines
    assert len(made.split()) <= 20
