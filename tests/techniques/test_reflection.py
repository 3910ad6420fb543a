"""The loop ends for the right reason, within its bound; its stopping rule is worked by hand."""

from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.techniques.reflection import (
    Reflection,
    Round,
    compute_confidence,
    has_converged,
    reflect,
    select_hits,
    select_most_probable,
)
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Hits, Scale

CHUNKS = example_chunks()


def ranked_from(start, scores=(0.9, 0.5, 0.1)):
    """Hits on as many chunks as there are scores, from the chunk ``start``."""
    return hits_of(CHUNKS[start:], scores)


@dataclass
class Script:
    """What a controller and a sampler say, round by round, and what was searched with."""

    verdicts: list[bool]
    found: list[Hits] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)

    def look(self, query):
        hits = self.found[len(self.queries)] if self.found else ()
        self.queries.append(query)
        return Round(query, hits, (), self.verdicts[len(self.queries) - 1])


def numbered(last):
    return ((f"{last.query}+", 0.5),)


def never(now, before):
    return False


SETTLED = partial(has_converged, rule="corrected", beta=0.5, tau=0.1)


@pytest.mark.parametrize(
    ("verdicts", "found", "settled", "reformulations", "queries", "stop"),
    [
        ([True], [], never, 3, ["Q"], "sufficient"),
        ([False, False, True], [], never, 3, ["Q", "Q+", "Q++"], "sufficient"),
        ([False] * 4, [0, 3, 3, 0], SETTLED, 3, ["Q", "Q+", "Q++"], "converged"),
        ([False] * 4, [], SETTLED, 3, ["Q", "Q+"], "converged"),  # nothing was found twice
        ([False, True], [0, 0], SETTLED, 3, ["Q", "Q+"], "sufficient"),  # a verdict goes before convergence
        ([False], [], never, 0, ["Q"], "budget"),
        ([False] * 4, [], never, 3, ["Q", "Q+", "Q++", "Q+++"], "budget"),
    ],
)
def test_the_loop_ends_for_the_first_reason(verdicts, found, settled, reformulations, queries, stop):
    script = Script(verdicts, [ranked_from(start) for start in found])
    reflection = reflect("Q", script.look, numbered, settled, reformulations)
    assert (script.queries, reflection.stop) == (queries, stop)
    assert [done.sufficient for done in reflection.rounds] == verdicts[: len(queries)]


def test_no_new_candidate_ends_the_loop():
    script = Script([False] * 9)
    reflection = reflect("Who pays?", script.look, lambda last: (("WHO  pays?", 0.9), ("Who owes?", 0.1)), never, 3)
    assert (script.queries, reflection.stop) == (["Who pays?", "Who owes?"], "no candidate")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.booleans(), min_size=9, max_size=9),
    st.lists(st.lists(st.tuples(st.text("ab ", max_size=3), st.floats(0, 1)), max_size=4), min_size=9, max_size=9),
    st.integers(0, 5),
)
def test_the_loop_is_bounded_and_searches_nothing_twice_whatever_the_model_says(verdicts, candidates, reformulations):
    script, proposals = Script(verdicts), iter(candidates)
    reflection = reflect("Q", script.look, lambda last: tuple(next(proposals)), never, reformulations)
    assert 1 <= len(reflection.rounds) <= 1 + reformulations
    folded = [" ".join(query.lower().split()) for query in script.queries]
    assert len(set(folded)) == len(folded)
    assert not any(done.sufficient for done in reflection.rounds[:-1])
    assert (reflection.stop == "sufficient") == reflection.rounds[-1].sufficient


def test_confidence_is_the_mean_of_the_five_best_normalised_scores():
    # min-max: 1, 0.75, 0.5, 0.25, 0.125, 0; the first five: 2.625 / 5
    assert compute_confidence(ranked_from(0, [9, 7, 5, 3, 2, 1])) == pytest.approx(0.525)
    assert compute_confidence(ranked_from(0, [0.4])) == 1.0
    assert compute_confidence(()) == 0.0


def test_the_printed_rule_stops_on_change_and_the_corrected_one_on_convergence():
    same, other = ranked_from(0), ranked_from(3)  # equal scores, so Conf does not change
    holds = partial(has_converged, beta=0.5, tau=0.1)
    # Sim = 1: as printed Delta = 1, corrected Delta = 0;  Sim = 0: the other way round
    assert not holds(same, same, rule="as_printed")
    assert holds(same, same, rule="corrected")
    assert holds(other, same, rule="as_printed")
    assert not holds(other, same, rule="corrected")
    assert not any(holds(hits, same, rule="none") for hits in (same, other))


def test_delta_by_hand():
    before, now = ranked_from(0, [1.0, 0.5, 0.0]), ranked_from(1, [1.0, 0.8, 0.0])
    # Jaccard 2 / 4; Conf 0.5 and 0.6; corrected Delta = 0.5 + 0.5 * 0.1 = 0.55, as printed too
    for rule in ("corrected", "as_printed"):
        assert has_converged(now, before, rule=rule, beta=0.5, tau=0.551)
        assert not has_converged(now, before, rule=rule, beta=0.5, tau=0.549)
        assert has_converged(now, before, rule=rule, beta=0.0, tau=0.501)


def test_what_is_kept_without_sufficient_evidence():
    flat, steep = ranked_from(0, [0.9, 0.8, 0.8, 0.1]), ranked_from(2, [0.9, 0.2, 0.1])
    reflection = Reflection((Round("Q", flat, (), False), Round("Q+", steep, (), False)), "budget")
    assert select_hits(reflection, "last") == steep
    assert select_hits(reflection, "best_conf") == flat
    union = select_hits(reflection, "rrf_union")
    # chunk 2 is third, then first: 1 / 63 + 1 / 61
    assert (union[0].chunk, union[0].scale) == (CHUNKS[2], Scale.RRF)
    assert union[0].score == pytest.approx(1 / 63 + 1 / 61)
    assert len(union) == 5


@pytest.mark.parametrize("keep", ["last", "best_conf", "rrf_union"])
def test_sufficient_evidence_is_kept_as_it_is(keep):
    flat, steep = ranked_from(0, [0.9, 0.8, 0.8, 0.1]), ranked_from(2, [0.9, 0.2, 0.1])
    assert (
        select_hits(Reflection((Round("Q", flat, (), False), Round("+", steep, (), True)), "sufficient"), keep) == steep
    )
    assert select_hits(Reflection((Round("Q", flat, (), False),), "no candidate"), keep) == flat


def test_ties_go_to_the_first_candidate_that_was_not_tried():
    candidates = (("a b", 0.9), ("C", 0.5), ("D", 0.5))
    assert select_most_probable(candidates, ["A  B"]) == "C"
    assert select_most_probable(candidates, ["a b", "c", "d"]) is None
    assert select_most_probable((), []) is None
