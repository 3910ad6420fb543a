from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def unsynced() -> Iterator[None]:
    """Files are not flushed to the disk, which takes most of the time where many artifacts are written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
