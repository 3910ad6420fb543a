"""Count a look at test questions, in the cache and in the user's ledger; the same look again is the same number."""

from __future__ import annotations

from collections.abc import Collection

from ragsmith.comparison.ledger import Page, Seen, most, with_ledger
from ragsmith.comparison.looks import Look
from ragsmith.store.store import LookRow, Store


def counted(store: Store, look: str, questions: Collection[str], day: str) -> Look:
    """Note the look of this key at ``questions``, by the digests of their contents, and say which one it is.

    A look that was noted before, here or in the ledger, keeps its number: where the two differ, the higher one. A new
    one comes after all looks at the question that was looked at most. ``day`` is kept beside it, as ISO 8601.
    """
    distinct = sorted(set(questions))

    def decide(page: Page | None) -> Seen:
        with store.looking() as shelf:
            before = [seen for seen in (page and page.seen(look), _seen(shelf.row(look))) if seen]
            if before:
                seen = max(before, key=lambda one: one.number)
            else:
                seen = most(shelf.looks(distinct), page.looks(distinct) if page else {}, distinct, look)
            shelf.put(LookRow(look, seen.number, seen.fresh, day, distinct))
            if page:
                page.note(look, distinct, seen, day)
        return seen

    seen, remembered = with_ledger(decide)
    return Look(seen.number, len(distinct), seen.fresh, remembered)


def _seen(row: LookRow | None) -> Seen | None:
    return None if row is None else Seen(row.number, row.fresh)
