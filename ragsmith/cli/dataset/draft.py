"""``ragsmith dataset draft | review | check | gates``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import listing
from ragsmith.cli.dataset.app import commands
from ragsmith.cli.interrupts import EXIT_INTERRUPTED, NO_RESULT, NOT_YET_WRITTEN, interrupt_message
from ragsmith.cli.options import (
    CACHE,
    REPORTS,
    BaseUrlOption,
    BudgetFlags,
    CacheOption,
    DatasetArgument,
    ImportsOption,
    JsonOption,
    RoleFlags,
    ThinkingOption,
    expand_groups,
)
from ragsmith.cli.output import print_line, print_lines, print_stderr, show_result
from ragsmith.errors import WrongOption
from ragsmith.grouping import group_values

if TYPE_CHECKING:
    from ragsmith.labelling.drafting.asking import DraftingPlan
    from ragsmith.labelling.drafting.drafting import DraftingResult
    from ragsmith.labelling.reviewing.review import Review


@dataclass(frozen=True)
class ChatFlags:
    """The chat model that drafts, and its options."""

    imports: ImportsOption = None
    models: Annotated[
        Path | None, typer.Option("--models", help="YAML file whose language_model drafts. Flags override it.")
    ] = None
    llm: Annotated[
        str | None,
        typer.Option("--llm", help="The chat model that drafts and checks, as openai:MODEL; required."),
    ] = None
    base_url: BaseUrlOption = None
    thinking_tokens: ThinkingOption = None

    def by_role(self) -> RoleFlags:
        """Return the flags of all roles, with the drafting model as the language model."""
        return RoleFlags(models=self.models, llm=self.llm, thinking_tokens=self.thinking_tokens)


@commands.command(cls=listing("Methods", "ragsmith.labelling.drafting.registry", "METHODS"))
@expand_groups
def draft(
    *,
    dataset: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a data set, with or without questions.")],
    questions: Annotated[int, typer.Option(help="Target number of drafted questions.")] = 100,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="A method listed below, as NAME or NAME(option=value); may be repeated. [default: all]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the order of passages.")] = 0,
    chat: ChatFlags,
    budget: BudgetFlags,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Repeat requests that were refused, or whose replies could not be read."),
    ] = False,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Draft questions with answers and evidence by a chat model; the same command resumes."""
    with interrupt_message(NOT_YET_WRITTEN):
        drafted = ragsmith.draft_questions(
            dataset,
            questions=questions,
            methods=methods or (),
            seed=seed,
            models=chat.by_role().by_role(),
            base_url=chat.base_url,
            limits=budget.limits(),
            prices=budget.prices,
            accept_spent=budget.accept_spent,
            retry_failed=retry_failed,
            cache=cache,
            on_plan=None if as_json else _print_plan,
            on_progress=None if as_json else _print_progress,
        )
    show_result(as_json, _drafted_json(drafted), lambda: _print_drafted(drafted, questions))
    if drafted.paused:
        print_stderr(f"paused: {drafted.paused}.")
        raise typer.Exit(EXIT_INTERRUPTED)


def _print_plan(plan: DraftingPlan) -> None:
    print_stderr(
        f"{plan.wanted:,} drafts are needed, from {plan.passages:,} passages: {plan.min_requests:,} requests if "
        f"all pass, at most {plan.max_requests:,}, not counting server errors; requests in the cache are not sent"
    )


def _print_progress(drafts: int, passed: int, wanted: int) -> None:
    print_stderr(f"{drafts:>6,} drafts  {passed:>6,} of {wanted:,} passed")


def _drafted_json(drafted: DraftingResult) -> dict[str, object]:
    return {
        "folder": str(drafted.folder),
        "questions": drafted.found + len(drafted.added),
        "drafted": drafted.drafts + len(drafted.added),
        "added": len(drafted.added),
        "types": dict(drafted.types),
        "made": dict(drafted.made),
        "known": drafted.known,
        "refused": dict(drafted.refused),
        "left": drafted.left,
        "failures": [asdict(failure) for failure in drafted.failures],
        "replies": asdict(drafted.replies),
        "spent": asdict(drafted.spent),
        **({"paused": drafted.paused} if drafted.paused else {}),
    }


def _print_drafted(drafted: DraftingResult, wanted: int) -> None:
    folder, replies, spent = drafted.folder, drafted.replies, drafted.spent
    total = drafted.drafts + len(drafted.added)
    missing = wanted - total
    kinds = group_values(((failure.prompt, failure.kind), failure.reason) for failure in drafted.failures)
    fewer = f"{missing} fewer than the {wanted} requested: no other draft passes; add documents to get more"
    refused = f"{sum(drafted.refused.values())} refused; the reasons are in {folder / 'rejected.jsonl'}"
    failed = f"{len(drafted.failures)} requests without a usable reply; --retry-failed repeats them"
    money = f", {spent.cost:.4f} in money" if spent.cost else ""
    quoted = shlex.quote(str(folder))
    print_lines(
        f"{folder}: {len(drafted.added)} questions drafted, {total} in all",
        *(f"  {count:>5} {name}" for name, count in drafted.types.items()),
        fewer if missing > 0 and not drafted.paused else None,
        refused if drafted.refused else None,
        *(f"  {count:>5} {name}" for name, count in drafted.refused.items()),
        f"{drafted.left} more passed, and are added with a higher --questions" if drafted.left else None,
        failed if kinds else None,
        *(f"  {len(reasons):>5} {prompt}, {kind}: {reasons[-1]}" for (prompt, kind), reasons in kinds.items()),
        f"{replies.asked:,} replies needed, {replies.stored:,} of them in the cache, {replies.made:,} generated now",
        f"{spent.calls:,} requests sent so far, {spent.tokens:,} tokens{money}",
    )
    if drafted.found + len(drafted.added):
        print_lines(
            f"review it  ragsmith dataset review {quoted}",
            f"search it  ragsmith search --dataset {quoted}",
        )


@commands.command()
def review(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a data set with drafted questions.")],
    reviewer: Annotated[
        str | None, typer.Option("--reviewer", help="Name of the reviewer. [default: your login name]")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the page, on this machine only; 0 for a free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Review drafted questions, least certain first: accept, edit or reject each."""
    from ragsmith.api.datasets import review as opened
    from ragsmith.labelling.reviewing.page.server import ReviewServer, serve_page
    from ragsmith.labelling.reviewing.review import login_name

    with opened(folder) as session:
        try:
            server = ReviewServer(session, login_name() if reviewer is None else reviewer, port)
            serve_page(server, browser=browser, say=print_stderr)
        finally:
            show_result(as_json, {"folder": str(session.folder), **session.counts()}, lambda: _print_counts(session))


def _print_counts(review: Review) -> None:
    counts, total = review.counts(), sum(review.counts().values())
    decided = ", ".join(f"{counts[state]} {state}" for state in ("accepted", "mended", "rejected"))
    print_line(
        f"{review.folder}: {total - counts['pending']} of {total} reviewed: {decided}; {counts['pending']} to go"
    )
    if not counts["pending"]:
        print_line(f"check it  ragsmith dataset check {shlex.quote(str(review.folder))}")


@commands.command()
def check(
    dataset: DatasetArgument,
    only: Annotated[list[str] | None, typer.Option(help="Gate to run; may be repeated.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="Gate to leave out; may be repeated.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="GATE.OPTION=VALUE", help="An option of a gate; see  ragsmith dataset gates."),
    ] = None,
    imports: ImportsOption = None,
    chunk_size: Annotated[int, typer.Option("--chunk-size", help="Maximum number of characters of a chunk.")] = 900,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings, too.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="File for the page with plots. [default: reports/NAME/check.html]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether a data set can tell good retrieval from bad; exit code 1 if a gate fails.

    `ragsmith dataset gates` lists the gates.
    """
    from ragsmith.labelling.checking.check import check_page, format_lines
    from ragsmith.text.writing import write_file

    data = ragsmith.load_dataset(dataset)
    page = html or REPORTS / data.name / "check.html"
    with interrupt_message(NO_RESULT):
        result = ragsmith.check_dataset(
            data,
            only=only or (),
            without=without or (),
            options=_parse_options(settings or ()),
            chunk_size=chunk_size,
        )
    plain = {**result.plain(), "passed": result.passed(strict=strict), "page": str(page)}
    show_result(as_json, plain, lambda: print_lines(*format_lines(result)))
    write_file(check_page(result), page)  # last: if it cannot be written, the findings are printed all the same
    if not as_json:
        print_line(str(page))
    if not result.passed(strict=strict):
        raise typer.Exit(1)


@commands.command()
def gates(imports: ImportsOption = None, as_json: JsonOption = False) -> None:
    """List the gates of `ragsmith dataset check`, with their options."""
    from ragsmith.labelling.checking.gates import GATES

    plain = [{"name": gate.name, "asks": gate.asks, "options": gate.options, "paper": gate.paper} for gate in GATES]
    options = ["".join(f"  {gate.name}.{option}={value}" for option, value in gate.options.items()) for gate in GATES]
    width = max(len(gate.name) for gate in GATES)
    lines = (
        f"{gate.name:<{width}}  {gate.asks}{gate_options}" for gate, gate_options in zip(GATES, options, strict=True)
    )
    show_result(as_json, plain, lambda: print_lines(*lines))


def _parse_options(settings: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return the options of gates from the command line; values are JSON, such as numbers, or else text."""
    by_gate: dict[str, dict[str, object]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        gate, dot, option = name.partition(".")
        if not (gate and dot and option and equals and text):
            raise WrongOption("set", f"is {setting!r}: give GATE.OPTION=VALUE, such as bm25.low=0.6")
        if option in by_gate.setdefault(gate, {}):
            raise WrongOption("set", f"gives {name} twice: give it once")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        by_gate[gate][option] = value
    return by_gate
