"""Several processes at one shelf, and processes that are killed while they write to it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, so that a kill meets the writing"),
]

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
