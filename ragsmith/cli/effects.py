"""``ragsmith effects show | learn``: what options are worth, as learned on data sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, WorkersOption, merged
from ragsmith.cli.output import note, say, say_json, say_table
from ragsmith.cli.recommend import EffectsOption, in_calls
from ragsmith.text.numbers import interval
from ragsmith.text.table import Table, counts, figures, texts

if TYPE_CHECKING:
    from ragsmith.effects import Knowledge
    from ragsmith.effects.showing import OptionEffect, SignalWeight

BAR = 24
"""Characters of the bar of the largest weight."""

GAIN, ERROR = "{:+.4f}".format, "{:.4f}".format
"""How gains and their standard errors are written."""

commands = typer.Typer(
    help="What options of pipelines are worth, learned on data sets.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="effects")


@commands.command()
def show(
    effects: EffectsOption = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Only what the pipelines gain that the other data sets name for each.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what options and pairs of them gain, how that differs between data sets, and how it did on data left out."""
    from ragsmith.effects import effects_of, pairs_of, read, weights_of

    known = read(effects)
    found, pairs = ([], []) if validate else (effects_of(known), pairs_of(known))
    weights = [] if validate else weights_of(known)
    if as_json:
        parts: dict[str, Sequence[Any]] = {"effects": found, "pairs": pairs, "weights": weights}
        effects_plain = {} if validate else {name: [asdict(row) for row in rows] for name, rows in parts.items()}
        say_json({**effects_plain, "checked": _plain(known), "stale": list(known.stale)})
        return
    if not validate:
        for one in known.observed:
            has = "R and G" if "generation" in one.means else "R"
            asked = f"{len(one.pipelines)} pipelines on {one.questions} search questions in {one.groups} groups"
            say(f"{one.name}: {one.corpus.kind}, {asked}, {has}")
        if known.made:
            say(f"drawn from the space {known.made['space']!r} with seed {known.made['seed']}")
        say()
        say_table(_options(found))
        say()
        say("pairs that change each other's gain most surely: in naive RAG, together less each alone")
        columns = (*texts("technique", "with"), *figures(GAIN, "gain"), *figures(ERROR, "sd on a new set"))
        say_table(Table("pairs", columns, [(one.first, one.second, one.gain, one.sd) for one in pairs]))
        _say_weights(weights)
        if known.stale:
            say()
            say(f"stale, as the code has changed since: {', '.join(known.stale)}: learn again")
        say()
    _say_checked(known)


def _options(found: Sequence[OptionEffect]) -> Table:
    columns = (
        *(*texts("option"), *figures(GAIN, "alone"), *figures(ERROR, "se")),
        *(*figures(GAIN, "in hybrid + cross_encoder"), *figures(ERROR, "se", "between sets")),
        *(*figures("{:+.1f}".format, "calls"), *counts("data sets")),
    )
    rows = [
        (
            *(one.option + " (stale)" * one.stale, one.alone, one.alone_se, one.usual, one.usual_se),
            *(one.between, one.calls, one.datasets),
        )
        for one in found
    ]
    return Table("options", columns, rows)


def _say_weights(weights: Sequence[SignalWeight]) -> None:
    """Print what a learned ranking goes by: a table for each technique, with a bar for each weight."""
    longest = max((abs(one.weight) for one in weights), default=1.0)
    for technique in dict.fromkeys(one.technique for one in weights):
        say()
        say(f"weights of the signals of {technique}, per standard deviation among the candidates of a question:")
        rows = [
            (
                *(one.signal.replace("_", " "), one.weight, f"{one.least:+.3f} to {one.most:+.3f}"),
                ("█" if one.weight > 0 else "░") * round(BAR * abs(one.weight) / longest),
            )
            for one in weights
            if one.technique == technique
        ]
        columns = (*texts("signal"), *figures("{:+.3f}".format, "weight"), *counts("without one data set"), *texts(""))
        say_table(Table(technique, columns, rows))


def _plain(known: Knowledge) -> list[dict[str, Any]]:
    from ragsmith.effects.knowledge import in_words

    return [{**asdict(one), "pipeline": in_words(one.pipeline)} for one in known.checked]


def _say_checked(known: Knowledge) -> None:
    from ragsmith.effects import pooled
    from ragsmith.effects.knowledge import in_words

    if not known.checked:
        say("nothing was checked: at least three data sets with answers are needed to leave one out")
        return
    say("what the other data sets name for each, and what it gains over BM25 on the search questions there:")
    columns = (
        *(*texts("data set", "most calls"), *figures(GAIN, "expected"), *figures(ERROR, "sd"), *counts("gain")),
        *(*texts("95 % interval"), *figures("{:.1f}".format, "calls"), *texts("pipeline")),
    )
    rows = [
        (
            *(one.dataset, one.most_calls or "any", one.expected, one.sd),
            f"{one.gain:+.4f}" + " (R)" * (one.measure == "retrieval"),
            *(interval(one.low, one.high, sign=True, digits=4), one.calls, in_words(one.pipeline)),
        )
        for one in known.checked
    ]
    say_table(Table("checked", columns, rows), fold=True)
    say()
    for most, its in pooled(known.checked).items():
        gains = f"{its.mean:+.4f} {interval(its.low, its.high, sign=True, digits=4)}"
        say(f"{in_calls(most)}: {gains}, above BM25 on {its.above} of {its.datasets} data sets with answers")


@commands.command()
@merged
def learn(
    *,
    datasets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATASET]...", help="Bundled names or folders. [default: all bundled]"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("effects.json"),
    pipelines: Annotated[int, typer.Option(help="Pipelines to evaluate on each data set.")] = 96,
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "default",
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    models: ModelFlags,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Learn what options are worth on the search questions of data sets; what the cache has is not computed again."""
    import ragsmith

    learned = ragsmith.learn_effects(
        datasets or None,
        output=output,
        pipelines=pipelines,
        space=space,
        seed=seed,
        **models.given(),
        workers=workers,
        cache=cache,
        on_progress=lambda name, done, total: note(f"{name}: {done} of {total} pipelines"),
    )
    if as_json:
        say_json({"effects": str(output), "checked": _plain(learned)})
        return
    _say_checked(learned)
    say(str(output))
