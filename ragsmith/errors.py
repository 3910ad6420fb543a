"""Every error ragsmith raises on purpose.

RagsmithError
├── UsageError              the request was wrong: exit code 2, one sentence
│   ├── DatasetError        a data set cannot be used; lists all mistakes with file, line and id
│   ├── SpaceError          a search space cannot be used
│   ├── WrongOption         a parameter has a value that it cannot have
│   └── MissingExtra        an optional package is not installed; names the command that installs it
├── ModelError              a model gave no valid reply: the question fails; ``kind`` says in which way
│   ├── RefusedContent      the provider does not answer this prompt, and would not if it were asked again
│   ├── Unreadable          replies came, and none could be used
│   ├── CutReply            the reply reached the limit on tokens before it ended
│   └── TooLong             the prompt is longer than the model reads
├── ModelUnavailable        a provider refuses the key or is down: the run stops, and goes on with the same command
├── BudgetExhausted         what a run may spend is spent: it pauses
├── NotComparable           two sets of scores are not of the same questions, or were not made alike: exit code 3
├── ScaleError              scores of different scales were about to be compared
├── StageFailed             a technique failed on a question; names both
└── StoreError              the cache cannot be opened, or belongs to something else
    └── SpendingDamaged     what a run has spent is not known, and it has a limit

Warnings: Notice (something was not as it should be, and was dealt with), DamagedRows (rows of the cache are not what
was written, and were left out), LeftOut (a data set is left out of a report).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class RagsmithError(Exception):
    """Root of every error raised on purpose."""


class UsageError(RagsmithError):
    """The request was wrong; the message says what, where, and what to do."""


class WrongOption(UsageError):
    """A parameter has a value that it cannot have; ``flag`` is its name on the command line."""

    def __init__(self, parameter: str, problem: str) -> None:
        self.flag = f"--{parameter.replace('_', '-')}"
        self.problem = problem
        super().__init__(f"{parameter} {problem}")


class SpaceError(UsageError):
    """A search space or pipeline file cannot be used."""


class DatasetError(UsageError):
    """A data set cannot be used; ``mistakes`` holds every one that was found, ``advice`` what to do about several."""

    def __init__(self, mistakes: Sequence[str], advice: Sequence[str] = ()) -> None:
        self.mistakes, self.advice = tuple(mistakes), tuple(advice)
        super().__init__("\n".join((*self.mistakes, *self.advice)))


class MissingExtra(UsageError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run  pip install 'ragsmith[{extra}]'")


class ModelError(RagsmithError):
    """A model gave no valid reply; the cause is in the message.

    ``kind`` is the class of the failure as records and reports name it. This one is of the server's own errors, which
    may have passed when it is asked again.
    """

    kind: ClassVar[str] = "server error"

    def __init__(self, message: str = "", *, calls: int = 0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """``calls`` is how many requests were sent in vain; the tokens are those that the server said it counted."""
        super().__init__(message)
        self.calls, self.input_tokens, self.output_tokens = calls, input_tokens, output_tokens

    @property
    def hopeless(self) -> bool:
        """Whether the same request would fail again."""
        return self.kind != ModelError.kind


class RefusedContent(ModelError):
    """The provider does not answer this prompt: a filter withholds the reply, or the request is rejected."""

    kind = "refused content"


class Unreadable(ModelError):
    """Replies came, and none could be used: without text, or not in the form that was asked for."""

    kind = "unreadable"


class CutReply(ModelError):
    """The reply reached the limit on tokens before it ended."""

    kind = "cut"


class TooLong(ModelError):
    """The prompt is longer than the model reads, or the reply that it may have than the model writes."""

    kind = "too long"


class NotComparable(RagsmithError):
    """Two sets of scores are not of the same documents and questions, or were not made alike; the message says why."""


class ScaleError(RagsmithError):
    """Scores of different scales were about to be sorted or cut together."""


class ModelUnavailable(RagsmithError):
    """A provider refuses the key or the model, or is down: asking on would only cost time."""


class BudgetExhausted(RagsmithError):
    """What a run may spend is spent: nothing more is sent, and the run pauses."""


class StoreError(RagsmithError):
    """The cache cannot be used: locked for too long, disk full, damaged."""


class WrongStore(StoreError, UsageError):
    """The place named for the cache cannot hold one, or holds something else; it was left as it is."""


class SpendingDamaged(StoreError, UsageError):
    """What a run has spent is not known for sure, so that its limits cannot be kept; the message says how to go on."""


class Notice(UserWarning):
    """Something was not as it should be and was dealt with; the message says what, and what was done."""


class DamagedRows(UserWarning):
    """Rows of the cache are not what was written; what needed them did without."""


class LeftOut(UserWarning):
    """A data set cannot be reported, as files of one's own that its search used are gone or changed; others are."""


class StageFailed(RagsmithError):
    """A technique failed on a question."""

    def __init__(self, family: str, technique: str, cause: BaseException) -> None:
        self.family = family
        self.technique = technique
        self.cause = cause
        super().__init__(f"{family}.{technique}: {type(cause).__name__}: {cause}")

    @property
    def stage(self) -> str:
        """``family.technique``."""
        return f"{self.family}.{self.technique}"
