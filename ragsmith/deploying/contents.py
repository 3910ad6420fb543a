"""What a kit holds: paths within it, each with bytes or with the file that is copied there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

Contents = Mapping[str, bytes | Path]
"""Path in the kit, with ``/`` between folders, to what is written there."""


def read(content: bytes | Path) -> bytes:
    """The bytes of one entry."""
    return content if isinstance(content, bytes) else content.read_bytes()
