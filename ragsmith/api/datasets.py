"""`init_dataset`, `anchor`, `repair`, `draft_questions`, `review` and `check_dataset`: from files to a data set."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ragsmith.api.resources import CACHE, ModelSpec, PriceSpec, Resources, read_given_prices
from ragsmith.datasets.anchoring.anchor import Anchoring
from ragsmith.datasets.anchoring.anchor_dataset import anchor_list
from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY
from ragsmith.datasets.anchoring.repair_dataset import RepairedFolder, repair_folder
from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.ingest.ingest import IngestResult, ingest_folder
from ragsmith.datasets.ingest.summary import Summary, summarise
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.digest import digest
from ragsmith.errors import UsageError, WrongOption
from ragsmith.gateway.budget import Budget, Limits, Spent, parse_spent
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.labelling.checking.check import Check, GateOptions, check, check_page, check_request
from ragsmith.labelling.drafting.asking import DraftingPlan, ModelDrafting
from ragsmith.labelling.drafting.drafting import Drafted, draft_dataset
from ragsmith.labelling.drafting.registry import METHODS
from ragsmith.labelling.reviewing.review import Review
from ragsmith.models.calls import is_chat_model
from ragsmith.models.loading import Loader
from ragsmith.models.names import EXTRACTIVE
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.plan import about_pipelines
from ragsmith.store.store import Store, open_store
from ragsmith.techniques.user_code import import_files
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


@dataclass(frozen=True)
class Intake:
    """What became of every file (``taken``), what the documents are like (``found``), and what a search would take.

    ``pipelines`` is about how many a search with the default settings evaluates, each on every search question.
    """

    taken: IngestResult
    found: Summary
    pipelines: int

    @property
    def next_steps(self) -> tuple[str, ...]:
        """The commands that go on from here; where evidence lies in documents that changed, the first mends it."""
        output = self.taken.output
        folder = shlex.quote(str(output))
        if (output / QUESTIONS).exists():
            repair = [f"ragsmith dataset anchor --repair {folder}"] if self.taken.repointed else []
            return (*repair, f"ragsmith dataset validate {folder}", f"ragsmith search --dataset {folder}")
        return (f"ragsmith recommend {folder}", f"ragsmith dataset draft {folder} --llm MODEL")

    def plain(self) -> dict[str, Any]:
        """For programs: counts, every file, and what was found."""
        taken = self.taken
        return {
            "folder": str(taken.folder),
            "output": str(taken.output),
            "outcomes": dict(sorted(Counter(file.outcome.value for file in taken.files).items())),
            "files": [asdict(file) for file in taken.files],
            "removed": [{**asdict(one), "kept": one.kept} for one in taken.removed],
            "near_duplicates": [asdict(pair) for pair in taken.near],
            "evidence_in_changed_documents": dict(taken.repointed),
            "found": asdict(self.found),
            "search": {"pipelines": self.pipelines},
            "next": list(self.next_steps),
        }


def init_dataset(
    folder: str | Path, output: str | Path, *, on_file: Callable[[str, int], None] | None = None
) -> Intake:
    """Make a data set's documents of the files in a folder, or bring one that was made of it up to date.

    Every file becomes a document, or is the duplicate of one, or is refused with a reason; see
    ``ragsmith.datasets.ingest``. Only files that have changed are converted again. A text that was edited in the data
    set stays as it is, and so does ``questions.jsonl``. ``on_file`` gets each path, and the number of those before.

    Raises:
        UsageError: ``folder`` is none, or ``output`` is something else, or is being written by another process.
        DatasetError: no file can be read; every one is named with the reason.
        OSError: the disk is full; nothing has changed then.
    """
    taken = ingest_folder(Path(folder), Path(output), on_file)
    return Intake(taken, summarise(taken), about_pipelines(load_space("default"), RunSettings()))


def anchor(
    questions: str | Path,
    documents: str | Path,
    *,
    output: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    at_least: float = MIN_PROBABILITY,
) -> Anchoring:
    """Find where the documents answer an existing list of questions, and write both as a data set.

    >>> found = ragsmith.anchor("questions.csv", "handbook", output="my_data")
    >>> found.hows, found.missing
    ({'exact': 31, 'sentence': 6}, {'ambiguous': 3})

    The list is a CSV, TSV, JSONL, JSON or XLSX file with a question a row, and its answer, or a quotation of the
    documents, or both. ``columns`` names its columns by what they hold (``question``, ``answer``, ``evidence``,
    ``doc``, ``id``, ``type``, ``split``) where they are called otherwise than usual. ``documents`` is a folder of them,
    or a data set's folder, whose questions they join unless ``output`` names a new folder. Quotations are
    looked for first: to the letter, without regard to typography, with some words changed. Else the answer and the
    question tell the sentence or row, which is taken if it is right with a probability of ``at_least``, as estimated.
    All others are listed in ``unanchored.jsonl`` with the places that come into question.

    Raises:
        UsageError: the list or the documents cannot be used, or the questions have no place to go to.
    """
    if not 0 < at_least <= 1:
        raise WrongOption("at_least", f"is {at_least}: give a probability above 0, up to 1")
    folder = None if output is None else Path(output)
    return anchor_list(Path(questions), Path(documents), folder, columns=columns, at_least=at_least)


def repair(dataset: str | Path) -> RepairedFolder:
    """Find the evidence of a data set's questions again after its documents were edited, and write its new place.

    >>> found = ragsmith.repair("my_data")
    >>> found.hows, len(found.left)
    ({'given': 40, 'exact': 9, 'fuzzy': 2}, 1)

    ``dataset`` is a folder. Evidence in its old place is ``given``; what has moved is found by its text, also
    where some of its words were changed. What is not sure to be the same text stays as it is, and is listed in
    ``unrepaired.jsonl`` beside the questions, with the places that come into question. What was found in other words is
    ``reworded``, for a person to look at, and is kept in ``reworded.jsonl``.

    Raises:
        UsageError: there is no such folder, or its documents or questions cannot be read.
    """
    folder = Path(dataset)
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; give a data set's")
    return repair_folder(folder)


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
    models: ModelSpec = None,
    base_url: str | None = None,
    limits: Limits | None = None,
    prices: PriceSpec = None,
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
    ``on_plan`` gets the number of requests before any is sent; ``on_progress``, from time to time, how many drafts
    there were, how many passed, and how many have to. The other arguments are those of `search`.

    Raises:
        UsageError: no chat model is named, a method is unknown, or fewer than one question is wanted.
        DatasetError: documents or rows cannot be read.
        ModelUnavailable: the model refuses the key or is down; its replies are stored, and no row is written.
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
        known.require_prices([model.id.partition("@")[0]])
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


def review(folder: str | Path) -> Review:
    """Open the drafted questions of the data set in ``folder``, to accept, mend or reject them.

    >>> from ragsmith.labelling.reviewing.decisions import Accept, Edit, Reject
    >>> with ragsmith.review("my_data") as found:
    ...     draft = found.pending[0]  # the least certain one
    ...     found.decide(draft.id, Accept(), reviewer="ada", looked_at=draft.seen)
    ...     found.decide(found.pending[0].id, Reject("the answer is wrong"), reviewer="ada")

    A decision is on the disk when ``decide`` returns. A folder is reviewed by one at a time.

    Raises:
        DatasetError: documents or rows cannot be read.
        UsageError: there is no such folder, nothing in it was drafted, or it is being reviewed already.
    """
    return Review.open(folder)


def check_dataset(
    dataset: Dataset | str | Path,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    options: GateOptions | None = None,
    chunk_size: int = DEFAULT_SIZE,
    imports: Sequence[str | Path] = (),
    html: str | Path | None = None,
) -> Check:
    """Ask of a data set whether it can tell good retrieval from bad: is it sound, has it shortcuts, what can it show?

    >>> checked = ragsmith.check_dataset("law")
    >>> checked.passed(), [finding.gate for finding in checked.findings if not finding.passed]
    (True, ['questions'])

    ``only`` and ``without`` name gates, and ``options`` has those of gates, as ``{"bm25": {"low": 0.6}}``; ``imports``
    names Python files with gates of your own. Documents are cut into chunks of at most ``chunk_size`` characters, and
    ``html`` names a file for a page with plots. No model is asked but those that are part of the program.

    Raises:
        UsageError: the data set cannot be read, or a gate or an option cannot be used.
    """
    import_files(imports)
    check_request(only, without, options, chunk_size)
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    found = check(data, only=only, without=without, options=options, chunk_size=chunk_size)
    if html is not None:
        write_file(check_page(found), Path(html))
    return found
