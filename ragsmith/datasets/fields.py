"""Fields of documents: read from front matter, columns and paths, with the types that ``dataset.yaml`` declares.

    fields:
      year: number
      signed: date
      tags: list

A field that is not declared is text. What has several values is a field only if it is declared as a list: a list in
front matter, a column that is not the same in all rows, and ``path``, which are the folders of a document and its
identifier: ``contracts/2024/lease`` has ``contracts``, ``contracts/2024`` and ``contracts/2024/lease``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.text.filters import TYPES, convert_value
from ragsmith.text.strict_yaml import YamlError, parse_yaml
from ragsmith.types import Document, FieldValue, Filter

RawFields = Mapping[str, str | tuple[str, ...]]
"""Fields as they are written in a file, without types."""

_FRONT_MATTER = re.compile(r"---\n(.*?\n)---(?:\n|$)", re.DOTALL)


def read_front_matter(text: str) -> RawFields:
    """Return the texts, numbers, dates and lists in the front matter of ``text``; none if it is not valid YAML."""
    try:
        front = _FRONT_MATTER.match(text)
        data = parse_yaml(front[1], "front matter").data if front else None
    except YamlError:
        return {}
    values = {name: value for name, value in data.items() if value not in (None, [])} if isinstance(data, dict) else {}
    return {
        name: tuple(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in values.items()
        if not isinstance(value, dict)
    }


def convert_fields(id_: str, raw: RawFields, types: Mapping[str, str]) -> dict[str, FieldValue]:
    """Return the fields of the document ``id_`` in the declared ``types``.

    Raises:
        ValueError: a value does not have the type of its field.
    """
    path = tuple(accumulate(id_.split("/"), "{}/{}".format))
    fields: dict[str, FieldValue] = {}
    for name, value in {"path": path, **raw}.items():
        kind = TYPES[types.get(name, "text")]
        if kind is tuple:
            fields[name] = (value,) if isinstance(value, str) else value
        elif isinstance(value, str):
            try:
                fields[name] = convert_value(value, kind)
            except ValueError as error:
                raise ValueError(f"the field {name!r}: {error}") from None
        elif name in types:
            raise ValueError(f"the field {name!r} has {len(value)} values: declare it as list, not {types[name]}")
    return fields


class FieldTable:
    """The fields of ``documents``, with each column in the order of its values."""

    def __init__(self, documents: Sequence[Document]) -> None:
        """``types`` are those of the fields.

        Raises:
            UsageError: a field has two types.
        """
        self.types: dict[str, type] = {}
        self._size = len(documents)
        cells: dict[str, list[tuple[Any, int]]] = {}
        for number, document in enumerate(documents):
            for name, value in document.fields.items():
                if self.types.setdefault(name, type(value)) is not type(value):
                    raise UsageError(f"the field {name!r} of {document.id!r} has another type than in other documents")
                cells.setdefault(name, []).extend(
                    (one, number) for one in (value if isinstance(value, tuple) else [value])
                )
        self._columns: dict[str, tuple[list[Any], NDArray[np.int64]]] = {}
        for name, pairs in sorted(cells.items()):
            ordered = sorted(pairs)
            self._columns[name] = [value for value, _ in ordered], np.array([number for _, number in ordered])

    @cached_property
    def id(self) -> str:
        """A digest of all fields."""
        columns = [(name, repr(values), numbers.tolist()) for name, (values, numbers) in self._columns.items()]
        return digest("fields", columns)

    def select(self, filter_: Filter) -> NDArray[np.bool_]:
        """Return whether ``filter_`` admits each document."""
        admitted = np.ones(self._size, dtype=np.bool_)
        for condition in filter_.conditions:
            values, numbers = self._columns.get(condition.field, ([], np.zeros(0, dtype=np.int64)))
            fulfils = np.zeros(self._size, dtype=np.bool_)
            for start, stop in condition.find(values):
                fulfils[numbers[start:stop]] = True
            admitted &= fulfils
        return admitted
