"""What a Python file defines and uses, chunk by chunk; worked by hand, and on files of this project."""

from __future__ import annotations

import re
import symtable
from pathlib import Path

import numpy as np
import pytest

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.index.chunk_edges import MAX_IDENTIFIER_CHUNKS, EdgeType, find_edges
from ragsmith.index.syntax import find_uses
from ragsmith.types import Chunk, Document, Modality

PIECES = (
    "import math\n\nLIMIT = 3",
    "def ring(times):\n    limit = times\n    return limit * LIMIT",
    "class Tower:\n    height = 40\n\n    def call(self):\n        self.called = True\n        return ring(2)",
    "def height(of):\n    call = of\n    return [ring for ring in call]",
    "print(Tower().call(), math.pi)",
)


def cut(*pieces: str, doc: str = "bell.py", gap: str = "\n\n\n") -> list[Chunk]:
    found, start = [], 0
    for index, piece in enumerate(pieces):
        found.append(Chunk(f"{doc}:{index}", doc, index, start, start + len(piece), piece, modality=Modality.CODE))
        start += len(piece) + len(gap)
    return found


def joined(chunks: list[Chunk]) -> dict[tuple[int, int], EdgeType]:
    lows, highs, _, kinds = find_edges(chunks, np.zeros((len(chunks), 2)), 0.7, 4)
    pairs = zip(lows.tolist(), highs.tolist(), kinds.tolist(), strict=True)
    return {
        (low, high): EdgeType(kind) & ~EdgeType.SEQUENTIAL for low, high, kind in pairs if kind != EdgeType.SEQUENTIAL
    }


def test_a_use_is_joined_with_the_definition() -> None:
    # ring uses LIMIT, Tower.call uses ring, the end uses Tower and its call; what a function calls ring is its own
    assert joined(cut(*PIECES)) == dict.fromkeys([(0, 1), (1, 2), (2, 4)], EdgeType.AST)


def test_the_order_of_chunks_does_not_matter() -> None:
    chunks = cut(*PIECES)
    turned = joined(chunks[::-1])
    assert {(4 - high, 4 - low) for low, high in turned} == set(joined(chunks))


@pytest.mark.parametrize("gap", ["\n", "  \n", "\r\n"])
def test_what_lies_between_chunks_is_white_space(gap: str) -> None:
    assert set(joined(cut(*PIECES, gap=gap))) == {(0, 1), (1, 2), (2, 4)}


def test_what_does_not_parse_and_other_languages_share_identifiers() -> None:
    broken = ("def ring(:", "ring_all()", "ring_all")
    assert find_uses(cut(*broken)) is None
    assert joined(cut(*broken)) == {(1, 2): EdgeType.NAME}
    assert find_uses(cut("ring()", doc="bell.js")) is None
    assert find_uses([]) is None


def test_a_name_that_is_everywhere_joins_nothing() -> None:
    uses = [f"x{n} = common" for n in range(MAX_IDENTIFIER_CHUNKS - 1)]
    assert len(joined(cut("common = 1", *uses))) == MAX_IDENTIFIER_CHUNKS - 1
    assert joined(cut("common = 1", *uses, "print(common)")) == {}


@pytest.mark.parametrize("module", ["index/chunk_edges.py", "techniques/fusion.py", "records/audit.py"])
def test_real_files_parse_when_they_are_cut(module: str) -> None:
    path = Path(__file__).parents[2] / "ragsmith" / module
    text = path.read_text("utf-8")
    chunks = chunk_documents([Document(path.name, "", text, Modality.CODE)], size=800)
    assert len(chunks) > 3
    found = find_uses(chunks)
    assert found is not None
    outermost = symtable.symtable(text, path.name, "exec")
    assert {name.get_name() for name in outermost.get_symbols() if name.is_assigned()} - {"__annotations__"} <= set(
        found
    )
    for name, (defining, using) in found.items():
        assert defining
        for place in defining | using:
            assert re.search(rf"\b{name}\b", chunks[place].text)
