"""A kit is written whole or not at all, and over an earlier one only."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsmith.deploying.writing import check_target, write_kit
from ragsmith.errors import UsageError

FIRST = {"README.md": b"one", "data/documents/a.md": b"a", "data/documents/deep/b.md": b"b"}
SECOND = {"README.md": b"two", "data/documents/a.md": b"a", "server.py": b"new"}


def nothing_wrong(draft: Path) -> None:
    assert (draft / "kit.json").is_file()


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_list(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files(folder).items() if name != "kit.json"}


def test_an_earlier_kit_is_replaced_and_what_is_one_s_own_stays(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    write_kit(FIRST, kit, nothing_wrong)
    assert without_list(kit) == FIRST
    (kit / ".env").write_text("RAGSMITH_TOKEN=mine")
    check_target(kit, force=True)
    write_kit(SECOND, kit, nothing_wrong)
    assert without_list(kit) == {**SECOND, ".env": b"RAGSMITH_TOKEN=mine"}
    assert not (kit / "data" / "documents" / "deep").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["kit"]


def test_what_must_not_be_written_to_is_refused(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    check_target(kit, force=False)
    kit.mkdir()
    check_target(kit, force=False)
    (kit / "notes.txt").write_text("mine")
    for force in (False, True):
        with pytest.raises(UsageError, match="is not empty and is not a starter kit"):
            check_target(kit, force=force)
    with pytest.raises(UsageError, match="is a file"):
        check_target(kit / "notes.txt", force=True)
    write_kit(FIRST, kit, nothing_wrong)
    with pytest.raises(UsageError, match="--force"):
        check_target(kit, force=False)


@pytest.mark.parametrize("change", [{"data/documents/new.md": b"new"}, {"data/documents/a.md": b"edited"}])
def test_documents_of_somebody_are_not_gone_over(tmp_path: Path, change: dict[str, bytes]) -> None:
    kit = tmp_path / "kit"
    write_kit(FIRST, kit, nothing_wrong)
    for name, data in change.items():
        (kit / name).write_bytes(data)
    before = files(kit)
    with pytest.raises(UsageError, match="after the kit was written"):
        write_kit(SECOND, kit, nothing_wrong)
    assert files(kit) == before
    write_kit({**SECOND, **change}, kit, nothing_wrong)  # deployed on these very documents
    assert files(kit)["README.md"] == b"two"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"README.md": b"edited"}, ["README.md was added"]),  # would be replaced
        ({"old.py": b"edited"}, ["old.py was added"]),  # would be removed
        ({"server.py": b"mine"}, ["server.py was added"]),  # the earlier kit had none
        ({"README.md": b"edited", "server.py": b"mine"}, ["README.md, server.py were added", "move them away"]),
    ],
)
def test_what_somebody_wrote_or_edited_is_not_gone_over(
    tmp_path: Path, change: dict[str, bytes], named: list[str]
) -> None:
    kit = tmp_path / "kit"
    write_kit({**FIRST, "old.py": b"old"}, kit, nothing_wrong)
    for name, data in change.items():
        (kit / name).write_bytes(data)
    before = files(kit)
    with pytest.raises(UsageError, match="would be lost") as refused:
        write_kit(SECOND, kit, nothing_wrong)
    assert all(words in str(refused.value) for words in named)
    assert files(kit) == before
    assert [path.name for path in tmp_path.iterdir()] == ["kit"]
    for name in change:
        (kit / name).rename(tmp_path / name)
    write_kit(SECOND, kit, nothing_wrong)  # moved away, as it was told
    assert without_list(kit) == SECOND


def test_a_folder_or_a_link_where_a_file_is_written_is_not_gone_over(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    write_kit(FIRST, kit, nothing_wrong)
    (kit / "server.py").mkdir()
    (kit / "server.py" / "mine.py").write_text("mine")
    (kit / "README.md").unlink()
    (kit / "README.md").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"README\.md, server\.py were added"):
        write_kit(SECOND, kit, nothing_wrong)
    assert (kit / "server.py" / "mine.py").read_text() == "mine"
    assert (kit / "README.md").is_symlink()


def test_of_many_files_a_few_are_named(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    many = {f"data/documents/{number:02}.md": b"a" for number in range(30)}
    write_kit(many, kit, nothing_wrong)
    for name in many:
        (kit / name).write_bytes(b"edited")
    with pytest.raises(UsageError, match=r"09\.md and 20 more were .*--dataset") as refused:
        write_kit(many, kit, nothing_wrong)
    assert "10.md" not in str(refused.value)


def test_a_kit_that_is_wrong_is_not_written(tmp_path: Path) -> None:
    def wrong(draft: Path) -> None:
        raise UsageError("the documents changed")

    with pytest.raises(UsageError, match="changed"):
        write_kit(FIRST, tmp_path / "kit", wrong)
    assert list(tmp_path.iterdir()) == []


def test_after_an_error_in_the_middle_the_earlier_kit_is_there(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    write_kit(FIRST, kit, nothing_wrong)
    (kit / "own").write_text("a file of somebody's, where a folder is needed")
    before = files(kit)
    with pytest.raises(OSError, match="own"):
        write_kit({**SECOND, "own/rule.py": b"new"}, kit, nothing_wrong)
    assert files(kit) == before
    assert [path.name for path in tmp_path.iterdir()] == ["kit"]


@pytest.mark.parametrize("listed", ["{}", "[]", "no JSON", '{"files": 3}'])
def test_a_list_that_is_none_is_refused(tmp_path: Path, listed: str) -> None:
    kit = tmp_path / "kit"
    kit.mkdir()
    (kit / "kit.json").write_text(listed)
    with pytest.raises(UsageError, match="does not list"):
        write_kit(FIRST, kit, nothing_wrong)
    assert files(kit) == {"kit.json": listed.encode()}


def test_a_list_leads_nowhere_else(tmp_path: Path) -> None:
    kit, mine = tmp_path / "kit", tmp_path / "mine.txt"
    kit.mkdir()
    mine.write_text("mine")
    (kit / "kit.json").write_text(f'{{"files": {{"../mine.txt": "0", "{mine}": "0"}}}}')
    write_kit(FIRST, kit, nothing_wrong)
    assert mine.read_text() == "mine"
