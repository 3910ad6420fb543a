"""Any number of documents of made-up English, for the benchmarks of growth.

A document takes its sentences from one section of a bundled data set and its neighbours, so that it has its matter. The
names in them become those of the document or, by rank, well-known ones, and every third word becomes another that is
drawn by rank (Zipf): names and rare words become more with the documents, as in real collections, and no two chunks are
alike.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import groupby

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.dataset import load_dataset
from ragsmith.text.words import STOP_WORDS, sentences
from ragsmith.types import Chunk, Document, Example, Modality, Span

SEED = 1
SIZE = 330
"""Characters of a chunk at most: a paragraph below."""
SECTIONS = 8
PARAGRAPHS = 5
"""Of a section; so a document has about 40 chunks."""
QUESTIONS = 20
_SWAPPED = 1 / 3
_VOCABULARY = 1e6
_WORD = re.compile(r"[A-Za-z]+")
_SYLLABLES = re.findall("..", "babecodadoelfagahoisjokalemanoosperasetoulvewiyaze")


class _Writer:
    """Draws documents, each by its number and the seed alone; of sentences that are not ``allowed``, others instead."""

    def __init__(self, seed: int, allowed: Callable[[str], bool] = bool) -> None:
        self._seed = seed
        self._allowed = allowed
        chunks = [chunk for name in ("law", "workshop") for chunk in chunk_documents(load_dataset(name).documents)]
        prose = [chunk for chunk in chunks if chunk.modality is Modality.PROSE and "|" not in chunk.text]
        sections = groupby(prose, key=lambda chunk: (chunk.doc, chunk.section))
        matter = [[text for chunk in held for text in _sentences(chunk.text)] for _, held in sections]
        self._matter = [found for found in matter if found]
        words = {word for found in self._matter for text in found for word in _WORD.findall(text)}
        self._words = sorted(word for word in words if _is_open(word))
        random.Random(seed).shuffle(self._words)

    def document(self, number: int) -> Document:
        """The document of this number: sections with headings and paragraphs of two to three sentences."""
        rng = random.Random(self._seed * 1_000_003 + number)
        topic = rng.randrange(len(self._matter))
        names = [_name(rng) for _ in range(8)]
        parts = [f"# {names[0]} of {names[1]}"]
        for section in range(1, SECTIONS + 1):
            parts.append(f"## {section} {names[rng.randrange(8)]} and the {rng.choice(self._words)}")
            parts += [self._paragraph(rng, topic, names, section) for _ in range(PARAGRAPHS)]
        return Document(f"document-{number:06d}", f"{names[0]} of {names[1]}", "\n\n".join(parts))

    def _paragraph(self, rng: random.Random, topic: int, names: list[str], section: int) -> str:
        written, length = [], 0
        while length < 180:
            near = (topic + min(3, int(rng.expovariate(1)))) % len(self._matter)
            text = self._rewritten(rng, rng.choice(self._matter[near]), names)
            if not self._allowed(text):
                continue
            if length + len(text) > SIZE - 30:
                break
            written.append(text)
            length += len(text) + 1
        if rng.random() < 0.15:
            reference = rng.choice(["See Section {}.", "Figure {} shows it.", "So has [{}]."])
            written.append(reference.format(rng.randint(1, section)))
        return " ".join(written)

    def _rewritten(self, rng: random.Random, text: str, names: list[str]) -> str:
        def other(found: re.Match[str]) -> str:
            word = found[0]
            if word[0].isupper() and found.start():
                return rng.choice(names) if rng.random() < 0.7 else _known(rng)
            if _is_open(word) and rng.random() < _SWAPPED:
                rank = _rank(rng)
                return self._words[rank] if rank < len(self._words) else _spelled(rank).lower()
            return word

        return _WORD.sub(other, text)


def growing_documents(count: int, seed: int = SEED, allowed: Callable[[str], bool] = bool) -> Iterator[Document]:
    """``count`` documents of about 40 chunks; a sentence that is not ``allowed`` gives way to another."""
    writer = _Writer(seed, allowed)
    return (writer.document(number) for number in range(count))


def growing_corpus(size: int, seed: int = SEED) -> tuple[tuple[Chunk, ...], tuple[str, ...]]:
    """``size`` chunks of about 40 words, and 20 questions, each in words of one of them."""
    writer = _Writer(seed)
    chunks: list[Chunk] = []
    while len(chunks) < size:
        chunks += chunk_documents([writer.document(len(chunks))], size=SIZE)
    del chunks[size:]
    rng = random.Random(seed)
    return tuple(chunks), tuple(asked(rng, rng.choice(chunks).text) for _ in range(QUESTIONS))


def growing_examples(documents: list[Document], seed: int = SEED) -> list[Example]:
    """Two questions about each document, whose gold is a paragraph of it."""
    examples = []
    for document in documents:
        rng = random.Random(f"{seed} {document.id}")
        for chunk in rng.sample(chunk_documents([document], size=SIZE), 2):
            span = Span(chunk.doc, chunk.start, chunk.end)
            examples.append(Example(f"{chunk.id}", asked(rng, chunk.text), chunk.text, "factual", (span,)))
    return examples


def _sentences(text: str) -> Iterator[str]:
    """Its sentences of middling length."""
    yield from (text[start:end] for start, end in sentences(text) if 40 < end - start < 160)


def _is_open(word: str) -> bool:
    """Whether another word may take its place."""
    return word.islower() and len(word) > 3 and word not in STOP_WORDS


def asked(rng: random.Random, text: str) -> str:
    """A question in words of a text."""
    words = [word for word in _WORD.findall(text) if word.lower() not in STOP_WORDS]
    first = rng.randrange(max(1, len(words) - 6))
    return f"What is said about {' '.join(words[first : first + 6])}?"


def _name(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=rng.randint(2, 4))).capitalize()


def _known(rng: random.Random) -> str:
    """A name that many documents have: by rank."""
    return _spelled(_rank(rng)).capitalize()


def _rank(rng: random.Random) -> int:
    """A rank of a vocabulary, each as often as its reciprocal says (Zipf)."""
    return int(_VOCABULARY ** rng.random())


def _spelled(rank: int) -> str:
    """The word of this rank, of three syllables and more."""
    spelled = ""
    rank += len(_SYLLABLES) ** 2
    while rank:
        rank, last = divmod(rank, len(_SYLLABLES))
        spelled += _SYLLABLES[last]
    return spelled
