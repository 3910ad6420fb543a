"""Whether evidence belongs to its question: whether search by words finds it more often than that of another one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ragsmith.labelling.checking.view import View

K = 5
MORE_OFTEN = 3.0


@dataclass(frozen=True, slots=True)
class Belonging:
    """Recall@5 of BM25 by question, as far as 5 chunks can reach it; its mean, ``own``; and ``others``, the mean of the
    recall of the evidence of every other question among what is found for one.
    """

    recall: Mapping[str, float]
    own: float
    others: float

    @classmethod
    def of(cls, view: View) -> Belonging:
        """Of the ranked questions, of which there is one at least."""
        found = view.ranks("bm25").recall
        reachable = {e.id: min(K, len(view.relevant(e))) / len(view.relevant(e)) for e in view.ranked}
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
    """Evidence that two questions share is that of the question."""
    worth: defaultdict[str, float] = defaultdict(float)
    for example in view.ranked:
        gold = view.relevant(example)
        for chunk in gold:
            worth[chunk] += 1 / min(K, len(gold))
    total = 0.0
    for example in view.ranked:
        best = [view.chunks[int(place)].id for place in view.best_by_words[example.id][:K]]
        total += sum(worth[chunk] for chunk in best if chunk not in view.relevant(example))
    return total / len(view.ranked) / max(1, len(view.ranked) - 1)
