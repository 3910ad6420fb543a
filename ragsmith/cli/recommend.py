"""``ragsmith recommend | effects show``: recommend pipelines from learned effects, and show the effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.commands import CommandTable
from ragsmith.cli.interrupts import NOTHING_WRITTEN, interrupt_message
from ragsmith.cli.options import JsonOption, ModelFlags, expand_groups
from ragsmith.cli.output import ask_line, print_line, print_lines, print_rows, print_wrapped, show_result
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
@expand_groups
def recommend(
    *,
    dataset: Annotated[str, typer.Argument(help="A folder of documents, or a data set: a folder, or a bundled name.")],
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
    max_calls = None if calls == "any" else int(calls)
    with interrupt_message(NOTHING_WRITTEN):
        result = ragsmith.recommend(
            dataset, output=output, calls=max_calls, space=space, effects=effects, **models.arguments()
        )
    show_result(
        as_json, {**result.to_dict(), "winner": str(output)}, lambda: _print_recommended(result, output, max_calls)
    )


def _print_recommended(result: RecommendationResult, output: Path, max_calls: int | None) -> None:
    from ragsmith.effects.recommending import merge_equal_classes

    corpus = result.corpus
    print_line(
        f"{corpus.documents:,} documents, {corpus.characters:,} characters: {corpus.kind}, "
        f"{corpus.language or 'language not recognised'}"
    )
    excluded = f", without {', '.join(result.left_out)}, whose documents overlap with these" if result.left_out else ""
    unlike = [f"take care: {reason}" for reason in result.chosen.unlike]
    print_wrapped(f"learned on {', '.join(result.learned_on)}{excluded}", *unlike)
    for one, *more in merge_equal_classes(result.classes):
        print_line()
        _print_class(one, more)
    print_lines("", f"{output}: the pipeline of {describe_calls(max_calls)}", ask_line(output))


def describe_calls(max_calls: int | None) -> str:
    """Describe a cost class, the maximum number of calls per question."""
    return "any number of calls" if max_calls is None else f"at most {max_calls} call{'s' if max_calls > 1 else ''}"


def _print_class(recommendation: Recommendation, same: Sequence[Recommendation]) -> None:
    """Print the recommendation for a cost class and for the classes ``same``, which have the same pipeline."""
    from ragsmith.pipelines.genes import label

    too = f", and the same with {describe_calls(same[-1].most_calls)}" if same else ""
    print_wrapped(
        f"{describe_calls(recommendation.most_calls)} a question{too}: {label(recommendation.candidate) or 'naive RAG'}"
    )
    print_lines(
        f"  {recommendation.calls:.1f} calls; expected over BM25 {recommendation.gain:+.3f} ± {recommendation.sd:.3f} "
        "fitness "
        f"(95 %: {numbers.interval(recommendation.low, recommendation.high, sign=True)})",
        "  expected loss without each option:" if recommendation.reasons else None,
        *(
            f"  {reason.gain:+.3f} ± {reason.sd:.3f}  {reason.option}, learned on {reason.datasets} data sets"
            for reason in recommendation.reasons
        ),
    )


BAR_WIDTH = 24
"""Length of the bar of the largest weight, in characters."""

commands = CommandTable(
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
    from ragsmith.effects import option_effects, pair_effects, read_effects, signal_weights
    from ragsmith.effects.knowledge import describe_pipeline

    knowledge = read_effects(effects)
    parts: dict[str, Sequence[Any]] = (
        {}
        if validate
        else {
            "effects": option_effects(knowledge),
            "pairs": pair_effects(knowledge),
            "weights": signal_weights(knowledge),
        }
    )
    plain = {name: [asdict(row) for row in rows] for name, rows in parts.items()}
    checked = [{**asdict(one), "pipeline": describe_pipeline(one.pipeline)} for one in knowledge.checked]

    def print_text() -> None:
        if parts:
            _print_effects(knowledge, **parts)
        _print_validation(knowledge)

    show_result(as_json, {**plain, "checked": checked, "stale": list(knowledge.stale)}, print_text)


def _print_effects(knowledge: Knowledge, effects: Sequence[Any], pairs: Sequence[Any], weights: Sequence[Any]) -> None:
    for row in knowledge.observed:
        has = "R and G" if "generation" in row.means else "R"
        counts = f"{len(row.pipelines)} pipelines on {row.questions} search questions in {row.groups} groups"
        print_line(f"{row.name}: {row.corpus.kind}, {counts}, {has}")
    drawn = (
        f"drawn from the space {knowledge.made['space']!r} with seed {knowledge.made['seed']}"
        if knowledge.made
        else None
    )
    print_lines(drawn, "")
    head = ["option", "alone", "se", "in hybrid + cross_encoder", "se", "between sets", "calls", "data sets"]
    rows = [
        [
            row.option + " (stale)" * row.stale,
            f"{row.alone:+.4f}",
            f"{row.alone_se:.4f}",
            f"{row.usual:+.4f}",
            f"{row.usual_se:.4f}",
            f"{row.between:.4f}",
            f"{row.calls:+.1f}",
            str(row.datasets),
        ]
        for row in effects
    ]
    print_rows(rows, head, frozenset(range(1, len(head))))
    print_lines("", "most certain interactions: the gain of a pair in naive RAG minus the gains of each alone")
    rows = [[row.first, row.second, f"{row.gain:+.4f}", f"{row.sd:.4f}"] for row in pairs]
    print_rows(rows, ["technique", "with", "gain", "sd on a new set"], frozenset({2, 3}))
    _print_weights(weights)
    if knowledge.stale:
        print_lines("", f"stale, as the code has changed since: {', '.join(knowledge.stale)}: learn again")
    print_line()


def _print_weights(weights: Sequence[SignalWeight]) -> None:
    """Print the weights of learned rankings: a table for each technique, with a bar for each weight."""
    longest = max((abs(row.weight) for row in weights), default=1.0)
    for technique in dict.fromkeys(row.technique for row in weights):
        print_line()
        print_line(f"weights of the signals of {technique}, per standard deviation among the candidates of a question:")
        rows = [
            [
                row.signal.replace("_", " "),
                f"{row.weight:+.3f}",
                f"{row.least:+.3f} to {row.most:+.3f}",
                ("█" if row.weight > 0 else "░") * round(BAR_WIDTH * abs(row.weight) / longest),
            ]
            for row in weights
            if row.technique == technique
        ]
        print_rows(rows, ["signal", "weight", "without one data set", ""], frozenset({1, 2}))


def _print_validation(knowledge: Knowledge) -> None:
    from ragsmith.effects import pool_gains
    from ragsmith.effects.knowledge import describe_pipeline

    if not knowledge.checked:
        print_line("no validation: at least three data sets with answers are needed to leave one out")
        return
    print_line("the recommendation of the other data sets for each, and its gain over BM25 on the search questions:")
    head = ["data set", "most calls", "expected", "sd", "gain", "95 % interval", "calls", "pipeline"]
    rows = [
        [
            row.dataset,
            str(row.most_calls or "any"),
            f"{row.expected:+.4f}",
            f"{row.sd:.4f}",
            f"{row.gain:+.4f}" + " (R)" * (row.measure == "retrieval"),
            numbers.interval(row.low, row.high, sign=True, digits=4),
            f"{row.calls:.1f}",
            describe_pipeline(row.pipeline),
        ]
        for row in knowledge.checked
    ]
    print_rows(rows, head, frozenset({2, 3, 4, 6}), fold=True)
    print_line()
    for most, gain in pool_gains(knowledge.checked).items():
        gains = f"{gain.mean:+.4f} {numbers.interval(gain.low, gain.high, sign=True, digits=4)}"
        print_line(
            f"{describe_calls(most)}: {gains}, above BM25 on {gain.above} of {gain.datasets} data sets with answers"
        )
