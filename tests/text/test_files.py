"""Text files are read exactly, or refused with a reason and a line."""

import os

import pytest

from ragsmith.errors import DatasetError
from ragsmith.text.files import TextError, decode, parse_each, read_bytes, read_text, shorten


def test_line_ends_are_kept(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\rthree\n")
    assert read_text(path, limit=100) == "one\r\ntwo\rthree\n"


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"\xef\xbb\xbfa", 1, "starts with a byte order mark; save it as UTF-8 without BOM"),
        (b"a\nb\n\xe9t\xe9", 3, "byte 0xe9 at offset 4 is not UTF-8; save the file as UTF-8"),
        (b"a\n\x00", 2, "control character U+0000; remove it"),
        (b"a\n\n\x1b[31m", 3, "control character U+001B; remove it"),
        ("\x92".encode(), 1, "control character U+0092; remove it"),
        (b"\xed\xa0\x80", 1, "byte 0xed at offset 0 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_refuses_what_is_not_clean_text(data, line, reason):
    with pytest.raises(TextError) as refusal:
        decode(data)
    assert (refusal.value.line, refusal.value.reason) == (line, reason)


def test_tabs_form_feeds_and_unicode_line_ends_are_text():
    assert decode("a\tb\fc\x85d\u2028e".encode()) == "a\tb\fc\x85d\u2028e"


def test_the_limit_is_in_bytes_and_inclusive(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("éé".encode())
    assert read_text(path, limit=4) == "éé"
    with pytest.raises(TextError, match="larger than the limit of 3 bytes"):
        read_text(path, limit=3)


def test_links_are_followed_only_on_request(tmp_path):
    (tmp_path / "real.txt").write_text("a")
    link = tmp_path / "link.txt"
    link.symlink_to("real.txt")
    assert read_text(link, limit=9, links=True) == "a"
    with pytest.raises(TextError, match="is a symbolic link, which is not followed"):
        read_text(link, limit=9)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TextError, match="is not a regular file"):
        read_text(tmp_path / "pipe", limit=9)


def test_bytes_are_those_of_the_file_under_the_same_conditions(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(b"\xff\x00\r\n")
    assert read_bytes(path, limit=4) == b"\xff\x00\r\n"
    with pytest.raises(TextError, match="larger than the limit of 3 bytes"):
        read_bytes(path, limit=3)
    with pytest.raises(TextError, match="is missing"):
        read_bytes(tmp_path / "b.pdf", limit=4)


def test_values_are_shown_on_one_short_line():
    assert shorten("a\nb") == r"'a\nb'"
    assert len(shorten("x" * 1000)) == 60


def test_all_mistakes_of_several_texts_are_listed_by_name() -> None:
    assert parse_each(["a", "b"], lambda name: decode(name.encode()).upper(), name=str) == ["A", "B"]
    with pytest.raises(DatasetError) as refusal:
        parse_each([b"a", b"\xff", b"c", b"d\n\x00"], decode, name=lambda data: f"file {data[0]}")
    assert refusal.value.mistakes == (
        "file 255:1: byte 0xff at offset 0 is not UTF-8; save the file as UTF-8",
        "file 100:2: control character U+0000; remove it",
    )
