"""`init_dataset`: from a folder of files to the folder of a data set."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragsmith.datasets.ingest.ingest import IngestResult, ingest_folder
from ragsmith.datasets.ingest.summary import Summary, summarise
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.plan import about_pipelines


@dataclass(frozen=True)
class Intake:
    """What became of every file (``taken``), what the documents are like (``found``), and what a search would take.

    ``pipelines`` is about how many a search with the default settings evaluates, each on every search question.
    """

    taken: IngestResult
    found: Summary
    pipelines: int

    @property
    def next_steps(self) -> tuple[str, ...]:
        """The commands that go on from here; where evidence lies in documents that changed, the first mends it."""
        output = self.taken.output
        folder = shlex.quote(str(output))
        if (output / QUESTIONS).exists():
            repair = [f"ragsmith dataset anchor --repair {folder}"] if self.taken.repointed else []
            return (*repair, f"ragsmith dataset validate {folder}", f"ragsmith search --dataset {folder}")
        return (f"ragsmith recommend {folder}", f"ragsmith dataset draft {folder} --llm MODEL")

    def plain(self) -> dict[str, Any]:
        """For programs: counts, every file, and what was found."""
        taken = self.taken
        return {
            "folder": str(taken.folder),
            "output": str(taken.output),
            "outcomes": dict(sorted(Counter(file.outcome.value for file in taken.files).items())),
            "files": [asdict(file) for file in taken.files],
            "removed": [{**asdict(one), "kept": one.kept} for one in taken.removed],
            "near_duplicates": [asdict(pair) for pair in taken.near],
            "evidence_in_changed_documents": dict(taken.repointed),
            "found": asdict(self.found),
            "search": {"pipelines": self.pipelines},
            "next": list(self.next_steps),
        }


def init_dataset(
    folder: str | Path, output: str | Path, *, on_file: Callable[[str, int], None] | None = None
) -> Intake:
    """Make a data set's documents of the files in a folder, or bring one that was made of it up to date.

    Every file becomes a document, or is the duplicate of one, or is refused with a reason; see
    ``ragsmith.datasets.ingest``. Only files that have changed are converted again. A text that was edited in the data
    set stays as it is, and so does ``questions.jsonl``. ``on_file`` is told each file's path, and how many came before.

    Raises:
        UsageError: ``folder`` is none, or ``output`` is something else, or is being written by another process.
        DatasetError: no file can be read; every one is named with the reason.
        OSError: the disk is full; nothing has changed then.
    """
    taken = ingest_folder(Path(folder), Path(output), on_file)
    return Intake(taken, summarise(taken), about_pipelines(load_space("default"), RunSettings()))
