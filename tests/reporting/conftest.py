from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from toy import put_toy

from ragsmith.reporting import RunReport, load_report
from ragsmith.store.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The default cache of a folder in which a user works."""
    monkeypatch.chdir(tmp_path)
    with Store.open("cache.sqlite") as opened:
        yield opened


@pytest.fixture
def report(store: Store) -> RunReport:
    put_toy(store)
    return load_report(store, "toy")
