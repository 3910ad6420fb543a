"""Normalise case, typography, punctuation and line breaks of texts, with offsets into the source.

Folding decomposes compatibility forms (NFKD), so that composed and decomposed letters, ligatures and full-width digits
are equal; drops invisible characters (soft hyphens, zero-width marks); and turns runs of white space, punctuation and
currency signs into one space. Decimal points, commas within numbers and minus signs are preserved.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from ragsmith.caches import bounded_cache

_DASHES = frozenset("-‐‑‒–—―−﹣－")
_UNSPACED_RANGES = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF)),  # Thai and Lao, Burmese, Khmer
    *((0x2E80, 0x2FDF), (0x3040, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3134F)),  # Han and kana
)
"""Ranges of code points of scripts without spaces between words, with both ends."""


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A folded text; ``starts[i]`` is the offset in the source of its character ``i``."""

    text: str
    starts: tuple[int, ...]

    def find(self, query: str) -> Iterator[tuple[int, int]]:
        """Yield the source offsets ``(start, end)`` of occurrences of the folded text ``query`` at word boundaries."""
        at = self.text.find(query) if query else -1
        while at >= 0:
            after = at + len(query)
            if not _is_inside_word(self.text[at - 1 : at + 1]) and not _is_inside_word(
                self.text[after - 1 : after + 1]
            ):
                yield self.starts[at], self.starts[after - 1] + 1
            at = self.text.find(query, at + 1)

    def words(self) -> tuple[tuple[str, int, int], ...]:
        """Return the words with their offsets in the source; in scripts without spaces each character is a word."""
        words: list[tuple[str, int, int]] = []
        for at, character in enumerate(self.text):
            if character == " ":
                continue
            start, end = self.starts[at], self.starts[at] + 1
            if at and self.text[at - 1] != " " and not (is_unspaced(character) or is_unspaced(self.text[at - 1])):
                word, first, _ = words.pop()
                words.append((word + character, first, end))
            else:
                words.append((character, start, end))
        return tuple(words)


def fold(text: str) -> FoldedText:
    """Return ``text`` folded."""
    letters: list[str] = []
    starts: list[int] = []
    for at, character in enumerate(text):
        folded = _fold_character(character)
        if folded == " " and _is_in_number(text[at - 1 : at] if at else "", character, text[at + 1 : at + 2]):
            folded = "-" if character in _DASHES else character
        for letter in folded:
            if letter == " " and (not letters or letters[-1] == " "):
                continue
            letters.append(letter)
            starts.append(at)
    if letters and letters[-1] == " ":
        del letters[-1], starts[-1]
    return FoldedText("".join(letters), tuple(starts))


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script without spaces between words."""
    code = ord(character)
    return code >= _UNSPACED_RANGES[0][0] and any(first <= code <= last for first, last in _UNSPACED_RANGES)


@bounded_cache(1 << 14, key="a character")
def _fold_character(character: str) -> str:
    """Return the folded form of a character: letters and digits, one space, or nothing."""
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    if category[0] in "PZC" or category == "Sc" or character.isspace() or character in "`|~^<>=":
        return " "
    folded = "".join(" " if part.isspace() else part for part in unicodedata.normalize("NFKD", character).casefold())
    return unicodedata.normalize("NFKD", folded)


def _is_in_number(before: str, character: str, after: str) -> bool:
    """Whether a point or comma is between digits, or a dash is a minus sign."""
    if not after.isdecimal():
        return False
    return before.isdecimal() if character in ".," else character in _DASHES and (not before or before in " \t\n(|$€£")


def _is_inside_word(pair: str) -> bool:
    """Whether two adjacent characters belong to one word or number."""
    if len(pair) < 2 or " " in pair or is_unspaced(pair[0]) or is_unspaced(pair[1]):
        return False
    return pair[0].isalnum() == pair[1].isalnum() or bool({*pair} & set(".,")) or unicodedata.combining(pair[1]) > 0
