"""Messages for unknown names, with the known names and the most similar one."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED_NAMES = 20
"""Maximum number of known names in a message."""


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``name``, or ``None`` if none is similar."""
    by_folded = {k.casefold(): k for k in sorted(known, reverse=True)}
    close = get_close_matches(name.casefold(), sorted(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"did you mean 'x'? known: x, y"``, without the first part if no name is similar; long lists are
    truncated.
    """
    names = sorted(known)
    near = find_nearest_name(name, names)
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    listed = f"known: {', '.join(names[:MAX_LISTED_NAMES])}{more}" if names else "none is known"
    return f"did you mean {near!r}? {listed}" if near else listed
