from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from toy import put_toy

from ragsmith.comparison.advice import NextStep
from ragsmith.records.record import AblationStep
from ragsmith.reporting import Domain, domain_json, load_domain, summary_lines, write_report
from ragsmith.reporting.backbone import backbone
from ragsmith.reporting.charts import Steps
from ragsmith.reporting.markdown import domain_markdown
from ragsmith.reporting.numbers import probability, share, signed
from ragsmith.reporting.page import domain_page
from ragsmith.reporting.sections import Plot, sections
from ragsmith.reporting.spreadsheet import activity_csv, defused, groups_csv, questions_csv, ranking_csv
from ragsmith.reporting.tables import Table
from ragsmith.reporting.values import Besides, Score
from ragsmith.reporting.wording import front_explained
from ragsmith.store.store import Store

VOID = {"meta", "link", "br", "input", "wbr"}
ACROSS = {"x", "x1", "x2", "cx"}


class Page(HTMLParser):
    """Collects elements, checks that they nest, and keeps scripts apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.text += data

    def policy(self) -> str:
        return next(str(a["content"]) for tag, a in self.elements if a.get("http-equiv") == "Content-Security-Policy")


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_report_is_a_folder_of_seven_files(store: Store, tmp_path: Path) -> None:
    put_toy(store)
    written = write_report(store, tmp_path / "reports")
    names = ["report.md", "index.html", "ranking.csv", "activity.csv", "groups.csv", "questions.csv", "effects.csv"]
    assert written.domains == ("toy",)
    assert list(written.paths) == [tmp_path / "reports" / "toy" / name for name in names]
    assert all(path.stat().st_size for path in written.paths)


def test_equal_runs_give_equal_files(store: Store, tmp_path: Path) -> None:
    put_toy(store)
    first, second = (write_report(store, tmp_path / name).paths for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_name_cannot_lead_out_of_the_folder(store: Store, tmp_path: Path) -> None:
    put_toy(store, "../evil")
    paths = write_report(store, tmp_path / "reports").paths
    assert {path.parent for path in paths} == {tmp_path / "reports" / "_.._evil"}


def test_the_page_requests_nothing_and_its_policy_names_its_scripts(domain: Domain) -> None:
    page = Page(domain_page(domain))
    for tag, attributes in page.elements:
        assert tag not in {"img", "iframe", "object", "embed", "base"}
        assert "action" not in attributes
        assert "src" not in attributes
        target = attributes.get("href") or "#"
        assert target.startswith(("#", "data:,")) or target.endswith((".csv", ".md"))
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in page.scripts]
    assert len(digests) == 1
    assert "default-src 'none'" in page.policy()
    assert page.policy().endswith("script-src " + " ".join(f"'sha256-{digest}'" for digest in digests))


def test_text_is_data(domain: Domain) -> None:
    html = domain_page(domain)
    assert "<script>alert(1)" not in html
    assert "no reply | <b>" in Page(html).text
    assert "\\<script\\>alert(1)\\</script\\> \\| \\*all\\*" in domain_markdown(domain)


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
def test_code_stands_in_markdown_as_it_is_and_all_else_is_data(domain: Domain, said: str, written: str) -> None:
    text = domain_markdown(replace(domain, notes=(said,), next_step=NextStep("take", said)))
    assert f"\n> {written}\n" in text
    assert f"\nNext: {written}\n" in text


def test_the_page_can_be_read_without_its_scripts(domain: Domain) -> None:
    text = Page(domain_page(domain)).text
    size = "+0.200 fitness [+0.200, +0.200] on 8 test questions in 8 groups, adjusted p = 0.023"
    assert f"Better than naive RAG: {size}." in text
    assert "winner's curse" in text
    assert "0.700 [0.700, 0.700]" in text
    assert "Inert here: reranking: cross_encoder." in " ".join(text.split())


def test_every_chart_is_drawn_in_the_page_and_says_what_its_marks_are(domain: Domain) -> None:
    charts = {s.anchor: b.chart for s in sections(domain) for b in s.blocks if isinstance(b, Plot)}
    assert list(charts) == ["test", "front", "types", "search", "options"]
    html = domain_page(domain)
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
    assert isinstance(search, Steps)
    assert [series.name for series in search.series] == ["search (genetic)", "random search, same budget"]
    assert [level.name for level in search.levels] == ["naive RAG", "BM25"]
    assert search.series[0].values == (0.5, 0.51, 0.7, 0.7, 0.7)
    assert "search (genetic): 0.700 after 3" in html


def test_page_and_markdown_show_the_same_sections_in_the_same_order(domain: Domain) -> None:
    page, text = Page(domain_page(domain)), domain_markdown(domain)
    listed = sections(domain)
    anchors = [attributes["id"] for tag, attributes in page.elements if tag == "section" and "id" in attributes]
    hrefs = [str(attributes["href"]) for tag, attributes in page.elements if tag == "a"]
    links = [href for href in hrefs if href.startswith("#") and not href.startswith(("#main", "#term-"))]
    assert anchors == [section.anchor for section in listed]
    assert links == [f"#{anchor}" for anchor in anchors]
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *("## Summary", *(f"## {section.title}" for section in listed)),
    ]
    for section in listed:
        for block in section.blocks:
            if isinstance(block, Table):
                assert block.caption in page.text
                assert f"*{block.caption}*" in text


def test_markdown_tables_have_as_many_cells_as_columns(domain: Domain) -> None:
    tables = [line for line in domain_markdown(domain).splitlines() if line.startswith("|")]
    width = 0
    for line, following in zip(tables, [*tables[1:], ""], strict=True):
        cells = line.replace("\\|", "").count("|")
        width = cells if following.startswith(("| ---", "| ---:")) else width
        assert cells == width
    assert "| bm25 |" in domain_markdown(domain)


def test_measures_are_shown_with_how_many_questions_have_them(domain: Domain) -> None:
    for text in (Page(domain_page(domain)).text, domain_markdown(domain)):
        assert "0.250 (n 5)" in text.replace("\u00a0", " ")
        assert "Pool recall@50" in text
        assert "Vectors are by wordllama:" in text
    row = table(ranking_csv(domain))[0]
    assert (row["redundancy_ratio"], row["redundancy_ratio_n"], row["recall_50"]) == ("0.25", "5", "0.9")
    assert "recall_50_n" not in row


def test_groups_of_questions_are_in_every_form(domain: Domain) -> None:
    for text in (Page(domain_page(domain)).text, domain_markdown(domain)):
        assert "By question type and by kind of document" in text
        assert "Kind of document" in text
        assert "Pairs scored" not in text  # nothing was
    rows = {(row["by"], row["group"], row["pipeline"]): row for row in table(groups_csv(domain))}
    found = rows["modality", "table", "bm25"]
    assert (found["split"], found["questions"], found["fitness"], found["calls_per_question"]) == (
        *("test", "2"),
        *("0.51", "1.0"),
    )
    assert len(rows) == 2 * 2 * 4


def test_fitted_numbers_stand_with_the_winner(domain: Domain) -> None:
    assert "Fitted numbers" not in domain_page(domain)
    numbers = {"tau": {"cosine": 0.123456789}, "grid": [1, 2.5]}
    winner = replace(domain.ranking[0], fitted={"passage_filter": numbers})
    fitted = replace(domain, ranking=(winner, *domain.ranking[1:]))
    shown = '{"grid":[1, 2.5], "tau":{"cosine":0.123457}}'
    for text in (Page(domain_page(fitted)).text, domain_markdown(fitted)):
        assert "Fitted numbers" in text
        assert shown in text
    assert domain_json(fitted)["ranking"][0]["fitted"]["passage_filter"]["grid"] == [1, 2.5]
    long = replace(winner, fitted={"passage_filter": {"isotonic": list(range(500))}})
    cut = domain_markdown(replace(domain, ranking=(long, *domain.ranking[1:])))
    assert "characters; the exported pipeline has them all" in cut
    assert "499" not in cut


def test_what_an_option_changes_and_in_what_is_shown_where_it_is_known(domain: Domain) -> None:
    assert "What it changes" not in domain_page(domain)
    [place] = [i for i, o in enumerate(domain.options) if (o.family, o.name) == ("retrieval", "hybrid")]
    option = domain.options[place]
    assert option.probe is not None
    told = replace(option, probe=replace(option.probe, against="bm25", difference="adds <vectors>"))
    known = replace(domain, options=(*domain.options[:place], told, *domain.options[place + 1 :]))
    page = domain_page(known)
    assert "adds &lt;vectors&gt;" in page
    text = Page(page).text
    assert "What it changes" in text
    assert "Switched on in" in text
    rows = {(row["family"], row["option"]): row for row in table(activity_csv(known))}
    assert (rows["retrieval", "hybrid"]["against"], rows["retrieval", "hybrid"]["difference"]) == (
        *("bm25", "adds <vectors>"),
    )
    assert rows["retrieval", "bm25"]["against"] == "naive RAG"


def test_a_run_without_test_questions_claims_nothing(store: Store) -> None:
    put_toy(store, test=False)
    lines = summary_lines(load_domain(store, "toy"), columns=1000)
    assert "verdict: Nothing is claimed: there are no test questions (too small to split)." in lines


def chosen(domain: Domain, **found: object) -> str:
    """What the terminal says of how the winner was come by, with ``found`` in the record."""
    record = replace(domain.about.record, **found)  # type: ignore[arg-type]
    lines = summary_lines(replace(domain, about=replace(domain.about, record=record)), columns=1000)
    return next((line for line in lines if line.startswith("the winner ")), "")


def test_the_terminal_says_where_the_winner_comes_from(domain: Domain) -> None:
    """The winner is `hybrid`: by the estimate something else was chosen, or the highest mean is another's."""
    winner = domain.about.record.winner
    gone = AblationStep("reranking", "cross_encoder", "toy: hybrid", -0.012, 0.004, 1.0, left_out=True)
    assert chosen(domain, leader=winner) == chosen(domain, leader=winner, estimated=winner) == ""
    assert chosen(domain, leader=None) == ""  # a run that was stopped, or one of an earlier version
    by_estimate = replace(domain.about.record.settings, choose="estimate")
    assert chosen(domain, leader="toy: bm25", estimated=winner, settings=by_estimate) == (
        "the winner has the highest estimate of the search, and not the highest mean of the search"
    )
    estimated = {"estimated": "toy: hybrid reranked", "settings": by_estimate, "removals": (gone,)}
    assert chosen(domain, leader=winner, **estimated) == (
        "the winner is the highest estimate of the search without reranking cross_encoder, and has the highest mean "
        "of the search: "
        "0.012 ± 0.004 ahead of it, 1.0 calls a question saved"
    )
    behind = replace(gone, loss=0.012)
    assert chosen(domain, leader="toy: hybrid reranked", removals=(behind,)) == (
        "the winner is the highest mean of the search without reranking cross_encoder: "
        "0.012 ± 0.004 behind it, 1.0 calls a question saved"
    )
    back = replace(gone, option="cross_encoder(depth=40)", instead="cross_encoder", loss=0.0, error=0.0, calls=0.0)
    assert chosen(domain, leader="toy: hybrid reranked", removals=(back,)) == (
        "the winner is the highest mean of the search with cross_encoder for cross_encoder(depth=40): "
        "0.000 ± 0.000 behind it, 0.0 calls a question saved"
    )
    both = (replace(gone, family="query_expansion", option="hyde"), back)
    assert " without query_expansion hyde and with cross_encoder for cross_encoder(depth=40): " in chosen(
        domain, leader="toy: hybrid reranked", removals=both
    )


def test_the_front_is_explained_with_the_margin(domain: Domain) -> None:
    record = replace(domain.about.record, settings=replace(domain.about.record.settings, margin=0.05))
    said = front_explained(replace(domain, about=replace(domain.about, record=record)))
    assert "cheapest, which search questions show to be less than 0.050 behind the winner;" in said


def test_a_killed_run_gives_a_partial_report(store: Store, tmp_path: Path) -> None:
    put_toy(store, state="running", done=False)
    written = write_report(store, tmp_path / "reports")
    page = Page((tmp_path / "reports" / "toy" / "index.html").read_text(encoding="utf-8"))
    assert "this report is partial" in page.text
    assert "No verdict yet: the test questions have not been used." in page.text
    assert "No verdict yet: the test questions have not been used." in written.paths[0].read_text(encoding="utf-8")


def test_a_run_that_has_nothing_yet_is_reported_too(store: Store, tmp_path: Path) -> None:
    put_toy(store, state="running", done=False)
    store.put_run("earlier", "digest of toy", store.run("run").value)  # type: ignore[union-attr]
    store.update_run("earlier", "finished", store.run("run").value)  # type: ignore[union-attr]
    written = write_report(store, tmp_path / "reports")
    page = Page((tmp_path / "reports" / "toy" / "index.html").read_text(encoding="utf-8"))
    assert "No pipeline has been evaluated on enough questions yet." in page.text
    assert not [tag for tag, _ in page.elements if tag in ("svg", "ol")]
    assert len(written.paths) == 7


def test_several_data_sets_get_a_page_across_them(store: Store, tmp_path: Path) -> None:
    put_toy(store, "toy")
    put_toy(store, "law", run="other", test=False)
    written = write_report(store, tmp_path / "reports")
    assert written.domains == ("law", "toy")
    assert [path.name for path in written.paths if path.parent == tmp_path / "reports"] == [
        *("index.html", "index.md", "test.csv", "effects.csv", "transfer.csv", "across.json")
    ]
    page = Page((tmp_path / "reports" / "index.html").read_text(encoding="utf-8"))
    assert "better: +0.200, p 0.023" in page.text
    assert "no claim" in page.text
    shared = {(s.family, s.option): (s.winners, s.top) for s in backbone(written.read)}
    assert shared["retrieval", "hybrid"] == (("law", "toy"), {"law": 1, "toy": 1})
    assert shared["retrieval", "bm25"] == ((), {"law": 1, "toy": 1})
    assert shared["reranking", "none"] == (("law", "toy"), {"law": 3, "toy": 3})


def test_one_data_set_can_be_asked_for(store: Store, tmp_path: Path) -> None:
    put_toy(store, "toy")
    put_toy(store, "law", run="other")
    assert write_report(store, tmp_path / "reports", "law").domains == ("law",)
    assert not (tmp_path / "reports" / "index.html").exists()


def test_csv_holds_the_ranking_and_what_it_is_compared_to(domain: Domain) -> None:
    rows = table(ranking_csv(domain))
    assert [row["rank"] for row in rows] == ["1", "2", "3", "naive RAG", "BM25", "the best of 2 random pipelines"]
    assert (rows[0]["fitness"], rows[0]["fitness_low"], rows[0]["scored"]) == ("0.7", "0.7", "10")
    assert (rows[1]["retrieval"], rows[1]["gene_retrieval"]) == ("0.62", "bm25")


def test_csv_holds_every_option_and_every_question(domain: Domain) -> None:
    rows = {(row["family"], row["option"]): row for row in table(activity_csv(domain))}
    assert rows["retrieval", "bm25"]["activity"] == "0.5"
    assert rows["retrieval", "hybrid"]["retrieval_change"] == "0.3"
    assert rows["reranking", "cross_encoder"]["inert"] == "true"
    assert rows["retrieval", "vector"]["activity"] == ""
    questions = table(questions_csv(domain))
    assert len(questions) == 4 * 18
    assert {row["modality"] for row in questions} == {"prose", "table"}
    assert {row["state"] for row in questions} == {"ok"}


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@sum", "\tx", "-inf", "--1"])
def test_cells_that_a_spreadsheet_would_run_are_defused(text: str) -> None:
    assert defused(text) == f"'{text}"


@pytest.mark.parametrize(
    ("cell", "text"), [(-0.5, "-0.5"), ("-0.5", "-0.5"), ("+3e-05", "+3e-05"), (None, ""), ("a=b", "a=b")]
)
def test_numbers_and_harmless_text_stay_as_they_are(cell: str | float | None, text: str) -> None:
    assert defused(cell) == text


def test_json_is_the_whole_domain(domain: Domain) -> None:
    plain = json.loads(json.dumps(domain_json(domain), allow_nan=False))
    assert plain["ranking"][0]["label"] == "retrieval hybrid"
    assert plain["comparisons"][0]["verdict"] == "better"
    assert plain["about"]["dataset"] == "toy"


DECIDED = ("winner: ", "verdict: ", "  fitness of the winner less", "next: ", "search questions: ")
"""How lines of a summary begin, in the order in which somebody needs them."""


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (1, "p, adjusted for all 3 comparisons, decides"),
        (2, "p, adjusted for all 3 comparisons and one earlier look at these questions, decides"),
        (4, "p, adjusted for all 3 comparisons and 3 earlier looks at these questions, decides"),
    ],
)
def test_earlier_looks_are_spoken_of_where_there_were_some(domain: Domain, look: int, said: str) -> None:
    looked = replace(domain, comparisons=tuple(replace(one, look=look) for one in domain.comparisons))
    lines = summary_lines(looked, columns=1000)
    assert any(line.startswith(f"  ({said}") for line in lines)
    assert ("earlier" in " ".join(lines)) is (look > 1)


def test_the_summary_has_ranking_baselines_and_verdict(domain: Domain) -> None:
    lines = summary_lines(domain, columns=1000)
    assert lines[0] == "toy: 5 of 6 pipelines searched (genetic), 10 search and 8 test questions"
    counted = summary_lines(replace(domain, besides=Besides(before=40, drawn=7, simplify=3, apart=1)), columns=1000)
    assert counted[-1] == (
        "51 pipelines were evaluated besides the 5 that the search proposed: 40 before it, the baselines and each "
        "option alone, 7 drawn at random, 3 to simplify the winner and 1 to take it apart"
    )
    assert counted[:-2] == lines
    assert "  1  0.700 [0.700, 0.700]  R 0.800  G 0.600    2.0  retrieval hybrid" in "\n".join(lines)
    assert "naive RAG: vector" in "\n".join(lines)
    rivals = [line.split("  ") for line in lines if line.startswith("    ") and line.strip()[:1].isalpha()]
    assert [[part.strip() for part in rival if part] for rival in rivals] == [
        ["mean", "95 % interval", "p"],
        ["naive RAG", "+0.200", "[+0.200, +0.200]", "0.023", "better"],
        ["BM25", "+0.071", "[0.000, +0.142]", "0.500", "not worse by 0.020"],
        ["best of 2 random", "0.000", "[0.000, 0.000]", "1.000", "always the same"],
    ]
    decided = [next(place for place, line in enumerate(lines) if line.startswith(said)) for said in DECIDED]
    assert decided == sorted(decided)
    assert lines[-1].startswith("1 answers failed")
    said = "Better than naive RAG. Not worse than BM25 or the best of 2 random pipelines by 0.020."
    assert f"verdict: {said}" in lines


def test_it_is_said_why_the_winner_stands_first_where_others_have_a_higher_fitness(domain: Domain) -> None:
    first, second, *rest = domain.ranking
    better = replace(second, ranked_by=None, scores={**second.scores, "fitness": Score(0.701, 0.69, 0.71)})
    beaten = replace(domain, ranking=(first, better, *rest))
    gone = AblationStep("reranking", "cross_encoder", "toy: hybrid", 0.001, 0.004, 1.0, left_out=True)
    by_estimate = replace(domain.about.record.settings, choose="estimate")
    told = {
        "what does not pay was left out of it": {"removals": (gone,)},
        "it has the highest estimate of the search": {"estimated": first.key, "leader": "x", "settings": by_estimate},
    }
    for why, found in told.items():
        record = replace(domain.about.record, **found)  # type: ignore[arg-type]
        known = replace(beaten, about=replace(domain.about, record=record))
        said = f"he winner stands first, though others have a higher fitness: {why}"
        assert f"  (t{said}" in "\n".join(summary_lines(known, columns=1000))
        assert f"T{said}" in domain_markdown(known)
        assert said not in "\n".join(summary_lines(replace(known, ranking=domain.ranking), columns=1000))


def test_the_summary_sends_no_control_characters_to_the_terminal(store: Store) -> None:
    put_toy(store, "toy\x1b[2J")
    assert "toy\\x1b[2J" in summary_lines(load_domain(store, "toy\x1b[2J"), columns=1000)[0]


def test_numbers_are_written_alike() -> None:
    assert [signed(x) for x in (0.0514, -0.02, -0.0001, None)] == ["+0.051", "−0.020", "0.000", "–"]
    assert [share(x) for x in (0.0, 0.004, 0.43, 0.998, 1.0)] == ["0 %", "< 1 %", "43 %", "> 99 %", "100 %"]
    assert [probability(p) for p in (0.0001, 0.0123)] == ["< 0.001", "0.012"]


def test_markdown_leaves_names_and_intervals_readable_and_links_dead(domain: Domain) -> None:
    text = domain_markdown(replace(domain, notes=("[a](http://b) __c__ <d>",)))
    assert r"> [a\](http://b) \_\_c\_\_ \<d\>" in text
    assert "cross_encoder" in text
    assert "0.700 [0.700, 0.700]" in text
