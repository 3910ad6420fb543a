from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.digest import digest
from ragsmith.gateway.gateway import Gateway
from ragsmith.models.usage import Meter
from ragsmith.techniques.pre_embedding.cross_document import cross_document
from ragsmith.types import Chunk, Span

every_partition = pytest.mark.parametrize("partition", ["anchors", "mixture"])


class Joining:
    """A language model whose summary names the passages; its id does not depend on a corpus."""

    id = "joining"

    def run(self, task, *, sample=0, **inputs):
        task.render(inputs)
        passages = inputs["passages"]
        assert isinstance(passages, tuple)
        return " + ".join(passages)


class Letters:
    """Embeds a text by how often it has each letter."""

    id = "letters"

    def embed(self, texts):
        rows = np.zeros((len(texts), 26), dtype=np.float32)
        for row, text in enumerate(texts):
            for letter in text:
                if "a" <= letter <= "z":
                    rows[row, ord(letter) - 97] += 1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.maximum(lengths, 1e-9)


def corpus(documents):
    return tuple(
        Chunk(f"d{d}#{i}", f"d{d}", i, 100 * i, 100 * i + 50, text)
        for d, texts in enumerate(documents)
        for i, text in enumerate(texts)
    )


def tier(chunks, gateway=None, **parameters):
    through = gateway or Gateway()
    entries = cross_document(
        chunks,
        language_model=through.language_model(Joining(), Meter()),
        embedder=Letters(),
        **parameters,
    )
    assert tuple(entry.chunk for entry in entries[: len(chunks)]) == chunks
    assert all(entry.keys == (entry.chunk.text,) for entry in entries)
    return {entry.chunk.id: entry.chunk for entry in entries[len(chunks) :]}


def is_anchor(text, size):
    return int(digest(text), 16) / 2**128 < 1 / size


def texts_by_anchor(chunks, size, least):
    """The rule, text by text."""
    texts = sorted({chunk.text for chunk in chunks}, key=digest)
    vectors = dict(zip(texts, Letters().embed(texts).astype(float), strict=True))
    joined = {}
    for text in texts:
        cosines = [(-round(float(vectors[text] @ vectors[a]), 6), digest(a), a) for a in texts if is_anchor(a, size)]
        if cosines and -min(cosines)[0] >= least:
            joined.setdefault(min(cosines)[2], set()).add(text)
    return joined


documents_of_texts = st.lists(
    st.lists(st.text("abcde", min_size=1, max_size=4), min_size=1, max_size=4), min_size=1, max_size=8
)


@settings(max_examples=50, deadline=None)
@given(documents_of_texts, st.sampled_from([1, 2, 4]), st.sampled_from([0.0, 0.5, 0.9]))
def test_nodes_are_the_clusters_around_anchors_that_span_two_documents(documents, size, least):
    chunks = corpus(documents)
    expected = set()
    for texts in texts_by_anchor(chunks, size, least).values():
        members = [chunk for chunk in chunks if chunk.text in texts]
        if len(texts) > 1 and len({chunk.doc for chunk in members}) > 1:
            spans = sorted((c.doc, c.start, c.end) for c in members)
            expected.add((" + ".join(sorted(texts, key=digest)), tuple(Span(*span) for span in spans)))
    made = tier(chunks, size=size, min_cosine=least).values()
    assert {(node.text, node.sources) for node in made} == expected
    assert all((node.doc, node.level, node.index) == ("", 1, -1) for node in made)


@settings(max_examples=50, deadline=None)
@given(documents_of_texts, st.lists(st.text("abcde", min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_new_document_leaves_clusters_that_it_does_not_touch(documents, added):
    before, after = corpus(documents), corpus([*documents, added])
    old, new = texts_by_anchor(before, 2, 0.5), texts_by_anchor(after, 2, 0.5)
    nodes = set(tier(after, size=2, min_cosine=0.5).values())
    for node in tier(before, size=2, min_cosine=0.5).values():
        anchor = next(a for a, texts in old.items() if set(node.text.split(" + ")) == texts)
        if new.get(anchor) == old[anchor] and not set(added) & old[anchor]:
            assert node in nodes
    # a text without an anchor among the added stays with its own, so other clusters can only have grown
    if not any(is_anchor(text, 2) for text in added):
        assert all(old[anchor] <= new[anchor] <= old[anchor] | set(added) for anchor in old)


def test_a_document_about_something_else_costs_no_call():
    words = ["a" * n + "b" for n in range(4, 40)]
    anchor = next(word for word in words if is_anchor(word, 4))
    plain = [word for word in words if not is_anchor(word, 4)]
    documents = [[anchor], plain[:2], plain[2:4]]
    gateway = Gateway()
    before = tier(corpus(documents), gateway, size=4, min_cosine=0.5)
    (node,) = before.values()
    assert set(node.text.split(" + ")) == {anchor, *plain[:4]}
    other = next(word for word in ("z" * n for n in range(1, 40)) if not is_anchor(word, 4))
    assert tier(corpus([*documents, [other]]), gateway, size=4, min_cosine=0.5) == before
    assert gateway.counts()["language_model"].made == 1
    after = tier(corpus([*documents, [plain[4]]]), gateway, size=4, min_cosine=0.5)
    assert not after.keys() & before.keys()
    assert gateway.counts()["language_model"].made == 2


@every_partition
@settings(max_examples=30, deadline=None)
@given(documents=documents_of_texts, data=st.data())
def test_an_addition_gives_what_a_rebuild_gives_and_computes_only_new_nodes(partition, documents, data):
    added = data.draw(st.lists(st.text("abcde", min_size=1, max_size=4), min_size=1, max_size=3))
    gateway = Gateway()
    before = tier(corpus(documents), gateway, partition=partition, size=2)
    made = gateway.counts()["language_model"].made
    after = tier(corpus([*documents, added]), gateway, partition=partition, size=2)
    assert after == tier(corpus([*documents, added]), partition=partition, size=2)
    assert gateway.counts()["language_model"].made - made == len(after.keys() - before.keys())
    # and the other way round: what is removed leaves nothing behind
    assert tier(corpus(documents), gateway, partition=partition, size=2) == before


@every_partition
@settings(max_examples=30, deadline=None)
@given(documents=documents_of_texts, data=st.data())
def test_the_order_and_names_of_documents_do_not_matter(partition, documents, data):
    chunks = corpus(documents)
    shuffled = tuple(data.draw(st.permutations(chunks)))
    assert tier(shuffled, partition=partition, size=2) == tier(chunks, partition=partition, size=2)
    renamed = tuple(replace(chunk, id=f"x{chunk.id}", doc=f"x{chunk.doc}") for chunk in chunks)
    old, new = tier(chunks, partition=partition, size=2), tier(renamed, partition=partition, size=2)
    assert {name: node.text for name, node in new.items()} == {name: node.text for name, node in old.items()}


@every_partition
def test_what_one_document_says_is_left_to_its_own_tree(partition):
    texts = [f"aaaa {letter}" for letter in "bcdefghijklm"]
    assert max(map(len, texts_by_anchor(corpus([texts]), 4, 0.0).values())) > 1
    assert tier(corpus([texts[::2], texts[1::2]]), partition=partition, size=4, min_cosine=0.0)
    assert tier(corpus([texts]), partition=partition, size=4, min_cosine=0.0) == {}
    assert tier(corpus([["same"], ["same"]]), partition=partition, size=1) == {}  # one text, twice: nothing to sum up


def test_one_mixture_over_all_chunks_finds_topics_across_documents():
    documents = [["aaaaaab" + "ab"[d % 2], "mmmmmmn" + "mn"[d % 2], "yyyyyyz" + "yz"[d % 2]] for d in range(8)]
    spread = [[text * (1 + d) for text in texts] for d, texts in enumerate(documents)]
    made = tier(corpus(spread), partition="mixture")
    assert len(made) == 3
    assert all(len({span.doc for span in node.sources}) == 8 for node in made.values())
