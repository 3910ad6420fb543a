"""Titles of converted documents in ``dataset.yaml``; what a person wrote there is preserved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragsmith.datasets.documents import Documents, default_title
from ragsmith.datasets.ingest.naming import has_title, title_from_name
from ragsmith.datasets.ingest.readers.part import FilePart
from ragsmith.datasets.manifest import KEYS, LANGUAGES, TITLES, Manifest, folder_name, manifest_yaml
from ragsmith.datasets.sources import SourceRecord
from ragsmith.text.files import FORBIDDEN
from ragsmith.text.markdown import BlockType, blocks


def part_title(part: FilePart, source: str) -> str | None:
    """Return the only heading of level 1, else the title in the metadata, else the first such heading or the name.

    The title in the metadata is often that of a template, so a single heading takes precedence.
    """
    if not has_title(part):
        return None
    prose = part.ending in (".md", ".txt")
    heads = [b.heading for b in blocks(part.text) if b.kind is BlockType.HEADING and b.level == 1] if prose else []
    own = " ".join(FORBIDDEN.sub("", part.title or "").split())
    found = heads[0] if len(heads) == 1 or (heads and not own) else own
    return " ".join(found.split()) or f"{title_from_name(source)}{part.name and ': '}{part.name}" or None


def document_titles(
    documents: Documents, manifest: Manifest, rows: Sequence[SourceRecord], before: Mapping[str, SourceRecord]
) -> dict[str, str]:
    """Return the titles that are not in the documents' texts; those that a person wrote into the manifest stay.

    ``rows`` are those of the documents, ``before`` those of the last update.
    """
    converted = {row.doc: row for row in rows}
    found: dict[str, str] = {}
    for id_, document in documents.items():
        row, old, own = converted.get(id_), before.get(id_), manifest.titles.get(id_)
        if own is not None and (row is None or old is None or own != old.title):
            found[id_] = own
        elif row is not None and row.title and document is not None and row.title != default_title(document):
            found[id_] = row.title
    return found


def new_manifest(folder: Path, output: Path, titled: Mapping[str, str]) -> str:
    """Return the text of a ``dataset.yaml`` named after ``output`` for the documents of ``folder``."""
    about = {
        **dict.fromkeys(KEYS, ""),
        "name": folder_name(output),
        "title": title_from_name(folder.resolve().name) or "documents",
    }
    return manifest_yaml(about, titled)


def changed_manifest(text: str, manifest: Manifest, documents: Documents, titled: Mapping[str, str]) -> str:
    """Return the ``text`` of a manifest with new titles and without languages of removed documents.

    Everything else, including comments, stays as it is.
    """
    languages = {id_: language for id_, language in manifest.languages.items() if id_ in documents}
    for key, said, there in ((TITLES, titled, manifest.titles), (LANGUAGES, languages, manifest.languages)):
        if dict(said) != dict(there):
            kept = re.sub(rf"^{key}:.*?(?=^\S|\Z)", "", text, flags=re.MULTILINE | re.DOTALL).rstrip("\n")
            alone = (said, {}) if key == TITLES else ({}, said)
            text = f"{kept}\n" + manifest_yaml(dict.fromkeys(KEYS, ""), *alone)
    return text
