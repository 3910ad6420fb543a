"""Count a look at test questions, in the cache and in the user's ledger; the same look again is the same number."""

from __future__ import annotations

from collections.abc import Collection

from ragsmith.comparison.ledger import LedgerPage, PreviousUses, after, most, with_ledger
from ragsmith.comparison.looks import HoldoutUse
from ragsmith.digest import digest
from ragsmith.store.store import LookRow, Store


def counted(store: Store, look: str, questions: Collection[str], day: str) -> HoldoutUse:
    """Note the look of this key at ``questions``, by the digests of their contents, and say which one it is.

    The same key on other questions is another look. One that was noted before, here or in the ledger, keeps its number:
    where the two differ, the higher one. One that was noted here alone, as there was no ledger then, comes after all
    looks that only the ledger knows as well. A new one comes after all looks at the question that was looked at most.
    ``day`` is kept beside it, as ISO 8601.
    """
    distinct = sorted(set(questions))
    key = digest("look at questions", look, distinct)

    def decide(page: LedgerPage | None) -> PreviousUses:
        with store.looking() as shelf:
            here, there = _seen(shelf.row(key)), page.seen(key) if page else None
            if here and page and not there:
                seen = after(here, shelf.looks(distinct), page.looks(distinct), distinct)
            elif before := [one for one in (here, there) if one]:
                seen = max(before, key=lambda one: one.number)
            else:
                seen = most(shelf.looks(distinct), page.looks(distinct) if page else {}, distinct, key)
            shelf.put(LookRow(key, seen.number, seen.fresh, day, distinct))
            if page:
                page.note(key, distinct, seen, day)
        return seen

    seen, remembered = with_ledger(decide)
    return HoldoutUse(seen.number, len(distinct), seen.fresh, remembered)


def _seen(row: LookRow | None) -> PreviousUses | None:
    return None if row is None else PreviousUses(row.number, row.fresh)
