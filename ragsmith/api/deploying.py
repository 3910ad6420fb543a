"""`deploy`: a starter kit of an exported pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragsmith.api.resources import existing
from ragsmith.datasets.bundled import bundled_path
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.techniques.user_code import import_files

if TYPE_CHECKING:
    from ragsmith.deploying.kit import Kit


def deploy(
    pipeline: str | Path,
    folder: str | Path,
    *,
    dataset: str | Path | None = None,
    documents: str | Path | None = None,
    imports: Sequence[str | Path] = (),
    force: bool = False,
) -> Kit:
    """Write a starter kit for an exported pipeline to a new folder: all that is needed to run it elsewhere.

    >>> ragsmith.deploy("winner.yaml", "kit").extras
    ('serve',)

    It has the pipeline's file, its documents and questions (or those of ``dataset``, or ``documents`` alone), this
    ragsmith as a wheel, pinned requirements, a server with its settings, container files, a smoke test, a load test, a
    gate for continuous integration, and the pipeline as a Python script. No model is asked, and no key is read or
    written. ``force`` replaces the files that an earlier kit wrote to ``folder``, and leaves others; where a file of
    your own, or an edit, would be lost, nothing is changed.

    Raises:
        UsageError: the file, its documents or a file of your own cannot be used; or ``folder`` is not empty, or has
            something of yours that would be lost.
    """
    from ragsmith.deploying.kit import make_kit  # noqa: PLC0415  templates, and what reads versions, for this alone

    import_files(imports)
    file = existing(pipeline)
    loaded = Pipeline.load(file, dataset=dataset, documents=documents)
    exported = ExportedFile(file)
    named = documents if dataset is None else dataset
    source = exported.folder() if named is None else bundled_path("datasets", named)
    return make_kit(loaded, exported.content(), source, Path(folder), bare=documents is not None, force=force)
