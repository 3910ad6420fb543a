"""Choose the reader of a file by its content, and among texts by its suffix."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from pathlib import PurePosixPath

from ragsmith.datasets.document_types import SOURCE_SUFFIXES
from ragsmith.datasets.ingest.readers.part import READERS, Reader
from ragsmith.text.files import TextError

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
_LOCKED = "EncryptedPackage".encode("utf-16-le")
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
_PAGE = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype html|html[\s>])", re.IGNORECASE | re.DOTALL)
_NEVER_PAGES = frozenset((*SOURCE_SUFFIXES, ".md", ".eml"))


def reader_of(data: bytes, name: str) -> Reader:
    """Return the reader for a file with these bytes and this name. Raises ``TextError`` if there is none."""
    ending = PurePosixPath(name).suffix.lower()
    readers = list(READERS)
    named_so = sorted((one for one in readers if ending in one.suffixes), key=lambda one: not one.is_own)
    if named_so and named_so[0].is_own:
        return named_so[0]
    if data.startswith(b"PK\x03\x04") or data.startswith(b"PK\x05\x06"):
        return _package(data, ending)
    if b"%PDF-" in data[:1024]:
        return READERS["PDF"]
    if data.startswith(_OLE):
        raise TextError(_old_office(data, ending))
    if ending == ".svg":
        raise TextError("is a picture, which has no text to search; remove it")
    for start, what in _MAGIC:
        if data.startswith(start) and (what.startswith("Rich") or _looks_binary(data)):
            named = "" if ";" in what else ", whatever its name says" if named_so else ""
            advice = "" if ";" in what else "; convert it to text or remove it"
            raise TextError(f"is {what}{named}{advice}")
    if ending in (".docx", ".pptx", ".xlsx", ".epub", ".pdf", ".doc", ".xls", ".ppt", ".odt"):
        raise TextError(f"is named {ending} and is no such file; save it again, or rename it after what it is")
    if ending not in _NEVER_PAGES and _PAGE.match(data[:4096]):
        return READERS["HTML"]
    return named_so[0] if named_so else READERS["text"]


def _package(data: bytes, ending: str) -> Reader:
    """Recognise a document in a ZIP archive by the files in it."""
    try:
        names = set(zipfile.ZipFile(BytesIO(data)).namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise TextError("is a damaged archive; save it again") from None
    for reader in READERS:
        if reader.member in names:
            return reader
    if "content.xml" in names and "mimetype" in names:
        raise TextError("is OpenDocument; save it as DOCX, XLSX or PPTX")
    named = f", not {ending[1:].upper()} as its name says" if ending in (".docx", ".pptx", ".xlsx", ".epub") else ""
    raise TextError(f"is a ZIP archive{named}; unpack it into the folder, or remove it")


def _old_office(data: bytes, ending: str) -> str:
    if _LOCKED in data:
        return "is encrypted; save it without a password"
    if ending == ".msg":
        return "is an Outlook message; save it as .eml"
    newer = {".doc": "DOCX", ".xls": "XLSX", ".ppt": "PPTX"}.get(ending, "DOCX, XLSX or PPTX")
    return f"is in the format of Office before 2007; save it as {newer}"


def _looks_binary(data: bytes) -> bool:
    """Whether bytes with the signature of a binary file are binary: a text may begin with the same letters."""
    return any(byte < 9 or 13 < byte < 27 for byte in data[:1024])
