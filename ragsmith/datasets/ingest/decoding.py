"""Decode files to text: detect the encoding, normalise line ends and drop control characters."""

import codecs
import re
from importlib.util import find_spec
from pathlib import Path

from ragsmith.errors import MissingExtra, warn_caller
from ragsmith.text.files import FORBIDDEN, TextError, read_bytes

LATIN_ENCODINGS = ("cp1252", "iso8859_15", "cp1250", "cp1254", "cp1257", "latin_1")
OTHER_ENCODINGS = (
    "cp1251",
    "koi8_r",
    "cp1253",
    "cp1255",
    "cp1256",
    "shift_jis",
    "euc_jp",
    "gb18030",
    "big5",
    "euc_kr",
    "cp874",
)
"""Candidate encodings of texts that have no byte order mark and are not UTF-8."""

MAX_CONTROL_SHARE = 0.01
"""Maximum share of control characters in a text; data with a larger share is binary."""

SAMPLED_BYTES = 64 * 1024
"""Number of bytes from which UTF-16 is detected."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_COLOURS = re.compile("\x1b\\[[0-9;]*[A-Za-z]")
_NOT_WESTERN = re.compile("[ÐðÞþÝý]|[^\\W\\d_][¿¡¹²³¼½¾ªº¶¬¤¦][^\\W\\d_]")
_LINE_END = re.compile("\r\n|\r")
_JSON_ESCAPE = re.compile(r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u([0-9a-fA-F]{4})")
"""An escaped backslash, a pair of surrogates, or another character, whose code is the group."""


def read_any_text(path: Path, *, limit: int, links: bool = False) -> str:
    """Return the text of a file in any encoding, without control characters, also those that are escaped in JSON.

    What was guessed or removed is said by a `Notice`. The arguments are those of `read_text`. Raises ``TextError``.
    """
    text, notes = decode_text(read_bytes(path, limit=limit, links=links))
    if path.suffix.lower() in (".json", ".jsonl"):
        cleaned = _JSON_ESCAPE.sub(
            lambda match: "" if match[1] and FORBIDDEN.match(chr(int(match[1], 16))) else match[0], text
        )
        if lost := (len(text) - len(cleaned)) // len("\\u0000"):
            text, notes = cleaned, (*notes, _describe_removed(lost))
    for note in notes:
        warn_caller(f"{path.name}: {note}")
    return text


def _describe_removed(count: int) -> str:
    return "1 control character was removed" if count == 1 else f"{count} control characters were removed"


def decode_text(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the text of ``data``, and notes on detected encodings and removed characters.

    Raises ``TextError`` for binary data.
    """
    text, encoding = _decode(data)
    notes = [] if encoding == "utf-8" else [f"was decoded from {encoding}"]
    text = _LINE_END.sub("\n", text)
    cleaned = FORBIDDEN.sub("", _COLOURS.sub("", text)).replace("\ufeff", "")
    if lost := len(text) - len(cleaned):
        if lost > MAX_CONTROL_SHARE * len(text) and len(FORBIDDEN.findall(text)) > MAX_CONTROL_SHARE * len(text) + 1:
            raise TextError("is binary data, not text; convert it or remove the file")
        notes.append(_describe_removed(lost))
    return cleaned, tuple(notes)


def _decode(data: bytes) -> tuple[str, str]:
    """Return the text of ``data`` and the name of its encoding."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding), encoding
            except UnicodeDecodeError:
                raise TextError(f"begins as {encoding.upper()}, but is not valid; save it as UTF-8") from None
    if wide := _detect_utf16(data[:SAMPLED_BYTES]):
        try:
            return data.decode(wide), wide
        except UnicodeDecodeError:
            raise TextError("is binary data, not text; convert it or remove the file") from None
    if b"\0" in data:
        raise TextError("is binary data, not text; convert it or remove the file")
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return _decode_guessed(data)


def _detect_utf16(data: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark: in European scripts every second byte is zero."""
    if len(data) < 4 or (len(data) % 2 and len(data) != SAMPLED_BYTES):
        return None
    even, odd = data[::2].count(0) / (len(data) / 2), data[1::2].count(0) / (len(data) / 2)
    if odd > 0.4 and even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if even > 0.4 and odd < 0.05 else None


def _decode_guessed(data: bytes) -> tuple[str, str]:
    """Return the text of ``data`` and the encoding that charset-normalizer detects."""
    if find_spec("charset_normalizer") is None:
        raise MissingExtra("charset-normalizer, which detects encodings other than UTF-8,", "documents")
    from charset_normalizer import from_bytes  # noqa: PLC0415

    best = from_bytes(data[: 16 * SAMPLED_BYTES], cp_isolation=[*LATIN_ENCODINGS, *OTHER_ENCODINGS]).best()
    if best is None:
        raise TextError("is binary data or text in an unknown encoding; save it as UTF-8")
    encoding = "cp1252" if best.encoding in LATIN_ENCODINGS and _is_western(data) else best.encoding
    try:
        return data.decode(encoding), f"{encoding} (guessed)"
    except UnicodeDecodeError:
        raise TextError("is binary data or text in an unknown encoding; save it as UTF-8") from None


def _is_western(data: bytes) -> bool:
    """Whether decoding as Windows-1252 gives plausible Western European words.

    Short texts are valid in all Latin encodings, of which this is by far the most frequent.
    """
    try:
        return not _NOT_WESTERN.search(data.decode("cp1252"))
    except UnicodeDecodeError:
        return False
