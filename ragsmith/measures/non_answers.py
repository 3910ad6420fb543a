"""Answers that are no answers: copied passages, repeated instructions, one answer to different questions.

They are named and counted from texts alone, without a model, and never change a score. Answers of the embedded model
are copied by design, so that only those of chat models are worth naming.
"""

import re
from collections import Counter
from collections.abc import Sequence

from ragsmith.text.declining import declines
from ragsmith.text.words import words

COPIED, RULES, ALIKE, DECLINED = "copied passages", "repeated instructions", "the same for several", "declined"
"""Kinds of answers that are none; an answer may be of several."""
RUN = 8
"""Number of words in a row that count as copied; names and terms of a field are shorter."""
MAX_QUOTATION = 40
"""Maximum number of words of an answer that may consist of a quotation: one or two sentences."""
MOSTLY = 0.8
"""Minimum share of copied words of an answer that consists of copied passages."""
MIN_ALIKE = 3
"""Minimum number of questions whose answers are alike; two questions may well have the same answer."""
_PLACEHOLDER = re.compile(r"\{>?\w+\}")


def copied_share(answer: str, *texts: str) -> float:
    """Return the share of the words of ``answer`` in runs of `RUN` words that one of ``texts`` has, in [0, 1].

    >>> copied_share("So: The ferry to Marrow takes 50 minutes each day", "the ferry to Marrow takes 50 minutes each")
    0.8
    """
    known = {run for text in texts for run in _runs(words(text))}
    found = words(answer)
    copied = {i + k for i, run in enumerate(_runs(found)) if run in known for k in range(RUN)}
    return len(copied) / len(found) if found else 0.0


def _runs(found: Sequence[str]) -> list[tuple[str, ...]]:
    return [tuple(found[i : i + RUN]) for i in range(len(found) - RUN + 1)]


def find_non_answers(
    answers: Sequence[str], prompt: str, contexts: Sequence[str] = (), *, answerable: bool = False
) -> dict[str, tuple[int, ...]]:
    """Return the positions of the answers to distinct questions that are none, by kind; only kinds that occur.

    ``prompt`` is the prompt with ``{placeholders}`` whose instructions may be repeated, and ``contexts`` are the
    passages of each answer, which can only be copied where they are given. An answer of at most `MAX_QUOTATION` words
    is a quotation. Those that decline to answer are not alike, but none if all questions are ``answerable``.
    """
    instructions = _PLACEHOLDER.split(prompt)
    spoken = [tuple(words(answer)) for answer in answers]
    alike = Counter(said for said, answer in zip(spoken, answers, strict=True) if not declines(answer))
    found = {
        COPIED: [
            len(spoken[i]) > MAX_QUOTATION and copied_share(answers[i], its) >= MOSTLY for i, its in enumerate(contexts)
        ],
        RULES: [copied_share(answer, *instructions) > 0 for answer in answers],
        ALIKE: [alike[said] >= MIN_ALIKE for said in spoken],
        DECLINED: [answerable and declines(answer) for answer in answers],
    }
    return {kind: tuple(i for i, is_none in enumerate(each) if is_none) for kind, each in found.items() if any(each)}
