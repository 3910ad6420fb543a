"""The drafted questions of a data set's folder, and what people decide about them; several may do so at once."""

from __future__ import annotations

import getpass
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ragsmith.datasets.anchoring.repaired_folder import moved
from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.datasets.documents import read_documents
from ragsmith.datasets.evidence import EvidenceChecker
from ragsmith.datasets.languages import in_their_languages
from ragsmith.datasets.locking import locked
from ragsmith.datasets.manifest import read_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import DatasetError, UsageError
from ragsmith.labelling.reviewing.decisions import (
    REVIEW,
    Decision,
    Mend,
    Quote,
    Reject,
    Row,
    State,
    Unmendable,
    as_drafted,
    decided,
    evidence_of,
    is_drafted,
    origin_of,
    seen,
    state_of,
)
from ragsmith.labelling.reviewing.doubt import Doubt, Doubter
from ragsmith.labelling.reviewing.journal import Disk, Entry, FolderDisk, Journal, unfinished
from ragsmith.labelling.reviewing.passages import Passage, passages
from ragsmith.labelling.reviewing.presence import Presence
from ragsmith.text.files import shown
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Span

LONGEST_NAME = 60


@dataclass(frozen=True)
class Draft:
    """A drafted question as it stands.

    ``seen`` names this very state of it: a decision about another is refused. ``reviewer`` and ``reason`` are empty
    where nobody decided or said why. ``begun`` is a mending that was typed and not finished.
    """

    id: str
    row: Row
    state: State
    reviewer: str
    reason: str
    doubt: Doubt
    begun: Entry | None = None

    @property
    def seen(self) -> str:
        """A digest of what is looked at."""
        return seen(self.row, self.state)

    @property
    def question(self) -> str:
        """What is asked."""
        return str(self.row.get("question", ""))

    @property
    def answer(self) -> str:
        """What it answers, or nothing."""
        return str(self.row.get("answer", ""))

    @property
    def type(self) -> str:
        """The type of question."""
        return str(self.row.get("type", "unspecified"))

    @property
    def method(self) -> str:
        """What drafted it."""
        return str(origin_of(self.row).get("method", "unknown"))

    @property
    def answerable(self) -> bool:
        """Whether the documents are said to answer it."""
        return self.row.get("answerable", True) is not False

    @property
    def evidence(self) -> tuple[Mapping[str, object], ...]:
        """The entries of its evidence."""
        return evidence_of(self.row)

    @property
    def quotes(self) -> tuple[str, ...]:
        """The words of its evidence."""
        return tuple(str(entry.get("text", "")) for entry in self.evidence)


class DecidedMeanwhile(UsageError):
    """Somebody else decided about a draft, or changed it, since it was looked at; ``draft`` is how it stands."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        who = f"{draft.reviewer} " if draft.reviewer else "somebody "
        what = {State.PENDING: "took a decision back or changed the question"}.get(draft.state, draft.state.value)
        super().__init__(f"{who}{what} meanwhile ({draft.id}): look at it again, then decide")


class Review:
    """A review of the drafted questions in ``folder``.

    Threads may share it, and other processes may review the same folder: each sees what the others decided. A decision
    is on the disk when a method returns.
    """

    def __init__(self, folder: Path, name: str, documents: Mapping[str, Document], disk: Disk) -> None:
        self.folder = folder
        self.name = name
        self.documents = documents
        self._checker = EvidenceChecker(documents)
        self._doubter = Doubter(chunk_documents(list(documents.values())))
        self._doubts: dict[str, Doubt] = {}
        self._journal = Journal(disk)
        self._presence = Presence(folder)
        self._own = threading.RLock()
        with self._held():
            found = [draft.id for draft in self._drafts()]
        if not found:
            raise UsageError(
                f"{folder} has no drafted questions to review; draft some  (ragsmith dataset draft {folder})"
            )

    @classmethod
    def open(cls, folder: str | Path) -> Review:
        """Open the data set in ``folder``.

        Raises:
            DatasetError: documents or rows cannot be read.
            UsageError: there is no such folder, or nothing in it that was drafted.
        """
        found = Path(folder)
        if not found.is_dir():
            raise UsageError(f"{found} is no folder: name the folder of the data set whose drafts are to be reviewed")
        if not (found / QUESTIONS).is_file():
            raise UsageError(f"{found} has no {QUESTIONS}; draft questions first  (ragsmith dataset draft {found})")
        manifest, wrong = read_manifest(found)
        documents, wrong_documents = read_documents(found, manifest.titles)
        if mistakes := (*wrong, *wrong_documents):
            raise DatasetError(mistakes)
        read = [document for document in documents.values() if document is not None]
        read_as, _ = in_their_languages(read, manifest.about.get("language"), manifest.languages)
        kept = {document.id: document for document in read_as}
        name = manifest.about.get("title") or found.resolve().name
        return cls(found, name, kept, FolderDisk(found))

    @property
    def drafts(self) -> tuple[Draft, ...]:
        """Every drafted question that a filter did not refuse, decided ones, too; the least certain first."""
        with self._held():
            return tuple(sorted(self._drafts(), key=lambda draft: (-draft.doubt.value, draft.id)))

    @property
    def pending(self) -> tuple[Draft, ...]:
        """Those that nobody has decided about."""
        return tuple(draft for draft in self.drafts if draft.state is State.PENDING)

    def draft(self, id_: str) -> Draft:
        """One of them.

        Raises:
            UsageError: there is none of that name.
        """
        with self._held():
            return self._draft(id_)

    def counts(self) -> dict[str, int]:
        """How many drafts are in each state."""
        found = Counter(draft.state for draft in self.drafts)
        return {state.value: found[state] for state in State}

    def decide(self, id_: str, decision: Decision, *, reviewer: str, looked_at: str | None = None) -> Draft:
        """Decide about a draft, and return how it stands then.

        ``looked_at`` is the `Draft.seen` of what the reviewer saw; without it a decision of somebody else is replaced.

        Raises:
            DecidedMeanwhile: the draft is not as it was seen.
            Unmendable: what a mending leaves would be wrong.
            UsageError: there is no such draft, or no reviewer.
        """
        reviewer = _name(reviewer)
        with self._held():
            draft = self._checked(id_, looked_at)
            base = self._original(draft)[0] if isinstance(decision, Reject) else draft.row
            after = decided(base, decision, reviewer, self._checker, answered=self._answered())
            state = State.REJECTED if isinstance(decision, Reject) else state_of(after)
            self._journal.write(Entry(id_, state, reviewer, _now(), draft.row, after))
            return self._draft(id_)

    def problems(self, draft: Draft, decision: Decision) -> tuple[str, ...]:
        """What is wrong with a decision, one sentence each; nothing is decided."""
        try:
            with self._held():
                decided(draft.row, decision, "nobody", self._checker, answered=self._answered())
        except Unmendable as error:
            return error.problems
        return ()

    def reopen(self, id_: str, *, reviewer: str, looked_at: str | None = None) -> Draft:
        """Take a decision back: the question is as it was drafted, and nobody has decided.

        Evidence is written where it stands by now. Raises as `decide`, and ``UsageError`` where it stands nowhere.
        """
        reviewer = _name(reviewer)
        with self._held():
            draft = self._checked(id_, looked_at)
            if draft.state is not State.PENDING:
                original, lost = self._original(draft)
                if lost:
                    quotes = ", ".join(shown(text) for text in lost)
                    raise UsageError(
                        f"{id_} cannot be as it was drafted: its documents no longer have {quotes}; mend or reject it"
                    )
                self._journal.write(Entry(id_, State.PENDING, reviewer, _now(), draft.row, original))
            return self._draft(id_)

    def begin(self, id_: str, typed: Mapping[str, object], *, reviewer: str, looked_at: str | None = None) -> None:
        """Keep what somebody typed to mend a draft, before it is finished; nothing typed gives it up.

        Raises as `decide`.
        """
        reviewer = _name(reviewer)
        with self._held():
            draft = self._checked(id_, looked_at)
            self._journal.write(Entry(id_, None, reviewer, _now(), {"seen": draft.seen}, typed))

    def changes(self, since: int) -> tuple[int, tuple[Draft, ...]]:
        """How many entries the journal has, and the drafts that those from number ``since`` on are about."""
        with self._held():
            entries = self._journal.entries
            changed = dict.fromkeys(entry.id for entry in entries[max(0, since) :] if entry.state is not None)
            there = {draft.id: draft for draft in self._drafts()} if changed else {}
            return len(entries), tuple(there[id_] for id_ in changed if id_ in there)

    def look(self, client: str, id_: str, *, reviewer: str) -> Mapping[str, str]:
        """Tell that a page of ``reviewer`` shows a draft, or none; returns what others look at just now, by whom.

        ``client`` is a name of the page that nobody else has.
        """
        with self._held():
            return self._presence.look(client, id_, _name(reviewer))

    def passages(self, draft: Draft, more: int = 0) -> tuple[Passage, ...]:
        """What is to be read: where the quotes stand, or for a question without any, what could answer it."""
        source = _span(origin_of(draft.row).get("passage"))
        sources = [source] if source else []
        if not draft.evidence and (nearest := self._doubter.nearest(draft.question)) is not None:
            sources.append(nearest.span)
        return passages([span for span in self.spans(draft) if span], sources, self.documents, more)

    def spans(self, draft: Draft) -> tuple[Span | None, ...]:
        """Where each entry of the evidence stands; None where the documents have changed, and it is there no more."""
        return self._spans(draft.row)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The folder as it is now, and nobody else changes it."""
        with self._own, locked(self.folder):
            self._journal.refresh()
            yield

    def _drafts(self) -> Iterator[Draft]:
        begun = unfinished(self._journal.entries)
        rejected = self._journal.rejected
        for row in self._journal.questions.rows:
            if is_drafted(row) and rejected.get(str(row["id"])) is None:
                yield self._made(row, state_of(row), begun)
        for row in rejected.rows:
            if row.get("filter") == REVIEW:
                yield self._made(row, State.REJECTED, begun)

    def _made(self, row: Row, state: State, begun: Mapping[str, Entry]) -> Draft:
        id_ = str(row["id"])
        rejected = state is State.REJECTED
        reviewer = row.get("reviewer") if rejected else origin_of(row).get("reviewer")
        reason = str(row.get("reason", "")) if rejected else ""
        return Draft(id_, row, state, str(reviewer or ""), reason, self._doubt(id_, row), begun.get(id_))

    def _draft(self, id_: str) -> Draft:
        found = {draft.id: draft for draft in self._drafts()}
        if id_ not in found:
            raise UsageError(f"{self.folder} has no drafted question {id_!r}; {did_you_mean(id_, found)}")
        return found[id_]

    def _checked(self, id_: str, looked_at: str | None) -> Draft:
        draft = self._draft(id_)
        if looked_at is not None and looked_at != draft.seen:
            raise DecidedMeanwhile(draft)
        return draft

    def _doubt(self, id_: str, row: Row) -> Doubt:
        """The doubt about what was drafted: a mending moves a question to no other place."""
        if id_ not in self._doubts:
            spans = [span for span in self._spans(row) if span is not None]
            question = str(row.get("question", ""))
            if row.get("answerable", True) is False:
                doubt = self._doubter.of_unanswerable(question)
            else:
                quotes = [self.documents[span.doc].text[span.start : span.end] for span in spans]
                doubt = self._doubter.of_answerable(question, str(row.get("answer", "")), quotes, spans)
            self._doubts[id_] = doubt
        return self._doubts[id_]

    def _spans(self, row: Row) -> tuple[Span | None, ...]:
        return tuple(self._checker.span(entry)[0] for entry in evidence_of(row))

    def _original(self, draft: Draft) -> tuple[Row, list[str]]:
        """The row as it was drafted, by the journal, and the quotes of it that stand nowhere now.

        Without a journal a mended question stays mended. Documents may have been edited, and evidence repaired, since
        the journal was written: what stands elsewhere now is written so.
        """
        decisions = (entry for entry in self._journal.entries if entry.id == draft.id and entry.state is not None)
        row = as_drafted(next((entry.before for entry in decisions), draft.row))
        evidence: list[Mapping[str, object]] = []
        lost: list[str] = []
        for entry in evidence_of(row):
            found = [entry]
            if self._checker.span(entry)[0] is None:
                text = entry.get("text")
                same = [now for now in draft.evidence if now.get("text") == text and self._checker.span(now)[0]]
                found = same[:1] or [*moved(entry, self.documents)]
            if not found:
                lost.append(str(text))
            evidence += [one for one in found or [entry] if one not in evidence]
        return ({**row, "evidence": evidence} if "evidence" in row else row), lost

    def _answered(self) -> bool:
        """Whether the questions that can have an answer have one."""
        rows = [row for row in self._journal.questions.rows if row.get("answerable", True) is not False]
        return any("answer" in row for row in rows) or not rows


def login_name() -> str:
    """The name of whoever runs this, as the system has it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without a name for its user
        return "reviewer"


def mend_of(question: object, answer: object, evidence: object) -> Mend:
    """A mending as the page sends it, and the journal keeps it.

    Raises:
        UsageError: it is none.
    """
    if not all(text is None or isinstance(text, str) for text in (question, answer)):
        raise UsageError("question and answer must be texts")
    if evidence is None:
        return Mend(_text(question), _text(answer))
    if not isinstance(evidence, list):
        raise UsageError("evidence must be a list")
    return Mend(_text(question), _text(answer), tuple(_items(evidence)))


def _items(evidence: Sequence[object]) -> Iterable[int | Quote]:
    for item in evidence:
        if type(item) is int:
            yield item
            continue
        doc, text, start = (item.get(key) for key in ("doc", "text", "start")) if isinstance(item, dict) else (0, 0, 0)
        if not (isinstance(doc, str) and isinstance(text, str) and (start is None or type(start) is int)):
            raise UsageError("evidence must be positions to keep, or objects with doc, text and start")
        yield Quote(doc, text, start)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _span(value: object) -> Span | None:
    if not isinstance(value, Mapping):
        return None
    doc, start, end = (value.get(key) for key in ("doc", "start", "end"))
    if isinstance(doc, str) and type(start) is int and type(end) is int:
        return Span(doc, start, end)
    return None


def _name(reviewer: str) -> str:
    """A reviewer's name as it is kept."""
    name = " ".join(reviewer.split())
    if not name or not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError(f"{reviewer!r} is no name for a reviewer: give 1 to {LONGEST_NAME} printable characters")
    return name


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
