"""What readers return, and what they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version

from ragsmith.errors import MissingExtra

EXTRA = "documents"


@dataclass(frozen=True, slots=True)
class Part:
    """A text that a file holds, and the ending of the file that it is kept in.

    Most files are one part, whose ``name`` is ""; a workbook has one for each sheet. ``title`` is what the file says
    of itself, ``pages`` are the offsets at which pages start, and ``notes`` say what was changed or left out.
    """

    text: str
    ending: str = ".md"
    title: str | None = None
    name: str = ""
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reader:
    """Files of one ``kind``: ``read`` takes the bytes and the name of one, and raises ``TextError``.

    ``edition`` is counted up when the same file would give another text. ``needs`` are the packages, by the name of
    their distribution, that the extra brings.
    """

    kind: str
    read: Callable[[bytes, str], tuple[Part, ...]]
    edition: int = 1
    needs: tuple[str, ...] = ()

    @cached_property
    def converter(self) -> str:
        """What the text depends on beside the file: ``ragsmith DOCX 1, mammoth 1.9.0``.

        Raises:
            MissingExtra: a package is not installed.
        """
        return ", ".join([f"ragsmith {self.kind} {self.edition}", *(f"{name} {_version(name)}" for name in self.needs)])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        raise MissingExtra(package, EXTRA) from None
