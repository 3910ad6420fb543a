"""What importers share: what they return, and how they read foreign JSON, strictly and with the place of a mistake."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ragsmith.errors import DatasetError
from ragsmith.text.files import FORBIDDEN, MIB, TextError, control, read_text, shown
from ragsmith.text.jsonl import kind
from ragsmith.text.markdown import title
from ragsmith.types import Dataset, Document

MAX_BYTES = 64 * MIB
LONGEST_NAME = 64
"""Characters of a data set's name."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Imported:
    """A data set read from somebody else's layout, and how much of its gold was found in the documents.

    ``located`` of ``total`` pieces of evidence stand exactly, character by character, in a document; the others are
    left out or stand for something wider, and ``notes`` says which.
    """

    dataset: Dataset
    located: int
    total: int
    notes: tuple[str, ...] = ()


def json_files(source: Path) -> Iterator[tuple[str, object]]:
    """Yield the name and the content of ``source``, or of every ``*.json`` file in the folder ``source``, by name.

    Raises ``DatasetError`` when there is none, and for the first file that is not JSON.
    """
    files = sorted(source.glob("*.json"), key=lambda path: path.name) if source.is_dir() else [source]
    if not files:
        raise DatasetError([f"{source}: has no *.json files; give the folder or the file that was published"])
    for path in files:
        try:
            yield path.name, parse_json(read_text(path, limit=MAX_BYTES, links=path == source))
        except TextError as error:
            raise DatasetError([error.at(path.name if source.is_dir() else path)]) from None


def parse_json(text: str) -> object:
    """Return any JSON value; malformed, endlessly nested or ambiguous JSON raises ``TextError`` with its line."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise TextError(
            f"not valid JSON: {error.msg} at column {error.colno}; download it again", error.lineno
        ) from None
    except RecursionError:
        raise TextError("the JSON is nested too deeply; give a published file") from None
    except ValueError:
        raise TextError("not valid JSON: a number has too many digits; download it again") from None


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object of a file in a foreign ``layout``, whose ``place`` in the file its mistakes name."""

    record: Mapping[str, object]
    place: str
    layout: str

    @classmethod
    def of(cls, value: object, place: str, layout: str) -> Fields:
        """``value`` as an object; raises ``TextError`` when it is none."""
        if not isinstance(value, dict):
            raise TextError(f"{place}: {kind(value)} stands here instead of an object; give a file in {layout} layout")
        return cls(value, place, layout)

    def get(self, key: str, type_: type[T]) -> T:
        """The value of ``key``, which has to be a ``type_``; raises ``TextError``."""
        value = self.record.get(key)
        if not isinstance(value, type_) or isinstance(value, bool):
            found = "is missing" if key not in self.record else f"is {kind(value)}, not {kind(type_())}"
            raise self.error(f"{key!r} {found}")
        return value

    def text(self, key: str) -> str:
        """A text with something visible in it, white space around it removed."""
        value = self.get(key, str).strip()
        if not value:
            raise self.error(f"{key!r} is blank")
        return self.printable(value, key)

    def objects(self, key: str) -> Iterator[Fields]:
        """The objects in the list under ``key``, placed by number: ``page 3, question 2``."""
        for number, item in enumerate(self.get(key, list), start=1):
            yield Fields.of(item, f"{self.place}, {key.removesuffix('s')} {number}", self.layout)

    def printable(self, value: str, key: str) -> str:
        """``value``, unless it has control characters, which no document or question may have."""
        if found := FORBIDDEN.search(value):
            raise self.error(f"{key!r} has a {control(found.group())}")
        return value

    def error(self, problem: str) -> TextError:
        """The sentence for a problem with this object."""
        return TextError(f"{self.place}: {problem}; give a file in {self.layout} layout")


class DocumentNames:
    """Gives documents identifiers that are safe as file names everywhere, and unique however a disk folds case."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def name(self, wanted: str) -> str:
        """An identifier made of ``wanted``, numbered when it is taken."""
        folded = re.sub(r"[^\w.()-]+", "_", unicodedata.normalize("NFC", wanted)).strip("._-")[:60] or "document"
        candidates = (folded if n == 1 else f"{folded}-{n}" for n in range(1, len(self._taken) + 2))
        found = next(name for name in candidates if name.casefold() not in self._taken)
        self._taken.add(found.casefold())
        return found


def titled(id_: str, text: str) -> Document:
    """A document with the title that a reader of its text gives it."""
    return Document(id_, title(text) or id_, text)


def about(source: Path, *, description: str, licence: str) -> dict[str, str]:
    """What ``dataset.yaml`` says of a data set imported from ``source``: its name is the folder's, or the file's."""
    stem = source.resolve().stem if source.is_file() else source.resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:LONGEST_NAME] or "imported"
    shown_name = name.replace("_", " ")
    return {"name": name, "title": shown_name, "description": description, "licence": licence, "language": "en"}


def repeated_ids(ids: Iterable[str]) -> list[str]:
    """A sentence for every question's identifier that is there more than once."""
    return [f"the question {id_!r} is there {n} times; give each file once" for id_, n in Counter(ids).items() if n > 1]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise TextError(f"the key {shown(twice)} is given twice; keep one of them")
    return record


def _no_constant(name: str) -> object:
    raise TextError(f"not valid JSON: {name} is not a number; write a finite one")
