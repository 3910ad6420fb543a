"""The flags that several commands have, each declared once.

A group of flags is a dataclass, whose fields are declared as the parameters of a command are. A command names the group
as the type of one of its parameters; `merged` gives it the flags of the group instead, and hands it the object:

    @app.command()
    @merged
    def ask(pipeline: PipelineArgument, *, models: ModelFlags, as_json: JsonOption = False) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from ragsmith.gateway.budget import Limits
    from ragsmith.models.names import ModelName, ModelNames

CACHE = Path("cache.sqlite")
REPORTS = Path("reports")

CacheOption = Annotated[
    str, typer.Option("--cache", help="Where results are kept: a file, or any SQLAlchemy URL.", show_default=True)
]
ChunkSizeOption = Annotated[int | None, typer.Option("--chunk-size", help="Characters in a chunk, at most.")]
DatasetOption = Annotated[str, typer.Option("--dataset", help="A bundled data set by name, or a folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
FaithfulnessOption = Annotated[
    bool | None,
    typer.Option(
        "--faithfulness/--no-faithfulness",
        help="Check answers claim by claim, two judge calls each. [default: if embedded]",
    ),
]
FitnessOption = Annotated[
    str | None,
    typer.Option("--fitness", help="paper, reading, or FILE.py:function of a question's measures. [default: paper]"),
]
PresetSpaceOption = Annotated[
    str | None,
    typer.Option("--space", help="A bundled search space by name, or a YAML file. [default: the preset's]"),
]
PricesOption = Annotated[
    Path | None, typer.Option("--prices", help="YAML: 'openai:MODEL: {input: ..., output: ...}' a million tokens.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Processes, or questions in flight.")]


def _import(files: list[Path] | None) -> list[Path] | None:
    if files:
        from ragsmith.techniques.own import import_files

        import_files(files)
    return files


ImportsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--import",
        callback=_import,
        is_eager=True,  # so that --help lists what the files define
        help="A Python file with extensions of your own, as techniques or models; may be given several times.",
    ),
]
"""Files are imported while flags are read, so that everything that a command does knows what they define."""


def merged(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` for Typer: each parameter whose type is a group of flags is replaced by the flags of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += inspect.signature(groups[name], eval_str=True).parameters.values()
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @functools.wraps(command)
    def parsed(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    parsed.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    parsed.__annotations__ = {parameter.name: parameter.annotation for parameter in named}  # else read a third time
    return parsed


BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="An OpenAI-compatible server, for openai: models.")
]
ThinkingOption = Annotated[
    int | None,
    typer.Option("--thinking-tokens", help="Tokens that the --llm may use to think. [default: what is learnt]"),
]


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
        from ragsmith.errors import UsageError
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
            found["language_model"] = (ModelName(writer) if isinstance(writer, str) else writer).changed(**own)
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

    vector_store: Annotated[
        str | None,
        typer.Option(
            "--vector-store",
            help="Where vectors lie: auto, exact, approximate, approximate:FOLDER, qdrant:URL, qdrant:FOLDER, or "
            "postgresql://USER@HOST/DATABASE. [default: auto]",
        ),
    ] = None

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


@dataclass(frozen=True)
class RunFlags:
    """How a search goes: the numbers of the genetic algorithm, other strategies, and what they are compared with."""

    preset: Annotated[
        str, typer.Option("--preset", help="Numbers and parts of the genetic algorithm: default, paper or quick.")
    ] = "default"
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            help="genetic, model, tpe, greedy, random, exhaustive or nsga2. [default: genetic, or nsga2 if it weighs]",
        ),
    ] = None
    objectives: Annotated[
        str | None,
        typer.Option("--objectives", help="quality, and any of calls, latency, money: weigh them. [default: quality]"),
    ] = None
    margin: Annotated[
        float | None,
        typer.Option("--margin", help="Fitness by which the cheapest may be behind the winner. [default: 0.02]"),
    ] = None
    verdict: Annotated[
        str | None,
        typer.Option(
            "--verdict",
            help="held-out: the winner is tested on questions held out; crossfit: the search is, on all of them, for "
            "as many searches more as there are folds. [default: held-out]",
        ),
    ] = None
    folds: Annotated[int | None, typer.Option("--folds", help="Folds of a crossfit. [default: 5]")] = None
    population: Annotated[int | None, typer.Option("--population", help="Candidates in a generation.")] = None
    generations: Annotated[int | None, typer.Option("--generations", help="Generations after the first.")] = None
    crossover: Annotated[
        str | None, typer.Option("--crossover", help="single_point, multi_point, uniform, order or segment.")
    ] = None
    mutation: Annotated[
        str | None,
        typer.Option("--mutation", help="random, adaptive, categorical, swap, inversion or composite."),
    ] = None
    selection: Annotated[str | None, typer.Option("--selection", help="tournament, roulette, rank or elite.")] = None
    breeding: Annotated[
        str | None,
        typer.Option(
            "--breeding", help="Who is a parent: elites, the best of the generation, or of all that is known."
        ),
    ] = None
    elitism: Annotated[
        int | None, typer.Option("--elitism", help="Best candidates that survive. [default: in proportion]")
    ] = None
    tournament: Annotated[int | None, typer.Option("--tournament", help="Candidates in a tournament.")] = None
    unseen: Annotated[
        bool | None,
        typer.Option("--unseen/--no-unseen", help="Breed children that are known again, until they are new."),
    ] = None
    screening: Annotated[
        int | None, typer.Option("--screening", help="Children bred for each that a model of what is known picks out.")
    ] = None
    local_search: Annotated[
        float | None,
        typer.Option("--local-search", help="Share of the budget that goes to changes of single genes, at the end."),
    ] = None
    convergence: Annotated[
        int | None, typer.Option("--convergence", help="Stop after so many steps without a better candidate.")
    ] = None
    target: Annotated[float | None, typer.Option("--target", help="Stop at this fitness.")] = None
    crossover_rate: Annotated[
        float | None, typer.Option("--crossover-rate", help="Share of the pairs of parents that are crossed.")
    ] = None
    mutation_rate: Annotated[
        float | None,
        typer.Option("--mutation-rate", help="Share of the genes that mutate; adaptive mutation varies it."),
    ] = None
    mutation_min: Annotated[float | None, typer.Option("--mutation-min", help="Least rate of adaptive mutation.")] = (
        None
    )
    mutation_max: Annotated[
        float | None, typer.Option("--mutation-max", help="Greatest rate of adaptive mutation.")
    ] = None
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective", help="What is tuned: quality, or retrieval alone, which needs no answers. [default: quality]"
        ),
    ] = None
    fitness: FitnessOption = None
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the search.")] = None
    max_evaluations: Annotated[
        int | None,
        typer.Option(
            "--max-evaluations",
            help="Candidates that the search may propose. Baselines, each option alone, and what simplifies the winner "
            "and takes it apart come on top: --max-calls and --max-cost bound all. [default: the preset's]",
        ),
    ] = None
    may_miss: Annotated[
        float | None,
        typer.Option("--may-miss", help="Share of questions that a candidate may fail on. [default: 0.1]"),
    ] = None
    race: Annotated[
        bool | None,
        typer.Option("--race/--no-race", help="Drop candidates that are shown to be behind after some questions."),
    ] = None
    begin_with_known: Annotated[
        bool | None,
        typer.Option(
            "--begin-with-known/--begin-with-nothing",
            help="Begin with what other data sets let one expect of pipelines, and with the one that `ragsmith "
            "recommend` names.",
        ),
    ] = None
    probes: Annotated[
        bool | None, typer.Option("--probes/--no-probes", help="First try every option alone in naive RAG.")
    ] = None
    choose: Annotated[
        str | None,
        typer.Option(
            "--choose",
            help="The winner has the highest mean, or is what is best by an estimate: mean, estimate. [default: mean]",
        ),
    ] = None
    simplify: Annotated[
        bool | None, typer.Option("--simplify/--no-simplify", help="Leave out of the winner what does not pay.")
    ] = None
    control: Annotated[
        str | None, typer.Option("--control", help="random: compare with as many random candidates. [default: none]")
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            help="Leave out of the space: FAMILY (all but none) or FAMILY.OPTION; may be given several times.",
        ),
    ] = None
