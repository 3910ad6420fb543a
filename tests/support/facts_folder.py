"""Writes a data set of many short documents, a fact and a question each: every question is a group of its own."""

from __future__ import annotations

import json
from pathlib import Path

PLACES = (
    *("Amber", "Birch", "Cedar", "Dune", "Elm", "Fern", "Gorse", "Hazel", "Ivy", "Juniper", "Kelp", "Larch"),
    *("Maple", "Nettle", "Oak", "Poplar", "Quince", "Rowan", "Sorrel", "Thyme", "Umbra", "Violet", "Willow", "Yarrow"),
)
THINGS = ("bridge", "mill", "tower")


def facts_folder(folder: Path, name: str = "facts") -> Path:
    """Write 24 documents of three sentences, and a question about the first of each; 18 of them are test questions."""
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text(f"name: {name}\nlicence: CC0\nlanguage: en\n")
    lines = []
    for number, place in enumerate(PLACES):
        thing = THINGS[number % len(THINGS)]
        fact = f"The {thing} of {place} was built in {1500 + 17 * number} by {PLACES[number - 1]} masons."
        rest = f"Nobody in {place} remembers why. Travellers praise the soup of {place} all the same."
        (folder / "documents" / f"{place.lower()}.md").write_text(f"# {place}\n\n{fact}\n\n{rest}\n")
        asked = {
            "id": f"q{number:02}",
            "question": f"When was the {thing} of {place} built?",
            "answer": f"In {1500 + 17 * number}.",
            "type": thing,
            "evidence": [{"doc": place.lower(), "text": fact}],
            "split": "search" if number % 4 == 3 else "test",
        }
        lines.append(json.dumps(asked) + "\n")
    (folder / "questions.jsonl").write_text("".join(lines))
    return folder
