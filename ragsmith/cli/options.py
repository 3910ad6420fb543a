"""Options that several commands share, each declared once.

Options of arguments that public functions share come from `ragsmith.api.arguments`: see `option`. A group of options is
a dataclass whose fields are declared like parameters of a command, or a `TypedDict` of that file. A command uses the
group as the type of a parameter; `expand_groups` replaces the parameter by the options of the group and passes the
object:

    @app.command()
    @expand_groups
    def ask(pipeline: PipelineArgument, *, models: ModelFlags, as_json: JsonOption = False) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints, is_typeddict

import typer

import ragsmith
from ragsmith.api.arguments import Flag, SearchArguments, flags_of
from ragsmith.errors import MissingExtra, UsageError, warn_caller

if TYPE_CHECKING:
    from ragsmith.gateway.budget import Limits
    from ragsmith.models.names import ModelName

CACHE = Path("cache.sqlite")
REPORTS = Path("reports")
FLAGS = flags_of(SearchArguments)


def option(name: str, **more: Any) -> Any:
    """Return the option of an argument that public functions share."""
    return _option(name, FLAGS[name][1], **more)


def _option(name: str, flag: Flag, **more: Any) -> Any:
    return typer.Option(*(flag.names or ("--" + name.replace("_", "-"),)), help=flag.help, **more)


def _import(files: list[Path] | None) -> list[Path] | None:
    if files:
        from ragsmith.techniques.user_code import import_files

        import_files(files)
    return files


BaseUrlOption = Annotated[str | None, option("base_url")]
CacheOption = Annotated[str, option("cache", show_default=True)]
ChunkSizeOption = Annotated[int | None, option("chunk_size")]
DatasetArgument = Annotated[str, typer.Argument(help="A bundled data set by name, or a folder.")]
DatasetsArgument = Annotated[
    list[str],
    typer.Argument(
        help="Bundled data sets by name (`ragsmith dataset list`), or folders; all stands for all bundled domains.",
    ),
]
FaithfulnessOption = Annotated[bool | None, option("faithfulness")]
FilterOption = Annotated[
    str | None,
    typer.Option("--filter", help="Answer only from documents with these fields, as 'tenant=acme and year>=2023'."),
]
FitnessOption = Annotated[str | None, option("fitness")]
ImportsOption = Annotated[list[Path] | None, option("imports", callback=_import, is_eager=True)]
"""Files are imported while options are parsed, before the command uses anything that they define."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
PricesOption = Annotated[Path | None, option("prices")]
ThinkingOption = Annotated[
    int | None,
    typer.Option("--thinking-tokens", min=0, help="Reasoning tokens that the --llm may use. [default: learned]"),
]
OtherDataset = Annotated[
    str | None,
    typer.Argument(
        help="A bundled data set by name, or a folder. [default: the one it was exported on]", show_default=False
    ),
]
OtherDatasetOption = Annotated[
    str | None,
    typer.Option("--dataset", help="A bundled data set by name, or a folder. [default: the one it was exported on]"),
]
OtherDocuments = Annotated[
    Path | None, typer.Option("--documents", help="Answer from this folder of documents instead.")
]
PipelineArgument = Annotated[
    Path, typer.Argument(help="A pipeline that `ragsmith recommend`, `search` or `export` wrote.")
]
SplitOption = Annotated[
    str, typer.Option("--split", help="Questions: search, test or all; test and all count as a use of the test set.")
]
SystemArgument = Annotated[
    str,
    typer.Argument(
        help="An exported pipeline (winner.yaml); or another system: its rows (answers.jsonl), its address "
        "(http://...), or FILE.py:function."
    ),
]
WorkersOption = Annotated[int | None, option("workers")]


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command`` for Typer, with each parameter whose type is a group replaced by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, tuple[Any, list[inspect.Parameter]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if flags := _flags(hints[name]):
            groups[name] = hints[name], flags
        parameters += flags or [parameter.replace(annotation=hints[name])]

    @functools.wraps(command)
    def parsed(**values: Any) -> None:
        for name, (group, flags) in groups.items():
            values[name] = group(**{flag.name: values.pop(flag.name) for flag in flags})
        command(**values)

    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    parsed.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    parsed.__annotations__ = {
        parameter.name: parameter.annotation for parameter in named
    }  # otherwise Typer evaluates the annotations again
    return parsed


def _flags(group: Any) -> list[inspect.Parameter]:
    """Return the options of a group; none if ``group`` is another type."""
    if is_typeddict(group):
        return [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, _option(name, flag)]
            )
            for name, (kind, flag) in flags_of(group).items()
        ]
    if isinstance(group, type) and is_dataclass(group):
        return list(inspect.signature(group, eval_str=True).parameters.values())
    return []


@dataclass(frozen=True)
class RoleFlags:
    """The model of each role, the server of ``openai:`` models, and files with extensions.

    Commands that read an exported pipeline default to the models of its file.
    """

    imports: ImportsOption = None
    models: Annotated[
        Path | None,
        typer.Option(
            "--models",
            help="YAML file with the model of each role, its server and options. Flags override it, and it overrides "
            "the models of an exported pipeline.",
        ),
    ] = None
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            help="Model that generates answers, such as openai:MODEL; see  ragsmith models list. "
            "[default: extractive, embedded]",
        ),
    ] = None
    controller: Annotated[
        str | None,
        typer.Option("--controller", help="Model that plans and rewrites queries for techniques. [default: the --llm]"),
    ] = None
    judge: Annotated[str | None, typer.Option("--judge", help="Model that judges answers. [default: the --llm]")] = None
    test_judge: Annotated[
        str | None,
        typer.Option("--test-judge", help="Model that judges answers to test questions. [default: the --judge]"),
    ] = None
    embedder: Annotated[
        str | None,
        typer.Option("--embedder", help="Embedding model; see  ragsmith models list. [default: wordllama, embedded]"),
    ] = None
    reranker: Annotated[
        str | None,
        typer.Option(
            "--reranker",
            help="Reranker, or none; see  ragsmith models list. [default: late_interaction, embedded]",
        ),
    ] = None
    base_url: BaseUrlOption = None
    thinking_tokens: ThinkingOption = None
    answer_tokens: Annotated[
        int | None,
        typer.Option(
            "--answer-tokens", min=1, help="Maximum number of tokens of an answer of the --llm. [default: 1024]"
        ),
    ] = None
    requests_in_flight: Annotated[
        int | None,
        typer.Option("--in-flight", min=1, help="Requests in flight at the server of the --llm. [default: learned]"),
    ] = None
    deadline: Annotated[
        float | None, typer.Option("--deadline", help="Seconds for a request to the --llm. [default: learned]")
    ] = None
    cut_answers: Annotated[
        bool,
        typer.Option("--score-cut-answers", help="Also score answers that the token limit of the --llm cut off."),
    ] = False

    def by_role(self) -> dict[str, str | ModelName]:
        """Return the models by role; flags override the file.

        Raises:
            UsageError: the file is invalid.
        """
        from ragsmith.models.file import read_models
        from ragsmith.models.names import ModelName

        flags = {
            "language_model": self.llm,
            "controller": self.controller,
            "judge": self.judge,
            "test_judge": self.test_judge,
            "embedder": self.embedder,
            "cross_encoder": self.reranker,
        }
        models: dict[str, str | ModelName] = {} if self.models is None else dict(read_models(self.models))
        for role, name in flags.items():
            from_file = models.get(role)
            if name is not None and not (
                isinstance(from_file, ModelName) and from_file.name == name
            ):  # keep its options
                models[role] = name
        flags_by_option = {
            "thinking_tokens": "--thinking-tokens",
            "answer_tokens": "--answer-tokens",
            "in_flight": "--in-flight",
            "deadline": "--deadline",
            "cut_answers": "--score-cut-answers",
        }
        limits = self.requests_in_flight, self.deadline
        values = (self.thinking_tokens, self.answer_tokens, *limits, self.cut_answers or None)
        given = zip(flags_by_option, values, strict=True)
        if options := {option: value for option, value in given if value is not None}:
            if (llm := models.get("language_model")) is None:
                flag = flags_by_option[next(iter(options))]
                raise UsageError(f"{flag} is an option of the chat model that generates answers: name it with --llm")
            models["language_model"] = (ModelName(llm) if isinstance(llm, str) else llm).with_options(**options)
        return models


@dataclass(frozen=True)
class ModelFlags(RoleFlags):
    """The model of each role, and the vector store."""

    vector_store: Annotated[str | None, option("vector_store")] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a public function."""
        return {"models": self.by_role(), "base_url": self.base_url, "vector_store": self.vector_store}


@dataclass(frozen=True)
class BudgetFlags:
    """Spending limits, and the prices of requests."""

    max_calls: Annotated[
        int | None, typer.Option("--max-calls", help="Maximum number of requests to servers, over all resumes.")
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", help="Maximum number of input and output tokens of servers, over all resumes."),
    ] = None
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", help="Maximum cost in the currency of the price file, over all resumes."),
    ] = None
    prices: PricesOption = None
    accept_spent: Annotated[
        str | None,
        typer.Option(
            "--accept-spent",
            metavar="calls=N,tokens=N,cost=X",
            help="The spending so far, if its record in the cache is damaged.",
        ),
    ] = None

    def limits(self) -> Limits:
        """Return the spending limits.

        Raises:
            UsageError: a limit is not positive.
        """
        from ragsmith.gateway.budget import Limits

        return Limits(self.max_calls, self.max_tokens, self.max_cost)


def _find_collector() -> str:
    """Return the collector that the environment names for all programs, or "" without one for spans over HTTP."""
    url = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_disabled or "otlp" not in (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"):
        return ""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "")
    if not url or (url.startswith(("http://", "https://")) and protocol != "grpc"):
        return url
    warn_caller(
        f"no spans are sent, as OTEL_EXPORTER_OTLP_ENDPOINT is {url!r}{f' for {protocol}' if protocol else ''}: "
        "give the URL of a collector that accepts OTLP over HTTP, such as --traces http://localhost:4318"
    )
    return ""


@dataclass(frozen=True)
class TraceFlags:
    """Where spans are sent, and whether with content."""

    traces: Annotated[
        str | None,
        typer.Option(
            "--traces",
            metavar="URL",
            help="Collector of OpenTelemetry (OTLP/HTTP) to which spans are sent, such as http://localhost:4318.",
        ),
    ] = None
    trace_content: Annotated[
        bool, typer.Option("--trace-content", help="Spans have questions, passages, prompts and answers.")
    ] = False

    def arguments(self, share: float = 1.0) -> dict[str, Any]:
        """Return the arguments of a public function that traces ``share`` of the answers.

        A collector that only the environment names, for all programs, requires no extra.
        """
        url = _find_collector() if self.traces is None else self.traces
        is_requested = self.traces is not None or self.trace_content
        try:
            traces = ragsmith.Traces(url, share, self.trace_content) if url or is_requested else None
        except MissingExtra:
            if is_requested:
                raise
            return {}
        return {"traces": traces} if traces else {}
