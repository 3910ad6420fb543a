"""Loops at the end of replies, and what repeats itself without being one."""

from __future__ import annotations

import pytest

from ragsmith.text.repetition import ends_in_loop

SENTENCE = "The ferry to Marrow sails at noon on every day but Sunday. "


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE * 5,
        "It begins well. " + SENTENCE * 9 + SENTENCE[:20],
        "".join(f"{n}. The ferry sails at noon.\n" for n in range(1, 90)),
        "and so on " * 40,
        "Paris, London, " * 30,
        "12: yes\n" * 40,
        "| 1990 | 5970 |\n" * 20,
        '{"score":' + "\n" * 2000,
        '{"score":' + "".join("\n" + " " * (n % 7) for n in range(60)),
        "\n" * 300,
    ],
)
def test_a_piece_that_is_repeated_to_the_end_is_a_loop(text: str) -> None:
    assert ends_in_loop(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        SENTENCE,
        SENTENCE * 3,
        SENTENCE * 9 + "It ends, however, in another way, as the text goes on with something that was not said.",
        "| island | ferry |\n|" + "-" * 80 + "|",
        "".join(f"- The ferry to {name} sails at noon.\n" for name in ("Marrow", "Harrow", "Barrow", "Yarrow") * 1),
        "".join(f"| {1990 + n} | {5970 + 7 * n} |\n" for n in range(60)),
        "".join(f"{n}: yes\n" for n in range(1, 90)),
        ", ".join(map(str, range(1, 200))),
        '{"score":\n' + " " * 40,
        f"{SENTENCE}{' ' * 40}" * 3,
    ],
)
def test_other_texts_are_none(text: str) -> None:
    assert not ends_in_loop(text)
