"""Registration of readers, their results and required packages, and the choice of the reader of a file.

```python
@reader("subtitles", suffixes=(".srt",))
def read_subtitles(data: bytes, name: str) -> tuple[FilePart, ...]:
    \"\"\"Subtitles: the spoken text, without times.\"\"\"
```

A reader takes the bytes and the name of a file, and raises ``TextError`` if it cannot read the file. Readers in user
code take precedence over those of this package.
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import PurePosixPath
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError
from xml.sax import SAXParseException

from ragsmith.datasets.document_types import SOURCE_SUFFIXES
from ragsmith.digest import fingerprint
from ragsmith.errors import MissingExtra
from ragsmith.extensions import Extension, Registry
from ragsmith.text.files import MIB, TextError, format_size

EXTRA = "documents"
"""The extra that installs the packages of readers."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A converted text, and the suffix of the document file it is written to.

    Most files have a single part, whose ``name`` is ""; a workbook has a part for each sheet. ``title`` is the title in
    the metadata of the file, ``pages`` are the offsets of pages, and ``notes`` describe changed or omitted content.
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
    """A function that reads files with one of ``suffixes``, or archives with the file ``member``.

    ``edition`` is the version of the conversion: it increases when the same file gives another text. ``needs``
    are the names of required distributions. Files that are not ``binary`` have a lower size limit.
    """

    suffixes: Sequence[str] = ()
    member: str = ""
    binary: bool = False
    edition: int = 1
    needs: Sequence[str] = ()

    def read(self, data: bytes, name: str) -> tuple[FilePart, ...]:
        """Return the parts of a file with these bytes; raises ``TextError``."""
        parts: tuple[FilePart, ...] = self.call(data, name)
        return parts

    @cached_property
    def converter(self) -> str:
        """The converter and its version, on which the text depends: ``ragsmith DOCX 1, mammoth 1.9.0``.

        Raises:
            MissingExtra: a package is not installed.
        """
        converter = (
            f"{self.name} {fingerprint(self.fn.__module__)}"
            if self.is_user_code
            else f"ragsmith {self.name} {self.edition}"
        )
        return ", ".join([converter, *package_versions(self.needs)])

    def describe(self) -> str:
        """Return a line of help: the file type and its suffixes."""
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
    return READERS.registers(
        lambda fn: Reader(
            name=name, fn=fn, suffixes=suffixes, member=member, binary=binary, edition=edition, needs=needs
        )
    )


def package_versions(names: Sequence[str]) -> list[str]:
    """Return the names of distributions with their versions; raises ``MissingExtra`` if one is not installed."""
    versions = []
    for name in names:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            raise MissingExtra(name, EXTRA) from None
    return versions


MAX_UNPACKED = 256 * MIB
"""Maximum size of an unpacked archive, in bytes."""

DAMAGED = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, RuntimeError, OSError),
    *(EOFError, SyntaxError, zipfile.BadZipFile, zlib.error, struct.error, ExpatError, SAXParseException),
)
"""Exceptions of parsers for damaged files."""

TITLE = "{http://purl.org/dc/elements/1.1/}title"
"""The Dublin Core element of a title."""


def open_archive(data: bytes) -> zipfile.ZipFile:
    """Open an archive. Raises ``TextError`` if it is damaged, or would unpack to more than the limit."""
    try:
        archive = zipfile.ZipFile(BytesIO(data))
    except DAMAGED:
        raise TextError("is a damaged archive; save it again") from None
    if sum(entry.file_size for entry in archive.infolist()) > MAX_UNPACKED:
        raise TextError(f"unpacks to more than the limit of {format_size(MAX_UNPACKED)}; split it")
    return archive


def core_title(archive: zipfile.ZipFile) -> str | None:
    """Return the title in the core properties of an Office document."""
    try:
        root = ElementTree.fromstring(archive.read("docProps/core.xml"))
    except DAMAGED:
        return None
    return " ".join((root.findtext(f".//{TITLE}") or "").split()) or None


_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\0asm", "a program"),
    (b"\x89PNG\r\n", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"II*\0", "a picture"),
    (b"MM\0*", "a picture"),
    (b"\0\0\x01\0", "a picture"),
    (b"\x1f\x8b", "a compressed file"),
    (b"BZh", "a compressed file"),
    (b"\xfd7zXZ\0", "a compressed file"),
    (b"\x28\xb5\x2f\xfd", "a compressed file"),
    (b"7z\xbc\xaf\x27\x1c", "an archive"),
    (b"Rar!\x1a\x07", "an archive"),
    (b"SQLite format 3\0", "a database"),
    (b"PAR1", "a Parquet table; save it as CSV"),
    (b"ID3", "a sound recording"),
    (b"OggS", "a recording"),
    (b"RIFF", "a recording or a picture"),
    (b"\0\x01\0\0", "a font"),
    (b"wOF", "a font"),
    (b"{\\rtf", "Rich Text; save it as DOCX"),
)
_HTML_START = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype html|html[\s>])", re.IGNORECASE | re.DOTALL
)
_NEVER_HTML = frozenset((*SOURCE_SUFFIXES, ".md", ".eml"))


def choose_reader(data: bytes, name: str) -> Reader:
    """Return the reader for a file with these bytes and this name. Raises ``TextError`` if there is none."""
    ending = PurePosixPath(name).suffix.lower()
    readers = list(READERS)
    by_suffix = sorted(
        (reader for reader in readers if ending in reader.suffixes), key=lambda reader: not reader.is_user_code
    )
    if by_suffix and by_suffix[0].is_user_code:
        return by_suffix[0]
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        return _choose_archive_reader(data, ending)
    if b"%PDF-" in data[:1024]:
        return READERS["PDF"]
    if data.startswith(_OLE):
        raise TextError(_describe_ole(data, ending))
    if ending == ".svg":
        raise TextError("is a picture, which has no text to search; remove it")
    for start, what in _MAGIC:
        if data.startswith(start) and (what.startswith("Rich") or _looks_binary(data)):
            named = "" if ";" in what else ", despite its name" if by_suffix else ""
            advice = "" if ";" in what else "; convert it to text or remove it"
            raise TextError(f"is {what}{named}{advice}")
    if ending in (".docx", ".pptx", ".xlsx", ".epub", ".pdf", ".doc", ".xls", ".ppt", ".odt"):
        raise TextError(f"is named {ending}, but is not such a file; save it again, or rename it")
    if ending not in _NEVER_HTML and _HTML_START.match(data[:4096]):
        return READERS["HTML"]
    return by_suffix[0] if by_suffix else READERS["text"]


def _choose_archive_reader(data: bytes, ending: str) -> Reader:
    """Return the reader of a ZIP archive, by the names of its files."""
    try:
        names = set(zipfile.ZipFile(BytesIO(data)).namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise TextError("is a damaged archive; save it again") from None
    for reader in READERS:
        if reader.member in names:
            return reader
    if "content.xml" in names and "mimetype" in names:
        raise TextError("is OpenDocument; save it as DOCX, XLSX or PPTX")
    named = f", not {ending[1:].upper()} as its name suggests" if ending in (".docx", ".pptx", ".xlsx", ".epub") else ""
    raise TextError(f"is a ZIP archive{named}; unpack it into the folder, or remove it")


def _describe_ole(data: bytes, ending: str) -> str:
    """Return why a file in OLE format, such as a Word document before 2007, cannot be read."""
    if _ENCRYPTED in data:
        return "is encrypted; save it without a password"
    if ending == ".msg":
        return "is an Outlook message; save it as .eml"
    newer = {".doc": "DOCX", ".xls": "XLSX", ".ppt": "PPTX"}.get(ending, "DOCX, XLSX or PPTX")
    return f"is in the format of Office before 2007; save it as {newer}"


def _looks_binary(data: bytes) -> bool:
    """Whether bytes have control characters: a text may begin with the signature of a binary file."""
    return any(byte < 9 or 13 < byte < 27 for byte in data[:1024])
