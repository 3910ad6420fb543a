"""What a section of a report consists of besides text and tables: the pipeline diagram, examples and the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from ragsmith.diagnosis.causes import Cause
from ragsmith.evaluation.baselines import BASELINES
from ragsmith.measures.registry import measures
from ragsmith.reporting.charts import Chart
from ragsmith.reporting.values import (
    TITLES,
    PipelineAnswer,
    QuestionExample,
    QuestionOutcome,
    QuestionResult,
    RunReport,
)
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique
from ragsmith.text import numbers
from ragsmith.text.table import Table, figures, prose, texts

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


LISTED = 100
"""Questions of the list that are shown at once."""

KINDS_OF_EXAMPLES: Mapping[str, str] = {
    "gained": "Gained most against naive RAG",
    "lost": "Lost most against naive RAG",
    "wrong": "Where the winner is worst",
}

TERMS: Mapping[str, str] = {
    "F": "Fitness: what the search maximises, a number from 0 to 1 for a question, by default the mean of R and G.",
    "R": "Retrieval: how much of the gold was found and how high it was ranked, from 0 to 1.",
    "G": "Generation: how well the answer agrees with the reference answer, from 0 to 1.",
    "winner": "The pipeline that the search chose, on the search questions.",
    "naive RAG": "The plainest pipeline: vector search, the first hits, one prompt. Everything else has to beat it.",
    "BM25": "The classical search by words, without vectors, and otherwise like naive RAG.",
    "search questions": "The questions that chose the winner: for that reason it looks better on them than it is.",
    "test questions": "Questions that no choice was made on. Only they say whether a pipeline is better.",
    "95 % interval": "The values that the mean would take in 95 of 100 drawings of as many questions like these.",
    "p": "How often chance alone would make a difference this large. It is adjusted for the number of comparisons.",
    "gold": "The passages of the documents that hold the answer, as the data set says.",
    "calls": "Requests to models that a question takes; a reply that is remembered counts, too.",
    "front": "The pipelines of which no other is better without costing more.",
    "activity": "The share of questions for which an option changes the output of its stage.",
    "Genomes": "How many of the pipelines that were tried found and answered exactly the same.",
    "recommended pipeline": "What was best on other data sets: it costs no search.",
}
"""Words of the field and of the project; the names of measures come from their files."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of the page. Markdown leaves it out: a table has the same numbers."""

    chart: Chart


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Blocks that the page shows when ``summary`` is clicked; Markdown shows them at once."""

    summary: str
    blocks: tuple[str | Table, ...]


@dataclass(frozen=True, slots=True)
class TermList:
    """What words of the report mean: pairs of a word and its meaning."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """Questions of one kind in full: what was asked, what is right, and what two pipelines read and answered."""

    title: str
    examples: tuple[tuple[QuestionResult, QuestionExample], ...]


@dataclass(frozen=True, slots=True)
class QuestionList:
    """Every question, those that the winner changed most first; ``listed`` of them are shown at once."""

    asked: tuple[QuestionResult, ...]
    listed: int = LISTED

    @property
    def choices(self) -> dict[str, list[str]]:
        """What questions can be filtered by: the values that occur in each column."""
        found = {one.winner.cause for one in self.asked if one.winner}
        return {
            "Type": sorted({one.type for one in self.asked if one.type}),
            "Split": list(dict.fromkeys(one.split for one in self.asked)),
            "In the winner": [cause.value for cause in Cause if cause.value in found],
        }

    @property
    def table(self) -> Table:
        """The first of them, for forms without filters."""
        rows = [question_cells(one) for one in self.asked[: self.listed]]
        said = f"The {len(rows)} questions that the winner changed most" if len(rows) < len(self.asked) else "Questions"
        heads = texts("Question", "Type", "Split", "In the winner")
        return Table(said, (*heads, *figures(numbers.plain, "F, winner", "F, naive RAG", "Change")), rows)


Block = str | Table | Plot | Collapsed | PipelineDiagram | Examples | QuestionList | TermList
"""What a section consists of; a string is a paragraph of plain text."""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading and its blocks; ``link`` is its short name in the list of sections."""

    anchor: str
    title: str
    link: str
    blocks: tuple[Block, ...]


def question_cells(asked: QuestionResult) -> tuple[str, ...]:
    """A question as a row of the list."""
    scores = (numbers.plain(one.scores.get("fitness") if one else None, 2) for one in (asked.winner, asked.naive))
    cause = asked.winner.cause if asked.winner else ""
    said = asked.text or asked.question
    return (said, asked.type, asked.split, cause, *scores, numbers.signed(asked.gain, 2))


def sides(
    asked: QuestionResult, shown: QuestionExample
) -> tuple[tuple[str, QuestionOutcome | None, PipelineAnswer], ...]:
    """Winner and naive RAG on a question: its title, how it did, and what it answered."""
    return (TITLES["winner"], asked.winner, shown.winner), (TITLES["naive"], asked.naive, shown.naive)


def examples(report: RunReport) -> list[Examples]:
    """The questions that are shown in full: those that gained most, those that lost most, and the worst."""
    asked = {one.question: one for one in report.questions.asked}
    found = []
    for why, title in KINDS_OF_EXAMPLES.items():
        if chosen := tuple((asked[one.question], one) for one in report.questions.shown if one.why == why):
            found.append(Examples(title, chosen))
    return found


def question_list(report: RunReport) -> QuestionList | None:
    """Every question, if anything is known of one."""
    known = [one for one in report.questions.asked if one.winner or one.naive]
    ordered = sorted(known, key=lambda one: (-abs(one.gain or 0.0), one.split, one.question))
    return QuestionList(tuple(ordered)) if ordered else None


def terms() -> dict[str, str]:
    """Every term and what it means."""
    known = measures()
    return {**TERMS, **{m.label: m.summary for m in known.values() if m.label not in TERMS}}


def terms_in(prose: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The terms that occur in ``prose``, which are prose of the report's own, and what they mean; by the alphabet."""
    glossary = Glossary(terms())
    for text in prose:
        glossary.marked(text)
    return tuple((name, glossary.known[name]) for name in sorted(glossary.met, key=str.casefold))


@dataclass(slots=True)
class Glossary:
    """The terms that a page explains at its end: each becomes a link where it is met first."""

    known: Mapping[str, str]
    met: set[str] = field(default_factory=set)

    def marked(self, sentence: str) -> Markup:
        """A sentence of the report as HTML: text in backticks as code, and new terms as links."""
        parts = re.split(r"`([^`]*)`", sentence)
        return Markup("").join(
            Markup("<code>{}</code>").format(part) if place % 2 else self._linked(part)
            for place, part in enumerate(parts)
        )

    def _linked(self, text: str) -> Markup:
        parts, end = [], 0
        for match in self.pattern.finditer(text):
            if (name := match[1]) not in self.met:
                self.met.add(name)
                link = Markup('<a class="term" href="#{0}" aria-describedby="{0}">{1}</a>').format(anchor(name), name)
                parts += [escape(text[end : match.start()]), link]
                end = match.end()
        return Markup("").join([*parts, escape(text[end:])])

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds the known terms, the longest first."""
        either = "|".join(map(re.escape, sorted(self.known, key=len, reverse=True))) or r"(?!)"  # matches nothing
        return re.compile(rf"(?<![\w@])({either})(?![\w@])")


def anchor(name: str) -> str:
    """Where a term is explained in the page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
