"""The fitness of a question: the paper's formula, and anybody's own from a file."""

from __future__ import annotations

import importlib
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from ragsmith.errors import UsageError
from ragsmith.evaluation.fitness import Fitness, Weights, composite
from ragsmith.measures.registry import measures
from ragsmith.types import Example, Span

MEASURES = {"recall": 0.5, "map": 0.25, "ndcg": 0.75, "mrr": 1.0, "judge": 0.6, "similarity": 0.8}
R, G = 0.625, 0.7

FUNCTIONS = {
    "geometric": "return sqrt(measures['retrieval'] * measures['generation'])",
    "misspelt": "return measures['recal']",
    "inverse": "return 1 / (measures['recall'] - 0.5)",
    "endless": "return float('nan')",
    "told": "return 'much'",
    "silent": "raise KeyError",
    "beyond": "return [][1]",
    "ending": "raise SystemExit(3)",
    "odds": "return measures['recall'] / (1 - measures['recall'])",
}
OWN = "from math import sqrt\n\nHALF = 0.5\n" + "".join(
    f"\n\ndef {name}(measures):\n    {body}\n" for name, body in FUNCTIONS.items()
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "my_fitness.py"
    path.write_text(OWN)
    return path


def test_retrieval_and_generation_are_means_of_their_measures() -> None:
    assert composite("retrieval", MEASURES) == R
    assert composite("generation", MEASURES) == pytest.approx(G)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (Weights(), (R + G) / 2),
        (Weights(1, 1), (R + G) / 2),
        (Weights(1, 0), R),
        (Weights(0, 2), G),
        (Weights(3, 1), (3 * R + G) / 4),
    ],
)
def test_the_paper_s_fitness_is_the_weighted_mean_of_both(weights: Weights, expected: float) -> None:
    assert Fitness(weights)(MEASURES) == pytest.approx(expected)
    assert Fitness.from_spec(weights) == Fitness(weights)


def test_a_function_of_a_file_is_handed_the_measures_and_the_composite_values(own: Path) -> None:
    found = Fitness.from_spec(f"{own}:geometric")
    assert found(MEASURES) == pytest.approx(math.sqrt(R * G))
    assert pickle.loads(pickle.dumps(found))(MEASURES) == found(MEASURES)
    assert "my_fitness.py:geometric" in found.formula


def by_recall(measures: Mapping[str, float]) -> float:
    return measures["recall"]


def test_a_function_in_python_is_its_file_and_name() -> None:
    assert Fitness.from_spec(by_recall) == Fitness.from_spec(f"{__file__}:by_recall")
    assert Fitness.from_spec(by_recall)(MEASURES) == 0.5


def test_a_file_that_has_been_imported_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "imported_fitness.py"
    path.write_text("runs = []\n\n\ndef counted(measures):\n    runs.append(1)\n    return 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("imported_fitness")
    assert Fitness.from_spec(module.counted)(MEASURES) == Fitness.from_spec(f"{path}:counted")(MEASURES) == 1.0
    assert module.runs == [1, 1, 1, 1]  # each is tried once before it is used


def test_a_function_that_is_in_no_importable_file_is_its_source() -> None:
    scripted = FunctionType(by_recall.__code__, {"__name__": "__main__"}, "by_recall")
    scripted.__module__ = "__main__"
    found = Fitness.from_spec(scripted)
    assert (found.file, found.function, found(MEASURES)) == ("", "by_recall", 0.5)
    assert Fitness.from_dict(found.to_dict()) == found


def test_lambdas_differ_by_their_own_source() -> None:
    first, second = Fitness.from_spec(lambda m: m["recall"]), Fitness.from_spec(lambda m: m["mrr"])
    one, other = (lambda m: m["recall"]), (lambda m: m["mrr"])
    assert (first(MEASURES), second(MEASURES)) == (0.5, 1.0)
    assert Fitness.from_spec(one) == first
    assert Fitness.from_spec(other) == second != first
    assert first.identity != second.identity


def test_a_function_of_another_process_is_missed_with_a_sentence() -> None:
    stored = {"file": "", "function": "<lambda>", "digest": "0123456789abcdef"}
    with pytest.raises(
        UsageError, match="the fitness <lambda> is in no file, and only the process that searched knows it: put it"
    ):
        Fitness.from_dict(stored)(MEASURES)


@pytest.mark.parametrize("wrong", [abs, "fitness.py", "nowhere.py:geometric", "geometric"])
def test_what_is_in_no_file_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"give (one of paper, reading, )?FILE\.py:(FUNCTION|function)"):
        Fitness.from_spec(wrong)


def test_an_unknown_function_is_answered_with_the_known_ones(own: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'geometric'"):
        Fitness.from_spec(f"{own}:geometrics")
    with pytest.raises(UsageError, match="no function 'HALF'"):
        Fitness.from_spec(f"{own}:HALF")


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("misspelt", r"asks for a measure that a question lacks: 'recal' \(did you mean 'recall'"),
        ("inverse", "cannot be worked out for a question: ZeroDivisionError: .*division"),
        ("told", "cannot be worked out for a question: ValueError: could not convert"),
        ("silent", "cannot be worked out for a question: KeyError$"),
        ("beyond", "cannot be worked out for a question: IndexError: list index out of range"),
        ("ending", "cannot be worked out for a question: SystemExit: 3"),
        ("endless", "is nan for a question: return a finite number"),
    ],
)
def test_a_function_that_gives_no_number_is_refused_before_anything_is_asked(
    own: Path, function: str, complaint: str
) -> None:
    line = OWN.splitlines().index(f"def {function}(measures):") + 2
    place = rf" \(line {line - 1 if function in {'told', 'endless'} else line}\)"
    with pytest.raises(UsageError, match=rf"my_fitness\.py:{function}{place} {complaint}"):
        Fitness.from_spec(f"{own}:{function}")


def test_a_function_that_fails_for_one_question_only_is_a_user_s_mistake(own: Path) -> None:
    found = Fitness.from_spec(f"{own}:odds")
    with pytest.raises(UsageError, match=r"my_fitness\.py:odds \(line \d+\) cannot be worked out .*division"):
        found({**MEASURES, "recall": 1.0})


def test_what_is_kept_of_a_fitness_gives_it_back_wherever_the_folder_lies(own: Path, tmp_path: Path) -> None:
    for given in (Fitness(), Fitness(Weights(3, 1)), Fitness.from_spec(f"{own}:geometric")):
        assert Fitness.from_dict(given.to_dict()) == given
    folder = tmp_path / "reports" / "toy"
    kept = Fitness.from_spec(f"{own}:geometric").to_dict(folder)
    assert kept["file"] == "../../my_fitness.py"
    assert Fitness.from_dict(kept, folder)(MEASURES) == pytest.approx(math.sqrt(R * G))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"weights": {"retrieval": 1}},
        {"weights": {"retrieval": "1", "generation": 0}},
        "paper",
        {"file": "a.py"},
    ],
)
def test_anything_else_is_refused(settings: Any) -> None:
    with pytest.raises(ValueError, match=r"fitness must have|fitness: retrieval is '1': give a number"):
        Fitness.from_dict(settings)


def test_the_identity_does_not_depend_on_where_the_file_lies(own: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / own.name
    other.parent.mkdir()
    other.write_text(OWN)
    (one, two) = (Fitness.from_spec(f"{path}:geometric") for path in (own, other))
    assert one.identity == two.identity
    assert one.identity != Fitness.from_spec(f"{own}:odds").identity != Fitness().identity


def test_a_file_that_is_gone_or_has_changed_is_named_when_it_is_needed(own: Path) -> None:
    kept = Fitness.from_spec(f"{own}:geometric").to_dict()
    changed = Fitness.from_dict({**kept, "digest": "0" * 16})
    with pytest.raises(UsageError, match="has changed since pipelines were ranked by it"):
        changed(MEASURES)
    gone = Fitness.from_dict({**kept, "file": str(own.with_name("gone.py"))})
    with pytest.raises(UsageError, match=r"gone\.py"):
        gone(MEASURES)


UNLABELLED = {**dict.fromkeys(("recall", "map", "ndcg", "mrr")), "judge": 0.6, "similarity": 0.8, "refusal": None}
UNANSWERABLE = {**dict.fromkeys(UNLABELLED), "refusal": 1.0}


def test_a_question_without_evidence_counts_by_its_answer_alone() -> None:
    assert composite("retrieval", UNLABELLED) is None
    for weights in (Weights(), Weights(0.9, 0.1), Weights(0, 1)):
        assert Fitness(weights)(UNLABELLED) == composite("generation", UNLABELLED) == pytest.approx(G)


def test_a_question_that_nothing_answers_counts_by_being_declined() -> None:
    assert [Fitness()({**UNANSWERABLE, "refusal": declined}) for declined in (1.0, 0.0)] == [1.0, 0.0]
    assert composite("retrieval", UNANSWERABLE) is None


def test_what_is_about_rankings_alone_needs_evidence() -> None:
    assert Fitness().with_objective("retrieval").needs_evidence
    assert Fitness(Weights(1, 0)).needs_evidence
    assert not Fitness(Weights(0.9, 0.1)).needs_evidence
    with pytest.raises(UsageError, match="neither evidence nor an answer"):
        Fitness()(dict.fromkeys(UNLABELLED))


def test_an_own_function_is_handed_none_for_what_a_question_lacks(tmp_path: Path) -> None:
    file = tmp_path / "parts.py"
    file.write_text(
        "def parts(measures):\n    return sum(measures[n] is not None for n in ('retrieval', 'generation'))\n"
    )
    found = Fitness.from_spec(f"{file}:parts")
    assert [found(m) for m in (MEASURES, UNLABELLED, UNANSWERABLE)] == [2, 1, 1]


WITH_EVIDENCE = Example("a", "?", "yes", "", (Span("d", 0, 1),))
WITHOUT_EVIDENCE = Example("b", "?", "yes", "", ())
WITHOUT_ANSWER = Example("c", "?", "", "", (), answerable=False)


@pytest.mark.parametrize(
    ("body", "examples", "complaint"),
    [
        ("m['recall']", [WITH_EVIDENCE], ""),
        ("m['recall']", [WITH_EVIDENCE, WITHOUT_EVIDENCE], "is None for an answerable question without evidence: ret"),
        ("m['recall'] + 1", [WITHOUT_ANSWER], "cannot be .* for an unanswerable question without evidence: TypeError:"),
        ("m['generation']", [WITH_EVIDENCE, WITHOUT_ANSWER], ""),
        (
            "m['judge'] or m['refusal']",
            [WITH_EVIDENCE],
            "is None for an .*; what a question lacks is None, here refusal",
        ),
        ("1 / m['recall']", [WITH_EVIDENCE], "for an answerable question with evidence: ZeroDivisionError"),
        ("m['faithfulness'] or 0", [WITH_EVIDENCE], "asks for a measure that an .* lacks: 'faithfulness'"),
    ],
)
def test_each_kind_of_question_that_the_data_have_is_tried(
    tmp_path: Path, body: str, examples: list[Example], complaint: str
) -> None:
    file = tmp_path / "tried.py"
    file.write_text(f"def tried(m):\n    return {body}\n")
    fitness = Fitness.from_spec(f"{file}:tried")
    free = [one for one in measures().values() if not one.costly]
    if not complaint:
        fitness.try_on(free, examples)
        return
    with pytest.raises(UsageError, match=rf"tried\.py:tried \(line [12]\) .*{complaint}"):
        fitness.try_on(free, examples)


def test_rankings_alone_are_tried_on_questions_with_evidence(tmp_path: Path) -> None:
    file = tmp_path / "found.py"
    file.write_text("def found(m):\n    return m['recall'] ** 2\n")
    fitness = Fitness.from_spec(f"{file}:found").with_objective("retrieval")
    fitness.try_on(measures().values(), [WITH_EVIDENCE, WITHOUT_EVIDENCE, WITHOUT_ANSWER])


READ = {**MEASURES, "context_precision": 0.125, "kept_precision": 0.5}


def test_a_named_fitness_has_precision_for_a_fifth_measure() -> None:
    reading = Fitness.from_spec("reading")
    assert reading(READ) == pytest.approx(((0.5 + 0.25 + 0.75 + 1.0 + 0.125) / 5 + G) / 2)
    ranked = {name: value for name, value in READ.items() if name not in ("judge", "similarity", "context_precision")}
    assert reading.with_objective("retrieval")(ranked) == pytest.approx((0.5 + 0.25 + 0.75 + 1.0 + 0.5) / 5)
    unfound = {**dict.fromkeys(READ), "judge": 0.6, "similarity": 0.8}
    assert reading(unfound) == pytest.approx(G)  # a question without evidence is its answer
    assert not reading.is_additive


def test_a_named_fitness_is_kept_by_its_name(tmp_path: Path) -> None:
    reading = Fitness.from_spec("reading")
    assert reading.to_dict(tmp_path) == {"name": "reading"}
    for fitness in (reading, reading.with_objective("retrieval")):
        assert Fitness.from_dict(fitness.to_dict()) == fitness == pickle.loads(pickle.dumps(fitness))
    assert reading.identity["digest"]
    assert reading.formula == "reading, worked out for each question"
    assert Fitness.from_spec("paper") == Fitness()
    with pytest.raises(UsageError, match=r"unknown fitness 'readings': give one of paper, reading, FILE\.py:FUNCTION"):
        Fitness.from_spec("readings")
