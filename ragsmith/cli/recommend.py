"""``ragsmith recommend``: a pipeline for documents without any question."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import JsonOption, ModelFlags, merged
from ragsmith.cli.output import say, say_folded, say_json
from ragsmith.errors import WrongOption

if TYPE_CHECKING:
    from ragsmith.effects import Recommendation

EffectsOption = Annotated[
    Path | None, typer.Option("--effects", help="A file of learned effects. [default: what ships with ragsmith]")
]


@app.command()
@merged
def recommend(
    *,
    folder: Annotated[str, typer.Argument(help="A folder of documents, or a data set: a folder, or a bundled name.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("winner.yaml"),
    calls: Annotated[
        str, typer.Option(help="Calls of a language model a question, at most, for the file: 1, 2, ... or any.")
    ] = "any",
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "default",
    effects: EffectsOption = None,
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Name a pipeline for documents without any question, by what was learned on other data sets."""
    from ragsmith.effects.recommending import alike

    if calls != "any" and (not calls.isdecimal() or int(calls) < 1):
        raise WrongOption("calls", f"is {calls!r}: give a number from 1 on, or any")
    most = None if calls == "any" else int(calls)
    found = ragsmith.recommend(folder, output=output, calls=most, space=space, effects=effects, **models.arguments())
    if as_json:
        say_json({**found.plain(), "winner": str(output)})
        return
    corpus = found.corpus
    say(
        f"{corpus.documents:,} documents, {corpus.characters:,} characters: {corpus.kind}, "
        f"{corpus.language or 'in no language that is recognised'}"
    )
    own = f", without {', '.join(found.left_out)}, whose documents overlap with these" if found.left_out else ""
    say_folded(f"learned on {', '.join(found.learned_on)}{own}")
    for reason in found.chosen.unlike:
        say_folded(f"take care: {reason}")
    for one, *more in alike(found.classes):
        say()
        _say(one, more)
    say()
    say(f"{output}: the pipeline of {in_calls(most)}")


def in_calls(most: int | None) -> str:
    """A class of costs in words."""
    return "any number of calls" if most is None else f"at most {most} call{'s' if most > 1 else ''}"


def _say(one: Recommendation, more: Sequence[Recommendation]) -> None:
    """Print what is recommended for ``one`` class of costs, and for ``more`` that allow more calls."""
    from ragsmith.pipelines.genes import label
    from ragsmith.text import numbers

    too = f", and the same with {in_calls(more[-1].most_calls)}" if more else ""
    say_folded(f"{in_calls(one.most_calls)} a question{too}: {label(one.candidate) or 'naive RAG'}")
    say(
        f"  {one.calls:.1f} calls; expected over BM25 {one.gain:+.3f} ± {one.sd:.3f} fitness "
        f"(95 %: {numbers.interval(one.low, one.high, sign=True)})"
    )
    if one.reasons:
        say("  what it would be expected to lose without each option:")
    for reason in one.reasons:
        say(f"  {reason.gain:+.3f} ± {reason.sd:.3f}  {reason.option}, learned on {reason.datasets} data sets")
