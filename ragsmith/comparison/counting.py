"""Count the uses of test questions for verdicts ("looks"), in the cache and in the user's ledger."""

from __future__ import annotations

from collections.abc import Collection

from ragsmith.comparison.ledger import LedgerPage, PreviousUses, number_new, renumber, with_ledger
from ragsmith.comparison.looks import HoldoutUse
from ragsmith.digest import digest
from ragsmith.store.store import LookRow, Store


def count_look(store: Store, look: str, questions: Collection[str], day: str) -> HoldoutUse:
    """Record a look at ``questions``, given as digests of their contents, on an ISO 8601 ``day``, and return it.

    The same key on other questions is another look. A known look keeps its number, the higher one if cache and ledger
    differ. One that only the cache knows, as there was no ledger, comes after all looks that only the ledger knows. A
    new one comes after all looks at the question with most of them.
    """
    distinct = sorted(set(questions))
    key = digest("look at questions", look, distinct)

    def decide(page: LedgerPage | None) -> PreviousUses:
        with store.looking() as shelf:
            row = shelf.row(key)
            here = PreviousUses(row.number, row.fresh) if row else None
            there = page.seen(key) if page else None
            if here and page and not there:
                seen = renumber(here, shelf.looks(distinct), page.looks(distinct), distinct)
            elif before := [one for one in (here, there) if one]:
                seen = max(before, key=lambda one: one.number)
            else:
                seen = number_new(shelf.looks(distinct), page.looks(distinct) if page else {}, distinct, key)
            shelf.put(LookRow(key, seen.number, seen.fresh, day, distinct))
            if page:
                page.record(key, distinct, seen, day)
        return seen

    seen, remembered = with_ledger(decide)
    return HoldoutUse(seen.number, len(distinct), seen.fresh, remembered)
