"""Arguments that several public functions share, each declared once; the command line derives its options from them.

`Flag` describes the option of an argument. Nothing slow is imported here, because ``ragsmith --help`` reads this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from ragsmith.argument_types import read_annotations

if TYPE_CHECKING:
    from ragsmith.api.resources import FitnessSpec, ModelSpec, PriceSpec, SpaceSpec
    from ragsmith.models.own_prompts import PromptFiles
    from ragsmith.pipelines.telemetry import Traces
    from ragsmith.records.record import RunSettings
    from ragsmith.store.store import Store


@dataclass(frozen=True)
class Flag:
    """The command-line option of an argument.

    ``names`` defaults to the name of the argument, and ``kind``, the type of the option, to the type of the argument.
    """

    help: str
    names: tuple[str, ...] = ()
    kind: Any = None


class ModelArguments(TypedDict, total=False):
    """Models, their server, the vector store, and Python files with extensions.

    ``models`` is a `ModelNames`, a YAML file, or a mapping from roles to names or objects. An object is a LlamaIndex
    ``LLM`` or ``BaseEmbedding``, or implements the protocol of its role in `ragsmith.models`; its ``id`` has to
    identify everything that its results depend on. ``base_url`` is the server of ``openai:`` models. ``imports`` are
    Python files that define techniques, measures or model providers, which can then be referred to by name.
    """

    models: ModelSpec
    base_url: Annotated[str | None, Flag("URL of the OpenAI-compatible server of openai: models.")]
    vector_store: Annotated[
        str | None,
        Flag(
            "Vector store: auto, exact, approximate, approximate:FOLDER, qdrant:URL, qdrant:FOLDER, "
            "postgresql://USER@HOST/DATABASE, or NAME or NAME:ADDRESS of a file that --import names. [default: auto]"
        ),
    ]
    imports: Annotated[
        str | Path | Sequence[str | Path],
        Flag(
            "File of extensions in Python, such as techniques or models; may be repeated.",
            ("--import",),
            list[Path],
        ),
    ]


class CacheArguments(ModelArguments, total=False):
    """Model arguments, ``cache`` and ``traces``.

    ``cache`` is where results are stored: a file, a SQLAlchemy URL, or an open `Store`. ``traces`` is a `Traces`, the
    collector of OpenTelemetry to which spans are sent.
    """

    cache: Annotated[
        Store | str | Path,
        "the path of a file, a SQLAlchemy URL, or an instance of Store",
        Flag("Cache of results: a file, or any SQLAlchemy URL.", kind=str),
    ]
    traces: Traces | None


class WorkArguments(CacheArguments, total=False):
    """Cache arguments and ``workers``, the number of concurrent workers; results do not depend on it.

    Workers are processes if all models are embedded (default: one per core), else questions in flight.
    """

    workers: Annotated[int | None, Flag("Number of processes, or of questions in flight.")]


class SettingChanges(TypedDict, total=False):
    """Settings of a search by name; None keeps the value of the preset. See `RunSettings` and `GeneticSettings`."""

    strategy: Annotated[
        str | None,
        Flag(
            "Search strategy, as NAME or NAME(option=value); the list is below. "
            "[default: genetic, or nsga2 with several objectives]"
        ),
    ]
    objectives: Annotated[
        str | Sequence[str] | None,
        Flag("Objectives, comma-separated: quality, calls, latency, money. [default: quality]", kind=str),
    ]
    margin: Annotated[
        float | None,
        Flag("Loss of fitness up to which the cheapest pipeline is as good as the winner. [default: 0.02]"),
    ]
    verdict: Annotated[
        str | None,
        Flag(
            "What is tested: held-out, the winner on held-out questions; or crossfit, the search itself on all "
            "questions, with one more search per fold. [default: held-out]"
        ),
    ]
    test: Annotated[
        bool | None,
        Flag(
            "Test also on questions that were looked at before, each look at half the level of the one before; or "
            "not at all. [default: only if none of them was; with --preset quick not at all]",
            ("--test/--no-test",),
        ),
    ]
    folds: Annotated[int | None, Flag("Number of folds of a crossfit. [default: 5]")]
    max_risk: Annotated[
        float | None,
        Flag("Decline enough that at most this share of the answers is wrong, by calibration. [default: no limit]"),
    ]
    confidence: Annotated[float | None, Flag("Confidence of the calibration to --max-risk. [default: 0.9]")]
    noise: Annotated[
        int | None,
        Flag("Most test questions that the winner answers again, for the noise of chat models; 0: none. [default: 20]"),
    ]
    trust_judge: Annotated[
        bool | None,
        Flag(
            "Search even if a judge does not score right answers of this data set above wrong ones.", ("--trust-judge",)
        ),
    ]
    population: Annotated[int | None, Flag("Population size.")]
    generations: Annotated[int | None, Flag("Number of generations after the initial population.")]
    crossover: Annotated[str | None, Flag("Crossover operator: single_point, multi_point, uniform, order or segment.")]
    mutation: Annotated[
        str | None, Flag("Mutation operator: random, adaptive, categorical, swap, inversion or composite.")
    ]
    selection: Annotated[str | None, Flag("Selection operator: tournament, roulette, rank or elite.")]
    breeding: Annotated[
        str | None,
        Flag("Parent pool: elites of the last generation, the best of it, or known: the best evaluated so far."),
    ]
    elitism: Annotated[int | None, Flag("Number of elites that survive. [default: in proportion to the population]")]
    tournament: Annotated[int | None, Flag("Tournament size.")]
    unseen: Annotated[
        bool | None,
        Flag("Replace offspring that were evaluated before by new ones.", ("--unseen/--no-unseen",)),
    ]
    screening: Annotated[int | None, Flag("Offspring per evaluation, of which a surrogate model preselects one.")]
    local_search: Annotated[
        float | None, Flag("Share of the budget for a final local search, which changes single genes.")
    ]
    convergence: Annotated[int | None, Flag("Stop after this number of steps without improvement.")]
    target: Annotated[float | None, Flag("Stop at this fitness.")]
    crossover_rate: Annotated[float | None, Flag("Probability that a pair of parents is crossed.")]
    mutation_rate: Annotated[
        float | None, Flag("Probability that a gene mutates; the initial one with adaptive mutation.")
    ]
    mutation_min: Annotated[float | None, Flag("Minimum rate of adaptive mutation.")]
    mutation_max: Annotated[float | None, Flag("Maximum rate of adaptive mutation.")]
    objective: Annotated[
        str | None,
        Flag("What is tuned: quality, or retrieval alone, which needs no reference answers. [default: quality]"),
    ]
    fitness: Annotated[
        FitnessSpec,
        Flag("Fitness: paper, reading, or FILE.py:function of the measures of a question. [default: paper]", kind=str),
    ]
    seed: Annotated[int | None, Flag("Random seed of the search.")]
    max_evaluations: Annotated[
        int | None,
        Flag(
            "Maximum number of candidates that the search proposes. Baselines, probes, simplification and ablation of "
            "the winner are not counted, nor, unless rankings are searched first, candidates with the results of an "
            "earlier one; --max-calls and --max-cost limit everything. [default: the preset's]"
        ),
    ]
    max_failure_rate: Annotated[float | None, Flag("Maximum failure rate of a candidate. [default: 0.1]")]
    race: Annotated[
        bool | None,
        Flag("Drop a candidate early, once it is significantly worse.", ("--race/--no-race",)),
    ]
    warm_start: Annotated[
        bool | None,
        Flag(
            "Start from what was learned on other data sets, and from the pipeline of `ragsmith recommend`.",
            ("--warm-start/--no-warm-start",),
        ),
    ]
    probes: Annotated[bool | None, Flag("First evaluate each option alone in naive RAG.", ("--probes/--no-probes",))]
    rankings_first: Annotated[
        bool | None,
        Flag(
            "Search rankings first, which asks no chat model, and answer a fifth of them. [default: if a chat "
            "model writes the answers]",
            ("--rankings-first/--no-rankings-first",),
        ),
    ]
    choose: Annotated[str | None, Flag("How the winner is chosen: by mean, or by estimate of a model. [default: mean]")]
    simplify: Annotated[bool | None, Flag("Remove parts of the winner that do not pay.", ("--simplify/--no-simplify",))]
    max_loss: Annotated[
        float | None,
        Flag("Loss of fitness that simplification accepts, by the upper end of its interval. [default: 0.01]"),
    ]
    control: Annotated[
        str | None, Flag("Control: random evaluates as many random candidates for comparison. [default: none]")
    ]
    time_limit: Annotated[float | None, Flag("Seconds after which the search pauses, such as 3600; it can be resumed.")]


class RunArguments(SettingChanges, total=False):
    """The search space, the preset and its settings.

    ``preset`` is ``default``, ``paper`` or ``quick``. ``space`` defaults to that of the preset; it may be a dictionary
    such as ``{"retrieval": ["vector", "bm25"]}``, see `load_space`. ``without`` lists options to exclude from it, as
    ``FAMILY`` (all but ``none``) or ``FAMILY.OPTION``. ``prompts`` are files with one's own prompts, by role, or lists
    of files among which the search chooses. ``faithfulness`` checks answers claim by claim, by default if the judge is
    embedded. ``chunk_size`` is the maximum number of characters of a chunk.
    """

    space: Annotated[
        SpaceSpec | None,
        Flag("Search space: a bundled name, or a YAML file. [default: the preset's]", kind=str),
    ]
    without: Annotated[
        str | Sequence[str] | None,
        Flag(
            "Exclude from the space: FAMILY (all but none) or FAMILY.OPTION; may be repeated.",
            kind=list[str],
        ),
    ]
    prompts: Annotated[
        PromptFiles | None,
        Flag(
            "Own prompt of a task, as ROLE=FILE; repeated for a role, the search chooses, and default is the built-in "
            "one. Roles and placeholders: docs/search_spaces.md.",
            ("--prompt",),
            list[str],
        ),
    ]
    preset: Annotated[str | None, Flag("Preset of settings: default, paper or quick. [default: default]")]
    faithfulness: Annotated[
        bool | None,
        Flag(
            "Check answers claim by claim, with two judge calls each. [default: if the judge is embedded]",
            ("--faithfulness/--no-faithfulness",),
        ),
    ]
    chunk_size: Annotated[int | None, Flag("Maximum number of characters of a chunk.")]


class SearchArguments(WorkArguments, RunArguments, total=False):
    """The arguments that `search` and `plan` share, apart from the data set.

    ``settings`` replaces ``preset``. ``prices`` is a mapping or a YAML file.
    """

    settings: Annotated[RunSettings | None, "RunSettings, or settings by name, such as seed=1"]
    prices: Annotated[
        PriceSpec, Flag("Price file, YAML: 'openai:MODEL: {input: ..., output: ...}' per million tokens.", kind=Path)
    ]


def flags_of(arguments: Any) -> dict[str, tuple[Any, Flag]]:
    """Return the type on the command line and the `Flag` of each argument of a `TypedDict` of this file."""
    flags: dict[str, tuple[Any, Flag]] = {}
    for name, hint in read_annotations(arguments).items():
        for flag in [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Flag)]:
            kind = hint.__origin__ if flag.kind is None else flag.kind | None
            flags[name] = kind, flag
    return flags
