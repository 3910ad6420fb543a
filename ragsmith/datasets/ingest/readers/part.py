"""Registration of readers, their results and required packages.

```python
@reader("subtitles", suffixes=(".srt",))
def read_subtitles(data: bytes, name: str) -> tuple[Part, ...]:
    \"\"\"Subtitles: what is said, without times.\"\"\"
```

It takes the bytes and the name of a file, and raises ``TextError`` for what it cannot read. A reader in a file of one's
own goes before those of this package.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError
from xml.sax import SAXParseException

from ragsmith.digest import fingerprint
from ragsmith.errors import MissingExtra
from ragsmith.extensions import Extension, Registry
from ragsmith.text.files import MIB, TextError, size

EXTRA = "documents"


@dataclass(frozen=True, slots=True)
class FilePart:
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


ReadParts = Callable[[bytes, str], tuple[FilePart, ...]]


@dataclass(frozen=True, kw_only=True)
class Reader(Extension):
    """A function that reads files of one kind: those whose names end in ``suffixes``, or archives with ``member``.

    ``edition`` is counted up when the same file would give another text. ``needs`` are the packages, by the name of
    their distribution, that the extra brings. Files that are not ``binary`` are texts, of which fewer bytes are read.
    """

    suffixes: Sequence[str] = ()
    member: str = ""
    binary: bool = False
    edition: int = 1
    needs: Sequence[str] = ()

    @property
    def is_own(self) -> bool:
        """Whether it was registered by user code."""
        return not self.fn.__module__.startswith("ragsmith.")

    def read(self, data: bytes, name: str) -> tuple[FilePart, ...]:
        """Return the parts of a file with these bytes; raises ``TextError``."""
        parts: tuple[FilePart, ...] = self.fn(data, name)
        return parts

    @cached_property
    def converter(self) -> str:
        """What the text depends on besides the file: ``ragsmith DOCX 1, mammoth 1.9.0``.

        Raises:
            MissingExtra: a package is not installed.
        """
        made_by = (
            f"{self.name} {fingerprint(self.fn.__module__)}" if self.is_own else f"ragsmith {self.name} {self.edition}"
        )
        return ", ".join([made_by, *package_versions(self.needs)])

    def describe(self) -> str:
        """One line of help: what it reads, and the endings of their names."""
        listed = [*self.suffixes[:4], *["..."] * (len(self.suffixes) > 4)]
        return f"{self.summary}{f' ({chr(32).join(listed)})' if listed else ''}"


READERS: Registry[Reader] = Registry("reader", "ragsmith.datasets.ingest.readers")


def reader(
    name: str,
    *,
    suffixes: Sequence[str] = (),
    member: str = "",
    binary: bool = False,
    edition: int = 1,
    needs: Sequence[str] = (),
) -> Callable[[ReadParts], ReadParts]:
    """Register the decorated function as the reader of the file type ``name``; see `Reader` for the arguments."""

    def register(fn: ReadParts) -> ReadParts:
        made = Reader(name=name, fn=fn, suffixes=suffixes, member=member, binary=binary, edition=edition, needs=needs)
        READERS.add(made)
        return fn

    return register


def package_versions(names: Sequence[str]) -> list[str]:
    """Return the names of distributions with their versions; raises ``MissingExtra`` if one is not installed."""
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            raise MissingExtra(name, EXTRA) from None
    return found


MAX_UNPACKED = 256 * MIB

DAMAGED = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, RuntimeError, OSError),
    *(EOFError, SyntaxError, zipfile.BadZipFile, zlib.error, struct.error, ExpatError, SAXParseException),
)
"""Exceptions of parsers for damaged files."""

TITLE = "{http://purl.org/dc/elements/1.1/}title"


def opened(data: bytes) -> zipfile.ZipFile:
    """Open an archive. Raises ``TextError`` if it is damaged, or would unpack to more than the limit."""
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except DAMAGED:
        raise TextError("is a damaged archive; save it again") from None
    if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED:
        raise TextError(f"unpacks to more than the limit of {size(MAX_UNPACKED)}; split it")
    return archive


def core_title(archive: zipfile.ZipFile) -> str | None:
    """Return the title in the core properties of an Office document."""
    try:
        root = ElementTree.fromstring(archive.read("docProps/core.xml"))
    except DAMAGED:
        return None
    return " ".join((root.findtext(f".//{TITLE}") or "").split()) or None
