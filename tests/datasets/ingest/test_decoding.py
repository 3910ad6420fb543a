"""Texts are decoded from any encoding; binary data is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.text.files import TextError

SENTENCE = "The gate is shut at nine, and the keeper's lamp costs 3 crowns.\n"
LEGACY = (
    ("Das Gerät darf nicht über 60 °C erwärmt werden. Schließen Sie die Tür.", "cp1252"),
    ("Le délai est de trois mois à compter de la réception.", "latin-1"),
    ("naïve “quotes” – and a dash", "cp1252"),
    ("Zażółć gęślą jaźń, proszę. Pompa musi być napełniona.", "cp1250"),
    ("İstanbul'da yağmur yağıyor, şöyle güzel bir gün.", "cp1254"),
    ("Насос должен быть заполнен до первого пуска.", "cp1251"),
    ("ポンプは最初の運転前に満たす必要があります。", "shift_jis"),
    ("泵在首次启动前必须注满。", "gb18030"),
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_is_read_with_and_without_a_mark(encoding: str) -> None:
    text, notes = decode_text(SENTENCE.encode(encoding))
    assert text == SENTENCE
    assert bool(notes) == (not encoding.startswith("utf-8"))


@pytest.mark.parametrize(("sentence", "encoding"), LEGACY)
def test_older_encodings_are_guessed_and_that_is_said(sentence: str, encoding: str) -> None:
    pytest.importorskip("charset_normalizer", reason="needs the extra documents")
    text, notes = decode_text(sentence.encode(encoding))
    assert text == sentence
    assert "(guessed)" in notes[0]


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufeff")))
def test_any_text_in_utf_8_is_what_it_was(text: str) -> None:
    assert decode_text(text.encode()) == (text, ())


def test_line_ends_are_made_one_and_colours_of_a_terminal_are_left_out() -> None:
    log = b"".join(b"line %d is here and goes on for a while\r\n" % n for n in range(20)) + b"\x1b[31mred\x1b[0m\rend"
    text, notes = decode_text(log)
    assert text.endswith("while\nred\nend")
    assert "\r" not in text
    assert notes == ("9 control characters were left out",)


@pytest.mark.parametrize(
    "data", [bytes(range(256)), b"\0" * 40, b"abc\0def" * 9, b"\xff\xfe\0", b"\x01\x02\x03\x04text"]
)
def test_what_is_no_text_is_refused(data: bytes) -> None:
    pytest.importorskip("charset_normalizer", reason="needs the extra documents")
    with pytest.raises(TextError, match=r"binary data|begins as UTF-16-LE and is not"):
        decode_text(data)
