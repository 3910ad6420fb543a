"""``ragsmith compare | gate``: compare two pipelines by question, and test a pipeline for a regression."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    JsonOption,
    ModelFlags,
    OtherDataset,
    OtherDatasetOption,
    PipelineArgument,
    SplitOption,
    SystemArgument,
    WorkersOption,
    expand_groups,
)
from ragsmith.cli.output import (
    print_line,
    print_lines,
    print_rows,
    print_stderr,
    print_table,
    print_wrapped,
    show_result,
    truncate,
)
from ragsmith.errors import WrongOption
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.assessment.final_test import FinalTest
    from ragsmith.assessment.gate import GateResult
    from ragsmith.assessment.pairwise import ComparedAnswer, PairwiseComparison, QuestionPair

WIDTH = 80
"""Maximum number of characters of a line; --json and --csv do not truncate questions and answers."""

SCORE_TOLERANCE = 1e-12
"""Maximum difference of fitness between scores that count as equal."""

GATE_FAILED = 1
"""Exit code of a gate that the pipeline did not pass."""

PIPELINE_HELP = (
    "A pipeline's file (winner.yaml), naive, bm25 or recommended; or another system: its rows (answers.jsonl), its "
    "address (http://...) or FILE.py:function."
)


@app.command()
@expand_groups
def compare(
    *,
    first: Annotated[str, typer.Argument(help=PIPELINE_HELP)],
    second: Annotated[str, typer.Argument(help=PIPELINE_HELP)],
    others: Annotated[
        list[str] | None, typer.Argument(help="More of them: the first is compared with each, as one family of tests.")
    ] = None,
    dataset: OtherDatasetOption = None,
    split: SplitOption = "search",
    top: Annotated[
        int,
        typer.Option("--top", help="Number of printed questions with the largest gains, and with the largest losses."),
    ] = 5,
    csv: Annotated[Path | None, typer.Option("--csv", help="CSV file for all questions, one per line.")] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two pipelines or other systems question by question, or several as one family of tests."""
    from ragsmith.assessment.pairwise import pairwise_csv
    from ragsmith.text.writing import write_file

    if top < 0:
        raise WrongOption("top", f"is {top}: give a number of questions from 0 on")
    given = {"dataset": dataset, "split": split, **models.arguments(), "workers": workers, "cache": cache}
    if others:
        if csv is not None:
            raise WrongOption("csv", "lists the questions of two pipelines: name two of them")
        _show_family(ragsmith.compare_all(first, second, *others, on_look=print_stderr, **given), as_json)
        return
    comparison = ragsmith.compare(first, second, on_look=print_stderr, **given)
    if csv is not None:
        write_file(pairwise_csv(comparison), csv, warn=True)
    show_result(as_json, _comparison_json(comparison), lambda: _print_comparison(comparison, top, csv))


@app.command("test")
@expand_groups
def final_test(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a pipeline on test questions against naive RAG, BM25 and the recommended pipeline: a look at them."""
    found = ragsmith.final_test(
        pipeline, dataset=dataset, on_look=print_stderr, **models.arguments(), workers=workers, cache=cache
    )
    _show_family(found, as_json)


def _show_family(found: FinalTest, as_json: bool) -> None:
    head = f"{found.dataset}, {found.decision.part} questions: {found.clusters}"
    shown = {**asdict(replace(found, scores=())), "decision": found.decision.to_dict()}
    del shown["scores"]
    show_result(as_json, shown, lambda: print_wrapped(head, *str(found).splitlines()))


@app.command()
@expand_groups
def gate(
    *,
    pipeline: SystemArgument,
    dataset: OtherDataset = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", help="File of the earlier pipeline. [default: the scores stored in the pipeline's own file]"
        ),
    ] = None,
    stored: Annotated[
        bool,
        typer.Option("--stored", help="Compare with the scores stored in the file of --against, and do not run it."),
    ] = False,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents", help="A folder of changed documents for the pipeline; the earlier one is on the data set."
        ),
    ] = None,
    min_effect: Annotated[
        float,
        typer.Option("--min-effect", help="Maximum loss of fitness, such as 0.02, that passes even if significant."),
    ] = 0.02,
    split: SplitOption = "test",
    junit: Annotated[Path | None, typer.Option("--junit", help="File for the result as JUnit XML.")] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Test a pipeline for a regression: exit code 1 if it is worse by more than --min-effect; 3 or 4 if unknown."""
    result = ragsmith.gate(
        pipeline,
        dataset=dataset,
        against=against,
        stored=stored,
        documents=documents,
        min_effect=min_effect,
        split=split,
        **models.arguments(),
        workers=workers,
        junit=junit,
        cache=cache,
    )
    show_result(as_json, asdict(result), lambda: _print_gate_result(result))
    if not result.passed:
        raise typer.Exit(GATE_FAILED)


def _print_comparison(comparison: PairwiseComparison, top: int, csv: Path | None) -> None:
    _print_scores(comparison)
    _print_questions("gained most", comparison.gained(top))
    _print_questions("lost most", comparison.lost(top))
    if csv is not None:
        print_lines("", f"{csv}: all {len(comparison.questions):,} questions")


def _print_scores(comparison: PairwiseComparison) -> None:
    from ragsmith.reporting.wording import describe_comparison

    sides = {"A": comparison.first, "B": comparison.second}
    print_wrapped(
        f"{comparison.dataset}, {comparison.part} questions: {comparison.clusters}",
        *(
            f"{place}  {s.name}: {s.label}" + ("" if s.calls is None else f" ({s.calls:.1f} calls a question)")
            for place, s in sides.items()
        ),
        *(f"! {note}" for note in comparison.notes),
    )
    print_line()
    print_table(comparison.table)
    same = [one.measure for one in comparison.measures[1:] if not one.difference.nonzero]
    equal = f"; equal for both: {', '.join(same)}" if same else ""
    print_wrapped(
        f"(the p-value of the fitness decides; those of measures and of types are adjusted for multiple tests{equal})"
    )
    drafted = comparison.comparison.of != "fitness"
    print_lines("", "Retrieval alone, as questions were drafted by a model:" if drafted else None)
    print_wrapped(f"A: {describe_comparison(comparison.comparison, asked='questions')}")
    ahead, behind = (sum(sign * row.gain > SCORE_TOLERANCE for row in comparison.questions) for sign in (1, -1))
    print_line(f"A is ahead on {ahead}, B on {behind}, and {len(comparison.questions) - ahead - behind} are equal.")
    failed = ((question, place, why) for place, side in sides.items() for question, why in side.failures.items())
    print_wrapped(*(f"{question} failed in {place}, {why}" for question, place, why in failed))


def _print_questions(title: str, rows: list[QuestionPair]) -> None:
    print_lines(*(["", f"A {title}"] if rows else []))
    for row in rows:
        print_lines(
            _truncated_line(f"  {numbers.signed(row.gain)}  {row.id} ({row.type})  ", row.question),
            _truncated_line("          gold  ", row.reference),
            _truncated_line(f"    A {_format_scores(row.first)}  ", row.first.answer),
            _truncated_line(f"    B {_format_scores(row.second)}  ", row.second.answer),
        )


def _format_scores(answer: ComparedAnswer) -> str:
    return f"R {numbers.plain(answer.retrieval, 2)} G {numbers.plain(answer.generation, 2)}"


def _truncated_line(prefix: str, text: str) -> str:
    """Return ``prefix`` and ``text`` as one line, truncated to `WIDTH` characters."""
    return truncate(prefix + " ".join(text.split()), WIDTH)


def _comparison_json(comparison: PairwiseComparison) -> dict[str, Any]:
    plain = asdict(comparison)
    rows = [{**row, "gain": pair.gain} for row, pair in zip(plain["questions"], comparison.questions, strict=True)]
    return {**plain, "verdict": comparison.verdict, "questions": rows}


def _print_gate_result(result: GateResult) -> None:
    print_wrapped(
        f"{result.pipeline} against {result.against} on {result.dataset}, {result.part} questions: {result.reason}."
    )
    print_line()
    rows = [
        [name, str(n), numbers.plain(before), numbers.plain(now), numbers.signed(now - before)]
        for name, n, before, now in (
            (result.of, result.difference.n, result.before, result.now),
            *((f"type {change.name}", change.n, change.before, change.now) for change in result.types),
        )
    ]
    print_rows(rows, ["", "n", "before", "now", "change"], frozenset({1, 2, 3, 4}))
    if result.lost:
        print_line()
        print_wrapped(
            "lost most: " + ", ".join(f"{change.name} {numbers.signed(change.change)}" for change in result.lost)
        )
    print_wrapped(*(f"{question} failed now, {why}" for question, why in result.failures.items()))
    print_wrapped(*(f"take care: {each}" for each in result.possible_answers))
