"""Answer an unknown name with the known ones and the nearest of them."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 20


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that ``name`` was most likely meant to be, or ``None`` when none is near."""
    by_folded = {k.casefold(): k for k in sorted(known, reverse=True)}
    close = get_close_matches(name.casefold(), sorted(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'? known: x, y"``, without the first half when no name is near; long lists are cut."""
    names = sorted(known)
    near = nearest(name, names)
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    listed = f"known: {', '.join(names[:MOST_LISTED])}{more}" if names else "none is known"
    return f"did you mean {near!r}? {listed}" if near else listed
