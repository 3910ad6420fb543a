"""``ragsmith explain``: the way of one question through an exported pipeline."""

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
LABEL = 17
"""Characters of the column that names stages."""
SHORTEST = 12
"""Characters of a hit's text for which there has to be room behind its name."""
BEST = 3
"""Hits of a ranking that are shown; those with gold are shown wherever they stand."""
SIGNALS = 6
"""Signals of a learned ranking that are named for a hit."""
NEGLIGIBLE = 0.005
"""Of a score: what rounds to nothing is not named."""
SIGNALS_MEAN = (
    "a learned ranking adds up signals, each as far as it stands out among the candidates of this question times its "
    "weight; `ragsmith techniques listnet` says what they are"
)
GOLD_BEGINS, GOLD_ENDS = "«", "»"
MARKS = (
    f"gold 1: 100 % is how much of it is there, *gold 1* a hit that has some, and {GOLD_BEGINS} and {GOLD_ENDS} stand "
    "around it in what was read"
)
_PERCENT = re.compile(r"(gold \d+:|\d) (?=\d+ %|%)")
"""Where a share would be torn from its gold passage or its sign at the end of a line."""


@app.command()
@merged
def explain(
    *,
    pipeline: PipelineArgument,
    question: Annotated[
        str | None, typer.Argument(help="The id of a question of the data set, or any text.", show_default=False)
    ] = None,
    dataset: OtherDataset = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Also print all that the generator was shown.")] = False,
    interventions: Annotated[
        bool,
        typer.Option("--interventions", help="Without a question: all again, with gold put in and noise taken out."),
    ] = False,
    plan: Annotated[bool, typer.Option("--plan", help="With --interventions: only say what they ask for.")] = False,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Follow a question through a pipeline: what each stage made of it, where gold was lost, and the answer.

    `gold 1: 100 %` is how much of a gold passage is there, `*gold 1*` marks a hit that has some of it, and « and »
    stand around it in what was read.
    """
    if (question is None) != interventions:
        raise UsageError("give a question, by its id or its text, or --interventions, which is about all of them")
    if question is None:
        given = {"dataset": dataset, **models.arguments(), "workers": workers, "cache": cache}
        found = ragsmith.intervene(pipeline, **given, on_plan=lambda answers: _planned(answers, only=plan))
        plain = {name: [asdict(one) for one in means] for name, means in found.items()}
        show_result(as_json, plain, lambda: _say_interventions(found))
        return
    way = ragsmith.explain(pipeline, question, dataset=dataset, **models.arguments(), cache=cache)
    if way.note:
        note(way.note)
    show_result(as_json, asdict(way), lambda: _say_way(way, prompt=prompt))


def _say_way(way: QuestionExplanation, *, prompt: bool) -> None:
    _say_question(way)
    say()
    for station in way.stations:
        _say_station(station, way.question)
    say_lines("", *_read_lines(way, prompt=prompt), "")
    _say_end(way)


def _planned(answers: int, *, only: bool) -> bool:
    note(f"{answers:,} answers at most, besides those of the pipelines as they are; what was asked before is not again")
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
    """A text in lines of so many characters at most, no word torn, unless one alone is longer."""
    whole = _PERCENT.sub(lambda found: found[0].replace(" ", "\u00a0"), " ".join(text.split()))
    lines = textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)
    return [line.replace("\u00a0", " ") for line in lines] or [""]


def _say(label: str, text: str) -> None:
    """Print a label and its text, which is folded into the column after it."""
    first, *others = _lines(text, WIDTH - LABEL)
    say_lines(f"{label:<{LABEL}}{first}".rstrip(), *(f"{'':<{LABEL}}{line}".rstrip() for line in others))


def _say_question(way: QuestionExplanation) -> None:
    _say(way.id or "question", way.question)
    if way.reference:
        _say("reference", way.reference)
    for number, gold in enumerate(way.gold, 1):
        lost = f" ({gold.lost})" if gold.lost else ""
        _say(f"gold {number}", f"{gold.doc} [{gold.start}:{gold.end}]{lost} {gold.text}")
    if way.gold:
        _say("marks", MARKS)
    if any(hit.signals for station in way.stations for hit in station.hits):
        _say("signals", SIGNALS_MEAN)


def _say_station(station: StageExplanation, asked: str) -> None:
    calls = f", {station.calls} model {'call' if station.calls == 1 else 'calls'}" if station.calls else ""
    if station.said == "as before":
        _say(station.family, f"{station.option}: as before{calls}")
        return
    held = "".join(f", gold {number}: {100 * share:.0f} %" for number, share in enumerate(station.held, 1))
    _say(station.family, f"{station.option}: {station.said}{calls}{held}")
    for query in station.queries if station.queries != (asked,) else ():
        _say("", f'searched with "{query}"')
    shown = [hit for hit in station.hits if hit.place <= BEST or hit.gold]
    if any(hit.place != hit.before or hit.signals for hit in shown):  # an unchanged ranking is not printed again
        for hit in shown:
            explained = hit.signals and (hit.place == 1 or hit.gold)
            say_lines(_hit(hit), *(_signal_lines(hit, station.hits[0]) if explained else ()))
        more = len(station.hits) - len(shown)
        say_lines(f"  and {more} more without gold" if more else None)
    if station.dropped:
        gone = ", ".join(_ranges([hit.place for hit in station.dropped]))
        lost = (_hit(hit) for hit in station.dropped if hit.gold)
        say_lines(shortened(f"  dropped: {len(station.dropped)}, at {gone}", WIDTH), *lost)


def _hit(hit: RankedChunk) -> str:
    """A line: place, place before, score, chunk, the gold that it has, and its beginning."""
    moved = f" (was {hit.before})" if hit.before not in (None, hit.place) else ""
    gold = f" *gold {', '.join(map(str, hit.gold))}*" if hit.gold else ""
    line = f"{hit.place:>4}{moved}  {hit.score:.3f} {hit.scale}  {hit.chunk}{gold}"
    left = WIDTH - len(line) - 2
    return f"{line}  {shortened(' '.join(hit.text.split()), left)}" if left >= SHORTEST else line


def _signal_lines(hit: RankedChunk, best: RankedChunk) -> list[str]:
    """What makes the score of the best hit, and what sets another one apart from it."""
    said, parts = "score, by what stands out among the candidates", dict(hit.signals)
    if hit.place != 1:
        said, at_best = f"{best.score - hit.score:.3f} behind place 1, by", dict(best.signals)
        parts = {name: value - at_best.get(name, 0.0) for name, value in parts.items()}
    largest = sorted(parts.items(), key=lambda part: -abs(part[1]))[:SIGNALS]
    named = [(name, value) for name, value in largest if abs(value) >= NEGLIGIBLE]
    listed = ", ".join(f"{name.replace('_', ' ')} {value:+.2f}" for name, value in named)
    others = sum(parts.values()) - sum(value for _, value in named)
    listed += f", all others {others:+.2f}" if abs(others) >= NEGLIGIBLE else ""
    first, *more = _lines(f"{said}: {listed}", WIDTH - 8)
    return [f"      = {first}", *(f"        {line}" for line in more)]


def _ranges(places: list[int]) -> list[str]:
    """Places as they are said: ``3``, ``5-9``."""
    found: list[list[int]] = []
    for place in places:
        if found and place == found[-1][-1] + 1:
            found[-1] = [found[-1][0], place]
        else:
            found.append([place])
    return ["-".join(map(str, one)) for one in found]


def _read_lines(way: QuestionExplanation, *, prompt: bool) -> list[str]:
    """The passages that the generator read; with ``prompt`` all that it read."""
    if prompt:
        return ["prompt", *(f"  | {line}" for line in way.prompt.splitlines())]
    passages = [line for passage in way.passages for line in _passage_lines(passage)]
    return ["read", *passages, *([f"  and {way.further} more without gold"] if way.further else [])]


def _passage_lines(passage: ReadPassage) -> list[str]:
    cited = ", cited" if passage.cited else ""
    more = f" and {passage.sources - 1} more places" if passage.sources > 1 else ""
    text = "".join(f"{GOLD_BEGINS}{p.text}{GOLD_ENDS}" if p.gold else p.text for p in passage.pieces)
    place = f"  [{passage.place}] {passage.doc} [{passage.start}:{passage.end}]{more}{cited}"
    return [place, *(f"      {line}" for line in _lines(text, WIDTH - 6))]


def _say_end(way: QuestionExplanation) -> None:
    names = {"fitness": "F", "retrieval": "R", "generation": "G", "judge": "judge"}
    ends = {
        "draft": way.draft if way.draft != way.answer else None,
        "answer": way.answer,
        "scores": "  ".join(f"{names[name]} {value:.3f}" for name, value in way.scores.items()) or None,
        "cause": f"{way.cause}: {way.meaning}" if way.cause else None,
        "try": way.remedy or None,
    }
    for name, text in ends.items():
        if text is not None:
            _say(name, text)
