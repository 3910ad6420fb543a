"""Learned effects as a file of numbers: scores of sampled pipelines on data sets, and variances of effects.

For each data set the file has digests, the corpus profile, and the mean score and cost of each sampled pipeline,
without texts or test questions. Effects are computed from these when they are needed, in about a second, so that the
target data set can be left out, and R and G can be weighted.
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
from ragsmith.effects.beliefs import Array, Beliefs, DatasetBlock, Effects, EffectVariances, PartOfFitness, effects
from ragsmith.effects.corpus import CorpusProfile
from ragsmith.effects.terms import GROUPS, PARTS, PLAIN, Labels, ModelClasses, Term, technique_of, terms_of
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
"""The roles of models whose unknown classes are replaced by the most frequent known one."""
MIN_DATASETS = 2
"""Minimum number of data sets that separates general effects from those of a data set."""
MAX_FILE_BYTES = 256 * MIB
"""Maximum size of a file of effects, in bytes."""
AGAIN = "`tools/effects.py` makes one"


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
    _worked_out: dict[tuple[str, str, float], tuple[Mapping[str, int], Effects]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def without(self, sample: Sequence[int]) -> Knowledge:
        """Return effects without data sets that overlap with the documents of ``sample``, with the same variances."""
        return replace(self, observed=tuple(one for one in self.observed if not one.overlaps(sample)))

    @cached_property
    def stale(self) -> tuple[str, ...]:
        """Techniques whose code has changed since their effects were learned, or which no longer exist."""
        rankings = [self.ranking] if self.ranking else map(load_shipped_weights, SHIPPED_WEIGHTS)
        known = [*self.code.items(), *(item for ranking in rankings for item in ranking.code.items())]
        return tuple(dict.fromkeys(name for name, code in known if fingerprint_of(name) != code))

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
            places, found = self._expected(part, corpus.kind, stretch)
            its = self.variances[part]
            own = stretch * its.own
            before = its.general + its.kind + own
            spread = tuple(before.tolist()), tuple(own.tolist()), its.rest
            parts.append(PartOfFitness(part, share / total, places, found, *spread, models))
        return Beliefs(tuple(parts))

    def unlike(self, corpus: CorpusProfile, models: ModelClasses) -> tuple[str, ...]:
        """Return the differences of ``corpus`` and ``models`` from all observed data sets, as sentences."""
        found = list(corpus.unlike([one.corpus for one in self.observed]))
        for role, words in ROLES.items():
            classes = self._classes(role)
            if classes and getattr(models, role) not in classes:
                found.append(
                    f"the {words} is of the class {getattr(models, role)}, and what is known was learned with those of "
                    f"the class {' or '.join(sorted(classes))}"
                )
        return tuple(found)

    def _nearest(self, models: ModelClasses) -> ModelClasses:
        """Return ``models`` with unobserved classes replaced by the most frequent ones."""
        known = {role: self._classes(role) for role in ROLES}
        strange = {role: its for role, its in known.items() if its and getattr(models, role) not in its}
        return replace(models, **{role: max(its, key=lambda name: (its[name], name)) for role, its in strange.items()})

    def _classes(self, role: str) -> Counter[str]:
        return Counter(getattr(one.models, role) for one in self.observed)

    def _expected(self, part: str, kind: str, stretch: float) -> tuple[Mapping[str, int], Effects]:
        """Return the predicted effects on a data set of ``kind``, and their places by term.

        The result is cached, as a search needs it twice: for its initial pipelines, and for its prior.
        """
        key = part, kind, stretch
        if key not in self._worked_out:
            blocks, places, groups = blocks_of(self.observed, part)
            its = self.variances[part]
            nothing = Effects(np.empty(0), np.empty((0, 0)))
            self._worked_out[key] = places, effects(blocks, groups, its, kind, stretch) if blocks else nothing
        return self._worked_out[key]

    def calls(self, pipeline: Labels) -> float:
        """Return the expected calls of a language model per question, including that of the answer."""
        return 1.0 + sum(self.cost(place, label) for place, label in enumerate(pipeline))

    def cost(self, place: int, label: str) -> float:
        """Return the calls per question that an option of the family at ``place`` adds.

        An unknown option counts as one call if it uses a language model.
        """
        option = f"{FAMILIES[place].name}.{label}"
        return self._costs.get(option, float(_asks(option)))

    def datasets_with(self, family: str, option: str) -> int:
        """Return the number of data sets that have pipelines with an option."""
        place = next(i for i, its in enumerate(FAMILIES) if its.name == family)
        return sum(any(labels[place] == option for labels in one.pipelines) for one in self.observed)

    @cached_property
    def _costs(self) -> dict[str, float]:
        """Calls that each option adds to naive RAG: least squares over all pipelines, weighted by inverse cost."""
        rows = [options_of(labels) for one in self.observed if one.calls for labels in one.pipelines]
        asking = [option for option in sorted({option for row in rows for option in row}) if _asks(option)]
        if not asking:
            return {}
        design = np.array([[option in row for option in asking] for row in rows], dtype=float)
        taken = np.array([calls for one in self.observed for calls in one.calls])
        found = np.linalg.lstsq(design / taken[:, None], (taken - 1.0) / taken, rcond=None)[0]
        return {option: max(0.0, float(cost)) for option, cost in zip(asking, found, strict=True)}


def read(path: str | Path | None = None) -> Knowledge:
    """Read learned effects, by default those that ship with ragsmith.

    Raises:
        UsageError: the file does not exist, or is not a file of learned effects.
    """
    load_techniques()  # for the models and the code fingerprints of options
    file = SHIPPED if path is None else Path(path)
    plain = _plain(file)

    def part(key: str, convert: Callable[[Any], T]) -> T:
        with _reading(file, repr(key)):
            return convert(plain.get(key))

    def entries(key: str, convert: Callable[[Any, Sequence[str]], T]) -> Iterator[T]:
        for number, one in enumerate(part(key, list), start=1):
            with _reading(file, f"entry {number} of {key!r}"):
                yield convert(one, options)

    options = part("options", lambda listed: [_label(option) for option in listed])
    return Knowledge(
        variances=part("variances", lambda its: {name: _variances(its[name]) for name in PARTS}),
        code=part("code", lambda its: {name: str(found) for name, found in its.items() if _label(name)}),
        made=part("made", lambda its: {name: its[name] for name in ("space", "pipelines", "seed")} if its else {}),
        ranking=part("ranking", lambda its: None if its is None else GeneralWeights.from_dict(its)),
        observed=tuple(entries("datasets", _observed)),
        checked=tuple(entries("checked", _checked)),
    )


def _plain(file: Path) -> dict[str, Any]:
    """Return the contents of a file of effects, with all required keys."""
    if not file.exists():
        raise UsageError(f"{file}: there is no such file of learned effects: `tools/effects.py` makes one")
    try:
        plain = parse_record(read_text(file, limit=MAX_FILE_BYTES, links=True))
    except TextError as error:
        raise UsageError(f"{error.at(file)}, or make the file of learned effects anew: {AGAIN}") from None
    if (known := plain.get("format", FORMAT)) != FORMAT:
        raise UsageError(f"{file}: this ragsmith reads format {FORMAT} of learned effects, not {known!r}: {AGAIN}")
    required = ("format", "options", "code", "variances", "datasets", "checked")
    for problem in key_problems(plain, required=required, optional=("made", "ranking")):
        raise UsageError(f"{file}: this is no file of learned effects: {problem}, or make it: {AGAIN}")
    return plain


@contextmanager
def _reading(file: Path, place: str) -> Iterator[None]:
    """Convert an error into a UsageError that names the place in the file of effects."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UsageError(f"{file}: {place} is not what a file of learned effects has there: {AGAIN}") from error


def in_words(pipeline: Labels) -> str:
    """Describe the differences of a pipeline from naive RAG; ambiguous options are given with their family."""
    names = [set(family.techniques) for family in FAMILIES]
    parts = (
        f"{family.name} {label}" if sum(technique_of(label) in its for its in names) > 1 else label
        for family, label, plain in zip(FAMILIES, pipeline, PLAIN, strict=True)
        if label != plain
    )
    return " + ".join(parts) or "naive RAG"


def _observed(plain: Mapping[str, Any], options: Sequence[str]) -> ObservedDataset:
    pipelines = tuple(_labels(one, options) for one in plain["pipelines"])
    return ObservedDataset(
        **{
            **plain,
            "sample": tuple(map(int, plain["sample"])),
            "corpus": CorpusProfile(**plain["corpus"]),
            "models": ModelClasses(**plain["models"]),
            "pipelines": pipelines,
            "means": {part: _numbers(values, len(pipelines)) for part, values in plain["means"].items()},
            "noise": {part: _numbers(values, len(GROUPS) + 1) for part, values in plain["noise"].items()},
            "calls": _numbers(plain["calls"], len(pipelines)) if plain["calls"] else (),
        }
    )


def _checked(plain: Mapping[str, Any], options: Sequence[str]) -> RecommendationCheck:
    measured = ("expected", "sd", "gain", "low", "high", "calls")
    numbers = dict(zip(measured, _numbers([plain[name] for name in measured], len(measured)), strict=True))
    return RecommendationCheck(**{**plain, **numbers, "pipeline": _labels(plain["pipeline"], options)})


def _variances(plain: Mapping[str, Any]) -> EffectVariances:
    general, kind, own = (np.array(_numbers(plain[name], len(GROUPS))) for name in ("general", "kind", "own"))
    return EffectVariances(general, kind, own, *_numbers([plain["rest"]], 1))


def _numbers(values: Sequence[Any], count: int) -> tuple[float, ...]:
    """Return ``count`` finite numbers; raise ValueError for other values."""
    if len(values) != count or not all(is_instance_of(float, value) for value in values):
        raise ValueError(f"{count} numbers are needed")
    return tuple(float(value) for value in values)


def _label(option: str) -> str:
    """Return the option of ``family.option``; raise ValueError if there is no such family."""
    family, _, label = option.partition(".")
    its = next((its for its in FAMILIES if its.name == family), None)
    if not label or its is None:
        raise ValueError(f"{option!r} is no option of a family")
    return label


def _labels(numbers: Sequence[int], options: Sequence[str]) -> Labels:
    if len(numbers) != len(FAMILIES):
        raise ValueError(f"a pipeline has {len(FAMILIES)} options")
    return tuple(options[number] for number in numbers)


def options_of(labels: Labels) -> list[str]:
    """Return the options of a pipeline as ``family.option``."""
    return [f"{family.name}.{label}" for family, label in zip(FAMILIES, labels, strict=True)]


def _asks(option: str) -> bool:
    """Whether an option uses a language model when a question is answered."""
    family, _, name = technique_of(option).partition(".")
    its = next(one for one in FAMILIES if one.name == family)
    known = its.techniques.get(name)
    return its.tier != "collection" and known is not None and "language_model" in known.tools.values()


def fingerprint_of(technique: str) -> str | None:
    """Return the fingerprint of a technique, or None if it does not exist."""
    family, _, name = technique.partition(".")
    found = next(its for its in FAMILIES if its.name == family).techniques.get(name)
    return found.code if found else None


def design_matrix(rows: Sequence[Sequence[Term]], places: Mapping[str, int]) -> Array:
    """Return the weights of terms, with a row for each pipeline and a column for each term."""
    design = np.zeros((len(rows), len(places)))
    for row, terms in zip(design, rows, strict=True):
        for term in terms:
            row[places[term.name]] += term.weight
    return design


def blocks_of(
    observed: Sequence[ObservedDataset], part: str
) -> tuple[list[DatasetBlock], dict[str, int], NDArray[np.int_]]:
    """Return the observations of a part of the fitness, the columns of terms by name, and the group of each column."""
    seen = [one for one in observed if part in one.means]
    rows = [[terms_of(labels, part, one.models) for labels in one.pipelines] for one in seen]
    groups = {term.name: term.group for of_set in rows for terms in of_set for term in terms}
    places = {name: place for place, name in enumerate(groups)}
    blocks = []
    for one, of_set in zip(seen, rows, strict=True):
        means, noise = np.array(one.means[part]), np.array(one.noise[part])
        blocks.append(DatasetBlock(design_matrix(of_set, places), means, noise, one.corpus.kind))
    return blocks, places, np.array(list(groups.values()), dtype=int)
