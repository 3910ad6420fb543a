"""One canonical JSON form, and the digest of it: every key in the cache is built here and nowhere else.

Equal values give equal text whatever the order of a mapping's keys, the process or the platform; what JSON cannot say
exactly (NaN, bytes, sets, arrays, mutable objects) is refused instead of being hashed by accident. Text is taken as it
is: NFC and NFD spellings differ, and so do 1, 1.0 and True.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import blake2b

VERSION = 1
"""Part of every digest: raise it when the canonical form changes, and every key misses once."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
_ATOMS = frozenset({str, int, bool, type(None)})
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_Path = tuple["_Path", int | str] | None
"""Where in the value: the way to the parent, and the position or key below it."""


def canonical(value: object) -> str:
    """Return ``value`` as JSON with sorted keys, no white space and floats by their shortest exact ``repr``.

    Allowed are None, bool, int, float, str, list and tuple (the same array), mappings with text keys, and frozen
    dataclasses (the object of their fields). A member of a ``StrEnum`` is its text. The result can always be encoded
    as UTF-8: lone surrogates are escaped.

    Raises TypeError for any other type and ValueError for NaN, infinities and endless nesting, naming the place.
    """
    try:
        text = _ENCODER.encode(value if _is_plain(value) else _plain(value, None))
    except RecursionError:
        raise ValueError("value is nested too deeply or contains itself: pass a flatter value") from None
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, as cut-off replies have: JSON can say it, UTF-8 cannot
        return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text


def digest(*parts: object) -> str:
    """Return 32 hexadecimal digits (BLAKE2b, 16 bytes) over the version and the canonical form of ``parts``.

    The borders between parts count: ``digest("ab", "c") != digest("a", "bc")``. Raises as `canonical` does.
    """
    return blake2b(f"ragsmith/{VERSION}:{canonical(parts)}".encode(), digest_size=16).hexdigest()


def _is_plain(value: object) -> bool:
    """Whether the encoder alone does right by ``value``: only JSON's own types, text keys and finite numbers."""
    kind = type(value)
    if kind is dict:
        items: Mapping[object, object] = value  # type: ignore[assignment]
        return all(type(key) is str and (type(v) in _ATOMS or _is_plain(v)) for key, v in items.items())
    if kind is list or kind is tuple:
        sequence: Iterable[object] = value  # type: ignore[assignment]
        return all(type(v) in _ATOMS or _is_plain(v) for v in sequence)
    return kind in _ATOMS or (kind is float and math.isfinite(value))  # type: ignore[arg-type]


def _plain(value: object, path: _Path) -> object:
    """``value`` in JSON's own types; recursion carries the path only to name it in an error."""
    kind: type = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, (path, position)) for position, item in enumerate(value)]
    if isinstance(value, float | str | int):
        return _atom(value, path)
    if isinstance(value, Mapping):
        return {_text_key(key, path): _plain(item, (path, key)) for key, item in value.items()}
    names = _frozen_fields(kind)
    if names is None:
        raise TypeError(f"{_place(path)} is a {kind.__name__}, which has no canonical JSON form: convert it first")
    return {name: _plain(getattr(value, name), (path, name)) for name in names}


def _atom(value: float | str, path: _Path) -> float | str:
    """A finite float, or what a subclass of an atom (a ``StrEnum``, a ``numpy.float64``) is worth."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if not math.isfinite(value):
        raise ValueError(f"{_place(path)} is {float(value)}: a missing number is None, never NaN or an infinity")
    return float(value)


def _text_key(key: object, path: _Path) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{_place(path)} has the key {key!r} of type {type(key).__name__}: use text keys")
    return str.__str__(key)


@cache
def _frozen_fields(kind: type) -> tuple[str, ...] | None:
    """Names of the fields of a frozen dataclass; None for everything else."""
    if not is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return None
    return tuple(field.name for field in fields(kind))


def _place(path: _Path) -> str:
    """``value[0].scores['f1']`` in one notation: positions and keys in brackets."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step!r}]")
    return "value" + "".join(reversed(steps))
