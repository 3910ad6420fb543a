"""`serve`, `asgi_app` and `deploy`: an exported pipeline over HTTP, or as a starter kit."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from ragsmith.api.arguments import CacheArguments
from ragsmith.api.asking import changes_of, indexed_documents, is_large, open_index
from ragsmith.api.resources import Resources, existing
from ragsmith.datasets.bundled import bundled_path
from ragsmith.errors import MissingExtra, Notice, UsageError
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.serving.limits import ServingLimits
from ragsmith.techniques.user_code import import_files
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.deploying.kit import Kit
    from ragsmith.serving.answering import PipelineService
    from ragsmith.serving.app import ServingApp


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

    >>> ragsmith.serve("winner.yaml", port=0, on_start=print)
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
    server.refuse_open(host, token)
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

    >>> app = Starlette(routes=[Mount("/documents", ragsmith.asgi_app("winner.yaml", hosts=["intranet.example"]))])

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
