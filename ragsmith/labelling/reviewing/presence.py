"""Who looks at which draft at this moment, so that two people at once do not read the same one.

It is told in a file beside the lock, which counts for seconds only: nothing is lost with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

FILE = ".review.looking"
SECONDS = 8.0
"""How long somebody counts as there who is not heard of; a page says so every two seconds."""


class Presence:
    """Who looks at what in ``folder``. Call it while the folder is locked; ``clock`` is that of all its processes."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = folder / FILE
        self.clock = clock

    def look(self, client: str, id_: str, reviewer: str) -> Mapping[str, str]:
        """Tell that ``client``, a page of ``reviewer``, shows a draft or none; returns what others look at, by whom."""
        now = self.clock()
        others = {
            other: seen
            for other, seen in self._read().items()
            if other != client and isinstance(seen, list) and len(seen) == 3 and _is_recent(seen[2], now)
        }
        self.path.write_text(json.dumps({**others, client: [id_, reviewer, now]} if id_ else others), encoding="utf-8")
        # somebody who opens the page again goes on where he was, though the page he left counts for seconds yet
        return {str(looked): str(who) for looked, who, _ in others.values() if who != reviewer}

    def _read(self) -> Mapping[str, object]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there yet, or its writer was killed: nobody is there
            return {}
        return found if isinstance(found, dict) else {}


def _is_recent(at: object, now: float) -> bool:
    return isinstance(at, float) and abs(now - at) < SECONDS
