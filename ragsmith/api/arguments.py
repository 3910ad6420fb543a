"""The arguments that public functions share, each declared once; the command line makes its flags of the same lines.

`Flag` says what the command line adds to an argument. Nothing slow is imported here: ``ragsmith --help`` reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

if TYPE_CHECKING:
    from ragsmith.api.resources import GivenFitness, GivenModels, GivenPrices
    from ragsmith.pipelines.space import Space
    from ragsmith.records.record import RunSettings
    from ragsmith.store.store import Store


@dataclass(frozen=True)
class Flag:
    """How an argument is given on a command line: its help, its ``names`` if others than its own, and its type there.

    Without a ``kind`` the type is that of the argument.
    """

    help: str
    names: tuple[str, ...] = ()
    kind: Any = None


class ModelArguments(TypedDict, total=False):
    """Which models a call asks, and where.

    ``models`` are names, or by role a name or an object: a LlamaIndex ``LLM`` or ``BaseEmbedding``, or anything with
    the protocol that its role has in `ragsmith.models`, whose ``id`` says what its results depend on; or a YAML file.
    ``base_url`` is where ``openai:`` models are asked, and ``vector_store`` where vectors lie. ``imports`` are Python
    files of your own: the techniques, measures and providers of models that they define are known by name.
    """

    models: GivenModels
    base_url: Annotated[str | None, Flag("An OpenAI-compatible server, for openai: models.")]
    vector_store: Annotated[
        str | None,
        Flag(
            "Where vectors are: auto, exact, approximate, approximate:FOLDER, qdrant:URL, qdrant:FOLDER, "
            "postgresql://USER@HOST/DATABASE, or NAME or NAME:ADDRESS of a file that --import names. [default: auto]"
        ),
    ]
    imports: Annotated[
        Sequence[str | Path],
        Flag(
            "A Python file with extensions of your own, as techniques or models; may be given several times.",
            ("--import",),
            list[Path],
        ),
    ]


class CacheArguments(ModelArguments, total=False):
    """The same, and where results are kept: ``cache`` is a file, a SQLAlchemy URL, or an open `Store`."""

    cache: Annotated[Store | str | Path, Flag("Where results are kept: a file, or any SQLAlchemy URL.", kind=str)]


class WorkArguments(CacheArguments, total=False):
    """The same, and how many ``workers`` there are.

    They are questions in flight for models that are elsewhere, and processes for the embedded ones: every core unless
    given. Results do not depend on it.
    """

    workers: Annotated[int | None, Flag("Processes, or questions in flight.")]


class SettingChanges(TypedDict, total=False):
    """Single settings of a search; None leaves one as it is. See `RunSettings` and `GeneticSettings`."""

    strategy: Annotated[
        str | None,
        Flag("A strategy, as NAME or NAME(option=value); the list is below. [default: genetic, or nsga2 if it weighs]"),
    ]
    objectives: Annotated[
        str | Sequence[str] | None,
        Flag("quality, and any of calls, latency, money: weigh them. [default: quality]", kind=str),
    ]
    margin: Annotated[float | None, Flag("Fitness by which the cheapest may be behind the winner. [default: 0.02]")]
    verdict: Annotated[
        str | None,
        Flag(
            "held-out: the winner is tested on questions held out; crossfit: the search is, on all of them, for "
            "as many searches more as there are folds. [default: held-out]"
        ),
    ]
    folds: Annotated[int | None, Flag("Folds of a crossfit. [default: 5]")]
    population: Annotated[int | None, Flag("Candidates in a generation.")]
    generations: Annotated[int | None, Flag("Generations after the first.")]
    crossover: Annotated[str | None, Flag("single_point, multi_point, uniform, order or segment.")]
    mutation: Annotated[str | None, Flag("random, adaptive, categorical, swap, inversion or composite.")]
    selection: Annotated[str | None, Flag("tournament, roulette, rank or elite.")]
    breeding: Annotated[
        str | None, Flag("The pool of parents: elites, the best of the generation, or of all that is known.")
    ]
    elitism: Annotated[int | None, Flag("Best candidates that survive. [default: in proportion]")]
    tournament: Annotated[int | None, Flag("Candidates in a tournament.")]
    unseen: Annotated[
        bool | None, Flag("Breed children that are known again, until they are new.", ("--unseen/--no-unseen",))
    ]
    screening: Annotated[int | None, Flag("Children bred for each that a model of what is known picks out.")]
    local_search: Annotated[float | None, Flag("Share of the budget that goes to changes of single genes, at the end.")]
    convergence: Annotated[int | None, Flag("Stop after so many steps without a better candidate.")]
    target: Annotated[float | None, Flag("Stop at this fitness.")]
    crossover_rate: Annotated[float | None, Flag("Share of the pairs of parents that are crossed.")]
    mutation_rate: Annotated[float | None, Flag("Share of the genes that mutate; adaptive mutation varies it.")]
    mutation_min: Annotated[float | None, Flag("Least rate of adaptive mutation.")]
    mutation_max: Annotated[float | None, Flag("Greatest rate of adaptive mutation.")]
    objective: Annotated[
        str | None, Flag("What is tuned: quality, or retrieval alone, which needs no answers. [default: quality]")
    ]
    fitness: Annotated[
        GivenFitness,
        Flag("paper, reading, or FILE.py:function of a question's measures. [default: paper]", kind=str),
    ]
    seed: Annotated[int | None, Flag("Seed of the search.")]
    max_evaluations: Annotated[
        int | None,
        Flag(
            "Candidates that the search may propose. Baselines, each option alone, and what simplifies the winner "
            "and takes it apart come on top: --max-calls and --max-cost bound all. [default: the preset's]"
        ),
    ]
    may_miss: Annotated[float | None, Flag("Share of questions that a candidate may fail on. [default: 0.1]")]
    race: Annotated[
        bool | None,
        Flag("Drop candidates that are shown to be behind after some questions.", ("--race/--no-race",)),
    ]
    begin_with_known: Annotated[
        bool | None,
        Flag(
            "Begin with what other data sets let one expect of pipelines, and with the one that `ragsmith "
            "recommend` names.",
            ("--begin-with-known/--begin-with-nothing",),
        ),
    ]
    probes: Annotated[bool | None, Flag("First try every option alone in naive RAG.", ("--probes/--no-probes",))]
    choose: Annotated[
        str | None,
        Flag("The winner has the highest mean, or is what is best by an estimate: mean, estimate. [default: mean]"),
    ]
    simplify: Annotated[bool | None, Flag("Leave out of the winner what does not pay.", ("--simplify/--no-simplify",))]
    control: Annotated[str | None, Flag("random: compare with as many random candidates. [default: none]")]
    time_limit: Annotated[float | None, Flag("Pause after so many seconds; resumable.")]


class RunArguments(SettingChanges, total=False):
    """What decides where a search goes, besides data and models: a space, a preset, and settings by name.

    ``preset`` is ``default``, ``paper`` or ``quick``. ``space`` is the one of the preset unless given; ``without``
    lists what to leave out of it, as ``FAMILY`` (all but ``none``) or ``FAMILY.OPTION``. ``faithfulness`` checks
    answers claim by claim: unless given, where the judge costs nothing. Documents are cut into chunks of at most
    ``chunk_size`` characters.
    """

    space: Annotated[
        Space | str | Path | None,
        Flag("A bundled search space by name, or a YAML file. [default: the preset's]", kind=str),
    ]
    without: Annotated[
        Sequence[str] | None,
        Flag(
            "Leave out of the space: FAMILY (all but none) or FAMILY.OPTION; may be given several times.",
            kind=list[str],
        ),
    ]
    preset: Annotated[
        str | None, Flag("Numbers and parts of the genetic algorithm: default, paper or quick. [default: default]")
    ]
    faithfulness: Annotated[
        bool | None,
        Flag(
            "Check answers claim by claim, two judge calls each. [default: if embedded]",
            ("--faithfulness/--no-faithfulness",),
        ),
    ]
    chunk_size: Annotated[int | None, Flag("Characters in a chunk, at most.")]


class SearchArguments(WorkArguments, RunArguments, total=False):
    """What `search` and `plan` take beside a data set.

    ``settings`` says how the search goes in the place of ``preset``. ``prices`` are a mapping or a YAML file.
    """

    settings: RunSettings | None
    prices: Annotated[GivenPrices, Flag("YAML: 'openai:MODEL: {input: ..., output: ...}' a million tokens.", kind=Path)]


def flags_of(arguments: Any) -> dict[str, tuple[Any, Flag]]:
    """The arguments of a `TypedDict` of this file that are flags, by name, each with its type on a command line."""
    slow = ("GivenFitness", "GivenModels", "GivenPrices", "RunSettings", "Space", "Store")
    hints = get_type_hints(arguments, localns=dict.fromkeys(slow, Any), include_extras=True)
    found: dict[str, tuple[Any, Flag]] = {}
    for name, hint in hints.items():
        for flag in getattr(hint, "__metadata__", ()):
            kind = hint.__origin__ if flag.kind is None else flag.kind | None
            found[name] = kind, flag
    return found
