"""Text in a form for comparison: stems of content words, values of numbers, and positions of denials."""

import re
from collections import Counter

from ragsmith.caches import bounded_cache
from ragsmith.text.languages import stem
from ragsmith.text.words import STOP_WORDS

_BELOW_TWENTY = """
    one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen
    """
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: n for n, word in enumerate(_BELOW_TWENTY.split(), start=1)} | {
    word: 10 * n for n, word in enumerate(_TENS.split(), start=2)
}
_LARGE = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_FRACTIONS = frozenset(("half", "third", "thirds", "quarter", "quarters", "twice"))
_FROM_FOURTH = "fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_NUMBER_WORDS = {word: str(n) for n, word in enumerate(_FROM_FOURTH.split(), start=4)} | {
    word: word for word in _FRACTIONS
}
"""Words that always denote a number; "first" and "second" are also ordinary words."""

_DENIALS = frozenset(
    ("no", "not", "never", "neither", "none", "nobody", "nothing", "nowhere", "cannot", "without", "unless")
)
_DENIAL_PHRASE = re.compile(
    r"\b(?=[fduner])(?:fail(?:s|ed|ing)? to|refus(?:e|es|ed|ing) to|declin(?:e|es|ed|ing) to|unable to|unwilling to"
    r"|refrain(?:s|ed|ing)? from|except(?= (?:if|when|where|that)\b)|nor(?<=[.!?;:\n] nor))\b"
)
"""Denials of several words, or only at the beginning of a sentence, in lower case."""

_TOKEN = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?!\w)|\w+|[.!?;:\n]+")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_INTEGRAL = re.compile(r"(\d+)\.0+")
_WORD = re.compile(r"\w")
_VERDICT = re.compile(r"\W*(?:(yes)|no|not yet)\b(?!\s+\w)")

END = "."
"""Marks the boundary of a sentence or clause."""

NUMBER = "#"
"""Replaces any number."""


class ContentWords:
    """The content words of a text.

    ``items`` are stems and values of numbers in order, with `END` at both ends and between sentences; ``shapes`` are
    the same with `NUMBER` for each number that is not a code. ``numbers`` and ``denied`` are ascending positions in
    ``items``; a denial precedes its position, and positions may repeat. ``counts`` has the frequency of each item
    except `END`. ``verdict`` is a separate "yes" or "no" at the beginning of the text, or "".
    """

    def __init__(self, text: str) -> None:
        text = text.lower()
        opening = _VERDICT.match(text)
        self.verdict = "" if not opening else "yes" if opening[1] else "no"
        self.items, self.shapes = [END], [END]
        self.numbers: list[int] = []
        self.denied: list[int] = []
        if opening:
            self._add("word", self.verdict)
        written: list[str] = []  # words of the current number
        for token in _TOKEN.findall(_normalise_denials(text[opening.end() :] if opening else text)):
            kind, value = _classify_token(token)
            if kind == "written" or (token == "and" and written and written[-1] in _LARGE):
                written.append(token)
                continue
            if written:
                self._add_written(written)
                written = []
            if kind:
                self._add(kind, value)
        self._add_written(written)
        self._add("end", END)
        self.counts = Counter(self.items)
        del self.counts[END]
        self.values = frozenset([self.items[at] for at in self.numbers])

    def _add(self, kind: str, value: str) -> None:
        """Append an item of a kind, or the position of a denial."""
        if kind == "denial":
            self.denied.append(len(self.items))
        elif value != END or self.items[-1] != END or len(self.items) in self.denied:
            if kind in {"number", "code"}:
                self.numbers.append(len(self.items))
            self.items.append(value)
            self.shapes.append(NUMBER if kind == "number" else value)

    def _add_written(self, words: list[str]) -> None:
        """Add the value of ``one hundred and thirty one``; consecutive numbers are added separately."""
        total = part = 0
        least = 1 << 30  # the next part must be smaller to belong to the same number
        for word in words:
            if word in _LARGE:
                part = max(part, 1) * _LARGE[word]
                if _LARGE[word] > 100:
                    total, part = total + part, 0
                least = _LARGE[word]
            elif word in _SMALL:
                if _SMALL[word] >= least:
                    self._add("number", str(total + part))
                    total = part = 0
                part += _SMALL[word]
                least = 10 if _SMALL[word] >= 20 else 1
        if words:
            self._add("number", str(total + part))


@bounded_cache(1 << 13, key="a text")
def analyse(text: str) -> ContentWords:
    """Return the content words of a text; equal texts share one immutable result.

    A number is written in digits or in English words ("1,200", "forty-one", "fourth"), or is a code with a digit
    ("E14"); thousands separators and decimals that are all 0 are ignored. Denials are words such as "not", "n't" and
    "without", and phrases such as "fails to" and "unable to"; words that deny by their meaning ("forbidden") are not
    recognised.
    """
    return ContentWords(text)


def find_numbers(text: str) -> frozenset[str]:
    """Return the values of the numbers in a text."""
    return analyse(text).values


def denies(text: str) -> bool:
    """Whether a text has a denial."""
    content = analyse(text)
    return bool(content.denied) or content.verdict == "no"


def word_coverage(question: str, wanted: str, *texts: str) -> float:
    """Return the share of the distinct content words and numbers of ``wanted`` in any of ``texts``.

    Those of the question are ignored, unless there are no others, as every text on the topic has them.
    """
    items = _content_items(wanted) - _content_items(question) or _content_items(wanted)
    return len(items & frozenset().union(*map(_content_items, texts))) / len(items) if items else 0.0


@bounded_cache(1 << 12, key="a text")
def _content_items(text: str) -> frozenset[str]:
    return frozenset(ContentWords(text).counts)


def _normalise_denials(text: str) -> str:
    """Replace other forms of denial by "not"."""
    if "n't" in (text := text.replace("’", "'")):
        text = text.replace("can't", "cannot").replace("won't", "not").replace("shan't", "not").replace("n't", " not")
    return _DENIAL_PHRASE.sub("not", text)


@bounded_cache(1 << 15, key="a token")
def _classify_token(token: str) -> tuple[str, str]:
    """Return the kind and value of a token; the kind of function words is ""."""
    if token in _SMALL or token in _LARGE:
        return "written", ""
    if token in _NUMBER_WORDS:
        return "number", _NUMBER_WORDS[token]
    if token in _DENIALS or token in STOP_WORDS:
        return "denial" if token in _DENIALS else "", ""
    if any(map(str.isdecimal, token)):
        digits = token.replace(",", "")
        match = _ORDINAL.fullmatch(digits) or _INTEGRAL.fullmatch(digits)
        digits = match[1] if match else digits
        return "number" if digits.replace(".", "").isdecimal() else "code", digits
    return ("word", stem(token)) if _WORD.match(token) else ("end", END)
