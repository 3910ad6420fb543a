"""Documents that come, change and go in a random order, and a writer that is killed: the index is as one built anew."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from changing import KINDS, Change, carried_out, found_on

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked, so that a kill meets the writing"),
]

PLACES = ("Aldham", "Brenwick", "Corsey", "Dunmere", "Eastfold", "Farrow")
FACTS = (
    "The harbour of {0} has levied salt dues since 1402, and the master of {0} collects them.",
    "In {1} the tower wall was mended after the flood of 1620, as Figure 2 shows.",
    "The bell of {0} is rung for every ship from {1}.",
    "An oath is sworn at {1} by whoever keeps the bell.",
    "The council of {0} doubled the dues; merchants of {1} complained to the king. See Section 1.",
)


def text(draw: random.Random) -> str:
    parts = [draw.choice(FACTS).format(*draw.sample(PLACES, 2)) for _ in range(draw.randint(4, 12))]
    return "\n\n".join([f"# Annals of {draw.choice(PLACES)}", "## 1 Dues", *parts])


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_order_and_whenever_killed_every_volume_is_as_if_built_anew(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    before = {f"old-{n}": text(draw) for n in range(8)}
    names = draw.sample(sorted(before), 4)
    changes: list[Change] = [(name, text(draw)) for name in (*names[:2], *(f"new-{n}" for n in range(6)))]
    changes += [(name, None) for name in names[2:]]
    winners = found_on(before, tmp_path, [KINDS[seed], KINDS[-1 - seed]])
    order = carried_out(winners, before, changes, draw, sizes=(2, 4), kills=0.6)
    assert order.kills
    assert order.kinds >= {"documents", "words"}
