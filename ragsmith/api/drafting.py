"""`draft_questions`: from documents to questions with evidence."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ragsmith.api.resources import CACHE, GivenModels, GivenPrices, Resources, read_given_prices
from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.gateway.budget import Budget, Limits, Spent, parse_spent
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.labelling.drafting.asking import DraftingPlan, ModelDrafting
from ragsmith.labelling.drafting.drafting import Drafted, draft_dataset
from ragsmith.labelling.drafting.registry import METHODS
from ragsmith.models.calls import is_chat_model
from ragsmith.models.loading import Loader
from ragsmith.models.names import EXTRACTIVE
from ragsmith.store.store import Store, open_store

NEEDS_MODEL = (
    "questions are drafted by a chat model: name one (--llm openai:NAME); without one, "
    "`ragsmith recommend {folder}` chooses a pipeline for the documents, and `ragsmith ask` answers with it"
)


def draft_questions(
    folder: str | Path,
    *,
    questions: int = 100,
    methods: Sequence[str] = (),
    seed: int = 0,
    models: GivenModels = None,
    base_url: str | None = None,
    limits: Limits | None = None,
    prices: GivenPrices = None,
    accept_spent: Spent | str | None = None,
    imports: Sequence[str | Path] = (),
    retry_failed: bool = False,
    cache: Store | str | Path = CACHE,
    on_plan: Callable[[DraftingPlan], None] | None = None,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Drafted:
    """Draft questions about the documents of a data set until it has ``questions`` that were drafted.

    >>> drafted = ragsmith.draft_questions("my_data", questions=50, models={"language_model": "openai:MODEL"})
    >>> [draft.question for draft in drafted.added]

    They are added to ``questions.jsonl`` of the folder, each with its answer, its evidence and where it came from;
    what filters refused goes to ``rejected.jsonl``, with the reason, and is not drafted again. Rows that are there stay
    as they are. ``methods`` are the drafting methods to use, each ``NAME`` or ``NAME(option=value)``; without any, all
    that are registered. ``seed`` draws the order in which passages are read.

    The language model of ``models``, a chat model, drafts. Its replies are kept in ``cache`` as they come, so that the
    same call goes on where another one was ended, and pays nothing twice.
    ``limits`` bound what drafting in this folder with this model may spend, over all calls; one on cost needs
    ``prices``. Where they are reached, what passed until then is written, and ``paused`` of what is returned says so.
    ``on_plan`` is told how many requests it takes before any is sent; ``on_progress``, every so often, how many drafts
    there were, how many passed, and how many have to. The other arguments are those of `search`.

    Raises:
        UsageError: no chat model is named, a method is unknown, or fewer than one question is wanted.
        DatasetError: documents or rows cannot be read.
        ModelUnavailable: the model refuses the key or is down; its replies are kept, and no row is written.
    """
    names, given = Resources(models, base_url, imports=imports).named()
    chosen = names.for_role("language_model")
    if chosen.name == EXTRACTIVE:
        raise UsageError(NEEDS_MODEL.format(folder=shlex.quote(str(folder))))
    used = [METHODS.parse(method) for method in methods] or list(METHODS)
    for method in used:
        if method.package:
            method.package.check()
    model = Loader({"language_model": chosen}, (), given).model("language_model")
    if not is_chat_model(model):
        raise UsageError(f"{chosen.name} completes no prompts: name a chat model that drafts (--llm openai:NAME)")
    known = read_given_prices(prices)
    if limits and limits.cost is not None:
        known.refuse_unknown([model.id.partition("@")[0]])
    accepted = parse_spent(accept_spent) if isinstance(accept_spent, str) else accept_spent
    with open_store(cache) as store:
        budget = Budget(store, digest("draft", str(Path(folder).resolve()), model.id), limits, known, accepted)
        gateway = Gateway(store, budget, Failures(store, ask_again=retry_failed))
        with (
            closing(budget),
            ModelDrafting(
                model, gateway, used, at_once=names.workers(), retry_failed=retry_failed, on_plan=on_plan
            ) as asking,
        ):
            drafted = draft_dataset(Path(folder), asking, questions=questions, seed=seed, on_progress=on_progress)
        return replace(drafted, replies=gateway.counts()["language_model"], spent=budget.spent)
