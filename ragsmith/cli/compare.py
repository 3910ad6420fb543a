"""``ragsmith compare | gate``: compare two pipelines by question, and test a pipeline for a regression."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, WorkersOption, merged
from ragsmith.cli.output import say, say_folded, say_lines, shortened, show_result, table
from ragsmith.errors import WrongOption
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.assessment.gate import GateResult
    from ragsmith.assessment.pairwise import ComparedAnswer, PairwiseComparison, QuestionPair

WIDTH = 80
"""Maximum number of characters of a line; --json and --csv do not shorten questions and answers."""

COUNTED = 100
"""Minimum mean that is printed without decimals, as means of counts are."""

EQUAL = 1e-12
"""Maximum difference of equal scores."""

SHUT = 1
"""Exit code of a gate that the pipeline did not pass."""

NAMED = "A pipeline's file (winner.yaml), or naive, bm25 or recommended."

OtherDataset = Annotated[
    str | None, typer.Option("--dataset", help="A bundled data set by name, or a folder. [default: the file's]")
]
SplitOption = Annotated[str, typer.Option("--split", help="Questions to compare on: test, search or all.")]


@app.command()
@merged
def compare(
    *,
    first: Annotated[str, typer.Argument(help=NAMED)],
    second: Annotated[str, typer.Argument(help=NAMED)],
    dataset: OtherDataset = None,
    split: SplitOption = "test",
    top: Annotated[
        int, typer.Option("--top", help="Number of printed questions with the largest gains, and losses.")
    ] = 5,
    csv: Annotated[Path | None, typer.Option("--csv", help="CSV file for all questions, one per line.")] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the scores and answers of two pipelines question by question."""
    from ragsmith.assessment.pairwise import pairwise_csv
    from ragsmith.text.writing import write_file

    if top < 0:
        raise WrongOption("top", f"is {top}: give a number of questions from 0 on")
    found = ragsmith.compare(
        first, second, dataset=dataset, split=split, **models.arguments(), workers=workers, cache=cache
    )
    if csv is not None:
        write_file(pairwise_csv(found), csv, warn=True)
    show_result(as_json, _comparison_json(found), lambda: _say_compared(found, top, csv))


@app.command()
@merged
def gate(
    *,
    pipeline: Annotated[Path, typer.Argument(help="An exported pipeline (winner.yaml).")],
    dataset: OtherDataset = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="File of the earlier pipeline. [default: the scores stored in the pipeline's own file]"
        ),
    ] = None,
    min_effect: Annotated[
        float, typer.Option("--min-effect", help="Largest loss of fitness with which it passes, even if significant.")
    ] = 0.02,
    split: SplitOption = "test",
    junit: Annotated[Path | None, typer.Option("--junit", help="File for the result as JUnit XML.")] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a pipeline for a regression: exit code 1 if it is worse by more than --min-effect; 3 or 4 if unknown."""
    found = ragsmith.gate(
        pipeline,
        dataset=dataset,
        against=against,
        min_effect=min_effect,
        split=split,
        **models.arguments(),
        workers=workers,
        junit=junit,
        cache=cache,
    )
    show_result(as_json, asdict(found), lambda: _say_gated(found))
    if not found.passed:
        raise typer.Exit(SHUT)


def _say_compared(found: PairwiseComparison, top: int, csv: Path | None) -> None:
    _say_scores(found)
    _say_questions("gained most", found.gained(top))
    _say_questions("lost most", found.lost(top))
    if csv is not None:
        say_lines("", f"{csv}: all {len(found.questions):,} questions")


def _say_scores(found: PairwiseComparison) -> None:
    from ragsmith.reporting.wording import describe_comparison

    sides = {"A": found.first, "B": found.second}
    say_folded(
        f"{found.dataset}, {found.part} questions: {found.clusters}",
        *(f"{place}  {s.name}: {s.label} ({s.calls:.1f} calls a question)" for place, s in sides.items()),
        *(f"! {note}" for note in found.notes),
    )
    say()
    shown = [("", one) for one in found.measures if one is found.fitness or one.difference.nonzero]
    rows = [
        [
            f"{kind}{one.measure}",
            str(one.difference.n),
            numbers.plain(one.first, digits),
            numbers.plain(one.second, digits),
            numbers.signed(one.difference.mean_difference, digits),
            numbers.interval(one.difference.low, one.difference.high, sign=True, digits=digits),
            numbers.probability(one.p),
        ]
        for kind, one in (*shown, *(("type ", one) for one in found.types))
        for digits in (0 if max(one.first, one.second) >= COUNTED else 3,)
    ]
    table(rows, ["", "n", "A", "B", "A − B", "95 % interval", "p"], frozenset({1, 2, 3, 4, 5, 6}))
    same = [one.measure for one in found.measures[1:] if not one.difference.nonzero]
    equal = f"; equal for both: {', '.join(same)}" if same else ""
    say_folded(
        f"(the p-value of the fitness decides; those of measures and of types are adjusted for multiple tests{equal})"
    )
    drafted = found.comparison.of != "fitness"
    say_lines("", "Retrieval alone, as questions were drafted by a model:" if drafted else None)
    say_folded(f"A: {describe_comparison(found.comparison, asked='questions')}")
    ahead, behind = (sum(sign * row.gain > EQUAL for row in found.questions) for sign in (1, -1))
    say(f"A is ahead on {ahead}, B on {behind}, and {len(found.questions) - ahead - behind} are equal.")
    failed = ((question, place, why) for place, side in sides.items() for question, why in side.failures.items())
    say_folded(*(f"{question} failed in {place}, {why}" for question, place, why in failed))


def _say_questions(title: str, rows: list[QuestionPair]) -> None:
    say_lines(*(["", f"A {title}"] if rows else []))
    for row in rows:
        say_lines(
            _cut(f"  {numbers.signed(row.gain)}  {row.id} ({row.type})  ", row.question),
            _cut("          gold  ", row.reference),
            _cut(f"    A {_scores(row.first)}  ", row.first.answer),
            _cut(f"    B {_scores(row.second)}  ", row.second.answer),
        )


def _scores(answered: ComparedAnswer) -> str:
    return f"R {numbers.plain(answered.retrieval, 2)} G {numbers.plain(answered.generation, 2)}"


def _cut(before: str, text: str) -> str:
    """Return a line of ``before`` and as many whole words of ``text`` as fit."""
    return shortened(before + " ".join(text.split()), WIDTH)


def _comparison_json(found: PairwiseComparison) -> dict[str, Any]:
    plain = asdict(found)
    rows = [{**row, "gain": pair.gain} for row, pair in zip(plain["questions"], found.questions, strict=True)]
    return {**plain, "verdict": found.verdict, "questions": rows}


def _say_gated(found: GateResult) -> None:
    say_folded(f"{found.pipeline} against {found.against} on {found.dataset}: {found.reason}.")
    say()
    rows = [
        [name, str(n), numbers.plain(before), numbers.plain(now), numbers.signed(now - before)]
        for name, n, before, now in (
            (found.of, found.difference.n, found.before, found.now),
            *((f"type {moved.name}", moved.n, moved.before, moved.now) for moved in found.types),
        )
    ]
    table(rows, ["", "n", "before", "now", "change"], frozenset({1, 2, 3, 4}))
    if found.lost:
        say()
        say_folded("lost most: " + ", ".join(f"{moved.name} {numbers.signed(moved.change)}" for moved in found.lost))
    say_folded(*(f"{question} failed now, {why}" for question, why in found.failures.items()))
