"""The work of a search, in counts that do not depend on the machine."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import counting
import pytest
import yaml

import ragsmith
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.store.rows import ResultRow
from ragsmith.store.store import Store

COUNTS: dict[str, dict[str, int]] = yaml.safe_load(Path(__file__).with_name("work.yaml").read_text(encoding="utf-8"))
ANSWERS = [ResultRow("pipeline", f"question {number}", "ok", {"answer": str(number)}) for number in range(4)]
SENTENCES = ["The ferry leaves at noon.", "The keeper lives in Coldwell.", "The lamp is lit at dusk."]


@pytest.mark.processes
def test_a_search_does_what_it_did_and_no_more(tiny_folder: Path, tiny_space: Path) -> None:
    run = subprocess.run(
        [sys.executable, counting.__file__, str(tiny_folder), str(tiny_space)],
        env={**os.environ, "PYTHONPATH": str(Path(ragsmith.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    assert {kind: list(counts) for kind, counts in found.items()} == {k: list(counts) for k, counts in COUNTS.items()}
    changed = [
        f"{kind}, {name}: {found[kind][name]:,} instead of {count:,}"
        for kind, counts in COUNTS.items()
        for name, count in counts.items()
        if found[kind][name] != count
    ]
    assert changed == [], f"{'; '.join(changed)}: where that is needed, change tests/runs/work.yaml with it"


def test_answers_that_are_committed_one_by_one_are_as_many_commits_more(store: Store) -> None:
    together, apart = Counter[str](), Counter[str]()
    with counting.counting(together):
        store.put_results(ANSWERS)
    with counting.counting(apart):
        for place, row in enumerate(ANSWERS):
            store.put_results([ResultRow(f"other {place}", row.question, row.state, row.value)])
    assert (together["commits"], apart["commits"]) == (1, len(ANSWERS))
    assert together["rows encoded"] == apart["rows encoded"] == len(ANSWERS)


def test_an_answer_that_is_read_back_is_a_decoded_row_more(store: Store) -> None:
    counts = Counter[str]()
    with counting.counting(counts):
        store.put_results(ANSWERS)
        assert counts["rows decoded"] == 0
        store.results("pipeline")
        assert counts["rows decoded"] == len(ANSWERS)


def test_a_sentence_that_is_tokenised_again_is_counted_again() -> None:
    embedder = WordLlamaEmbedder()
    counts = Counter[str]()
    with counting.counting(counts):
        embedder.embed(SENTENCES)
        assert (counts["batches embedded"], counts["texts tokenised"]) == (1, len(SENTENCES))
        embedder.tokens(SENTENCES[0])
        assert (counts["batches embedded"], counts["texts tokenised"]) == (1, len(SENTENCES) + 1)
