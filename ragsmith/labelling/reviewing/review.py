"""Review of the drafted questions in the folder of a data set."""

import getpass
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from ragsmith.datasets.anchoring.repair_dataset import relocate_evidence
from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.documents import read_documents
from ragsmith.datasets.evidence import EvidenceChecker, entry_places
from ragsmith.datasets.languages import assign_languages
from ragsmith.datasets.locking import hold_lock, lock_questions
from ragsmith.datasets.manifest import read_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import DatasetError, UsageError
from ragsmith.labelling.reviewing.decisions import (
    REVIEW,
    Decision,
    DecisionState,
    Reject,
    Row,
    apply_decision,
    as_drafted,
    evidence_of,
    is_drafted,
    origin_of,
    state_digest,
    state_of,
)
from ragsmith.labelling.reviewing.journal import REJECTED, FolderDisk, Journal, JournalEntry, unfinished_edits
from ragsmith.labelling.reviewing.passages import ReviewPassage, make_passages
from ragsmith.labelling.reviewing.uncertainty import Uncertainty, UncertaintyModel
from ragsmith.text.files import shorten
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Span

MAX_NAME_CHARACTERS = 60
"""Maximum length of the name of a reviewer, in characters."""
LOCK = ".review.lock"
"""Lock file, held by the process that reviews the folder."""


@dataclass(frozen=True)
class ReviewedDraft:
    """Drafted question in its current state.

    ``reviewer`` and ``reason`` are "" if there is none. ``begun`` is an unfinished edit.
    """

    id: str
    row: Row
    state: DecisionState
    reviewer: str
    reason: str
    doubt: Uncertainty
    begun: JournalEntry | None = None

    @property
    def seen(self) -> str:
        """Digest of row and state, by which outdated decisions are refused."""
        return state_digest(self.row, self.state)

    @property
    def question(self) -> str:
        """Question."""
        return str(self.row.get("question", ""))

    @property
    def answer(self) -> str:
        """Answer, or ""."""
        return str(self.row.get("answer", ""))

    @property
    def type(self) -> str:
        """Type of the question."""
        return str(self.row.get("type", "unspecified"))

    @property
    def evidence(self) -> tuple[Mapping[str, object], ...]:
        """Entries of the evidence."""
        return evidence_of(self.row)


class DecidedMeanwhile(UsageError):
    """A draft has changed since it was shown; ``draft`` is its current state."""

    def __init__(self, draft: ReviewedDraft) -> None:
        self.draft = draft
        super().__init__(f"{draft.id} has changed since it was shown: look at it again, then decide")


class Review:
    """Review of the drafted questions in ``folder``; a context manager.

    A review is thread-safe, and other programs may change the questions at the same time. Each decision is synced to
    disk before a method returns.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        documents: Mapping[str, Document],
        disk: FolderDisk,
        lock: ExitStack | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.documents = documents
        self._checker = EvidenceChecker(documents)
        self._uncertainty_model = UncertaintyModel(chunk_documents(list(documents.values())))
        self._uncertainties: dict[str, Uncertainty] = {}
        self._release = weakref.finalize(self, (lock or ExitStack()).close)
        self._thread_lock = threading.RLock()
        with lock_questions(folder):
            self._journal = Journal(disk)
        with self._locked():
            found = [draft.id for draft in self._drafts()]
        if not found:
            raise UsageError(
                f"{folder} has no drafted questions; draft some  (ragsmith dataset draft {folder} --llm MODEL)"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock of the folder."""
        self._release()

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open the data set in ``folder``.

        Raises:
            DatasetError: documents or rows cannot be read.
            UsageError: the folder does not exist, has no drafted questions, or is being reviewed by another process.
        """
        found = Path(folder)
        if not found.is_dir():
            raise UsageError(f"{found} is not a folder: give the folder of the data set with the drafts to review")
        if not (found / QUESTIONS).is_file():
            raise UsageError(
                f"{found} has no {QUESTIONS}; draft questions first  (ragsmith dataset draft {found} --llm MODEL)"
            )
        manifest, wrong = read_manifest(found)
        documents, wrong_documents = read_documents(found, manifest.titles)
        if mistakes := (*wrong, *wrong_documents):
            raise DatasetError(mistakes)
        readable = [document for document in documents.values() if document is not None]
        with_languages, _ = assign_languages(readable, manifest.metadata.get("language"), manifest.languages)
        by_id = {document.id: document for document in with_languages}
        name = manifest.metadata.get("title") or found.resolve().name
        with ExitStack() as lock:
            file = lock.enter_context((found / LOCK).open("ab"))
            try:
                lock.enter_context(hold_lock(file.fileno(), seconds=0))
            except TimeoutError:
                raise UsageError(f"{found} is being reviewed already: end that review first") from None
            return cls(found, name, by_id, FolderDisk(found), lock.pop_all())

    @property
    def drafts(self) -> tuple[ReviewedDraft, ...]:
        """Drafted questions that no filter rejected, including decided ones, the least certain first."""
        with self._locked():
            return tuple(sorted(self._drafts(), key=lambda draft: (-draft.doubt.value, draft.id)))

    @property
    def pending(self) -> tuple[ReviewedDraft, ...]:
        """Drafts without a decision."""
        return tuple(draft for draft in self.drafts if draft.state is DecisionState.PENDING)

    def draft(self, id_: str) -> ReviewedDraft:
        """Return the draft with this identifier.

        Raises:
            UsageError: there is no such draft.
        """
        with self._locked():
            return self._draft(id_)

    def counts(self) -> dict[str, int]:
        """Return the number of drafts by state."""
        found = Counter(draft.state for draft in self.drafts)
        return {state.value: found[state] for state in DecisionState}

    def decide(self, id_: str, decision: Decision, *, reviewer: str, looked_at: str | None = None) -> ReviewedDraft:
        """Record a decision about a draft, and return its new state.

        ``looked_at`` is the `ReviewedDraft.seen` of the draft that the reviewer saw; if it is None, an earlier
        decision is replaced.

        Raises:
            DecidedMeanwhile: the draft has changed since the reviewer saw it.
            UneditableDraft: the edited row would be invalid.
            UsageError: there is no such draft, or the name of the reviewer is invalid.
        """
        reviewer = normalise_reviewer(reviewer)
        with self._locked():
            draft = self._current_draft(id_, looked_at)
            base = self._original(draft)[0] if isinstance(decision, Reject) else draft.row
            after = apply_decision(base, decision, reviewer, self._checker, answered=self._answered())
            state = DecisionState.REJECTED if isinstance(decision, Reject) else state_of(after)
            self._journal.write(JournalEntry(id_, state, reviewer, _timestamp(), draft.row, after))
            return self._draft(id_)

    def reopen(self, id_: str, *, reviewer: str, looked_at: str | None = None) -> ReviewedDraft:
        """Revoke a decision: the question is restored as drafted, and pending.

        Evidence is relocated if the documents have changed. Raises as `decide`, and ``UsageError`` if evidence is no
        longer in the documents.
        """
        reviewer = normalise_reviewer(reviewer)
        with self._locked():
            draft = self._current_draft(id_, looked_at)
            if draft.state is not DecisionState.PENDING:
                original, lost = self._original(draft)
                if lost:
                    quotes = ", ".join(shorten(text) for text in lost)
                    raise UsageError(
                        f"{id_} cannot be as it was drafted: its documents no longer have {quotes}; mend or reject it"
                    )
                self._journal.write(
                    JournalEntry(id_, DecisionState.PENDING, reviewer, _timestamp(), draft.row, original)
                )
            return self._draft(id_)

    def begin(self, id_: str, typed: Mapping[str, object], *, reviewer: str, looked_at: str | None = None) -> None:
        """Save an unfinished edit of a draft; an empty one discards it.

        Raises as `decide`.
        """
        reviewer = normalise_reviewer(reviewer)
        with self._locked():
            draft = self._current_draft(id_, looked_at)
            self._journal.write(JournalEntry(id_, None, reviewer, _timestamp(), {"seen": draft.seen}, typed))

    def passages(self, draft: ReviewedDraft, more: int = 0) -> tuple[ReviewPassage, ...]:
        """Return the passages with the quotes, or for a question without quotes the passage that may answer it."""
        source = _parse_span(origin_of(draft.row).get("passage"))
        sources = [source] if source else []
        if not draft.evidence and (nearest := self._uncertainty_model.nearest(draft.question)) is not None:
            sources.append(nearest.span)
        return make_passages([span for span in self.spans(draft) if span], sources, self.documents, more)

    def spans(self, draft: ReviewedDraft) -> tuple[Span | None, ...]:
        """Return the span of each entry of the evidence; None for evidence that is no longer in the documents."""
        return self._spans(draft.row)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder against other programs, and read their changes."""
        with self._thread_lock, lock_questions(self.folder):
            self._journal.refresh()
            yield

    def _drafts(self) -> Iterator[ReviewedDraft]:
        begun = unfinished_edits(self._journal.entries)
        rejected = self._journal.files[REJECTED]
        for row in self._journal.files[QUESTIONS].rows:
            if is_drafted(row) and rejected.get(str(row["id"])) is None:
                yield self._make_draft(row, state_of(row), begun)
        for row in rejected.rows:
            if row.get("filter") == REVIEW:
                yield self._make_draft(row, DecisionState.REJECTED, begun)

    def _make_draft(self, row: Row, state: DecisionState, begun: Mapping[str, JournalEntry]) -> ReviewedDraft:
        id_ = str(row["id"])
        rejected = state is DecisionState.REJECTED
        reviewer = row.get("reviewer") if rejected else origin_of(row).get("reviewer")
        reason = str(row.get("reason", "")) if rejected else ""
        return ReviewedDraft(id_, row, state, str(reviewer or ""), reason, self._uncertainty(id_, row), begun.get(id_))

    def _draft(self, id_: str) -> ReviewedDraft:
        found = {draft.id: draft for draft in self._drafts()}
        if id_ not in found:
            raise UsageError(f"{self.folder} has no drafted question {id_!r}; {did_you_mean(id_, found)}")
        return found[id_]

    def _current_draft(self, id_: str, looked_at: str | None) -> ReviewedDraft:
        draft = self._draft(id_)
        if looked_at is not None and looked_at != draft.seen:
            raise DecidedMeanwhile(draft)
        return draft

    def _uncertainty(self, id_: str, row: Row) -> Uncertainty:
        """Return the uncertainty of the draft, computed once, so that edits do not change the order."""
        if id_ not in self._uncertainties:
            spans = [span for span in self._spans(row) if span is not None]
            question = str(row.get("question", ""))
            if row.get("answerable", True) is False:
                uncertainty = self._uncertainty_model.of_unanswerable(question)
            else:
                quotes = [self.documents[span.doc].text[span.start : span.end] for span in spans]
                uncertainty = self._uncertainty_model.of_answerable(question, str(row.get("answer", "")), quotes, spans)
            self._uncertainties[id_] = uncertainty
        return self._uncertainties[id_]

    def _spans(self, row: Row) -> tuple[Span | None, ...]:
        return tuple(self._checker.span(entry)[0] for entry in evidence_of(row))

    def _original(self, draft: ReviewedDraft) -> tuple[Row, list[str]]:
        """Return the row as drafted, from the journal, and its quotes that are no longer in the documents.

        Without a journal, edits are kept. As documents may have been edited, and evidence repaired, since the journal
        was written, evidence is relocated.
        """
        decisions = (entry for entry in self._journal.entries if entry.id == draft.id and entry.state is not None)
        row = as_drafted(next((entry.before for entry in decisions), draft.row))
        evidence: list[Mapping[str, object]] = []
        lost: list[str] = []
        for entry in evidence_of(row):
            found = [entry]
            if self._checker.span(entry)[0] is None:
                first = next(iter(entry_places(entry)), entry)
                text = first.get("text") if isinstance(first, Mapping) else None
                same = [now for now in draft.evidence if now.get("text") == text and self._checker.span(now)[0]]
                found = same[:1] or [*relocate_evidence(entry, self.documents)]
            if not found:
                lost.append(str(text))
            evidence += [one for one in found or [entry] if one not in evidence]
        return ({**row, "evidence": evidence} if "evidence" in row else row), lost

    def _answered(self) -> bool:
        """Whether answerable questions have answers."""
        rows = [row for row in self._journal.files[QUESTIONS].rows if row.get("answerable", True) is not False]
        return any("answer" in row for row in rows) or not rows


def login_name() -> str:
    """Return the name of the current user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # in some containers the user has no name
        return "reviewer"


def _parse_span(value: object) -> Span | None:
    if not isinstance(value, Mapping):
        return None
    doc, start, end = (value.get(key) for key in ("doc", "start", "end"))
    return Span(doc, start, end) if isinstance(doc, str) and type(start) is type(end) is int else None


def normalise_reviewer(reviewer: str) -> str:
    """Return the name of a reviewer with normalised spaces.

    Raises:
        UsageError: the name is empty, too long, or has unprintable characters.
    """
    name = " ".join(reviewer.split())
    if not name or not name.isprintable() or len(name) > MAX_NAME_CHARACTERS:
        raise UsageError(
            f"{reviewer!r} is not a valid name of a reviewer: give 1 to {MAX_NAME_CHARACTERS} printable characters"
        )
    return name


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
