"""Review in a terminal: a key for each decision, or lines where standard input is no terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ragsmith.labelling.reviewing.decisions import (
    REASONS,
    UNSAID,
    Accept,
    Decision,
    Mend,
    Quote,
    Reject,
    State,
    Unmendable,
)
from ragsmith.labelling.reviewing.passages import Passage
from ragsmith.labelling.reviewing.review import DecidedMeanwhile, Draft, Review

KEYS = "a accept  e mend  r reject  s skip  u undo  m more  q quit  ? help"
NUMBERS = {str(number): reason for number, reason in enumerate(REASONS, start=1)}
LEGEND = (
    "a  accept: question, answer and quote are right",
    "e  mend: change the question, the answer or a quote, each in turn; what is left as it is stays",
    "r  reject; a reason may be typed",
    *(f"{number}  reject: {reason}" for number, reason in NUMBERS.items()),
    "s  skip: it comes again when you review again",
    "u  undo: take your last decision back",
    "m  more: show more of the document around the quote",
    "q  quit: every decision is kept",
)
WIDEST = 100

OPEN, CLOSE = "[[", "]]"
"""What stands around a quote where text cannot be marked otherwise."""


class TerminalReview:
    """Goes through the pending drafts of ``review``, the least certain first.

    ``read`` returns what was typed after it is shown a prompt, and a text to change; it is the terminal's if not given.
    ``say`` prints a line.

    A line begins with a key, ``?`` says what they do, and what follows ``r`` is the reason. Lines follow ``e``:
    question, answer and each quote, blank where one stays as it is.
    """

    def __init__(
        self,
        review: Review,
        reviewer: str,
        *,
        read: Callable[[str, str], str] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.review = review
        self.reviewer = reviewer
        self.say = say
        self.keys = read is None and sys.stdin.isatty() and sys.stdout.isatty() and os.name == "posix"
        self.read = read or (_edited if self.keys else _line)
        self.width = min(WIDEST, shutil.get_terminal_size().columns)
        self._decided: list[str] = []
        self._skipped: set[str] = set()

    def run(self) -> None:
        """Review until nothing is left, the input ends, or ``q`` is typed."""
        while (draft := self._next()) is not None:
            try:
                if not self._look(draft):
                    return
            except EOFError:
                return

    def _next(self) -> Draft | None:
        return next((draft for draft in self.review.pending if draft.id not in self._skipped), None)

    def _look(self, draft: Draft, more: int = 0) -> bool:
        """Show a draft and take a decision; False to end."""
        self._show(draft, more)
        while True:
            typed = self._key(f"{KEYS}: ").strip()
            key, rest = _key_and_rest(typed)
            match key:
                case "q":
                    return False
                case "s":
                    self._skipped.add(draft.id)
                    return True
                case "m":
                    return self._look(self.review.draft(draft.id), more + 1)
                case "u" if self._decided:
                    return self._look(self._undone())
                case "u":
                    self.say("nothing was decided here yet")
                case "a" | "e" | "r":
                    if self._decide(draft, key, rest):
                        return True
                case "?":
                    for line in LEGEND:
                        self.say(f"  {line}")
                case _:
                    self.say(f"type one of: a e r 1-{len(REASONS)} s u m q, or ? for what they do")

    def _undone(self) -> Draft:
        """The draft that was decided last, as it was before."""
        last = self._decided.pop()
        self._skipped.discard(last)
        return self.review.reopen(last, reviewer=self.reviewer)

    def _decide(self, draft: Draft, key: str, reason: str) -> bool:
        """Take the decision of a key; False where the draft cannot be mended in this way."""
        decision: Decision = Accept()
        if key == "r":
            asked = self.read("why (or nothing): ", "").strip() if self.keys and not reason else ""
            decision = Reject(reason or asked or UNSAID)
        elif key == "e":
            decision = self._mending(draft)
        try:
            after = self.review.decide(draft.id, decision, reviewer=self.reviewer, looked_at=draft.seen)
        except DecidedMeanwhile as error:
            self.say(str(error))
            return True
        except Unmendable as error:
            for problem in error.problems:
                self.say(f"  {problem}")
            return False
        self._decided.append(draft.id)
        self.say(f"  {after.state.value}")
        return True

    def _mending(self, draft: Draft) -> Mend:
        question = self.read("question: ", draft.question).strip()
        answer = self.read("answer: ", draft.answer).strip()
        evidence: list[int | Quote] = []
        for number, entry in enumerate(draft.evidence):
            before = str(entry.get("text", ""))
            shown = "quote: " if len(draft.evidence) == 1 else f"quote {number + 1}: "
            quote = self.read(shown, " ".join(before.split())).strip()
            kept = not quote or quote.split() == before.split()
            evidence.append(number if kept else Quote(str(entry.get("doc", "")), quote))
        return Mend(question or None, answer or None, tuple(evidence) if draft.evidence else None)

    def _show(self, draft: Draft, more: int) -> None:
        counts = self.review.counts()
        gone = sum(counts.values()) - counts[State.PENDING]
        self.say("")
        self.say(
            f"-- {gone + 1} of {sum(counts.values())}  {draft.type}, {draft.method}  doubt {draft.doubt.value:.2f}"
        )
        for why in draft.doubt.why:
            self.say(f"   {why}")
        self._say_wrapped("Q  ", draft.question)
        if draft.answer or not draft.answerable:
            self._say_wrapped("A  ", draft.answer or "(said to be unanswerable)")
        for passage in self.review.passages(draft, more):
            self.say("")
            self.say(f"   {passage.title} ({passage.doc})")
            for line in self._marked(passage).splitlines():
                self._say_wrapped("   | ", line)

    def _marked(self, passage: Passage) -> str:
        return "".join(f"{OPEN}{piece.text}{CLOSE}" if piece.marks else piece.text for piece in passage.pieces)

    def _say_wrapped(self, before: str, text: str) -> None:
        pad = before if before.strip() == "|" else " " * len(before)
        for number, line in enumerate(textwrap.wrap(text, max(20, self.width - len(before))) or [""]):
            self.say(f"{pad if number else before}{line}".rstrip())

    def _key(self, prompt: str) -> str:
        if not self.keys:
            return self.read(prompt, "")
        with _single_keys(sys.stdin) as read:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            key = read()
        sys.stderr.write(f"{key if key.isprintable() else ''}\n")
        return key


def _key_and_rest(typed: str) -> tuple[str, str]:
    """The key that begins a line, and what follows it; a number is a rejection for the reason of that number."""
    if typed[:1] in NUMBERS:
        return "r", NUMBERS[typed[:1]]
    return typed[:1].lower(), typed[1:].strip()


def _line(prompt: str, before: str) -> str:
    """A line of an input that is no terminal; nothing is prompted, as nobody looks."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _edited(prompt: str, before: str) -> str:
    """What is typed at a terminal, which shows ``before`` to be changed."""
    import readline  # noqa: PLC0415  not on every system, and it takes hold of the terminal

    readline.set_startup_hook(lambda: readline.insert_text(before))
    try:
        return input(prompt)
    finally:
        readline.set_startup_hook()


@contextmanager
def _single_keys(stream: TextIO) -> Iterator[Callable[[], str]]:
    """Reads keys without Enter; Ctrl-C stays what it is, and the terminal is as before at the end."""
    import termios  # noqa: PLC0415  not on every system
    import tty  # noqa: PLC0415

    handle = stream.fileno()
    before = termios.tcgetattr(handle)

    def read() -> str:
        data = os.read(handle, 16)
        if not data or data == b"\x04":
            raise EOFError
        return data.decode("utf-8", "replace")[0]

    try:
        tty.setcbreak(handle, termios.TCSADRAIN)  # what was typed ahead stays
        yield read
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
