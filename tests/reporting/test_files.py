from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from html_page import HtmlPage
from toy import put_toy

from ragsmith.comparison.advice import NextStep
from ragsmith.comparison.difference import Difference
from ragsmith.records.record import AblationStep
from ragsmith.reporting import RunReport, load_report, report_json, summary_lines, write_report
from ragsmith.reporting.blocks import Plot
from ragsmith.reporting.charts import StepPlot
from ragsmith.reporting.overview import options_table
from ragsmith.reporting.rendering import report_markdown, report_page
from ragsmith.reporting.report_files import activity_csv, groups_csv, questions_csv, ranking_csv
from ragsmith.reporting.sections import sections
from ragsmith.reporting.values import ExtraEvaluations, Score
from ragsmith.store.store import Store
from ragsmith.text.numbers import probability, share, signed
from ragsmith.text.table import Table, escape_cell

ACROSS = {"x", "x1", "x2", "cx"}


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_report_is_a_folder_of_seven_files_the_same_for_equal_runs(store: Store, tmp_path: Path) -> None:
    put_toy(store)
    put_toy(store, "../evil", run="other")
    first, second = (write_report(store, tmp_path / name, "toy") for name in ("a", "b"))
    names = ["report.md", "index.html", "ranking.csv", "activity.csv", "groups.csv", "questions.csv", "effects.csv"]
    assert first.datasets == ("toy",)
    assert list(first.paths) == [tmp_path / "a" / "toy" / name for name in names]
    assert [path.read_bytes() for path in first.paths] == [path.read_bytes() for path in second.paths]
    assert all(path.stat().st_size for path in first.paths)
    outside = write_report(store, tmp_path / "reports", "../evil").paths
    assert {path.parent for path in outside} == {tmp_path / "reports" / "_.._evil"}
    assert not (tmp_path / "reports" / "index.html").exists()


def test_the_page_requests_nothing_and_its_policy_names_its_scripts(report: RunReport) -> None:
    page = HtmlPage(report_page(report))
    for tag, attributes, _ in page.elements:
        assert tag not in {"img", "iframe", "object", "embed", "base"}
        assert "action" not in attributes
        assert "src" not in attributes
        target = attributes.get("href") or "#"
        assert target.startswith(("#", "data:,")) or target.endswith((".csv", ".md"))
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in page.scripts]
    assert len(digests) == 1
    assert "default-src 'none'" in page.policy()
    assert page.policy().endswith("script-src " + " ".join(f"'sha256-{digest}'" for digest in digests))


def test_text_is_data(store: Store, report: RunReport) -> None:
    html = report_page(report)
    assert "<script>alert(1)" not in html
    assert "no reply | <b>" in HtmlPage(html).text
    text = report_markdown(replace(report, notes=("[a](http://b) __c__ <d>",)))
    assert "\\<script\\>alert(1)\\</script\\> \\| \\*all\\*" in text
    assert r"> [a\](http://b) \_\_c\_\_ \<d\>" in text
    assert "0.700 [0.700, 0.700]" in text
    put_toy(store, "toy\x1b[2J", run="other")
    assert "toy\\x1b[2J" in summary_lines(load_report(store, "toy\x1b[2J"), columns=1000)[0]


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("`export --pick 'calls<=2'` writes <one>", "`export --pick 'calls<=2'` writes \\<one\\>"),
        ("a ` alone, and *stars*", "a \\` alone, and \\*stars\\*"),
        ("``<two>`` and `code_`", "``<two>`` and `code_`"),
        ("```three``` and ``one` <b>", "\\`\\`\\`three\\`\\`\\` and \\`\\`one\\` \\<b\\>"),
        ("`a` <b> `", "`a` \\<b\\> \\`"),
    ],
)
def test_code_stands_in_markdown_as_it_is_and_all_else_is_data(report: RunReport, said: str, written: str) -> None:
    text = report_markdown(replace(report, notes=(said,), next_step=NextStep("write", said)))
    assert f"\n> {written}\n" in text
    assert f"\nNext: {written}\n" in text


def test_the_page_can_be_read_without_its_scripts(report: RunReport) -> None:
    text = HtmlPage(report_page(report)).text
    size = "+0.200 fitness [+0.200, +0.200] on 8 test questions in 8 groups, adjusted p = 0.023"
    assert f"Better than naive RAG: {size}." in text
    assert "winner's curse" in text
    assert "0.700 [0.700, 0.700]" in text
    assert "Inert here: reranking: cross_encoder." in " ".join(text.split())


def test_every_chart_is_drawn_in_the_page_and_says_what_its_marks_are(report: RunReport) -> None:
    charts = {s.anchor: b.chart for s in sections(report) for b in s.blocks if isinstance(b, Plot)}
    assert list(charts) == ["test", "front", "types", "search", "options"]
    html = report_page(report)
    drawings = [
        ElementTree.fromstring("<svg " + part.split("</svg>")[0] + "</svg>") for part in html.split("<svg ")[1:]
    ]
    assert [drawing.get("aria-label") for drawing in drawings] == [chart.title for chart in charts.values()]
    for drawing in drawings:
        across = [float(value[:-1]) for mark in drawing for name, value in mark.attrib.items() if name in ACROSS]
        assert across
        assert all(0 <= share <= 100 for share in across)
        assert all(0 <= float(mark.get("y", 0)) <= float(drawing.get("height", 0)) for mark in drawing)
    search = charts["search"]
    assert isinstance(search, StepPlot)
    assert [series.name for series in search.series] == ["search (genetic)", "random search, same budget"]
    assert [level.name for level in search.levels] == ["naive RAG", "BM25"]
    assert search.series[0].values == (0.5, 0.51, 0.7, 0.7, 0.7)
    assert "search (genetic): 0.700 after 3" in html


def test_page_and_markdown_show_the_same_sections_in_the_same_order(report: RunReport) -> None:
    page, text = HtmlPage(report_page(report)), report_markdown(report)
    listed = sections(report)
    anchors = [attributes["id"] for tag, attributes, _ in page.elements if tag == "section" and "id" in attributes]
    hrefs = [str(attributes["href"]) for tag, attributes, _ in page.elements if tag == "a"]
    links = [href for href in hrefs if href.startswith("#") and not href.startswith(("#main", "#term-"))]
    assert anchors == [section.anchor for section in listed]
    assert links == [f"#{anchor}" for anchor in anchors]
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *("## Summary", *(f"## {section.title}" for section in listed))
    ]
    for section in listed:
        for block in section.blocks:
            if isinstance(block, Table):
                assert block.caption in page.text
                assert f"*{block.caption}*" in text


def test_markdown_tables_have_as_many_cells_as_columns(report: RunReport) -> None:
    tables = [line for line in report_markdown(report).splitlines() if line.startswith("|")]
    width = 0
    for line, following in zip(tables, [*tables[1:], ""], strict=True):
        cells = line.replace("\\|", "").count("|")
        width = cells if following.startswith(("| ---", "| ---:")) else width
        assert cells == width
    assert "| bm25 |" in report_markdown(report)


def test_measures_and_groups_of_questions_are_in_every_form(report: RunReport) -> None:
    for text in (HtmlPage(report_page(report)).text, report_markdown(report)):
        assert "0.250 (n 5)" in text.replace("\u00a0", " ")
        for said in ("Pool recall@50", "The embedder is wordllama:", "By question type and by kind of document"):
            assert said in text
        assert "Pairs scored" not in text  # nothing was
    row = table(ranking_csv(report))[0]
    assert (row["redundancy_ratio"], row["redundancy_ratio_n"], row["recall_50"]) == ("0.25", "5", "0.9")
    assert "recall_50_n" not in row
    rows = {(row["by"], row["group"], row["pipeline"]): row for row in table(groups_csv(report))}
    found = rows["modality", "table", "bm25"]
    assert [found[name] for name in ("split", "questions", "fitness", "calls_per_question")] == [
        "test",
        "2",
        "0.51",
        "1.0",
    ]
    assert len(rows) == 2 * 2 * 4


def test_fitted_numbers_are_shown_with_the_winner(report: RunReport) -> None:
    assert "Fitted numbers" not in report_page(report)
    numbers = {"tau": {"cosine": 0.123456789}, "grid": [1, 2.5], "isotonic": list(range(500))}
    winner = replace(report.ranking[0], fitted={"passage_filter": numbers})
    fitted = replace(report, ranking=(winner, *report.ranking[1:]))
    for text in (HtmlPage(report_page(fitted)).text, report_markdown(fitted)):
        assert "Fitted numbers" in text
        assert '{"grid":[1, 2.5], "isotonic":[0, 1' in text
        assert "characters; the exported pipeline has them all" in text
    assert report_json(fitted)["ranking"][0]["fitted"]["passage_filter"]["tau"] == {"cosine": 0.123457}


def test_what_an_option_changes_and_in_what_is_shown_where_it_is_known(report: RunReport) -> None:
    assert "What it changes" not in report_page(report)
    [place] = [i for i, o in enumerate(report.options) if (o.family, o.name) == ("retrieval", "hybrid")]
    option = report.options[place]
    assert option.probe is not None
    told = replace(option, probe=replace(option.probe, against="bm25", difference="adds <vectors>"))
    known = replace(report, options=(*report.options[:place], told, *report.options[place + 1 :]))
    page = report_page(known)
    assert "adds &lt;vectors&gt;" in page
    text = HtmlPage(page).text
    assert "What it changes" in text
    assert "Switched on in" in text
    rows = {(row["family"], row["option"]): row for row in table(activity_csv(known))}
    assert (rows["retrieval", "hybrid"]["against"], rows["retrieval", "hybrid"]["difference"]) == (
        *("bm25", "adds <vectors>"),
    )
    assert rows["retrieval", "bm25"]["against"] == "naive RAG"


def test_the_terminal_says_where_the_winner_comes_from(report: RunReport) -> None:
    """The winner is `hybrid`: by the estimate something else was chosen, or the highest mean is another's."""

    def said(**found: Any) -> str:
        record = replace(report.about.record, **found)
        lines = summary_lines(replace(report, about=replace(report.about, record=record)), columns=1000)
        return next((line for line in lines if line.startswith("the winner ")), "")

    winner, by_estimate = report.about.record.winner, replace(report.about.record.settings, choose="estimate")
    gone = AblationStep("query_expansion", "hyde", "toy: hybrid", -0.012, 0.004, 1.0, -0.002, left_out=True)
    back = replace(gone, family="reranking", option="x(depth=40)", instead="x", loss=0.001, calls=0.0, bound=None)
    assert said(leader=winner) == said(leader=None) == ""
    assert said(leader="toy: bm25", estimated=winner, settings=by_estimate) == (
        "the winner has the highest estimate of the search, and not the highest mean of the search"
    )
    assert said(leader=winner, estimated="toy: hybrid reranked", settings=by_estimate, removals=(gone,)) == (
        "the winner is the highest estimate of the search without query_expansion hyde, and has the highest mean of "
        "the search, saving 1.0 calls a question: 0.012 ahead on the search questions (at most 0.000 behind, 95 %)"
    )
    assert said(leader="toy: hybrid reranked", removals=(gone, back)) == (
        "the winner is the highest mean of the search without query_expansion hyde and with x for x(depth=40), "
        "saving 1.0 calls a question: 0.001 behind on the search questions"
    )


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (8, "0.001 behind on the search questions (at most 0.002 behind, 95 %), and −0.016 [−0.030, −0.002] on the "),
        (7, "0.001 behind on the search questions (at most 0.002 behind, 95 %), and −0.016 (too few groups) on the "),
    ],
)
def test_what_simplification_cost_on_the_test_questions_is_said(report: RunReport, groups: int, said: str) -> None:
    gone = AblationStep("query_expansion", "hyde", "toy: hybrid", 0.001, 0.0005, 1.0, 0.002, left_out=True)
    record = replace(report.about.record, removals=(gone,))
    cost = Difference(90, -0.016, -0.03, -0.002, 0.03, 40, groups, groups, 0.006, float(groups))
    simplified = replace(report, about=replace(report.about, record=record), simplified=cost)
    assert f": {said}test questions" in "\n".join(summary_lines(simplified, columns=1000))
    assert f", {said}test questions" in report_markdown(simplified)


def test_a_killed_run_is_reported_as_far_as_it_went(store: Store, tmp_path: Path) -> None:
    put_toy(store, state="running", done=False)
    written = write_report(store, tmp_path / "reports")
    [report] = written.reports
    assert [row.label for row in report.ranking] == ["retrieval hybrid", "bm25", "vector"]
    assert (report.baselines, report.comparisons, report.random) == ({}, (), None)
    assert all(one.probe is None for one in report.options)
    page, text = (written.paths[place].read_text(encoding="utf-8") for place in (1, 0))
    for said in ("this report is partial", "No verdict yet: the test questions have not been used."):
        assert said in HtmlPage(page).text
        assert said in text


def test_a_run_that_has_nothing_yet_is_reported_too(store: Store, tmp_path: Path) -> None:
    put_toy(store, state="running", done=False)
    store.put_run("earlier", "digest of toy", store.run("run").value)  # type: ignore[union-attr]
    store.update_run("earlier", "finished", store.run("run").value)  # type: ignore[union-attr]
    written = write_report(store, tmp_path / "reports")
    page = HtmlPage((tmp_path / "reports" / "toy" / "index.html").read_text(encoding="utf-8"))
    assert "No pipeline has been evaluated on enough questions yet." in page.text
    assert not [tag for tag, _, _ in page.elements if tag in ("svg", "ol")]
    assert len(written.paths) == 7


def test_several_data_sets_get_a_page_across_them(store: Store, tmp_path: Path) -> None:
    put_toy(store, "toy")
    put_toy(store, "law", run="other", test=False)
    written = write_report(store, tmp_path / "reports")
    assert written.datasets == ("law", "toy")
    assert [path.name for path in written.paths if path.parent == tmp_path / "reports"] == [
        *("index.html", "index.md", "test.csv", "effects.csv", "transfer.csv", "across.json")
    ]
    page = HtmlPage((tmp_path / "reports" / "index.html").read_text(encoding="utf-8"))
    assert "better: +0.200, p 0.023" in page.text
    assert "no claim" in page.text
    shared = options_table(written.reports).rows
    for row in (
        ("retrieval", "hybrid", "law, toy", "1 of 3", "1 of 3"),
        ("retrieval", "bm25", "–", "1 of 3", "1 of 3"),
        ("reranking", "none", "law, toy", "3 of 3", "3 of 3"),
    ):
        assert row in shared


def test_csv_and_json_hold_the_ranking_every_option_and_every_question(report: RunReport) -> None:
    ranked = table(ranking_csv(report))
    assert [row["rank"] for row in ranked] == ["1", "2", "3", "naive RAG", "BM25", "the best of 2 random pipelines"]
    assert (ranked[0]["fitness"], ranked[0]["fitness_low"], ranked[0]["scored"]) == ("0.7", "0.7", "10")
    assert (ranked[1]["retrieval"], ranked[1]["gene_retrieval"]) == ("0.62", "bm25")
    rows = {(row["family"], row["option"]): row for row in table(activity_csv(report))}
    assert (rows["retrieval", "bm25"]["activity"], rows["retrieval", "vector"]["activity"]) == ("0.5", "")
    assert rows["retrieval", "hybrid"]["retrieval_change"] == "0.3"
    assert rows["reranking", "cross_encoder"]["inert"] == "true"
    questions = table(questions_csv(report))
    assert len(questions) == 4 * 18
    assert {row["modality"] for row in questions} == {"prose", "table"}
    assert {row["state"] for row in questions} == {"ok"}
    plain = json.loads(json.dumps(report_json(report), allow_nan=False))
    assert plain["ranking"][0]["label"] == "retrieval hybrid"
    assert plain["comparisons"][0]["verdict"] == "better"


def test_cells_that_a_spreadsheet_would_run_are_defused_and_others_stay_as_they_are() -> None:
    for text in ("=1+1", "+cmd", "-2+3", "@sum", "\tx", "-inf", "--1"):
        assert escape_cell(text) == f"'{text}"
    harmless = {
        -0.5: "-0.5",
        "-0.5": "-0.5",
        "+3e-05": "+3e-05",
        None: "",
        "a=b": "a=b",
        True: "true",
        0.12345678: "0.123457",
    }
    assert {cell: escape_cell(cell) for cell in harmless} == harmless


DECIDED = (
    "take: ",
    "  2.0 model calls",
    "  ragsmith export",
    "answers: ",
    "verdict: ",
    "  fitness of the winner minus",
    "next: ",
    "all search questions: ",
)
"""How lines of a summary begin, in the order in which somebody needs them."""


def test_earlier_looks_are_spoken_of_where_there_were_some(report: RunReport) -> None:
    looked = replace(report, comparisons=tuple(replace(one, look=4) for one in report.comparisons))
    said = "  (p, adjusted for all 3 comparisons and 3 earlier looks at these questions, decides"
    assert any(line.startswith(said) for line in summary_lines(looked, columns=1000))
    assert "earlier" not in " ".join(summary_lines(report, columns=1000))


def test_the_summary_has_ranking_baselines_and_verdict(report: RunReport) -> None:
    lines = summary_lines(report, columns=1000)
    assert lines[0] == "toy: 5 of 6 pipelines searched (genetic), 10 search and 8 test questions"
    counted = summary_lines(
        replace(report, besides=ExtraEvaluations(before=40, drawn=7, simplify=3, apart=1)), columns=1000
    )
    assert counted[-1] == (
        "51 pipelines were evaluated in addition to the 5 that the search proposed: 40 baselines and single options "
        "before it, 7 random pipelines, 3 to simplify the winner and 1 for its ablation"
    )
    assert counted[:-2] == lines
    assert "  1  0.700 [0.700, 0.700]  R 0.800  G 0.600    2.0  retrieval hybrid" in "\n".join(lines)
    assert "naive RAG: vector" in "\n".join(lines)
    verdict = next(place for place, line in enumerate(lines) if line.startswith("verdict: "))
    listed = lines[verdict:]
    rivals = [line.split("  ") for line in listed if line.startswith("    ") and line.strip()[:1].isalpha()]
    assert [[part.strip() for part in rival if part] for rival in rivals] == [
        ["mean", "95 % interval", "p"],
        ["naive RAG", "+0.200", "[+0.200, +0.200]", "0.023", "better"],
        ["BM25", "+0.071", "[0.000, +0.142]", "0.500", "not more than 0.020 worse"],
        ["best of 2 random", "0.000", "[0.000, 0.000]", "1.000", "always the same"],
    ]
    decided = [next(place for place, line in enumerate(lines) if line.startswith(said)) for said in DECIDED]
    assert decided == sorted(decided)
    assert lines[-1].startswith("1 answers failed")
    said = "Better than naive RAG. Not more than 0.020 worse than BM25 or the best of 2 random pipelines."
    assert f"verdict: {said}" in lines


def test_it_is_said_why_the_winner_is_first_where_others_have_a_higher_fitness(report: RunReport) -> None:
    first, second, *rest = report.ranking
    better = replace(second, ranked_by=None, scores={**second.scores, "fitness": Score(0.701, 0.69, 0.71)})
    gone = AblationStep("reranking", "cross_encoder", "toy: hybrid", 0.001, 0.004, 1.0, left_out=True)
    about = replace(report.about, record=replace(report.about.record, removals=(gone,)))
    beaten = replace(report, ranking=(first, better, *rest), about=about)
    said = "he winner comes first although others have a higher fitness: options that did not pay were removed from it"
    assert f"  (t{said}" in "\n".join(summary_lines(beaten, columns=1000))
    assert f"T{said}" in report_markdown(beaten)
    assert said not in "\n".join(summary_lines(replace(beaten, ranking=report.ranking), columns=1000))


def test_numbers_are_written_alike() -> None:
    assert [signed(x) for x in (0.0514, -0.02, -0.0001, None)] == ["+0.051", "−0.020", "0.000", "–"]
    assert [share(x) for x in (0.0, 0.004, 0.43, 0.998, 1.0)] == ["0 %", "< 1 %", "43 %", "> 99 %", "100 %"]
    assert [probability(p) for p in (0.0001, 0.0123)] == ["< 0.001", "0.012"]
