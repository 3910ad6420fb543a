"""Texts that end in a loop: a piece that is repeated up to the end, as models write at temperature 0."""

import re

TAIL = 4000
"""Characters at the end of a text that are searched for a loop."""
MIN_REPETITIONS = 4
"""Minimum number of repetitions of a piece: lists and tables repeat the beginning of a line, but no whole lines."""
MIN_LOOP = 240
"""Minimum number of characters of a loop, which is more than a rule of a table or a row of dots."""
MIN_LETTERS = 16
"""Minimum number of letters of a piece whose numbers are equal: a short sentence, but no row of a table of numbers."""
MIN_BLANKS = 120
"""Minimum number of blanks and line breaks of a loop: grammars of JSON allow any number between two tokens, and small
models under one may write nothing else. The indentation of JSON and the padding of cells of a table are shorter."""
_NUMBER = re.compile(r"\d+")


def ends_in_loop(text: str) -> bool:
    """Whether ``text`` ends with `MIN_REPETITIONS` equal pieces of `MIN_LOOP` characters in total, or more.

    The last piece may be truncated. Numbers in pieces of `MIN_LETTERS` letters or more are equal, as a loop may count.
    `MIN_BLANKS` of white space at the end are a loop, whatever their pattern, and fewer are ignored.

    >>> ends_in_loop("The ferry sails at noon. " * 20 + "The fer"), ends_in_loop("The ferry sails at noon.")
    (True, False)
    """
    return (
        len(text) - len(text.rstrip()) >= MIN_BLANKS
        or bool(_find_piece(text))
        or sum(map(str.isalpha, _find_piece(_NUMBER.sub("0", text)))) >= MIN_LETTERS
    )


def _find_piece(text: str) -> str:
    """Return the reversed piece that ``text`` repeats up to its end, or an empty text.

    It is found by the prefix function of the reversed text (Knuth, Morris and Pratt 1977), which gives the period of
    each of its prefixes.
    """
    end = text[-TAIL:][::-1].strip()
    borders = [0] * len(end)
    border = 0
    for i in range(1, len(end)):
        while border and end[i] != end[border]:
            border = borders[border - 1]
        border += end[i] == end[border]
        borders[i] = border
        if i + 1 >= MIN_LOOP and MIN_REPETITIONS * (i + 1 - border) <= i + 1:
            return end[: i + 1 - border]
    return ""
