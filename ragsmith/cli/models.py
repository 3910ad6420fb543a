"""``ragsmith models list | check``: list the supported models, and check that models answer."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.commands import CommandTable
from ragsmith.cli.interrupts import interrupt_message
from ragsmith.cli.options import FaithfulnessOption, ImportsOption, JsonOption, RoleFlags, expand_groups
from ragsmith.cli.output import print_line, print_lines, print_rows, print_stderr, print_wrapped, show_result
from ragsmith.text import numbers
from ragsmith.text.terminal import aligned, widths

if TYPE_CHECKING:
    from ragsmith.measures.judge_calibration import Proportion
    from ragsmith.runs.check import ModelCheck

commands = CommandTable(
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
            "options": {
                name: {"shapes_results": provider.affects_results} for name, provider in declared.options.items()
            },
            "keys": declared.service.keys,
            "base_url": declared.service.base_url,
            "extra": declared.extra or None,
        }
        for declared in every
    ]
    rows = [
        [
            ROLE_LABELS[provider.role],
            provider.form,
            ", ".join(provider.service.keys),
            ", ".join(provider.options) or "none",
        ]
        for provider in every
    ]
    show_result(as_json, plain, lambda: print_rows(rows, ["role", "model", "key", "options"]))


@commands.command()
@expand_groups
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
    shown = _CheckTable(as_json)
    with interrupt_message("interrupted; what was found until then is shown, and usable replies are in a given cache."):
        try:
            ragsmith.check_models(
                models.by_role(),
                space=space,
                base_url=models.base_url,
                faithfulness=faithfulness,
                judge_cases=judge_cases,
                calibration=calibration or (),
                cache=cache,
                on_start=_print_requests,
                on_change=shown.update,
            )
        except KeyboardInterrupt:
            shown.print_results(interrupted=True)
            raise
    shown.print_results()
    if not all(result.ok for result in shown.checks):
        raise typer.Exit(1)


HEAD = ["role", "task", "answers", "tokens in", "tokens out", "thinking", "seconds"]
ASKED_AGAIN = "ok, asked again"


class _CheckTable:
    """The checks of models so far; unless they are printed as JSON, each row is printed when its task ends."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.checks: Sequence[ModelCheck] = ()
        self._printed: list[list[str]] = []

    def update(self, checks: Sequence[ModelCheck]) -> None:
        """Print the rows that are new in ``checks``; those of all tasks have the same widths."""
        self.checks = checks
        if not self._as_json:
            named = zip(_names(checks), checks, strict=True)
            every = [HEAD, *([name, task, ASKED_AGAIN, *HEAD[3:]] for name, one in named for task in one.planned)]
            rows = [HEAD, ["-" * width for width in widths(every)], *_rows(checks)]
            new = [row for row in rows if row not in self._printed]
            print_lines(*aligned([*every, *new], frozenset({3, 4, 5, 6}))[len(every) :])
            sys.stdout.flush()
            self._printed += new

    def print_results(self, *, interrupted: bool = False) -> None:
        """Print what was learned about the models, as JSON with the tasks."""
        checks = [_to_json(result) | {"interrupted": interrupted} for result in self.checks]
        show_result(self._as_json, checks, lambda: self._print_findings(interrupted))

    def _print_findings(self, interrupted: bool) -> None:
        for name, result in zip(_names(self.checks), self.checks, strict=True):
            print_lines(*_problem_lines(name, result), *([] if result.problem else _capability_lines(result)))
            print_wrapped(*(f"{name}, {task.task}: {task.remark}" for task in result.tasks if task.remark))
            print_wrapped(f"{name}: {result.roles}" if result.roles else None)
            print_wrapped(
                f"{name}, not asked: {', '.join(result.not_asked)}" if interrupted and result.not_asked else None
            )
            _print_calibration(result)


def _to_json(result: ModelCheck) -> dict[str, Any]:
    found = {"calibrated": [its.to_dict() for its in result.calibrated], "not_asked": result.not_asked}
    return {**asdict(result), **found, "ok": result.ok, "roles": result.roles}


def _print_calibration(checked: ModelCheck) -> None:
    """Print the accuracy of the judge on each data set: classification and order of right and wrong answers."""
    from ragsmith.measures.judge_calibration import pool_results

    each = checked.calibrated
    if not each:
        return
    print_line()
    rows = [
        [result.dataset, name, *(_format_share(shares.get(kind)) for kind in result.accuracy)]
        for result in (*each, *([pool_results(each)] if len(each) > 1 else []))
        for name, shares in (("classified correctly", result.accuracy), ("scored below the right one", result.ordered))
    ]
    counts = ", ".join(f"{share.n:,} {kind}" for kind, share in pool_results(each).accuracy.items())
    print_rows(
        rows, ["data set", "share of answers", *each[0].accuracy], frozenset(range(2, 2 + len(each[0].accuracy)))
    )
    unread = sum(result.unread for result in each)
    missing = f"; {unread:,} verdicts are missing" if unread else ""
    print_wrapped(f"(95 % intervals; scores above the middle of the scale count as right; {counts}{missing})")


def _format_share(share: Proportion | None) -> str:
    low, high = (share and share.interval) or (None, None)
    return f"{numbers.plain(share.value if share else None, 2)} {numbers.interval(low, high, digits=2)}".strip()


def _print_requests(requests: int) -> None:
    if requests:
        print_stderr(
            f"sending up to {requests} requests, and one more for each truncated or unreadable reply and each refused "
            "parameter"
        )


def _display_name(result: ModelCheck) -> str:
    """Return the identifier of a model; the name of an embedded model, whose identifier depends on the corpus."""
    return result.id if result.id and ":" in result.name else result.name


def _names(checks: Sequence[ModelCheck]) -> list[str]:
    """Return the roles, with the name of the model where several have the same."""
    of_role = Counter(result.role for result in checks)
    return [one.role if of_role[one.role] == 1 else f"{one.role} {one.name}" for one in checks]


def _rows(checks: Sequence[ModelCheck]) -> Iterator[list[str]]:
    """Yield a row for each task that has ended."""
    for name, task in ((name, task) for name, one in zip(_names(checks), checks, strict=True) for task in one.tasks):
        answers = "no" if task.problem or task.able is False else ASKED_AGAIN if task.requests > task.asked else "ok"
        counts = task.usage.input_tokens, task.usage.output_tokens, task.thought_tokens
        yield [name, task.task, answers, *(f"{n:,}" if n else "" for n in counts), f"{task.seconds:.2f}"]


def _problem_lines(name: str, result: ModelCheck) -> list[str]:
    """Return a line for each distinct problem, with its tasks."""
    tasks: dict[str, list[str]] = {
        problem: [task.task for task in result.tasks if task.problem == problem]
        for problem in dict.fromkeys(task.problem for task in result.tasks if task.problem)
    }
    whole = [f"{name}: {result.problem}"] if result.problem else []
    return [*whole, *(f"{name}, {', '.join(its)}: {problem}" for problem, its in tasks.items())]


def _capability_lines(result: ModelCheck) -> list[str]:
    """Return the lines about the capabilities of a model, with the entry for a file of models."""
    from ragsmith.models.served.openai_chat import FORM_TYPES, REFUSABLE_PARAMETERS

    thinking = result.thinking_tokens
    refused = {name: REFUSABLE_PARAMETERS[name] for name in result.refuses if name in REFUSABLE_PARAMETERS}
    no_form = [name.partition(" of ")[2] for name in result.refuses if name.partition(" of ")[0] == FORM_TYPES[1]]
    capabilities = [
        _display_name(result),
        *([] if result.dimensions is None else [f"{result.dimensions} dimensions"]),
        *(f"takes {instead} for {name}" if instead else f"refuses {name}" for name, instead in refused.items()),
        *([f"takes a schema as {FORM_TYPES[1]}"] if FORM_TYPES[0] in result.refuses and "" not in no_form else []),
        *(f"takes no schema{f' of {form}' if form else ''}: replies are read from text" for form in no_form),
        *([f"needs {thinking:,} tokens to think, which a search learns; in a file of models:"] if thinking else []),
    ]
    return [
        f"{result.role}: {'; '.join(capabilities)}",
        *([f"    {result.role}: {{model: {result.name!r}, thinking_tokens: {thinking}}}"] if thinking else []),
        *([] if result.judged is None else [f"judge: {result.judged}"]),
    ]
