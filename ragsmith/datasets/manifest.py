"""Read and write ``dataset.yaml``: the description of a data set, and titles and languages of documents."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.text.files import TextError, read_text, shown
from ragsmith.text.jsonl import kind
from ragsmith.text.languages import language_code
from ragsmith.text.strict_yaml import MAX_BYTES, Plain, Tree, YamlError, parse_yaml, unknown_key_message
from ragsmith.text.suggest import did_you_mean

FILE = "dataset.yaml"
KEYS = ("name", "title", "description", "licence", "language")
TITLES = "titles"
LANGUAGES = "languages"
OF_DOCUMENTS = {TITLES: "title", LANGUAGES: "language"}
"""Keys with values by document, and the name of a value."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9._-]+")
_YAML_BREAKS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x7f\x85\u2028\u2029\ufeff"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """Valid keys, and titles and languages of documents.

    ``lines_of`` has ``file:line`` of values of documents, by key and document.
    """

    about: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    languages: Mapping[str, str] = field(default_factory=dict)
    lines_of: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def unknown_documents(self, documents: Mapping[str, object]) -> Iterator[str]:
        """Yield a sentence for every title and language of a document that does not exist."""
        for (key, id_), line in self.lines_of.items():
            if id_ not in documents:
                unknown = f"there is no document {shown(id_)}; {did_you_mean(id_, documents)}"
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
        return Manifest(), [f"{FILE}:{tree.line()}: expected keys, found {kind(tree.data)}; write 'name: ...'"]
    about: dict[str, str] = {}
    said: dict[str, dict[str, str]] = {key: {} for key in OF_DOCUMENTS}
    lines_of: dict[tuple[str, str], str] = {}
    mistakes: list[str] = []
    for key, value in tree.data.items():
        if key in OF_DOCUMENTS:
            mistakes += _read_of_documents(key, value, tree, said[key], lines_of)
        elif problem := _problem(key, value):
            mistakes.append(f"{tree.where(key)}: {problem}")
        else:
            about[key] = str(value)
    if "name" not in tree.data:
        mistakes.append(f"{FILE}:{tree.line()}: the key 'name' is missing; add it")
    return Manifest(about, said[TITLES], said[LANGUAGES], lines_of), mistakes


def read_optional_manifest(dataset: Path) -> tuple[Manifest, list[str]]:
    """Read ``dataset.yaml`` as `read_manifest` does; an empty manifest if there is no such file."""
    return read_manifest(dataset) if (dataset / FILE).exists() else (Manifest(), [])


def folder_name(folder: Path) -> str:
    """Return the name of a data set in ``folder``: the folder's name without invalid characters."""
    return _UNNAMEABLE.sub("_", folder.resolve().name).strip("._-")[:64] or "documents"


def manifest_yaml(
    about: Mapping[str, str], titles: Mapping[str, str], languages: Mapping[str, str] | None = None
) -> str:
    """Return the text of a ``dataset.yaml``; blank values are left out."""
    lines = [f"{key}: {_quoted(about[key])}" for key in KEYS if about.get(key, "").strip()]
    for key, said in ((TITLES, titles), (LANGUAGES, languages)):
        if said:
            lines += [f"{key}:", *(f"  ? {_quoted(id_)}\n  : {_quoted(value)}" for id_, value in said.items())]
    return "".join(f"{line}\n" for line in lines)


def _problem(key: str, value: Plain) -> str | None:
    if key not in KEYS:
        return unknown_key_message(key, (*KEYS, *OF_DOCUMENTS))
    if problem := _text_problem(value):
        return f"{key!r} {problem}"
    if key == "name" and not _NAME.fullmatch(str(value)):
        return f"'name' must be letters, digits, '-', '_' and '.', not {value!r}"
    return _language_problem(value) if key == "language" else None


def _language_problem(value: Plain) -> str | None:
    if language_code(str(value)) is None:
        return f"a language is a code such as 'en' or 'de' (ISO 639-1), or its English name, not {value!r}"
    return None


def _text_problem(value: Plain) -> str | None:
    if not isinstance(value, str):
        return f"must be text, not {kind(value)}; put it in quotes"
    return None if value.strip() else "is blank; write it"


def _read_of_documents(
    key: str, value: Plain, tree: Tree, said: dict[str, str], lines_of: dict[tuple[str, str], str]
) -> Iterator[str]:
    """Read the values by document of ``key`` into ``said`` and ``lines_of``; yield the mistakes."""
    what = OF_DOCUMENTS[key]
    if not isinstance(value, dict):
        yield f"{tree.where(key)}: {key!r} must be {key} by document, not {kind(value)}; write 'document: {what}'"
        return
    for name, given in value.items():
        id_ = unicodedata.normalize("NFC", name)
        if problem := _text_problem(given):
            yield f"{tree.where(key, name)}: the {what} of {shown(name)} {problem}"
        elif key == LANGUAGES and (problem := _language_problem(given)):
            yield f"{tree.where(key, name)}: of {shown(name)}: {problem}"
        elif id_ in said:
            yield f"{tree.where(key, name)}: the document {shown(name)} is named twice; keep one of them"
        else:
            said[id_] = language_code(str(given)) or "" if key == LANGUAGES else str(given)
            lines_of[key, id_] = tree.where(key, name)


def _quoted(value: str) -> str:
    """Quote a scalar: JSON is valid YAML, except for characters that YAML takes for line ends."""
    return json.dumps(value, ensure_ascii=False).translate(_YAML_BREAKS)
