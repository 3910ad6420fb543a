"""Fields of documents: read from front matter, columns and paths, with the types that ``dataset.yaml`` declares.

    fields:
      year: number
      signed: date
      tags: list

A field that is not declared is text. What has several values is a field only if it is declared as a list: a list in
front matter, a column that is not the same in all rows, and ``path``, which are the folders of a document and its
identifier: ``contracts/2024/lease`` has ``contracts``, ``contracts/2024`` and ``contracts/2024/lease``.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import accumulate

from ragsmith.errors import UsageError
from ragsmith.text.filters import TYPES, convert_value
from ragsmith.text.strict_yaml import YamlError, parse_yaml
from ragsmith.types import Document, FieldValue

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
    return {
        name: tuple(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in (data.items() if isinstance(data, dict) else ())
        if value not in (None, []) and not isinstance(value, dict)
    }


def convert_fields(id_: str, raw: RawFields, types: Mapping[str, str]) -> dict[str, FieldValue]:
    """Return the fields of the document ``id_`` in the declared ``types``.

    Raises:
        UsageError: a value does not have the type of its field.
    """
    fields: dict[str, FieldValue] = {}
    for name, value in {"path": tuple(accumulate(id_.split("/"), "{}/{}".format)), **raw}.items():
        kind = TYPES[types.get(name, "text")]
        if kind is tuple:
            fields[name] = (value,) if isinstance(value, str) else value
        elif isinstance(value, str):
            fields[name] = convert_value(name, value, kind)
        elif name in types:
            raise UsageError(f"the field {name!r} has {len(value)} values: declare it as list, not {types[name]}")
    return fields


def get_types(documents: Iterable[Document]) -> dict[str, type]:
    """Return the types of the fields of ``documents``: those of their values.

    Raises:
        UsageError: a field has two types.
    """
    types: dict[str, type] = {}
    for document in documents:
        for name, value in document.fields.items():
            if types.setdefault(name, type(value)) is not type(value):
                raise UsageError(
                    f"the field {name!r} of {document.id!r} has another type than in others: "
                    "declare it in the dataset.yaml of all documents"
                )
    return types
