"""Documents that are ZIP archives of XML, as those of Office and electronic books: what is in them, up to a limit."""

from __future__ import annotations

import zipfile
from io import BytesIO
from xml.etree import ElementTree

from ragsmith.text.files import MIB, TextError, size

MAX_UNPACKED = 256 * MIB

DAMAGED = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, KeyError)
"""What a damaged archive looks like to who reads it."""

TITLE = "{http://purl.org/dc/elements/1.1/}title"


def opened(data: bytes) -> zipfile.ZipFile:
    """Open an archive. Raises ``TextError`` where it is damaged, or would unpack to more than the limit."""
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
    except (*DAMAGED, ElementTree.ParseError):
        return None
    return " ".join((root.findtext(f".//{TITLE}") or "").split()) or None
