"""A gate for continuous integration that fails if a pipeline has become worse.

The gate fails only if a loss is significant and larger than a minimum effect: significance alone would fail irrelevant
losses on many questions, and a mean alone would fail by chance. The result has the smallest detectable loss, as a gate
without power always passes. If a machine drafted any of the questions, only retrieval is compared, as in a search.

Declining is a test of its own. It and that of the answers are one family (Holm 1979), but only where as many questions
without an answer are declined otherwise as could show it (Tarone 1990): else the answers alone are tested.

The result is also written as JUnit XML, valid by the schemas of Ant and of the Jenkins plugin.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

from ragsmith.assessment.pairwise import (
    VerdictTerms,
    check_comparable,
    check_unseen,
    evaluate_on,
    select_questions,
    verdict_terms,
)
from ragsmith.comparison.difference import Difference, Power, compute_difference
from ragsmith.comparison.ledger import count_look, identify_comparison, identify_pipeline
from ragsmith.comparison.questions import ALPHA, MIN_GROUPS, Clusters, digest_questions
from ragsmith.comparison.verdicts import can_be_significant, decide_verdict
from ragsmith.datasets.label_checks import PossibleAnswer, find_new_answers
from ragsmith.digest import digest
from ragsmith.display import short_repr
from ragsmith.errors import NotComparable, WrongOption
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.evaluation.ranking import Terms
from ragsmith.evaluation.statistics import Verdict, holm, paired_differences, sign_flip_test
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.reference import QuestionScores, Reference, rounded_scores
from ragsmith.grouping import group_values
from ragsmith.store.store import Store
from ragsmith.text import numbers
from ragsmith.types import Example

MIN_EFFECT = 0.02
"""Default of the allowed loss of fitness, equal to the margin of searches."""

MAX_LISTED = 10
"""Maximum number of questions with the largest losses in a result."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The mean fitness before and now of a question, or of the ``n`` questions of a type."""

    name: str
    n: int
    before: float
    now: float

    @property
    def change(self) -> float:
        """Now minus before."""
        return self.now - self.before


@dataclass(frozen=True, slots=True)
class DecliningChange:
    """How many of ``n`` questions without an answer were declined ``before``, and are ``now``.

    ``p`` is that of McNemar's test, by sign flips. It is adjusted for the test of the answers if ``tested``, which is
    whether enough questions changed for a significant p; ``lost`` is whether the gate fails for them.
    """

    n: int
    before: int
    now: int
    p: float
    tested: bool
    lost: bool = False

    def __str__(self) -> str:
        return (
            f"declines {self.now:,} of {self.n:,} questions without an answer, {self.before:,} before "
            f"(p = {numbers.probability(self.p)})"
        )


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether a pipeline passes, and why; ``difference`` is now minus before (``against``).

    ``adjusted_p`` is its p, adjusted if declining is tested as well; ``declining`` is None if each question has an
    answer, or if nothing is generated. ``smallest`` is the loss that the gate detects with power 0.8; None if there is
    none. ``lost`` are the questions with the largest losses, ``failures`` those that fail now, which have the lowest
    score. Questions are those of the ``part``. Scores are ``of`` the ``fitness``, or of ``retrieval`` alone if a
    machine drafted any of them. ``possible_answers`` are the unanswerable ones that changed documents may answer.
    """

    passed: bool
    reason: str
    pipeline: str
    against: str
    dataset: str
    min_effect: float
    before: float
    now: float
    difference: Difference
    adjusted_p: float
    verdict: Verdict
    smallest: float | None
    clusters: Clusters
    types: tuple[GroupChange, ...]
    lost: tuple[GroupChange, ...]
    failures: Mapping[str, str]
    of: str = "fitness"
    declining: DecliningChange | None = None
    part: str = "test"
    possible_answers: tuple[PossibleAnswer, ...] = ()

    __repr__ = short_repr

    @property
    def worse(self) -> bool:
        """Whether the answers are worse by more than the minimum effect."""
        return self.verdict is Verdict.WORSE and -self.difference.mean_difference > self.min_effect


def gate(
    pipeline: tuple[str, Pipeline],
    against: tuple[str, Pipeline | Reference | None] | None,
    store: Store,
    *,
    changed: Pipeline | None = None,
    min_effect: float = MIN_EFFECT,
    part: str = "test",
    workers: int = 1,
    day: str,
) -> GateResult:
    """Compare a pipeline with another, or with the scores in a file, by default its own.

    ``changed`` is the pipeline on changed documents, with the questions whose evidence they contain: it is then scored
    there, and all else is on the documents before.

    If ``store`` limits looks, pipelines may be chosen by gates: one on test questions is then a look on this ``day``,
    another one for other ``changed`` documents, unless the pipelines and their documents are the same.

    Raises:
        NotComparable: the questions, the documents or the scoring are not the same, or the evidence of a question is
            not in the changed documents.
        UsageError: the file has no scores, or there are no questions.
        BudgetExhausted: the limit of ``store`` on looks is reached.
    """
    name, current = pipeline
    if not 0 <= min_effect < math.inf:
        raise WrongOption("min_effect", f"is {min_effect}: give a difference of fitness from 0 on")
    setup, fitness = current.setup, current.fitness
    other, base = against or (name, current.reference)
    if not isinstance(base, Pipeline):
        if part != "test":
            raise WrongOption("split", f"is {part}, and the file keeps scores of test questions: name a base --against")
        then, before, terms = _stored_scores(other, base, current)
        selected, earlier = terms.examples, digest(then)
        [found] = evaluate_on([_remaining(current, changed, terms)], terms.examples, store, workers)
    else:
        check_comparable(name, current, other, base)
        check_unseen((pipeline, (other, base)), part)
        selected = select_questions(setup, fitness, part)
        terms, earlier = verdict_terms(selected, fitness), identify_pipeline(base.setup, base.candidate)
        found, reference = evaluate_on([_remaining(current, changed, terms), base], terms.examples, store, workers)
        then = rounded_scores(reference, terms.fitness)
        before = {question: scores[0] or 0.0 for question, scores in then.items()}
        if then and not Terms.from_evaluations([found, reference], terms.fitness).admits(reference):
            raise NotComparable(
                f"{other} has scores of {len(then):,} of {len(terms.examples):,} questions: name a base that answered "
                "nearly all of them"
            )
    first, documents = identify_pipeline(setup, current.candidate), (changed or current).setup.dataset.digest
    if documents != setup.dataset.digest:
        first = digest(first, documents)
    if store.max_looks is not None and part != "search" and first != earlier:
        look = identify_comparison(fitness, first, [earlier])
        count_look(store, look, digest_questions(setup.dataset, selected).values(), day)
    scored = rounded_scores(found, terms.fitness)
    now = _current_scores(scored, before)
    if not before or not found.records:
        why = next((f"{f['stage']}: {f['error']}" for f in found.failures.values()), "the base finished none")
        raise NotComparable(f"there is no question with a score before and now: {why}")
    data = setup.dataset
    asked = [example for example in terms.examples if example.id in before]
    clusters = Clusters.from_examples(data, asked)
    questions = clusters.tested(example.id for example in asked)
    if not questions:
        raise NotComparable(
            "none of the questions has an answer in the documents, and a gate tests how well it is found"
        )
    ours, theirs = ([its[question] for question in questions] for its in (now, before))
    between = compute_difference(ours, theirs, clusters.group_numbers(questions))
    declining, p = _adjust_together(_compare_declining(asked, then, scored), between.p, min_effect)
    family = 2 if declining and declining.tested else 1
    least = _smallest_detectable(ours, theirs, clusters.group_numbers(questions), min_effect, ALPHA / family)
    verdict = _verdict(between, p, family, least)
    changes = (GroupChange(one.id, 1, before[one.id], now[one.id]) for one in asked)
    lost = sorted((one for one in changes if one.change < 0), key=lambda one: (one.change, one.name))
    result = GateResult(
        passed=True,
        reason="",
        pipeline=name,
        against=other if isinstance(base, Pipeline) else f"the scores kept in {other if against else 'it'}",
        dataset=data.name,
        min_effect=min_effect,
        before=fmean(theirs),
        now=fmean(ours),
        difference=between,
        adjusted_p=p,
        verdict=verdict,
        smallest=least,
        clusters=clusters,
        types=_by_type(asked, before, now),
        lost=tuple(lost[:MAX_LISTED]),
        failures={question: f"{why['stage']}: {why['error']}" for question, why in found.failures.items()},
        of=terms.of,
        declining=declining,
        part=part,
        possible_answers=tuple(
            find_new_answers(asked, [each.text for each in data.documents], changed.setup.dataset.documents)
            if changed
            else ()
        ),
    )
    passed = not result.worse and not (declining and declining.lost)
    return replace(result, passed=passed, reason=_describe_result(result, terms.drafted, passed=passed))


def _remaining(current: Pipeline, changed: Pipeline | None, terms: VerdictTerms) -> Pipeline:
    """Return the pipeline to score: on the ``changed`` documents, if any, which must have all evidence."""
    if changed is None:
        return current
    if gone := [example.id for example in terms.examples if example.id not in changed.setup.examples]:
        raise NotComparable(
            f"the evidence of {len(gone)} of {len(terms.examples)} questions is not found in the changed documents, "
            f"that of {', '.join(gone[:MAX_LISTED])}{' and others' * (len(gone) > MAX_LISTED)}: put it back, or remove "
            "these questions first, in a change that leaves the documents as they are"
        )
    return changed


def _stored_scores(
    name: str, stored: Reference | None, pipeline: Pipeline
) -> tuple[Mapping[str, QuestionScores], dict[str, float], VerdictTerms]:
    """Return the scores in the file ``name``, those that the verdict on ``pipeline`` is on, and its terms."""
    if stored is None:
        if not pipeline.candidate:
            raise WrongOption(
                "against", "names those to compare with, such as EARLIER.jsonl", f"{name} has no earlier scores"
            )
        untested = "an earlier version wrote it, or a search that was not tested, which can test and export it again"
        why = untested if pipeline.space else "it was recommended or written by hand, and not found by a search"
        pipeline.refuse_test(name, instead="name the pipeline that it was, --against BASE.yaml --split all, or gate it")
        raise WrongOption(
            "against",
            "names what to compare with, BASE.yaml or bm25",
            f"{name} keeps no scores of single questions, as {why}",
        )
    if not stored.scores:
        raise WrongOption(
            "against",
            "names what to compare with, BASE.yaml or bm25",
            f"{name} keeps the scores of no question, its reference is empty",
        )
    if why := stored.incomparability(pipeline.setup, pipeline.fitness):
        raise NotComparable(
            f"the scores kept in {name} cannot be compared with those of now: {why}; --against BASE.yaml runs the one "
            "that it was before on what there is now"
        )
    terms = verdict_terms([pipeline.setup.examples[question] for question in stored.scores], pipeline.fitness)
    place = list(HEADLINE).index(terms.of)
    scores = {example.id: stored.scores[example.id][place] or 0.0 for example in terms.examples}
    return stored.scores, scores, terms


def _current_scores(scored: Mapping[str, QuestionScores], before: Mapping[str, float]) -> dict[str, float]:
    """Return the current fitness of the questions with scores before; failures get the lowest score."""
    scores = {question: values[0] or 0.0 for question, values in scored.items()}
    lowest = min([0.0, *before.values(), *scores.values()])
    return {question: scores.get(question, lowest) for question in before}


def _compare_declining(
    asked: Sequence[Example], before: Mapping[str, QuestionScores], now: Mapping[str, QuestionScores]
) -> DecliningChange | None:
    """Compare which questions without an answer, whose G is 1 if declined, were and are declined; a failure is not."""
    pairs = [
        (then, now.get(example.id, (None, None, None))[2] or 0.0)
        for example in asked
        if not example.answerable and (then := before[example.id][2]) is not None
    ]
    if not pairs:
        return None
    theirs, ours = zip(*pairs, strict=True)
    tested = can_be_significant(sum(one != other for one, other in pairs), family=2)
    p = sign_flip_test(ours, theirs)
    return DecliningChange(len(pairs), round(sum(theirs)), round(sum(ours)), p, tested)


def _adjust_together(
    declining: DecliningChange | None, p: float, min_effect: float
) -> tuple[DecliningChange | None, float]:
    """Return declining and the ``p`` of the answers, both adjusted if both are tested."""
    if declining is None or not declining.tested:
        return declining, p
    adjusted, p = holm([declining.p, p])
    lost = adjusted <= ALPHA and declining.before - declining.now > min_effect * declining.n
    return replace(declining, p=adjusted, lost=lost), p


def _by_type(
    asked: Sequence[Example], before: Mapping[str, float], now: Mapping[str, float]
) -> tuple[GroupChange, ...]:
    by_type = group_values((example.type, example.id) for example in asked)
    return tuple(
        GroupChange(type_, len(questions), *(fmean(its[question] for question in questions) for its in (before, now)))
        for type_, questions in sorted(by_type.items())
    )


def _verdict(found: Difference, p: float, family: int, least: float | None) -> Verdict:
    """Return the verdict by an adjusted ``p``: too few questions if some scores changed and no loss is detectable."""
    verdict = decide_verdict(found, p, family)
    if verdict is not Verdict.TOO_FEW and verdict is not Verdict.NO_DIFFERENCE:
        return verdict
    return Verdict.TOO_FEW if found.nonzero and least is None else Verdict.NO_DIFFERENCE


def _smallest_detectable(
    now: Sequence[float], before: Sequence[float], groups: Sequence[int], min_effect: float, level: float
) -> float | None:
    """Return the smallest loss that fails the gate at ``level`` with power 0.8; None if there is none."""
    if len(set(groups)) < MIN_GROUPS:
        return None
    return Power(paired_differences(before, now, "gate"), groups, level).smallest(above=min_effect)


def _describe_result(result: GateResult, drafted: int, *, passed: bool) -> str:
    """Describe why the gate passes, or fails."""
    declining = result.declining
    said = _describe_answers(result)
    if declining and declining.now != declining.before:
        said = f"{declining}; {said}" if declining.lost and not result.worse else f"{said}; {declining}"
    alone = f"; in retrieval alone, as a machine drafted {drafted:,} of the questions" if drafted else ""
    return f"{'passes' if passed else 'fails'}: {said}{alone}"


def _describe_answers(result: GateResult) -> str:
    """Describe the difference on questions with gold."""
    found, verdict = result.difference, result.verdict
    if not found.nonzero:
        return f"the same score on each of {result.clusters}"
    size = (
        f"{numbers.signed(found.mean_difference)} {result.of} {numbers.interval(found.low, found.high, sign=True)} on "
        f"{result.clusters}, p = {numbers.probability(result.adjusted_p)}"
    )
    limit = numbers.plain(result.min_effect)
    if result.worse:
        return f"worse, {size}, and by more than {limit}"
    if verdict is Verdict.WORSE:
        why = f"worse, {size}, but not by more than {limit}"
    elif verdict is Verdict.BETTER:
        why = f"higher, {size}"
    elif -found.mean_difference > result.min_effect:
        why = f"behind, but that may be chance: {size}"
    else:
        why = f"no loss shown: {size}"
    power = "with so few groups no loss could be shown, and answers always pass this gate: use more questions"
    if result.smallest is not None:
        power = f"a loss of {numbers.plain(result.smallest)} would be shown with 80 % power"
    return f"{why}; {power}"


SUITE_NAME = "ragsmith.gate"
VERDICT_CASE = "verdict"
"""The name of the case that fails if the gate fails."""

DECLINING_CASE = "questions without an answer"
"""The name of the case that fails if fewer of them are declined."""


def to_junit(found: GateResult, *, seconds: float, now: float) -> str:
    """Return the result as JUnit XML; the gate took ``seconds`` and began at the POSIX timestamp ``now``."""
    cases = [(VERDICT_CASE, "" if found.passed else found.reason, "failure")]
    if found.declining:
        cases.append((DECLINING_CASE, str(found.declining) if found.declining.lost else "", "failure"))
    for moved in found.types:
        lost = found.worse and -moved.change > found.min_effect
        cases.append((f"questions of type {moved.name}", _describe(moved, found.of) if lost else "", "failure"))
    lines = [found.reason, *(f"{moved.name}: {_describe(moved, found.of)}" for moved in found.types)]
    lines += [f"lost {moved.name}: {_describe(moved, found.of)}" for moved in found.lost]
    lines += [f"failed {question}: {why}" for question, why in found.failures.items()]
    return _suite(found.dataset, cases, lines, seconds, now)


def to_junit_error(name: str, why: str, *, seconds: float, now: float) -> str:
    """Return the JUnit XML of a gate that could not compare, with the reason ``why``."""
    return _suite(name, [(VERDICT_CASE, why, "error")], [why], seconds, now)


def _describe(moved: GroupChange, of: str) -> str:
    return (
        f"{of} {numbers.plain(moved.before)} before, {numbers.plain(moved.now)} now "
        f"({numbers.signed(moved.change)}, {moved.n} question{'' if moved.n == 1 else 's'})"
    )


def _suite(
    dataset: str, cases: Sequence[tuple[str, str, str]], lines: Sequence[str], seconds: float, now: float
) -> str:
    """Return a test suite of cases, each a name, a problem or "", and its kind: failure or error."""
    wrong = {kind: sum(kind == of and bool(why) for _, why, of in cases) for kind in ("failure", "error")}
    root = ET.Element("testsuites")
    counts = {"tests": str(len(cases)), "failures": str(wrong["failure"]), "errors": str(wrong["error"])}
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    about = {"name": SUITE_NAME, "timestamp": stamp, "hostname": "localhost", "time": f"{seconds:.3f}"}
    suite = ET.SubElement(root, "testsuite", {**about, **counts, "id": "0", "package": "ragsmith"})
    ET.SubElement(suite, "properties")
    for name, why, kind in cases:
        took = seconds if name == VERDICT_CASE else 0.0
        case = ET.SubElement(
            suite,
            "testcase",
            name=_replace_invalid(name),
            classname=_replace_invalid(f"{SUITE_NAME}.{dataset}"),
            time=f"{took:.3f}",
        )
        if why:
            ET.SubElement(case, kind, message=_replace_invalid(why), type=kind).text = _replace_invalid(why)
    ET.SubElement(suite, "system-out").text = _replace_invalid("\n".join(lines))
    ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _replace_invalid(text: str) -> str:
    """Replace the characters that XML cannot represent."""
    return "".join(
        c
        if c in "\t\n" or (c >= " " and not 0xD800 <= ord(c) <= 0xDFFF and ord(c) not in (0xFFFE, 0xFFFF))
        else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
