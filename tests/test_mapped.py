"""Large arrays in files that are mapped into memory."""

from pathlib import Path

import numpy as np
import pytest

from ragsmith.mapped import MIN_MAPPED_BYTES, move_to_file

LARGE = np.arange(MIN_MAPPED_BYTES // 8, dtype=np.int64).reshape(-1, 8)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_large_array_keeps_its_values_and_cannot_be_written() -> None:
    moved = move_to_file(LARGE.T)
    assert (moved == LARGE.T).all()
    assert (moved.dtype, moved.flags.writeable, isinstance(moved.base, np.memmap)) == (LARGE.dtype, False, True)


def test_a_small_array_and_one_in_a_file_stay_where_they_are() -> None:
    small, moved = LARGE[:10], move_to_file(LARGE)
    assert move_to_file(small) is small
    assert move_to_file(moved) is moved


def test_an_array_of_objects_stays_in_memory() -> None:
    words = np.full(MIN_MAPPED_BYTES // 8, "word", dtype=object)
    assert move_to_file(words) is words


def test_no_file_has_a_name(cache_folder: Path) -> None:
    moved = move_to_file(LARGE)
    assert moved.sum() == LARGE.sum()
    assert not [path for path in cache_folder.rglob("*") if path.is_file()]


def test_where_no_file_can_be_written_the_array_stays_in_memory(cache_folder: Path) -> None:
    (cache_folder / "ragsmith").write_text("a file, where the folder would be")
    assert move_to_file(LARGE) is LARGE
