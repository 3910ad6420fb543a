"""Learned effects, stored as scores of sampled pipelines on data sets and variances of effects.

For each data set, the file has digests, the corpus profile, and the mean score and cost of each sampled pipeline, but
no texts or test questions. Effects are computed from these on demand, in about a second, so that the target data set
can be left out and R and G can be weighted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.overlap import MIN_CONTAINMENT, estimate_containment
from ragsmith.effects.beliefs import (
    Beliefs,
    DatasetBlock,
    Effects,
    EffectVariances,
    FitnessPart,
    design_matrix,
    effects,
)
from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.terms import GROUPS, PARTS, PLAIN, Labels, ModelClasses, pipeline_terms, technique_name
from ragsmith.errors import UsageError
from ragsmith.evaluation.fitness import Weights
from ragsmith.evaluation.general_weights import SHIPPED_FILES as SHIPPED_WEIGHTS
from ragsmith.evaluation.general_weights import GeneralWeights, load_shipped_weights
from ragsmith.plugins import is_instance_of
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.files import MIB, TextError, read_text
from ragsmith.text.jsonl import key_problems, parse_record

T = TypeVar("T")

FORMAT = 1
SHIPPED = Path(__file__).with_name("learned.json")
ROLES = {"embedder": "embedder", "cross_encoder": "cross-encoder"}
"""Model roles with their name in messages; an unobserved class of model is replaced by the most frequent one."""
MIN_DATASETS = 2
"""Minimum number of data sets, so that general effects can be told from those of a data set."""
MAX_FILE_BYTES = 256 * MIB
"""Maximum size of a file of effects, in bytes."""
REMEDY = "`tools/effects.py` makes one"
"""The end of messages about invalid files of effects."""


@dataclass(frozen=True)
class ObservedDataset:
    """Mean scores of pipelines on the search questions of a data set.

    ``sample`` is the sample of its documents (`ragsmith.datasets.overlap`). ``means`` and ``noise`` (see
    `DatasetBlock`) are by part of the fitness; G is missing without answers. ``calls`` are calls of a language model
    per question, empty without answers; ``groups`` is the number of groups of questions that share documents.
    """

    name: str
    digest: str
    sample: tuple[int, ...]
    corpus: CorpusProfile
    models: ModelClasses
    questions: int
    groups: int
    pipelines: tuple[Labels, ...]
    means: Mapping[str, tuple[float, ...]]
    noise: Mapping[str, tuple[float, ...]]
    calls: tuple[float, ...]

    def overlaps(self, sample: Sequence[int]) -> bool:
        """Whether the documents overlap with those of ``sample``."""
        return estimate_containment(self.sample, sample) >= MIN_CONTAINMENT


@dataclass(frozen=True)
class RecommendationCheck:
    """Leave-one-out check of a recommendation: the pipeline for a data set, and its measured gain there over BM25.

    ``expected`` and ``sd`` are the prediction; ``low`` and ``high`` are the 95 % confidence interval of the gain, by
    groups of questions. ``measure`` is ``fitness``, or ``retrieval`` without answers. ``most_calls`` is the cost class,
    None without a limit.
    """

    dataset: str
    measure: str
    most_calls: int | None
    pipeline: Labels
    expected: float
    sd: float
    gain: float
    low: float
    high: float
    calls: float


@dataclass(frozen=True)
class Knowledge:
    """Effects learned from data sets; ``code`` are the fingerprints of the techniques at that time.

    ``made`` describes the sample of pipelines: the space, the number per data set, and the seed. ``ranking`` are
    weights of signals learned on the same data sets; None for the shipped ones.
    """

    observed: tuple[ObservedDataset, ...]
    variances: Mapping[str, EffectVariances]
    code: Mapping[str, str]
    checked: tuple[RecommendationCheck, ...] = field(default=())
    made: Mapping[str, str | int] = field(default_factory=dict)
    ranking: GeneralWeights | None = None
    _effects_cache: dict[tuple[str, str, float], tuple[Mapping[str, int], Effects]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def without(self, sample: Sequence[int]) -> Knowledge:
        """Return the effects without data sets whose documents overlap with ``sample``; variances are unchanged."""
        return replace(self, observed=tuple(data for data in self.observed if not data.overlaps(sample)))

    @cached_property
    def stale(self) -> tuple[str, ...]:
        """Names of techniques that have changed since their effects were learned, or no longer exist."""
        rankings = [self.ranking] if self.ranking else map(load_shipped_weights, SHIPPED_WEIGHTS)
        known = [*self.code.items(), *(item for ranking in rankings for item in ranking.code.items())]
        return tuple(dict.fromkeys(name for name, code in known if technique_fingerprint(name) != code))

    def beliefs(self, corpus: CorpusProfile, models: ModelClasses, weights: Weights | None = None) -> Beliefs:
        """Return the predictions for pipelines on ``corpus`` with ``models``.

        For each difference of ``corpus`` and ``models`` from all observed data sets (`unlike`), the variance between
        data sets is added once more. For an embedder or a cross-encoder of an unobserved class, the effects of the most
        frequent class are used.
        """
        stretch = 1.0 + len(self.unlike(corpus, models))
        models = self._nearest(models)
        shares = weights or Weights()
        total = shares.retrieval + shares.generation
        parts = []
        for part, share in zip(PARTS, (shares.retrieval, shares.generation), strict=True):
            places, learned = self._predict_effects(part, corpus.kind, stretch)
            variances = self.variances[part]
            own = stretch * variances.own
            prior = variances.general + variances.kind + own
            spread = tuple(prior.tolist()), tuple(own.tolist()), variances.rest
            parts.append(FitnessPart(part, share / total, places, learned, *spread, models))
        return Beliefs(tuple(parts))

    def unlike(self, corpus: CorpusProfile, models: ModelClasses) -> tuple[str, ...]:
        """Return the differences of ``corpus`` and ``models`` from all observed data sets, as sentences."""
        unlike_models = (
            f"the {ROLES[role]} is of the class {getattr(models, role)}, and the effects were learned with those of "
            f"the class {' or '.join(sorted(classes))}"
            for role, classes in self._unobserved(models).items()
        )
        return (*corpus.unlike([one.corpus for one in self.observed]), *unlike_models)

    def _nearest(self, models: ModelClasses) -> ModelClasses:
        """Return ``models`` with unobserved classes replaced by the most frequent ones."""
        nearest = {
            role: max(counts, key=lambda name: (counts[name], name))
            for role, counts in self._unobserved(models).items()
        }
        return replace(models, **nearest)

    def _unobserved(self, models: ModelClasses) -> dict[str, Counter[str]]:
        """Return the counts of the observed classes by role, for roles with a model of an unobserved class."""
        observed = {role: Counter(getattr(one.models, role) for one in self.observed) for role in ROLES}
        return {role: counts for role, counts in observed.items() if counts and getattr(models, role) not in counts}

    def _predict_effects(self, part: str, kind: str, stretch: float) -> tuple[Mapping[str, int], Effects]:
        """Return the predicted effects on a data set of ``kind``, and their places by term.

        The result is cached, as a search needs it for its initial pipelines and for its prior.
        """
        key = part, kind, stretch
        if key not in self._effects_cache:
            blocks, places, groups = dataset_blocks(self.observed, part)
            empty = Effects(np.empty(0), np.empty((0, 0)))
            predicted = effects(blocks, groups, self.variances[part], kind, stretch) if blocks else empty
            self._effects_cache[key] = places, predicted
        return self._effects_cache[key]

    def calls(self, pipeline: Labels) -> float:
        """Return the expected calls of a language model per question, including that of the answer."""
        return 1.0 + sum(self.cost(place, label) for place, label in enumerate(pipeline))

    def cost(self, place: int, label: str) -> float:
        """Return the calls per question that an option of the family at ``place`` adds.

        An unknown option counts as one call if it uses a language model.
        """
        option = f"{FAMILIES[place].name}.{label}"
        return self._costs.get(option, float(_uses_language_model(option)))

    def datasets_with(self, place: int, label: str) -> int:
        """Return the number of data sets that have pipelines with an option of the family at ``place``."""
        return sum(any(labels[place] == label for labels in one.pipelines) for one in self.observed)

    @cached_property
    def _costs(self) -> dict[str, float]:
        """Calls that each option adds to naive RAG, by least squares over all pipelines, weighted by inverse cost."""
        rows = [qualified_options(labels) for one in self.observed if one.calls for labels in one.pipelines]
        options = [
            option for option in sorted({option for row in rows for option in row}) if _uses_language_model(option)
        ]
        if not options:
            return {}
        design = np.array([[option in row for option in options] for row in rows], dtype=float)
        taken = np.array([calls for one in self.observed for calls in one.calls])
        costs = np.linalg.lstsq(design / taken[:, None], (taken - 1.0) / taken, rcond=None)[0]
        return {option: max(0.0, float(cost)) for option, cost in zip(options, costs, strict=True)}


def read_effects(path: str | Path | None = None) -> Knowledge:
    """Read learned effects, by default those that ship with ragsmith.

    Raises:
        UsageError: the file does not exist, or is not a file of learned effects.
    """
    load_techniques()  # for the models and the code fingerprints of options
    file = SHIPPED if path is None else Path(path)
    plain = _read_content(file)

    def part(key: str, convert: Callable[[Any], T]) -> T:
        with _read_errors(file, repr(key)):
            return convert(plain.get(key))

    def entries(key: str, convert: Callable[[Any, Sequence[str]], T]) -> Iterator[T]:
        for number, one in enumerate(part(key, list), start=1):
            with _read_errors(file, f"entry {number} of {key!r}"):
                yield convert(one, options)

    options = part("options", lambda listed: [_read_option(option) for option in listed])
    return Knowledge(
        variances=part("variances", lambda its: {name: _read_variances(its[name]) for name in PARTS}),
        code=part("code", lambda its: {name: str(found) for name, found in its.items() if _read_option(name)}),
        made=part("made", lambda its: {name: its[name] for name in ("space", "pipelines", "seed")} if its else {}),
        ranking=part("ranking", lambda its: None if its is None else GeneralWeights.from_dict(its)),
        observed=tuple(entries("datasets", _read_observed)),
        checked=tuple(entries("checked", _read_check)),
    )


def _read_content(file: Path) -> dict[str, Any]:
    """Return the contents of a file of effects, with all required keys."""
    if not file.exists():
        raise UsageError(f"{file}: there is no such file of learned effects: `tools/effects.py` makes one")
    try:
        plain = parse_record(read_text(file, limit=MAX_FILE_BYTES, links=True))
    except TextError as error:
        raise UsageError(f"{error.at(file)}, or make the file of learned effects anew: {REMEDY}") from None
    if (known := plain.get("format", FORMAT)) != FORMAT:
        raise UsageError(f"{file}: this ragsmith reads format {FORMAT} of learned effects, not {known!r}: {REMEDY}")
    required = ("format", "options", "code", "variances", "datasets", "checked")
    for problem in key_problems(plain, required=required, optional=("made", "ranking")):
        raise UsageError(f"{file}: this is no file of learned effects: {problem}, or make it: {REMEDY}")
    return plain


@contextmanager
def _read_errors(file: Path, place: str) -> Iterator[None]:
    """Convert errors into a UsageError that names the ``place`` in the file of effects."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UsageError(f"{file}: {place} is not valid in a file of learned effects: {REMEDY}") from error


def describe_pipeline(pipeline: Labels) -> str:
    """Describe the differences of a pipeline from naive RAG; ambiguous options are qualified by their family."""
    names = [set(family.techniques) for family in FAMILIES]
    parts = (
        f"{family.name} {label}" if sum(technique_name(label) in its for its in names) > 1 else label
        for family, label, plain in zip(FAMILIES, pipeline, PLAIN, strict=True)
        if label != plain
    )
    return " + ".join(parts) or "naive RAG"


def _read_observed(plain: Mapping[str, Any], options: Sequence[str]) -> ObservedDataset:
    pipelines = tuple(_read_labels(one, options) for one in plain["pipelines"])
    return ObservedDataset(
        **{
            **plain,
            "sample": tuple(map(int, plain["sample"])),
            "corpus": CorpusProfile(**plain["corpus"]),
            "models": ModelClasses(**plain["models"]),
            "pipelines": pipelines,
            "means": {part: _read_numbers(values, len(pipelines)) for part, values in plain["means"].items()},
            "noise": {part: _read_numbers(values, len(GROUPS) + 1) for part, values in plain["noise"].items()},
            "calls": _read_numbers(plain["calls"], len(pipelines)) if plain["calls"] else (),
        }
    )


def _read_check(plain: Mapping[str, Any], options: Sequence[str]) -> RecommendationCheck:
    measured = ("expected", "sd", "gain", "low", "high", "calls")
    numbers = dict(zip(measured, _read_numbers([plain[name] for name in measured], len(measured)), strict=True))
    return RecommendationCheck(**{**plain, **numbers, "pipeline": _read_labels(plain["pipeline"], options)})


def _read_variances(plain: Mapping[str, Any]) -> EffectVariances:
    general, kind, own = (np.array(_read_numbers(plain[name], len(GROUPS))) for name in ("general", "kind", "own"))
    return EffectVariances(general, kind, own, *_read_numbers([plain["rest"]], 1))


def _read_numbers(values: Sequence[Any], count: int) -> tuple[float, ...]:
    """Return ``count`` finite numbers; raise ValueError for other values."""
    if len(values) != count or not all(is_instance_of(float, value) for value in values):
        raise ValueError(f"{count} numbers are needed")
    return tuple(float(value) for value in values)


def _read_option(option: str) -> str:
    """Return the option of ``family.option``; raise ValueError if there is no such family."""
    family, _, label = option.partition(".")
    if not label or all(known.name != family for known in FAMILIES):
        raise ValueError(f"{option!r} is no option of a family")
    return label


def _read_labels(numbers: Sequence[int], options: Sequence[str]) -> Labels:
    if len(numbers) != len(FAMILIES):
        raise ValueError(f"a pipeline has {len(FAMILIES)} options")
    return tuple(options[number] for number in numbers)


def qualified_options(labels: Labels) -> list[str]:
    """Return the options of a pipeline as ``family.option``."""
    return [f"{family.name}.{label}" for family, label in zip(FAMILIES, labels, strict=True)]


def _uses_language_model(option: str) -> bool:
    """Whether an option uses a language model when a question is answered."""
    family, _, name = technique_name(option).partition(".")
    its = next(one for one in FAMILIES if one.name == family)
    known = its.techniques.get(name)
    return its.tier != "collection" and known is not None and "language_model" in known.tools.values()


def technique_fingerprint(technique: str) -> str | None:
    """Return the fingerprint of a technique, or None if it does not exist."""
    family, _, name = technique.partition(".")
    found = next(its for its in FAMILIES if its.name == family).techniques.get(name)
    return found.code if found else None


def dataset_blocks(
    observed: Sequence[ObservedDataset], part: str
) -> tuple[list[DatasetBlock], dict[str, int], NDArray[np.int_]]:
    """Return the observations of a part of the fitness, the column of each term, and the group of each column."""
    seen = [one for one in observed if part in one.means]
    rows = [[pipeline_terms(labels, part, one.models) for labels in one.pipelines] for one in seen]
    groups = {term.name: term.group for of_set in rows for terms in of_set for term in terms}
    places = {name: place for place, name in enumerate(groups)}
    blocks = []
    for one, of_set in zip(seen, rows, strict=True):
        means, noise = np.array(one.means[part]), np.array(one.noise[part])
        blocks.append(DatasetBlock(design_matrix(of_set, places), means, noise, one.corpus.kind))
    return blocks, places, np.array(list(groups.values()), dtype=int)
