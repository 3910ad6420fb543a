from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def any_values() -> Iterator[None]:
    """Disable the validation of rows, so that they may have short values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ragsmith.store.database.VALIDATORS", {})
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"
