"""Test doubles for techniques, also third-party ones: a tiny corpus, a scripted language model, a recorded search.

They are passed to a technique as arguments; nothing is patched.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import Input, Task
from ragsmith.types import Chunk, Chunks, Document, Hit, Hits, Queries, Rankings, Scale

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A request to a scripted model."""

    task: str
    sample: int
    inputs: Mapping[str, Input]


class ScriptedModel(LanguageModel):
    """A language model that returns prepared results, with one queue for each task.

    ``calls`` lists the requests in order; `left` returns the number of unused results of a task.
    """

    id = "scripted"

    def __init__(self, results: Mapping[str, Sequence[object]] | None = None) -> None:
        self._results = {name: list(queue) for name, queue in (results or {}).items()}
        self.calls: list[Call] = []

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Return the next result for ``task``; the prompt is also rendered, to detect missing inputs.

        Raises:
            AssertionError: no result is left for the task.
        """
        task.render(inputs)
        self.calls.append(Call(task.name, sample, inputs))
        queue = self._results.get(task.name)
        if not queue:
            raise AssertionError(f"no scripted result is left for task {task.name!r}; its inputs are {inputs!r}")
        return cast(T, queue.pop(0))

    def count(self, task: str) -> int:
        """Return the number of requests for ``task``."""
        return Counter(call.task for call in self.calls)[task]

    def left(self, task: str) -> int:
        """Return the number of unused results for ``task``."""
        return len(self._results.get(task, ()))


class FakeSearch:
    """A search with prepared rankings: callable as ``search(queries)``.

    ``calls`` lists the queries of each call in order. The ranking of an unknown query is empty.
    """

    def __init__(self, rankings: Mapping[str, Hits] | Hits) -> None:
        self._rankings = rankings
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, queries: Queries) -> Rankings:
        """Record ``queries`` and return their rankings."""
        self.calls.append(tuple(queries))
        if isinstance(self._rankings, Mapping):
            return tuple(self._rankings.get(query, ()) for query in queries)
        return tuple(self._rankings for _ in queries)

    @property
    def queries(self) -> tuple[str, ...]:
        """All queries in order."""
        return tuple(query for call in self.calls for query in call)


def fake_search(rankings: Mapping[str, Hits] | Hits) -> FakeSearch:
    """Return a search with prepared hits for each query, or the same hits for all queries."""
    return FakeSearch(rankings)


def hits_of(chunks: Chunks, scores: Sequence[float], scale: Scale = Scale.COSINE) -> Hits:
    """Pair the first ``len(scores)`` of ``chunks`` with ``scores``, on one scale, in the given order."""
    return tuple(Hit(chunk, float(score), scale) for chunk, score in zip(chunks, scores, strict=False))


def example_documents() -> tuple[Document, ...]:
    """Return three short documents about the fictional harbour town of Velmouth."""
    return tuple(
        Document(doc, title, "\n\n".join(paragraph for _, paragraph in paragraphs))
        for doc, (title, paragraphs) in _VELMOUTH.items()
    )


def example_chunks() -> Chunks:
    """Return the example documents as ten chunks, one per paragraph; ``id`` is ``<document>:<index>``."""
    chunks: list[Chunk] = []
    for doc, (title, paragraphs) in _VELMOUTH.items():
        start = 0
        for index, (heading, paragraph) in enumerate(paragraphs):
            end = start + len(paragraph)
            headings = (heading,) if heading else ()
            chunks.append(Chunk(f"{doc}:{index}", doc, index, start, end, paragraph, title, headings))
            start = end + 2
    return tuple(chunks)


_VELMOUTH: Mapping[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "harbour": (
        "The harbour of Velmouth",
        (
            (
                "",
                "The harbour of Velmouth was dug in 1612 by order of Countess Isaura Brandt. It is the only port on "
                "the Skell coast where ships can lie at low tide.",
            ),
            (
                "The bell",
                "A bronze bell hangs in the Tide Tower. The keeper of the Tide Tower rings the bell twice when the "
                "water falls below the black mark, and no ship may leave the harbour after that.",
            ),
            (
                "Harbour dues",
                "Every ship pays harbour dues of four crowns a night. The Salt Guild pays no dues, because Countess "
                "Isaura Brandt released it from them in 1620.",
            ),
            (
                "Harbour dues",
                "Dues that are not paid within thirty days are doubled. The harbour master may hold a ship until its "
                "dues are paid.",
            ),
        ),
    ),
    "guild": (
        "The Salt Guild",
        (
            (
                "",
                "The Salt Guild was founded in 1598 by twelve families of Velmouth. It owns the salt pans north of the "
                "harbour and sells grey salt to the inland markets.",
            ),
            (
                "Members",
                "A member of the Salt Guild must have worked on the salt pans for seven years. New members swear an "
                "oath in the Tide Tower on the first day of spring.",
            ),
            (
                "The warden",
                "The warden of the Salt Guild is elected for three years. Oswin Tarrel, warden from 1640 to 1655, "
                "built the covered market and lent the town money for the sea wall.",
            ),
        ),
    ),
    "flood": (
        "The flood of 1651",
        (
            (
                "",
                "The flood of 1651 broke the sea wall and covered the salt pans with mud. Forty houses fell, and the "
                "grey salt of that year was lost.",
            ),
            (
                "Causes",
                "A spring tide met a storm from the Skell. The keeper rang the bell all night, but the sea wall had "
                "not been repaired since 1633 because the town lacked money.",
            ),
            (
                "Rebuilding",
                "Oswin Tarrel paid for a new sea wall of black stone. The town repaid the loan with half of the "
                "harbour dues for ten years.",
            ),
        ),
    ),
}
