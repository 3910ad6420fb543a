"""Nothing that was confirmed is lost, wherever a process is killed, and whoever writes beside it."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from drafted import drafted_dataset, drafted_row, rows_of, text_of, write_rows
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.anchoring.repair_dataset import repair_dataset
from ragsmith.errors import DatasetError, UsageError
from ragsmith.labelling.reviewing.decisions import REVIEW, Accept, Decision, Edit, Reject
from ragsmith.labelling.reviewing.journal import APPLIED, JOURNAL, REJECTED, FolderDisk, Unapplied
from ragsmith.labelling.reviewing.review import DecidedMeanwhile, Review
from ragsmith.types import Document

DOCUMENTS = {place: Document(place, place, text_of(place)) for place in ("harbour", "mill")}
QUESTIONS = "questions.jsonl"


class Killed(BaseException):
    """The process is gone."""


class DyingDisk(FolderDisk):
    """Files in memory; the process that uses them is killed at a given write, after ``share`` of it was done.

    A replaced file is there as a whole or not at all, as a file system has it; what is appended may be cut.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.left: int | None = None
        self.share = 0.0
        self.full = False
        self._changes = dict.fromkeys(files, 0)

    def read(self, name: str) -> bytes:
        return self.files.get(name, b"")

    def fingerprint(self, name: str) -> tuple[int, ...]:
        return (self._changes[name],) if name in self.files else ()

    def append(self, name: str, data: bytes) -> None:
        cut = self._dies()
        self._put(name, self.read(name) + (data if cut is None else data[: int(cut * len(data))]))
        if cut is not None:
            raise Killed

    def cut(self, name: str, length: int) -> None:
        if self._dies() is not None:
            raise Killed
        self._put(name, self.read(name)[:length])

    def replace(self, name: str, data: bytes) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        cut = self._dies()
        if cut is None or cut >= 1:
            self._put(name, data)
        if cut is not None:
            raise Killed

    def _put(self, name: str, data: bytes) -> None:
        self.files[name] = data
        self._changes[name] = self._changes.get(name, 0) + 1

    def _dies(self) -> float | None:
        if self.left is None:
            return None
        self.left -= 1
        return self.share if self.left < 0 else None


def files(count: int = 3) -> dict[str, bytes]:
    rows = [drafted_row(number) for number in range(count)]
    return {QUESTIONS: "".join(json.dumps(row) + "\n" for row in rows).encode()}


def opened(folder: Path, disk: DyingDisk) -> Review:
    return Review(folder, "yard", DOCUMENTS, disk)


def rows(disk: DyingDisk, name: str) -> dict[str, Any]:
    found = [json.loads(line) for line in disk.read(name).splitlines()]
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


ACTIONS: dict[str, Decision | None] = {
    "accept": Accept(),
    "mend": Edit("Another question?", "Another answer."),
    "reject": Reject("too vague"),
    "reopen": None,
}
STATES = {"accept": "accepted", "mend": "mended", "reject": "rejected", "reopen": "pending"}


def act(review: Review, id_: str, action: str) -> str:
    """Do it, and return the state that was confirmed."""
    decision = ACTIONS[action]
    if decision is None:
        return review.reopen(id_, reviewer="ada").state.value
    return review.decide(id_, decision, reviewer="ada").state.value


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["draft-000", "draft-001", "draft-002"]),
            st.sampled_from(sorted(ACTIONS)),
            st.one_of(st.none(), st.integers(0, 4)),
            st.sampled_from([0.0, 0.3, 0.999, 1.0]),
        ),
        max_size=8,
    )
)
def test_what_was_confirmed_is_kept_and_what_was_not_is_there_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int | None, float]]
) -> None:
    folder = tmp_path_factory.mktemp("yard")
    disk = DyingDisk(files())
    known = dict.fromkeys(("draft-000", "draft-001", "draft-002"), "pending")
    review = opened(folder, disk)
    for id_, action, left, share in steps:
        disk.left, disk.share = left, share
        try:
            known[id_] = act(review, id_, action)
            maybe = known[id_]
        except Killed:
            mended = known[id_] == "mended" and action == "accept"
            maybe = "mended" if mended else STATES[action]
        disk.left = None
        review = opened(folder, disk)  # another process, with nothing in its memory
        there = {draft.id: draft.state.value for draft in review.drafts}
        assert there[id_] in (known[id_], maybe)
        known[id_] = there[id_]
        assert there == known
        questions, rejected = rows(disk, QUESTIONS), rows(disk, REJECTED)
        assert questions.keys() | rejected.keys() == known.keys()
        assert not questions.keys() & rejected.keys()
        assert rejected.keys() == {name for name, state in known.items() if state == "rejected"}
        for name in known:
            if known[name] in ("pending", "accepted"):
                assert questions[name]["question"] == drafted_row(int(name[-3:]))["question"]
            if known[name] == "rejected":  # as it was drafted: so it is known when it is drafted again
                assert {key: rejected[name][key] for key in drafted_row(0)} == drafted_row(int(name[-3:]))
                assert rejected[name]["filter"] == REVIEW
        assert disk.read(JOURNAL).endswith(b"\n") or not disk.read(JOURNAL)


def test_what_is_kept_while_the_disk_is_full_is_shown_once_there_is_space(tmp_path: Path) -> None:
    disk = DyingDisk(files())
    review = opened(tmp_path, disk)
    disk.full = True
    for id_, action in (("draft-000", "accept"), ("draft-001", "reject"), ("draft-000", "mend")):
        with pytest.raises(Unapplied, match=r"saved in review\.jsonl.*No space left"):
            act(review, id_, action)
    assert review.counts()["pending"] == 3
    review = opened(tmp_path, disk)  # it can be looked at meanwhile
    disk.full = False
    assert act(review, "draft-002", "accept") == "accepted"
    for found in (review, opened(tmp_path, disk)):
        assert {draft.id: draft.state.value for draft in found.drafts} == {
            "draft-000": "mended",
            "draft-001": "rejected",
            "draft-002": "accepted",
        }
    assert disk.read(JOURNAL).endswith(APPLIED)


@pytest.mark.parametrize("action", ["accept", "mend"])
def test_a_row_that_somebody_restored_by_hand_stays_restored(tmp_path: Path, action: str) -> None:
    disk = DyingDisk(files())
    before = disk.read(QUESTIONS)
    act(opened(tmp_path, disk), "draft-001", action)
    disk.replace(QUESTIONS, before)
    assert opened(tmp_path, disk).draft("draft-001").state == "pending"
    assert disk.read(QUESTIONS) == before


def test_lines_of_others_stay_byte_by_byte(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    odd = b'{"id":   "w2", "question": "caf\\u00e9?",  "note": 1.50}\n'
    path = folder / QUESTIONS
    path.write_bytes(odd + path.read_bytes())
    before = path.read_bytes().splitlines(keepends=True)
    review = Review.open(folder)
    review.decide("draft-002", Accept(), reviewer="ada")
    review.decide("draft-003", Reject(), reviewer="ada")
    after = path.read_bytes().splitlines(keepends=True)
    assert [line for line in before if b"draft-002" not in line and b"draft-003" not in line] == [
        line for line in after if b"draft-002" not in line
    ]


def test_a_line_that_was_cut_is_removed_and_one_of_somebody_else_is_said(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    Review.open(folder).decide("draft-002", Accept(), reviewer="ada")
    journal = folder / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole.splitlines()[0])
    assert Review.open(folder).counts()["accepted"] == 1
    assert journal.read_bytes() == whole
    journal.write_bytes(whole + b'{"id": "x"}\n')
    with pytest.raises(DatasetError, match=r"review.jsonl: .*is not a decision of a review"):
        Review.open(folder)


def test_a_line_of_which_the_disk_takes_a_part_is_not_kept_at_all(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="no limits of files on Windows")
    disk = FolderDisk(tmp_path)
    disk.append("rows", b"one\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            disk.append("rows", b"two\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert disk.read("rows") == b"one\n"


def test_every_line_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    with (folder / QUESTIONS).open("ab") as file:
        file.write(b'{"question": "no id"}\n[]\n\xff\n')
    with pytest.raises(DatasetError) as raised:
        Review.open(folder)
    assert len(raised.value.mistakes) == 3


def test_rejections_of_filters_are_no_part_of_a_review(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    refused = {**drafted_row(50), "filter": "near_duplicate", "reason": "asks the same as another"}
    write_rows(folder, [refused], REJECTED)
    review = Review.open(folder)
    review.decide("draft-001", Reject("too vague"), reviewer="ada")
    assert [draft.id for draft in review.drafts if draft.state == "rejected"] == ["draft-001"]
    assert rows_of(folder, REJECTED)["draft-050"] == refused


def test_a_folder_is_reviewed_by_one_at_a_time(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    with Review.open(folder), pytest.raises(UsageError, match="is being reviewed already: end that review first"):
        Review.open(folder)
    with Review.open(folder) as review:
        assert review.counts()["pending"] == 6


def test_a_decision_about_a_row_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    review = Review.open(folder)
    draft = review.draft("draft-001")
    write_rows(folder, [drafted_row(1, question="Another question?")])
    with pytest.raises(DecidedMeanwhile, match="has changed since it was shown") as raised:
        review.decide("draft-001", Reject("too vague"), reviewer="ada", looked_at=draft.seen)
    assert raised.value.draft.question == "Another question?"
    review.decide("draft-001", Accept(), reviewer="ada", looked_at=raised.value.draft.seen)
    assert rows_of(folder)["draft-001"]["question"] == "Another question?"


@pytest.mark.parametrize("repaired", [True, False])
@pytest.mark.parametrize("decision", [Accept(), Edit("Another question?"), Reject()])
def test_what_is_taken_back_after_documents_were_edited_has_its_evidence_where_it_stands_now(
    tmp_path: Path, decision: Decision, repaired: bool
) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    Review.open(folder).decide("draft-001", decision, reviewer="ada")
    text = "Closed on Sundays.\n\n" + text_of("mill")
    (folder / "documents" / "mill.md").write_bytes(text.encode())
    if repaired:
        repair_dataset(folder)
    review = Review.open(folder)
    if not isinstance(decision, Reject):
        review.decide("draft-001", Reject(), reviewer="ada")
    review.reopen("draft-001", reviewer="ada")
    (entry,) = rows_of(folder)["draft-001"]["evidence"]
    assert text[entry["start"] : entry["end"]] == entry["text"] == drafted_row(1)["evidence"][0]["text"]


def test_what_cannot_be_as_it_was_drafted_stays_as_it_is_and_can_be_rejected(tmp_path: Path) -> None:
    folder = drafted_dataset(tmp_path / "yard")
    Review.open(folder).decide("draft-001", Accept(), reviewer="ada")
    for place in DOCUMENTS:
        (folder / "documents" / f"{place}.md").write_text(f"# The {place}\n\nIt burned down.\n")
    review = Review.open(folder)
    with pytest.raises(UsageError, match=r"cannot be as it was drafted: its documents no longer have 'Grain is"):
        review.reopen("draft-001", reviewer="ada")
    assert review.draft("draft-001").state == "accepted"
    assert review.decide("draft-001", Reject(), reviewer="ada").row["evidence"] == drafted_row(1)["evidence"]
