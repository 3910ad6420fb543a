"""Several processes write artifacts, and some are killed: what is stored is as if it were built anew."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from changing import CHANGES, FOLDERS, KINDS, carried_out, drawn_changes, found_on

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, so that a kill meets the writing"),
]

PLACES = ("Aldham", "Brenwick", "Corsey", "Dunmere", "Eastfold", "Farrow")
FACTS = (
    "The harbour of {0} has levied salt dues since 1402, and the master of {0} collects them.",
    "In {1} the tower wall was mended after the flood of 1620, as Figure 2 shows.",
    "The bell of {0} is rung for every ship from {1}.",
    "An oath is sworn at {1} by whoever keeps the bell.",
    "The council of {0} doubled the dues; merchants of {1} complained to the king. See Section 1.",
)


def text(draw: random.Random) -> str:
    parts = [draw.choice(FACTS).format(*draw.sample(PLACES, 2)) for _ in range(draw.randint(4, 12))]
    return "\n\n".join([f"# Annals of {draw.choice(PLACES)}", "## 1 Dues", *parts])


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_order_and_whenever_killed_every_volume_is_as_if_built_anew(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    before = {f"{folder}{name}": text(draw) for folder in FOLDERS[:2] for name in ("policy", "leave", "rules")}
    kinds = draw.sample(CHANGES * 2, 10)
    changes = drawn_changes(before, kinds, iter(lambda: text(draw), None), draw)
    winners = found_on(before, tmp_path, [KINDS[seed], KINDS[-1 - seed]])
    order = carried_out(winners, before, changes, draw, sizes=(1, 2, 4), kills=0.6)
    assert order.kills
    assert order.kinds >= {"documents", "words"}


COMMON = """
import os, random, signal, sys, time
import numpy as np
from ragsmith.index.index import Index
from ragsmith.index.cached_index import CachedIndex
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.types import Chunk, IndexEntry

class Letters:
    id = "letters"
    def embed(self, texts):
        rows = np.array([[text.count(c) for c in "abcdefgh"] for text in texts], dtype=float).reshape(-1, 8)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)

def entries(draw, size):
    texts = [" ".join("".join(draw.choices("abcdefgh", k=4)) for _ in range(30)) for _ in range(size)]
    return tuple(IndexEntry((t,), Chunk(f"d#{n:05}", "d", n, n, n + 1, t)) for n, t in enumerate(texts))

def build(entries, folder):
    index = CachedIndex(entries, ArtifactCache(folder))
    return index.vectors(Letters()), index.word_scores("abcd efgh aabb")

def same(entries, folder):
    plain = Index(entries)
    vectors, scores = build(entries, folder)
    assert np.array_equal(vectors, plain.vectors(Letters()))
    assert np.array_equal(scores, plain.word_scores("abcd efgh aabb"))
"""


def run(script: str, folder: Path) -> str:
    """What a script prints; it fails with it, and warnings are errors."""
    whole = COMMON + textwrap.dedent(script)
    command = [sys.executable, "-W", "error", "-c", whole, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_that_build_the_same_at_once_all_get_it(tmp_path: Path) -> None:
    run(
        """
        folder, draw = sys.argv[1], random.Random(3)
        for round in range(5):
            some = entries(draw, 300)
            children = []
            for _ in range(4):
                child = os.fork()
                if not child:
                    try:
                        same(some, folder)
                    except BaseException as error:
                        print(repr(error), file=sys.stderr, flush=True)
                        os._exit(1)
                    os._exit(0)
                children.append(child)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
            same(some, folder)
        assert not list(__import__("pathlib").Path(folder).glob("*/.*"))
        """,
        tmp_path,
    )
