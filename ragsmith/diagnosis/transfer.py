"""Transfer: the winner of a search on one data set, evaluated on another and compared with the winner there.

Nothing of the target had a part in the choice of the pipeline that comes from elsewhere, so its score is fair on all of
the target's questions. That of the target's own winner is not on search questions, which chose it: there, what a
pipeline from elsewhere is behind looks a little larger than it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from ragsmith.comparison.clusters import Clusters
from ragsmith.diagnosis.estimates import Estimate, contrast
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.ranking import Terms, ranked
from ragsmith.pipelines.genes import label
from ragsmith.text.restoring import restore

if TYPE_CHECKING:
    from ragsmith.store.store import Store

FINDING = "transfer"
"""Under what the store keeps it, by the runs that it leads from and to."""


@dataclass(frozen=True, slots=True)
class Transferred:
    """The winner of the search on ``source`` on questions of ``target``, its search or test questions by ``part``.

    ``fitness`` and ``calls`` are its means there, and ``behind`` is what the target's own winner is ahead of it,
    question by question; None where only means are known. ``place`` is the one it would have in the ranking of the
    target's search, of ``of``; there is none on test questions.
    """

    source: str
    target: str
    part: str
    label: str
    key: str
    questions: int
    fitness: float
    calls: float
    own: float
    behind: Estimate | None = None
    place: int | None = None
    of: int | None = None

    @property
    def regret(self) -> float:
        """What the target's own winner is ahead by."""
        return self.own - self.fitness if self.behind is None else self.behind.mean


def transferred(
    source: str,
    target: str,
    part: str,
    found: Evaluation,
    own: Evaluation,
    searched: Sequence[Evaluation],
    terms: Terms,
    clusters: Clusters,
) -> Transferred | None:
    """What became of a winner elsewhere, ``own`` being the winner there and ``searched`` what it won against, if asked.

    None where it failed on more questions than it may.
    """
    if not terms.admit(found) or not terms.admit(own):
        return None
    behind = contrast([(own, 1.0), (found, -1.0)], "fitness", terms.fitness, clusters)
    if behind is None:
        return None
    place = of = None
    if searched:
        listed = ranked([one for one in searched if one.phenotype != found.phenotype], terms)
        score = terms.score(found)
        ahead = [one for one in listed if (its := terms.score(one)) is not None and score is not None and its > score]
        place, of = len(ahead) + 1, len(listed) + 1
    return Transferred(
        source,
        target,
        part,
        label(found.candidate),
        found.key,
        len(found.questions),
        _mean(found.values("fitness", terms.fitness)),
        _mean(found.values("calls")),
        _mean(own.values("fitness", terms.fitness)),
        behind,
        place,
        of,
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def keep(store: Store, found: Transferred, source: str, target: str, dataset: str) -> None:
    """Keep a transfer from the run ``source`` to ``target``, which is on the data set of the digest ``dataset``."""
    store.put_finding(FINDING, _key(source, target, found.part), dataset, asdict(found))


def kept(store: Store, runs: Iterable[str], parts: Sequence[str] = ("search", "test")) -> list[Transferred]:
    """What the store has of transfers among ``runs``, in their order."""
    listed = list(runs)
    keys = [_key(one, other, part) for part in parts for one in listed for other in listed if one != other]
    found = store.findings(FINDING, keys)
    return [restore(Transferred, found[key]) for key in keys if key in found]


def _key(source: str, target: str, part: str) -> str:
    return f"{source}:{target}:{part}"
