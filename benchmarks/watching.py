"""Running a command while its processes are watched, and data sets of drawn questions: for several benchmarks.

Questions are asked of the documents of `law`: each names words of a sentence, in its order, and the sentence is the
evidence and the answer. ``PEAK`` is the most that a process had in memory at once (VmHWM), shared pages in full;
``OWN`` the most of it that was its own (anonymous pages); ``PSS`` has each shared page divided by the processes that
share it. The latter two are sampled twice a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.dataset import load_dataset
from ragsmith.text.words import sentences

SEED = 11
FEWEST, MOST = 4, 9
"""Words of a sentence that a question names."""
SAMPLED = 0.5
"""Seconds between two looks at the processes."""
FIELDS = {"VmHWM": "PEAK", "RssAnon": "OWN", "Pss": "PSS"}
MIB = 1 << 20


def questions(number: int) -> Iterator[dict[str, object]]:
    """As many different questions about sentences of `law`, with exact evidence."""
    drawn = random.Random(SEED)
    able = [
        (document, start, end)
        for document in load_dataset("law").documents
        for start, end in sentences(document.text)
        if len(document.text[start:end].split()) > MOST and document.text[start] not in "#|-*"
    ]
    seen: set[str] = set()
    while len(seen) < number:
        document, start, end = drawn.choice(able)
        text = document.text[start:end]
        words = text.strip(".").split()
        named = sorted(drawn.sample(range(len(words)), drawn.randint(FEWEST, MOST)))
        question = f"What is said of {' '.join(words[place] for place in named)}?"
        if question in seen:
            continue
        seen.add(question)
        evidence = {"doc": document.id, "start": start, "end": end, "text": text}
        place = len(seen)
        yield {
            "id": f"q{place:06}",
            "question": question,
            "answer": text,
            "type": "drawn",
            "evidence": [evidence],
            "split": "test" if place % 3 == 0 else "search",
        }


def make_questions(folder: Path, number: int) -> Path:
    """A data set of so many questions."""
    place = folder / f"law{number}"
    place.mkdir()
    law = bundled_path("datasets", "law")
    shutil.copytree(law / "documents", place / "documents")
    shutil.copy(law / "dataset.yaml", place)
    lines = (json.dumps(question, ensure_ascii=False) + "\n" for question in questions(number))
    (place / "questions.jsonl").write_text("".join(lines), encoding="utf-8")
    return place


def children(parent: int) -> Iterator[int]:
    """The processes that ``parent`` has started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(path.parent.name)


@dataclass(frozen=True)
class Watched:
    """A finished command: wall seconds, CPU seconds of it and its children, what it said, and peaks in bytes."""

    code: int
    wall: float
    cpu: float
    said: str
    parent: dict[str, int]
    workers: list[dict[str, int]]


def look(pid: int, peaks: dict[int, dict[str, int]]) -> None:
    """Note what a process has in memory, in bytes; one that keeps track of what others share is left out."""
    with suppress(OSError):
        if "resource_tracker" in Path(f"/proc/{pid}/cmdline").read_text():
            return
        lines = Path(f"/proc/{pid}/status").read_text() + Path(f"/proc/{pid}/smaps_rollup").read_text()
        seen = {
            words[0].rstrip(":"): int(words[1]) * 1024
            for line in lines.splitlines()
            if (words := line.split())[2:] and words[0].rstrip(":") in FIELDS
        }
        before = peaks.setdefault(pid, {})
        peaks[pid] = {field: max(before.get(field, 0), value) for field, value in seen.items()} or before


def watched(tree: Path, arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> Watched:
    """Run ``ragsmith`` of ``tree`` in ``folder``, and look at its processes while it runs."""
    folder.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    peaks: dict[int, dict[str, int]] = {}
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *arguments],
            cwd=folder,
            stdout=said,
            stderr=said,
            env={**os.environ, "RAGSMITH_LEDGER": "off", "PYTHONPATH": str(tree), **(env or {})},
        )
        while process.poll() is None:
            for pid in (process.pid, *children(process.pid)):
                look(pid, peaks)
            with suppress(subprocess.TimeoutExpired):
                process.wait(SAMPLED)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    parent = peaks.pop(process.pid, {})
    return Watched(process.returncode, wall, cpu, (folder / "said").read_text(), parent, [*peaks.values()])


def digest(folder: Path) -> str:
    """Digests of the winner's file, of the ranking, and of all rows of results."""
    found = []
    for name in ("winner.yaml", "ranking.csv"):
        for path in sorted(folder.glob(f"reports/*/{name}")):
            lines = [line for line in path.read_bytes().splitlines() if os.fsencode(tempfile.gettempdir()) not in line]
            found.append(f"{name} {hashlib.sha256(b'|'.join(lines)).hexdigest()[:16]}")
    rows = hashlib.sha256()
    number = 0
    with sqlite3.connect(folder / "cache.sqlite") as connection:
        for row in connection.execute("SELECT evaluation, question, state, value FROM result ORDER BY 1, 2"):
            rows.update(repr(row).encode())
            number += 1
    return ", ".join([*found, f"{number:,} rows {rows.hexdigest()[:16]}"])


def peaks_shown(ran: Watched) -> None:
    """Print the peaks of memory of the parent and of each worker."""
    for name, found in (("parent", ran.parent), *(("worker", found) for found in ran.workers)):
        sizes = "  ".join(f"{FIELDS[field]} {value / MIB:7,.0f} MiB" for field, value in found.items())
        print(f"  {name:<8}{sizes}")
