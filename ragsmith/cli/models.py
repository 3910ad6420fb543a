"""``ragsmith models list | check``: list the supported models, and check that models answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import FaithfulnessOption, ImportsOption, JsonOption, RoleFlags, merged
from ragsmith.cli.output import note, say, say_folded, say_lines, show_result, table
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.runs.check import ModelCheck

commands = typer.Typer(
    help="Models: generators, controllers, judges, embedders and rerankers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(commands, name="models")


@commands.callback()
def models() -> None:
    """Models: generators, controllers, judges, embedders and rerankers."""


@commands.command("list")
def list_models(*, imports: ImportsOption = None, as_json: JsonOption = False) -> None:
    """List the supported models of each role, their options, and the environment variables of their keys."""
    from ragsmith.models.registry import ROLE_LABELS, ROLES, providers

    every = [declared for role in dict.fromkeys(ROLES.values()) for declared in providers(role).values()]
    plain = [
        {
            "role": declared.role,
            "name": declared.form,
            "options": {name: {"shapes_results": its.shapes} for name, its in declared.options.items()},
            "keys": declared.service.keys,
            "base_url": declared.service.base_url,
            "extra": declared.extra or None,
        }
        for declared in every
    ]
    rows = [
        [ROLE_LABELS[its.role], its.form, ", ".join(its.service.keys), ", ".join(its.options) or "none"]
        for its in every
    ]
    show_result(as_json, plain, lambda: table(rows, ["role", "model", "key", "options"]))


@commands.command()
@merged
def check(
    *,
    models: RoleFlags,
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "default",
    faithfulness: FaithfulnessOption = None,
    cache: Annotated[
        str | None,
        typer.Option("--cache", help="Cache that stores what is learned about the models, for later searches."),
    ] = None,
    judge_cases: Annotated[
        bool,
        typer.Option("--judge-cases/--no-judge-cases", help="Have the judge score 180 answers with a known order."),
    ] = True,
    calibration: Annotated[
        list[str] | None,
        typer.Option(
            "--calibration",
            help="Have the judge score right and wrong answers to the questions of an annotated data set, by name or "
            "folder, or of all annotated domains; may be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send every model one request per task of a search, and report which work and what was learned about them."""
    found = ragsmith.check_models(
        models.by_role(),
        space=space,
        base_url=models.base_url,
        faithfulness=faithfulness,
        judge_cases=judge_cases,
        calibration=calibration or (),
        cache=cache,
        on_start=_say_requests,
    )
    show_result(as_json, _checks_json(found), lambda: _say_checks(found))
    if not all(checked.ok for checked in found):
        raise typer.Exit(1)


def _checks_json(found: Sequence[ModelCheck]) -> list[dict[str, Any]]:
    return [{**asdict(one), "calibrated": [its.plain() for its in one.calibrated], "ok": one.ok} for one in found]


def _say_checks(found: Sequence[ModelCheck]) -> None:
    of_role = Counter(checked.role for checked in found)
    called = [one.role if of_role[one.role] == 1 else f"{one.role} {_known_as(one)}" for one in found]
    _say_table(called, found)
    for name, checked in zip(called, found, strict=True):
        say_lines(*_problem_lines(name, checked), *([] if checked.problem else _capability_lines(checked)))
        _say_calibrated(checked)


def _say_calibrated(checked: ModelCheck) -> None:
    """Print the accuracy of the judge on each data set: the classification and the order of right and wrong answers."""
    from ragsmith.measures.judge_calibration import pooled

    each = checked.calibrated
    if not each:
        return
    say()
    rows = []
    for one in (*each, *([pooled(each)] if len(each) > 1 else [])):
        for name, shares in (("classified correctly", one.accuracy), ("scored below the right one", one.ordered)):
            cells = []
            for kind in one.accuracy:
                its = shares.get(kind)
                low, high = (its and its.interval) or (None, None)
                value = numbers.plain(its.value if its else None, 2)
                cells.append(f"{value} {numbers.interval(low, high, digits=2)}".strip())
            rows.append([one.dataset, name, *cells])
    counts = ", ".join(f"{share.n:,} {kind}" for kind, share in pooled(each).accuracy.items())
    table(rows, ["data set", "share of answers", *each[0].accuracy], frozenset(range(2, 2 + len(each[0].accuracy))))
    unread = sum(one.unread for one in each)
    missing = f"; {unread:,} verdicts are missing" if unread else ""
    say_folded(f"(95 % intervals; scores above the middle of the scale count as right; {counts}{missing})")


def _say_requests(requests: int) -> None:
    if requests:
        note(f"sending up to {requests} requests, and one more for each truncated reply and each refused parameter")


def _known_as(checked: ModelCheck) -> str:
    """Return the identifier of a model; the name of an embedded one, whose identifier depends on a corpus."""
    return checked.id if checked.id and ":" in checked.name else checked.name


def _say_table(called: Sequence[str], found: Sequence[ModelCheck]) -> None:
    """Print a row for each language task, and for each other model; ``called`` has the names of the models."""
    rows = []
    for name, checked in zip(called, found, strict=True):
        for task in checked.tasks:
            answers = "no" if task.problem else "ok, cut once" if task.requests > 1 else "ok"
            counts = task.usage.input_tokens, task.usage.output_tokens, task.thought_tokens
            shown = [f"{count:,}" if count else "" for count in counts]
            rows.append([name, task.task, answers, *shown, f"{task.seconds:.2f}"])
        if not checked.tasks:
            seconds = "" if checked.seconds is None else f"{checked.seconds:.2f}"
            rows.append([name, "", "no" if checked.problem else "ok", "", "", "", seconds])
    head = ["role", "task", "answers", "tokens in", "tokens out", "thinking", "seconds"]
    table(rows, head, frozenset({3, 4, 5, 6}))


def _problem_lines(called: str, checked: ModelCheck) -> list[str]:
    """Return a line for each distinct problem, with its tasks."""
    by_problem: dict[str, list[str]] = {}
    for task in checked.tasks:
        if task.problem:
            by_problem.setdefault(task.problem, []).append(task.task)
    whole = [f"{called}: {checked.problem}"] if checked.problem else []
    return [*whole, *(f"{called}, {', '.join(tasks)}: {problem}" for problem, tasks in by_problem.items())]


def _capability_lines(checked: ModelCheck) -> list[str]:
    """Return the lines about the capabilities of a model, with the entry for a file of models."""
    from ragsmith.models.served.openai_chat import REFUSABLE

    thinking = checked.thinking_tokens
    refused = {name: REFUSABLE.get(name) for name in checked.refuses}
    learnt = [
        _known_as(checked),
        *([] if checked.dimensions is None else [f"{checked.dimensions} dimensions"]),
        *(f"takes {instead} for {name}" if instead else f"refuses {name}" for name, instead in refused.items()),
        *([f"needs {thinking:,} tokens to think, which a search learns; in a file of models:"] if thinking else []),
    ]
    return [
        f"{checked.role}: {'; '.join(learnt)}",
        *([f"    {checked.role}: {{model: {checked.name!r}, thinking_tokens: {thinking}}}"] if thinking else []),
        *([] if checked.judged is None else [f"judge: {checked.judged}"]),
    ]
