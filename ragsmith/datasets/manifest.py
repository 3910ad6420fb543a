"""Read and write ``dataset.yaml``: what a data set is, and the titles of documents that do not say their own."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.text.files import TextError, read_text, shown
from ragsmith.text.jsonl import kind
from ragsmith.text.strict_yaml import MAX_BYTES, Plain, Tree, YamlError, parse_yaml, unknown_key_message
from ragsmith.text.suggest import did_you_mean

FILE = "dataset.yaml"
KEYS = ("name", "title", "description", "licence", "language")
TITLES = "titles"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_YAML_BREAKS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x7f\x85\u2028\u2029\ufeff"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """The keys that are given and right, the titles of documents, and ``file:line`` of each of these titles."""

    about: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    lines_of: Mapping[str, str] = field(default_factory=dict)

    def strangers(self, documents: Mapping[str, object]) -> Iterator[str]:
        """Yield a sentence for every title of a document that is not there."""
        for id_ in self.titles:
            if id_ not in documents:
                unknown = f"there is no document {shown(id_)}; {did_you_mean(id_, documents)}"
                yield f"{self.lines_of[id_]}: 'titles' names a document, but {unknown}"


def read_manifest(dataset: Path) -> tuple[Manifest, list[str]]:
    """Return what ``dataset.yaml`` in the folder ``dataset`` says, and its mistakes."""
    try:
        tree = parse_yaml(read_text(dataset / FILE, limit=MAX_BYTES), FILE)
    except TextError as error:
        return Manifest(), [error.at(FILE)]
    except YamlError as error:
        return Manifest(), [str(error)]
    if not isinstance(tree.data, dict):
        return Manifest(), [f"{FILE}:{tree.line()}: {kind(tree.data)} stands here instead of keys; write 'name: ...'"]
    about: dict[str, str] = {}
    titles: dict[str, str] = {}
    lines_of: dict[str, str] = {}
    mistakes: list[str] = []
    for key, value in tree.data.items():
        if key == TITLES:
            mistakes += _read_titles(value, tree, titles, lines_of)
        elif problem := _problem(key, value):
            mistakes.append(f"{tree.where(key)}: {problem}")
        else:
            about[key] = str(value)
    if "name" not in tree.data:
        mistakes.append(f"{FILE}:{tree.line()}: the key 'name' is missing; add it")
    return Manifest(about, titles, lines_of), mistakes


def written(about: Mapping[str, str], titles: Mapping[str, str]) -> str:
    """Return the text of a ``dataset.yaml`` that says this; blank values are left out."""
    lines = [f"{key}: {_quoted(about[key])}" for key in KEYS if about[key].strip()]
    if titles:
        lines += [f"{TITLES}:", *(f"  ? {_quoted(id_)}\n  : {_quoted(title)}" for id_, title in titles.items())]
    return "".join(f"{line}\n" for line in lines)


def _problem(key: str, value: Plain) -> str | None:
    if key not in KEYS:
        return unknown_key_message(key, (*KEYS, TITLES))
    if problem := _text_problem(value):
        return f"{key!r} {problem}"
    if key == "name" and not _NAME.fullmatch(str(value)):
        return f"'name' must be letters, digits, '-', '_' and '.', not {value!r}"
    return None


def _text_problem(value: Plain) -> str | None:
    if not isinstance(value, str):
        return f"must be text, not {kind(value)}; put it in quotes"
    return None if value.strip() else "is blank; write it"


def _read_titles(value: Plain, tree: Tree, titles: dict[str, str], lines_of: dict[str, str]) -> Iterator[str]:
    """Fill ``titles`` and ``lines_of``; yield the mistakes."""
    if not isinstance(value, dict):
        yield f"{tree.where(TITLES)}: 'titles' must be titles by document, not {kind(value)}; write 'document: title'"
        return
    for key, title in value.items():
        id_ = unicodedata.normalize("NFC", key)
        if problem := _text_problem(title):
            yield f"{tree.where(TITLES, key)}: the title of {shown(key)} {problem}"
        elif id_ in titles:
            yield f"{tree.where(TITLES, key)}: the document {shown(key)} is named twice; keep one of them"
        else:
            titles[id_] = str(title)
            lines_of[id_] = tree.where(TITLES, key)


def _quoted(value: str) -> str:
    """A JSON text is a double-quoted YAML scalar, except for the characters that YAML takes for line ends."""
    return json.dumps(value, ensure_ascii=False).translate(_YAML_BREAKS)
