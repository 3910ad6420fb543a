"""``ragsmith dataset draft``."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.dataset.app import commands
from ragsmith.cli.interrupts import INTERRUPTED, NOT_YET_WRITTEN, interrupted_with
from ragsmith.cli.listing import listing
from ragsmith.cli.options import (
    CACHE,
    BaseUrlOption,
    BudgetFlags,
    CacheOption,
    ImportsOption,
    JsonOption,
    RoleFlags,
    ThinkingOption,
    merged,
)
from ragsmith.cli.output import note, say, say_json

if TYPE_CHECKING:
    from ragsmith.extensions import Extension
    from ragsmith.labelling.drafting.asking import DraftingPlan
    from ragsmith.labelling.drafting.drafting import Drafted


@dataclass(frozen=True)
class ChatFlags:
    """The chat model that drafts, and how it is asked."""

    imports: ImportsOption = None
    models: Annotated[
        Path | None, typer.Option("--models", help="A YAML file; its language_model drafts. Flags go before it.")
    ] = None
    llm: Annotated[
        str | None,
        typer.Option("--llm", help="The chat model that drafts and checks, as openai:MODEL; one has to be named."),
    ] = None
    base_url: BaseUrlOption = None
    thinking_tokens: ThinkingOption = None

    def by_role(self) -> RoleFlags:
        """The same as flags of all roles, of which drafting has one."""
        return RoleFlags(models=self.models, llm=self.llm, thinking_tokens=self.thinking_tokens)


def _methods() -> Iterable[Extension]:
    from ragsmith.labelling.drafting.registry import METHODS

    return METHODS


@commands.command(cls=listing("Methods", _methods))
@merged
def draft(
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A data set, which need not have questions yet.")],
    questions: Annotated[int, typer.Option(help="Drafted questions that it shall have.")] = 100,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            help="A method listed below, as NAME or NAME(option=value); several may be given. [default: all]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the order in which passages are read.")] = 0,
    chat: ChatFlags,
    budget: BudgetFlags,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again what was refused or could not be read.")
    ] = False,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Have a chat model draft questions with answers and evidence; the same command goes on where it stopped."""
    import ragsmith

    with interrupted_with(NOT_YET_WRITTEN):
        drafted = ragsmith.draft_questions(
            folder,
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
            on_plan=None if as_json else _say_plan,
            on_progress=None if as_json else _say_progress,
        )
    if as_json:
        say_json(_plain(drafted))
    else:
        _say_drafted(drafted, questions)
    if drafted.paused:
        note(f"paused: {drafted.paused}.")
        raise typer.Exit(INTERRUPTED)


def _say_plan(plan: DraftingPlan) -> None:
    note(
        f"{plan.wanted:,} drafts have to pass, of {plan.passages:,} passages: {plan.least:,} requests if each does, "
        f"never more than {plan.most:,}, errors of the server apart; what is in the cache is not sent"
    )


def _say_progress(drafts: int, passed: int, wanted: int) -> None:
    note(f"{drafts:>6,} drafts  {passed:>6,} of {wanted:,} passed")


def _plain(drafted: Drafted) -> dict[str, object]:
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


def _say_drafted(drafted: Drafted, wanted: int) -> None:
    folder = drafted.folder
    say(f"{folder}: {len(drafted.added)} questions drafted, {drafted.drafts + len(drafted.added)} in all")
    for name, count in drafted.types.items():
        say(f"  {count:>5} {name}")
    short = wanted - drafted.drafts - len(drafted.added)
    if short > 0 and not drafted.paused:
        say(f"{short} fewer than the {wanted} asked for: no other draft passes; more documents give more")
    if drafted.refused:
        say(f"{sum(drafted.refused.values())} refused, and why each was in {folder / 'rejected.jsonl'}")
    for name, count in drafted.refused.items():
        say(f"  {count:>5} {name}")
    if drafted.left:
        say(f"{drafted.left} more passed: they are there when more --questions are asked for")
    kinds = Counter((failure.prompt, failure.kind) for failure in drafted.failures)
    if kinds:
        say(f"{kinds.total()} requests without a reply of use; --retry-failed asks them again")
    for (prompt, kind), count in kinds.items():
        last = next(
            failure for failure in reversed(drafted.failures) if (failure.prompt, failure.kind) == (prompt, kind)
        )
        say(f"  {count:>5} {prompt}, {kind}: {last.reason}")
    replies, spent = drafted.replies, drafted.spent
    money = f", {spent.cost:.4f} in money" if spent.cost else ""
    say(f"{replies.asked:,} replies wanted, {replies.stored:,} of them in the cache, {replies.made:,} made now")
    say(f"{spent.calls:,} requests sent so far, {spent.tokens:,} tokens{money}")
    if drafted.found + len(drafted.added):
        say(f"review it  ragsmith dataset review {shlex.quote(str(folder))}")
        say(f"search it  ragsmith search --dataset {shlex.quote(str(folder))}")
