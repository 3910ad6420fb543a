"""Reflow the lines of a printed page to paragraphs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ragsmith.text.files import FORBIDDEN

FULL = 0.7
"""Share of the page's longest lines from which a line counts as wrapped."""

_LIGATURE = re.compile("[\ufb00-\ufb06]")
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = re.compile("\u00ad(?!\n|$)|[\u200b\ufeff]")
_ITEM = re.compile(r"(?:[-*+\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})[.)])\s+\S")
_HYPHEN = re.compile("(?<=[^\\W\\d_])[-\u00ad\u2010]$")
_FINAL = (".", "!", "?", ":", ".\u201d", '."', ".)", "\u3002")


def clean(text: str) -> str:
    """Return ``text`` with ligatures expanded, without control characters, with ``\\n`` as line end."""
    spelled = _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return _INVISIBLE.sub("", FORBIDDEN.sub("", _BREAK.sub("\n", spelled)))


def paragraphs(page: str) -> str:
    """Return the text of a page with one line for each paragraph and blank lines between them.

    A line continues in the next if it is about as long as the page's lines and its sentence does not end early, or if
    it ends with a hyphenated word. The hyphen is dropped before a lower-case letter, so a compound broken there loses
    its own. List items and short lines stay separate.
    """
    lines = [" ".join(line.split()) for line in clean(page).split("\n")]
    width = _width([line for line in lines if line])
    out: list[str] = []
    last = ""  # the last printed line of the current paragraph
    joined = False
    for line in lines:
        if not line:
            last = ""
            out.extend([""] if out and out[-1] else [])
        elif last and _goes_on(last, line, width):
            out[-1] = _join(out[-1], line)
            last, joined = line, True
        else:
            if last and not _ITEM.match(line) and (joined or (len(last) >= FULL * width and _ends(last))):
                out.append("")  # the end of a paragraph without a blank line
            out.append(line)
            last, joined = line, False
    return "\n".join(out).replace("\u00ad", "").strip()


def _width(lines: Sequence[str]) -> int:
    """Return the 90th percentile of line lengths, which is robust against a single long line."""
    lengths = sorted(map(len, lines), reverse=True)
    return lengths[len(lengths) // 10] if lengths else 0


def _goes_on(line: str, following: str, width: int) -> bool:
    if _HYPHEN.search(line) and following[0].isalpha():
        return True
    if len(line) < FULL * width or _ITEM.match(following):
        return False
    fits = (
        len(line) + 1 + len(following.split(" ", 1)[0]) <= width
    )  # the next word had room: the line break is intended
    return not (fits and _ends(line))


def _ends(line: str) -> bool:
    return line.endswith(_FINAL)


def _join(text: str, line: str) -> str:
    if not _HYPHEN.search(text):
        return f"{text} {line}"
    return f"{text[:-1]}{line}" if line[0].islower() or text.endswith("\u00ad") else f"{text}{line}"
