"""The stored diagnosis of a question: its cause, the fate of its gold, and what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.failing import Followed, cause_of, followed
from ragsmith.diagnosis.reading import GoldPassage, PassageText, ReadContext, ReadPassage, gold_of, reading_of
from ragsmith.digest import digest, fingerprint
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.trace import Trace
from ragsmith.types import Example


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """Why a question went as it did in one pipeline.

    Of ``gold`` gold passages ``read`` reached the generator. ``passages`` are what it was shown, ``further`` how many
    more, and ``evidence`` the gold passages: of questions that are shown in full, else None.
    """

    cause: Cause
    gold: int
    read: int
    passages: tuple[ReadPassage, ...] | None = None
    further: int = 0
    evidence: tuple[GoldPassage, ...] = ()

    def plain(self) -> dict[str, Any]:
        """As the store keeps it, with what made it."""
        kept: dict[str, Any] = {"code": code(), "cause": self.cause.value, "gold": self.gold, "read": self.read}
        if self.passages is None:
            return kept
        passages = [
            [p.place, p.doc, p.title, p.start, p.end, [[x.text, x.gold] for x in p.pieces], p.cited, p.sources]
            for p in self.passages
        ]
        evidence = [[g.doc, g.title, g.start, g.end, g.text, g.lost] for g in self.evidence]
        return {**kept, "passages": passages, "further": self.further, "evidence": evidence}

    @classmethod
    def stored(cls, value: Mapping[str, Any]) -> Diagnosed:
        """From `plain`."""
        passages = value.get("passages")
        return cls(
            Cause(value["cause"]),
            value["gold"],
            value["read"],
            None if passages is None else tuple(map(_passage, passages)),
            value.get("further", 0),
            tuple(GoldPassage(*gold) for gold in value.get("evidence", ())),
        )


def _passage(kept: Sequence[Any]) -> ReadPassage:
    place, doc, title, start, end, pieces, cited, sources = kept
    return ReadPassage(place, doc, title, start, end, tuple(PassageText(*piece) for piece in pieces), cited, sources)


@cache
def code() -> str:
    """Digest of the code that diagnoses: what another version kept is worked out again where it is at hand."""
    made_by = (("ragsmith.diagnosis.failing", name) for name in ("followed", "cause_of", "well_from"))
    return digest("diagnosis", *(fingerprint(*part) for part in (*made_by, (__name__, "Follow"))))[:16]


@dataclass(frozen=True)
class Follow:
    """Follows questions through a pipeline, where it runs; of those that are ``shown`` it also keeps what was read.

    ``answers`` says whether answers are generated. It is sent to worker processes.
    """

    shown: frozenset[str] = frozenset()
    answers: bool = True

    def __call__(
        self, engine: Engine, setup: Experiment, candidate: Candidate, trace: Trace, example: Example
    ) -> tuple[Followed, ReadContext | None, tuple[GoldPassage, ...]]:
        """What became of ``example``; ``setup`` is that of the candidate."""
        found = followed(engine, candidate, trace, example)
        if example.id not in self.shown or not self.answers:
            return found, None, ()
        gold = tuple(gold_of(engine.corpus, fate.span, fate.lost or "") for fate in found.fates)
        return found, reading_of(engine.corpus, trace, example), gold


def diagnosed(
    found: tuple[Followed, ReadContext | None, tuple[GoldPassage, ...]],
    example: Example,
    measures: Mapping[str, float | None],
    well: float,
) -> Diagnosed:
    """What `Follow` found, with the judge's mark among the ``measures`` of the question's record."""
    way, reading, gold = found
    cause = cause_of(way, answerable=example.answerable, mark=measures.get("judge"), well=well)
    passages, further = (reading.passages, reading.further) if reading else (None, 0)
    return Diagnosed(cause, len(way.fates), way.read, passages, further, gold)
