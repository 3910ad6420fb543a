"""Artifacts of arrays: there whole or not at all, checked when they are read, shared, and refused when damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragsmith.errors import Notice
from ragsmith.index import artifact_cache as shelves
from ragsmith.index.artifact_cache import ArtifactCache, ArtifactKey, digest_texts, find_rows, pack_texts, unpack_texts

ARRAYS: Mapping[str, NDArray[Any]] = {
    "vectors": np.arange(12, dtype=np.float64).reshape(4, 3),
    "rows": np.arange(64, dtype=np.uint8).reshape(4, 16),
    "nothing": np.zeros((0, 5), dtype=np.int32),
}


def key(of: str, made_by: str = "an embedder") -> ArtifactKey:
    return ArtifactKey("vectors", made_by, of)


HERE, MORE = key("a corpus"), key("more")


def on(folder: Path, address: ArtifactKey = HERE) -> Path:
    return folder / address.family / address.name


def listed(shelf: ArtifactCache) -> list[str]:
    return [one.key.of for one in shelf.list_entries()]


def fail_with(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def shelf(tmp_path: Path) -> ArtifactCache:
    """A cache with one artifact, which has room for no other."""
    found = ArtifactCache(tmp_path, max_bytes=1)
    assert found.read(HERE) is None
    assert found.write(HERE, ARRAYS)
    return found


def test_what_was_written_is_read_and_cannot_be_written_to(shelf: ArtifactCache, tmp_path: Path) -> None:
    volume = ArtifactCache(tmp_path).read(HERE)
    assert volume is not None
    for name, array in ARRAYS.items():
        assert np.array_equal(volume.arrays[name], array)
        assert volume.arrays[name].dtype == array.dtype
    with pytest.raises(ValueError, match="read-only"):
        volume.arrays["vectors"][0, 0] = 7.0
    assert shelf.read(key("another corpus")) is None
    assert shelf.read(key("a corpus", "another embedder")) is None


def test_the_same_artifact_again_leaves_the_one_that_is_there(shelf: ArtifactCache, tmp_path: Path) -> None:
    before = (on(tmp_path) / "vectors.npy").stat().st_ino
    assert shelf.write(HERE, ARRAYS)
    assert (on(tmp_path) / "vectors.npy").stat().st_ino == before
    assert [path.name for path in on(tmp_path).parent.iterdir()] == [HERE.name]


# --- damage ----------------------------------------------------------------------------------------------------------


def flip(place: int) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[place if place < 0 else place * len(content) // 10] ^= 4
        path.write_bytes(content)

    return change


def pickle_objects(path: Path) -> None:
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)


def change_format(path: Path) -> None:
    text = json.dumps({**json.loads(path.read_text().splitlines()[0]), "format": shelves.FORMAT + 1})
    path.write_text(f"{text}\n{shelves._digest_text(text)}\n")


DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    *((name, flip(at), "") for name in ("vectors.npy", "rows.npy", "manifest.json") for at in (0, 4, -2)),
    *(
        (name, lambda path, left=left: os.truncate(path, left), "")
        for name in ("vectors.npy", "manifest.json")
        for left in (0, 1, 60)
    ),
    ("rows.npy", Path.unlink, r"rows\.npy is missing"),
    ("manifest.json", change_format, f"format {shelves.FORMAT + 1}"),
    ("vectors.npy", pickle_objects, r"vectors\.npy cannot be read"),
]


@pytest.mark.parametrize(("name", "damage", "said"), DAMAGE)
def test_damage_is_noticed_wherever_it_is_and_the_artifact_is_removed(
    shelf: ArtifactCache, tmp_path: Path, name: str, damage: Callable[[Path], object], said: str
) -> None:
    damage(on(tmp_path) / name)
    with pytest.warns(Notice, match=f"is damaged and is computed again: .*{said}"):
        found = shelf.read(HERE)
    assert found is None
    assert not on(tmp_path).exists()
    assert shelf.write(HERE, ARRAYS)
    assert shelf.read(HERE) is not None


def test_an_artifact_under_the_name_of_another_is_noticed(shelf: ArtifactCache, tmp_path: Path) -> None:
    on(tmp_path).rename(on(tmp_path, MORE))
    with pytest.warns(Notice, match="its manifest has another key"):
        assert shelf.read(MORE) is None


def test_files_that_were_copied_are_compared_once(
    shelf: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    real = shelves._digest_bytes
    monkeypatch.setattr(shelves, "_digest_bytes", lambda array: compared.append(array.size) or real(array))
    assert shelf.read(HERE) is not None
    assert compared == []
    for path in on(tmp_path).glob("*.npy"):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    for _ in range(2):
        assert shelf.read(HERE) is not None
        assert len(compared) == len(ARRAYS)


# --- failures of the moment ------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = ArtifactCache(tmp_path)
    monkeypatch.setattr(os, "fsync", fail_with(errno.ENOSPC))
    with pytest.warns(Notice, match="cannot be stored .* No space left on device"):
        assert not shelf.write(HERE, ARRAYS)
    monkeypatch.undo()
    assert list((tmp_path / HERE.family).iterdir()) == []
    assert shelf.write(HERE, ARRAYS)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.ESTALE, errno.EIO])
def test_only_a_disk_that_cannot_read_its_blocks_is_damage(
    shelf: ArtifactCache, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    said = "is damaged and is computed again" if number == errno.EIO else "cannot be read now and is ignored"
    with monkeypatch.context() as broken:
        broken.setattr(np, "load", fail_with(number))
        with pytest.warns(Notice, match=f"{said}: .*{os.strerror(number)}"):
            assert shelf.read(HERE) is None
    assert (shelf.read(HERE) is None) == (number == errno.EIO)


def test_too_many_open_files_cost_no_artifact(shelf: ArtifactCache) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            found = shelf.read(HERE), list(shelf.iter_recent(HERE)), shelf.list_entries(), shelf.write(HERE, ARRAYS)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == (None, [], [], False)
    assert "cannot be read now" in str(said[0].message)
    assert not any("damaged" in str(each.message) for each in said)
    assert shelf.read(HERE) is not None


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "indexes").write_text("not a folder")
    with pytest.warns(Notice, match="cannot be stored"):
        assert not ArtifactCache(tmp_path / "indexes").write(HERE, ARRAYS)


@pytest.mark.parametrize("anew", [False, True])
def test_an_artifact_that_is_removed_while_it_is_read_is_no_damage(
    shelf: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    real, aside = np.load, on(tmp_path).with_name(".aside")

    def load(path: Path, **how: Any) -> Any:
        if path.name == "rows.npy" and not aside.exists():
            on(tmp_path).rename(aside)
            try:
                return real(path, **how)
            finally:
                if anew:
                    ArtifactCache(tmp_path).write(HERE, ARRAYS)
        return real(path, **how)

    monkeypatch.setattr(np, "load", load)
    assert shelf.read(HERE) is None
    assert (shelf.read(HERE) is not None) == anew


# --- eviction --------------------------------------------------------------------------------------------------------


def test_beyond_its_size_a_cache_evicts_what_was_used_longest_ago(tmp_path: Path) -> None:
    each = {"vectors": np.zeros(1000)}
    shelf = ArtifactCache(tmp_path, max_bytes=30_000)
    for age in range(3):
        shelf.write(key(str(age)), each)
        os.utime(on(tmp_path, key(str(age))), (1000 + age, 1000 + age))
    shelf.write(key("of another", "another"), {})
    assert [volume.key.of for volume in shelf.iter_recent(key("0"))] == ["2", "1", "0"]
    assert shelf.read(key("0")) is not None  # and so used just now
    shelf.write(key("newest"), each)
    assert {*listed(shelf)} == {"0", "2", "newest", "of another"}
    ArtifactCache(tmp_path, max_bytes=1).write(key("1"), each)
    assert listed(shelf) == ["1"]


def test_a_kill_while_an_artifact_is_removed_leaves_no_half_of_it(
    shelf: ArtifactCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path, **_: object) -> None:
        if folder.exists():
            (folder / "vectors.npy").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            shelf.write(MORE, ARRAYS)
    assert shelf.read(HERE) is None  # and no warning, which would be an error
    assert listed(shelf) == ["more"]


def test_what_killed_processes_leave_is_removed_when_it_is_old(
    shelf: ArtifactCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)  # as a process that is killed does not get there
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fail_with(errno.EIO))
            with pytest.warns(Notice, match="cannot be stored"):
                shelf.write(key("half"), ARRAYS)
        shelf.write(key("newer"), ARRAYS)
    left = {path.name.split("-")[0]: path for path in on(tmp_path).parent.glob(".*")}
    assert set(left) == {".draft", ".removed"}
    shelf.write(MORE, ARRAYS)
    assert all(path.exists() for path in left.values())
    for path in left.values():
        os.utime(path, (1000, 1000))
    shelf.write(key("newest"), ARRAYS)
    assert not any(path.exists() for path in left.values())


def test_what_no_cache_wrote_is_never_removed_and_takes_no_room_however_old_and_large_it_is(tmp_path: Path) -> None:
    foreign = [
        *("proj/.git", "proj/src", "proj/.draft-1", "proj/.draft-01234567-17-89abcdef", "data/" + "a" * 32),
        *(f"{HERE.family}/.git", f"{HERE.family}/.draft-of-mine", f"{HERE.family}/.removed-", f"{HERE.family}/notes"),
        f"{HERE.family}/{'b' * 32}",  # named as an artifact is, and none
        f"backup/{HERE.name}",
    ]
    for name in foreign:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(bytes(5_000))
    (tmp_path / HERE.family / ("b" * 32) / "manifest.json").write_text("{}\n")
    for name in foreign:
        os.utime(tmp_path / name, (1000, 1000))
    for most, left in ((30_000, {"a corpus", "more"}), (1, {"newest"})):
        shelf = ArtifactCache(tmp_path, most)
        for address in (HERE, MORE) if most > 1 else (key("newest"),):
            shelf.write(address, ARRAYS)
        assert {*listed(shelf)} == left
    assert [name for name in foreign if not (tmp_path / name / "file").exists()] == []


# --- texts and rows --------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec=None), max_size=5)))
def test_texts_are_packed_and_unpacked_whatever_they_hold(texts: list[str]) -> None:
    assert unpack_texts(*pack_texts(texts)) == texts


@settings(max_examples=30)
@given(st.lists(st.sampled_from("abcdef"), max_size=6, unique=True), st.lists(st.sampled_from("abcdefgh"), max_size=8))
def test_rows_are_found_by_their_texts(known: list[str], wanted: list[str]) -> None:
    places = find_rows(digest_texts(wanted), digest_texts(known)).tolist()
    assert places == [known.index(text) if text in known else -1 for text in wanted]
