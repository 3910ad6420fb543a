"""Read and write ``dataset.yaml``: the metadata of a data set, and the titles and languages of its documents."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.text.files import TextError, read_text, shorten
from ragsmith.text.filters import TYPES
from ragsmith.text.jsonl import name_type
from ragsmith.text.languages import language_code
from ragsmith.text.strict_yaml import MAX_BYTES, YamlError, YamlTree, YamlValue, parse_yaml, unknown_key_message
from ragsmith.text.suggest import did_you_mean

FILE = "dataset.yaml"
KEYS = ("name", "title", "description", "licence", "language")
TITLES = "titles"
LANGUAGES = "languages"
FIELDS = "fields"
"""Key whose value is a mapping of the fields of documents to their types."""
PER_DOCUMENT_KEYS = {TITLES: "title", LANGUAGES: "language"}
"""Keys whose value is a mapping by document, and the singular noun for messages."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_INVALID_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")
_YAML_BREAKS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x7f\x85\u2028\u2029\ufeff"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The metadata of a data set (the valid `KEYS`), and the titles and languages of its documents.

    ``locations`` has the ``file:line`` of each title and language, by key and document. ``fields`` has the types of
    fields, which are names of `ragsmith.text.filters.TYPES`.
    """

    metadata: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    languages: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[tuple[str, str], str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    def unknown_documents(self, documents: Mapping[str, object]) -> Iterator[str]:
        """Yield an error message for every title and language of a document that does not exist."""
        for (key, id_), line in self.locations.items():
            if id_ not in documents:
                unknown = f"there is no document {shorten(id_)}; {did_you_mean(id_, documents)}"
                yield f"{line}: {key!r} names a document, but {unknown}"


def read_manifest(dataset: Path) -> tuple[Manifest, list[str]]:
    """Read ``dataset.yaml`` in the folder ``dataset``; return the manifest and its mistakes."""
    try:
        tree = parse_yaml(read_text(dataset / FILE, limit=MAX_BYTES), FILE)
    except TextError as error:
        return Manifest(), [error.at(FILE)]
    except YamlError as error:
        return Manifest(), [str(error)]
    if not isinstance(tree.data, dict):
        return Manifest(), [f"{FILE}:{tree.line()}: expected keys, found {name_type(tree.data)}; write 'name: ...'"]
    metadata: dict[str, str] = {}
    values: dict[str, dict[str, str]] = {key: {} for key in PER_DOCUMENT_KEYS}
    locations: dict[tuple[str, str], str] = {}
    fields: dict[str, str] = {}
    mistakes: list[str] = []
    for key, value in tree.data.items():
        if key in PER_DOCUMENT_KEYS:
            mistakes += _read_per_document(key, value, tree, values[key], locations)
        elif key == FIELDS:
            declared = value if isinstance(value, dict) else {"": value}
            fields |= {name: str(kind) for name, kind in declared.items() if str(kind) in TYPES}
            mistakes += [
                f"{tree.where(key, name)}: a field must be one of {', '.join(TYPES)}: write 'NAME: date'"
                for name in declared
                if name not in fields
            ]
        elif problem := _check_value(key, value):
            mistakes.append(f"{tree.where(key)}: {problem}")
        else:
            metadata[key] = str(value)
    if "name" not in tree.data:
        mistakes.append(f"{FILE}:{tree.line()}: the key 'name' is missing; add it")
    return Manifest(metadata, values[TITLES], values[LANGUAGES], locations, fields), mistakes


def read_optional_manifest(dataset: Path) -> tuple[Manifest, list[str]]:
    """Read ``dataset.yaml`` as `read_manifest` does; an empty manifest if there is no such file."""
    return read_manifest(dataset) if (dataset / FILE).exists() else (Manifest(), [])


def derive_dataset_name(folder: Path) -> str:
    """Derive the name of a data set from that of its ``folder``, without invalid characters."""
    return _INVALID_NAME_CHARACTERS.sub("_", folder.resolve().name).strip("._-")[:64] or "documents"


def format_manifest(
    metadata: Mapping[str, str],
    titles: Mapping[str, str],
    languages: Mapping[str, str] | None = None,
    fields: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a ``dataset.yaml``; blank values are omitted."""
    lines = [f"{key}: {_quote(metadata[key])}" for key in KEYS if metadata.get(key, "").strip()]
    for key, values in ((TITLES, titles), (LANGUAGES, languages), (FIELDS, fields)):
        if values:
            lines += [f"{key}:", *(f"  ? {_quote(id_)}\n  : {_quote(value)}" for id_, value in values.items())]
    return "".join(f"{line}\n" for line in lines)


def _check_value(key: str, value: YamlValue) -> str | None:
    if key not in KEYS:
        return unknown_key_message(key, (*KEYS, *PER_DOCUMENT_KEYS, FIELDS))
    if problem := _check_text(value):
        return f"{key!r} {problem}"
    if key == "name" and not _NAME.fullmatch(str(value)):
        return f"'name' must be letters, digits, '-', '_' and '.', not {value!r}"
    return _check_language(value) if key == "language" else None


def _check_language(value: YamlValue) -> str | None:
    if language_code(str(value)) is None:
        return f"a language is a code such as 'en' or 'de' (ISO 639-1), or its English name, not {value!r}"
    return None


def _check_text(value: YamlValue) -> str | None:
    if not isinstance(value, str):
        return f"must be text, not {name_type(value)}; put it in quotes"
    return None if value.strip() else "is blank; write it"


def _read_per_document(
    key: str, value: YamlValue, tree: YamlTree, values: dict[str, str], locations: dict[tuple[str, str], str]
) -> Iterator[str]:
    """Read the values by document of ``key`` into ``values`` and ``locations``; yield the mistakes."""
    noun = PER_DOCUMENT_KEYS[key]
    if not isinstance(value, dict):
        yield f"{tree.where(key)}: {key!r} must be {key} by document, not {name_type(value)}; write 'document: {noun}'"
        return
    for name, entry in value.items():
        id_ = unicodedata.normalize("NFC", name)
        if problem := _check_text(entry):
            yield f"{tree.where(key, name)}: the {noun} of {shorten(name)} {problem}"
        elif key == LANGUAGES and (problem := _check_language(entry)):
            yield f"{tree.where(key, name)}: of {shorten(name)}: {problem}"
        elif id_ in values:
            yield f"{tree.where(key, name)}: the document {shorten(name)} is named twice; keep one of them"
        else:
            values[id_] = language_code(str(entry)) or "" if key == LANGUAGES else str(entry)
            locations[key, id_] = tree.where(key, name)


def _quote(value: str) -> str:
    """Quote a scalar as JSON, which is valid YAML except for the characters that YAML treats as line breaks."""
    return json.dumps(value, ensure_ascii=False).translate(_YAML_BREAKS)
