"""``ragsmith explain``: trace a question through an exported pipeline."""

from __future__ import annotations

import re
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.ask import OtherDataset, PipelineArgument
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, WorkersOption, merged
from ragsmith.cli.output import note, say, say_lines, shortened, show_result, table
from ragsmith.errors import UsageError

if TYPE_CHECKING:
    from ragsmith.diagnosis.diagnosed import ReadPassage
    from ragsmith.diagnosis.explaining import QuestionExplanation, RankedChunk, StageExplanation
    from ragsmith.diagnosis.interventions import Ceiling

WIDTH = 80
"""Maximum number of characters of a line."""
LABEL = 17
"""Number of characters of the column of stage names."""
SHORTEST = 12
"""Minimum number of characters of the text of a hit; less is not printed."""
BEST = 3
"""Number of printed hits of a ranking; hits with gold are printed at any rank."""
SIGNALS = 6
"""Maximum number of signals of a learned ranking that are printed for a hit."""
NEGLIGIBLE = 0.005
"""Minimum contribution to a score that is printed; smaller ones round to 0."""
SIGNALS_MEAN = (
    "the score of a learned ranking is the weighted sum of its signals, each standardised among the candidates of this "
    "question; `ragsmith techniques listnet` describes them"
)
GOLD_BEGINS, GOLD_ENDS = "«", "»"
MARKS = (
    f"gold 1: 100 % is the share of it that is present, *gold 1* marks a hit with a part of it, and {GOLD_BEGINS} and "
    f"{GOLD_ENDS} enclose it in the passages that were read"
)
_PERCENT = re.compile(r"(gold \d+:|\d) (?=\d+ %|%)")
"""Spaces of a share at which no line is broken."""


@app.command()
@merged
def explain(
    *,
    pipeline: PipelineArgument,
    question: Annotated[
        str | None, typer.Argument(help="The id of a question of the data set, or any text.", show_default=False)
    ] = None,
    dataset: OtherDataset = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Also print the whole prompt of the generator.")] = False,
    interventions: Annotated[
        bool,
        typer.Option(
            "--interventions",
            help="Without a question: evaluate all questions with gold passages added and irrelevant ones removed.",
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

    `gold 1: 100 %` is the share of a gold passage that is present, `*gold 1*` marks a hit with a part of it, and « »
    enclose it in the passages that were read.
    """
    if question is None and not interventions:
        raise UsageError("give a question by its id or text, or --interventions for all questions")
    if question is not None and interventions:
        raise UsageError("both a question and --interventions were given: leave one out")
    if question is None:
        given = {"dataset": dataset, **models.arguments(), "workers": workers, "cache": cache}
        found = ragsmith.intervene(pipeline, **given, on_plan=lambda answers: _confirm(answers, only=plan))
        plain = {name: [asdict(one) for one in means] for name, means in found.items()}
        show_result(as_json, plain, lambda: _say_interventions(found))
        return
    explanation = ragsmith.explain(pipeline, question, dataset=dataset, **models.arguments(), cache=cache)
    if explanation.note:
        note(explanation.note)
    show_result(as_json, asdict(explanation), lambda: _say_explanation(explanation, prompt=prompt))


def _say_explanation(explanation: QuestionExplanation, *, prompt: bool) -> None:
    _say_question(explanation)
    say()
    for stage in explanation.stations:
        _say_stage(stage, explanation.question)
    say_lines("", *_read_lines(explanation, prompt=prompt), "")
    _say_end(explanation)


def _confirm(answers: int, *, only: bool) -> bool:
    note(
        f"{answers:,} answers at most, besides those of the pipelines themselves; cached answers are not computed again"
    )
    return not only


def _say_interventions(found: dict[str, tuple[Ceiling, ...]]) -> None:
    rows = [
        [name, one.split, one.what, str(one.n), str(one.changed)]
        + [f"{value:.3f}" for value in (one.retrieval, one.generation, one.fitness)]
        for name, means in found.items()
        for one in means
    ]
    if rows:
        table(rows, ["pipeline", "questions", "", "n", "changed", "R", "G", "F"], frozenset({3, 4, 5, 6, 7}))


def _lines(text: str, width: int) -> list[str]:
    """Return ``text`` in lines of at most ``width`` characters; only longer words exceed it."""
    whole = _PERCENT.sub(lambda found: found[0].replace(" ", "\u00a0"), " ".join(text.split()))
    lines = textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines] or [""]


def _say(label: str, text: str) -> None:
    """Print a label and its text, which is wrapped in the column next to it."""
    first, *others = _lines(text, WIDTH - LABEL)
    say_lines(f"{label:<{LABEL}}{first}".rstrip(), *(f"{'':<{LABEL}}{line}".rstrip() for line in others))


def _say_question(explanation: QuestionExplanation) -> None:
    _say(explanation.id or "question", explanation.question)
    if explanation.reference:
        _say("reference", explanation.reference)
    for number, gold in enumerate(explanation.gold, 1):
        lost = f" ({gold.lost})" if gold.lost else ""
        _say(f"gold {number}", f"{gold.doc} [{gold.start}:{gold.end}]{lost} {gold.text}")
    if explanation.gold:
        _say("marks", MARKS)
    if any(hit.signals for stage in explanation.stations for hit in stage.hits):
        _say("signals", SIGNALS_MEAN)


def _say_stage(stage: StageExplanation, asked: str) -> None:
    calls = f", {stage.calls} model {'call' if stage.calls == 1 else 'calls'}" if stage.calls else ""
    if stage.said == "as before":
        _say(stage.family, f"{stage.option}: as before{calls}")
        return
    held = "".join(f", gold {number}: {100 * share:.0f} %" for number, share in enumerate(stage.held, 1))
    _say(stage.family, f"{stage.option}: {stage.said}{calls}{held}")
    for query in stage.queries if stage.queries != (asked,) else ():
        _say("", f'searched with "{query}"')
    shown = [hit for hit in stage.hits if hit.place <= BEST or hit.gold]
    if any(hit.place != hit.before or hit.signals for hit in shown):  # an unchanged ranking is not printed again
        for hit in shown:
            explained = hit.signals and (hit.place == 1 or hit.gold)
            say_lines(_hit(hit), *(_signal_lines(hit, stage.hits[0]) if explained else ()))
        more = len(stage.hits) - len(shown)
        say_lines(f"  and {more} more without gold" if more else None)
    if stage.dropped:
        gone = ", ".join(_ranges([hit.place for hit in stage.dropped]))
        lost = (_hit(hit) for hit in stage.dropped if hit.gold)
        say_lines(shortened(f"  dropped: {len(stage.dropped)}, at {gone}", WIDTH), *lost)


def _hit(hit: RankedChunk) -> str:
    """Return the line of a hit: rank, previous rank, score, chunk, gold passages, and the start of its text."""
    moved = f" (was {hit.before})" if hit.before not in (None, hit.place) else ""
    gold = f" *gold {', '.join(map(str, hit.gold))}*" if hit.gold else ""
    line = f"{hit.place:>4}{moved}  {hit.score:.3f} {hit.scale}  {hit.chunk}{gold}"
    left = WIDTH - len(line) - 2
    return f"{line}  {shortened(' '.join(hit.text.split()), left)}" if left >= SHORTEST else line


def _signal_lines(hit: RankedChunk, best: RankedChunk) -> list[str]:
    """Return the contributions to the score of the best hit, or to the difference between another hit and the best."""
    heading, parts = "contributions to the score", dict(hit.signals)
    if hit.place != 1:
        heading, at_best = f"{best.score - hit.score:.3f} behind place 1, by", dict(best.signals)
        parts = {name: value - at_best.get(name, 0.0) for name, value in parts.items()}
    largest = sorted(parts.items(), key=lambda part: -abs(part[1]))[:SIGNALS]
    named = [(name, value) for name, value in largest if abs(value) >= NEGLIGIBLE]
    listed = ", ".join(f"{name.replace('_', ' ')} {value:+.2f}" for name, value in named)
    others = sum(parts.values()) - sum(value for _, value in named)
    listed += f", all others {others:+.2f}" if abs(others) >= NEGLIGIBLE else ""
    first, *more = _lines(f"{heading}: {listed}", WIDTH - 8)
    return [f"      = {first}", *(f"        {line}" for line in more)]


def _ranges(places: list[int]) -> list[str]:
    """Return ranks as text, with consecutive ones as ranges: ``3``, ``5-9``."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][-1] + 1:
            found[-1] = [found[-1][0], place]
        else:
            found.append([place])
    return ["-".join(map(str, one)) for one in found]


def _read_lines(explanation: QuestionExplanation, *, prompt: bool) -> list[str]:
    """Return the lines of the passages that the generator read, or of its whole ``prompt``."""
    if prompt:
        return ["prompt", *(f"  | {line}" for line in explanation.prompt.splitlines())]
    passages = [line for passage in explanation.passages for line in _passage_lines(passage)]
    return ["read", *passages, *([f"  and {explanation.further} more without gold"] if explanation.further else [])]


def _passage_lines(passage: ReadPassage) -> list[str]:
    cited = ", cited" if passage.cited else ""
    more = f" and {passage.sources - 1} more places" if passage.sources > 1 else ""
    text = "".join(f"{GOLD_BEGINS}{p.text}{GOLD_ENDS}" if p.gold else p.text for p in passage.pieces)
    place = f"  [{passage.place}] {passage.doc} [{passage.start}:{passage.end}]{more}{cited}"
    return [place, *(f"      {line}" for line in _lines(text, WIDTH - 6))]


def _say_end(explanation: QuestionExplanation) -> None:
    names = {"fitness": "F", "retrieval": "R", "generation": "G", "judge": "judge"}
    ends = {
        "draft": explanation.draft if explanation.draft != explanation.answer else None,
        "answer": explanation.answer,
        "scores": "  ".join(f"{names[name]} {value:.3f}" for name, value in explanation.scores.items()) or None,
        "cause": f"{explanation.cause}: {explanation.meaning}" if explanation.cause else None,
        "try": explanation.remedy or None,
    }
    for name, text in ends.items():
        if text is not None:
            _say(name, text)
