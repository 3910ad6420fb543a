"""`init_dataset`, `anchor`, `repair`, `draft_questions`, `review` and `check_dataset`: from files to a data set."""

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ragsmith.api.resources import CACHE, ModelSpec, PriceSpec, Resources, read_given_prices
from ragsmith.argument_types import checked
from ragsmith.datasets.anchoring.anchor import AnchoringResult
from ragsmith.datasets.anchoring.anchor_dataset import anchor_list
from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY
from ragsmith.datasets.anchoring.repair_dataset import RepairResult, repair_dataset
from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.ingest.ingest import IngestResult, ingest_folder
from ragsmith.datasets.ingest.summary import Summary, summarise
from ragsmith.datasets.languages import DOMINANT_SHARE
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.digest import digest
from ragsmith.errors import UsageError, WrongOption
from ragsmith.gateway.budget import Budget, LimitSpec, Spent, parse_spent, read_limits
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.labelling.checking.check import Check, GateOptions, check, check_page, select_gates
from ragsmith.labelling.drafting.asking import DraftingPlan, ModelDrafting
from ragsmith.labelling.drafting.drafting import DraftingResult, draft_dataset
from ragsmith.labelling.drafting.registry import METHODS
from ragsmith.labelling.reviewing.review import Review
from ragsmith.models.calls import is_chat_model
from ragsmith.models.loading import Loader
from ragsmith.models.local.multilingual_e5 import MODEL as MULTILINGUAL
from ragsmith.models.names import EXTRACTIVE
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.plan import estimate_pipeline_count
from ragsmith.store.store import Store, open_store
from ragsmith.techniques.user_code import import_files
from ragsmith.text.languages import ENGLISH
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


@dataclass(frozen=True)
class IngestReport:
    """The outcome of every file (``result``), and statistics of the documents (``summary``).

    ``pipelines`` is the approximate number of pipelines that a default search evaluates on every search question.
    """

    result: IngestResult
    summary: Summary
    pipelines: int

    @property
    def next_steps(self) -> tuple[str, ...]:
        """The next commands; the first repairs evidence in changed documents, if there is any."""
        output = self.result.output
        folder = shlex.quote(str(output))
        if (output / QUESTIONS).exists():
            repair = [f"ragsmith dataset anchor --repair {folder}"] if self.result.repointed else []
            ask = [] if self.result.fresh else [f'ragsmith ask WINNER "..." --documents {folder}']
            return (*repair, f"ragsmith dataset validate {folder}", f"ragsmith search --dataset {folder}", *ask)
        embedder = f" --embedder {MULTILINGUAL}" if self.foreign else ""
        return (f"ragsmith recommend {folder}{embedder}", f"ragsmith dataset draft {folder} --llm MODEL")

    @property
    def foreign(self) -> bool:
        """Whether more than a tenth of the documents are in languages that the default embedder does not support."""
        return self.summary.languages.get(ENGLISH, 0) < DOMINANT_SHARE * self.summary.documents

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data."""
        result = self.result
        return {
            "folder": str(result.folder),
            "output": str(result.output),
            "outcomes": dict(sorted(Counter(file.outcome.value for file in result.files).items())),
            "files": [asdict(file) for file in result.files],
            "removed": [{**asdict(one), "kept": one.kept} for one in result.removed],
            "near_duplicates": [asdict(pair) for pair in result.near],
            "versions": [list(group) for group in result.versions],
            "repeated_passages": [{"text": text, "docs": docs} for text, docs in result.repeated.items()],
            "evidence_in_changed_documents": dict(result.repointed),
            "possible_answers": [asdict(each) for each in result.possible_answers],
            "malformed_questions": list(result.malformed_questions),
            "found": asdict(self.summary),
            "search": {"pipelines": self.pipelines},
            "next": list(self.next_steps),
        }


@checked
def init_dataset(
    folder: str | Path,
    output: str | Path,
    *,
    on_file: Callable[[str, int], None] | None = None,
    fold_copies: bool | None = None,
) -> IngestReport:
    """Create the documents of a data set from the files in a folder, or update them.

    Each file becomes a document, is a duplicate, or is refused with a reason; see
    ``ragsmith.datasets.ingest``. Only changed files are converted again. Texts that were edited in the data set and
    ``questions.jsonl`` are not changed. ``on_file`` is called with each path and the number of files before it. With
    ``fold_copies``, files with the same words become one document, which has the paths of the others in its field
    ``also_in``; by default if such files of the data set were folded before.

    Raises:
        UsageError: ``folder`` is not a folder, or ``output`` has other content or is being written by another process.
        DatasetError: no file can be read; the message has the reason for each.
        OSError: the disk is full; nothing was changed.
    """
    result = ingest_folder(Path(folder), Path(output), on_file, fold_copies=fold_copies)
    return IngestReport(result, summarise(result), estimate_pipeline_count(load_space("default"), RunSettings()))


@checked
def anchor(
    questions: str | Path,
    documents: str | Path,
    *,
    output: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    at_least: float = MIN_PROBABILITY,
) -> AnchoringResult:
    """Locate the evidence of an existing list of questions in documents, and write both as a data set.

    >>> result = ragsmith.anchor("questions.csv", "handbook", output="my_data")
    >>> result.match_counts, result.reason_counts
    ({'exact': 31, 'sentence': 6}, {'ambiguous': 3})

    The list is a CSV, TSV, JSONL, JSON or XLSX file with one question per row, and its answer, a quotation from the
    documents, or both. ``columns`` maps ``question``, ``answer``, ``evidence``, ``doc``, ``id``, ``type`` and ``split``
    to columns with unusual names. ``documents`` is a folder of documents, or of a data set, to which the questions are
    added unless ``output`` is a new folder. Quotations are searched first: exactly, then with normalised typography,
    then fuzzily. Otherwise the sentence or row is predicted from the answer and the question, and accepted if its
    estimated probability is ``at_least`` that high. Other questions are listed in ``unanchored.jsonl`` with candidate
    positions.

    Raises:
        UsageError: the list or the documents cannot be used, or there is no folder for the questions.
    """
    if not 0 < at_least <= 1:
        raise WrongOption("at_least", f"is {at_least}: give a probability above 0, up to 1")
    folder = None if output is None else Path(output)
    return anchor_list(Path(questions), Path(documents), folder, columns=columns, at_least=at_least)


@checked
def repair(dataset: str | Path) -> RepairResult:
    """Locate the evidence of a data set again after its documents were edited, and write the new positions.

    >>> result = ragsmith.repair("my_data")
    >>> result.match_counts, len(result.unrepaired)
    ({'given': 40, 'exact': 9, 'fuzzy': 2}, 1)

    ``dataset`` is a folder. Evidence at its old position is ``given``; moved evidence is located by its text, also if
    some words were changed. Uncertain matches are not written, but listed in ``unrepaired.jsonl`` with candidate
    positions. Evidence with changed words is ``reworded``, and is listed in ``reworded.jsonl`` for review.

    Raises:
        UsageError: there is no such folder, or its documents or questions cannot be read.
    """
    folder = Path(dataset)
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder; give a data set's")
    return repair_dataset(folder)


NEEDS_MODEL = (
    "drafting needs a chat model: name one (--llm openai:NAME); without one, "
    "`ragsmith recommend {folder}` chooses a pipeline for the documents, and `ragsmith ask` answers with it"
)


@checked
def draft_questions(
    folder: str | Path,
    *,
    questions: int = 100,
    methods: Sequence[str] = (),
    seed: int = 0,
    models: ModelSpec = None,
    base_url: str | None = None,
    limits: LimitSpec = None,
    prices: PriceSpec = None,
    accept_spent: Spent | str | None = None,
    imports: str | Path | Sequence[str | Path] = (),
    retry_failed: bool = False,
    cache: Store | str | Path = CACHE,
    on_plan: Callable[[DraftingPlan], None] | None = None,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> DraftingResult:
    """Draft questions about the documents of a data set, until it has ``questions`` drafted ones.

    >>> drafted = ragsmith.draft_questions("my_data", questions=50, models={"language_model": "openai:MODEL"})
    >>> [draft.question for draft in drafted.added]

    They are appended to ``questions.jsonl`` of the folder with their answers, evidence and origin; existing rows are
    not changed. Drafts refused by filters are appended to ``rejected.jsonl`` with the reason, and are not drafted
    again. ``methods`` are drafting methods, each ``NAME`` or ``NAME(option=value)``, by default all registered ones.
    ``seed`` is the random seed of the order of passages.

    The language model of ``models`` must be a chat model. Its replies are stored in ``cache`` as they arrive, so that
    the same call resumes without repeated requests. ``limits`` bound the spending on drafting in this folder with this
    model, over all calls; a limit on cost requires ``prices``. When a limit is reached, the passed drafts are written,
    and ``paused`` of the result is the reason. ``on_plan`` is called with the plan before the first request,
    ``on_progress`` with the numbers of drafts, of passed drafts and of those needed. The other arguments are those of
    `search`.

    Raises:
        UsageError: no chat model is named, a method is unknown, or ``questions`` is less than 1.
        DatasetError: documents or rows cannot be read.
        ModelUnavailable: the model refuses the key or is down; its replies are stored, and no row is written.
    """
    names, objects = Resources(models, base_url, imports=imports).resolve_models()
    chosen = names.for_role("language_model")
    if chosen.name == EXTRACTIVE:
        raise UsageError(NEEDS_MODEL.format(folder=shlex.quote(str(folder))))
    used = [METHODS.parse(method) for method in methods] or list(METHODS)
    for method in used:
        method.check_package()
    model = Loader({"language_model": chosen}, (), objects).model("language_model")
    if not is_chat_model(model):
        raise WrongOption(
            "language_model", "names one, such as openai:NAME", f"{chosen.name} is no chat model, which drafting needs"
        )
    price_table = read_given_prices(prices)
    limits = read_limits(limits)
    if limits.cost is not None:
        price_table.require_prices([model.id.partition("@")[0]])
    accepted = parse_spent(accept_spent) if isinstance(accept_spent, str) else accept_spent
    with open_store(cache) as store:
        budget = Budget(store, digest("draft", str(Path(folder).resolve()), model.id), limits, price_table, accepted)
        gateway = Gateway(store, budget, Failures(store, retry_failed=retry_failed))
        with (
            closing(budget),
            ModelDrafting(
                model, gateway, used, n_threads=names.workers(), retry_failed=retry_failed, on_plan=on_plan
            ) as asking,
        ):
            drafted = draft_dataset(Path(folder), asking, questions=questions, seed=seed, on_progress=on_progress)
        return replace(drafted, replies=gateway.counts()["language_model"], spent=budget.spent)


@checked
def review(folder: str | Path) -> Review:
    """Open the drafted questions of the data set in ``folder``, to accept, edit or reject them.

    >>> from ragsmith.labelling.reviewing.decisions import Accept, Edit, Reject
    >>> with ragsmith.review("my_data") as found:
    ...     draft = found.pending[0]  # the least certain one
    ...     found.decide(draft.id, Accept(), reviewer="ada", looked_at=draft.seen)
    ...     found.decide(found.pending[0].id, Reject("the answer is wrong"), reviewer="ada")

    A decision is on disk when ``decide`` returns. Only one process can review a folder at a time.

    Raises:
        DatasetError: documents or rows cannot be read.
        UsageError: there is no such folder, it has no drafted questions, or it is already being reviewed.
    """
    return Review.open(folder)


@checked
def check_dataset(
    dataset: Dataset | str | Path,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    options: GateOptions | None = None,
    chunk_size: int = DEFAULT_SIZE,
    imports: str | Path | Sequence[str | Path] = (),
    html: str | Path | None = None,
) -> Check:
    """Check whether a data set can tell good retrieval from bad: its validity, shortcuts and statistical power.

    >>> checked = ragsmith.check_dataset("law")
    >>> checked.passed(), [finding.gate for finding in checked.findings if not finding.passed]
    (True, ['questions'])

    ``only`` and ``without`` are names of gates, and ``options`` maps gates to their options, as in ``{"bm25": {"low":
    0.6}}``; ``imports`` are Python files with further gates. Documents are cut into chunks of at most ``chunk_size``
    characters, and ``html`` is a file for a page with plots. Only embedded models are used.

    Raises:
        UsageError: the data set cannot be read, or a gate or an option cannot be used.
    """
    import_files(imports)
    select_gates(only, without, options, chunk_size)
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    found = check(data, only=only, without=without, options=options, chunk_size=chunk_size)
    if html is not None:
        write_file(check_page(found), Path(html))
    return found
