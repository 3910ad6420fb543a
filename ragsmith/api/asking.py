"""`ask`, `verify`, `serve`, `asgi_app`, `deploy`, and `build_index` and the like: an exported pipeline at work."""

from __future__ import annotations

import os
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ragsmith.api.arguments import CacheArguments
from ragsmith.api.resources import CACHE, Resources, existing
from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.changes import DocumentChanges
from ragsmith.errors import MissingExtra, Notice, UsageError
from ragsmith.exported.collection import Collection, all_documents
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline, Reply
from ragsmith.exported.reference import Verified
from ragsmith.serving.limits import ServingLimits
from ragsmith.techniques.user_code import import_files
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.deploying.kit import Kit
    from ragsmith.serving.answering import PipelineService
    from ragsmith.serving.app import ServingApp
    from ragsmith.store.store import Store


LARGE = 500_000
"""Characters from which the index of a collection is stored; building a smaller one takes no longer than reading it."""


def ask(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    **given: Unpack[CacheArguments],
) -> Reply:
    """Answer a question with an exported pipeline; paid replies are stored in ``cache``.

    >>> ragsmith.ask("winner.yaml", "When does the limitation period start?").sources[0].doc
    'obligations-code'

    ``dataset``, ``models``, ``base_url`` and ``vector_store`` take the place of those that the file names; ``imports``
    are files of your own, where they lie elsewhere than it says. ``documents`` is a folder of documents to ask instead;
    the reply says how they differ from those that the pipeline was found on. With ``indexed``, those are asked that
    `ragsmith.build_index` holds. The index of a large collection is stored next to the cache, and opened from there the
    next time.

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    resources = Resources(**given)
    if indexed:
        dataset = indexed_documents(pipeline, resources, dataset, documents)
    loaded = resources.pipeline(pipeline, dataset, documents)
    with resources.remembering(loaded) as able:
        if indexed or is_large(able):
            open_index(able, resources)
        reply = able.ask(question)
    return reply if documents is None and not indexed else replace(reply, changes=changes_of(able, pipeline, resources))


def verify(
    pipeline: Pipeline | str | Path,
    **given: Unpack[CacheArguments],
) -> Verified:
    """Run a pipeline again, from its documents, and compare with the scores that it was exported with.

    >>> ragsmith.verify("winner.yaml").differences
    ()

    Raises:
        UsageError: the file, its documents or a model cannot be used, or it has no scores.
        RagsmithError: a question fails now.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline)
    with resources.remembering(loaded) as able:
        differences = tuple(able.verify())
    questions = {part: scores["questions"] for part, scores in loaded.expected.items()}
    return Verified(differences, loaded.changed_models(), questions)


def indexed_documents(
    pipeline: Pipeline | str | Path,
    resources: Resources,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
) -> Dataset:
    """The documents that the index of a pipeline holds.

    Raises:
        UsageError: it has no index; or ``dataset`` or ``documents`` say something else.
    """
    if isinstance(pipeline, Pipeline) or dataset is not None or documents is not None:
        raise UsageError("--indexed asks the documents that `ragsmith index` holds for a file: give no others with it")
    return Collection(existing(pipeline), resources.artifacts).read()


def is_large(pipeline: Pipeline) -> bool:
    """Whether the index of a pipeline is sooner opened than built."""
    return sum(len(document.text) for document in pipeline.setup.dataset.documents) >= LARGE


def open_index(pipeline: Pipeline, resources: Resources, *, complete: bool = False) -> None:
    """Open the index of a pipeline next to the cache, and build what is not there; see `open_with_index`."""
    from ragsmith.exported.index import open_with_index  # noqa: PLC0415  a small collection needs none of it

    open_with_index(pipeline, resources.artifacts, complete=complete)


def changes_of(loaded: Pipeline, file: Pipeline | str | Path, resources: Resources) -> DocumentChanges | None:
    """How the documents of a pipeline differ from those that it was found on; None if that is not known."""
    from ragsmith.exported.index import changed_documents  # noqa: PLC0415  as above

    return None if isinstance(file, Pipeline) else changed_documents(loaded, file, resources.artifacts)


@dataclass(frozen=True, slots=True)
class Indexed:
    """The index of a pipeline: how many documents and chunks it holds.

    ``changes`` is how its documents differ from those that the pipeline was found on, None if that is not known.
    """

    documents: int
    chunks: int
    changes: DocumentChanges | None


@dataclass(frozen=True, slots=True)
class ArtifactTotal:
    """What is kept of one kind (``vectors``, ``words``): in how many volumes, and their bytes together."""

    kind: str
    volumes: int
    size: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Where indexes are kept, what is there of each kind, of all pipelines, and the index that was asked for."""

    folder: str
    kept: tuple[ArtifactTotal, ...]
    index: Indexed | None = None


def build_index(
    pipeline: str | Path,
    *,
    documents: str | Path | None = None,
    replace: bool = False,
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Hold the documents of a pipeline, or those in a folder, and build its index on them.

    >>> ragsmith.build_index("winner.yaml").documents  # doctest: +SKIP
    10

    The index is stored next to ``cache``; existing parts are not built again. Documents that it has now, and that are
    not among these, are only removed to ``replace`` them. `ragsmith.ask` with ``indexed`` asks what is held. The
    other arguments are those of `ragsmith.ask`.

    Raises:
        UsageError: the file, its documents or a model cannot be used; or documents that are held would be given up.
        StageFailed: the index cannot be built.
    """
    loaded = Resources(**given).pipeline(existing(pipeline), documents=documents)
    return _changed(
        pipeline, lambda held: held.start(all_documents(loaded.setup.dataset), replace=replace), given, loaded
    )


def add_to_index(
    pipeline: str | Path,
    paths: Sequence[str | Path],
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Add documents in files and folders to the index of a pipeline; those of the same names are replaced.

    >>> ragsmith.add_to_index("winner.yaml", ["minutes-of-may.md"]).changes.added  # doctest: +SKIP
    ('minutes-of-may',)

    Only their texts are read and embedded. The other arguments are those of `build_index`.

    Raises:
        UsageError: there is no index yet, or a document or a model cannot be used.
        StageFailed: the index cannot be built.
    """
    return _changed(pipeline, lambda held: held.add(paths), given)


def remove_from_index(
    pipeline: str | Path,
    documents: Sequence[str],
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Remove documents, by identifier, from the index of a pipeline.

    >>> ragsmith.remove_from_index("winner.yaml", ["minutes-of-may"]).changes.added  # doctest: +SKIP
    ()

    The other arguments are those of `build_index`.

    Raises:
        UsageError: there is no index yet, or it does not hold one of them, or no others.
        StageFailed: the index cannot be built.
    """
    return _changed(pipeline, lambda held: held.remove(documents), given)


def index_status(pipeline: str | Path | None = None, *, cache: Store | str | Path = CACHE) -> IndexStatus:
    """Say what is stored next to ``cache``, and what the index of a pipeline holds.

    >>> ragsmith.index_status("winner.yaml").index.documents  # doctest: +SKIP
    10

    Raises:
        UsageError: the file cannot be used, or there is no index of it.
    """
    resources = Resources(cache=cache)
    shelf = resources.artifacts
    volumes: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for one in shelf.listed():
        volumes[one.key.kind] += 1
        sizes[one.key.kind] += one.size
    kept = tuple(ArtifactTotal(kind, volumes[kind], sizes[kind]) for kind in sorted(volumes))
    if pipeline is None:
        return IndexStatus(str(shelf.folder), kept)
    loaded = resources.pipeline(pipeline, indexed_documents(pipeline, resources))
    documents, chunks = len(loaded.setup.dataset.documents), len(loaded.setup.corpus.chunks)
    return IndexStatus(str(shelf.folder), kept, Indexed(documents, chunks, changes_of(loaded, pipeline, resources)))


def _changed(
    pipeline: str | Path, change: Callable[[Collection], Dataset], given: CacheArguments, loaded: Pipeline | None = None
) -> Indexed:
    """Change what the index of a pipeline holds, and build what is missing of it."""
    resources = Resources(**given)
    data = change(Collection(existing(pipeline), resources.artifacts))
    if loaded is None or loaded.setup.dataset.digest != data.digest:
        loaded = resources.pipeline(pipeline, data)
    with resources.remembering(loaded) as able:
        open_index(able, resources, complete=True)
    return Indexed(len(data.documents), len(loaded.setup.corpus.chunks), changes_of(loaded, pipeline, resources))


HOST, PORT = "127.0.0.1", 8000
TOKEN = "RAGSMITH_TOKEN"
NEEDED = ("starlette", "uvicorn", "prometheus_client", "mcp")


def serve(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    host: str = HOST,
    port: int = PORT,
    token_file: str | Path | None = None,
    limits: ServingLimits | None = None,
    feedback: str | Path | None = None,
    mcp: bool = False,
    on_start: Callable[[str], None] | None = None,
    **given: Unpack[CacheArguments],
) -> None:
    """Answer questions over HTTP with an exported pipeline, until a signal comes; what was accepted is answered.

    >>> ragsmith.serve("winner.yaml", port=0, on_start=print)  # doctest: +SKIP
    http://127.0.0.1:43017/

    ``host`` other than this machine needs a token, from ``token_file`` or the variable ``RAGSMITH_TOKEN``. ``feedback``
    is a file that what people say of answers is added to, as drafted questions. ``mcp`` serves the tools of the Model
    Context Protocol on standard input and output instead. ``on_start`` is called with the address once it answers. The
    other arguments are those of `ragsmith.ask`. Call it in the main thread, where signals arrive.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the address cannot, or a token is missing.
        MissingExtra: the extra ``serve`` is not installed.
    """
    refuse_missing()
    from ragsmith.serving import server  # noqa: PLC0415  what the extra brings, and takes time to import
    from ragsmith.serving.middleware import THIS_MACHINE  # noqa: PLC0415

    chosen = limits or ServingLimits()
    if mcp:
        if token_file is not None or feedback is not None:
            raise UsageError(
                "tools on standard input and output need no token and keep no feedback: leave --token-file and "
                "--feedback out with --mcp"
            )
        from ragsmith import __version__  # noqa: PLC0415
        from ragsmith.serving.tools import tool_server  # noqa: PLC0415

        answerer = _answerer(pipeline, dataset, documents, Resources(**given), indexed=indexed)
        tools = tool_server(answerer, chosen, __version__)
        try:
            tools.run("stdio")
        finally:
            answerer.close()
        if tools.pressed:
            signal.raise_signal(signal.SIGINT)
        return
    token = server.read_token(token_file, os.environ.get(TOKEN))
    server.require_token(host, token)
    with server.listen(host, port) as listening:
        app = asgi_app(
            pipeline,
            dataset=dataset,
            documents=documents,
            indexed=indexed,
            token=token,
            hosts=(*THIS_MACHINE, host),
            limits=chosen,
            feedback=feedback,
            **given,
        )
        server.run(app, listening, on_start)


def asgi_app(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    limits: ServingLimits | None = None,
    feedback: str | Path | None = None,
    **given: Unpack[CacheArguments],
) -> ServingApp:
    """What `serve` serves, as an ASGI application, to be mounted in another or run by a server of your choice.

    >>> documents = ragsmith.asgi_app("winner.yaml", hosts=["intranet.example"])  # doctest: +SKIP
    >>> app = Starlette(routes=[Mount("/documents", documents)])  # doctest: +SKIP

    Without a ``token``, of at least 16 characters, it answers requests for ``hosts`` alone, names of this machine if
    there are none given. The pipeline is loaded now; call ``close()`` in the end. The other arguments are those of
    `serve`.

    Raises:
        UsageError: as `serve`.
        MissingExtra: as `serve`.
    """
    refuse_missing()
    from ragsmith.serving.app import ServingApp  # noqa: PLC0415  as above
    from ragsmith.serving.middleware import THIS_MACHINE, checked_token  # noqa: PLC0415

    if token is not None:
        token = checked_token(token, "the argument token")
    if isinstance(hosts, str):
        raise UsageError(f"hosts is the text {hosts!r}: give a list of names, as in  hosts=[{hosts!r}]")
    if feedback is not None and not Path(feedback).absolute().parent.is_dir():
        raise UsageError(f"{feedback}: its folder is missing: make it, or name another file for feedback")
    answerer = _answerer(pipeline, dataset, documents, Resources(**given), indexed=indexed)
    names = THIS_MACHINE if hosts is None else hosts
    return ServingApp(answerer, limits=limits, token=token, hosts=names, feedback=feedback)


def refuse_missing() -> None:
    """Raise `MissingExtra` where a package of the extra is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415

    for package in NEEDED:
        if find_spec(package) is None:
            raise MissingExtra(package, "serve")


def _answerer(
    pipeline: Pipeline | str | Path,
    dataset: Dataset | str | Path | None,
    documents: str | Path | None,
    resources: Resources,
    *,
    indexed: bool,
) -> PipelineService:
    """The pipeline with its index, prepared; the cache is open as long as it answers, where a model is paid for.

    A notice says how its documents differ from those that it was found on, if they do.
    """
    from ragsmith.serving.answering import PipelineService  # noqa: PLC0415  it needs what explains a question

    if indexed:
        dataset = indexed_documents(pipeline, resources, dataset, documents)
    loaded = resources.pipeline(pipeline, dataset, documents)
    if indexed or is_large(loaded):
        with resources.remembering(loaded) as able:
            open_index(able, resources)
    if indexed or documents is not None:
        changes = changes_of(loaded, pipeline, resources)
        if changes is None or changes:
            how = "in ways that are not known" if changes is None else f"by {changes}"
            warnings.warn(
                f"the documents differ from those that the pipeline was found on, {how}", Notice, stacklevel=3
            )
    with ExitStack() as stack:
        store = stack.enter_context(resources.store()) if loaded.setup.loaded_models.waits else None
        answerer = PipelineService(loaded, store)
        answerer.prepare()
        answerer.keep_open(stack.pop_all())
    return answerer


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
