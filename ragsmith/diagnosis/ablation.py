"""Ablation: compare a pipeline with itself without one part, or with another option in its place.

Differences are paired by question, by default on the search questions, so that the test questions stay unused. The
intervals are not adjusted for the number of parts, and are biased in favour of the parts of a selected pipeline.

Parts may gain together more or less than each gains alone in naive RAG, on the scale of the scores:

    observed(parts) = score(naive RAG with all parts) - score(naive RAG)
    expected(parts) = sum over parts of [score(naive RAG with the part) - score(naive RAG)]

Observed minus expected is the interaction; below 0, the gains of parts overlap. Scores are at most 1, so an interaction
may also be a ceiling effect.
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
from ragsmith.diagnosis.estimates import (
    Estimate,
    WeightedEvaluations,
    estimate_contrast,
    estimate_contrasts,
    mean_difference,
)
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.keys import finding_key
from ragsmith.evaluation.ranking import Terms, common_questions
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.pipelines.space import Space
from ragsmith.text.restoring import restore, stored_by_other_code

if TYPE_CHECKING:
    from ragsmith.store.store import Store

MIN_PARTS = 2
"""The least number of parts for an interaction."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """The gain of some parts over naive RAG in F: ``expected`` as the sum of their gains alone, and ``observed``.

    ``beyond`` is observed minus expected, paired by question. ``options`` are ``family: option``; parts that depend on
    each other count as one, and are joined by a plus.
    """

    options: tuple[str, ...]
    expected: Estimate
    observed: Estimate
    beyond: Estimate


def list_interaction_candidates(winner: Candidate, space: Space, *, pairs: bool = False) -> list[Candidate]:
    """Return naive RAG, each part alone in it and, with ``pairs``, each pair, as far as the space allows them.

    The list is empty for fewer than `MIN_PARTS` parts.
    """
    plain, parts = make_naive_candidate(winner, space), group_dependent_genes(winner, space)
    if len(parts) < MIN_PARTS:
        return []
    two = [tuple(sorted((*one, *other))) for one, other in combinations(parts, 2)] if pairs and len(parts) > 2 else []
    found = [plain, *(keep_only(places, winner, plain) for places in (*parts, *two))]
    return [candidate for candidate in found if space.allows(candidate)]


def estimate_interactions(
    winner: Candidate, space: Space, known: Callable[[Candidate], Evaluation | None], terms: Terms, clusters: Clusters
) -> Iterator[Interaction]:
    """Yield the interaction of all parts, then of pairs, if all pipelines for it are ``known`` and admissible."""
    plain, parts = make_naive_candidate(winner, space), group_dependent_genes(winner, space)
    if len(parts) < MIN_PARTS:
        return
    groups = [tuple(parts), *(combinations(parts, 2) if len(parts) > MIN_PARTS else ())]
    for group in groups:
        places = tuple(at for unit in group for at in unit)
        needed = [plain, *(keep_only(at, winner, plain) for at in (places, *group))]
        able = [one for one in map(known, needed) if one is not None and terms.admits(one)]
        if len(able) < len(needed):
            continue
        naive, whole, *single = able
        options = tuple(" + ".join(f"{winner[at].technique.family}: {winner[at]}" for at in unit) for unit in group)
        if (found := _estimate_interaction(options, whole, naive, single, terms, clusters)) is not None:
            yield found


def _estimate_interaction(
    options: tuple[str, ...],
    whole: Evaluation,
    naive: Evaluation,
    single: list[Evaluation],
    terms: Terms,
    clusters: Clusters,
) -> Interaction | None:
    """Estimate an interaction on the questions that all pipelines finished."""
    observed: WeightedEvaluations = [(whole, 1.0), (naive, -1.0)]
    expected: WeightedEvaluations = [*((one, 1.0) for one in single), (naive, -float(len(single)))]
    beyond: WeightedEvaluations = [*observed, *((one, -weight) for one, weight in expected)]
    questions = tuple(q for q in whole.questions if all(q in one.records for one, _ in beyond))
    found = [
        estimate_contrast(
            [(one.restrict(questions), weight) for one, weight in weighted], "fitness", terms.fitness, clusters
        )
        for weighted in (expected, observed, beyond)
    ]
    if found[0] is None or found[1] is None or found[2] is None:
        return None
    return Interaction(options, found[0], found[1], found[2])


ABLATION_KIND = "ablation"
"""The kind of the findings in the store, by the key of the evaluation."""

MAX_COMPLETED_PIPELINES = 2
"""The largest number of pipelines whose missing answers a search computes after races pruned them."""

SecondsOf = Callable[[Evaluation], float | None]
"""The seconds that a pipeline takes for a question; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class AblatedOption:
    """An option of a pipeline compared with the option ``instead`` of it.

    ``instead`` is the option of naive RAG (``out``), another one (``swap``), or the removed signal (``signal``).

    ``worth`` is the pipeline minus the changed one, in F, R and G: above 0, the part improves the pipeline. ``calls``
    and ``seconds`` are saved per question by the change; below 0, they are added. ``together`` names the options that
    were changed with it because they depend on it. ``why_not`` is the reason if the two were not compared.
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
    """The contributions of the parts of a pipeline, with the evaluation ``key``, on ``questions`` questions.

    ``part`` is the split of these questions: ``search``, ``test`` or ``all``. ``interactions`` has the interaction of
    all parts, then those of pairs, as far as the pipelines for them are known.
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

    def save(self, store: Store, dataset: str, test_judge: str = "") -> Ablation:
        """Merge with the stored ablation, store the result for the data set of this digest, and return it.

        ``test_judge`` is the id of the model that scored the answers to test questions, "" without any by another
        model than the judge.
        """
        found = self.merge(load_ablation(store, self.key, self.part, test_judge))
        store.put_finding(ABLATION_KIND, finding_key(f"{self.key}:{self.part}", test_judge), dataset, asdict(found))
        return found

    def merge(self, earlier: Ablation | None) -> Ablation:
        """Add the findings of ``earlier`` on the same pipeline and questions that are missing here."""
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
        present = {one.options for one in self.interactions}
        others = [one for one in earlier.interactions if one.options not in present]
        return replace(
            self,
            parts=tuple(sorted([*parts, *more], key=lambda one: one.kind)),
            interactions=tuple(sorted([*self.interactions, *others], key=lambda one: -len(one.options))),
        )


def load_ablation(store: Store, key: str, part: str = "search", test_judge: str = "") -> Ablation | None:
    """Return the stored ablation of the pipeline with the evaluation ``key``, or None; see `Ablation.save`."""
    place = finding_key(f"{key}:{part}", test_judge)
    with stored_by_other_code("the ablation of a pipeline", f"finding:{ABLATION_KIND}/{place}"):
        return next((restore(Ablation, value) for value in store.findings(ABLATION_KIND, [place]).values()), None)


def list_changes(
    winner: Candidate, space: Space, *, with_swaps: bool = False, with_signals: bool = False, refit: bool = True
) -> list[PipelineChange]:
    """Return the removals of parts of ``winner`` and, if requested, the swaps and the removals of signals."""
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
    """Return the distinct pipelines that are compared with ``winner``, without ``winner``."""
    every = list_changes(winner, space, with_swaps=with_swaps, with_signals=with_signals, refit=refit)
    of_changes = (one.candidate for one in every if one.allowed)
    found = {
        identify_unfitted(candidate): candidate
        for candidate in (*of_changes, *list_interaction_candidates(winner, space, pairs=pairs))
    }
    found.pop(identify_unfitted(winner), None)
    return list(found.values())


def list_missing_candidates(winner: Candidate, space: Space, known: Iterable[Evaluation]) -> list[Candidate]:
    """Return the pipelines without one part that are not ``known``, or were pruned in a race.

    Pruned ones are returned, those with the fewest missing answers first, up to a total of the answers of
    `MAX_COMPLETED_PIPELINES` pipelines.
    """
    by_identity = {identify_unfitted(one.candidate): one for one in known}
    able = [change.candidate for change in list_removals(winner, space) if change.allowed]
    missing = [candidate for candidate in able if identify_unfitted(candidate) not in by_identity]
    begun = [one for candidate in able if (one := by_identity.get(identify_unfitted(candidate))) and not one.attempted]
    answers = 0
    for one in sorted(begun, key=_count_unanswered):
        answers += _count_unanswered(one)
        if answers > MAX_COMPLETED_PIPELINES * len(one.questions):
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
    """Compare ``winner`` with those of ``others`` that differ from it by one change.

    All are on the same questions, with ``clusters`` of dependent ones. Removals that are not among the others are
    listed with the reason; swaps, signals and interactions only if they were evaluated.
    """
    known = {identify_unfitted(one.candidate): one for one in others} | {identify_unfitted(winner.candidate): winner}
    plain = make_naive_candidate(winner.candidate, space)
    changes = list_changes(winner.candidate, space, with_swaps=True, with_signals=True, refit=refit)
    paired = ((change, known.get(identify_unfitted(change.candidate))) for change in changes)
    parts = tuple(
        _compare_option(change, winner, other, plain, terms, clusters, seconds_of)
        for change, other in paired
        if other is not None or change.kind == "out"
    )
    return Ablation(
        winner.key,
        label(winner.candidate),
        dataset,
        part,
        len(winner.questions),
        parts,
        tuple(
            estimate_interactions(
                winner.candidate, space, lambda one: known.get(identify_unfitted(one)), terms, clusters
            )
        ),
    )


def _compare_option(
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
        answered = len(terms.counted) - terms.count_missing(other)
        return replace(found, why_not=f"answered {answered} of {len(terms.counted)}, left the race")
    if not terms.admits(other) or not common_questions([winner, other]):
        return replace(found, why_not=f"failed on {terms.count_missing(other)} of {len(terms.counted)} questions")
    seconds, other_seconds = (seconds_of(winner), seconds_of(other)) if seconds_of else (None, None)
    saved = None if seconds is None or other_seconds is None else seconds - other_seconds
    worth = estimate_contrasts([(winner, 1.0), (other, -1.0)], terms.fitness, clusters)
    return replace(found, worth=worth, calls=mean_difference(winner, other, "calls"), seconds=saved)


def _count_unanswered(one: Evaluation) -> int:
    return len(one.questions) - len(one.records) - len(one.failures)
