"""Answer an unknown name with the known ones and the nearest of them."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED_NAMES = 20


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` was most likely meant to be, or ``None`` when none is near."""
    by_folded = {k.casefold(): k for k in sorted(known, reverse=True)}
    close = get_close_matches(name.casefold(), sorted(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'? known: x, y"``, without the first half when no name is near; long lists are cut."""
    names = sorted(known)
    near = find_nearest_name(name, names)
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    listed = f"known: {', '.join(names[:MAX_LISTED_NAMES])}{more}" if names else "none is known"
    return f"did you mean {near!r}? {listed}" if near else listed
