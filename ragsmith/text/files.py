"""Read text files strictly: regular files of bounded size, in UTF-8.

Line ends are not translated, so that offsets into the text are the same everywhere.
"""

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.suggest import find_nearest_name

S = TypeVar("S")
T = TypeVar("T")

FORBIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
"""C0 and C1 controls except tab, line feed, form feed, carriage return and NEL, and single surrogates."""

KIB = 1024
MIB = 1024 * KIB

MAX_DOCUMENT_BYTES = 128 * MIB
"""Maximum size of a file that is read as a document, in bytes."""

MAX_QUOTED_CHARACTERS = 60
"""Maximum number of characters of a value that is quoted in a message."""


class TextError(UsageError):
    """A text cannot be used; ``reason`` is the problem, ``line`` its 1-based line number, if it has one."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.reason = reason
        self.line = line
        super().__init__(reason if line is None else f"line {line}: {reason}")

    def at(self, file: str | Path) -> str:
        """Return the message for a text from ``file``."""
        return f"{file}: {self.reason}" if self.line is None else f"{file}:{self.line}: {self.reason}"


def parse_each(items: Iterable[S], parse: Callable[[S], T], name: Callable[[S], str | Path]) -> list[T]:
    """Return the results of ``parse`` for ``items``, which messages call by their ``name``.

    Raises:
        DatasetError: ``parse`` has raised ``TextError`` for an item; the error lists the mistakes of all items.
    """
    results: list[T] = []
    mistakes: list[str] = []
    for item in items:
        try:
            results.append(parse(item))
        except TextError as error:
            mistakes.append(error.at(name(item)))
    if mistakes:
        raise DatasetError(mistakes)
    return results


def read_text(path: Path, *, limit: int, links: bool = False) -> str:
    """Return the text of the file at ``path``.

    ``limit`` is in bytes; ``links`` allows ``path`` to be a symbolic link. Raises ``TextError``.
    """
    return decode(read_bytes(path, limit=limit, links=links))


def read_bytes(path: Path, *, limit: int, links: bool = False) -> bytes:
    """Return the content of the regular file at ``path``; arguments and errors are those of `read_text`."""
    try:
        status = path.stat() if links else path.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise TextError("is a symbolic link, which is not followed; put the file itself here")
        if not stat.S_ISREG(status.st_mode):
            raise TextError("is a folder; name a file in it" if path.is_dir() else "is not a regular file")
        with path.open("rb") as file:
            data = file.read(limit + 1) if status.st_size <= limit else None
    except FileNotFoundError:
        near = find_nearest_file(path)
        advice = f"did you mean {near}?" if near else "check its name and folder"
        raise TextError(f"is missing; {advice}") from None
    except OSError as error:
        raise TextError(f"cannot be read ({os.strerror(error.errno or 0)})") from error
    if data is None or len(data) > limit:
        raise TextError(f"is larger than the limit of {format_size(limit)}; split it")
    return data


def exists(path: Path | str) -> bool:
    """Return whether ``path`` exists; False for a text that is too long for a path, of which `Path.exists` raises."""
    return os.path.exists(path)  # noqa: PTH110


def find_nearest_file(path: Path) -> str | None:
    """Return the name most similar to that of ``path``, of the files in its folder with its suffix; None if none is."""
    alike = [other.stem for other in path.parent.glob(f"*{path.suffix}") if path.suffix]
    near = find_nearest_name(path.stem, alike)  # the same suffix would make all alike
    return near and near + path.suffix


def decode(data: bytes) -> str:
    """Decode UTF-8; raises ``TextError`` for a byte order mark, an invalid byte or a control character."""
    if data.startswith(codecs.BOM_UTF8):
        raise TextError("starts with a byte order mark; save it as UTF-8 without BOM", 1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        bad = f"0x{data[error.start]:02x}"
        raise TextError(f"byte {bad} at offset {error.start} is not UTF-8; save the file as UTF-8", line) from None
    if found := FORBIDDEN.search(text):
        raise TextError(f"{name_character(found.group())}; remove it", get_line_number(text, found.start()))
    return text


def name_character(character: str) -> str:
    """Return the name of an unprintable character: ``control character U+001B``."""
    return f"control character U+{ord(character):04X}"


def shorten(value: object) -> str:
    """Return the ``repr`` of a value for a message, truncated to `MAX_QUOTED_CHARACTERS`."""
    text = repr(value)
    return text if len(text) <= MAX_QUOTED_CHARACTERS else f"{text[: MAX_QUOTED_CHARACTERS - 4]}...{text[-1]}"


def get_line_number(text: str, offset: int) -> int:
    """Return the 1-based number of the line of ``text`` that contains ``offset``."""
    return text.count("\n", 0, offset) + 1


def format_size(count: int) -> str:
    """Format a number of bytes: ``16 MiB``, ``300 bytes``."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"
