"""A review as a file to edit, Markdown or CSV: it is written, a person edits it anywhere, and it is applied.

Of each draft the file says what was seen, so that what others decide meanwhile is not overwritten: it is said. A file
with a mistake is not applied at all, and all its mistakes are listed; one that was applied can be applied again.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from ragsmith.errors import DatasetError, UsageError
from ragsmith.labelling.reviewing.decisions import UNSAID, Accept, Decision, Mend, Quote, Reject, State
from ragsmith.labelling.reviewing.review import Draft, Review
from ragsmith.text.files import MIB, TextError, read_text, shown
from ragsmith.text.writing import write_file

MOST_BYTES = 256 * MIB
WORDS = {"accept": "accept", "a": "accept", "mend": "mend", "e": "mend", "reject": "reject", "r": "reject"}
"""What may stand for a decision."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")
"""What a spreadsheet may run when a cell starts with it: such a cell gets an apostrophe, which is taken off again."""

_HEAD = """\
# Review of {name}

Write `accept`, `mend` or `reject` behind `Decision:`; leave it blank to decide later. To mend, change the lines below
`Question:`, `Answer:` and `Quote`, which begin with `>`; a quote must stand in its document word by word, at one place.
Behind `Reason:` you may say why you reject. Leave `Seen:` as it is. Then:

    ragsmith dataset review {folder} --read {file}
"""
_SECTION = re.compile(r"^## (\S.*)$")
_LABEL = re.compile(r"^(Decision|Reason|Seen|Question|Answer|Quote|Passage|About)(?: in `(.*)`)?:[ \t]*(.*)$")
_BLOCKS = ("Question", "Answer", "Quote", "Passage")


@dataclass
class Line:
    """What a file says of a draft; ``where`` it does."""

    where: str
    id: str
    decision: str = ""
    reason: str = ""
    seen: str = ""
    question: str = ""
    answer: str = ""
    quotes: list[tuple[str, str]] = field(default_factory=list)
    """Document and text of each."""


@dataclass(frozen=True)
class Applied:
    """What applying a file came to: decisions by state, and a sentence for each that others were quicker to take."""

    counts: dict[str, int]
    undecided: int
    meanwhile: tuple[str, ...]


def write_sheet(review: Review, path: Path) -> int:
    """Write the drafts that nobody has decided about to ``path``, the least certain first; returns how many.

    Raises:
        UsageError: the file's name ends with neither .md nor .csv, or it has decisions that were not applied.
    """
    drafts = review.pending
    kind = _kind(path)
    if path.exists() and (kept := _decided(path)):
        raise UsageError(f"{path} has {kept} decisions: apply them with --read first, or name another file")
    write_file(_csv(review, drafts) if kind == ".csv" else _markdown(review, drafts, path), path)
    return len(drafts)


def apply_sheet(review: Review, path: Path, reviewer: str) -> Applied:
    """Apply the decisions of a file that `write_sheet` wrote and somebody edited.

    Raises:
        DatasetError: with every mistake in it; nothing is decided then.
    """
    lines, mistakes = _read(path)
    there = {draft.id: draft for draft in review.drafts}
    first: dict[str, str] = {}
    todo: list[tuple[Line, Draft, Decision]] = []
    for line in lines:
        if line.id in first:
            mistakes.append(f"{line.where}: {line.id} stands at {first[line.id]} already; keep one of them")
            continue
        first[line.id] = line.where
        if not line.decision:
            continue
        draft = there.get(line.id)
        problems = [f"there is no drafted question {shown(line.id)}"] if draft is None else []
        if line.decision.lower() not in WORDS:
            problems.append(f"{shown(line.decision)} is no decision; write accept, mend or reject, or nothing")
        if not line.seen:
            problems.append("what was seen is missing; write the file anew with --write, and copy the decisions")
        if draft is not None and not problems:
            decision = _decision(line, draft)
            problems += review.problems(draft, decision) if line.seen == draft.seen else []
            if isinstance(decision, Accept) and line.seen == draft.seen and _changes(line, draft):
                problems.append("says accept, and the text was changed; write mend")
            todo.append((line, draft, decision))
        mistakes += [f"{line.where} ({line.id}): {problem}" for problem in problems]
    if mistakes:
        raise DatasetError(mistakes)
    counts = dict.fromkeys((State.ACCEPTED.value, State.MENDED.value, State.REJECTED.value), 0)
    meanwhile: list[str] = []
    for line, draft, decision in todo:
        if line.seen != draft.seen:
            if not _same(draft, decision):
                who = draft.reviewer or "somebody"
                meanwhile.append(f"{line.where} ({line.id}): {who} {draft.state.value} it meanwhile; left as it is")
            continue
        after = review.decide(draft.id, decision, reviewer=reviewer, looked_at=line.seen)
        counts[after.state.value] += 1
    return Applied(counts, sum(not line.decision for line in lines), tuple(meanwhile))


def _decision(line: Line, draft: Draft) -> Decision:
    match WORDS[line.decision.lower()]:
        case "accept":
            return Accept()
        case "reject":
            return Reject(line.reason or UNSAID)
    return Mend(line.question, line.answer, tuple(_evidence(line, draft)))


def _evidence(line: Line, draft: Draft) -> Iterator[int | Quote]:
    """The quotes of a file, those that were not changed as the entries that they are."""
    entries = [(str(entry.get("doc", "")), str(entry.get("text", "")).split()) for entry in draft.evidence]
    left = list(range(len(entries)))  # the same words may be quoted from several places: each quote is one of them
    for doc, text in line.quotes:
        if (known := next((n for n in left if entries[n] == (doc, text.split())), None)) is not None:
            left.remove(known)
            yield known
        elif text.strip():
            yield Quote(doc, text)


def _changes(line: Line, draft: Draft) -> bool:
    """Whether a file has another text than the draft."""
    kept = list(_evidence(line, draft)) == list(range(len(draft.evidence)))
    same = [line.question.split(), line.answer.split()] == [draft.question.split(), draft.answer.split()]
    return not (kept and same)


def _same(draft: Draft, decision: Decision) -> bool:
    """Whether a draft is in the state that a decision leads to: the file was applied before."""
    match decision:
        case Accept():
            return draft.state is State.ACCEPTED
        case Reject():
            return draft.state is State.REJECTED
    return draft.state is State.MENDED


def _kind(path: Path) -> str:
    kind = path.suffix.lower()
    if kind not in (".md", ".csv"):
        raise UsageError(f"{path} is no .md and no .csv file: name one")
    return kind


def _decided(path: Path) -> int:
    """Decisions in a file that is there; one of another kind has none, and is not overwritten either."""
    lines, mistakes = _read(path)
    if mistakes:
        raise UsageError(f"{path} is there already, and is no file of a review that can be read: name another")
    return sum(bool(line.decision) for line in lines)


def _read(path: Path) -> tuple[list[Line], list[str]]:
    kind = _kind(path)
    try:
        text = read_text(path, limit=MOST_BYTES, links=True)
    except TextError as error:
        if error.line != 1 or "byte order mark" not in error.reason:
            raise DatasetError([error.at(path)]) from None
        text = path.read_bytes().decode("utf-8-sig")  # spreadsheets write one
    return _read_csv(text, path.name) if kind == ".csv" else _read_markdown(text, path.name)


# -- Markdown


def _markdown(review: Review, drafts: Sequence[Draft], path: Path) -> str:
    parts = [_HEAD.format(name=review.name, folder=quote(str(review.folder)), file=quote(str(path)))]
    for draft in drafts:
        parts.append(f"\n## {draft.id}\n\nDecision: \nReason: \nSeen: {draft.seen}\n")
        why = "; ".join([f"{draft.type}, {draft.method}", *draft.doubt.why])
        parts.append(f"About: {why}\n\nQuestion:\n{_block(draft.question)}\nAnswer:\n{_block(draft.answer)}\n")
        parts += [f"Quote in `{e.get('doc')}`:\n{_block(str(e.get('text', '')))}\n" for e in draft.evidence]
        for passage in review.passages(draft):
            parts.append(f"Passage in `{passage.doc}`:\n{_block(passage.text)}\n")
    return "".join(parts)


def _block(text: str) -> str:
    return "".join(f"> {line}".rstrip() + "\n" for line in text.replace("\r", "").split("\n"))


def _read_markdown(text: str, name: str) -> tuple[list[Line], list[str]]:
    lines: list[Line] = []
    mistakes: list[str] = []
    label, doc = "", ""
    blocks: list[str] = []

    def close() -> None:
        if lines and label in _BLOCKS:
            value = "\n".join(blocks).strip()
            if label == "Question":
                lines[-1].question = value
            elif label == "Answer":
                lines[-1].answer = value
            elif label == "Quote":
                lines[-1].quotes.append((doc, value))

    for number, raw in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if raw.startswith(">"):
            if lines and label in _BLOCKS:
                blocks.append(raw[2:] if raw.startswith("> ") else raw[1:])
            continue
        if found := _SECTION.match(raw):
            close()
            label, blocks = "", []
            lines.append(Line(f"{name}:{number}", found[1].strip()))
        elif lines and (found := _LABEL.match(raw)):
            close()
            label, doc, blocks = found[1], found[2] or "", []
            value = found[3].strip()
            if label in ("Decision", "Reason", "Seen"):
                setattr(lines[-1], label.lower(), value.strip("`"))
            elif label in _BLOCKS and value:
                blocks.append(value)
        elif lines and raw.strip():
            mistakes.append(f"{name}:{number}: {shown(raw.strip())} belongs to nothing; begin a line of text with '> '")
    close()
    if not lines:
        mistakes.append(f"{name}: has no questions; write the file anew with --write")
    return lines, mistakes


# -- CSV


def _csv(review: Review, drafts: Sequence[Draft]) -> str:
    most = max((len(draft.evidence) for draft in drafts), default=1)
    quotes = [name for number in range(1, most + 1) for name in (f"doc_{number}", f"quote_{number}")]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(
        ["decision", "reason", "question", "answer", *quotes, "type", "method", "why", "passage", "id", "seen"]
    )
    for draft in drafts:
        pairs = [part for e in draft.evidence for part in (str(e.get("doc", "")), str(e.get("text", "")))]
        passage = "\n\n".join(passage.text for passage in review.passages(draft))
        cells = ["", "", draft.question, draft.answer, *pairs, *[""] * (2 * most - len(pairs))]
        cells += [draft.type, draft.method, "; ".join(draft.doubt.why), passage, draft.id, draft.seen]
        writer.writerow([f"'{cell}" if cell.startswith(FORMULA) else cell for cell in cells])
    return buffer.getvalue()


def _read_csv(text: str, name: str) -> tuple[list[Line], list[str]]:
    head, _, _ = text.partition("\n")
    separator = max(",;\t", key=head.count)  # what a spreadsheet writes depends on its country
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    columns = reader.fieldnames or []
    needed = ("decision", "question", "answer", "id", "seen")
    if missing := [column for column in needed if column not in columns]:
        return [], [f"{name}: lacks the column {column!r}; write the file anew with --write" for column in missing]
    lines: list[Line] = []
    mistakes: list[str] = []
    try:
        for row in reader:
            cells = {key: _cell(value) for key, value in row.items() if isinstance(key, str)}
            where = f"{name}:{reader.line_num}"
            if None in row:
                mistakes.append(f"{where}: has more cells than the first line; quote what has a {separator!r} in it")
            line = Line(where, cells["id"].strip(), cells["decision"].strip())
            line.reason, line.seen = cells.get("reason", ""), cells["seen"]
            line.question, line.answer = cells["question"].strip(), cells["answer"].strip()
            numbers = [column.removeprefix("quote_") for column in columns if column.startswith("quote_")]
            pairs = [(cells.get(f"doc_{number}", ""), cells[f"quote_{number}"]) for number in numbers]
            line.quotes = [(doc, quote) for doc, quote in pairs if doc or quote.strip()]
            lines.append(line)
    except csv.Error as error:
        mistakes.append(f"{name}:{reader.line_num}: is no CSV ({error})")
    return lines, mistakes


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return text[1:] if text.startswith("'") else text
