"""The building blocks of report sections: pipeline diagram, examples, question list and glossary."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from ragsmith.diagnosis.causes import Cause
from ragsmith.evaluation.baselines import BASELINES
from ragsmith.grouping import group_values
from ragsmith.measures.registry import measures
from ragsmith.pipelines.genes import SYSTEM
from ragsmith.reporting.charts import Chart
from ragsmith.reporting.values import (
    TITLES,
    PipelineAnswer,
    QuestionExample,
    QuestionOutcome,
    QuestionResult,
    RunReport,
)
from ragsmith.reporting.wording import name_role
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique
from ragsmith.text import numbers
from ragsmith.text.table import Table, figures, prose, texts

STAGE_OUTPUTS: Mapping[str, str] = {
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
"""The output of each stage. The generator runs after ``prompt_maker`` in every pipeline and writes the draft."""

NO_TECHNIQUE = "none"

_GENE = re.compile(r"(?P<name>[^(]*)(?:\((?P<inside>.*)\))?", re.DOTALL)
_PARAMETER_NAME = re.compile(r"(\w+)=")


@dataclass(frozen=True, slots=True)
class StageOption:
    """An option of a stage. ``chosen`` has the parameters that differ from their defaults, ``default`` the others.

    ``does`` is the summary of the technique, or "" if it is not installed any more.
    """

    name: str
    chosen: str
    default: str
    does: str

    @property
    def written(self) -> str:
        """The notation of the option in a search space."""
        return f"{self.name}({self.chosen})" if self.chosen else self.name


@dataclass(frozen=True, slots=True)
class DiagramStage:
    """A stage of the diagram: its purpose, its output, and the options of the pipeline and of naive RAG."""

    family: str
    decides: str
    gives: str
    naive: StageOption
    taken: StageOption

    @property
    def differs(self) -> bool:
        """Whether the pipeline has another option than naive RAG."""
        return (self.naive.name, self.naive.chosen) != (self.taken.name, self.taken.chosen)

    @property
    def title(self) -> str:
        """The name of the family with spaces."""
        return self.family.replace("_", " ")


@dataclass(frozen=True, slots=True)
class PipelineDiagram:
    """The stages of a pipeline with a ``title``; ``settings`` are searched chunk sizes and models by name."""

    title: str
    stages: tuple[DiagramStage, ...]
    settings: tuple[tuple[str, str], ...]

    @property
    def table(self) -> Table:
        """The diagram as a table, for Markdown."""
        rows = [
            (one.title, one.naive.written, one.taken.written, one.taken.does.replace("``", ""), one.gives)
            for one in self.stages
        ]
        columns = (*texts("Stage", "naive RAG"), *prose(self.title), *texts("What it does", "Output"))
        return Table(f"The stages of {self.title} and of naive RAG", columns, rows)

    @property
    def changed(self) -> tuple[DiagramStage, ...]:
        """The stages where the pipeline differs from naive RAG."""
        return tuple(stage for stage in self.stages if stage.differs)


def pipeline_diagram(report: RunReport, role: str = "winner") -> PipelineDiagram | None:
    """Return the diagram of the pipeline with a role; None if there is no winner, or it is another system."""
    if report.winner is None or SYSTEM in report.roles[role].genes:
        return None
    naive = report.baselines["naive"].genes if "naive" in report.baselines else BASELINES["naive"]
    genes = report.roles[role].genes
    families = {family.name for family in FAMILIES}
    settings = tuple((name.replace("_", " "), gene) for name, gene in genes.items() if name not in families)
    return PipelineDiagram(name_role(role), tuple(_diagram_stages(naive, genes)), settings)


def _diagram_stages(naive: Mapping[str, str], taken: Mapping[str, str]) -> Iterator[DiagramStage]:
    for family in FAMILIES:
        plain, best = (
            _stage_option(genes.get(family.name, NO_TECHNIQUE), family.techniques) for genes in (naive, taken)
        )
        yield DiagramStage(family.name, family.purpose, STAGE_OUTPUTS[family.name], plain, best)


def _stage_option(written: str, techniques: Mapping[str, Technique]) -> StageOption:
    found = _GENE.fullmatch(written)
    name, chosen = (found["name"], found["inside"] or "") if found else (written, "")
    technique = techniques.get(name)
    if technique is None:
        return StageOption(name, chosen, "", "")
    named = set(_PARAMETER_NAME.findall(chosen))
    default = ", ".join(f"{key}={value}" for key, value in technique.defaults.items() if key not in named)
    return StageOption(name, chosen, default, technique.summary)


QUESTIONS_LISTED = 100
"""Number of questions of the list that are shown initially."""

EXAMPLE_TITLES: Mapping[str, str] = {
    "gained": "Gained most against naive RAG",
    "lost": "Lost most against naive RAG",
    "wrong": "Lowest scores among the other questions",
}

TERMS: Mapping[str, str] = {
    "F": "Fitness: what the search maximises, a number from 0 to 1 for a question, by default the mean of R and G.",
    "R": "Retrieval: how much of the gold was found and how high it was ranked, from 0 to 1.",
    "G": "Generation: how well the answer agrees with the reference answer, from 0 to 1.",
    "winner": "The pipeline that the search chose, on the search questions. It is not always the one to take.",
    "naive RAG": "The simplest pipeline, the baseline: vector search, the top hits, one prompt.",
    "BM25": "A baseline like naive RAG, with lexical BM25 retrieval instead of vectors.",
    "search questions": "The questions that the winner was selected on, so that its scores on them are biased upwards.",
    "test questions": "Questions that were not used for selection. Only they show whether a pipeline is better.",
    "95 % interval": "A confidence interval: of 100 intervals, on new samples of questions, 95 hold the true mean.",
    "p": "The probability of a difference this large by chance alone. Adjusted for the number of comparisons and of "
    "earlier looks, it decides.",
    "gold": "The passages that hold the answer, as labelled in the data set.",
    "calls": "Model requests per question, including those answered from the cache.",
    "front": "The Pareto front: the pipelines for which no other is better without costing more.",
    "activity": "The share of questions for which an option changes the output of its stage.",
    "Genomes": "The number of evaluated pipelines with exactly the same hits and answers.",
    "Answered well": "The judge finds that the answer agrees with the reference: at least 0.75 by a chat model as "
    "judge, at least 0.25 by a judge that compares words, as the embedded one does.",
    "Cited rightly": "The share of the passages cited by an answer that hold gold.",
    "Declined rightly": "Questions without an answer in the documents that were declined.",
    "Declined wrongly": "Questions with an answer in the documents that were declined.",
    "recommended pipeline": "The pipeline that ragsmith recommend names: the best on other data sets, no search.",
}
"""Terms and their definitions; those of measures come from the registry of measures."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A chart of the page; Markdown omits it, as a table has the same numbers."""

    chart: Chart


@dataclass(frozen=True, slots=True)
class Collapsed:
    """Blocks that the page collapses under ``summary``; Markdown shows them."""

    summary: str
    blocks: tuple[str | Table, ...]


@dataclass(frozen=True, slots=True)
class TermList:
    """The glossary: pairs of a term and its definition."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples of one kind, each with the question, the reference answer, and passages and answers of two pipelines."""

    title: str
    examples: tuple[tuple[QuestionResult, QuestionExample], ...]


@dataclass(frozen=True, slots=True)
class QuestionList:
    """All questions, largest absolute gain first; ``listed`` of them are shown initially."""

    asked: tuple[QuestionResult, ...]
    listed: int = QUESTIONS_LISTED

    @property
    def choices(self) -> dict[str, list[str]]:
        """The filters: the values that occur in each column."""
        found = {one.taken.cause for one in self.asked if one.taken}
        return {
            "Type": sorted({one.type for one in self.asked if one.type}),
            "Split": list(dict.fromkeys(one.split for one in self.asked)),
            "Cause": [cause.value for cause in Cause if cause.value in found],
        }

    @property
    def table(self) -> Table:
        """The first ``listed`` questions as a table, for Markdown."""
        rows = [(one.named, *question_cells(one)[1:]) for one in self.asked[: self.listed]]
        title = TITLES[self.asked[0].pipeline]
        said = f"The {len(rows)} questions with the largest changes" if len(rows) < len(self.asked) else "Questions"
        heads = texts("Question", "Type", "Split", f"Cause, {title}")
        return Table(said, (*heads, *figures(numbers.plain, f"F, {title}", "F, naive RAG", "Change")), rows)


Block = str | Table | Plot | Collapsed | PipelineDiagram | Examples | QuestionList | TermList
"""The content of a section; a string is a paragraph."""


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A section: heading, blocks, and the short title ``link`` for the navigation."""

    anchor: str
    title: str
    link: str
    blocks: tuple[Block, ...]


def question_cells(asked: QuestionResult) -> tuple[str, ...]:
    """Return the cells of a question in the list."""
    scores = (numbers.plain(one.scores.get("fitness") if one else None, 2) for one in (asked.taken, asked.naive))
    cause = asked.taken.cause if asked.taken else ""
    said = asked.text or asked.question
    return (said, asked.type, asked.split, cause, *scores, numbers.signed(asked.gain, 2))


def format_example_score(asked: QuestionResult, shown: QuestionExample) -> str:
    """Return the fitness of the first pipeline if the question is shown for it, else the change from naive RAG."""
    return (
        f"F {numbers.plain(asked.taken.scores['fitness'], 2)}"
        if shown.why == "wrong" and asked.taken
        else numbers.signed(asked.gain, 2)
    )


def pair_answers(
    asked: QuestionResult, shown: QuestionExample
) -> tuple[tuple[str, QuestionOutcome | None, PipelineAnswer], ...]:
    """Return the title, outcome and answer of the two pipelines on a question."""
    return (TITLES[asked.pipeline], asked.taken, shown.taken), (TITLES["naive"], asked.naive, shown.naive)


def list_examples(report: RunReport) -> list[Examples]:
    """Return the example questions: the largest gains, the largest losses, and the lowest of the other scores."""
    asked = {one.question: one for one in report.questions.asked}
    chosen = group_values((one.why, (asked[one.question], one)) for one in report.questions.shown)
    return [Examples(title, tuple(chosen[why])) for why, title in EXAMPLE_TITLES.items() if why in chosen]


def question_list(report: RunReport) -> QuestionList | None:
    """Return the list of questions with an outcome; None if there is none."""
    known = [one for one in report.questions.asked if one.taken or one.naive]
    ordered = sorted(known, key=lambda one: (-abs(one.gain or 0.0), one.split, one.question))
    return QuestionList(tuple(ordered)) if ordered else None


def all_terms() -> dict[str, str]:
    """Return all terms with their definitions."""
    known = measures()
    return {**TERMS, **{m.label: m.summary for m in known.values() if m.label not in TERMS}}


def find_terms(prose: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the terms that occur in ``prose`` with their definitions, in alphabetical order."""
    glossary = Glossary(all_terms())
    for text in prose:
        glossary.link_terms(text)
    return tuple((name, glossary.known[name]) for name in sorted(glossary.met, key=str.casefold))


@dataclass(slots=True)
class Glossary:
    """The glossary of a page; the first occurrence of each term becomes a link to its definition."""

    known: Mapping[str, str]
    met: set[str] = field(default_factory=set)

    def link_terms(self, sentence: str) -> Markup:
        """Return a sentence as HTML, with text in backticks as code and first occurrences of terms as links."""
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
        """A pattern of the known terms, longest first."""
        either = "|".join(map(re.escape, sorted(self.known, key=len, reverse=True))) or r"(?!)"  # matches nothing
        return re.compile(rf"(?<![\w@])({either})(?![\w@])")


def anchor(name: str) -> str:
    """Return the anchor of a term's definition in the page."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
