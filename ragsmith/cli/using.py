"""``ragsmith ask | evaluate | verify``: an exported pipeline at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.app import CACHE, CacheOption, JsonOption, app, say, say_json, table

if TYPE_CHECKING:
    from ragsmith.exported import Pipeline

PipelineArgument = Annotated[Path, typer.Argument(help="An exported pipeline (winner.yaml).")]
OtherDataset = Annotated[str | None, typer.Option("--dataset", help="Other documents than the exported ones.")]
BaseUrl = Annotated[str | None, typer.Option(help="An OpenAI-compatible server, where the pipeline uses one.")]


@contextmanager
def _loaded(path: Path, dataset: str | None, cache: str, base_url: str | None) -> Iterator[Pipeline]:
    """An exported pipeline; where its model is paid for, replies are kept in the cache."""
    from ragsmith.exported import Pipeline
    from ragsmith.store import Store

    pipeline = Pipeline.load(path, dataset=dataset, base_url=base_url)
    if not pipeline.setup.loaded_models.waits:
        yield pipeline
        return
    with Store.open(cache) as store:
        pipeline.remember(store)
        yield pipeline


@app.command()
def ask(
    pipeline: PipelineArgument,
    question: Annotated[str, typer.Argument(help="The question.")],
    dataset: OtherDataset = None,
    cache: CacheOption = str(CACHE),
    base_url: BaseUrl = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, with the passages the answer rests on."""
    with _loaded(pipeline, dataset, cache, base_url) as loaded:
        reply = loaded.ask(question)
    if as_json:
        say_json(asdict(reply))
        return
    for line in reply.answer.splitlines():
        say(line)
    cited = [source for source in reply.sources if source.cited]
    say()
    say("rests on" if cited else "was shown, and cites none of")
    for source in cited or reply.sources:
        say()
        say(f"{source.doc} [{source.start}:{source.end}]  {source.title}")
        for line in source.text.splitlines():
            say(f"  | {line}")


@app.command()
def evaluate(
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    cache: CacheOption = str(CACHE),
    base_url: BaseUrl = None,
    as_json: JsonOption = False,
) -> None:
    """Score a pipeline on all questions of its data set, or of another."""
    from ragsmith.exported import METRICS, Pipeline
    from ragsmith.statistics import bootstrap_interval
    from ragsmith.store import Store

    loaded = Pipeline.load(pipeline, dataset=dataset, base_url=base_url)
    with Store.open(cache) as store:
        evaluation = loaded.evaluate(store)
    scored, attempted = len(evaluation.records), len(evaluation.questions)
    rows = {}
    for metric in METRICS:
        values = evaluation.values(metric, loaded.weights)
        if values:
            low, high = bootstrap_interval(values)
            rows[metric] = {"mean": sum(values) / len(values), "low": low, "high": high}
    if as_json:
        say_json(
            {
                "dataset": loaded.setup.dataset.name,
                "attempted": attempted,
                "scored": scored,
                "failed": attempted - scored,
                "metrics": rows,
                "failures": evaluation.failures,
            }
        )
    else:
        say(f"{loaded.setup.dataset.name}: {attempted} questions, {scored} scored, {attempted - scored} failed")
        cells = [[metric, f"{r['mean']:.4f}", f"{r['low']:.4f} .. {r['high']:.4f}"] for metric, r in rows.items()]
        table(cells, ["metric", "mean", "95 % interval"], frozenset({1}))
        for question, failure in evaluation.failures.items():
            say(f"{question} failed in {failure['stage']}: {failure['error']}")
    if scored < attempted:
        raise typer.Exit(1)


@app.command()
def verify(
    pipeline: PipelineArgument,
    cache: CacheOption = str(CACHE),
    base_url: BaseUrl = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline again and compare with the scores it was exported with."""
    from ragsmith.exported import TOLERANCE

    with _loaded(pipeline, None, cache, base_url) as loaded:
        differences = loaded.verify()
    parts = ", ".join(f"{scores['questions']} {part} questions" for part, scores in loaded.expected.items())
    if as_json:
        say_json({"verified": not differences, "differences": [asdict(d) for d in differences]})
    elif not differences:
        say(f"verified: every score is reproduced to {TOLERANCE:g} on {parts}")
    for difference in () if as_json else differences:
        say(f"{difference.part} {difference.metric}: exported {difference.expected!r}, now {difference.found!r}")
    if differences:
        raise typer.Exit(1)
