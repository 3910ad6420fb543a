"""Splitting of text into words in any writing system, and detection of scripts.

Words are runs of letters, digits and their marks, such as vowel signs. In scripts without spaces between words, a run
is split into overlapping pairs of characters (as by Lucene's CJKAnalyzer; Nie et al. 2000 found pairs as good as a
dictionary for searching Chinese); in Thai and similar scripts a character includes its vowel signs and tones.
"""

import re
import unicodedata
from collections import Counter
from functools import cache
from itertools import pairwise

_MARK_RANGES = (
    (0x0300, 0x1D00),
    (0x1DC0, 0x1E00),
    (0x302A, 0x3030),
    (0x3099, 0x309B),
    (0xA66F, 0xAC00),
    (0x11000, 0x11800),
)
"""Ranges of the marks of scripts in use, without symbols and variation selectors."""

_MARKS = "".join(
    chr(code) for start, end in _MARK_RANGES for code in range(start, end) if unicodedata.category(chr(code))[0] == "M"
)
_RUN = re.compile(rf"[^\W_](?:[^\W_]|[{_MARKS}])*")

_PAIRED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u309f\u30a1-\u30ff\u3100-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"  # Han, Kana, Bopomofo, Hangul
)
_UNSPACED = "\u0e01-\u0e4e\u0e80-\u0ece\u1000-\u103f\u1050-\u108f\u1780-\u17d3"  # Thai, Lao, Burmese, Khmer
_STRETCH = re.compile(rf"[{_PAIRED}{_MARKS}]+|[{_UNSPACED}{_MARKS}]+|[^{_PAIRED}{_UNSPACED}]+")
_WITHOUT_BLANKS = re.compile(f"[{_PAIRED}{_UNSPACED}]")
_CHARACTER = re.compile(rf".[{_MARKS}]*", re.DOTALL)

_POINTS = "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670\u0640\u06d6-\u06dc]"
_IGNORED = re.compile(f"[\u00ad\u200c\u200d\u2060\ufeff]|{_POINTS}")
"""Soft hyphens, joiners, Hebrew and Arabic vowel points, and the Arabic tatweel."""
_SUFFIX_JOINER = re.compile("(?<=[\u0621-\u06d3])\u200c")
"""The joiner that separates a suffix from its word in Persian."""

_ZEROS = "٠۰߀०০੦૦୦௦౦೦൦๐໐༠၀០᠐０"
_DIGITS = {ord(zero) + n: str(n) for zero in _ZEROS for n in range(10)}
_WIDE = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFF01, 0xFFA0)}
_REPLACEMENTS = _WIDE | _DIGITS

_SCRIPTS = (
    ("latin", "A-Za-zª-ɏḀ-ỿ"),
    ("greek", "Ͱ-Ͽἀ-῿"),
    ("cyrillic", "Ѐ-ԯ"),
    ("armenian", "Ա-֏"),
    ("hebrew", "א-ת"),
    ("arabic", "ء-ۿݐ-ݿ"),
    ("devanagari", "ऀ-ॿ"),
    ("bengali", "ঀ-৿"),
    ("gurmukhi", "਀-੿"),
    ("gujarati", "઀-૿"),
    ("odia", "଀-୿"),
    ("tamil", "஀-௿"),
    ("telugu", "ఀ-౿"),
    ("kannada", "ಀ-೿"),
    ("malayalam", "ഀ-ൿ"),
    ("sinhala", "඀-෿"),
    ("thai", "ก-๎"),
    ("lao", "຀-໎"),
    ("tibetan", "ༀ-࿿"),
    ("burmese", "က-႟"),
    ("georgian", "Ⴀ-ჿ"),
    ("hangul", "가-힯ᄀ-ᇿ"),
    ("ethiopic", "ሀ-፿"),
    ("khmer", "ក-៓"),
    ("kana", "ぁ-ゟァ-ヿ"),
    ("han", "㐀-䶿一-鿿"),
)
_SCRIPT = re.compile("|".join(f"(?P<{name}>[{letters}])" for name, letters in _SCRIPTS))


def split_words(text: str) -> list[str]:
    """Return the words of ``text`` in order, in normalised form but with capitals.

    Normalisation is NFC, with digits of all scripts and fullwidth letters as ASCII, and without optional marks: Arabic
    and Hebrew vowel points, tatweel, joiners and soft hyphens. ``_`` separates words.
    """
    split: list[str] = []
    for run in _RUN.findall(_normalise(text)):
        if _WITHOUT_BLANKS.search(run):
            for stretch in _STRETCH.findall(run):
                split += _split_pairs(stretch) if _WITHOUT_BLANKS.match(stretch) else [stretch]
        else:
            split.append(run)
    return split


def count_scripts(text: str) -> Counter[str]:
    """Return the number of letters of ``text`` by script, whose names are in lower case; other characters are not
    counted.
    """
    counts: Counter[str] = Counter()
    for character, times in Counter(text).items():
        if script := _get_script(character):
            counts[script] += times
    return counts


def normalise_nfc(text: str) -> str:
    """Return ``text`` in NFC, where letters and their accents are one character if possible."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _normalise(text: str) -> str:
    return (
        text
        if text.isascii()
        else _IGNORED.sub("", _SUFFIX_JOINER.sub(" ", normalise_nfc(text.translate(_REPLACEMENTS))))
    )


def _split_pairs(stretch: str) -> list[str]:
    characters = _CHARACTER.findall(stretch)
    if len(characters) == 1:
        return characters
    return [one + other for one, other in pairwise(characters)]


@cache
def _get_script(character: str) -> str:
    found = _SCRIPT.match(character)
    return (found and found.lastgroup) or ""
