"""Tables of learned effects: gains of options and pairs, signal weights, and pooled gains of recommendations."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from ragsmith.effects.beliefs import Beliefs
from ragsmith.effects.knowledge import Knowledge, RecommendationCheck
from ragsmith.effects.terms import PAIRS, PLAIN, Labels, option_labels, technique_name, usual_pipeline
from ragsmith.evaluation.general_weights import SHIPPED_FILES, load_shipped_weights
from ragsmith.evaluation.statistics import student_quantile
from ragsmith.techniques.families import FAMILIES


@dataclass(frozen=True)
class ShownEffect:
    """Gain of an option in fitness over the plain option of its family, in naive RAG and in the usual pipeline.

    ``alone`` is the gain in naive RAG, ``usual`` that in hybrid search with a cross-encoder. Standard errors are of the
    mean over data sets; ``between`` is the standard deviation of the effect alone between data sets. ``calls`` are the
    added calls per question.
    """

    option: str
    alone: float
    alone_se: float
    usual: float
    usual_se: float
    between: float
    calls: float
    datasets: int
    stale: bool


@dataclass(frozen=True)
class PairEffect:
    """Interaction of two techniques in naive RAG; ``sd`` is its standard deviation on an unseen data set."""

    first: str
    second: str
    gain: float
    sd: float


@dataclass(frozen=True)
class SignalWeight:
    """General weight of a ``signal`` of a technique, and its range over fits that leave one data set out.

    The weight is the change of the score per standard deviation of the signal among the candidates of a question.
    """

    technique: str
    signal: str
    weight: float
    least: float
    most: float


@dataclass(frozen=True)
class PooledGain:
    """Mean gain of recommendations over data sets, its 95 % interval, and the number of positive gains (``above``)."""

    mean: float
    low: float
    high: float
    above: int
    datasets: int


def option_effects(knowledge: Knowledge) -> list[ShownEffect]:
    """Return the effects of all observed options by family, on corpora of the most frequent kind."""
    beliefs = _typical_beliefs(knowledge)
    found = []
    for place, family in enumerate(FAMILIES):
        for option in _observed_options(knowledge, place):
            name = f"{family.name}.{technique_name(option)}"
            values = []
            for base in (PLAIN, option_labels(usual_pipeline())):
                without = _with_required_options(place, option, (*base[:place], PLAIN[place], *base[place + 1 :]))
                with_it = (*without[:place], option, *without[place + 1 :])
                gain, sd = beliefs.gain(with_it, without)
                between = beliefs.between(with_it, without)
                values += [gain, float(np.sqrt(max(0.0, sd**2 - between**2))), between]
            alone, alone_se, between, in_usual, usual_se, _ = values
            sets, calls = knowledge.datasets_with(place, option), knowledge.cost(place, option)
            shown = f"{family.name}.{option}"
            found.append(
                ShownEffect(shown, alone, alone_se, in_usual, usual_se, between, calls, sets, name in knowledge.stale)
            )
    return found


def pair_effects(knowledge: Knowledge, most: int = 12) -> list[PairEffect]:
    """Return the ``most`` significant interactions of pairs, on the corpora of `option_effects`."""
    beliefs, found = _typical_beliefs(knowledge), []
    techniques = [
        {technique_name(one): one for one in _observed_options(knowledge, place)} for place in range(len(FAMILIES))
    ]
    for i, j in PAIRS:
        for (first_name, first), (second_name, second) in product(techniques[i].items(), techniques[j].items()):
            alone, other = (*PLAIN[:i], first, *PLAIN[i + 1 :]), (*PLAIN[:j], second, *PLAIN[j + 1 :])
            both = (*alone[:j], second, *alone[j + 1 :])
            gain, sd = beliefs.sum(((both, 1.0), (alone, -1.0), (other, -1.0), (PLAIN, 1.0)))
            found.append(PairEffect(f"{FAMILIES[i].name}.{first_name}", f"{FAMILIES[j].name}.{second_name}", gain, sd))
    return sorted(found, key=lambda pair: -abs(pair.gain) / pair.sd)[:most]


def signal_weights(knowledge: Knowledge) -> list[SignalWeight]:
    """Return the general weights of all signals, by technique, the largest first."""
    by_class = {f" (embedder: {name})": load_shipped_weights(name) for name in SHIPPED_FILES}
    known_by = {"": knowledge.ranking} if knowledge.ranking else by_class
    found = []
    for (named, known), technique in ((its, name) for its in known_by.items() for name in its[1].signals):
        signals = known.signals[technique]
        every = known.general(technique).weights
        without = [known.without([one.name]).general(technique).weights for one in known.datasets] or [every]
        each = zip(signals, every.tolist(), np.min(without, axis=0), np.max(without, axis=0), strict=True)
        rows = [
            SignalWeight(technique + named, signal, weight, float(low), float(high))
            for signal, weight, low, high in each
        ]
        found += sorted(rows, key=lambda row: -abs(row.weight))
    return found


def _typical_beliefs(knowledge: Knowledge) -> Beliefs:
    """Return the predictions for corpora of the most frequent kind."""
    kinds = Counter(one.corpus.kind for one in knowledge.observed)
    typical = max(knowledge.observed, key=lambda one: kinds[one.corpus.kind])
    return knowledge.beliefs(typical.corpus, typical.models)


def _observed_options(knowledge: Knowledge, place: int) -> list[str]:
    """Return the observed options of a family, except for the plain one."""
    return sorted({labels[place] for one in knowledge.observed for labels in one.pipelines} - {PLAIN[place]})


def pool_gains(checked: Sequence[RecommendationCheck]) -> dict[int | None, PooledGain]:
    """Return the unweighted mean gain in fitness over data sets, by cost class.

    The interval is Student's, from the variance between data sets: if BM25 itself is recommended, the gain is 0 without
    error, so gains cannot be weighted by their errors. Gains in retrieval alone are left out.
    """
    found = {}
    for most in dict.fromkeys(one.most_calls for one in checked):
        gains = np.array([one.gain for one in checked if one.most_calls == most and one.measure == "fitness"])
        if len(gains) < 2:
            continue
        error = float(gains.std(ddof=1)) / len(gains) ** 0.5
        mean, reach = float(gains.mean()), student_quantile(0.975, len(gains) - 1) * error
        found[most] = PooledGain(mean, mean - reach, mean + reach, int((gains > 0).sum()), len(gains))
    return found


def _with_required_options(place: int, option: str, base: Labels) -> Labels:
    """Return ``base`` with the options that ``option`` requires in earlier families."""
    technique = FAMILIES[place].techniques.get(technique_name(option))
    after = technique.after if technique else {}
    wanted = {family: names[0] for family, names in after.items()}
    return tuple(wanted.get(family.name, label) for family, label in zip(FAMILIES, base, strict=True))
