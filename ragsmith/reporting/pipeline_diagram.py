"""The winner as a diagram: its nine stations in the order of a question's way, with naive RAG's above them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ragsmith.evaluation.baselines import BASELINES
from ragsmith.reporting.values import RunReport
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique
from ragsmith.text.table import Table, prose, texts

FLOWS: Mapping[str, str] = {
    "pre_embedding": "index",
    "query_expansion": "queries",
    "retrieval": "hits",
    "reranking": "ranked hits",
    "passage_filter": "kept hits",
    "passage_augment": "passages",
    "passage_compress": "passages",
    "prompt_maker": "prompt, and a draft",
    "post_generation": "answer",
}
"""The output of each stage. The generator, which every pipeline has, follows the prompt and writes the draft."""

NOTHING = "none"

_WRITTEN = re.compile(r"(?P<name>[^(]*)(?:\((?P<inside>.*)\))?", re.DOTALL)
_NAMED = re.compile(r"(\w+)=")


@dataclass(frozen=True, slots=True)
class StationOption:
    """An option of a station. ``chosen`` are parameters that differ from their defaults, ``default`` the others.

    ``does`` is the first sentence of the technique, "" of one that is not installed any more.
    """

    name: str
    chosen: str
    default: str
    does: str

    @property
    def written(self) -> str:
        """As a space names it."""
        return f"{self.name}({self.chosen})" if self.chosen else self.name


@dataclass(frozen=True, slots=True)
class DiagramStage:
    """A stage: what it decides, its output, and the options of the winner and of naive RAG."""

    family: str
    decides: str
    gives: str
    naive: StationOption
    winner: StationOption

    @property
    def differs(self) -> bool:
        """Whether the winner does it otherwise."""
        return (self.naive.name, self.naive.chosen) != (self.winner.name, self.winner.chosen)

    @property
    def title(self) -> str:
        """The family in words."""
        return self.family.replace("_", " ")


@dataclass(frozen=True, slots=True)
class PipelineDiagram:
    """The stations of a winner; ``settings`` are chunks and models, by name, where these were searched over."""

    stations: tuple[DiagramStage, ...]
    settings: tuple[tuple[str, str], ...]

    @property
    def table(self) -> Table:
        """The same as a table, for forms without diagrams."""
        rows = [
            (one.title, one.naive.written, one.winner.written, one.winner.does.replace("``", ""), one.gives)
            for one in self.stations
        ]
        columns = (*texts("Stage", "Naive RAG"), *prose("Winner"), *texts("What it does", "Output"))
        return Table("The stages of the winner and of naive RAG", columns, rows)

    @property
    def changed(self) -> tuple[DiagramStage, ...]:
        """The stations where it differs from naive RAG."""
        return tuple(station for station in self.stations if station.differs)


def pipeline_diagram(report: RunReport) -> PipelineDiagram | None:
    """The winner's stations; None where there is no winner."""
    if report.winner is None:
        return None
    naive = report.baselines["naive"].genes if "naive" in report.baselines else BASELINES["naive"]
    genes = report.winner.genes
    families = {family.name for family in FAMILIES}
    settings = tuple((name.replace("_", " "), gene) for name, gene in genes.items() if name not in families)
    return PipelineDiagram(tuple(_stations(naive, genes)), settings)


def _stations(naive: Mapping[str, str], winner: Mapping[str, str]) -> Iterator[DiagramStage]:
    for family in FAMILIES:
        plain, best = (_part(genes.get(family.name, NOTHING), family.techniques) for genes in (naive, winner))
        yield DiagramStage(family.name, family.purpose, FLOWS[family.name], plain, best)


def _part(written: str, techniques: Mapping[str, Technique]) -> StationOption:
    found = _WRITTEN.fullmatch(written)
    name, chosen = (found["name"], found["inside"] or "") if found else (written, "")
    technique = techniques.get(name)
    if technique is None:
        return StationOption(name, chosen, "", "")
    named = set(_NAMED.findall(chosen))
    default = ", ".join(f"{key}={value}" for key, value in technique.defaults.items() if key not in named)
    return StationOption(name, chosen, default, technique.summary)
