"""The circumstances of a run, as frozen values: how it was asked for, how it went, what it used and what failed."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def folder_of(dataset: str) -> str:
    """The folder of a data set's report, below the folder of all reports."""
    return dataset if _FOLDER.fullmatch(dataset) else "_" + _UNSAFE.sub("_", dataset)


@dataclass(frozen=True, slots=True)
class Failure:
    """Questions that failed in one stage with one kind of exception; ``example`` is the first message."""

    stage: str
    exception: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A model by role."""

    role: str
    id: str
    description: str


@dataclass(frozen=True, slots=True)
class About:
    """Data set and run as they were asked for. Times are text as stored."""

    dataset: str
    title: str
    description: str
    documents: int
    chunks: int
    chunk_size: int
    run: str
    state: str
    started: str
    finished: str
    strategy: str
    seed: int
    space: str
    size: int
    feasible: int
    fitness: str
    search_questions: int
    test_questions: int
    split_rule: str

    @property
    def folder(self) -> str:
        """The name of the data set as a folder: a cache that somebody else wrote cannot lead out of the reports."""
        return folder_of(self.dataset)
