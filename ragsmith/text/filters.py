r"""A language of filters by the fields of documents: conditions, all of which must hold.

    tenant=acme                          the field is this text, number or date
    lang in de|en                        ... or one of these
    year>=2023 and date<2024-05-01       numbers and dates are also compared, by <, <=, > and >=
    date after 2023-12-31                ``before`` and ``after`` are < and >
    "signed by"="Smith and Sons"         names and values of several words are quoted, with \\" for a quotation mark

In JSON and YAML, a filter is such a text, or a mapping by field: ``{"tenant": "acme", "lang": ["de", "en"], "year":
{">=": 2023}}``; or a list of both, which are all to hold. A list such as ``tags`` fulfils ``tags=legal`` if one of its
texts does. A document without the field does not fulfil a condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from operator import and_

from ragsmith.errors import UsageError
from ragsmith.text.files import shorten
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Condition, Filter

TYPES: Mapping[str, type] = {"text": str, "number": float, "date": date, "list": tuple}
"""The types of fields, by their name in ``dataset.yaml``."""
OPERATORS = {"=": "in", "in": "in", "<": "<", "before": "<", "<=": "<=", ">": ">", "after": ">", ">=": ">="}
"""The operators of the language, and that of `Condition`."""

_WORD = r'[^\s"<>=|]+'
_TERM = rf'(?:"(?:[^"\\]|\\["\\])*"|{_WORD})'
_CONDITION = re.compile(
    rf"\s*(?P<field>{_TERM})(?:\s*(?P<mark><=|>=|[<>=])|\s+(?P<word>in|before|after)(?=[\s\"]))"
    rf"\s*(?P<values>{_TERM}(?:\s*\|\s*{_TERM})*)(?:\s+and\s+(?=\S)|\s*$)"
)
_FORM = "write FIELD=VALUE, FIELD in VALUE|VALUE or FIELD>=VALUE, joined by  and , with quotes around several words"

_Parts = tuple[str, str, Sequence[object]]
"""The field, the operator and the values of a condition, as they were written."""


def parse_filter(value: object, types: Mapping[str, type]) -> Filter:
    """Return the filter that ``value`` describes, a text or its form in JSON; ``types`` are those of the known fields.

    Raises:
        UsageError: the filter cannot be read, a field is unknown, or a value does not fit the type of its field.
    """
    if isinstance(value, list | tuple) and value:
        return reduce(and_, (parse_filter(part, types) for part in value))
    if isinstance(value, Mapping) and value:
        parts = [part for field, wanted in value.items() for part in _split_mapping(str(field), wanted)]
    elif isinstance(value, str) and value.strip():
        parts = list(_split_text(value))
    else:
        raise UsageError(f"the filter {shorten(value)} has no condition: {_FORM}")
    return Filter(tuple(_make_condition(*part, types) for part in parts)) & None


def format_filter(condition: Filter) -> str:
    """Return the text of a filter, of which `parse_filter` returns an equal one."""
    return " and ".join(
        f"{_quote(each.field)} {each.operator} {'|'.join(_quote(str(value)) for value in each.values)}"
        for each in condition.conditions
    )


def convert_value(value: object, kind: type) -> str | float | date:
    """Return a value as text, a number or a date; of a list, ``kind`` tuple, it is one of its texts.

    Raises:
        ValueError: it is none; the message says what it should be.
    """
    text = str(value).strip()
    try:
        if kind is date:
            return datetime.fromisoformat(text).date()
        if kind is float and math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    if kind in (date, float):
        raise ValueError(f"{shorten(text)} is not {'a date such as 2024-05-31' if kind is date else 'a number'}")
    return text


def _split_text(text: str) -> Iterator[_Parts]:
    """Yield the parts of the conditions in ``text``."""
    position = 0
    while position < len(text):
        found = _CONDITION.match(text, position)
        if found is None:
            raise UsageError(f"the filter {shorten(text)} cannot be read from {shorten(text[position:])} on: {_FORM}")
        values = [_unquote(value) for value in re.findall(_TERM, found["values"])]
        yield _unquote(found["field"]), found["mark"] or found["word"], values
        position = found.end()


def _split_mapping(field: str, wanted: object) -> Iterator[_Parts]:
    """Yield the parts of the conditions on ``field``: a value, a list of values, or values by operator."""
    by_operator = wanted if isinstance(wanted, Mapping) else {"in": wanted}
    for operator, value in by_operator.items():
        yield field, str(operator), value if isinstance(value, list | tuple) else [value]


def _make_condition(field: str, operator: str, values: Sequence[object], types: Mapping[str, type]) -> Condition:
    where = f"the filter {field} {operator} {'|'.join(map(str, values))}"
    for name, known, what in ((field, types, "field of a document"), (operator, OPERATORS, "operator")):
        if name not in known:
            raise UsageError(f"{where}: {name!r} is no {what}: {did_you_mean(name, known)}")
    kind, is_range = types[field], OPERATORS[operator] != "in"
    if is_range and kind in (str, tuple):
        raise UsageError(f"{where}: {field!r} is text: declare it as number or date in dataset.yaml")
    if (len(values) != 1 if is_range else not values) or not all(
        isinstance(value, str | int | float) for value in values
    ):
        raise UsageError(f"{where}: give {'one value' if is_range else 'texts, numbers or dates'}")
    try:
        converted = {convert_value(value, kind) for value in values}
    except ValueError as error:
        raise UsageError(f"{where}: {error}, as {field!r} requires") from None
    return Condition(field, OPERATORS[operator], tuple(sorted(converted)))  # type: ignore[arg-type]  # of one type


def _quote(text: str) -> str:
    return text if re.fullmatch(_WORD, text) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
