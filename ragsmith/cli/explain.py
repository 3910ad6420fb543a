"""``ragsmith explain``: trace a question through an exported pipeline."""

from __future__ import annotations

import re
import shlex
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.ask import put_in_order
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    FilterOption,
    JsonOption,
    ModelFlags,
    OtherDatasetOption,
    SplitOption,
    SystemArgument,
    WorkersOption,
    expand_groups,
)
from ragsmith.cli.output import print_line, print_lines, print_rows, print_stderr, print_table, show_result, truncate
from ragsmith.errors import UsageError

if TYPE_CHECKING:
    from ragsmith.assessment.causes import Causes
    from ragsmith.diagnosis.diagnosed import ReadPassage
    from ragsmith.diagnosis.explaining import QuestionExplanation, RankedChunk, StageExplanation
    from ragsmith.diagnosis.interventions import Ceiling

WIDTH = 80
"""Maximum number of characters of a line."""
LABEL_WIDTH = 17
"""Width of the column of stage names, in characters."""
MIN_TEXT_CHARACTERS = 12
"""Minimum number of characters left on the line of a hit for its text to be printed."""
TOP_HITS = 3
"""Number of hits of a ranking that are printed; hits with gold passages are printed at any rank."""
MAX_SIGNALS = 6
"""Maximum number of signals of a learned ranking that are printed for a hit."""
MIN_CONTRIBUTION = 0.005
"""Minimum contribution to a score that is printed; smaller contributions are rounded to 0."""
SIGNALS_LEGEND = (
    "the score of a learned ranking is the weighted sum of its signals, each standardised among the candidates of this "
    "question; `ragsmith techniques listnet` describes them"
)
GOLD_START, GOLD_END = "«", "»"
GOLD_LEGEND = (
    f"gold 1: 100 % is the share of it that is present, *gold 1* marks a hit with a part of it, and {GOLD_START} and "
    f"{GOLD_END} enclose it in the passages that were read"
)
_PERCENTAGE = re.compile(r"(gold \d+:|\d) (?=\d+ %|%)")
"""The spaces within a percentage, at which lines are not broken."""


@app.command()
@expand_groups
def explain(
    *,
    pipeline: SystemArgument,
    question: Annotated[
        str | None, typer.Argument(help="The id of a question of the data set, or any text.", show_default=False)
    ] = None,
    where: FilterOption = None,
    dataset: OtherDatasetOption = None,
    split: SplitOption = "search",
    prompt: Annotated[bool, typer.Option("--prompt", help="Also print the whole prompt of the generator.")] = False,
    interventions: Annotated[
        bool,
        typer.Option(
            "--interventions",
            help="Instead of causes: evaluate these questions with gold passages added and irrelevant ones removed.",
        ),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="With --interventions: only print the number of answers.")
    ] = False,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Trace a question through a pipeline: the output of each stage, where gold was lost, and the answer.

    Without a question, the causes of all wrong answers are counted. Another system is traced by its contexts.
    `gold 1: 100 %` is the share of a gold passage that is present, `*gold 1*` marks a hit with a part of it, and « »
    enclose it in the passages that were read.
    """
    if question is None and where is not None:
        raise UsageError("--filter was given without a question: give the question that it is for")
    if question is not None and interventions:
        raise UsageError("both a question and --interventions were given: leave one out")
    shared = {"dataset": dataset, **models.arguments(), "cache": cache}
    shown: dict[str, Any] = {"split": split, "workers": workers, "on_look": print_stderr}
    if question is None and not interventions:
        causes = ragsmith.diagnose(pipeline, **shared, **shown)
        show_result(as_json, causes.to_dict(), lambda: _print_causes(causes, pipeline, dataset))
        return
    if question is None:
        ceilings = ragsmith.intervene(pipeline, **shared, **shown, on_plan=lambda answers: _confirm(answers, only=plan))
        plain = {name: [asdict(ceiling) for ceiling in means] for name, means in ceilings.items()}
        show_result(as_json, plain, lambda: _print_interventions(ceilings, pipeline))
        return
    file, text = put_in_order(pipeline, question)
    explanation = ragsmith.explain(file, text, filter=where, **shared)
    if explanation.note:
        print_stderr(explanation.note)
    show_result(as_json, asdict(explanation), lambda: _print_explanation(explanation, prompt=prompt))


def _print_explanation(explanation: QuestionExplanation, *, prompt: bool) -> None:
    _print_question(explanation)
    print_line()
    for stage in explanation.stages:
        _print_stage(stage, explanation.question)
    print_lines("", *_format_passages(explanation, prompt=prompt), "")
    _print_answer(explanation)


def _print_causes(found: Causes, pipeline: str, dataset: str | None) -> None:
    print_line(found.table.caption)
    print_table(found.table)
    if failed := [one.questions for one in found.causes if one.remedy]:
        question = max(failed, key=len)[0]  # of the most frequent cause
        options = ["--dataset", dataset] if dataset else []
        print_line(f"follow one  {shlex.join(['ragsmith', 'explain', pipeline, question, *options])}")
        if pipeline.endswith((".yaml", ".yml")):
            print_line(f"try others  {shlex.join(['ragsmith', 'ablate', pipeline, '--swaps', *options])}")


def _confirm(answers: int, *, only: bool) -> bool:
    print_stderr(
        f"{answers:,} answers at most, besides those of the pipelines themselves; cached answers are not computed again"
    )
    return not only


def _print_interventions(ceilings: dict[str, tuple[Ceiling, ...]], file: str) -> None:
    rows = [
        [file if name == "winner" else name, ceiling.split, ceiling.what, str(ceiling.n), str(ceiling.changed)]
        + [f"{value:.3f}" for value in (ceiling.retrieval, ceiling.generation, ceiling.fitness)]
        for name, means in ceilings.items()
        for ceiling in means
    ]
    if rows:
        print_rows(rows, ["pipeline", "questions", "", "n", "changed", "R", "G", "F"], frozenset({3, 4, 5, 6, 7}))


def _wrap(text: str, width: int) -> list[str]:
    """Wrap ``text`` at ``width`` characters; longer words are not broken."""
    whole = _PERCENTAGE.sub(lambda found: found[0].replace(" ", "\u00a0"), " ".join(text.split()))
    lines = textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines] or [""]


def _print_labelled(label: str, text: str) -> None:
    """Print a label and its text, wrapped in a second column."""
    first, *others = _wrap(text, WIDTH - LABEL_WIDTH)
    print_lines(f"{label:<{LABEL_WIDTH}}{first}".rstrip(), *(f"{'':<{LABEL_WIDTH}}{line}".rstrip() for line in others))


def _print_question(explanation: QuestionExplanation) -> None:
    _print_labelled(explanation.id or "question", explanation.question)
    if explanation.reference:
        _print_labelled("reference", explanation.reference)
    for number, gold in enumerate(explanation.gold, 1):
        lost = f" ({gold.lost})" if gold.lost else ""
        _print_labelled(f"gold {number}", f"{gold.doc} [{gold.start}:{gold.end}]{lost} {gold.text}")
    if explanation.gold:
        _print_labelled("marks", GOLD_LEGEND)
    if any(hit.signals for stage in explanation.stages for hit in stage.hits):
        _print_labelled("signals", SIGNALS_LEGEND)


def _print_stage(stage: StageExplanation, question: str) -> None:
    calls = f", {stage.calls} model {'call' if stage.calls == 1 else 'calls'}" if stage.calls else ""
    if stage.said == "as before":
        _print_labelled(stage.family, f"{stage.option}: as before{calls}")
        return
    coverage = "".join(f", gold {number}: {100 * share:.0f} %" for number, share in enumerate(stage.held, 1))
    _print_labelled(stage.family, f"{stage.option}: {stage.said}{calls}{coverage}")
    for query in stage.queries if stage.queries != (question,) else ():
        _print_labelled("", f'searched with "{query}"')
    shown = [hit for hit in stage.hits if hit.place <= TOP_HITS or hit.gold]
    if any(hit.place != hit.before or hit.signals for hit in shown):  # an unchanged ranking is not printed again
        for hit in shown:
            explained = hit.signals and (hit.place == 1 or hit.gold)
            print_lines(_format_hit(hit), *(_format_signals(hit, stage.hits[0]) if explained else ()))
        more = len(stage.hits) - len(shown)
        print_lines(f"  and {more} more without gold" if more else None)
    if stage.dropped:
        gone = ", ".join(_format_ranks([hit.place for hit in stage.dropped]))
        lost = (_format_hit(hit) for hit in stage.dropped if hit.gold)
        print_lines(truncate(f"  dropped: {len(stage.dropped)}, at {gone}", WIDTH), *lost)


def _format_hit(hit: RankedChunk) -> str:
    """Return the line of a hit: rank, previous rank, score, chunk, gold passages, and the start of its text."""
    moved = f" (was {hit.before})" if hit.before not in (None, hit.place) else ""
    gold = f" *gold {', '.join(map(str, hit.gold))}*" if hit.gold else ""
    line = f"{hit.place:>4}{moved}  {hit.score:.3f} {hit.scale}  {hit.chunk}{gold}"
    left = WIDTH - len(line) - 2
    return f"{line}  {truncate(' '.join(hit.text.split()), left)}" if left >= MIN_TEXT_CHARACTERS else line


def _format_signals(hit: RankedChunk, best: RankedChunk) -> list[str]:
    """Return the contributions to the score of the best hit, or to the difference between another hit and the best."""
    heading, parts = "contributions to the score", dict(hit.signals)
    if hit.place != 1:
        heading, at_best = f"{best.score - hit.score:.3f} behind place 1, by", dict(best.signals)
        parts = {name: value - at_best.get(name, 0.0) for name, value in parts.items()}
    largest = sorted(parts.items(), key=lambda part: -abs(part[1]))[:MAX_SIGNALS]
    named = [(name, value) for name, value in largest if abs(value) >= MIN_CONTRIBUTION]
    listed = ", ".join(f"{name.replace('_', ' ')} {value:+.2f}" for name, value in named)
    others = sum(parts.values()) - sum(value for _, value in named)
    listed += f", all others {others:+.2f}" if abs(others) >= MIN_CONTRIBUTION else ""
    first, *more = _wrap(f"{heading}: {listed}", WIDTH - 8)
    return [f"      = {first}", *(f"        {line}" for line in more)]


def _format_ranks(ranks: list[int]) -> list[str]:
    """Format ranks, with consecutive ranks as ranges: ``3``, ``5-9``."""
    ranges: list[list[int]] = []
    for rank in ranks:
        if ranges and rank == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], rank]
        else:
            ranges.append([rank])
    return ["-".join(map(str, bounds)) for bounds in ranges]


def _format_passages(explanation: QuestionExplanation, *, prompt: bool) -> list[str]:
    """Return the lines of the passages in the prompt, or of the whole ``prompt``."""
    if prompt:
        return ["prompt", *(f"  | {line}" for line in explanation.prompt.splitlines())]
    passages = [line for passage in explanation.passages for line in _format_passage(passage)]
    return ["read", *passages, *([f"  and {explanation.further} more without gold"] if explanation.further else [])]


def _format_passage(passage: ReadPassage) -> list[str]:
    cited = ", cited" if passage.cited else ""
    more = f" and {passage.sources - 1} more places" if passage.sources > 1 else ""
    text = "".join(f"{GOLD_START}{p.text}{GOLD_END}" if p.gold else p.text for p in passage.pieces)
    place = f"  [{passage.place}] {passage.doc} [{passage.start}:{passage.end}]{more}{cited}"
    return [place, *(f"      {line}" for line in _wrap(text, WIDTH - 6))]


def _print_answer(explanation: QuestionExplanation) -> None:
    names = {"fitness": "F", "retrieval": "R", "generation": "G", "judge": "judge"}
    ends = {
        "draft": explanation.draft if explanation.draft != explanation.answer else None,
        "answer": explanation.answer,
        "no answer": ", ".join(explanation.non_answer) or None,
        "scores": "  ".join(f"{names[name]} {value:.3f}" for name, value in explanation.scores.items()) or None,
        "cause": f"{explanation.cause}: {explanation.meaning}" if explanation.cause else None,
        "try": explanation.remedy or None,
    }
    for name, text in ends.items():
        if text is not None:
            _print_labelled(name, text)
