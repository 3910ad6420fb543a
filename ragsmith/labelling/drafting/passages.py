"""The order in which passages are drafted from: no document, kind of text or position is all at the end."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ragsmith.types import Chunk

BANDS = 3
"""Parts of a document, by position, that take turns."""

SHORTEST = 80
"""Characters; a passage with fewer has hardly a sentence."""


def in_turns(passages: Sequence[Chunk], seed: int) -> Iterator[Chunk]:
    """Yield every passage once: documents take turns, and in a document its beginning, middle and end do.

    So whatever is taken from the front is balanced. ``seed`` draws the order of documents, of parts, and in a part.
    """
    draw = random.Random(seed)
    bands: defaultdict[str, list[list[Chunk]]] = defaultdict(lambda: [[] for _ in range(BANDS)])
    of_document: defaultdict[str, list[Chunk]] = defaultdict(list)
    for passage in passages:
        if len(passage.text) >= SHORTEST:
            of_document[passage.doc].append(passage)
    for doc, its in of_document.items():
        for place, passage in enumerate(its):
            bands[doc][place * BANDS // len(its)].append(passage)
    documents = sorted(bands)
    draw.shuffle(documents)
    queues = []
    for doc in documents:
        parts = bands[doc]
        for part in parts:
            draw.shuffle(part)
        draw.shuffle(parts)
        queues.append([part[i] for i in range(max(map(len, parts))) for part in parts if i < len(part)])
    for turn in range(max(map(len, queues), default=0)):
        for queue in queues:
            if turn < len(queue):
                yield queue[turn]
