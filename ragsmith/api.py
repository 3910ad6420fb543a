"""Search and report from Python: what the command line does, without printing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsmith.evaluation.testbed import CHUNK_SIZE, prepare
from ragsmith.models.given import apart
from ragsmith.models.loading import ModelNames
from ragsmith.pipelines.space_file import load_space
from ragsmith.reporting import write_report
from ragsmith.runs.record import RunSettings
from ragsmith.runs.run import Outcome, Run
from ragsmith.runs.winner import write_winner
from ragsmith.store.store import Store


def search(
    dataset: str | Path,
    *,
    space: str | Path = "default",
    settings: RunSettings | None = None,
    models: ModelNames | Mapping[str, Any] | None = None,
    chunk_size: int = CHUNK_SIZE,
    workers: int | None = None,
    cache: str | Path = "cache.sqlite",
    winner: str | Path | None = None,
) -> Outcome:
    """Search ``space`` for the best pipeline on ``dataset``, going on from what ``cache`` holds.

    ``models`` are names, or by role a name or an object: a LlamaIndex ``LLM`` or ``BaseEmbedding``, or anything with
    the protocol that its role has in `ragsmith.models`, whose ``id`` says what its results depend on. Objects are asked
    from ``workers`` threads at once; what they return is kept on disk if they are chat models, or have an attribute
    ``slow`` that is true. `Pipeline.load` must be handed them again.

    ``winner`` names a file for the winning pipeline. ``workers`` is questions in flight for models that are elsewhere,
    and processes for the embedded ones: every core unless given. A script that uses more than one process needs the
    usual ``if __name__ == "__main__":``.

    Raises:
        UsageError: the data set, the space, a setting or a model cannot be used; nothing was computed.
        RagsmithError: no candidate could be evaluated on every question; what was computed is kept.
    """
    given: dict[str, Any] = {}
    if isinstance(models, Mapping):
        named, given = apart(models)
        models = ModelNames().overridden(named)
    names = models or ModelNames()
    found = load_space(space)
    setup = prepare(str(dataset), names, chunk_size, given=given)
    with Store.open(str(cache)) as store:
        outcome = Run(setup, found, store, settings, workers=workers or names.workers()).go()
        if winner is not None:
            write_winner(store, outcome.key, setup, str(dataset), Path(winner))
    return outcome


def report(cache: str | Path, folder: str | Path, dataset: str | None = None) -> list[Path]:
    """Write the report of the searches in ``cache``, of one data set or of all, and return the files written."""
    with Store.open(str(cache), read_only=True) as store:
        return list(write_report(store, Path(folder), dataset).paths)
