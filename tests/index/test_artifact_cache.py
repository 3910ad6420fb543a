"""Volumes of arrays: there whole or not at all, checked when they are read, shared, and never believed when damaged."""

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
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragsmith.errors import Notice
from ragsmith.index import artifact_cache as shelves
from ragsmith.index.artifact_cache import ArtifactCache, ArtifactKey, found_in, packed, rows_of, unpacked

HERE = ArtifactKey("vectors", "an embedder", "a corpus")
ARRAYS: Mapping[str, NDArray[Any]] = {
    "vectors": np.arange(12, dtype=np.float64).reshape(4, 3),
    "rows": np.arange(64, dtype=np.uint8).reshape(4, 16),
    "nothing": np.zeros((0, 5), dtype=np.int32),
}


def on(folder: Path) -> Path:
    return folder / HERE.family / HERE.name


def test_what_was_written_is_read_and_cannot_be_written_to(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    assert shelf.read(HERE) is None
    assert shelf.write(HERE, ARRAYS)
    volume = ArtifactCache(tmp_path).read(HERE)
    assert volume is not None
    for name, array in ARRAYS.items():
        assert np.array_equal(volume.arrays[name], array)
        assert volume.arrays[name].dtype == array.dtype
    with pytest.raises(ValueError, match="read-only"):
        volume.arrays["vectors"][0, 0] = 7.0
    assert shelf.read(ArtifactKey("vectors", "an embedder", "another corpus")) is None
    assert shelf.read(ArtifactKey("vectors", "another embedder", "a corpus")) is None


def failing_with(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_the_same_volume_again_leaves_the_one_that_is_there(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    before = (on(tmp_path) / "vectors.npy").stat().st_ino
    assert shelf.write(HERE, ARRAYS)
    assert (on(tmp_path) / "vectors.npy").stat().st_ino == before
    assert [path.name for path in on(tmp_path).parent.iterdir()] == [HERE.name]


@pytest.mark.parametrize("name", ["vectors.npy", "rows.npy", "manifest.json"])
@pytest.mark.parametrize("where", [0.0, 0.4, 0.999])
def test_one_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path, name: str, where: float) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    path = on(tmp_path) / name
    content = bytearray(path.read_bytes())
    content[int(where * len(content)) if where < 0.999 else -2] ^= 4
    path.write_bytes(content)
    with pytest.warns(Notice, match="is damaged, and is built anew"):
        found = shelf.read(HERE)
    assert found is None
    assert not on(tmp_path).exists()
    assert shelf.write(HERE, ARRAYS)
    assert shelf.read(HERE) is not None


@pytest.mark.parametrize("name", ["vectors.npy", "manifest.json"])
@pytest.mark.parametrize("left", [0, 1, 60])
def test_a_file_that_was_cut_off_is_noticed(tmp_path: Path, name: str, left: int) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    os.truncate(on(tmp_path) / name, left)
    with pytest.warns(Notice, match="is damaged"):
        assert shelf.read(HERE) is None


def test_a_missing_array_is_noticed(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    (on(tmp_path) / "rows.npy").unlink()
    with pytest.warns(Notice, match=r"rows\.npy is missing"):
        assert shelf.read(HERE) is None


def test_a_volume_under_the_name_of_another_is_noticed(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    foreign = ArtifactKey(HERE.kind, HERE.made_by, "a foreign corpus")
    shelf.write(foreign, ARRAYS)
    (tmp_path / foreign.family / foreign.name).rename(on(tmp_path))
    with pytest.warns(Notice, match="something else than its name says"):
        assert shelf.read(HERE) is None


def test_another_format_is_not_believed(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    manifest = on(tmp_path) / "manifest.json"
    about = json.loads(manifest.read_text().splitlines()[0])
    text = json.dumps({**about, "format": shelves.FORMAT + 1})
    manifest.write_text(f"{text}\n{shelves._text_digest(text)}\n")
    with pytest.warns(Notice, match=f"format {shelves.FORMAT + 1}"):
        assert shelf.read(HERE) is None


def test_an_array_of_pickled_objects_is_never_opened(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    np.save(on(tmp_path) / "vectors.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.warns(Notice, match=r"vectors\.npy cannot be read"):
        assert shelf.read(HERE) is None


def test_files_that_were_copied_are_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    real = shelves._bytes_digest
    monkeypatch.setattr(shelves, "_bytes_digest", lambda array: compared.append(array.size) or real(array))
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    compared.clear()
    assert shelf.read(HERE) is not None
    assert compared == []
    for path in on(tmp_path).glob("*.npy"):
        content = path.read_bytes()
        path.unlink()
        path.write_bytes(content)
    assert shelf.read(HERE) is not None
    assert len(compared) == len(ARRAYS)
    compared.clear()
    assert shelf.read(HERE) is not None
    assert compared == []


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    shelf = ArtifactCache(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(Notice, match="cannot be kept .* No space left on device"):
        assert not shelf.write(HERE, ARRAYS)
    monkeypatch.undo()
    assert list((tmp_path / HERE.family).iterdir()) == []
    assert shelf.write(HERE, ARRAYS)


def test_a_sound_volume_survives_the_trouble_of_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.ESTALE):
        with monkeypatch.context() as broken:
            broken.setattr(np, "load", failing_with(number))
            with pytest.warns(Notice, match=f"cannot be read now, and is done without: {os.strerror(number)}"):
                assert shelf.read(HERE) is None
        assert shelf.read(HERE) is not None


def test_too_many_open_files_cost_no_volume(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            found = shelf.read(HERE), list(shelf.recent(HERE)), shelf.listed(), shelf.write(HERE, ARRAYS)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found == (None, [], [], False)
    assert "cannot be read now" in str(said[0].message)
    assert not any("damaged" in str(each.message) for each in said)
    assert shelf.read(HERE) is not None


def test_a_disk_that_cannot_read_its_blocks_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    with monkeypatch.context() as broken:
        broken.setattr(np, "load", failing_with(errno.EIO))
        with pytest.warns(Notice, match="is damaged, and is built anew: .*Input/output error"):
            assert shelf.read(HERE) is None
    assert not on(tmp_path).exists()


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "indexes").write_text("not a folder")
    with pytest.warns(Notice, match="cannot be kept"):
        assert not ArtifactCache(tmp_path / "indexes").write(HERE, ARRAYS)


def test_beyond_its_size_a_shelf_gives_up_what_was_used_longest_ago(tmp_path: Path) -> None:
    each = {"vectors": np.zeros(1000)}
    shelf = ArtifactCache(tmp_path, most=30_000)
    addresses = [ArtifactKey("vectors", "an embedder", str(n)) for n in range(3)]
    for age, address in enumerate(addresses):
        shelf.write(address, each)
        os.utime(tmp_path / address.family / address.name, (1000 + age, 1000 + age))
    assert shelf.read(addresses[0]) is not None  # and so used just now
    newest = ArtifactKey("vectors", "an embedder", "newest")
    shelf.write(newest, each)
    assert {one.address.of for one in shelf.listed()} == {"0", "2", "newest"}
    ArtifactCache(tmp_path, most=1).write(addresses[1], each)
    assert [one.address.of for one in shelf.listed()] == ["1"]


def test_who_is_killed_while_removing_a_volume_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path, **_: object) -> None:
        if folder.exists():
            (folder / "vectors.npy").unlink()
            raise KeyboardInterrupt

    shelf = ArtifactCache(tmp_path, most=1)
    shelf.write(HERE, ARRAYS)
    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        shelf.write(ArtifactKey("vectors", "an embedder", "newer"), ARRAYS)
    monkeypatch.undo()
    assert shelf.read(HERE) is None  # and no warning, which would be an error
    assert [one.address.of for one in shelf.listed()] == ["newer"]


@pytest.mark.parametrize("anew", [False, True])
def test_who_reads_a_volume_that_is_removed_meanwhile_says_nothing_of_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    shelf, real = ArtifactCache(tmp_path), np.load

    def load(path: Path, **how: Any) -> Any:
        if path.name == "rows.npy" and not aside.exists():
            on(tmp_path).rename(aside)
            try:
                return real(path, **how)
            finally:
                if anew:
                    ArtifactCache(tmp_path).write(HERE, ARRAYS)
        return real(path, **how)

    shelf.write(HERE, ARRAYS)
    aside = on(tmp_path).with_name(".aside")
    monkeypatch.setattr(np, "load", load)
    assert shelf.read(HERE) is None
    assert (shelf.read(HERE) is not None) == anew


def test_drafts_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    shelf.write(HERE, ARRAYS)
    names = (".draft-01234567-17-89abcdef", ".removed-01234567-89abcdef", ".draft-01234567-18-89abcdef")
    old, removed, new = (on(tmp_path).with_name(name) for name in names)
    for draft in (old, removed, new):
        draft.mkdir()
    for draft in (old, removed):
        os.utime(draft, (1000, 1000))
    shelf.write(ArtifactKey("vectors", "an embedder", "more"), ARRAYS)
    assert not old.exists()
    assert not removed.exists()
    assert new.exists()


def test_what_a_killed_process_leaves_is_known_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, real = ArtifactCache(tmp_path, most=1), shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as a process that is killed does not get there
    shelf.write(HERE, ARRAYS)
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", failing_with(errno.EIO))
        with pytest.warns(Notice, match="cannot be kept"):
            shelf.write(ArtifactKey("vectors", "an embedder", "half"), ARRAYS)
    shelf.write(ArtifactKey("vectors", "an embedder", "newer"), ARRAYS)
    left = {path.name.split("-")[0]: path for path in on(tmp_path).parent.glob(".*")}
    assert set(left) == {".draft", ".removed"}
    monkeypatch.setattr(shutil, "rmtree", real)
    for path in left.values():
        os.utime(path, (1000, 1000))
    shelf.write(ArtifactKey("vectors", "an embedder", "newest"), ARRAYS)
    assert not any(path.exists() for path in left.values())


def test_what_no_shelf_wrote_is_never_removed_however_old_and_large_it_is(tmp_path: Path) -> None:
    foreign = [
        *("proj/.git", "proj/src", "proj/.draft-1", "proj/.draft-01234567-17-89abcdef", "data/" + "a" * 32),
        *(f"{HERE.family}/.git", f"{HERE.family}/.draft-of-mine", f"{HERE.family}/.removed-", f"{HERE.family}/notes"),
        f"{HERE.family}/{'b' * 32}",  # named as a volume is, and none
        f"backup/{HERE.name}",
    ]
    for name in foreign:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_bytes(bytes(5_000))
    (tmp_path / HERE.family / ("b" * 32) / "manifest.json").write_text("{}\n")
    for name in foreign:
        os.utime(tmp_path / name, (1000, 1000))
    shelf = ArtifactCache(tmp_path, most=1)
    shelf.write(HERE, ARRAYS)
    shelf.write(ArtifactKey("vectors", "an embedder", "more"), ARRAYS)
    assert [one.address.of for one in shelf.listed()] == ["more"]  # and of its own, it keeps what it may
    assert [name for name in foreign if not (tmp_path / name / "file").exists()] == []


def test_what_is_not_its_own_does_not_fill_a_shelf(tmp_path: Path) -> None:
    (tmp_path / "films" / "long").mkdir(parents=True)
    (tmp_path / "films" / "long" / "film").write_bytes(bytes(50_000))
    shelf = ArtifactCache(tmp_path, most=30_000)
    shelf.write(HERE, ARRAYS)
    shelf.write(ArtifactKey("vectors", "an embedder", "more"), ARRAYS)
    assert len(shelf.listed()) == 2


def test_recent_volumes_are_those_of_the_same_maker_the_last_used_first(tmp_path: Path) -> None:
    shelf = ArtifactCache(tmp_path)
    for age, of in enumerate(["first", "second", "third"]):
        address = ArtifactKey("vectors", "an embedder", of)
        shelf.write(address, ARRAYS)
        os.utime(tmp_path / address.family / address.name, (1000 + age, 1000 + age))
    shelf.write(ArtifactKey("vectors", "another", "fourth"), ARRAYS)
    assert [volume.address.of for volume in shelf.recent(HERE)] == ["third", "second", "first"]


@given(st.lists(st.text(st.characters(codec=None), max_size=5)))
def test_texts_are_packed_and_unpacked_whatever_they_hold(texts: list[str]) -> None:
    assert unpacked(*packed(texts)) == texts


@given(st.lists(st.sampled_from("abcdef"), max_size=6, unique=True), st.lists(st.sampled_from("abcdefgh"), max_size=8))
def test_rows_are_found_by_their_texts(known: list[str], wanted: list[str]) -> None:
    places = found_in(rows_of(wanted), rows_of(known)).tolist()
    assert places == [known.index(text) if text in known else -1 for text in wanted]
