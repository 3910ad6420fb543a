"""Choose file names and titles of converted documents; titles edited in ``dataset.yaml`` are preserved."""

import re
import unicodedata
from collections import Counter
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


MANY = 3
"""Number of documents with the same title from which on it does not tell them apart."""

_LETTERS = re.compile(r"[^\W\d_]+")
_EMPTY_WORDS = frozenset(
    _LETTERS.findall(
        "untitled unbenannt unbenanntes ohne titel sans titre sin título senza titolo sem adsız başlıksız no title "
        "none null default new neue neues neuer nouveau nuevo nuovo novo yeni document dokument documento belge "
        "presentation präsentation présentation presentación sunu book workbook mappe classeur spreadsheet tabelle "
        "sheet slide folie scan page index microsoft office word excel powerpoint adobe acrobat indesign pagemaker "
        "framemaker quarkxpress libreoffice openoffice writer impress calc google docs latex tex pdftex pdflatex xetex "
        "output camscanner ghostscript"
    )
)
"""Words of titles that programs write: a title that consists of them says nothing."""
_PROGRAM = re.compile(
    r"^(?:microsoft (?:office )?|adobe )?(?:word|excel|powerpoint|indesign) *- *(?=\S)", re.IGNORECASE
)
_FILE_SUFFIX = re.compile(
    r"\.(?:docx?|dotx?|pptx?|xlsx?|odt|ods|odp|rtf|indd|tex|dvi|ps|pdf|txt|md|html?)", re.IGNORECASE
)


def clean_title(title: str) -> str:
    """Return the title in the metadata of a file, or "" if a program wrote it: ``untitled``, ``Microsoft Word``.

    The names of the program and the ending of a file are removed: ``Microsoft Word - leave_policy.doc`` is
    ``leave policy``.
    """
    line = " ".join(FORBIDDEN.sub("", title).split())
    named = _PROGRAM.sub("", line)
    if _FILE_SUFFIX.fullmatch(PurePosixPath(named).suffix):
        named = title_from_name(named.replace("\\", "/"))
    return "" if _EMPTY_WORDS.issuperset(_LETTERS.findall(named.casefold())) else named


def choose_titles(parts: Sequence[tuple[FilePart, str]]) -> list[str | None]:
    """Return a title for each part and its source.

    It is the first of the candidates of a part that fewer than `MANY` parts have, or else the first candidate.
    """
    candidates = [_candidate_titles(part, source) for part, source in parts]
    shared = Counter(key for titles in candidates for key in {title.casefold() for title in titles})
    return [
        next((title for title in titles if shared[title.casefold()] < MANY), titles[0]) if titles else None
        for titles in candidates
    ]


def _candidate_titles(part: FilePart, source: str) -> list[str]:
    """Return the only heading of level 1, the title in the metadata, the first such heading, and the names of the file.

    Titles in metadata are often those of templates, so a single heading takes precedence. Source code has none, as its
    path is the title.
    """
    kind = find_document_type(f"x{part.ending}")
    if kind is None or kind.modality is Modality.CODE:
        return []
    prose = part.ending in (".md", ".txt")
    heads = (
        [b.heading for b in parse_blocks(part.text) if b.kind is BlockType.HEADING and b.level == 1] if prose else []
    )
    said = [*heads[:1], clean_title(part.title or "")]
    named = (f"{title_from_name(name)}{part.name and ': '}{part.name}" for name in (source, source.replace("/", " ")))
    return [
        title for each in (*(said if len(heads) == 1 else reversed(said)), *named) if (title := " ".join(each.split()))
    ]


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
