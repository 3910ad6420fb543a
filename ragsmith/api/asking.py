"""Use exported pipelines: `ask`, `verify`, `serve`, `asgi_app`, `deploy`, `translate`, and their indexes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from ragsmith.api.arguments import CacheArguments
from ragsmith.api.resources import CACHE, PriceSpec, Resources, read_given_prices, require_file
from ragsmith.argument_types import checked
from ragsmith.datasets.bundled import bundled_path
from ragsmith.datasets.changes import DocumentChanges
from ragsmith.errors import MissingExtra, UsageError, WrongOption, warn_caller
from ragsmith.exported.collection import Collection, IndexUpdate, all_documents
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline, Reply
from ragsmith.exported.reference import Verification
from ragsmith.serving.limits import ServingLimits
from ragsmith.techniques.user_code import import_files
from ragsmith.text.files import exists
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.deploying.kit import Kit
    from ragsmith.deploying.program import Program
    from ragsmith.models.own_prompts import PromptFiles
    from ragsmith.serving.answering import PipelineService
    from ragsmith.serving.app import ServingApp
    from ragsmith.store.store import Store


MIN_STORED_CHARACTERS = 500_000
"""Minimum number of characters of a collection whose index is stored; smaller indexes are built as fast as read."""


@checked
def ask(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    filter: object = None,  # noqa: A002  the name of the option everywhere
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    prompts: PromptFiles | None = None,
    **given: Unpack[CacheArguments],
) -> Reply:
    """Answer a question with an exported pipeline; paid replies are stored in ``cache``.

    >>> ragsmith.ask("winner.yaml", "When does the limitation period start?").sources[0].doc
    'obligations-code'

    ``filter`` selects the documents to answer from, see `ragsmith.Pipeline.ask`.
    ``dataset``, ``models``, ``base_url`` and ``vector_store`` override those of the file; ``imports`` are its extension
    files, if they have moved. ``documents`` is a folder of other documents; ``changes`` of the reply are their
    differences from the documents of the search. ``prompts`` are files with one's own prompts, by role, in place of
    those of the pipeline. With ``indexed``, the index of `ragsmith.build_index` is used. The
    index of a large collection is stored next to the cache, and reused.

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    resources = Resources(**given)
    if isinstance(pipeline, str) and not exists(pipeline) and exists(question) and Path(question).is_file():
        raise UsageError(f"the pipeline is given first, and then the question: ask({question!r}, {pipeline!r})")
    if indexed:
        dataset = indexed_documents(pipeline, resources, dataset, documents)
    loaded = _load_to_ask(pipeline, dataset, documents, resources)
    if prompts:
        loaded = loaded.with_prompts(prompts)
    with resources.caching_replies(loaded) as cached:
        if indexed or is_large(cached):
            open_index(cached, resources)
        reply = cached.ask(question, filter=filter)
    return (
        reply if documents is None and not indexed else replace(reply, changes=changes_of(cached, pipeline, resources))
    )


def _load_to_ask(
    pipeline: Pipeline | str | Path,
    dataset: Dataset | str | Path | None,
    documents: str | Path | None,
    resources: Resources,
) -> Pipeline:
    """Return a pipeline to ask, which needs none of its questions: those of its file may have changed."""
    if not isinstance(pipeline, Pipeline) and dataset is None and documents is None:
        dataset = ExportedFile(require_file(pipeline)).dataset(None, asking=True)
    return resources.pipeline(pipeline, dataset, documents)


@checked
def verify(
    pipeline: Pipeline | str | Path,
    **given: Unpack[CacheArguments],
) -> Verification:
    """Run a pipeline again on its documents, and compare its scores with the exported ones.

    >>> ragsmith.verify("winner.yaml").differences
    ()

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the file has no scores.
        RagsmithError: a question fails.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline)
    with resources.caching_replies(loaded) as cached:
        differences = tuple(cached.verify())
    questions = {part: scores["questions"] for part, scores in loaded.expected.items()}
    return Verification(differences, loaded.changed_models(), questions)


def indexed_documents(
    pipeline: Pipeline | str | Path,
    resources: Resources,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
) -> Dataset:
    """Return the documents in the index of a pipeline.

    Raises:
        UsageError: it has no index, or ``dataset`` or ``documents`` are given.
    """
    if isinstance(pipeline, Pipeline) or dataset is not None or documents is not None:
        raise WrongOption("indexed", "uses the documents in the index of a file: leave out dataset and documents")
    return Collection(require_file(pipeline), resources.artifacts).read()


def is_large(pipeline: Pipeline) -> bool:
    """Whether reading the index of a pipeline is faster than building it."""
    return sum(len(document.text) for document in pipeline.setup.dataset.documents) >= MIN_STORED_CHARACTERS


def open_index(pipeline: Pipeline, resources: Resources, *, complete: bool = False) -> None:
    """Open the index of a pipeline next to the cache, and build missing parts; see `open_with_index`."""
    from ragsmith.exported.index import open_with_index  # noqa: PLC0415  not needed for small collections

    open_with_index(pipeline, resources.artifacts, complete=complete)


def changes_of(loaded: Pipeline, file: Pipeline | str | Path, resources: Resources) -> DocumentChanges | None:
    """Return the differences between the documents of a pipeline and those of its search; None if unknown."""
    from ragsmith.exported.index import changed_documents  # noqa: PLC0415  as above

    return None if isinstance(file, Pipeline) else changed_documents(loaded, file, resources.artifacts)


@dataclass(frozen=True, slots=True)
class Indexed:
    """The index of a pipeline, with the numbers of its documents and chunks.

    ``changes`` are the differences from the documents of the search; None if unknown. ``hidden`` are further documents
    that are not used, by identifier, and the identical documents that are. ``folder`` is the folder or data set that
    the index was built on, and ``update`` what a command changed.
    """

    documents: int
    chunks: int
    changes: DocumentChanges | None
    hidden: Mapping[str, str]
    folder: str
    update: IndexUpdate | None = None


@dataclass(frozen=True, slots=True)
class ArtifactTotal:
    """The stored artifacts of a kind (``vectors``, ``words``): their number, and their size in bytes."""

    kind: str
    volumes: int
    size: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The folder of indexes, its artifacts by kind for all pipelines, and the index of the requested pipeline.

    ``names`` are the identifiers of the documents that this index uses.
    """

    folder: str
    kept: tuple[ArtifactTotal, ...]
    index: Indexed | None = None
    names: tuple[str, ...] = ()


@checked
def build_index(
    pipeline: str | Path,
    *,
    documents: str | Path | None = None,
    replace: bool = False,
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Build the index of a pipeline on its documents, or on those in a folder.

    >>> ragsmith.build_index("winner.yaml").documents  # doctest: +SKIP
    10

    The index is stored next to ``cache``; existing parts are not built again. Other documents that it has are removed
    only with ``replace``. `ragsmith.ask` with ``indexed`` uses the index. The other arguments are those of
    `ragsmith.ask`. The path of a file below the folder identifies its document from then on.

    Raises:
        UsageError: the file, its documents or a model cannot be used; or documents would be removed without
        ``replace``. StageFailed: the index cannot be built.
    """
    loaded = Resources(**given).pipeline(require_file(pipeline), documents=documents)
    folder = ExportedFile(Path(pipeline)).folder() if documents is None else bundled_path("datasets", documents)
    return _change_index(
        pipeline,
        lambda collection: collection.start(all_documents(loaded.setup.dataset), folder, replace=replace),
        given,
        loaded,
    )


@checked
def add_to_index(
    pipeline: str | Path,
    paths: Sequence[str | Path],
    *,
    replace: bool = False,
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Add the documents in files and folders to the index of a pipeline, or replace those of the same files.

    >>> ragsmith.add_to_index("winner.yaml", ["minutes-of-may.md"]).update.added  # doctest: +SKIP
    ('minutes-of-may',)

    A file in the folder of the index is identified by its path there, however it is given, and another one by its path
    in the given folder, or by its name. A document of the same identifier whose own file still exists is replaced only
    with ``replace``. Only texts that are new are processed and embedded. The other arguments are those of
    `build_index`.

    Raises:
        UsageError: there is no index yet, a name could be that of two documents, or a document or a model cannot be
        used. StageFailed: the index cannot be built.
    """
    return _change_index(pipeline, lambda collection: collection.add(paths, replace=replace), given)


@checked
def remove_from_index(
    pipeline: str | Path,
    documents: Sequence[str],
    **given: Unpack[CacheArguments],
) -> Indexed:
    """Remove documents, by identifier or path, from the index of a pipeline.

    >>> ragsmith.remove_from_index("winner.yaml", ["minutes-of-may"]).update.removed  # doctest: +SKIP
    ('minutes-of-may',)

    The other arguments are those of `build_index`.

    Raises:
        UsageError: there is no index yet, or it lacks one of the documents, or would be empty; or a name could be that
        of two documents.
        StageFailed: the index cannot be built.
    """
    return _change_index(pipeline, lambda collection: collection.remove(documents), given)


@checked
def index_status(pipeline: str | Path | None = None, *, cache: Store | str | Path = CACHE) -> IndexStatus:
    """Return the artifacts stored next to ``cache``, and the content of the index of a pipeline.

    >>> ragsmith.index_status("winner.yaml").index.documents  # doctest: +SKIP
    10

    Raises:
        UsageError: the file cannot be used, or there is no index of it.
    """
    resources = Resources(cache=cache)
    artifacts = resources.artifacts
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for one in artifacts.list_entries():
        sizes[one.key.kind].append(one.size)
    kept = tuple(ArtifactTotal(kind, len(each), sum(each)) for kind, each in sorted(sizes.items()))
    if pipeline is None:
        return IndexStatus(str(artifacts.folder), kept)
    data = indexed_documents(pipeline, resources)
    index = _describe_index(resources.pipeline(pipeline, data), data, pipeline, resources)
    return IndexStatus(str(artifacts.folder), kept, index, tuple(document.id for document in data.documents))


def _describe_index(
    loaded: Pipeline, data: Dataset, file: str | Path, resources: Resources, update: IndexUpdate | None = None
) -> Indexed:
    documents, chunks = len(data.documents), len(loaded.setup.corpus.chunks)
    return Indexed(documents, chunks, changes_of(loaded, file, resources), dict(data.merged), data.source, update)


def _change_index(
    pipeline: str | Path,
    change: Callable[[Collection], tuple[Dataset, IndexUpdate]],
    given: CacheArguments,
    loaded: Pipeline | None = None,
) -> Indexed:
    """Change the documents in the index of a pipeline, and build its missing parts."""
    resources = Resources(**given)
    data, update = change(Collection(require_file(pipeline), resources.artifacts))
    if loaded is None or loaded.setup.dataset.digest != data.digest:
        loaded = resources.pipeline(pipeline, data)
    with resources.caching_replies(loaded) as cached:
        open_index(cached, resources, complete=True)
    return _describe_index(loaded, data, pipeline, resources, update)


HOST, PORT = "127.0.0.1", 8000
SERVE_PACKAGES = ("starlette", "uvicorn", "prometheus_client", "mcp")


@checked
def serve(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    host: str = HOST,
    port: Annotated[int, "a whole number from 0 to 65535"] = PORT,
    token_file: str | Path | Sequence[str | Path] | None = None,
    origins: Sequence[str] = (),
    limits: ServingLimits | None = None,
    feedback: str | Path | None = None,
    prices: PriceSpec = None,
    mcp: bool = False,
    on_start: Callable[[str], None] | None = None,
    **given: Unpack[CacheArguments],
) -> None:
    """Answer questions over HTTP with an exported pipeline until a signal; accepted requests are still answered.

    >>> ragsmith.serve("winner.yaml", port=0, on_start=print)  # doctest: +SKIP
    http://127.0.0.1:43017/

    Any ``host`` other than this machine requires a token, from ``token_file`` or the variable ``RAGSMITH_TOKEN``. A
    file (or each of several) has a token a line, optionally followed by ``:`` and a filter: the token then shows its
    documents only. On SIGHUP, the pipeline, its documents and the tokens are read again, and replace those before
    without a failed request. ``origins`` are those of pages that may send requests, such as that of a proxy in front.
    ``feedback`` is a file to which feedback on answers is appended as drafted questions. With ``prices``, as those of
    `ragsmith.search`, the metrics have the cost of requests to models. ``mcp`` serves the tools of
    the Model Context Protocol on standard input and output instead. ``on_start`` is called with the address when the
    server is ready. The other arguments are those of `ragsmith.ask`. Call it in the main thread, which receives
    signals.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the address is unavailable, or a token is
        missing. MissingExtra: the extra ``serve`` is not installed.
    """
    require_serve_packages()
    from ragsmith.serving.server import serve_app  # noqa: PLC0415  optional, and slow to import

    chosen = limits or ServingLimits()
    if mcp:
        if token_file is not None or feedback is not None:
            raise UsageError(
                "tools on standard input and output use no token and no feedback: leave out --token-file and "
                "--feedback with --mcp"
            )
        from ragsmith.serving.tools import make_tool_server  # noqa: PLC0415
        from ragsmith.serving.workers import Workers  # noqa: PLC0415

        with closing(
            _load_service(pipeline, dataset, documents, Resources(**given), prices, indexed=indexed)
        ) as service:
            make_tool_server(
                service, Workers(chosen.threads(prefers_threads=service.prefers_threads), chosen.queue), chosen
            ).run("stdio")
        return

    make_app = partial(
        asgi_app,
        pipeline,
        dataset=dataset,
        documents=documents,
        indexed=indexed,
        limits=chosen,
        origins=origins,
        feedback=feedback,
        prices=prices,
        **given,
    )
    serve_app(make_app, host, port, token_file, on_start)


@checked
def asgi_app(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    indexed: bool = False,
    token: str | Mapping[str, str] | None = None,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
    limits: ServingLimits | None = None,
    feedback: str | Path | None = None,
    prices: PriceSpec = None,
    **given: Unpack[CacheArguments],
) -> ServingApp:
    """Return the ASGI application of `serve`, to mount in another application or to run by any server.

    >>> documents = ragsmith.asgi_app("winner.yaml", hosts=["intranet.example"])  # doctest: +SKIP
    >>> app = Starlette(routes=[Mount("/documents", documents)])  # doctest: +SKIP

    ``token`` may also be a mapping of tokens to filters, "" for all documents. Without a ``token`` (at least 16
    characters) it only answers requests for ``hosts``, by default the names of this
    machine. The pipeline is loaded immediately; call ``close()`` at the end. The other arguments are those of `serve`.

    Raises:
        UsageError: as `serve`.
        MissingExtra: as `serve`.
    """
    require_serve_packages()
    from ragsmith.serving.app import ServingApp  # noqa: PLC0415  as above
    from ragsmith.serving.middleware import LOOPBACK_HOSTS, check_token  # noqa: PLC0415

    filters = {token: ""} if isinstance(token, str) else token or {}
    tokens = {check_token(each, "the argument token"): admitted for each, admitted in filters.items()}
    if feedback is not None and not Path(feedback).absolute().parent.is_dir():
        raise UsageError(f"{feedback}: its folder is missing: create it, or name another file for feedback")
    service = _load_service(pipeline, dataset, documents, Resources(**given), prices, indexed=indexed)
    names = LOOPBACK_HOSTS if hosts is None else hosts
    return ServingApp(service, limits=limits, token=tokens, hosts=names, origins=origins, feedback=feedback)


def require_serve_packages() -> None:
    """Raise MissingExtra if a package of the extra ``serve`` is not installed."""
    from importlib.util import find_spec  # noqa: PLC0415

    for package in SERVE_PACKAGES:
        if find_spec(package) is None:
            raise MissingExtra(package, "serve")


def _load_service(
    pipeline: Pipeline | str | Path,
    dataset: Dataset | str | Path | None,
    documents: str | Path | None,
    resources: Resources,
    prices: PriceSpec,
    *,
    indexed: bool,
) -> PipelineService:
    """Return the service of a pipeline with its index; the cache stays open if replies are paid for.

    A `Notice` warns if its documents differ from those of the search.
    """
    from ragsmith.serving.answering import PipelineService  # noqa: PLC0415  slow to import

    if indexed:
        dataset = indexed_documents(pipeline, resources, dataset, documents)
    loaded = _load_to_ask(pipeline, dataset, documents, resources)
    if indexed or is_large(loaded):
        with resources.caching_replies(loaded) as cached:
            open_index(cached, resources)
    if indexed or documents is not None:
        changes = changes_of(loaded, pipeline, resources)
        if changes is None or changes:
            how = "in ways that are not known" if changes is None else f"by {changes}"
            warn_caller(f"the documents differ from those that the pipeline was found on, {how}")
    with ExitStack() as stack:
        store = stack.enter_context(resources.store()) if loaded.setup.loaded_models.prefers_threads else None
        service = PipelineService(loaded, store, read_given_prices(prices))
        service.prepare()
        service.keep_open(stack.pop_all())
    return service


@checked
def deploy(
    pipeline: str | Path,
    folder: str | Path,
    *,
    dataset: str | Path | None = None,
    documents: str | Path | None = None,
    imports: str | Path | Sequence[str | Path] = (),
    force: bool = False,
) -> Kit:
    """Write a starter kit for an exported pipeline to a new folder: everything needed to run it elsewhere.

    >>> ragsmith.deploy("winner.yaml", "kit").extras
    ('serve',)

    It contains the file of the pipeline, its documents and questions (or those of ``dataset``, or ``documents`` alone),
    this ragsmith as a wheel, pinned requirements, a server with its settings, container files, a smoke test, a load
    test, a gate for continuous integration, and the pipeline as a Python script. No model is called, and no key is read
    or written. ``force`` replaces the files of an earlier kit in ``folder``; if files that you added or edited would be
    lost, nothing is changed.

    Raises:
        UsageError: the file, its documents or an imported file cannot be used; or ``folder`` is not empty, or has files
            that would be lost.
    """
    from ragsmith.deploying.kit import make_kit  # noqa: PLC0415  not needed otherwise

    import_files(imports)
    file = require_file(pipeline)
    loaded = Pipeline.load(file, dataset=dataset, documents=documents)
    exported = ExportedFile(file)
    named = documents if dataset is None else dataset
    source = exported.folder() if named is None else bundled_path("datasets", named)
    return make_kit(loaded, exported.content(), source, Path(folder), bare=documents is not None, force=force)


@checked
def translate(
    pipeline: str | Path,
    to: str,
    output: str | Path,
    *,
    dataset: str | Path | None = None,
    documents: str | Path | None = None,
    models: Mapping[str, Any] | None = None,
    imports: str | Path | Sequence[str | Path] = (),
    force: bool = False,
) -> Program:
    """Write an exported pipeline as a program of another framework: ``langchain``, ``haystack`` or ``llama-index``.

    >>> ragsmith.translate("winner.yaml", "langchain", "my_rag.py").packages  # doctest: +SKIP
    ('langchain-core', 'langchain-openai', 'numpy', 'bm25s', 'PyStemmer')

    The program is at ``output`` and does not need ragsmith; its documents and their chunks are in the file beside it
    that ends with ``.json``. Its function ``answer`` makes it a system, as `ragsmith.compare` takes it. No model is
    called. ``dataset``, ``documents``, ``models`` and ``imports`` are those of `ragsmith.Pipeline.load`; ``force``
    replaces existing files.

    Raises:
        UsageError: the file cannot be used, the framework is unknown, an option of the pipeline has no equivalent
            there (the message names all), or a file exists.
        OSError: a file cannot be written.
    """
    from ragsmith.deploying.program import write_program  # noqa: PLC0415  not needed otherwise

    file = require_file(pipeline)
    loaded = Pipeline.load(file, dataset=dataset, documents=documents, models=models, imports=imports)
    return write_program(loaded, file, to, Path(output), force=force)
