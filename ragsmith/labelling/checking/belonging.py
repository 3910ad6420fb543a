"""Whether evidence belongs to its question: whether search by words finds it more often than that of another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ragsmith.labelling.checking.view import View
from ragsmith.types import Example

K = 5
MORE_OFTEN = 3.0


@dataclass(frozen=True, slots=True)
class Belonging:
    """Recall@5 of BM25 by question, as far as 5 units can reach it; its mean, ``own``; and ``others``, the mean of the
    recall of the evidence of every other question among what is found for one.
    """

    recall: Mapping[str, float]
    own: float
    others: float

    @classmethod
    def of(cls, view: View) -> Belonging:
        """Of the ranked questions, of which there is one at least."""
        found = view.ranks("bm25").recall
        units = {e.id: len(view.relevance(e).units) for e in view.ranked}
        reachable = {id_: min(K, count) / count for id_, count in units.items()}
        recall = {id_: value / reachable[id_] for id_, value in found.items()}
        return cls(recall, sum(recall.values()) / len(recall), _of_others(view))

    @property
    def lowest(self) -> float:
        """What ``own`` is at least where evidence belongs to its question."""
        return MORE_OFTEN * self.others

    @property
    def mixed_up(self) -> bool:
        """Whether evidence does not belong to its question."""
        return self.own < self.lowest or not self.own


def _of_others(view: View) -> float:
    """Each ranking is judged as one for another question: in the units of that one (see `ragsmith.datasets.relevance`).

    Evidence that two questions share is that of the question.
    """
    asking: defaultdict[str, list[Example]] = defaultdict(list)
    for example in view.ranked:
        for chunk in view.relevant(example):
            asking[chunk].append(example)
    total = 0.0
    for example in view.ranked:
        best = [view.chunks[int(place)].id for place in view.best_by_words[example.id]]
        for other in {one.id: one for chunk in best for one in asking[chunk]}.values():
            gold = view.relevance(other)
            shared = {gold.unit(chunk) for chunk in gold.relevant & view.relevant(example)}
            first = list(dict.fromkeys(map(gold.unit, best)))[:K]
            found = sum(unit in gold.units and unit not in shared for unit in first)
            total += found / min(K, len(gold.units))
    return total / len(view.ranked) / max(1, len(view.ranked) - 1)
