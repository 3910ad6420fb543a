r"""A language of filters by the fields of documents: conditions, all of which must hold.

    tenant=acme                          the field is this text, number or date
    lang in de|en                        ... or one of these
    year>=2023 and date<2024-05-01       numbers and dates are also compared, by <, <=, > and >=
    date after 2023-12-31                ``before`` and ``after`` are < and >
    "signed by"="Smith and Sons"         names and values of several words are quoted, with \\" for a quotation mark

In JSON and YAML, a filter is such a text, or a mapping by field: ``{"tenant": "acme", "lang": ["de", "en"], "year":
{">=": 2023}}``. A list such as ``tags`` fulfils ``tags=legal`` if one of its
texts does. A document without the field does not fulfil a condition.
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime

from ragsmith.errors import UsageError
from ragsmith.text.files import shorten
from ragsmith.text.strict_yaml import FLOAT
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Condition, Filter

TYPES: Mapping[str, type] = {"text": str, "number": float, "date": date, "list": tuple}
"""The types of fields, by their name in ``dataset.yaml``."""
OPERATORS = {"=": "in", "in": "in", "<": "<", "before": "<", "<=": "<=", ">": ">", "after": ">", ">=": ">="}
"""The operators of the language, and that of `Condition`."""

_WORD = r'[^\s"<>=|]+'
_TERM = rf'(?:"(?:[^"\\]|\\["\\])*"|{_WORD})'
_CONDITION = re.compile(
    rf"\s*(?P<condition>(?P<field>{_TERM})(?:\s*(?P<mark><=|>=|[<>=])|\s+(?P<word>in|before|after)(?=[\s\"]))"
    rf"\s*(?P<values>{_TERM}(?:\s*\|\s*{_TERM})*))(?:\s+and\s+(?=\S)|\s*$)"
)
_FORM = "write conditions such as tenant=acme, lang in de|en or year>=2023, join them by and, and quote several words"


def parse_filter(value: object, types: Mapping[str, type]) -> Filter:
    """Return the filter that ``value`` describes, a text or its form in JSON; ``types`` are those of the known fields.

    Raises:
        UsageError: the filter cannot be read, a field is unknown, or a value does not fit the type of its field.
    """
    parts: list[tuple[str, str, object]] = (
        [
            (str(name), str(operator), values)
            for name, wanted in value.items()
            for operator, values in (wanted if isinstance(wanted, Mapping) else {"in": wanted}).items()
        ]
        if isinstance(value, Mapping)
        else list(_split(str(value)))
    )
    if not parts:
        raise UsageError(f"the filter {shorten(value)} has no condition: {_FORM}")
    return Filter(tuple(_make_condition(*part, types) for part in parts)) & None


def find_conditions(text: str) -> list[str]:
    """Return the conditions in ``text``, without what has not their form; fields and values may be wrong."""
    return [found["condition"] for found in re.finditer(rf"(?:\A|(?<=\sand\s)){_CONDITION.pattern}", text)]


def format_filter(condition: Filter) -> str:
    """Return the text of a filter, of which `parse_filter` returns an equal one."""
    return " and ".join(
        f"{_quote(each.field)} {each.operator} {'|'.join(_quote(str(value)) for value in each.values)}"
        for each in condition.conditions
    )


def convert_value(field: str, value: object, kind: type) -> str | float | date:
    """Return a value of ``field`` as text, a number or a date; for a list, ``kind`` tuple, one of its texts.

    Raises:
        UsageError: it is none.
    """
    text = str(value).strip()
    if kind is float and (FLOAT.fullmatch(text) is None or math.isinf(float(text))):
        raise UsageError(f"the field {field!r} is a number, not {shorten(text)}")
    try:
        return float(text) if kind is float else datetime.fromisoformat(text).date() if kind is date else text
    except ValueError:
        raise UsageError(f"the field {field!r} is a date such as 2024-05-31, not {shorten(text)}") from None


def _split(text: str) -> Iterator[tuple[str, str, object]]:
    """Yield the field, the operator and the values of the conditions in ``text``."""
    position = 0
    while position < len(text):
        found = _CONDITION.match(text, position)
        if found is None:
            raise UsageError(f"the filter {shorten(text)} has no condition at {shorten(text[position:])}: {_FORM}")
        position = found.end()
        wanted = list(map(_unquote, re.findall(_TERM, found["values"])))
        yield _unquote(found["field"]), found["mark"] or found["word"], wanted


def _make_condition(field: str, operator: str, wanted: object, types: Mapping[str, type]) -> Condition:
    values = wanted if isinstance(wanted, list | tuple) else [wanted]
    where = f"the filter {field} {operator} {'|'.join(map(str, values))}"
    if not types:
        raise UsageError(
            f"{where} needs documents with fields, and these have none: give them some in front matter, such as a line "
            f"'{field}: {values[0] if values else ''}' between two lines '---' (docs/filters.md)"
        )
    for name, known, what in ((field, types, "field of a document"), (operator, OPERATORS, "operator")):
        if name not in known:
            raise UsageError(f"{where}: {name!r} is no {what}: {did_you_mean(name, known)}")
    is_range = OPERATORS[operator] != "in"
    if is_range and types[field] in (str, tuple):
        raise UsageError(f"{where}: {field!r} is text: declare it as number or date in dataset.yaml")
    if not values or (is_range and values[1:]) or not all(isinstance(value, str | int | float) for value in values):
        raise UsageError(f"{where}: give {'one value' if is_range else 'texts, numbers or dates'}")
    converted = {convert_value(field, value, types[field]) for value in values}
    return Condition(field, OPERATORS[operator], tuple(sorted(converted)))  # type: ignore[arg-type]  # all of one type


def _quote(text: str) -> str:
    return text if re.fullmatch(_WORD, text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith('"') else text
