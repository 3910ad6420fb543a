"""The scores in the file of an exported pipeline: verification, and a reference for later runs by test question.

Runs are comparable if the documents, the questions and the scoring are the same; the pipeline may have other options,
models and code.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ragsmith.digest import digest, fingerprint
from ragsmith.errors import RagsmithError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.evaluation.fitness import COMPOSITES, HEADLINE, REFUSAL, RETRIEVAL, Fitness
from ragsmith.evaluation.threads import ANSWER, RANKING, evaluate_job
from ragsmith.models.roles import MEASURES_EMBEDDER
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.types import Dataset, Example

DIGITS = 6
"""Number of decimals of a stored score."""

MAX_QUESTIONS = 10_000
"""Maximum number of questions of a reference; with more, the file would be too large for readers."""

SCORING_CODE = (("ragsmith.evaluation.scoring", "score_answer"), ("ragsmith.datasets.relevance", "ChunkMap"))
"""The code that scores answers, besides measures."""

DIGEST_DIGITS = 16
"""Number of hexadecimal digits of a stored digest."""

QuestionScores = tuple[float | None, float | None, float | None]
"""F, R and G of a question; None if undefined."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The scores of test questions by id, with digests of the documents, the questions and the scoring.

    ``marks`` has digests of the measures, the models for scoring and the fitness, by the name used in messages.
    """

    documents: str
    questions: str
    marks: Mapping[str, str]
    scores: Mapping[str, QuestionScores]

    @classmethod
    def from_evaluation(
        cls, setup: Experiment, evaluation: Evaluation, fitness: Fitness, ids: Mapping[str, str] | None = None
    ) -> Self | None:
        """Create a reference from the finished questions of an evaluation, or None if there are none or too many.

        ``ids`` are those of the models by role; if given, no model is loaded.
        """
        if not 0 < len(evaluation.records) <= MAX_QUESTIONS:
            return None
        scores = rounded_scores(evaluation, fitness)
        data = setup.dataset
        return cls(documents_digest(data), questions_digest(data, scores), scoring_digests(setup, fitness, ids), scores)

    def to_dict(self) -> dict[str, Any]:
        """Return the reference for a file, with a line of F, R, G and id for each question."""
        lines = (f"{' '.join(map(_format, scores))} {json.dumps(name)}\n" for name, scores in self.scores.items())
        return {
            "documents": self.documents,
            "questions": self.questions,
            "marks": dict(self.marks),
            "test": "".join(lines),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Restore a reference from the result of `to_dict`.

        Raises:
            ValueError: ``plain`` is malformed.
        """
        try:
            marks = {str(name): str(value) for name, value in plain["marks"].items()}
            scores = dict(map(_parse_line, plain["test"].splitlines()))
            return cls(str(plain["documents"]), str(plain["questions"]), marks, scores)
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                "reference must have 'documents', 'questions', 'marks' and 'test', as a search writes them"
            ) from error

    def incomparability(self, setup: Experiment, fitness: Fitness) -> str:
        """Return why scores on the data set of ``setup`` cannot be compared with these, or "" if they can."""
        data = setup.dataset
        if gone := sorted(self.scores.keys() - {example.id for example in data.examples}):
            return f"{len(gone)} of its {len(self.scores)} questions no longer exist, the first is {gone[0]}"
        if questions_digest(data, self.scores) != self.questions:
            return "its questions have changed: the text, the answer or the evidence of at least one"
        if documents_digest(data) != self.documents:
            return "the documents have changed: at least one was added, removed or edited"
        return describe_difference(self.marks, scoring_digests(setup, fitness))


def rounded_scores(evaluation: Evaluation, fitness: Fitness) -> dict[str, QuestionScores]:
    """Return F, R and G, rounded, of each question that an evaluation finished."""
    finished = (question for question in evaluation.questions if question in evaluation.records)
    columns = (map(_rounded, evaluation.column(name, fitness)) for name in HEADLINE)
    return {question: (f, r, g) for question, f, r, g in zip(finished, *columns, strict=True)}


def scoring_digests(setup: Experiment, fitness: Fitness, ids: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the digests of everything that determines scores, by the name used in messages.

    ``ids`` are those of the models by role.
    """
    wanted = {*COMPOSITES[RETRIEVAL], *(() if fitness.ranking_only else (*COMPOSITES["generation"], REFUSAL))}
    measured = [known for known in setup.measures if fitness.is_custom or known.name in wanted]
    ids = setup.model_ids if ids is None else ids
    tools = {role for known in measured for role in known.tools.values()}
    tools |= {"test_judge"} if "judge" in tools else set()
    model_ids = {
        role: ids.get(MEASURES_EMBEDDER, ids[role]) if role == "embedder" else ids[role] for role in tools & ids.keys()
    }
    return {
        **{f"the measure {known.name}": _short(*known.identity) for known in measured},
        **{f"the {role.replace('_', ' ')} that marks": _short(id_) for role, id_ in sorted(model_ids.items())},
        "the fitness": _short(fitness.identity),
        "the way answers are scored": _short([fingerprint(*part) for part in SCORING_CODE]),
    }


def describe_difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe the differences in scoring; "" if there are none."""
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not changed:
        return ""
    return f"{' and '.join(changed[:2])} {'is' if len(changed) == 1 else 'are'} not the same" + (
        f", nor {len(changed) - 2} other parts of the scoring" if len(changed) > 2 else ""
    )


def documents_digest(data: Dataset) -> str:
    """Return the digest of the documents of a data set, with their names and titles."""
    return digest("documents", list(data.documents))


def questions_digest(data: Dataset, ids: Iterable[str]) -> str:
    """Return the digest of some questions with their answers and evidence."""
    wanted = set(ids)
    examples = sorted((example for example in data.examples if example.id in wanted), key=lambda example: example.id)
    return digest("questions", [[e.id, e.question, e.answer, e.answerable, e.evidence] for e in examples])


def _short(*parts: Any) -> str:
    return digest(*parts)[:DIGEST_DIGITS]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS) + 0.0


def _format(value: float | None) -> str:
    return "-" if value is None else f"{value:.{DIGITS}f}"


def _parse_line(line: str) -> tuple[str, QuestionScores]:
    f, r, g, name = line.split(" ", 3)
    question = json.loads(name)
    if not isinstance(question, str):
        raise ValueError(f"{name} is no question")
    return question, (_parse(f), _parse(r), _parse(g))


def _parse(value: str) -> float | None:
    score = None if value == "-" else float(value)
    if score is not None and not math.isfinite(score):
        raise ValueError(f"{value} is no score")
    return score


TOLERANCE = 1e-9
"""Maximum absolute difference of a reproduced score."""


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """A score that verification did not reproduce; ``found`` is the score now."""

    part: str
    metric: str
    expected: float
    found: float | None


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification: scores that were not reproduced, changed models, and numbers of questions by part.

    ``changed_models`` has the ids at export and now, by role.
    """

    differences: tuple[ScoreDifference, ...]
    changed_models: Mapping[str, tuple[str, str]]
    questions: Mapping[str, int]


def find_unreproduced(
    engine: Engine, setup: Experiment, candidate: Candidate, fitness: Fitness, expected: Mapping[str, Any]
) -> Iterator[ScoreDifference]:
    """Yield the scores of ``expected`` that are not reproduced; questions that had failed at export are left out.

    Raises:
        RagsmithError: a question fails now.
    """
    parts = setup.split
    for part, examples in (("search", parts.search), ("test", parts.test)):
        if part in expected:
            failed = expected[part].get("failed", ())
            scored = [example for example in examples if example.id not in failed]
            again = _evaluate_again(engine, setup, candidate, fitness, scored)
            yield from _compare_scores(part, expected[part], again, fitness)


def _evaluate_again(
    engine: Engine, setup: Experiment, candidate: Candidate, fitness: Fitness, examples: Sequence[Example]
) -> Evaluation:
    records = {}
    part = RANKING if fitness.ranking_only else ANSWER
    for example in sort_examples(examples):
        finished = evaluate_job(engine, setup, candidate, (0, example.id), part)
        if not finished.ok:
            raise RagsmithError(f"question {example.id} fails in {finished.value['stage']}: {finished.value['error']}")
        records[example.id] = finished.value
    return Evaluation("fresh", candidate, tuple(records), records, {})


def _compare_scores(
    part: str, expected: Mapping[str, Any], evaluation: Evaluation, fitness: Fitness
) -> list[ScoreDifference]:
    if expected["questions"] != len(evaluation.questions):
        return [ScoreDifference(part, "questions", expected["questions"], len(evaluation.questions))]
    known = {*HEADLINE, *evaluation.measures}
    names = (name for name in expected if name not in ("questions", "failed"))
    found = {name: evaluation.mean(name, fitness) if name in known else None for name in names}
    return [
        ScoreDifference(part, name, expected[name], value)
        for name, value in found.items()
        if value is None or not math.isclose(value, expected[name], rel_tol=0.0, abs_tol=TOLERANCE)
    ]
