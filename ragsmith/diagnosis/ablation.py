"""What each part of a pipeline is worth: the pipeline against itself without the part, or with another option there.

Everything is a difference question by question on questions that were searched with, unless others are named: what a
part is worth is no claim of the run, and the test questions are not looked at for it. The intervals are of one part
by itself, and of the best of many pipelines each part looks a little better than it is.

Parts may gain together more or less than each gains alone in naive RAG, on the scale of the scores:

    observed(parts) = score(naive RAG with all parts) - score(naive RAG)
    expected(parts) = sum over parts of [score(naive RAG with the part) - score(naive RAG)]

What is observed beyond what is expected is the interaction: below 0, parts gain the same thing twice. Scores end
at 1, so parts that gain much alone can only gain less together; an interaction says that, too, and no reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ragsmith.comparison.questions import Clusters
from ragsmith.diagnosis.changes import (
    ChangeType,
    PipelineChange,
    group_dependent_genes,
    identify_unfitted,
    keep_only,
    list_removals,
    list_signal_removals,
    list_swaps,
    make_naive_candidate,
)
from ragsmith.diagnosis.estimates import Estimate, Weighted, contrast, contrasts, mean_difference
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.ranking import Terms, common
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.pipelines.space import Space
from ragsmith.text.restoring import restore

if TYPE_CHECKING:
    from ragsmith.store.store import Store

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


def needed_for(winner: Candidate, space: Space, *, pairs: bool = False) -> list[Candidate]:
    """Naive RAG, each part alone in it and, if asked for, each pair; what the space does not allow is left out.

    Nothing, where there is nothing to add up.
    """
    plain, parts = make_naive_candidate(winner, space), group_dependent_genes(winner, space)
    if len(parts) < FEWEST:
        return []
    two = [tuple(sorted((*one, *other))) for one, other in combinations(parts, 2)] if pairs and len(parts) > 2 else []
    found = [plain, *(keep_only(places, winner, plain) for places in (*parts, *two))]
    return [candidate for candidate in found if space.allows(candidate)]


def interactions(
    winner: Candidate, space: Space, known: Callable[[Candidate], Evaluation | None], terms: Terms, clusters: Clusters
) -> Iterator[Interaction]:
    """Of all parts together, then of pairs, where all pipelines for that are ``known`` and finished enough."""
    plain, parts = make_naive_candidate(winner, space), group_dependent_genes(winner, space)
    if len(parts) < FEWEST:
        return
    groups = [tuple(parts), *(combinations(parts, 2) if len(parts) > FEWEST else ())]
    for group in groups:
        places = tuple(at for unit in group for at in unit)
        whole = known(keep_only(places, winner, plain))
        each = [known(keep_only(unit, winner, plain)) for unit in group]
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


FINDING = "ablation"
"""Under what the store keeps it, by the key of the evaluation."""

MOST_COMPLETED = 2
"""Pipelines whose answers a search makes, at most, to complete what races broke off."""

SecondsOf = Callable[[Evaluation], float | None]
"""The seconds that a pipeline takes for a question; None where they are not known."""


@dataclass(frozen=True, slots=True)
class AblatedOption:
    """An option of a pipeline compared with the option ``instead`` of it.

    That is naive RAG's (``out``), another one (``swap``), or itself without the signal that ``instead`` names
    (``signal``).

    ``worth`` is the pipeline less the one with the change, in F, R and G: above 0 the part is worth having. So are
    ``calls`` and ``seconds`` what is saved a question by the change, and below 0 what it costs. ``together`` names
    what had to go with it. Where the pair was not compared, ``why_not`` says why.
    """

    kind: ChangeType
    family: str
    option: str
    instead: str
    key: str = ""
    worth: Mapping[str, Estimate] = field(default_factory=dict)
    calls: float | None = None
    seconds: float | None = None
    together: tuple[str, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class Ablation:
    """What the parts of the pipeline of the evaluation ``key`` are worth on ``questions`` questions.

    ``part`` says which questions these are: ``search``, ``test`` or ``all``. ``interactions`` has what all parts gain
    together beyond the sum of each alone, then the same of pairs of them, as far as the pipelines for that are known.
    """

    key: str
    label: str
    dataset: str
    part: str
    questions: int
    parts: tuple[AblatedOption, ...]
    interactions: tuple[Interaction, ...] = ()

    @property
    def outs(self) -> tuple[AblatedOption, ...]:
        """Each part against naive RAG's option."""
        return tuple(one for one in self.parts if one.kind == "out")

    @property
    def swaps(self) -> tuple[AblatedOption, ...]:
        """Each part against other options of the space."""
        return tuple(one for one in self.parts if one.kind == "swap")

    @property
    def signals(self) -> tuple[AblatedOption, ...]:
        """Each learned ranking against itself without one of its signals."""
        return tuple(one for one in self.parts if one.kind == "signal")

    def keep(self, store: Store, dataset: str) -> Ablation:
        """Put it into the store, for the data set of this digest, with what is known from before; both are returned."""
        key = f"{self.key}:{self.part}"
        found = self.joined(kept(store, self.key, self.part))
        store.put_finding(FINDING, key, dataset, asdict(found))
        return found

    def joined(self, earlier: Ablation | None) -> Ablation:
        """With what ``earlier`` knows of the same pipeline on the same questions and this does not."""
        if earlier is None or (earlier.key, earlier.part, earlier.questions) != (self.key, self.part, self.questions):
            return self
        known = {(one.kind, one.family, one.instead): one for one in earlier.parts if not one.why_not}
        mine = {(one.kind, one.family, one.instead): one for one in self.parts}
        seconds = {name: one.seconds for name, one in known.items()}
        parts = [
            known[name]
            if one.why_not and name in known
            else replace(one, seconds=seconds.get(name) if one.seconds is None else one.seconds)
            for name, one in mine.items()
        ]
        more = [one for name, one in known.items() if name not in mine]
        told = {one.options for one in self.interactions}
        others = [one for one in earlier.interactions if one.options not in told]
        return replace(
            self,
            parts=tuple(sorted([*parts, *more], key=lambda one: one.kind)),
            interactions=tuple(sorted([*self.interactions, *others], key=lambda one: -len(one.options))),
        )


def kept(store: Store, key: str, part: str = "search") -> Ablation | None:
    """What the store has of the pipeline of the evaluation ``key``."""
    found = store.findings(FINDING, [f"{key}:{part}"])
    return next((restore(Ablation, value) for value in found.values()), None)


def changes(
    winner: Candidate, space: Space, *, with_swaps: bool = False, with_signals: bool = False, refit: bool = True
) -> list[PipelineChange]:
    """What is taken out of ``winner`` and, if asked for, swapped or left without a signal: outs first."""
    return [
        *list_removals(winner, space, refit=refit),
        *(list_swaps(winner, space, refit=refit) if with_swaps else []),
        *(list_signal_removals(winner, space, refit=refit) if with_signals else []),
    ]


def list_ablation_candidates(
    winner: Candidate,
    space: Space,
    *,
    with_swaps: bool = False,
    with_signals: bool = False,
    pairs: bool = False,
    refit: bool = True,
) -> list[Candidate]:
    """The pipelines that are compared with ``winner``, each once; without ``winner`` itself."""
    every = changes(winner, space, with_swaps=with_swaps, with_signals=with_signals, refit=refit)
    of_changes = (one.candidate for one in every if one.allowed)
    found = {
        identify_unfitted(candidate): candidate for candidate in (*of_changes, *needed_for(winner, space, pairs=pairs))
    }
    found.pop(identify_unfitted(winner), None)
    return list(found.values())


def lacking(winner: Candidate, space: Space, known: Iterable[Evaluation]) -> list[Candidate]:
    """The pipelines with one part taken out that are not among those ``known``, or left a race before its end.

    Of the latter there are as many as lack the answers of `MOST_COMPLETED` pipelines together, the nearest to their
    end first.
    """
    there = {identify_unfitted(one.candidate): one for one in known}
    able = [change.candidate for change in list_removals(winner, space) if change.allowed]
    missing = [candidate for candidate in able if identify_unfitted(candidate) not in there]
    begun = [one for candidate in able if (one := there.get(identify_unfitted(candidate))) and not one.attempted]
    answers = 0
    for one in sorted(begun, key=_unanswered):
        answers += _unanswered(one)
        if answers > MOST_COMPLETED * len(one.questions):
            break
        missing.append(one.candidate)
    return missing


def compute_ablation(
    winner: Evaluation,
    others: Iterable[Evaluation],
    space: Space,
    terms: Terms,
    *,
    dataset: str,
    clusters: Clusters,
    part: str = "search",
    seconds_of: SecondsOf | None = None,
    refit: bool = True,
) -> Ablation:
    """What the parts of ``winner`` are worth, by those of ``others`` that are away from it by one change.

    All are on the same questions, and ``clusters`` says which of these hang together. An out that is not among the
    others is named, with the reason; swaps, signals and interactions are shown as far as they are known.
    """
    known = {identify_unfitted(one.candidate): one for one in others} | {identify_unfitted(winner.candidate): winner}
    plain = make_naive_candidate(winner.candidate, space)
    parts = []
    for change in changes(winner.candidate, space, with_swaps=True, with_signals=True, refit=refit):
        other = known.get(identify_unfitted(change.candidate))
        if change.kind != "out" and other is None:
            continue
        parts.append(_part(change, winner, other, plain, terms, clusters, seconds_of))
    return Ablation(
        winner.key,
        label(winner.candidate),
        dataset,
        part,
        len(winner.questions),
        tuple(parts),
        tuple(interactions(winner.candidate, space, lambda one: known.get(identify_unfitted(one)), terms, clusters)),
    )


def _part(
    change: PipelineChange,
    winner: Evaluation,
    other: Evaluation | None,
    plain: Sequence[Any],
    terms: Terms,
    clusters: Clusters,
    seconds_of: SecondsOf | None,
) -> AblatedOption:
    gene, other_gene = winner.candidate[change.place], change.candidate[change.place]
    instead = other_gene.parameters["without"] if change.kind == "signal" else other_gene
    more = [at for at in change.places if at != change.place]
    together = tuple(f"{winner.candidate[at].technique.family}: {plain[at]}" for at in more)
    found = AblatedOption(change.kind, gene.technique.family, str(gene), str(instead), together=together)
    if not change.allowed:
        return replace(found, why_not="the space forbids what would be left")
    if other is None:
        return replace(found, why_not="not evaluated: `ragsmith ablate` does it")
    found = replace(found, key=other.key)
    if not other.attempted:
        answered = len(terms.counted) - terms.missed(other)
        return replace(found, why_not=f"answered {answered} of {len(terms.counted)}, left the race")
    if not terms.admit(other) or not common([winner, other]):
        return replace(found, why_not=f"failed on {terms.missed(other)} of {len(terms.counted)} questions")
    took, takes = (seconds_of(winner), seconds_of(other)) if seconds_of else (None, None)
    saved = None if took is None or takes is None else took - takes
    worth = contrasts([(winner, 1.0), (other, -1.0)], terms.fitness, clusters)
    return replace(found, worth=worth, calls=mean_difference(winner, other, "calls"), seconds=saved)


def _unanswered(one: Evaluation) -> int:
    return len(one.questions) - len(one.records) - len(one.failures)
