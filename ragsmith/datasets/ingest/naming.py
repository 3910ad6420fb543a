"""Choose file names and titles of converted documents; titles edited in ``dataset.yaml`` are preserved."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Mapping, Sequence
from hashlib import sha256
from itertools import chain, count
from pathlib import Path, PurePosixPath

from ragsmith.datasets.document_types import find_document_type
from ragsmith.datasets.documents import MAX_NAME_BYTES, Documents, default_title, document_id
from ragsmith.datasets.ingest.readers.part import FilePart
from ragsmith.datasets.manifest import KEYS, LANGUAGES, TITLES, Manifest, derive_dataset_name, format_manifest
from ragsmith.datasets.sources import SourceRecord
from ragsmith.text.files import FORBIDDEN
from ragsmith.text.markdown import BlockType, parse_blocks
from ragsmith.types import Modality

_SEPARATOR = re.compile(r"[_\s]+|(?<=[^\W_])[-.](?=[^\W_])|%20|\+")
_INVISIBLE = re.compile("[\t\n\x0c\r\x85\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_UNSAFE = re.compile(r"[\\:*?\"<>|]")


def title_from_name(name: str) -> str:
    """Return the words of a file name: ``master_service-Agreement_v2.docx`` is ``master service Agreement v2``."""
    stem = to_printable(PurePosixPath(name).stem)
    return " ".join(_SEPARATOR.sub(" ", stem).split()) or stem.strip()


def to_printable(name: str) -> str:
    """Return a name in NFC with ``_`` for invalid bytes, control characters, line breaks and direction marks."""
    return unicodedata.normalize("NFC", _INVISIBLE.sub("_", FORBIDDEN.sub("_", name)))


def choose_file_name(source: str, part: FilePart, taken: Container[str]) -> str:
    """Return the path of the document file for a part of ``source``, relative to the folder of documents.

    The path is that of the source if data sets read such files directly, else with an additional suffix. ``taken``
    has the identifiers of other documents.
    """
    folders = [_safe_name(name) for name in source.split("/")]
    last = folders.pop()
    if part.name:
        folders.append(last)
        last = _safe_name(part.name)
    full_name = last if PurePosixPath(last).suffix.lower() == part.ending.lower() else f"{last}{part.ending}"
    kind = find_document_type(last)
    stem = PurePosixPath(last).stem if last.lower().endswith((".md", ".txt", ".markdown")) else last
    names = [full_name] if part.name or kind is None or not kind.by_stem else [f"{stem}{part.ending}"]
    if last.lower().endswith(".markdown"):
        names = [f"{stem}.md"]
    names.append(f"{last}{part.ending}")
    numbered = (f"{last}~{number}{part.ending}" for number in count(2))
    paths = ("/".join([*folders, _shorten(name)]) for name in chain(names, numbered))
    return next(path for path in paths if document_id(path) not in taken)


def choose_title(part: FilePart, source: str) -> str | None:
    """Return the only heading of level 1, else the title in the metadata, else the first such heading or the file name.

    Titles in metadata are often those of templates, so a single heading takes precedence.
    """
    kind = find_document_type(f"x{part.ending}")
    if kind is None or kind.modality is Modality.CODE:  # the file name is the title
        return None
    prose = part.ending in (".md", ".txt")
    heads = (
        [b.heading for b in parse_blocks(part.text) if b.kind is BlockType.HEADING and b.level == 1] if prose else []
    )
    metadata_title = " ".join(FORBIDDEN.sub("", part.title or "").split())
    title = heads[0] if len(heads) == 1 or (heads and not metadata_title) else metadata_title
    return " ".join(title.split()) or f"{title_from_name(source)}{part.name and ': '}{part.name}" or None


def collect_titles(
    documents: Documents, manifest: Manifest, rows: Sequence[SourceRecord], before: Mapping[str, SourceRecord]
) -> dict[str, str]:
    """Return the titles that loading does not derive from the texts; titles edited in the manifest take precedence.

    ``rows`` describes the converted documents, ``before`` those of the last update.
    """
    converted = {row.doc: row for row in rows}
    titles: dict[str, str] = {}
    for id_, document in documents.items():
        row, old, edited = converted.get(id_), before.get(id_), manifest.titles.get(id_)
        if edited is not None and (row is None or old is None or edited != old.title):
            titles[id_] = edited
        elif row is not None and row.title and document is not None and row.title != default_title(document):
            titles[id_] = row.title
    return titles


def format_new_manifest(folder: Path, output: Path, titles: Mapping[str, str]) -> str:
    """Return the text of a ``dataset.yaml`` named after ``output`` for the documents of ``folder``."""
    metadata = {
        **dict.fromkeys(KEYS, ""),
        "name": derive_dataset_name(output),
        "title": title_from_name(folder.resolve().name) or "documents",
    }
    return format_manifest(metadata, titles)


def update_manifest(text: str, manifest: Manifest, documents: Documents, titles: Mapping[str, str]) -> str:
    """Return the ``text`` of a manifest with new titles and without languages of removed documents.

    All other text, including comments, is unchanged.
    """
    languages = {id_: language for id_, language in manifest.languages.items() if id_ in documents}
    for key, new, old in ((TITLES, titles, manifest.titles), (LANGUAGES, languages, manifest.languages)):
        if dict(new) != dict(old):
            rest = re.sub(rf"^{key}:.*?(?=^\S|\Z)", "", text, flags=re.MULTILINE | re.DOTALL).rstrip("\n")
            values = (new, {}) if key == TITLES else ({}, new)
            text = f"{rest}\n" + format_manifest(dict.fromkeys(KEYS, ""), *values)
    return text


def _safe_name(name: str) -> str:
    safe = _UNSAFE.sub("_", to_printable(name)).strip()
    return f"_{safe}" if not safe or safe.startswith(".") else safe


def _shorten(name: str) -> str:
    """Shorten a name that is too long for file systems by replacing its end with a digest."""
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    path = PurePosixPath(name)
    suffix = f"~{sha256(name.encode()).hexdigest()[:8]}{path.suffix}"
    return path.stem.encode()[: MAX_NAME_BYTES - len(suffix.encode())].decode(errors="ignore") + suffix
