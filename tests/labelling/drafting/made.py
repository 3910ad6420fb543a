"""Documents for tests of drafting, in words of their own, and what is drafted from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ragsmith.labelling.drafting.asking import ModelDrafting
from ragsmith.labelling.drafting.draft import Draft, RejectedDraft
from ragsmith.labelling.drafting.material import DraftingCorpus
from ragsmith.labelling.reviewing.decisions import Quote
from ragsmith.types import Chunk, Document, Modality, Span

HARBOUR = """# Harbour rules

## Mooring

The skipper must report to the harbour office within two hours of arrival. A mooring buoy is a float that is chained to
the sea bed. If the wind exceeds forty knots, the outer quay is closed to small boats. The crane lifts eleven tonnes.
The lamp marks the northern shoal at night.

The following papers are needed:

- the certificate of the boat
- the list of the crew

## Dues

| Boat | Dues | Deposit |
|---|---|---|
| Dinghy | 4 crowns | 10 crowns |
| Cutter | 11 crowns | 25 crowns |
| Barge | 30 crowns | 60 crowns |
"""

HISTORY = """# History of the harbour

The Brenton crane was built in 1931 because the old derrick had collapsed. The fishermen of Ostry paid for the lamp of
the outer quay by selling dried cod. In 1954, the council bought the Brenton crane for ninety crowns.
The skipper sold the old derrick to Vell.
"""

CRANES = """# Cranes of the coast

Vell is a village behind the northern shoal. The foundry of Vell cast the hook. The driver must test the hook within six
days of a storm.
"""

TIDES = '''"""Tides."""

HIGHEST_WATER = 412  # centimetres above the datum


def lag(hours: float) -> float:
    """Return how many minutes the tide is late at the outer quay."""
    return 12.5 * hours
'''


def documents() -> list[Document]:
    """Three texts and a source file."""
    return [
        Document("harbour", "Harbour rules", HARBOUR),
        Document("history", "History of the harbour", HISTORY),
        Document("cranes", "Cranes of the coast", CRANES),
        Document("tides.py", "tides.py", TIDES, Modality.CODE),
    ]


def material() -> DraftingCorpus:
    """What is known of them."""
    return DraftingCorpus(documents())


def draft(question: str, quote: str, answer: str = "Eleven tonnes.", doc: str = "harbour", **changes: object) -> Draft:
    """A draft that quotes a document of these."""
    text = next(document.text for document in documents() if document.id == doc)
    start = text.index(quote)
    made_of = {"type": "factual", "method": "tests", "passage": Span(doc, start, start + len(quote)), **changes}
    return Draft(question, answer, (Quote(doc, quote, start),), **made_of)  # type: ignore[arg-type]


class Scripted(ModelDrafting):
    """A model that drafts what a function makes of the passages; each draft is good."""

    def __init__(self, drafts: Callable[[list[Chunk]], Iterable[Draft]]) -> None:
        self.failures = []
        self.pause_reason = ""
        self._drafts = drafts

    def make_drafter(self, wanted: int) -> Callable[[Iterable[Chunk], DraftingCorpus], Iterator[Draft]]:
        return lambda passages, material: iter(self._drafts(list(passages)))

    def check(self, drafts: Sequence[Draft], material: DraftingCorpus) -> list[Draft | RejectedDraft | None]:
        return list(drafts)
