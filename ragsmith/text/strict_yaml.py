"""A strict subset of YAML: plain data with line numbers, and errors of one sentence with file and line.

Features that ``yaml.safe_load`` accepts are rejected: duplicate keys, tags, anchors, aliases, merge keys, several
documents, excessive depth. Scalars follow YAML 1.2: ``no`` and ``12:30:45`` are text.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from ragsmith.errors import UsageError
from ragsmith.text.files import FORBIDDEN, MIB, TextError, get_line_number, name_character, read_text, shorten
from ragsmith.text.suggest import did_you_mean

YamlValue: TypeAlias = "bool | int | float | str | list[YamlValue] | dict[str, YamlValue] | None"
YamlPath: TypeAlias = tuple[str | int, ...]
"""Keys and 0-based positions that lead to a value."""

MAX_BYTES = MIB
"""Maximum size of a file."""
MAX_DEPTH = 20
"""Maximum depth of nesting."""
MAX_DIGITS = 18
"""Maximum number of digits of an integer."""

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
KEYWORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""Values of unquoted keywords."""


class YamlError(UsageError):
    """A YAML file cannot be used; the message is ``file:line: problem``."""


@dataclass(frozen=True, slots=True)
class YamlTree:
    """The content of a YAML file, the line of each value by path, and the type of the errors of invalid values.

    Data from elsewhere have no ``lines``: errors then have the path of the value instead.
    """

    data: YamlValue
    source: str
    lines: Mapping[YamlPath, int]
    error_type: type[UsageError] = YamlError

    def line(self, *path: str | int) -> int:
        """Return the 1-based line of the value at ``path`` (keys and positions), or of its nearest known parent."""
        known = (path[:length] for length in range(len(path), -1, -1) if path[:length] in self.lines)
        return self.lines[next(known)]

    def where(self, *path: str | int) -> str:
        """Return ``file:line`` of the value at ``path``, or ``source['key'][0]`` without lines."""
        if not self.lines:
            return self.source + "".join(f"[{step!r}]" for step in path)
        return f"{self.source}:{self.line(*path)}"

    def error(self, path: YamlPath, problem: str) -> UsageError:
        """Return the error for a ``problem`` with the value at ``path``, with file and line."""
        return self.error_type(f"{self.where(*path)}: {problem}")

    def mapping(
        self, path: YamlPath = (), *, known: Iterable[str] | None = None, form: str = "", optional: bool = False
    ) -> dict[str, Any]:
        """Return the mapping at ``path``; an empty one if it is missing and ``optional``.

        Raises ``error_type``, with file and line, if the value is missing, is not a mapping (with the message
        ``form``), or has a key that is not ``known``.
        """
        value: Any = self.data
        for step in path:
            if step not in value:
                if optional:
                    return {}
                raise self.error(path, f"{step!r} is missing")
            value = value[step]
        if not isinstance(value, dict):
            empty = "the file is empty; " if self.data is None else ""
            raise self.error(path, empty + (form or f"{path[-1]!r} must be 'name: value' pairs, not {shorten(value)}"))
        for key in value:
            if known is not None and key not in known:
                raise self.error((*path, key), unknown_key_message(key, known))
        return value


def read_yaml(path: Path, error_type: type[UsageError] = YamlError) -> YamlTree:
    """Read the YAML file at ``path``; raises an error of the type ``error_type``."""
    try:
        text = read_text(path, limit=MAX_BYTES, links=True)
    except TextError as error:
        raise error_type(error.at(path)) from None
    return parse_yaml(text, str(path), error_type)


def parse_yaml(text: str, source: str, error_type: type[UsageError] = YamlError) -> YamlTree:
    """Parse ``text``, which messages call ``source``; raises an error of the type ``error_type``."""
    if len(text) > MAX_BYTES:
        raise error_type(f"{source}: is longer than the limit of {MAX_BYTES:,} characters; split it")
    if found := FORBIDDEN.search(text):
        raise error_type(f"{source}:{get_line_number(text, found.start())}: {name_character(found.group())}; remove it")
    return _TreeBuilder(text, source, error_type).tree()


def unknown_key_message(key: str, known: Iterable[str], meant: str | None = None) -> str:
    """Return ``unknown key 'x'; did you mean 'y'? known: y, z``, where y is the nearest of ``known`` to ``meant``."""
    return f"unknown key {shorten(key)}; {did_you_mean(meant or key, known)}"


class _TreeBuilder:
    """Builds a tree from the parser's events, so that an invalid file is rejected before it is in memory."""

    def __init__(self, text: str, source: str, error_type: type[UsageError]) -> None:
        self.source = source
        self.error_type = error_type
        self.lines: dict[YamlPath, int] = {}
        self.events = self._events(text)

    def tree(self) -> YamlTree:
        next(self.events)  # the start of the stream
        start = next(self.events)
        if not isinstance(start, yaml.DocumentStartEvent):
            return YamlTree(None, self.source, {(): 1}, self.error_type)
        if start.version or start.tags:
            raise self._error(start, "directives (%YAML, %TAG) are not allowed; remove the line")
        data = self._value(next(self.events), ())
        next(self.events)  # the end of the document
        if isinstance(more := next(self.events), yaml.DocumentStartEvent):
            raise self._error(more, "a second document starts here; keep one document a file")
        return YamlTree(data, self.source, self.lines, self.error_type)

    def _events(self, text: str) -> Iterator[yaml.Event]:
        last = 1
        try:
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                last = _line(event)
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else last
            raise self.error_type(f"{self.source}:{line}: not valid YAML: {_join_message(error)}") from None
        except yaml.reader.ReaderError as error:
            found = f"character U+{int(error.character):04X}"
            line = get_line_number(text, error.position)
            raise self.error_type(f"{self.source}:{line}: not valid YAML: {found} is not allowed; remove it") from None
        except (ValueError, OverflowError):  # PyYAML passes an escape beyond Unicode to chr()
            raise self.error_type(
                f"{self.source}:{last}: not valid YAML: a number or escape is out of range after this line"
            ) from None

    def _error(self, event: yaml.Event, reason: str) -> UsageError:
        return self.error_type(f"{self.source}:{_line(event)}: {reason}")

    def _value(self, event: yaml.Event, path: YamlPath) -> YamlValue:
        self.lines.setdefault(path, _line(event))
        self._reject_features(event)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if len(path) >= MAX_DEPTH:
            raise self._error(event, f"nested more than {MAX_DEPTH} levels deep; flatten it")
        return self._sequence(path) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(path)

    def _reject_features(self, event: yaml.Event) -> None:
        """Reject features by which a small file can have a large or surprising value."""
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"the alias {shorten(event.anchor)} is not allowed; write the value out")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            if event.anchor is not None:
                raise self._error(event, f"the anchor {shorten(event.anchor)} is not allowed; write the value out")
            if event.tag is not None:
                raise self._error(event, f"the tag {_format_tag(event.tag)} is not allowed; remove it")

    def _sequence(self, path: YamlPath) -> list[YamlValue]:
        values: list[YamlValue] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            values.append(self._value(event, (*path, len(values))))
        return values

    def _mapping(self, path: YamlPath) -> dict[str, YamlValue]:
        values: dict[str, YamlValue] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event)
            if key in values:
                first = self.lines[*path, key]
                raise self._error(event, f"duplicate key {shorten(key)}, first on line {first}; keep one of them")
            self.lines[*path, key] = _line(event)
            values[key] = self._value(next(self.events), (*path, key))
        return values

    def _key(self, event: yaml.Event) -> str:
        self._reject_features(event)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(event, "a key must be text, not a list or a mapping; write a name")
        if event.style is None and event.value == "<<":
            raise self._error(event, "merge keys (<<) are not allowed; write the keys out")
        key = self._scalar(event)
        if not isinstance(key, str):
            raise self._error(event, f"the key {shorten(event.value)} must be text; put it in quotes")
        return key

    def _scalar(self, event: yaml.ScalarEvent) -> YamlValue:
        text = str(event.value)
        if event.style is not None:
            if found := FORBIDDEN.search(text):
                raise self._error(event, f"{name_character(found.group())} in a text; remove it")
            return text
        if text in KEYWORDS:
            return KEYWORDS[text]
        if NOT_FINITE.fullmatch(text):
            raise self._error(event, f"{text} is not a finite number; write one, or put it in quotes")
        if INTEGER.fullmatch(text):
            return self._integer(event, text)
        if FLOAT.fullmatch(text) and not LEADING_ZERO.match(text):
            return self._float(event, text)
        return text

    def _integer(self, event: yaml.ScalarEvent, text: str) -> int:
        if len(text.lstrip("+-")) > MAX_DIGITS:
            raise self._error(event, f"the integer has more than {MAX_DIGITS} digits; put it in quotes if it is text")
        return int(text)

    def _float(self, event: yaml.ScalarEvent, text: str) -> float:
        value = float(text)
        if not math.isfinite(value):
            raise self._error(event, f"{text[:40]} is too large for a number; write a finite one")
        return value


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _format_tag(tag: str) -> str:
    """Return a tag as it is written in the file."""
    return shorten(tag.replace("tag:yaml.org,2002:", "!!"))


def _join_message(error: yaml.MarkedYAMLError) -> str:
    """Join the parts of an error of PyYAML to one line."""
    parts = (error.context, error.problem)
    joined = ", ".join(re.sub(r"\s+", " ", part) for part in parts if part)
    return joined.replace("flow sequence", "list in [ ]").replace("flow mapping", "mapping in { }")
