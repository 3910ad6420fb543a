"""The finals: who meets the test questions, once, at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.pipelines.genes import Candidate


@dataclass(frozen=True, slots=True)
class Finals:
    """The winner of a search, what it was made of, and what it has to beat.

    ``leader`` has the highest mean, ``estimated`` the highest estimate, where something was expected; ``single`` is the
    best single option, ``random`` the best drawn, and ``cheapest`` the cheapest that is shown to be less than the
    margin behind the winner. ``baselines`` are naive RAG and BM25 on the search questions.
    """

    winner: Evaluation
    leader: Evaluation
    estimated: Evaluation | None
    recommended: Evaluation | None
    single: Evaluation | None
    cheapest: Evaluation
    random: Evaluation | None
    baselines: Mapping[str, Evaluation]

    def entrants(self) -> dict[str, Candidate]:
        """By role. One pipeline may have several, such as the leader that is the cheapest, too: it is met once.

        The winner does not meet itself, unless as the best drawn. Where what is chosen is the leader, or the best
        single option a baseline or recommended, there is no second role for it.
        """
        found = {"winner": self.winner.candidate}
        if self.leader.key != self.winner.key:
            found["leader"] = self.leader.candidate
        if self.estimated and self.estimated.key not in (self.winner.key, self.leader.key):
            found["estimate"] = self.estimated.candidate
        found |= {name: one.candidate for name, one in self.baselines.items()}
        others = [self.winner, *([self.recommended] if self.recommended else [])]
        if self.single and self.single.key not in {one.key for one in (*self.baselines.values(), *others)}:
            found["single"] = self.single.candidate
        if self.recommended and self.recommended.key != self.winner.key:
            found["recommended"] = self.recommended.candidate
        if self.cheapest.key != self.winner.key:
            found["cheapest"] = self.cheapest.candidate
        if self.random:
            found["random"] = self.random.candidate
        return found
