"""Open documents that are ZIP archives of XML, such as Office files and EPUB, up to a size limit."""

from __future__ import annotations

import struct
import zipfile
import zlib
from io import BytesIO
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError
from xml.sax import SAXParseException

from ragsmith.text.files import MIB, TextError, size

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
