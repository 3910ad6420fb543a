"""``ragsmith ask | evaluate | verify``: an exported pipeline at work."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, WorkersOption, merged
from ragsmith.cli.output import note, say, say_json, table

if TYPE_CHECKING:
    from ragsmith.evaluation.evaluator import Evaluation
    from ragsmith.runs.pipeline import Pipeline

PipelineArgument = Annotated[Path, typer.Argument(help="An exported pipeline (winner.yaml).")]
OtherDataset = Annotated[str | None, typer.Option("--dataset", help="Other documents than the exported ones.")]


def _load(path: Path, dataset: str | None, models: ModelFlags) -> Pipeline:
    """An exported pipeline with the models it names, but for those that flags name otherwise."""
    from ragsmith.runs.pipeline import Pipeline

    return Pipeline.load(
        path,
        dataset=dataset,
        models=models.by_role(),
        base_url=models.base_url,
        vector_store=models.vector_store,
    )


@contextmanager
def _remembering(pipeline: Pipeline, cache: str) -> Iterator[Pipeline]:
    """``pipeline``, with replies kept in the cache where a model is paid for."""
    from ragsmith.store.store import Store

    if not pipeline.setup.loaded_models.waits:
        yield pipeline
        return
    with Store.open(cache) as store:
        pipeline.remember(store)
        yield pipeline


@app.command()
@merged
def ask(
    *,
    pipeline: PipelineArgument,
    question: Annotated[str, typer.Argument(help="The question.")],
    dataset: OtherDataset = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, with the passages the answer rests on."""
    with _remembering(_load(pipeline, dataset, models), cache) as loaded:
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
@merged
def evaluate(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    latency: Annotated[
        bool, typer.Option("--latency", help="Also time every question; models are asked anew.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Score a pipeline on the questions of its data set, or of another."""
    from ragsmith.datasets.splits import split
    from ragsmith.store.store import Store

    loaded = _load(pipeline, dataset, models)
    data = loaded.setup.dataset
    parts = {"all": data.examples}
    if dataset is None and split(data).test:  # at home, the search questions chose it and the test questions did not
        parts = {"search": split(data).search, "test": split(data).test}
    workers = workers or loaded.setup.models.workers()
    with Store.open(cache) as store:
        found = {part: loaded.evaluate(store, examples, workers=workers) for part, examples in parts.items()}
    timed = _latencies(loaded) if latency else []
    if as_json:
        scores = {part: _scores(loaded, found[part]) for part in found}
        say_json({"dataset": data.name, **scores, **({"latency": timed} if latency else {})})
    for part, evaluation in () if as_json else found.items():
        _say_scores(f"{data.name}, {part} questions", _scores(loaded, evaluation))
    if timed and not as_json:
        head = ["questions", "n", "median ms", "95th percentile ms"]
        rows = [[t["questions"], str(t["n"]), f"{t['median_ms']:.1f}", f"{t['p95_ms']:.1f}"] for t in timed]
        table(rows, head, frozenset({1, 2, 3}))
    if not all(evaluation.complete for evaluation in found.values()):
        raise typer.Exit(1)


def _latencies(loaded: Pipeline) -> list[dict[str, Any]]:
    """Median and 95th percentile of the seconds a question takes: of all, by type, and by kind of document."""
    from collections import defaultdict

    import numpy as np

    setup = loaded.setup
    groups: dict[str, list[float]] = defaultdict(list)
    for question, seconds in loaded.latencies(setup.dataset.examples).items():
        example = setup.examples[question]
        for group in ("all", f"type {example.type}", f"evidence in {setup.modality(example)}"):
            groups[group].append(1000 * seconds)
    return [
        {
            "questions": group,
            "n": len(values),
            "median_ms": float(np.median(values)),
            "p95_ms": float(np.quantile(values, 0.95)),
        }
        for group, values in sorted(groups.items(), key=lambda item: (item[0] != "all", item[0]))
    ]


def _scores(loaded: Pipeline, evaluation: Evaluation) -> dict[str, Any]:
    from ragsmith.evaluation.fitness import HEADLINE
    from ragsmith.evaluation.statistics import bootstrap_interval

    metrics = {}
    for metric in (*HEADLINE, *evaluation.measures):
        if values := evaluation.values(metric, loaded.fitness):
            low, high = bootstrap_interval(values)
            metrics[metric] = {"mean": math.fsum(values) / len(values), "low": low, "high": high}
    return {
        "attempted": len(evaluation.questions),
        "scored": len(evaluation.records),
        "failed": len(evaluation.failures),
        "metrics": metrics,
        "failures": evaluation.failures,
    }


def _say_scores(title: str, scores: dict[str, Any]) -> None:
    say(f"{title}: {scores['attempted']} attempted = {scores['scored']} scored + {scores['failed']} failed")
    rows = [[name, f"{m['mean']:.4f}", f"{m['low']:.4f} .. {m['high']:.4f}"] for name, m in scores["metrics"].items()]
    table(rows, ["metric", "mean", "95 % interval"], frozenset({1}))
    for question, failure in scores["failures"].items():
        say(f"{question} failed in {failure['stage']}: {failure['error']}")
    say()


@app.command()
@merged
def verify(
    *,
    pipeline: PipelineArgument,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline again and compare with the scores it was exported with."""
    from ragsmith.runs.pipeline import TOLERANCE

    with _remembering(_load(pipeline, None, models), cache) as loaded:
        differences = loaded.verify()
    parts = ", ".join(f"{scores['questions']} {part} questions" for part, scores in loaded.expected.items())
    changed = loaded.changed_models()
    for role, (then, now) in changed.items():
        note(f"the {role.replace('_', ' ')} is not what it was: {then} then, {now} now")
    if as_json:
        found = [asdict(difference) for difference in differences]
        say_json({"verified": not differences, "differences": found, "changed_models": changed})
    elif not differences:
        say(f"verified: every score is reproduced to {TOLERANCE:g} on {parts}")
    for difference in () if as_json else differences:
        say(f"{difference.part} {difference.metric}: exported {difference.expected!r}, now {difference.found!r}")
    if differences:
        raise typer.Exit(1)
