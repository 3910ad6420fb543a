"""The page: a picture of the winner, words that are explained, single questions, and text that stays text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markup import PAYLOADS

from ragsmith.diagnosis.reading import GoldPassage, Piece, ReadPassage
from ragsmith.evaluation.statistics import paired
from ragsmith.records.audit import Audit, Finding, Pair
from ragsmith.reporting import Domain, run_tables, summary_lines
from ragsmith.reporting.audit_page import audit_page
from ragsmith.reporting.charts import Chart, Cloud, Columns, Curve, Dots, Mark, Point, Row, Rows, Series, Steps, drawn
from ragsmith.reporting.markdown import domain_markdown
from ragsmith.reporting.page import domain_page, index_page
from ragsmith.reporting.picture import picture
from ragsmith.reporting.plots import fronts
from ragsmith.reporting.question_blocks import LISTED, question_list
from ragsmith.reporting.sections import Terms, sections
from ragsmith.reporting.summary import COLUMNS
from ragsmith.reporting.terms import Glossary, terms
from ragsmith.reporting.values import Asked, CauseCounts, Questions, Repair, Replied, Shown, Treated
from ragsmith.reporting.wording import headline


class Elements(HTMLParser):
    """Every element in order, with its attributes and the text directly or indirectly in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[list[str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        text: list[str] = []
        self.found.append((tag, dict(attrs), text))
        if tag not in ("meta", "link", "input", "br", "wbr"):
            self._open.append(text)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for text in self._open:
            text.append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        return [
            " ".join("".join(text).split())
            for name, given, text in self.found
            if name == tag and all(given.get(key.strip("_")) == value for key, value in attributes.items())
        ]


def asked(number: int, winner: float | None = 0.5, naive: float | None = 0.5, **other: Any) -> Asked:
    """A question of the search that both pipelines scored so; None where one failed."""
    both = [
        Treated({}, "failed")
        if f is None
        else Treated({"fitness": f}, "answered well" if f > 0.5 else "not retrieved", 1, 1)
        for f in (winner, naive)
    ]
    given = {"type": "factual", "split": "search", "text": f"What is {number}?", "reference": f"It is {number}."}
    return Asked(f"q{number}", **{**given, **other}, winner=both[0], naive=both[1])


def replied(answer: str, *pieces: Piece) -> Replied:
    return Replied(answer, (ReadPassage(1, "doc", "A title", 10, 90, pieces, cited=True),), further=2)


def with_questions(domain: Domain, *questions: Asked, shown: tuple[Shown, ...] = ()) -> Domain:
    return replace(domain, questions=Questions(tuple(questions), shown))


EXAMPLE = Shown(
    "q1",
    "gained",
    (GoldPassage("doc", "A title", 10, 90, "the gold text", "cut by the filter"),),
    replied("The winner's words.", Piece("before "), Piece("the gold text", gold=True), Piece(" after")),
    replied("Plain words.", Piece("something else")),
)


def test_the_picture_has_all_stations_and_marks_those_that_naive_rag_has_not(domain: Domain) -> None:
    found = picture(domain)
    assert found is not None
    assert len(found.stations) == 9
    assert [(one.family, one.winner.written, one.naive.written) for one in found.changed] == [
        ("retrieval", "hybrid", "vector")
    ]
    retrieval = found.changed[0].winner
    assert retrieval.does.startswith("Fuse, for each query")
    assert "k=20" in retrieval.default
    page = Elements(domain_page(domain))
    assert len(page.texts("li", class_="differs")) == 1
    assert len([1 for tag, given, _ in page.found if tag == "h3" and given == {}]) >= 9


def test_parameters_that_were_chosen_stand_apart_from_defaults_and_unknown_options_are_shown(domain: Domain) -> None:
    winner = domain.ranking[0]
    genes = {**winner.genes, "retrieval": "hybrid(fusion=rrf)", "reranking": "gone(x=1)", "chunk_size": "500"}
    found = picture(replace(domain, ranking=(replace(winner, genes=genes), *domain.ranking[1:])))
    assert found is not None
    parts = {one.family: one.winner for one in found.stations}
    assert (parts["retrieval"].chosen, "fusion" in parts["retrieval"].default) == ("fusion=rrf", False)
    assert (parts["reranking"].name, parts["reranking"].does) == ("gone", "")
    assert found.settings == (("chunk size", "500"),)


def test_every_term_that_is_marked_is_explained_and_is_marked_once(domain: Domain) -> None:
    page = Elements(domain_page(domain))
    marked = [str(given["href"])[1:] for tag, given, _ in page.found if tag == "a" and given.get("class") == "term"]
    explained = [given["id"] for tag, given, _ in page.found if tag == "dd" and "id" in given]
    assert sorted(marked) == sorted(map(str, explained))
    assert len(set(marked)) == len(marked)
    assert {"term-f", "term-r", "term-g", "term-naive-rag", "term-ndcg-5"} <= set(marked)
    entries = next(block for block in sections(domain)[-1].blocks if isinstance(block, Terms)).entries
    text = domain_markdown(domain)
    assert all(f"- **{name.replace('_', '_')}**: " in text for name, _ in entries)


@given(st.text(alphabet="FRGp ab<>&@_", max_size=60))
def test_marking_terms_changes_no_letter(sentence: str) -> None:
    glossary = Glossary({name: terms()[name] for name in ("F", "R", "G", "p")})
    for links in (glossary.met, set()):  # nothing is left to be linked where it is met again
        marked = str(glossary.marked(sentence))
        assert HTMLText(f"<p>{marked}</p>").text == sentence
        assert marked.count("<a ") == len(links)


class HTMLText(HTMLParser):
    """The text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(html)
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_begins_with_the_winner_and_tears_no_interval(domain: Domain) -> None:
    html = domain_page(domain)
    said = (f"<code>{domain.winner.label}</code>", f">{headline(domain)}<", "<b>Next:</b>", "Model calls per question")  # type: ignore[union-attr]
    assert [html.index(part) for part in said] == sorted(html.index(part) for part in said)
    listed = html.split('<ul class="verdicts">')[1].split("</ul>")[0]
    assert '<span class="whole">[+0.200, +0.200]</span>' in listed
    assert '<span class="whole">p = 0.023' in listed
    assert "[" not in re.sub(r'<span class="whole">.*?</span>', "", listed)


def test_the_list_of_all_questions_is_folded(domain: Domain) -> None:
    html = domain_page(with_questions(domain, *(asked(number) for number in range(3))))
    before, listed = html.split('<div class="questions"')
    assert before.rstrip().endswith("<details><summary>All 3 questions</summary>")
    assert listed.index("</table>") < listed.index("</details>")


def test_the_strategy_is_the_one_that_searched(domain: Domain) -> None:
    record = replace(domain.about.record, history=(replace(domain.about.record.history[0], by="exhaustive"),))
    rows = dict(run_tables.run(replace(domain, about=replace(domain.about, record=record))).rows)
    assert rows["Strategy"].startswith("exhaustive, ")
    assert dict(run_tables.run(domain).rows)["Strategy"].startswith("genetic, ")


def test_questions_are_listed_by_how_much_the_winner_changed_them(domain: Domain) -> None:
    known = with_questions(
        domain, asked(1, 0.5, 0.5), asked(2, 0.1, 0.9, type="multi_hop"), asked(3, 0.9, 0.3), asked(4, None, 0.2)
    )
    rows = question_list(known)
    assert rows is not None
    assert [one.question for one in rows.asked] == ["q2", "q3", "q1", "q4"]
    assert (rows.types, rows.splits) == (["factual", "multi_hop"], ["search"])
    assert rows.causes == ["answered well", "not retrieved", "failed"]
    for text in (domain_page(known), domain_markdown(known)):
        assert text.index("What is 2?") < text.index("What is 3?") < text.index("What is 1?")
        assert "−0.80" in text


def test_a_page_shows_a_hundred_questions_and_keeps_the_others_for_its_filter(domain: Domain) -> None:
    many = with_questions(domain, *(asked(number, number / 1000, 0.0) for number in range(LISTED + 30)))
    html = domain_page(many)
    shown, kept = html.split("<template>")
    assert shown.count('<code class="id">q') == LISTED
    assert "ragsmith explain winner.yaml q0" in shown
    assert kept.split("</template>")[0].count("<tr>") == 30
    assert "30 more are in" in shown
    assert domain_markdown(many).count("| What is ") == LISTED
    assert "<template>" not in domain_page(with_questions(domain, asked(1)))


def test_examples_have_both_answers_what_was_read_and_the_gold_marked(domain: Domain) -> None:
    known = with_questions(domain, asked(1, 0.9, 0.2), shown=(EXAMPLE,))
    page = Elements(domain_page(known))
    assert page.texts("summary")[-1].startswith(("+0.70", "Every"))
    assert "+0.70 What is 1? q1 factual, search" in page.texts("summary")
    assert page.texts("blockquote") == ["The winner's words.", "Plain words."]
    assert page.texts("mark") == ["the gold text"] * 2
    whole = " ".join(page.texts("details", class_="example"))
    for said in (
        "It is 1.",
        "Gold passage, cut by the filter",
        "A title, 10–90, cited, holds gold",
        "and 2 without",
    ):
        assert said in whole
    text = domain_markdown(known)
    assert "**+0.70 What is 1?**" in text
    assert "- winner (answered well): The winner's words." in text


def test_causes_and_repairs_are_tables_with_what_may_help(domain: Domain) -> None:
    counts = (CauseCounts("naive", "search", 10, {"not retrieved": 4, "answered well": 6}),)
    repairs = (Repair("alone", "retrieval", "bm25", 10, {"not retrieved": 3}, {"not retrieved": 1}),)
    text = domain_markdown(replace(domain, questions=Questions(causes=counts, repairs=repairs)))
    assert (
        "| not retrieved | 4 | a gold passage is not among the candidates that were retrieved | another retrieval"
        in text
    )
    assert "| retrieval bm25 alone in naive RAG | 3 not retrieved | 3 | 1 | 10 |" in text


def filled(domain: Domain, text: str) -> Domain:
    """A report in which everything that comes from elsewhere is ``text``."""
    genes = dict.fromkeys(domain.ranking[0].genes, text)
    rows = tuple(replace(row, label=text, genes=genes) for row in domain.ranking)
    about = replace(domain.about, data=replace(domain.about.data, title=text, description=text))
    shown = replace(
        EXAMPLE,
        gold=(GoldPassage(text, text, 0, 1, text, text),),
        winner=Replied(text, (ReadPassage(1, text, text, 0, 1, (Piece(text), Piece(text, gold=True))),)),
    )
    many = [asked(n, text=text, reference=text, type=text) for n in range(LISTED + 2)]
    one = replace(asked(1, 0.9, 0.1, text=text, reference=text, type=text), question="q1")
    return replace(
        with_questions(domain, one, *many[2:], shown=(shown,)),
        about=about,
        notes=(text,),
        ranking=rows,
        front=rows[:2],
        options=tuple(replace(option, name=text) for option in domain.options),
        types=tuple(replace(scores, group=text) for scores in domain.types),
        failures=tuple(replace(one, example=text, stage=text) for one in domain.failures),
        comparisons=tuple(replace(one, label=text, against=text) for one in domain.comparisons),
    )


def shape(html: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """Elements and the names of their attributes; where names of options may break does not count."""
    return Counter((tag, tuple(given)) for tag, given, _ in Elements(html).found if tag != "wbr")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_markup_in_any_text_makes_no_element_and_no_attribute(domain: Domain, payload: str) -> None:
    plain = filled(domain, re.sub(r"[<>\"'=&/]", "x", payload).replace("(", "x"))
    acting = filled(domain, payload)
    assert shape(domain_page(acting)) == shape(domain_page(plain))
    assert shape(index_page([acting, acting])) == shape(index_page([plain, plain]))


def test_there_are_sixty_payloads_that_differ() -> None:
    assert len(set(PAYLOADS)) == 60


NUMBERS = st.floats(-5, 5, allow_nan=False).map(lambda value: round(value, 3))
SHARES = st.floats(0, 1, allow_nan=False)


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=8), st.lists(NUMBERS, min_size=1, max_size=8))
def test_charts_of_any_values_are_drawn_inside_themselves(
    pairs: list[tuple[float, float]], values: list[float]
) -> None:
    most = max(map(abs, values)) + 0.1
    charts: list[Chart] = [
        Rows("a", tuple(Row("n", v, v - 0.1, v + 0.1) for v in values), least=-most, most=most, ends=("l", "r")),
        Columns("b", tuple("n" for _ in pairs), tuple(y for _, y in pairs)),
        Curve("c", tuple((x + 1, y + 1) for x, y in pairs), "across"),
        Steps("d", (Series("s", (None, *(y for _, y in pairs)), "one"),), "across"),
        Cloud("e", tuple(Point(x, y, "p", f"name {x}") for x, y in pairs), tuple(sorted(set(pairs))), "x", "y"),
        Dots("f", (("row", tuple(Mark("one", y, "m") for _, y in pairs)),), (("one", "s"),)),
    ]
    for chart in charts:
        text = str(drawn(chart))
        across = [float(found) for found in re.findall(r'\b(?:x|x1|x2|cx)="([-\d.]+)%"', text)]
        assert all(-2 <= share <= 102 for share in across)
        assert "nan" not in text
        assert "inf" not in text


def test_what_the_terminal_says_fits_eighty_columns_and_tears_no_interval(domain: Domain) -> None:
    row = domain.ranking[0]
    long = replace(row, label=" + ".join(f"option_{n}(depth=20)" for n in range(12)))
    lines = summary_lines(replace(domain, ranking=(long, *domain.ranking[1:]), notes=("word " * 60,)))
    assert max(map(len, lines)) <= COLUMNS == 80
    assert all(line.count("[") == line.count("]") for line in lines)
    assert any(line.startswith("      option_") for line in lines)


def test_an_audit_is_a_page_with_a_section_for_each_data_set() -> None:
    def finding(option: str, gain: float, activity: float = 0.5) -> Finding:
        change = paired([0.5 + gain] * 8 + [0.5], [0.5] * 9)
        return Finding("reranking", option, "<b>adds</b>", 9, 0, activity, 1.0, 0.0, 0.0, change, None, 0.5)

    pairs = (Pair("reranking", "one", "other", 9, 0.25, 0.0),)
    models = {"language_model": "extractive:1", "embedder": "wordllama"}
    findings = (finding("worse", -0.2), finding("best", 0.3), finding("idle", 0.0, 0.0))
    audits = [Audit(name, "some", 9, models, findings, pairs) for name in ("law", "<i>toy</i>")]
    html = audit_page(audits)
    page = Elements(html)
    assert page.texts("h2") == ["On law", "On <i>toy</i>", "What the words mean"]
    assert "Inert here: reranking idle." in page.texts("p")
    [chart, _] = [given["aria-label"] for tag, given, _ in page.found if tag == "svg"]
    assert chart == "Change in F of one option alone, with its 95 % interval"
    assert html.index("reranking best") < html.index("reranking worse")
    assert "idle" not in html[html.index("<svg") : html.index("</svg>")]
    rows = page.texts("tr")
    assert "rerankingoneother25 %" in rows
    assert not [tag for tag, _, _ in page.found if tag in ("i", "b")]


def test_quality_stands_against_every_cost_that_was_weighed(domain: Domain) -> None:
    rows = tuple(replace(row, latency_seconds=0.1 * place) for place, row in enumerate(domain.ranking, 1))
    settings = replace(domain.about.record.settings, objectives=("quality", "latency"), strategy="nsga2", racing=None)
    about = replace(domain.about, record=replace(domain.about.record, settings=settings))
    calls, seconds = fronts(replace(domain, about=about, ranking=rows, front=rows[:2]))
    assert (calls.across, seconds.across) == ("model calls per question", "seconds per question")
    assert sorted(point.x for point in seconds.points) == pytest.approx(
        [0.1 * place for place in range(1, len(rows) + 1)]
    )
    assert {point.name for point in seconds.points if point.name} >= {"A winner"}
    assert len(fronts(domain)) == 1
