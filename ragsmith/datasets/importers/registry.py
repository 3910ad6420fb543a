"""The result of importers, their registration, and strict reading of JSON in published layouts."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.ingest.decoding import read_any_text
from ragsmith.errors import DatasetError, UsageError
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.text.files import MIB, TextError, parse_each
from ragsmith.text.jsonl import iter_records, name_type, parse_json
from ragsmith.text.markdown import find_title
from ragsmith.types import Dataset, Document, Example

MAX_BYTES = 64 * MIB
"""Maximum size of a JSON file, in bytes."""

MAX_LIST_BYTES = 1024 * MIB
"""Maximum size of a JSONL or TSV file, in bytes."""

MAX_NAME_LENGTH = 64
"""Maximum length of the name of a data set, in characters."""

MAX_ID_LENGTH = 60
"""Maximum length of a document identifier, in characters, without the number that makes it unique."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Imported:
    """A data set read from a published layout, with counts of the evidence that was located in the documents.

    ``located`` of ``total`` pieces of evidence were located; ``notes`` lists the others. ``match_counts`` counts the
    located pieces by method of matching.
    """

    dataset: Dataset
    located: int
    total: int
    notes: tuple[str, ...] = ()
    match_counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class EvidenceCollector:
    """A collector of questions that counts their located evidence."""

    examples: list[Example] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    match_counts: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def add(self, example: Example, located: Mapping[str, int] | int, missing: Sequence[str] = ()) -> None:
        """Add a question, unless it has no evidence.

        ``located`` counts its located pieces of evidence by method of matching; a number counts exact matches.
        ``missing`` has a message for each other piece.
        """
        self.match_counts.update({"exact": located} if isinstance(located, int) else located)
        self.total += (located if isinstance(located, int) else sum(located.values())) + len(missing)
        self.notes += [f"{example.id}: {sentence}" for sentence in missing]
        if example.evidence:
            self.examples.append(example)
        else:
            self.notes.append(f"{example.id}: left out, because none of its evidence was found")

    def to_imported(self, source: Path, documents: Sequence[Document], description: str) -> Imported:
        """Return the data set of the questions and ``documents``, named after ``source``."""
        dataset = make_dataset(manifest_values(source, description), documents, self.examples)
        return Imported(dataset, self.match_counts.total(), self.total, tuple(self.notes), dict(+self.match_counts))


def read_files(source: Path, read: Callable[[object], T]) -> list[T]:
    """Apply ``read`` to the JSON in ``source``, or in every ``*.json`` file of the folder ``source``.

    Raises:
        DatasetError: there is no file, or files are not JSON or not accepted by ``read``; it lists all mistakes.
    """
    paths = sorted(source.glob("*.json"), key=lambda path: path.name) if source.is_dir() else [source]
    if not paths:
        raise DatasetError([f"{source}: has no *.json files; give the folder or the file that was published"])
    return parse_each(
        paths,
        lambda path: read(parse_json(read_any_text(path, limit=MAX_BYTES, links=path == source))),
        name=lambda path: path.name if source.is_dir() else path,
    )


@dataclass(frozen=True, slots=True)
class Fields:
    """A JSON object of a file in a published ``layout``; ``where`` is its position in the file, for messages."""

    record: Mapping[str, object]
    where: str
    layout: str

    @classmethod
    def from_value(cls, value: object, where: str, layout: str) -> Fields:
        """Wrap a JSON object; raises ``TextError`` for other values."""
        if not isinstance(value, dict):
            raise TextError(f"{where}: expected an object, found {name_type(value)}; give a file in {layout} layout")
        return cls(value, where, layout)

    def get(self, key: str, type_: type[T]) -> T:
        """Return the value of ``key``; raises ``TextError`` if it is not a ``type_``."""
        value = self.record.get(key)
        if not isinstance(value, type_) or isinstance(value, bool):
            found = "is missing" if key not in self.record else f"is {name_type(value)}, not {name_type(type_())}"
            raise self.error(f"{key!r} {found}")
        return value

    def text(self, key: str) -> str:
        """Return a stripped text that is not blank; raises ``TextError``."""
        value = self.get(key, str).strip()
        if not value:
            raise self.error(f"{key!r} is blank")
        return value

    def objects(self, key: str) -> Iterator[Fields]:
        """Yield the objects in the list under ``key``, with their number as in ``page 3, question 2``."""
        for number, item in enumerate(self.get(key, list), start=1):
            yield Fields.from_value(item, f"{self.where}, {key.removesuffix('s')} {number}", self.layout)

    def error(self, problem: str) -> TextError:
        """Return the error for a problem with this object."""
        return TextError(f"{self.where}: {problem}; give a file in {self.layout} layout")


def read_large(path: Path) -> str:
    """Return the text of a file of up to `MAX_LIST_BYTES`. Raises ``DatasetError``."""
    try:
        return read_any_text(path, limit=MAX_LIST_BYTES, links=True)
    except TextError as error:
        raise DatasetError([error.at(path.name)]) from None


def read_lines(path: Path, layout: str) -> Iterator[Fields]:
    """Yield the objects of a JSONL file. Raises ``DatasetError``."""
    try:
        for number, record in iter_records(read_large(path)):
            yield Fields(record, f"{path.name}:{number}", layout)
    except TextError as error:
        raise DatasetError([error.at(path.name)]) from None


class DocumentNames:
    """A generator of identifiers that are safe file names and unique on case-insensitive file systems."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def name(self, preferred: str, suffix: str = "") -> str:
        """Return ``preferred`` as an identifier with ``suffix``, with a number before it if the identifier is taken."""
        safe = (
            re.sub(r"[^\w.()-]+", "_", unicodedata.normalize("NFC", preferred)).strip("._-")[:MAX_ID_LENGTH]
            or "document"
        )
        candidates = (f"{safe}{suffix}" if n == 1 else f"{safe}-{n}{suffix}" for n in range(1, len(self._taken) + 2))
        unique = next(name for name in candidates if name.casefold() not in self._taken)
        self._taken.add(unique.casefold())
        return unique


def document_from_text(id_: str, text: str) -> Document:
    """Return a document whose title is its heading, else its identifier."""
    return Document(id_, find_title(text) or id_, text)


def document_with_title(id_: str, title: str, text: str) -> Document:
    """Return a document of ``text`` below its title, as a heading unless the title is longer than half the text."""
    if title and 2 * len(title) > len(text):
        return document_from_text(id_, f"{title}\n\n{text}\n" if text else f"{title}\n")
    return document_from_text(id_, f"# {title}\n\n{text}\n" if title else f"{text}\n")


def numbered_ids(prefix: str, count: int) -> list[str]:
    """Return ``count`` identifiers of equal length, such as ``q001``."""
    width = max(3, len(str(count)))
    return [f"{prefix}{number:0{width}d}" for number in range(1, count + 1)]


def manifest_values(source: Path, description: str) -> dict[str, str]:
    """Return the values of ``dataset.yaml`` for a data set imported from ``source`` and named after it."""
    stem = source.resolve().stem if source.is_file() else source.resolve().name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:MAX_NAME_LENGTH] or "imported"
    return {"name": name, "title": name.replace("_", " "), "description": description, "licence": "not stated"}


def check_ids(ids: Iterable[str], source: Path, layout: str) -> None:
    """Raise ``DatasetError`` when there are no ``ids`` of questions, or repeated ones."""
    counts = Counter(ids)
    if not counts:
        raise DatasetError([f"{source}: has no questions; give a file in {layout} layout"])
    if repeated := {id_: n for id_, n in counts.items() if n > 1}:
        mistakes = [f"the question {id_!r} occurs {n} times; give each file once" for id_, n in repeated.items()]
        raise DatasetError(mistakes)


F = TypeVar("F", bound=Callable[..., Imported])


@dataclass(frozen=True, kw_only=True)
class Importer(Extension):
    """A function that reads a published layout.

    The layout is recognised by ``keys``, if the first object of a file has all keys of one of these sets, or by
    ``recognises``, a function of the folder or file. ``licence`` is that of the published data.
    """

    licence: str = "not stated"
    keys: Sequence[Collection[str]] = ()
    recognises: Callable[[Path], bool] | None = None

    @property
    def takes_documents(self) -> bool:
        """Whether the evidence consists of texts, which can be located in given documents."""
        return "documents" in inspect.signature(self.fn).parameters

    @cached_property
    def options(self) -> dict[str, Any]:
        """The keyword-only arguments and their defaults, without ``documents``."""
        return {name: default for name, default in super().options.items() if name != "documents"}

    def has_keys(self, record: Collection[str]) -> bool:
        """Whether an object with these keys is in this layout."""
        return any(set(keys) <= set(record) for keys in self.keys)

    def read(self, source: Path, documents: Dataset | None = None) -> Imported:
        """Read the published data set.

        Raises:
            UsageError: ``documents`` are given and the format has its own, or a package is not installed.
            DatasetError: a file is not in this layout.
        """
        if documents is not None and not self.takes_documents:
            raise UsageError(f"the format {self.name!r} has its own documents; omit --documents")
        parameter = inspect.signature(self.fn).parameters.get("documents")
        has_default = parameter is not None and parameter.default is not parameter.empty
        arguments = {} if parameter is None or (documents is None and has_default) else {"documents": documents}
        try:
            imported: Imported = self.call(source, **arguments)
        except TextError as error:
            raise DatasetError([str(error)]) from None
        if not isinstance(imported, Imported):
            raise UsageError(f"the importer {self.name} returned {imported!r}: return an Imported")
        return replace(imported, dataset=replace(imported.dataset, licence=self.licence))


IMPORTERS: Registry[Importer] = Registry("format", "ragsmith.datasets.importers")


def importer(
    name: str,
    *,
    keys: Sequence[Collection[str]] = (),
    recognises: Callable[[Path], bool] | None = None,
    licence: str = "not stated",
    paper: str = "",
    package: Package | None = None,
) -> Callable[[F], F]:
    """Register the decorated function as the importer of the format ``name``; see `Importer` for the arguments."""
    return IMPORTERS.registers(
        lambda fn: Importer(
            name=name, fn=fn, paper=paper, package=package, licence=licence, keys=keys, recognises=recognises
        )
    )
