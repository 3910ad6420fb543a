"""Restore dataclasses by their annotations from the output of ``dataclasses.asdict`` after JSON."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import cache
from itertools import repeat
from reprlib import repr as shortened
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from ragsmith.errors import UsageError

T = TypeVar("T")
Readers = Mapping[Any, Callable[[Any], Any]]
"""Functions that restore types which are not stored in the form of ``asdict``."""


_STORED: Mapping[Any, Any] = {
    **{kind: kind for kind in (str, int, bool)},
    float: (int, float),
    tuple: (list, tuple),
    Mapping: Mapping,
}
"""The types of stored values by annotated type; values of other types are not checked."""


@contextmanager
def stored_by_other_code(what: str, row: str = "") -> Iterator[None]:
    """Refuse ``what`` the cache has in another shape, in the ``row`` with this label ``table:key``.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        problem = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else f"{error}"
        named = f"row {row}: {problem}" if row else problem
        raise UsageError(f"{what} in this cache cannot be read ({named}): give another cache with --cache") from error


def restore(kind: type[T], stored: Mapping[str, Any], readers: Readers | None = None) -> T:
    """Restore a dataclass from the output of ``asdict``.

    Raises:
        TypeError, ValueError: a field is unknown, missing or not a value of its type.
    """
    if not isinstance(stored, Mapping):
        raise TypeError(f"{shortened(stored)} is no {kind.__name__}")
    hints = _get_hints(cast(Any, kind))
    if missing := hints.keys() - stored.keys():
        raise TypeError(f"{kind.__name__} lacks {', '.join(sorted(missing))}")
    return kind(**{name: _restore_value(hints.get(name, Any), value, readers or {}) for name, value in stored.items()})


_get_hints = cache(get_type_hints)


def _restore_value(kind: Any, stored: Any, readers: Readers) -> Any:
    if kind in readers:
        return readers[kind](stored)
    if is_dataclass(kind) and isinstance(kind, type):
        return restore(kind, stored, readers)
    arguments = get_args(kind)
    if NoneType in arguments:
        [type_] = [one for one in arguments if one is not NoneType] if len(arguments) == 2 else [Any]
        return None if stored is None else _restore_value(type_, stored, readers)
    if not isinstance(stored, _STORED.get(get_origin(kind) or kind, object)):
        raise TypeError(f"{shortened(stored)} is no {getattr(kind, '__name__', kind)}")
    if get_origin(kind) is tuple:
        kinds = repeat(arguments[0], len(stored)) if Ellipsis in arguments else arguments
        return tuple(_restore_value(type_, one, readers) for type_, one in zip(kinds, stored, strict=True))
    if get_origin(kind) is Mapping:
        return {name: _restore_value(arguments[1], one, readers) for name, one in stored.items()}
    return stored
