"""Search by the fields of documents: what they are, for whoever proposes a filter, and the search with it.

A proposed filter is a guess: it can only narrow what a question may find, conditions that cannot be read are left out,
and without any other it finds nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ragsmith.digest import to_canonical_json
from ragsmith.errors import UsageError
from ragsmith.text.filters import TYPES, find_conditions, parse_filter
from ragsmith.types import FieldValue, Filter, Hits, Search

MAX_VALUES = 10_000
"""Maximum number of texts of a field that are listed."""

SHOWN_VALUES = 20
"""Number of texts of a field in its description for a question."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of documents: its ``type`` as in ``dataset.yaml``, and its texts, or the range of its numbers or dates.

    A range is one value, ``least to greatest``.
    """

    name: str
    type: str
    values: tuple[str, ...]


def list_fields(each: Iterable[Mapping[str, FieldValue]]) -> tuple[Field, ...]:
    """Return the fields of documents by name, without those that have no type or several."""
    values: dict[tuple[str, type], set[Any]] = {}
    for fields in each:
        for name, value in fields.items():
            values.setdefault((name, type(value)), set()).update(value if isinstance(value, tuple) else (value,))
    return tuple(
        Field(
            name,
            type_,
            tuple(sorted(found)[:MAX_VALUES])
            if kind in (str, tuple)
            else (" to ".join(str(value).removesuffix(".0") for value in (min(found), max(found))),),
        )
        for (name, kind), found in sorted(values.items(), key=lambda item: item[0][0])
        for type_, known in TYPES.items()
        if kind is known and sum(name == other for other, _ in values) == 1
    )


def read_fields(described: Iterable[str]) -> tuple[Field, ...]:
    """Return the fields of a description by `FieldSearch.describe`."""
    return tuple(Field(**{**part, "values": tuple(part["values"])}) for part in map(json.loads, described))


class FieldSearch:
    """The search of a pipeline among documents by their ``fields``."""

    def __init__(self, fields: tuple[Field, ...], within: Callable[[Filter], Search]) -> None:
        """``within`` returns the search among the documents that a filter admits as well."""
        self._fields, self._within = fields, within

    def describe(self, question: str) -> tuple[str, ...]:
        """Return each field as JSON with its values, of many texts those in ``question`` first; none without fields."""
        asked = question.casefold()
        return tuple(
            to_canonical_json(replace(field, values=tuple(chosen[:SHOWN_VALUES])))
            for field in self._fields
            for chosen in [sorted(field.values, key=lambda text: -len(text) * (text.casefold() in asked))]
        )

    def __call__(self, filter_: str, query: str) -> Hits:
        """Return the hits among the documents that a filter admits, in the language of `ragsmith.text.filters`.

        Conditions that cannot be read are left out. There are no hits if no condition is left.
        """
        types = {field.name: TYPES[field.type] for field in self._fields}
        admitted = Filter(())
        for condition in find_conditions(filter_):
            with suppress(UsageError):
                admitted &= parse_filter(condition, types)
        return self._within(admitted)((query,))[0] if admitted.conditions else ()
