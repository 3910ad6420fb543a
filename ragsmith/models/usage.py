"""What model calls cost: usages, and meters that add them up."""

from __future__ import annotations

from dataclasses import dataclass

FEWEST_CHARACTERS_A_TOKEN = 3
"""For bounds, of text in ASCII: tokenisers seldom need more tokens, so what is cut or reserved by this is enough."""
AVERAGE_CHARACTERS_A_TOKEN = 4
"""For estimates: what English prose has on average, by the rule of thumb of OpenAI's documentation of its tokeniser."""


def tokens_at_most(text: str) -> int:
    """An estimate of the tokens of ``text`` that is seldom too low: three for two characters outside ASCII."""
    other = sum(character > "\x7f" for character in text)
    return (len(text) - other) // FEWEST_CHARACTERS_A_TOKEN + 3 * other // 2 + 1


@dataclass(frozen=True, slots=True)
class Usage:
    """What something cost. ``seconds`` is how long models elsewhere were waited for, when the calls were made.

    ``cut`` counts the replies that reached their limit on tokens and were used all the same.
    """

    calls: int = 0
    texts_embedded: int = 0
    pairs_scored: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cut: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.texts_embedded + other.texts_embedded,
            self.pairs_scored + other.pairs_scored,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.seconds + other.seconds,
            self.cut + other.cut,
        )

    def shares(self, n: int) -> list[Usage]:
        """Split evenly over ``n``; what does not divide goes to the first."""
        whole = (self.calls, self.texts_embedded, self.pairs_scored, self.input_tokens, self.output_tokens)
        calls, texts, pairs, read, written = (value // n for value in whole)
        each = Usage(calls, texts, pairs, read, written, self.seconds / n)
        calls, texts, pairs, read, written = (value % n for value in whole)
        return [each + Usage(calls, texts, pairs, read, written), *[each] * (n - 1)]


NOTHING = Usage()
ONE_CALL = Usage(calls=1)


class Meter:
    """Adds up usages, of which there are too many to make a new value for each sum."""

    __slots__ = ("calls", "cut", "input_tokens", "output_tokens", "pairs_scored", "seconds", "texts_embedded")

    def __init__(self) -> None:
        self.calls = self.texts_embedded = self.pairs_scored = self.input_tokens = self.output_tokens = 0
        self.seconds = 0.0
        self.cut = 0

    def add(self, usage: Usage) -> None:
        """Count ``usage`` in."""
        self.calls += usage.calls
        self.texts_embedded += usage.texts_embedded
        self.pairs_scored += usage.pairs_scored
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.seconds += usage.seconds
        self.cut += usage.cut

    def total(self) -> Usage:
        """The sum so far."""
        if not (self.calls or self.texts_embedded or self.pairs_scored):
            return NOTHING
        return Usage(
            self.calls,
            self.texts_embedded,
            self.pairs_scored,
            self.input_tokens,
            self.output_tokens,
            self.seconds,
            self.cut,
        )
