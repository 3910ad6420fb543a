"""What parts of a pipeline gain together beyond what each gains alone.

Alone is in naive RAG, and gains are differences of scores: the scale on which `ragsmith.effects` adds effects up, which
models R and G themselves, and no transform of them. There

    observed(parts) = score(naive RAG with all parts) - score(naive RAG)
    expected(parts) = sum over parts of [score(naive RAG with the part) - score(naive RAG)]

and what is observed beyond what is expected is the interaction: below 0, parts gain the same thing twice. Scores end
at 1, so parts that gain much alone can only gain less together; an interaction says that, too, and no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ragsmith.comparison.clusters import Clusters
from ragsmith.diagnosis.changes import alone, plain_of, units
from ragsmith.diagnosis.contrasts import Estimate, Weighted, contrast
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space

FEWEST = 2
"""Parts without which there is nothing to add up."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """What some parts gain over naive RAG in F: ``expected`` if each adds what it gains alone, and ``observed``.

    ``beyond`` is observed less expected, question by question. ``options`` are ``family: option``; parts that cannot
    be without each other count as one, and are joined by a plus.
    """

    options: tuple[str, ...]
    expected: Estimate
    observed: Estimate
    beyond: Estimate

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Interaction:
        """From its ``asdict``."""
        estimates = {name: Estimate.read(stored[name]) for name in ("expected", "observed", "beyond")}
        return cls(tuple(stored["options"]), **estimates)


def needed_for(winner: Candidate, space: Space, *, pairs: bool = False) -> list[Candidate]:
    """Naive RAG, each part alone in it and, if asked for, each pair; what the space does not allow is left out.

    Nothing, where there is nothing to add up.
    """
    plain, parts = plain_of(winner, space), units(winner, space)
    if len(parts) < FEWEST:
        return []
    two = [tuple(sorted((*one, *other))) for one, other in combinations(parts, 2)] if pairs and len(parts) > 2 else []
    found = [plain, *(alone(places, winner, plain) for places in (*parts, *two))]
    return [candidate for candidate in found if space.allows(candidate)]


def interactions(
    winner: Candidate, space: Space, known: Callable[[Candidate], Evaluation | None], terms: Terms, clusters: Clusters
) -> Iterator[Interaction]:
    """Of all parts together, then of pairs, where all pipelines for that are ``known`` and finished enough."""
    plain, parts = plain_of(winner, space), units(winner, space)
    if len(parts) < FEWEST:
        return
    groups = [tuple(parts), *(combinations(parts, 2) if len(parts) > FEWEST else ())]
    for group in groups:
        places = tuple(at for unit in group for at in unit)
        whole = known(alone(places, winner, plain))
        each = [known(alone(unit, winner, plain)) for unit in group]
        naive = known(plain)
        able = [one for one in (whole, naive, *each) if one is not None and terms.admit(one)]
        if whole is None or naive is None or len(able) < len(each) + 2:
            continue
        single = [one for one in each if one is not None]
        options = tuple(" + ".join(f"{winner[at].technique.family}: {winner[at]}" for at in unit) for unit in group)
        if (found := _interaction(options, whole, naive, single, terms, clusters)) is not None:
            yield found


def _interaction(
    options: tuple[str, ...],
    whole: Evaluation,
    naive: Evaluation,
    single: list[Evaluation],
    terms: Terms,
    clusters: Clusters,
) -> Interaction | None:
    """On the questions that all of them finished, so that the three agree."""
    observed: Weighted = [(whole, 1.0), (naive, -1.0)]
    expected: Weighted = [*((one, 1.0) for one in single), (naive, -float(len(single)))]
    beyond: Weighted = [*observed, *((one, -weight) for one, weight in expected)]
    questions = tuple(q for q in whole.questions if all(q in one.records for one, _ in beyond))
    found = [
        contrast([(one.on(questions), weight) for one, weight in weighted], "fitness", terms.fitness, clusters)
        for weighted in (expected, observed, beyond)
    ]
    if found[0] is None or found[1] is None or found[2] is None:
        return None
    return Interaction(options, found[0], found[1], found[2])
