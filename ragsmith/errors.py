"""The errors and warnings of ragsmith.

RagsmithError
├── UsageError              the request is invalid: exit code 2, one sentence
│   ├── DatasetError        a data set cannot be used; lists all mistakes with file, line and id
│   ├── SpaceError          a search space cannot be used
│   ├── WrongOption         a parameter has an invalid value
│   └── MissingExtra        an optional package is not installed; names the command that installs it
├── ModelError              a model gave no valid reply: the question fails; ``kind`` says in which way
│   ├── ProviderTrouble     the provider fails, or its replies break the protocol: it is asked again later
│   ├── RefusedContent      the provider refuses this prompt, also when it is repeated
│   ├── Unreadable          no reply could be used
│   ├── CutReply            the reply reached the limit on tokens before it ended
│   ├── LoopingReply        the reply repeated itself until it reached the limit on tokens
│   └── TooLong             the prompt is longer than the model reads
├── ModelUnavailable        a provider refuses the key or is down: the run stops; the same command resumes it
├── BudgetExhausted         a limit on spending is reached: the run pauses
├── NotComparable           two sets of scores differ in their questions or their scoring: exit code 3
├── ScaleError              scores of different scales cannot be compared
├── StageFailed             a technique failed on a question; names both
└── StoreError              the cache cannot be opened, or belongs to another program
    └── SpendingDamaged     the record of what a run has spent is damaged, and it has a limit

Warnings: Notice (a problem that was handled), DamagedRows (damaged rows of the cache were skipped), LeftOut (a data
set is left out of a report).
"""

import inspect
import sys
import warnings
from collections.abc import Sequence
from itertools import chain, dropwhile
from threading import main_thread
from traceback import walk_stack
from types import FrameType
from typing import ClassVar


class RagsmithError(Exception):
    """Base class of all errors of ragsmith."""


class UsageError(RagsmithError):
    """The request is invalid; the message says what is wrong, where, and what to do."""


class WrongOption(UsageError):
    """A parameter has an invalid value; ``flag`` is its name on the command line, and ``reason`` precedes it."""

    def __init__(self, parameter: str, problem: str, reason: str = "") -> None:
        self.flag = f"--{parameter.replace('_', '-')}"
        self.problem = problem
        self.reason = reason and f"{reason}: "
        super().__init__(f"{self.reason}{parameter} {problem}")


class SpaceError(UsageError):
    """A search space or pipeline file cannot be used."""


class DatasetError(UsageError):
    """A data set cannot be used; ``mistakes`` lists all mistakes, ``advice`` how to fix them."""

    def __init__(self, mistakes: Sequence[str], advice: Sequence[str] = ()) -> None:
        self.mistakes, self.advice = tuple(mistakes), tuple(advice)
        super().__init__("\n".join((*self.mistakes, *self.advice)))


class MissingExtra(UsageError):
    """An optional package is not installed; ``command`` installs it."""

    def __init__(self, package: str, extra: str) -> None:
        self.command = f"pip install 'ragsmith[{extra}]'"
        super().__init__(f"{package} is not installed: run  {self.command}")


class ModelError(RagsmithError):
    """A model gave no valid reply; the message has the cause.

    ``kind`` is the name of the failure in records and reports. This class is for errors that may be
    transient.
    """

    kind: ClassVar[str] = "server error"

    def __init__(self, message: str = "", *, calls: int = 0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """``calls`` is the number of failed requests; the tokens are those counted by the server."""
        super().__init__(message)
        self.calls, self.input_tokens, self.output_tokens = calls, input_tokens, output_tokens


class ProviderTrouble(ModelError):
    """Every attempt of a request failed or was answered in another protocol: by a page, or with missing numbers."""

    kind = "provider trouble"


class RefusedContent(ModelError):
    """The provider refuses this prompt: a filter withholds the reply or rejects the request."""

    kind = "refused content"


class Unreadable(ModelError):
    """No reply could be used: they had no text, or not the requested format."""

    kind = "unreadable"


class CutReply(ModelError):
    """The reply reached the limit on tokens before it ended."""

    kind = "cut"


class LoopingReply(ModelError):
    """The reply repeated a piece of text until it reached the limit on tokens; a larger one would not end it."""

    kind = "looping"


class TooLong(ModelError):
    """The prompt exceeds the context length of the model, or the reply its maximum length."""

    kind = "too long"


class NotComparable(RagsmithError):
    """Two sets of scores differ in their documents, questions or scoring; the message has the reason."""


class ScaleError(RagsmithError):
    """Scores of different scales cannot be sorted or cut together."""


class ModelUnavailable(RagsmithError):
    """A provider refuses the key or the model, or is down, so that further requests would fail."""


class BudgetExhausted(RagsmithError):
    """A limit on spending is reached: no more requests are sent, and the run pauses."""


class StoreError(RagsmithError):
    """The cache cannot be used: locked for too long, disk full, damaged."""


class WrongStore(StoreError, UsageError):
    """The location of the cache cannot be used, or has other content, which is left unchanged."""


class SpendingDamaged(StoreError, UsageError):
    """The record of spending is damaged, so that limits cannot be enforced; the message says what to do."""


class Notice(UserWarning):
    """A problem that was handled; the message says what it was and what was done."""


class DamagedRows(UserWarning):
    """Damaged rows of the cache were skipped."""


_BETWEEN = ("ragsmith", "contextlib", "functools", "concurrent", "threading")
"""Packages whose code may be between a call and a warning."""


def _package(place: tuple[FrameType, int]) -> str:
    return str(place[0].f_globals.get("__name__", "")).partition(".")[0]


def warn_caller(message: str, category: type[Warning] = Notice) -> None:
    """Issue a warning at the line outside of this package whose call led here, however deep that is.

    A thread of a pool has no such line, and takes that of the call in the main thread, else in another one, else
    the line where the main thread is.
    """
    frames = sys._current_frames()
    stacks = (walk_stack(frames.get(ident)) for ident in sorted(frames, key=lambda ident: ident != main_thread().ident))
    called = (dropwhile(lambda place: _package(place) != "ragsmith", stack) for stack in stacks)
    places = chain(walk_stack(inspect.currentframe()), *called, walk_stack(frames.get(main_thread().ident or 0)))
    frame, line = next((place for place in places if _package(place) not in _BETWEEN), (sys._getframe(), 0))
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, line, registry=registry)


class LeftOut(UserWarning):
    """A data set is missing from a report, as imported files of its search are missing or changed."""


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
