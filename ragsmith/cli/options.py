"""The flags that several commands have, each declared once.

Those of arguments that public functions share are made of `ragsmith.api.arguments`: see `option`. A group of flags is a
dataclass whose fields are declared as the parameters of a command are, or a `TypedDict` of that file. A command names
the group as the type of one of its parameters; `merged` gives it the flags of the group instead, and hands it the
object:

    @app.command()
    @merged
    def ask(pipeline: PipelineArgument, *, models: ModelFlags, as_json: JsonOption = False) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints, is_typeddict

import typer

from ragsmith.api.arguments import Flag, SearchArguments, flags_of
from ragsmith.errors import UsageError

if TYPE_CHECKING:
    from ragsmith.gateway.budget import Limits
    from ragsmith.models.names import ModelName, ModelNames

CACHE = Path("cache.sqlite")
REPORTS = Path("reports")
FLAGS = flags_of(SearchArguments)


def option(name: str, **more: Any) -> Any:
    """The flag of an argument that public functions share."""
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
DatasetOption = Annotated[str, typer.Option("--dataset", help="A bundled data set by name, or a folder.")]
FaithfulnessOption = Annotated[bool | None, option("faithfulness")]
FitnessOption = Annotated[str | None, option("fitness")]
ImportsOption = Annotated[list[Path] | None, option("imports", callback=_import, is_eager=True)]
"""Files are imported while flags are read, so that everything that a command does knows what they define."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
PricesOption = Annotated[Path | None, option("prices")]
ThinkingOption = Annotated[
    int | None,
    typer.Option("--thinking-tokens", help="Tokens that the --llm may use to think. [default: what is learnt]"),
]
WorkersOption = Annotated[int | None, option("workers")]


def merged(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` for Typer: each parameter whose type is a group of flags is replaced by the flags of the group."""
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
    parsed.__annotations__ = {parameter.name: parameter.annotation for parameter in named}  # else read a third time
    return parsed


def _flags(group: Any) -> list[inspect.Parameter]:
    """The flags of a group; none where it is no group."""
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
    """Which model plays each role, the server that ``openai:`` models are asked at, and files that define more.

    A command that reads a winner has the models of its file for defaults.
    """

    imports: ImportsOption = None
    models: Annotated[
        Path | None,
        typer.Option(
            "--models",
            help="A YAML file: models by role, and where and how they are asked. Flags go before it; both go "
            "before the models that a winner's file names.",
        ),
    ] = None
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            help="What writes answers, as openai:MODEL; see  ragsmith models list. [default: extractive, embedded]",
        ),
    ] = None
    controller: Annotated[
        str | None,
        typer.Option("--controller", help="What techniques ask for plans and rewrites. [default: the --llm]"),
    ] = None
    judge: Annotated[
        str | None, typer.Option("--judge", help="The model that judges answers. [default: the --llm]")
    ] = None
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            help="What embeds texts; see  ragsmith models list. [default: wordllama, embedded]",
        ),
    ] = None
    reranker: Annotated[
        str | None,
        typer.Option(
            "--reranker",
            help="What reranks, or none; see  ragsmith models list. [default: late_interaction, embedded]",
        ),
    ] = None
    base_url: BaseUrlOption = None
    thinking_tokens: ThinkingOption = None
    cut_answers: Annotated[
        bool,
        typer.Option("--score-cut-answers", help="Score answers of the --llm that reach their limit on tokens, too."),
    ] = False

    def by_role(self) -> dict[str, str | ModelName]:
        """The models of the file, if there is one, but for those that flags name otherwise.

        Raises:
            UsageError: the file is wrong.
        """
        from ragsmith.models.file import read_models
        from ragsmith.models.names import ModelName

        filed = {} if self.models is None else read_models(self.models)
        flags = {
            "language_model": self.llm,
            "controller": self.controller,
            "judge": self.judge,
            "embedder": self.embedder,
            "cross_encoder": self.reranker,
        }
        named = {role: name for role, name in flags.items() if name is not None}
        found: dict[str, str | ModelName] = {
            **filed,
            **{role: name for role, name in named.items() if role not in filed or filed[role].name != name},
        }
        own = {"thinking_tokens": self.thinking_tokens, "cut_answers": self.cut_answers or None}
        if own := {option: value for option, value in own.items() if value is not None}:
            if (writer := found.get("language_model")) is None:
                flag = "--thinking-tokens" if "thinking_tokens" in own else "--score-cut-answers"
                raise UsageError(f"{flag} is about a chat model that writes answers: name it with --llm")
            found["language_model"] = (ModelName(writer) if isinstance(writer, str) else writer).with_options(**own)
        return found

    def chosen(self) -> ModelNames:
        """The models of a run: the embedded ones, but for those that the file or the flags name.

        Raises:
            UsageError: a name is unknown, or the file wrong.
        """
        from ragsmith.models.names import ModelNames

        chosen = ModelNames().overridden(self.by_role(), self.base_url, getattr(self, "vector_store", None))
        chosen.check()
        return chosen


@dataclass(frozen=True)
class ModelFlags(RoleFlags):
    """Which model plays each role, how it is asked, and where vectors lie."""

    vector_store: Annotated[str | None, option("vector_store")] = None

    def given(self) -> dict[str, Any]:
        """The arguments of a public function that say which models there are."""
        return {"models": self.by_role(), "base_url": self.base_url, "vector_store": self.vector_store}


@dataclass(frozen=True)
class BudgetFlags:
    """What a run may spend."""

    max_calls: Annotated[
        int | None,
        typer.Option("--max-calls", help="Most requests to send to servers, over all resumes."),
    ] = None
    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", help="Most tokens that servers may read and write, over all resumes."),
    ] = None
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", help="Most money to spend, in the currency of the price file.")
    ] = None
    prices: PricesOption = None
    accept_spent: Annotated[
        str | None,
        typer.Option(
            "--accept-spent",
            metavar="calls=N,tokens=N,cost=X",
            help="What was spent so far, where the cache was damaged and does not know any more.",
        ),
    ] = None

    def limits(self) -> Limits:
        """The limits that flags name.

        Raises:
            UsageError: one is not above 0.
        """
        from ragsmith.gateway.budget import Limits

        return Limits(self.max_calls, self.max_tokens, self.max_cost)
