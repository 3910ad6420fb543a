"""Files are written whole or not at all."""

import os

import pytest

from ragsmith.errors import Notice, UsageError
from ragsmith.text.writing import write_file


def test_a_file_is_written_with_its_folder_and_its_line_ends(tmp_path):
    written = write_file("one\ntwo\r\n", tmp_path / "new" / "a.txt")
    assert written.read_bytes() == b"one\ntwo\r\n"
    assert [path.name for path in written.parent.iterdir()] == ["a.txt"]


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_file("good until here \ud800", path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"/file is a file, so that nothing can be written in it"):
        write_file("text", tmp_path / "file" / "a.txt")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageError, match="is a folder: name a file in it"):
        write_file("text", tmp_path)


def test_something_else_that_is_replaced_is_told(tmp_path, recwarn):
    path = tmp_path / "a.txt"
    write_file("one", path, warn=True)
    write_file("one", path, warn=True)
    assert not recwarn.list
    with pytest.warns(Notice, match=r"a\.txt replaced a file with different content"):
        write_file("two", path, warn=True)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions of Unix")
def test_a_file_keeps_its_permissions(tmp_path):
    path = write_file("one", tmp_path / "a.txt")
    path.chmod(0o640)
    write_file("two", path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two", 0o640)
