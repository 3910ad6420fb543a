"""File names of converted documents, and titles from file names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container
from hashlib import sha256
from pathlib import PurePosixPath

from ragsmith.datasets.document_types import kind_of
from ragsmith.datasets.documents import MAX_NAME, document_id
from ragsmith.datasets.ingest.readers.part import FilePart
from ragsmith.text.files import FORBIDDEN
from ragsmith.types import Modality

_SEPARATOR = re.compile(r"[_\s]+|(?<=[^\W_])[-.](?=[^\W_])|%20|\+")
_UNSEEN = re.compile("[\t\n\x0c\r\x85\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_UNSAFE = re.compile(r"[\\:*?\"<>|]")


def title_from_name(name: str) -> str:
    """Return the words of a file name: ``master_service-Agreement_v2.docx`` is ``master service Agreement v2``."""
    stem = printable(PurePosixPath(name).stem)
    return " ".join(_SEPARATOR.sub(" ", stem).split()) or stem.strip()


def printable(name: str) -> str:
    """Return a name in NFC with ``_`` for invalid bytes, control characters, line breaks and direction marks."""
    return unicodedata.normalize("NFC", _UNSEEN.sub("_", FORBIDDEN.sub("_", name)))


def document_file_name(source: str, part: FilePart, taken: Container[str]) -> str:
    """Return the path of the document file for a part of ``source``, relative to the folder of documents.

    It is that of the source if data sets read such files directly, else it has one more suffix. ``taken`` are the
    identifiers of other documents.
    """
    folders = [_safe(name) for name in source.split("/")]
    last = folders.pop()
    if part.name:
        folders.append(last)
        last = _safe(part.name)
    whole = last if PurePosixPath(last).suffix.lower() == part.ending.lower() else f"{last}{part.ending}"
    kind = kind_of(last)
    stem = PurePosixPath(last).stem if last.lower().endswith((".md", ".txt", ".markdown")) else last
    names = [whole] if part.name or kind is None or not kind.by_stem else [f"{stem}{part.ending}"]
    if last.lower().endswith(".markdown"):
        names = [f"{stem}.md"]
    names.append(f"{last}{part.ending}")
    number = 2
    while True:
        name = "/".join([*folders, _short(names.pop(0))])
        if document_id(name) not in taken:
            return name
        if not names:
            names = [f"{last}~{number}{part.ending}"]
            number += 1


def has_title(part: FilePart) -> bool:
    """Whether documents of this suffix have titles: source code has only file names."""
    kind = kind_of(f"x{part.ending}")
    return kind is not None and kind.modality is not Modality.CODE


def _safe(name: str) -> str:
    plain = _UNSAFE.sub("_", printable(name)).strip()
    return f"_{plain}" if not plain or plain.startswith(".") else plain


def _short(name: str) -> str:
    """Shorten a name that is too long for file systems: a digest replaces its end."""
    if len(name.encode()) <= MAX_NAME:
        return name
    path = PurePosixPath(name)
    mark = f"~{sha256(name.encode()).hexdigest()[:8]}{path.suffix}"
    return path.stem.encode()[: MAX_NAME - len(mark.encode())].decode(errors="ignore") + mark
