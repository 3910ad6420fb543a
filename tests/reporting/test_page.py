"""The page: a picture of the winner, words that are explained, single questions, and text that stays text."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import replace
from typing import Any

import click
import pytest
import typer
from html_page import HtmlPage
from hypothesis import given
from hypothesis import strategies as st
from markup import PAYLOADS

from ragsmith.cli.app import load
from ragsmith.comparison.advice import NextStep
from ragsmith.comparison.questions import HoldoutUse
from ragsmith.diagnosis.diagnosed import GoldPassage, PassageText, ReadPassage
from ragsmith.evaluation.statistics import paired_test
from ragsmith.records.audit import Audit, OptionFinding, PairFinding
from ragsmith.reporting import RunReport, run_tables, summary_lines
from ragsmith.reporting.audit import audit_page
from ragsmith.reporting.blocks import QUESTIONS_LISTED, Glossary, TermList, all_terms, pipeline_diagram, question_list
from ragsmith.reporting.charts import (
    Chart,
    Columns,
    Curve,
    DotMark,
    DotPlot,
    ForestRow,
    ScatterPlot,
    ScatterPoint,
    Series,
    StepPlot,
    draw,
)
from ragsmith.reporting.facts import name_command
from ragsmith.reporting.plots import forest_plot, plot_fronts
from ragsmith.reporting.rendering import index_page, report_markdown, report_page
from ragsmith.reporting.sections import sections
from ragsmith.reporting.values import (
    CauseCounts,
    PipelineAnswer,
    QuestionExample,
    QuestionOutcome,
    QuestionResult,
    Questions,
    RepairCounts,
)
from ragsmith.reporting.wording import summarize_verdicts
from ragsmith.text.terminal import COLUMNS


def asked(number: int, winner: float | None = 0.5, naive: float | None = 0.5, **other: Any) -> QuestionResult:
    """A question of the search that both pipelines scored so; None where one failed."""
    both = [
        QuestionOutcome({}, "failed")
        if f is None
        else QuestionOutcome({"fitness": f}, "answered well" if f > 0.5 else "not retrieved", 1, 1)
        for f in (winner, naive)
    ]
    given = {"type": "factual", "split": "search", "text": f"What is {number}?", "reference": f"It is {number}."}
    return QuestionResult(f"q{number}", **{**given, **other}, taken=both[0], naive=both[1])


def replied(answer: str, *pieces: PassageText) -> PipelineAnswer:
    return PipelineAnswer(answer, (ReadPassage(1, "doc", "A title", 10, 90, pieces, cited=True),), further=2)


def with_questions(report: RunReport, *questions: QuestionResult, shown: tuple[QuestionExample, ...] = ()) -> RunReport:
    return replace(report, questions=Questions(tuple(questions), shown))


EXAMPLE = QuestionExample(
    "q1",
    "gained",
    (GoldPassage("doc", "A title", 10, 90, "the gold text", "cut by the filter"),),
    replied(
        "The winner's words.", PassageText("before "), PassageText("the gold text", gold=True), PassageText(" after")
    ),
    replied("Plain words.", PassageText("something else")),
)


def test_the_pipeline_diagram_has_all_stages_and_marks_those_that_differ_from_naive_rag(report: RunReport) -> None:
    found = pipeline_diagram(report)
    assert found is not None
    assert len(found.stages) == 9
    assert [(one.family, one.taken.written, one.naive.written) for one in found.changed] == [
        ("retrieval", "hybrid", "vector")
    ]
    retrieval = found.changed[0].taken
    assert retrieval.does.startswith("Fuse, for each query")
    assert "k=20" in retrieval.default
    page = HtmlPage(report_page(report))
    assert len(page.texts("li", class_="differs")) == 1
    assert len([1 for tag, given, _ in page.elements if tag == "h3" and given == {}]) >= 9


def test_the_page_is_about_the_pipeline_to_take_and_keeps_the_winner_in_a_table(report: RunReport) -> None:
    advised = replace(
        with_questions(report, asked(1, 0.9, 0.2, pipeline="bm25"), shown=(EXAMPLE,)),
        next_step=NextStep("keep", "Use BM25: it is as good.", "bm25"),
    )
    html = report_page(advised)
    page = HtmlPage(html)
    assert "The pipeline to take" in page.texts("h2")
    assert [said for said in page.texts("div", class_="taken") if "bm25" in said]
    assert "The stages of the winner of the search" in page.texts("summary")
    assert {"Cause, BM25", "F, BM25"} <= set(page.texts("th"))
    assert any(said.startswith("BM25") for said in page.texts("h4"))
    assert "ragsmith explain take-toy.yaml q1" in html


def test_where_naive_rag_is_to_be_taken_the_winner_is_shown_beside_it_once(report: RunReport) -> None:
    """The question to explain is one that naive RAG answers wrong; found is not wrong."""
    causes = {"naive": ("found", "not retrieved"), "winner": ("not retrieved", "found")}
    rows = (row for row in report.answered if row.split == "search" and row.question in ("s0", "s1"))
    advised = replace(
        with_questions(report, asked(1)),
        next_step=NextStep("keep", "Use naive RAG: it is as good.", "naive"),
        answered=tuple(
            replace(row, cause=causes[row.pipeline][int(row.question[1])]) for row in rows if row.pipeline in causes
        ),
    )
    text = report_markdown(advised)
    assert text.count("The stages of ") == 1
    assert "The stages of the winner and of naive RAG" in text
    assert "Naive RAG, which is to be taken, above the winner, of which 1 of 9 stages differ." in text
    assert "ragsmith export toy --pick naive --run run -o take-toy.yaml" in text
    assert "ragsmith explain take-toy.yaml s1" in text
    assert "ragsmith explain take-toy.yaml s0" in report_markdown(replace(advised, next_step=None))


def test_parameters_that_were_chosen_stand_apart_from_defaults_and_unknown_options_are_shown(report: RunReport) -> None:
    winner = report.ranking[0]
    genes = {**winner.genes, "retrieval": "hybrid(fusion=rrf)", "reranking": "gone(x=1)", "chunk_size": "500"}
    found = pipeline_diagram(replace(report, ranking=(replace(winner, genes=genes), *report.ranking[1:])))
    assert found is not None
    parts = {one.family: one.taken for one in found.stages}
    assert (parts["retrieval"].chosen, "fusion" in parts["retrieval"].default) == ("fusion=rrf", False)
    assert (parts["reranking"].name, parts["reranking"].does) == ("gone", "")
    assert found.settings == (("chunk size", "500"),)


def test_every_term_that_is_marked_is_explained_and_is_marked_once(report: RunReport) -> None:
    page = HtmlPage(report_page(report))
    marked = [str(given["href"])[1:] for tag, given, _ in page.elements if tag == "a" and given.get("class") == "term"]
    explained = [given["id"] for tag, given, _ in page.elements if tag == "dd" and "id" in given]
    assert sorted(marked) == sorted(map(str, explained))
    assert len(set(marked)) == len(marked)
    assert {"term-f", "term-r", "term-g", "term-naive-rag", "term-ndcg-5"} <= set(marked)
    entries = next(block for block in sections(report)[-1].blocks if isinstance(block, TermList)).entries
    text = report_markdown(report)
    assert all(f"- **{name.replace('_', '_')}**: " in text for name, _ in entries)


@given(st.text(alphabet="FRGp ab<>&@_", max_size=60))
def test_marking_terms_changes_no_letter(sentence: str) -> None:
    glossary = Glossary({name: all_terms()[name] for name in ("F", "R", "G", "p")})
    for links in (glossary.met, set()):  # nothing is left to be linked where it is met again
        marked = str(glossary.link_terms(sentence))
        assert HtmlPage(f"<p>{marked}</p>").text == sentence
        assert marked.count("<a ") == len(links)


def test_the_page_begins_with_the_winner_and_tears_no_interval(report: RunReport) -> None:
    html = report_page(report)
    said = (
        "<b>Take the winner:</b>",
        f"<code>{report.winner.label}</code>",
        ", 2.0 model calls a question.",
        "ragsmith export toy --run run -o take-toy.yaml<",
        "<b>Next:</b>",
        ">Of 8 test questions with an answer it answers 8 well (naive RAG 8).<",
        f">{summarize_verdicts(report)}<",
    )  # type: ignore[union-attr]
    assert [html.index(part) for part in said] == sorted(html.index(part) for part in said)
    listed = html.split('<ul class="verdicts">')[1].split("</ul>")[0]
    assert '<span class="whole">[+0.200, +0.200]</span>' in listed
    assert '<span class="whole">p = 0.023' in listed
    assert "[" not in re.sub(r'<span class="whole">.*?</span>', "", listed)


def test_the_strategy_is_the_one_that_searched(report: RunReport) -> None:
    record = replace(report.about.record, history=(replace(report.about.record.history[0], by="exhaustive"),))
    rows = dict(run_tables.run_table(replace(report, about=replace(report.about, record=record))).rows)
    assert rows["Strategy"].startswith("exhaustive, ")
    assert dict(run_tables.run_table(report).rows)["Strategy"].startswith("genetic, ")


def test_questions_are_listed_by_how_much_the_winner_changed_them(report: RunReport) -> None:
    known = with_questions(
        report, asked(1, 0.5, 0.5), asked(2, 0.1, 0.9, type="multi_hop"), asked(3, 0.9, 0.3), asked(4, None, 0.2)
    )
    rows = question_list(known)
    assert rows is not None
    assert [one.question for one in rows.asked] == ["q2", "q3", "q1", "q4"]
    assert rows.choices == {
        "Type": ["factual", "multi_hop"],
        "Split": ["search"],
        "Cause": ["answered well", "not retrieved", "failed"],
    }
    for text in (report_page(known), report_markdown(known)):
        assert text.index("What is 2?") < text.index("What is 3?") < text.index("What is 1?")
        assert "−0.80" in text


def test_the_winner_s_lowest_scores_are_shown_as_scores_and_other_examples_as_changes(report: RunReport) -> None:
    worst = replace(EXAMPLE, question="q2", why="wrong")
    known = with_questions(report, asked(1, 0.9, 0.3), asked(2, 0.25, 0.25), shown=(EXAMPLE, worst))
    html, markdown = report_page(known), report_markdown(known)
    assert '<b class="better">+0.60</b> What is 1?' in html
    assert "<b>F 0.25</b> What is 2?" in html
    assert "**+0.60 What is 1? (q1)**" in markdown
    assert "**F 0.25 What is 2? (q2)**" in markdown


def test_questions_are_listed_with_their_ids_in_markdown(report: RunReport) -> None:
    text = report_markdown(with_questions(report, asked(1), asked(2, text="")))
    assert "| What is 1? (q1) |" in text
    assert "| q2 |" in text


def test_a_page_folds_its_list_shows_a_hundred_questions_and_keeps_the_others_for_its_filter(report: RunReport) -> None:
    many = with_questions(report, *(asked(number, number / 1000, 0.0) for number in range(QUESTIONS_LISTED + 30)))
    html = report_page(many)
    shown, kept = html.split("<template>")
    before, listed = shown.split('<div class="questions"')
    assert before.rstrip().endswith("<details><summary>All 130 questions</summary>")
    assert listed.count('<code class="id">q') == QUESTIONS_LISTED
    heads = [re.sub("<.*?>", "", head) for head in re.findall(r'<th scope="col".*?</th>', listed)]
    [(cause, fitness)] = re.findall(r'data-column="(\d)" data-sorted="(\d)"', listed)  # lowest fitness first
    assert (heads[int(cause)], heads[int(fitness)]) == ("Cause, winner", "F, winner")
    assert "ragsmith explain take-toy.yaml q0" in shown
    assert kept.split("</template>")[0].count("<tr>") == 30
    assert "30 more are in" in shown
    assert report_markdown(many).count("| What is ") == QUESTIONS_LISTED
    assert "<template>" not in report_page(with_questions(report, asked(1)))


def test_examples_have_both_answers_what_was_read_and_the_gold_marked(report: RunReport) -> None:
    known = with_questions(report, asked(1, 0.9, 0.2), shown=(EXAMPLE,))
    page = HtmlPage(report_page(known))
    assert page.texts("summary")[-1].startswith(("+0.70", "Every"))
    assert "+0.70 What is 1? q1 factual, search, answered well" in page.texts("summary")
    assert page.texts("blockquote") == ["The winner's words.", "Plain words."]
    assert page.texts("mark") == ["the gold text"] * 2
    whole = " ".join(page.texts("details", class_="example"))
    for said in ("It is 1.", "Gold passage, cut by the filter", "A title, 10–90, cited, holds gold", "and 2 without"):
        assert said in whole
    text = report_markdown(known)
    assert "**+0.70 What is 1? (q1)**" in text
    assert "- winner (answered well): The winner's words." in text


def test_causes_and_repairs_are_tables(report: RunReport) -> None:
    counts = (CauseCounts("naive", "search", 10, {"not retrieved": 4, "answered well": 6}),)
    repairs = (RepairCounts("alone", "retrieval", "bm25", 10, {"not retrieved": 3}, {"not retrieved": 1}),)
    text = report_markdown(replace(report, questions=Questions(causes=counts, repairs=repairs)))
    assert "| not retrieved | 4 | a gold passage is not among the candidates that were retrieved |" in text
    assert "| retrieval bm25 alone in naive RAG | 3 not retrieved | 3 | 1 | 10 |" in text


def filled(report: RunReport, text: str) -> RunReport:
    """A report in which everything that comes from elsewhere is ``text``."""
    genes = dict.fromkeys(report.ranking[0].genes, text)
    rows = tuple(replace(row, label=text, genes=genes) for row in report.ranking)
    about = replace(report.about, data=replace(report.about.data, title=text, description=text))
    shown = replace(
        EXAMPLE,
        gold=(GoldPassage(text, text, 0, 1, text, text),),
        taken=PipelineAnswer(
            text, (ReadPassage(1, text, text, 0, 1, (PassageText(text), PassageText(text, gold=True))),)
        ),
    )
    many = [asked(n, text=text, reference=text, type=text) for n in range(QUESTIONS_LISTED + 2)]
    one = replace(asked(1, 0.9, 0.1, text=text, reference=text, type=text), question="q1")
    return replace(
        with_questions(report, one, *many[2:], shown=(shown,)),
        about=about,
        notes=(text,),
        ranking=rows,
        front=rows[:2],
        options=tuple(replace(option, name=text) for option in report.options),
        types=tuple(replace(scores, group=text) for scores in report.types),
        failures=tuple(replace(one, example=text, stage=text) for one in report.failures),
        comparisons=tuple(replace(one, label=text, against=text) for one in report.comparisons),
    )


def shape(html: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """Elements and the names of their attributes; where names of options may break does not count."""
    return Counter((tag, tuple(given)) for tag, given, _ in HtmlPage(html).elements if tag != "wbr")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_markup_in_any_text_makes_no_element_and_no_attribute(report: RunReport, payload: str) -> None:
    plain = filled(report, re.sub(r"[<>\"'=&/]", "x", payload).replace("(", "x"))
    acting = filled(report, payload)
    assert shape(report_page(acting)) == shape(report_page(plain))
    assert shape(index_page([acting, acting])) == shape(index_page([plain, plain]))


NUMBERS = st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 3))
SHARES = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=8), st.lists(NUMBERS, min_size=1, max_size=8))
def test_charts_of_any_values_are_drawn_inside_themselves(
    pairs: list[tuple[float, float]], values: list[float]
) -> None:
    charts: list[Chart] = [
        forest_plot("a", [ForestRow("n", v, v - 0.1, v + 0.1) for v in values], ("l", "r")),
        Columns("b", tuple("n" for _ in pairs), tuple(y for _, y in pairs)),
        Curve("c", tuple((x + 1, y + 1) for x, y in pairs), "across"),
        StepPlot("d", (Series("s", (None, *(y for _, y in pairs)), "one"),), "across"),
        ScatterPlot(
            "e", tuple(ScatterPoint(x, y, "p", f"name {x}") for x, y in pairs), tuple(sorted(set(pairs))), "x", "y"
        ),
        DotPlot("f", (("row", tuple(DotMark("one", y, "m") for _, y in pairs)),), (("one", "s"),)),
    ]
    for chart in charts:
        text = str(draw(chart))
        across = [float(found) for found in re.findall(r'\b(?:x|x1|x2|cx)="([-\d.]+)%"', text)]
        assert all(-2 <= share <= 102 for share in across)
        assert "nan" not in text
        assert "inf" not in text


def test_what_the_terminal_says_fits_eighty_columns_and_tears_no_interval(report: RunReport) -> None:
    row = report.ranking[0]
    long = replace(row, label=" + ".join(f"option_{n}(depth=20)" for n in range(12)))
    lines = summary_lines(replace(report, ranking=(long, *report.ranking[1:]), notes=("word " * 60,)))
    assert max(map(len, lines)) <= COLUMNS == 80
    assert all(line.count("[") == line.count("]") for line in lines)
    assert any(line.startswith("      option_") for line in lines)


def test_an_audit_is_a_page_with_a_section_for_each_data_set() -> None:
    def finding(option: str, gain: float, activity: float = 0.5) -> OptionFinding:
        change = paired_test([0.5 + gain] * 8 + [0.5], [0.5] * 9)
        return OptionFinding("reranking", option, "<b>adds</b>", 9, 0, activity, 1.0, 0.0, 0.0, change, None, 0.5)

    pairs = (PairFinding("reranking", "one", "other", 9, 0.25, 0.0),)
    models = {"language_model": "extractive:1", "embedder": "wordllama"}
    findings = (finding("worse", -0.2), finding("best", 0.3), finding("idle", 0.0, 0.0))
    audits = [Audit(name, "some", 9, models, findings, pairs) for name in ("law", "<i>toy</i>")]
    html = audit_page(audits)
    page = HtmlPage(html)
    assert page.texts("h2") == [*("On law", "On <i>toy</i>", "Pairs of options over all data sets", "Glossary")]
    assert "Inert here: reranking idle." in page.texts("p")
    [chart, _] = [given["aria-label"] for tag, given, _ in page.elements if tag == "svg"]
    assert chart == "Change in F of one option alone, with its 95 % interval"
    assert html.index("reranking best") < html.index("reranking worse")
    assert "idle" not in html[html.index("<svg") : html.index("</svg>")]
    rows = page.texts("tr")
    assert "rerankingoneother25 %" in rows
    assert not [tag for tag, _, _ in page.elements if tag in ("i", "b")]


def test_quality_stands_against_every_cost_that_was_weighed(report: RunReport) -> None:
    rows = tuple(replace(row, latency_seconds=0.1 * place) for place, row in enumerate(report.ranking, 1))
    settings = replace(report.about.record.settings, objectives=("quality", "latency"), strategy="nsga2", racing=None)
    about = replace(report.about, record=replace(report.about.record, settings=settings))
    calls, seconds = plot_fronts(replace(report, about=about, ranking=rows, front=rows[:2]))
    assert (calls.across, seconds.across) == ("model calls per question", "seconds per question")
    assert sorted(point.x for point in seconds.points) == pytest.approx(
        [0.1 * place for place in range(1, len(rows) + 1)]
    )
    assert {point.name for point in seconds.points if point.name} >= {"A winner"}
    assert len(plot_fronts(report)) == 1


LOOK = HoldoutUse(2, 10, 0)
"""A look at test questions that were looked at before."""


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, set()),
        ({"untested": LOOK, "command": "ragsmith search 'my toy' --seed 1"}, {"search"}),
    ],
)
def test_every_command_on_the_page_can_be_copied(report: RunReport, changes: Any, named: set[str]) -> None:
    """The command line understands each, and it names this data set or the file beside the page."""
    about = replace(report.about, given="my toy", record=replace(report.about.record, **changes))
    shown = replace(report, about=about)
    html = HtmlPage(report_page(shown)).texts("code")
    for commands in ([one for one in html if one.startswith("ragsmith ")], commands_in(report_markdown(shown))):
        assert {line.split()[1] for line in commands} == {"export", "ask", "verify", "explain", "ablate"} | named
        for line in commands:
            _, *arguments = shlex.split(line)
            assert "my toy" in arguments or "take-toy.yaml" in arguments, line
            parse_command(arguments)


def commands_in(text: str) -> list[str]:
    return re.findall(r"`(ragsmith [^`]+)`", text)


def parse_command(arguments: list[str]) -> None:
    """Parse a command as the command line does; an error is raised."""
    command: click.Command = typer.main.get_command(load())
    while isinstance(command, click.Group):
        command = command.commands[arguments.pop(0)]
    command.make_context("ragsmith", arguments)


@pytest.mark.parametrize("kind", ["write", "groups", "fresh", "questions"])
def test_advice_to_write_questions_has_the_command_for_a_folder(kind: str, report: RunReport) -> None:
    record = replace(report.about.record, source="/home/ada/toy")
    said = name_command(kind, replace(report.about, given="toy", cache="my.sqlite", record=record))
    assert said == " To draft some: `ragsmith dataset draft --dataset toy --llm openai:MODEL --cache my.sqlite`."
    (line,) = commands_in(said)
    parse_command(shlex.split(line)[1:])
    assert name_command(kind, report.about) == ""  # nobody writes questions into a bundled data set


def test_advice_on_the_embedder_repeats_the_search(report: RunReport) -> None:
    assert name_command("take", report.about) == ""
    assert "the same search with --embedder=" in name_command("embedder", report.about)
    record = replace(report.about.record, command="ragsmith search toy --embedder x")
    (line,) = commands_in(name_command("embedder", replace(report.about, record=record)))
    assert line == "ragsmith search toy --embedder=sentence-transformers:MODEL"
    parse_command(shlex.split(line)[1:])
