"""Words, index terms and sentences of a text, and the normal form of short answers."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import zip_longest

from ragsmith.caches import bounded_cache
from ragsmith.text.languages import ENGLISH, lower_case, stem, stop_words
from ragsmith.text.scripts import normalise_nfc, split_words


def _to_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = stop_words(ENGLISH)
r"""English function words, including question words and what ``\w+`` matches of contractions (``don``, ``t``)."""

_WORD = re.compile(r"[^\W_]+")
_CAMEL_CASE_BREAK = re.compile(r"[A-Z](?:(?<=[a-z0-9].)(?<!\bMc.)(?=[A-Za-z])|(?<=[A-Z].)(?=[a-z]{2}))")
"""A capital that begins a part of an identifier (``parse|HTTP|Header``); it comes first in the pattern for speed."""


def words(text: str, language: str = ENGLISH) -> list[str]:
    """Return the runs of letters and digits, lower-cased, in order; ``_`` separates words.

    In other languages than English, marks such as vowel signs belong to their letters, optional marks are removed, and
    scripts without spaces give pairs of characters: see `ragsmith.text.scripts.split_words`.
    """
    if language == ENGLISH:
        return _WORD.findall(normalise_nfc(text).lower())
    return [lower_case(run, language) for run in split_words(text)]


def content_words(text: str, language: str = ENGLISH) -> list[str]:
    """Return the distinct `words` that are not stop words, in order."""
    stops = stop_words(language)
    return [word for word in dict.fromkeys(words(text, language)) if word not in stops]


@bounded_cache(1 << 14, key="a text and its language")
def terms(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Return the index terms: words without stop words, stemmed (Snowball).

    An identifier with inner capitals (``parseHTTPHeader``) is indexed whole and by its parts, one with ``_`` by its
    parts. Names with ``Mc`` are not split.
    """
    if language == ENGLISH:
        return tuple([stem(word) for word in words(_append_parts(normalise_nfc(text))) if word not in STOP_WORDS])
    stops = stop_words(language)
    return tuple(
        [stem(word, language) for word in words(_append_parts(normalise_nfc(text)), language) if word not in stops]
    )


@bounded_cache(1 << 12, key="a text and languages")
def merge_terms(text: str, languages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the terms of a text in any of ``languages``, each with its maximum frequency over the languages."""
    counts: Counter[str] = Counter()
    for language in languages:
        counts |= Counter(terms(text, language))
    return tuple(counts.elements())


def tokeniser_for(languages: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """Return the tokeniser for a text, such as a question, in one of the languages of a corpus."""
    among = tuple(sorted(set(languages)))
    return terms if among in {(), (ENGLISH,)} else partial(merge_terms, languages=among)


def get_surface_forms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the surface form of each of ``terms(text, language)``, with its capitals."""
    text = _append_parts(normalise_nfc(text))
    if language != ENGLISH:
        stops = stop_words(language)
        return [run for run in split_words(text) if lower_case(run, language) not in stops]
    lowered = words(text)
    forms = _WORD.findall(text)
    if len(forms) != len(lowered):  # lower-casing splits words with the Turkish İ
        forms = lowered
    return [form for form, word in zip(forms, lowered, strict=True) if word not in STOP_WORDS]


def _append_parts(text: str) -> str:
    """Append the parts of each identifier to it, except parts of one letter."""
    return _WORD.sub(_expand_identifier, text) if _CAMEL_CASE_BREAK.search(text) else text


def _expand_identifier(match: re.Match[str]) -> str:
    identifier, parts = match[0], _CAMEL_CASE_BREAK.sub(r" \g<0>", match[0]).split()
    return identifier if len(parts) == 1 else " ".join([identifier, *(part for part in parts if len(part) > 1)])


_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise_answer(text: str) -> str:
    """Return the form in which SQuAD compares answers (Rajpurkar et al. 2016).

    It is in lower case, without ASCII punctuation and articles, with white space collapsed.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


# --- sentences -------------------------------------------------------------------------------------------------------

_TITLES = _to_set("adm capt cf col dr e.g eg gen gov hon i.e ie lt messrs mr mrs ms mt prof rep rev sen sgt v viz vs")
"""Abbreviations that never end a sentence."""

_NUMBERED = _to_set(
    """
    app apr arg art arts aug cl ch chap dec eq eqs ex feb fig figs jan jul jun l ln mar no nos nov oct p para paras pp
    pt ref refs reg s sec secs sep sept ser ss tab vol vols
    """
)
"""Abbreviations before a number or a label, which may also be words at the end of a sentence."""

_SOMETIMES_LAST = _to_set("al approx assn ave blvd bros ca co corp dept ed eds est inc jr ltd plc rd sr st univ")
"""Abbreviations that end a sentence only before a function word with a capital."""

_OPENERS = STOP_WORDS | {
    "according",
    "however",
    "later",
    "moreover",
    "nevertheless",
    "one",
    "two",
    "many",
    "several",
}
_DOTTED = re.compile(r"[A-Z]|(?:[A-Za-z]{1,2}\.)+[A-Za-z]{1,2}")  # an initial, or U.S, Ph.D, a.m
_ENUMERATOR = re.compile(r"(?:\d{1,3}\.)*\d{1,3}|[A-Za-z]|[ivxIVX]{1,5}")
_ROMAN = re.compile(r"[IVXLCDM]+")

# Possessive matches from the first character of a run keep the time linear.
_END = re.compile(
    r"(?<![.!?…؟।])[.!?…؟।]++[\"'”’»)\]]*+(?:\[\d{1,3}\])*+(?=\s)"  # with quotes, brackets, footnote marks
    r"|(?<![。！？])[。！？]++[\"”’」』）]*+"
)
_OPENING = re.compile(r"[\s\"'“‘«‹(\[¿¡*_]*+")
_SPACE = re.compile(r"\s*+")

_BREAK = re.compile(r"[\n\r\f\u2028\u2029]\s*+")
_WIKI_HEADING = re.compile(r"(?<!\S)(={2,6}) [^=\n]{1,120} \1(?!\S)")
_ITEM = re.compile(r"[-*+•‣◦▪–—>]\s|#|={2}|\(\w{1,4}\)\s|\d{1,3}[.)]\s|[a-z][.)]\s|[A-Z]\)\s")
_CELL = re.compile(r"[|\t]")
_RECORD = re.compile(r"[^\s:;][^:;\n]{0,60}: [^;\n]*;")  # a table row in text form: column: value; column: ...
_PROSE_WIDTH = 40
"""Minimum number of characters of a wrapped line; a shorter one is a heading, a verse or a list entry."""


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the offsets ``[start, end)`` of the sentences of ``text``, in order and without surrounding white space.

    Every visible character belongs to exactly one sentence. Headings, list items and table rows are separate sentences;
    line breaks within wrapped prose do not end a sentence, nor do full stops of abbreviations, initials and numbering.
    """
    return list(_sentences(text))


@bounded_cache(1 << 13, key="a text")
def _sentences(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((start + a, start + b) for start, end in _split_blocks(text) for a, b in _split_block(text[start:end]))


def _split_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield blocks, separated at headings and at line breaks other than wrapping; offsets may include white space."""
    start = 0
    if "== " in text:
        for heading in _WIKI_HEADING.finditer(text):
            yield from _split_lines(text, start, heading.start())
            yield heading.span()
            start = heading.end()
    yield from _split_lines(text, start, len(text))


def _split_lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the blocks between ``start`` and ``end``, joining wrapped lines."""
    line_start = start
    gaps = list(_BREAK.finditer(text, start, end))
    for gap, following in zip_longest(gaps, gaps[1:]):
        next_end = following.start() if following else end
        if not _wraps(text[line_start : gap.start()].rstrip(), gap.group(), text[gap.end() : next_end]):
            yield start, gap.start()
            start = gap.end()
        line_start = gap.end()
    yield start, end


def _wraps(line: str, gap: str, following: str) -> bool:
    """Whether the break between two lines only wraps prose."""
    if len(line) < _PROSE_WIDTH or gap.replace("\r\n", "\n").rstrip(" \t") not in {"\n", "\r"}:
        return False
    if _CELL.search(line) or _CELL.search(following) or _ITEM.match(following):
        return False
    if _RECORD.match(line) and _RECORD.match(following):
        return False
    return following[:1].islower() or line[-1].isalpha() or line[-1] in ",.?!"


@bounded_cache(1 << 15, key="a block of text")  # blocks are repeated in texts that are joined from them
def _split_block(block: str) -> tuple[tuple[int, int], ...]:
    """Return the sentences of one block."""
    found = []
    end = len(block)
    start = _skip_pattern(_SPACE, block, 0, end)
    for mark in _END.finditer(block, start):
        if _ends_sentence(block, start, mark, end):
            found.append((start, mark.end()))
            start = _skip_pattern(_SPACE, block, mark.end(), end)
    if start < end:
        found.append((start, start + len(block[start:].rstrip())))
    return tuple(found)


def _skip_pattern(pattern: re.Pattern[str], text: str, start: int, end: int) -> int:
    match = pattern.match(text, start, end)
    return match.end() if match else start


def _ends_sentence(text: str, start: int, mark: re.Match[str], end: int) -> bool:
    """Whether a terminator ends a sentence, by the token before it and the word after it."""
    stop = mark.start()
    opening = _skip_pattern(_OPENING, text, mark.end(), end)
    after = text[opening : max(opening + 1, _skip_pattern(_WORD, text, opening, end))]  # a word, or one symbol
    if text[stop] in "。！？" or (stop > start and text[stop - 1].isspace() and after != "."):
        return True  # tokenised text has a space before full stops and may have no capitals
    if after[:1].islower():
        return False
    if text[stop] != "." or text[stop + 1 : stop + 2] in {".", "!", "?"}:
        return True
    tokens = text[max(start, stop - 24) : stop].split()
    return not tokens or not _is_abbreviation(tokens[-1], after, first=stop - len(tokens[-1]) == start)


def _is_abbreviation(token: str, after: str, *, first: bool) -> bool:
    """Whether a full stop belongs to ``token`` before ``after``; ``first`` if the token begins its sentence."""
    token = token.lstrip("\"'“‘«([")
    key = token.lower()
    if key in _TITLES or (first and _ENUMERATOR.fullmatch(token)):
        return True
    if key in _NUMBERED:
        label = key != "no" and ((len(after) == 1 and after.isupper()) or _ROMAN.fullmatch(after))
        return after[:1].isdigit() or after[:1] in {"§", "#"} or bool(label)
    return (key in _SOMETIMES_LAST or bool(_DOTTED.fullmatch(token))) and after.lower() not in _OPENERS
