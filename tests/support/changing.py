"""A collection that grows, changes and shrinks in a random order, whose writer is killed, against one built anew.

All work is done in forked processes, so that a kill meets it wherever it is, and nothing of it stays in this one. A
change that was killed is made again, as its user would; in the end whatever lies on the shelf has to be, array by
array, what an index that is built anew has, and the answers, too.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import yaml

import ragsmith
from ragsmith.datasets.dataset import load_documents
from ragsmith.exported.collection import Collection
from ragsmith.exported.index import artifact_cache_for

Texts = dict[str, str]
"""Documents by name."""
Change = tuple[str, str | None]
"""The name of a document and its text from now on; None if it is removed."""

PLAIN = {
    "pre_embedding": "none",
    "query_expansion": "none",
    "retrieval": "hybrid",
    "reranking": "none",
    "passage_filter": "top_k",
    "passage_augment": "none",
    "passage_compress": "none",
    "prompt_maker": "listing",
    "post_generation": "none",
}
KINDS: Sequence[Mapping[str, str]] = (
    {},
    {"retrieval": "nest"},
    {"retrieval": "graph_ppr"},
    {"retrieval": "complete_hybrid"},
    {"pre_embedding": "hype"},
    {"pre_embedding": "cross_document", "retrieval": "vector"},
)
"""Pipelines that keep, together, every kind of volume that there is."""
CHUNK_SIZE = 330
QUESTION = "What is said about the harbour and the figure in the section?"


def found_on(texts: Texts, folder: Path, kinds: Sequence[Mapping[str, str]] = KINDS) -> list[Path]:
    """Files of pipelines that were found on documents, each with an index of its own."""
    write(texts, folder / "documents")
    digest = load_documents(folder / "documents").digest
    winners = []
    for number, kind in enumerate(kinds):
        content = {
            "dataset": {"name": "growing", "documents": "documents", "digest": digest},
            "chunk_size": CHUNK_SIZE,
            "pipeline": {family: {"technique": name} for family, name in {**PLAIN, **kind}.items()},
        }
        winners.append(folder / f"winner-{number}.yaml")
        winners[-1].write_text(yaml.safe_dump(content))
    return winners


def write(texts: Texts, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.md" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


def batches(changes: Sequence[Change], sizes: Sequence[int], draw: random.Random) -> list[list[Change]]:
    """All changes in a random order, as many of them at a time as is drawn."""
    order = draw.sample(list(changes), len(changes))
    found = []
    while order:
        size = draw.choice(sizes)
        found.append(order[:size])
        del order[:size]
    return found


def in_process(work: Callable[[], object], kill_after: float | None = None) -> tuple[bool, float]:
    """Do ``work`` in a process, which is killed after so many seconds; whether it was, and how long it took.

    Raises:
        RuntimeError: it failed; warnings are errors.
    """
    began = time.perf_counter()
    child = os.fork()
    if not child:
        try:
            warnings.simplefilter("error")
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001  whatever it is, this process must end here
            traceback.print_exc()
            os._exit(1)
    if kill_after is not None:
        while time.perf_counter() - began < kill_after and not os.waitid(os.P_PID, child, _STILL):
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("a process that changes an index failed: see its traceback")
    return os.WIFSIGNALED(status), time.perf_counter() - began


_STILL = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "waitid") else 0
"""To ask whether a process has ended, and leave its end to be asked for again."""


@dataclass
class Order:
    """What came of one order of changes."""

    batches: int = 0
    kills: int = 0
    compared: int = 0
    kinds: set[str] = field(default_factory=set)
    volumes: int = 0


def carried_out(
    winners: Sequence[Path],
    before: Texts,
    changes: Sequence[Change],
    draw: random.Random,
    *,
    sizes: Sequence[int],
    kills: float,
) -> Order:
    """Make changes in a random order, so many at a time; compare with what is built anew, in the end and once between.

    ``winners`` are of `found_on`. Before a batch is made it is tried and killed, again and again in a share ``kills``.

    Raises:
        RuntimeError: what is kept is not what an index that is built anew has; the difference is printed.
    """
    folder = winners[0].parent
    order, cache, texts = Order(), folder / "cache.sqlite", dict(before)
    _, takes = in_process(lambda: [ragsmith.build_index(winner, cache=cache) for winner in winners])
    planned = batches(changes, sizes, draw)
    between = draw.randrange(len(planned))
    for number, batch in enumerate(planned):
        order.batches += 1
        while draw.random() < kills:
            was_killed, _ = in_process(partial(change, winners, batch, cache), draw.random() * takes)
            order.kills += was_killed
        _, takes = in_process(partial(change, winners, batch, cache))
        for name, text in batch:
            texts.pop(name, None)
            texts |= {} if text is None else {name: text}
        if number in (between, len(planned) - 1):
            anew = folder / f"anew-{number}"
            write(texts, anew / "documents")
            in_process(partial(compare, winners, anew, cache))
            order.compared += 1
            listed = artifact_cache_for(anew / "cache.sqlite").list_entries()
            order.kinds |= {one.key.kind for one in listed}
            order.volumes += len(listed)
    return order


def change(winners: Sequence[Path], batch: Sequence[Change], cache: Path) -> None:
    """Make changes to the index of each pipeline; of those that were made already, nothing comes."""
    coming = {name: text for name, text in batch if text is not None}
    going = {name for name, text in batch if text is None}
    paths = write(coming, cache.parent / "incoming")
    for winner in winners:
        if coming:
            ragsmith.add_to_index(winner, paths, cache=cache)
        held = {document.id for document in Collection(winner, artifact_cache_for(cache)).read().documents}
        if gone := sorted(going & held):
            ragsmith.remove_from_index(winner, gone, cache=cache)
        elif not coming:  # it was killed when they were gone, and the index was not whole yet
            ragsmith.ask(winner, QUESTION, indexed=True, cache=cache)


def compare(winners: Sequence[Path], folder: Path, cache: Path) -> None:
    """Build every index anew in ``folder``, and look for each of its volumes among those that were kept."""
    anew, kept = folder / "cache.sqlite", artifact_cache_for(cache)
    for winner in winners:
        ragsmith.build_index(winner, documents=folder / "documents", cache=anew)
        now, then = (Collection(winner, artifact_cache_for(place)).read().documents for place in (cache, anew))
        assert {d.id: d for d in now} == {d.id: d for d in then}, f"{winner.name} holds other documents"
        replies = [ragsmith.ask(winner, QUESTION, indexed=True, cache=place) for place in (cache, anew)]
        assert replies[0].answer == replies[1].answer
        assert replies[0].sources == replies[1].sources
    for one in artifact_cache_for(anew).list_entries():
        expected, found = artifact_cache_for(anew).read(one.key), kept.read(one.key)
        assert expected is not None
        assert found is not None, f"there is no {one.key} among what was kept"
        assert found.arrays.keys() == expected.arrays.keys()
        for name, array in expected.arrays.items():
            same = array.dtype == found.arrays[name].dtype and np.array_equal(array, found.arrays[name])
            assert same, f"{name} of {one.key.kind} is not what it is when it is built anew"
