"""A folder whose files are added, edited, moved, removed and copied in a random order, and an index that follows it.

All work is done in forked processes, so that a kill meets it wherever it is, and nothing of it stays in this one. A
change that was killed is made again, as its user would; in the end the documents, the answers and, array by array,
whatever is stored have to be those of an index that is built anew on the folder.
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import yaml

import ragsmith
from ragsmith.datasets.dataset import load_documents
from ragsmith.exported.collection import FOLDER, Collection, all_documents
from ragsmith.exported.index import artifact_cache_for

Texts = dict[str, str]
"""Documents by name."""
Files = dict[str, str | None]
"""Texts of documents from now on, by name; None for one that is removed."""
Change = tuple[str, Files]
"""The kind of a change, and the files that it changes."""

CHANGES = ("add", "edit", "move", "remove", "duplicate")
FOLDERS = ("", "hr/", "it/", "hr/old/")
"""In which a document may be, so that many have the same name."""
WAYS = ("files", "folders", "root")
"""How files are given to be added: each alone, the folders that they are in, or the folder of all."""

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
MOMENTS = (0.1, 1)
"""Within which shares of its time a process is killed: half of the times early, where documents are replaced."""
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


def write(files: Files | Texts, folder: Path) -> list[Path]:
    """Write and remove files in ``folder``; the paths of those that are written."""
    paths = {folder / f"{name}.md": text for name, text in files.items()}
    for path, text in paths.items():
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return [path for path, text in paths.items() if text is not None]


def drawn_changes(before: Texts, kinds: Sequence[str], texts: Iterator[str], draw: random.Random) -> list[Change]:
    """A change of each kind, in this order; ``texts`` are those of added and edited files."""
    state, changes = dict(before), list[Change]()
    for kind in kinds:
        name, new = draw.choice(sorted(state)), unused_name(state, draw)
        files: dict[str, Files] = {
            "add": {new: next(texts)},
            "edit": {name: next(texts)},
            "move": {name: None, new: state[name]},
            "remove": {name: None},
            "duplicate": {new: state[name]},
        }
        changes.append((kind, files[kind]))
        state = changed(state, files[kind])
    return changes


def unused_name(state: Texts, draw: random.Random) -> str:
    """A name that a document in another folder has, or else a new one."""
    names = sorted({name.rpartition("/")[2] for name in state})
    free = [name for base in (*names, f"new-{len(state)}") for f in FOLDERS if (name := f"{f}{base}") not in state]
    return draw.choice(free)


def changed(state: Texts, files: Files) -> Texts:
    """The texts after a change."""
    return {name: text for name, text in {**state, **files}.items() if text is not None}


def batches(changes: Sequence[Change], sizes: Sequence[int], draw: random.Random) -> list[list[Change]]:
    """All changes, as many of them at a time as is drawn."""
    order, found = list(changes), []
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
    """What came of one order of changes.

    Of ``tries`` to kill a process, ``kills`` met it at work: ``late`` of them when the documents of an index were
    already replaced, and others before.
    """

    changes: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    tries: int = 0
    kills: int = 0
    late: int = 0
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
    """Make changes in order, so many at a time; compare with what is built anew, in the end and once between.

    ``winners`` are of `found_on`. Before a batch is made it is tried and killed, again and again in a share ``kills``.

    Raises:
        RuntimeError: what is kept is not what an index that is built anew has; the difference is printed.
    """
    folder = winners[0].parent
    order, cache, texts = Order(Counter(kind for kind, _ in changes)), folder / "cache.sqlite", dict(before)
    _, takes = in_process(lambda: [ragsmith.build_index(winner, cache=cache) for winner in winners])
    planned = batches(changes, sizes, draw)
    between = draw.randrange(len(planned))
    for number, batch in enumerate(planned):
        order.batches += 1
        files: Files = {}
        for _, one in batch:
            files |= one
        work = partial(change, winners, files, cache, draw.choice(WAYS))
        while draw.random() < kills:
            order.tries += 1
            earlier = stored_documents(cache)
            was_killed, _ = in_process(work, draw.choice(MOMENTS) * draw.random() * takes)
            order.kills += was_killed
            order.late += was_killed and stored_documents(cache) != earlier
        _, takes = in_process(work)
        texts = changed(texts, files)
        if number in (between, len(planned) - 1):
            anew = folder / f"anew-{number}.sqlite"
            questions = [QUESTION, *(texts[name][-80:] for name in draw.sample(sorted(texts), 2))]
            in_process(partial(compare, winners, texts, questions, anew, cache))
            order.compared += 1
            listed = artifact_cache_for(anew).list_entries()
            order.kinds |= {one.key.kind for one in listed}
            order.volumes += len(listed)
    return order


def stored_documents(cache: Path) -> dict[Path, bytes]:
    """The files with the documents of all indexes."""
    return {path: path.read_bytes() for path in (artifact_cache_for(cache).folder / FOLDER).glob("*.jsonl")}


def change(winners: Sequence[Path], files: Files, cache: Path, way: str) -> None:
    """Change files, and the index of each pipeline; of changes that were made already, nothing comes."""
    folder = cache.parent / "documents"
    coming = write(files, folder)
    going = [folder / f"{name}.md" for name, text in files.items() if text is None]
    given = {"files": coming, "folders": sorted({path.parent for path in coming}), "root": [folder]}[way]
    for winner in winners:
        if coming:
            ragsmith.add_to_index(winner, given, cache=cache)
        data = Collection(winner, artifact_cache_for(cache)).read()
        held = {folder / f"{document.id}.md" for document in all_documents(data)}
        if gone := [str(path) for path in going if path in held]:
            ragsmith.remove_from_index(winner, gone, cache=cache)
        elif not coming:  # it was killed when they were gone, and the index was not whole yet
            ragsmith.ask(winner, QUESTION, indexed=True, cache=cache)


def compare(winners: Sequence[Path], texts: Texts, questions: Sequence[str], anew: Path, cache: Path) -> None:
    """Build every index anew on the folder, and look for each of its volumes among those that were kept."""
    kept = artifact_cache_for(cache)
    for winner in winners:
        ragsmith.build_index(winner, documents=cache.parent / "documents", cache=anew)
        now, then = (Collection(winner, artifact_cache_for(place)).read() for place in (cache, anew))
        assert {each.id: each.text for each in all_documents(now)} == texts, f"{winner.name} holds other documents"
        assert now == then, f"{winner.name} holds its documents otherwise"
        for question in questions:
            replies = [ragsmith.ask(winner, question, indexed=True, cache=place) for place in (cache, anew)]
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
