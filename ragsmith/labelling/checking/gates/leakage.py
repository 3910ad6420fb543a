"""What the test asks was not seen by the search."""

from __future__ import annotations

from ragsmith.datasets.groups import neighbours
from ragsmith.datasets.splits import GIVEN, UNSPLITTABLE, Split, leaks, split_apart
from ragsmith.labelling.checking.finding import GateFinding, GateState, Limit, Offender, not_judged
from ragsmith.labelling.checking.registry import gate
from ragsmith.labelling.checking.view import View

LIMIT = Limit(high=0.0)


@gate(
    "Is the test unseen by the search?",
    paper="Kapoor and Narayanan (2023), Leakage and the reproducibility crisis in machine-learning-based science",
)
def leakage(view: View) -> GateFinding:
    """Fail where a test question shares a chunk with a search question, or has gold within 900 characters of its gold.

    A search is tuned on where gold lies: a test that asks for the next sentence is no test. Kapoor and Narayanan (2023)
    list dependence between the two sides among the leaks behind irreproducible results in seventeen fields, and Lewis
    et al. (2021) show what test questions that overlap with training ones do to question answering. None is allowed,
    because none is needed: ragsmith draws splits without any, by document or by section, and leaves out the few
    between.
    """
    divided = view.split
    if not divided.test:
        return not_judged(f"the questions are not split: {divided.rule}")
    if not any(example.evidence for example in divided.test):
        return not_judged("no test question has evidence, so nothing is known of what it shares with the search")
    gap = view.setup.gap
    found = leaks(view.dataset, divided, cuts=((view.chunk_size, 0),), gap=gap)
    rule = "the set's own split" if divided.rule == GIVEN else "drawn"
    neither = f", {len(divided.unused)} in neither part" if divided.unused else ""
    said = f"{found} ({len(divided.search)} search, {found.test} test{neither}; {rule})"
    figure = found.near / found.test
    if LIMIT.holds(figure):
        return GateFinding(GateState.PASSED, said, figure, LIMIT)
    advice = "take `split` out of questions.jsonl, and ragsmith draws one that does not leak"
    if split_apart(view.dataset) is None:
        advice = f"ask of more documents, or further apart: {UNSPLITTABLE}"
    return GateFinding(GateState.FAILED, said, figure, LIMIT, advice, _near(divided, gap))


def _near(divided: Split, gap: int) -> tuple[Offender, ...]:
    """The test questions with gold near a search question's, and that question."""
    together = (*divided.search, *divided.test)
    first = len(divided.search)
    pairs = ((example, found) for example, found in zip(together, neighbours(together, gap), strict=True))
    seen = [(example, min(beside)) for example, found in pairs if (beside := [j for j in found if j < first])]
    tested = {example.id for example in divided.test}
    return tuple(
        Offender(example.id, f"its gold lies within {gap} characters of that of {together[beside].id}")
        for example, beside in seen
        if example.id in tested
    )
