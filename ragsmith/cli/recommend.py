"""``ragsmith recommend | effects show``: recommend pipelines from learned effects, and show the effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.interrupts import NOTHING_WRITTEN, interrupted_with
from ragsmith.cli.options import JsonOption, ModelFlags, merged
from ragsmith.cli.output import say, say_folded, say_lines, show_result, table
from ragsmith.errors import WrongOption
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.effects import Knowledge, Recommendation
    from ragsmith.effects.showing import SignalWeight
    from ragsmith.runs.recommended import RecommendationResult


EffectsOption = Annotated[
    Path | None, typer.Option("--effects", help="File of learned effects. [default: the file bundled with ragsmith]")
]


@app.command()
@merged
def recommend(
    *,
    folder: Annotated[str, typer.Argument(help="A folder of documents, or a data set: a folder, or a bundled name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("winner.yaml"),
    calls: Annotated[
        str,
        typer.Option(
            help="Maximum number of language model calls per question of the written pipeline: 1, 2, ... or any."
        ),
    ] = "any",
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "default",
    effects: EffectsOption = None,
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Recommend a pipeline for documents without questions, from the effects learned on other data sets."""
    if calls != "any" and (not calls.isdecimal() or int(calls) < 1):
        raise WrongOption("calls", f"is {calls!r}: give a number from 1 on, or any")
    most = None if calls == "any" else int(calls)
    with interrupted_with(NOTHING_WRITTEN):
        found = ragsmith.recommend(
            folder, output=output, calls=most, space=space, effects=effects, **models.arguments()
        )
    show_result(as_json, {**found.to_dict(), "winner": str(output)}, lambda: _say_recommended(found, output, most))


def _say_recommended(found: RecommendationResult, output: Path, most: int | None) -> None:
    from ragsmith.effects.recommending import alike

    corpus = found.corpus
    say(
        f"{corpus.documents:,} documents, {corpus.characters:,} characters: {corpus.kind}, "
        f"{corpus.language or 'language not recognised'}"
    )
    own = f", without {', '.join(found.left_out)}, whose documents overlap with these" if found.left_out else ""
    unlike = [f"take care: {reason}" for reason in found.chosen.unlike]
    say_folded(f"learned on {', '.join(found.learned_on)}{own}", *unlike)
    for one, *more in alike(found.classes):
        say()
        _say_class(one, more)
    say_lines("", f"{output}: the pipeline of {describe_calls(most)}")


def describe_calls(most: int | None) -> str:
    """Return a cost class in words."""
    return "any number of calls" if most is None else f"at most {most} call{'s' if most > 1 else ''}"


def _say_class(one: Recommendation, more: Sequence[Recommendation]) -> None:
    """Print the recommendation for a cost class, and for the classes ``more`` with the same pipeline."""
    from ragsmith.pipelines.genes import label

    too = f", and the same with {describe_calls(more[-1].most_calls)}" if more else ""
    say_folded(f"{describe_calls(one.most_calls)} a question{too}: {label(one.candidate) or 'naive RAG'}")
    say_lines(
        f"  {one.calls:.1f} calls; expected over BM25 {one.gain:+.3f} ± {one.sd:.3f} fitness "
        f"(95 %: {numbers.interval(one.low, one.high, sign=True)})",
        "  expected loss without each option:" if one.reasons else None,
        *(
            f"  {reason.gain:+.3f} ± {reason.sd:.3f}  {reason.option}, learned on {reason.datasets} data sets"
            for reason in one.reasons
        ),
    )


BAR = 24
"""Number of characters of the bar of the largest weight."""

commands = typer.Typer(
    help="Effects of the options of pipelines, learned on data sets.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="effects")


@commands.command("show")
def show_effects(
    effects: EffectsOption = None,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate",
            help="Only the validation: the gains on each data set of the pipeline that the other data sets recommend.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the gains of options and pairs, their variation between data sets, and the leave-one-out validation."""
    from ragsmith.effects import effects_of, pairs_of, read, weights_of
    from ragsmith.effects.knowledge import in_words

    known = read(effects)
    parts: dict[str, Sequence[Any]] = (
        {} if validate else {"effects": effects_of(known), "pairs": pairs_of(known), "weights": weights_of(known)}
    )
    plain = {name: [asdict(row) for row in rows] for name, rows in parts.items()}
    checked = [{**asdict(one), "pipeline": in_words(one.pipeline)} for one in known.checked]

    def say_text() -> None:
        if parts:
            _say_effects(known, **parts)
        _say_validation(known)

    show_result(as_json, {**plain, "checked": checked, "stale": list(known.stale)}, say_text)


def _say_effects(known: Knowledge, effects: Sequence[Any], pairs: Sequence[Any], weights: Sequence[Any]) -> None:
    for one in known.observed:
        has = "R and G" if "generation" in one.means else "R"
        counts = f"{len(one.pipelines)} pipelines on {one.questions} search questions in {one.groups} groups"
        say(f"{one.name}: {one.corpus.kind}, {counts}, {has}")
    made = f"drawn from the space {known.made['space']!r} with seed {known.made['seed']}" if known.made else None
    say_lines(made, "")
    head = ["option", "alone", "se", "in hybrid + cross_encoder", "se", "between sets", "calls", "data sets"]
    rows = [
        [
            one.option + " (stale)" * one.stale,
            f"{one.alone:+.4f}",
            f"{one.alone_se:.4f}",
            f"{one.usual:+.4f}",
            f"{one.usual_se:.4f}",
            f"{one.between:.4f}",
            f"{one.calls:+.1f}",
            str(one.datasets),
        ]
        for one in effects
    ]
    table(rows, head, frozenset(range(1, len(head))))
    say_lines("", "most certain interactions: the gain of a pair in naive RAG minus the gains of each alone")
    rows = [[one.first, one.second, f"{one.gain:+.4f}", f"{one.sd:.4f}"] for one in pairs]
    table(rows, ["technique", "with", "gain", "sd on a new set"], frozenset({2, 3}))
    _say_weights(weights)
    if known.stale:
        say_lines("", f"stale, as the code has changed since: {', '.join(known.stale)}: learn again")
    say()


def _say_weights(weights: Sequence[SignalWeight]) -> None:
    """Print the weights of learned rankings: a table for each technique, with a bar for each weight."""
    longest = max((abs(one.weight) for one in weights), default=1.0)
    for technique in dict.fromkeys(one.technique for one in weights):
        say()
        say(f"weights of the signals of {technique}, per standard deviation among the candidates of a question:")
        rows = [
            [
                one.signal.replace("_", " "),
                f"{one.weight:+.3f}",
                f"{one.least:+.3f} to {one.most:+.3f}",
                ("█" if one.weight > 0 else "░") * round(BAR * abs(one.weight) / longest),
            ]
            for one in weights
            if one.technique == technique
        ]
        table(rows, ["signal", "weight", "without one data set", ""], frozenset({1, 2}))


def _say_validation(known: Knowledge) -> None:
    from ragsmith.effects import pooled
    from ragsmith.effects.knowledge import in_words

    if not known.checked:
        say("no validation: at least three data sets with answers are needed to leave one out")
        return
    say("the recommendation of the other data sets for each, and its gain over BM25 on the search questions:")
    head = ["data set", "most calls", "expected", "sd", "gain", "95 % interval", "calls", "pipeline"]
    rows = [
        [
            one.dataset,
            str(one.most_calls or "any"),
            f"{one.expected:+.4f}",
            f"{one.sd:.4f}",
            f"{one.gain:+.4f}" + " (R)" * (one.measure == "retrieval"),
            numbers.interval(one.low, one.high, sign=True, digits=4),
            f"{one.calls:.1f}",
            in_words(one.pipeline),
        ]
        for one in known.checked
    ]
    table(rows, head, frozenset({2, 3, 4, 6}), fold=True)
    say()
    for most, its in pooled(known.checked).items():
        gains = f"{its.mean:+.4f} {numbers.interval(its.low, its.high, sign=True, digits=4)}"
        say(f"{describe_calls(most)}: {gains}, above BM25 on {its.above} of {its.datasets} data sets with answers")
