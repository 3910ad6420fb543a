"""What a search returns: its ranking, verdict, tables, questions and winner, without reading the report."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ragsmith
from ragsmith.diagnosis.ablation import Ablation, Interaction
from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.estimates import Estimate
from ragsmith.errors import MissingExtra, UsageError
from ragsmith.reporting.plots import plot_interactions
from ragsmith.text import numbers


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, tiny_space: Path) -> ragsmith.Result:
    return ragsmith.search(
        tiny_folder,
        space=tiny_space,
        control="random",
        population=6,
        generations=1,
        chunk_size=100,
        workers=1,
        cache=tmp_path_factory.mktemp("result") / "cache.sqlite",
    )


def test_the_ranking_is_by_fitness_and_has_intervals_and_costs(found: ragsmith.Result) -> None:
    means = [row.scores["fitness"].mean for row in found.ranking]
    assert means == sorted(means, reverse=True)
    best = found.ranking[0]
    recall = best.scores["recall"]
    assert recall.low is not None
    assert recall.high is not None
    assert recall.low <= recall.mean <= recall.high
    assert best.usage["calls"] > 0
    assert set(best.genes) >= {"retrieval", "reranking"}


def test_the_verdict_says_what_was_compared_on_the_test_questions(found: ragsmith.Result) -> None:
    assert {one.name for one in found.verdict.comparisons} - {"single", "recommended"} == {"naive", "bm25", "random"}
    assert str(found.verdict).startswith(found.verdict.words)
    assert {finalist.name for finalist in found.test} - {"leader", "estimate", "single", "recommended"} == {
        "winner",
        "naive",
        "bm25",
        "random",
    }
    assert all(finalist.test.coverage.complete for finalist in found.test)


def test_the_front_has_for_every_pipeline_one_that_is_as_good_for_as_few_calls(found: ragsmith.Result) -> None:
    def point(row: Any) -> tuple[float, float]:
        return row.scores["fitness"].mean, -row.usage["calls"]

    front = list(map(point, found.front))
    assert len(set(front)) == len(front)
    for fitness, fewness in map(point, found.ranking):
        assert any(f >= fitness and c >= fewness for f, c in front)
    for fitness, fewness in front:
        assert not any((f, c) != (fitness, fewness) and f >= fitness and c >= fewness for f, c in front)


def test_every_question_says_what_was_found_and_answered(found: ragsmith.Result) -> None:
    records = found.records()
    assert len({record.question for record in records}) == len(found.setup.dataset.examples)
    assert {record.split for record in records} == {"search", "test"}
    on_search = [record.measures["fitness"] for record in records if record.split == "search"]
    assert sum(on_search) / len(on_search) == pytest.approx(found.ranking[0].scores["fitness"].mean)
    same = [replace(record, pipeline="winner") for record in found.records(found.ranking[0])]
    assert same == list(records)
    chunks = {chunk.id for chunk in found.setup.corpus.chunks}
    assert all(set(record.retrieved) <= chunks and record.state == "ok" and record.answer for record in records)
    with pytest.raises(UsageError, match=r"no pipeline 'naiv': did you mean 'naive'"):
        found.records("naiv")


def test_the_winner_can_be_asked_and_verified_at_once(found: ragsmith.Result) -> None:
    assert found.winner.ask("Who founded the library?").sources
    assert found.winner.expected
    assert found.winner.verify() == []


def test_tables_become_data_frames(found: ragsmith.Result) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    ranking = found.to_pandas()
    assert list(ranking["place"]) == list(range(1, len(found.ranking) + 1))
    assert {"pipeline", "fitness", "fitness_low", "recall", "calls", "retrieval"} <= set(ranking.columns)
    assert list(found.to_pandas("front")["pipeline"]) == [row.label for row in found.front]
    assert set(found.to_pandas("test")["name"]) >= {"winner", "naive RAG"}
    records, asked = found.to_pandas("records"), found.setup.examples
    assert [asked[id_].question for id_ in records["question"]] == list(records["text"])
    assert [asked[id_].answer for id_ in records["question"]] == list(records["reference"])
    diagnosed = {one.question: one.taken.cause for one in found.run_report.questions.asked if one.taken}
    assert [diagnosed[id_] for id_ in records["question"]] == list(records["cause"])
    assert set(records["cause"]) <= {cause.value for cause in Cause}
    assert len(records) == len(found.records())
    with pytest.raises(UsageError, match=r"unknown table 'rankin': did you mean 'ranking'"):
        found.to_pandas("rankin")


def test_without_pandas_the_way_to_it_is_named(found: ragsmith.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ragsmith\[pandas\]'"):
        found.to_pandas()


def test_its_cache_is_found_from_another_folder_and_showing_it_needs_none(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    small: dict[str, Any] = {"space": tiny_space, "max_evaluations": 2, "probes": False, "chunk_size": 100}
    result = ragsmith.search(tiny_folder, **small, workers=1, cache="cache.sqlite")
    monkeypatch.chdir(tmp_path / "elsewhere")
    cache = tmp_path / "cache.sqlite"
    hidden = cache.rename(tmp_path / "hidden.sqlite")
    shown = repr(result)
    hidden.rename(cache)
    best = result.ranking[0]
    assert shown == f"<Result: search {result.key[:12]} on island, finished, the best {best.label!r}>"
    assert f", the best {best.label!r} with fitness {best.scores['fitness'].mean:.3f}. " in repr(result)
    assert repr(result.winner) == f"<Pipeline: {best.label}, on island>"
    assert result.verdict.words in repr(result)


def test_it_shows_itself(found: ragsmith.Result) -> None:
    assert found.ranking
    assert found.verdict.words in repr(found)
    assert "\n" not in repr(found)
    assert str(found) == found.summary
    page = found._repr_html_()
    assert page.count("<tr>") == 1 + min(10, len(found.ranking))
    assert found.ranking[0].label in page


def test_a_picture_is_shown_by_notebooks_and_is_a_page_or_a_drawing_by_itself(
    found: ragsmith.Result, tmp_path: Path
) -> None:
    picture = found.plot(path=tmp_path / "picture.html")
    page = (tmp_path / "picture.html").read_text(encoding="utf-8")
    assert "Search on island" in page
    assert "<svg " in page
    assert found.plot(path=tmp_path / "picture.svg") == picture
    drawing = ElementTree.parse(tmp_path / "picture.svg").getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    said = [title.text or "" for title in drawing.iter("{http://www.w3.org/2000/svg}title")]
    best = max(row.scores["fitness"].mean for row in found.ranking)
    assert any(text.startswith(f"search (genetic): {best:.3f} after") for text in said)
    assert picture._repr_svg_() == (tmp_path / "picture.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("chart", "shown"),
    [("trade-off", "Quality against model calls"), ("verdict", "Winner minus rival"), ("effects", "over all pairs")],
)
def test_every_chart_of_a_result_is_an_image(found: ragsmith.Result, chart: str, shown: str) -> None:
    drawing = ElementTree.fromstring(found.plot(chart)._repr_svg_())
    assert shown in drawing.attrib["aria-label"]
    assert repr(found.plot(chart)) == "SvgChart()"


def test_the_effects_in_a_chart_are_those_of_the_report(found: ragsmith.Result) -> None:
    shown = found.plot("effects").svg
    for effect in found.run_report.effects:
        assert f"{effect.family} {effect.option}: {numbers.signed(effect.gain.mean)}" in shown
        assert f"{effect.pairs} pairs" in shown


def test_a_chart_that_does_not_exist_or_has_nothing_is_a_sentence(found: ragsmith.Result) -> None:
    with pytest.raises(UsageError, match=r"unknown chart 'effect': did you mean 'effects'"):
        found.plot("effect")
    with pytest.raises(
        UsageError,
        match=r"nothing to plot as 'pairs' for this search: run  ragsmith\.ablate  on its winner",
    ):
        found.plot("pairs")


def test_interactions_are_plotted_with_their_parts() -> None:
    gain = Estimate(0.1, 0.02, 0.18, 10, 5, 0.04)
    ablation = Ablation(
        "key", "label", "island", "search", 10, (), interactions=(Interaction(("a: b", "c: d"), gain, gain, gain),)
    )
    chart = plot_interactions(ablation)
    assert chart is not None
    assert [(row.name, row.value, row.kind) for row in chart.rows] == [("a: b, c: d", 0.1, "better")]
    assert plot_interactions(None) is None


def test_winner_and_report_are_written_and_listed(found: ragsmith.Result, tmp_path: Path) -> None:
    winner = found.export(tmp_path / "winner.yaml")
    report = found.report(tmp_path / "reports")
    assert found.files[-1 - len(report) :] == (winner, *report)
    assert (tmp_path / "reports" / "island" / "index.html") in report
    assert ragsmith.verify(winner, cache=tmp_path / "other.sqlite").differences == ()


def test_any_number_of_pipelines_is_compared_in_tables_by_measure_and_by_question(
    found: ragsmith.Result, tmp_path: Path
) -> None:
    pytest.importorskip("pandas")
    winner = found.export(tmp_path / "winner.yaml")
    compared = ragsmith.compare_all(winner, "naive", "bm25", cache=tmp_path / "other.sqlite")
    means, scores = compared.to_pandas(), compared.to_pandas("questions")
    assert list(means["pipeline"]) == [str(winner), "naive", "bm25"]
    assert set(scores.groupby("question").size()) == {3}
    baselines = found.run_report.baselines
    for row, known in zip(
        means.to_dict("records"), [found.ranking[0], baselines["naive"], baselines["bm25"]], strict=True
    ):
        for name in ("fitness", "retrieval", "recall", "judge"):
            assert row[name] == pytest.approx(known.scores[name].mean)
        assert row["failed"] == 0
    with pytest.raises(UsageError, match="unknown table 'measure': did you mean 'measures'"):
        compared.to_pandas("measure")


def test_public_results_are_short_in_an_interpreter_and_tables_in_a_notebook(
    found: ragsmith.Result, tiny_folder: Path, tmp_path: Path
) -> None:
    winner, cache = found.export(tmp_path / "winner.yaml"), tmp_path / "other.sqlite"
    space = ragsmith.load_space("default")
    results: dict[str, Any] = {
        "search": found,
        "compare": ragsmith.compare(winner, "naive", cache=cache),
        "compare_all": ragsmith.compare_all(winner, "naive", "bm25", cache=cache),
        "evaluate": ragsmith.evaluate(winner, cache=cache),
        "diagnose": ragsmith.diagnose(winner, cache=cache),
        "explain": ragsmith.explain(winner, found.records()[0].text, cache=cache),
        "space": space,
    }
    parts = {
        "report": found.run_report,
        "dataset": found.setup.dataset,
        "document": found.setup.dataset.documents[0],
        "ranking": found.ranking[0],
        "recommend": ragsmith.recommend(tiny_folder),
        "winner": found.winner,
        "reply": found.winner.ask("Who steers the ferry?"),
        "check": ragsmith.check_dataset(tiny_folder),
        "gate": ragsmith.gate(winner, cache=cache),
    }
    compared = results["compare"]
    assert str(compared) == "\n".join([str(compared.table), *compared.notes])
    assert "the split 'test' has the others" in str(compared)
    for name, one in {**results, **parts}.items():
        assert len(repr(one)) < 2000, name
        assert type(one).__name__ in repr(one)
    for name, one in results.items():
        table = ElementTree.fromstring(f"<div>{one._repr_html_()}</div>").iter("table")
        assert sum(len(list(each.iter("tr"))) for each in table) > 1, name


def test_what_is_printed_is_text_that_is_not_cut(found: ragsmith.Result, tmp_path: Path) -> None:
    winner, cache = found.export(tmp_path / "winner.yaml"), tmp_path / "other.sqlite"
    explanation = ragsmith.explain(winner, found.records()[0].question, cache=cache)
    first, *lines = str(explanation).splitlines()
    assert first.split(maxsplit=1) == ["question", explanation.question]
    assert {stage.family for stage in explanation.stages} <= {line.split()[0] for line in lines}
    assert explanation.answer in str(explanation)
    shown = ElementTree.fromstring(f"<div>{explanation._repr_html_()}</div>")
    assert {"answer", "reference", "cause"} <= {str(one.text).split(":")[0] for one in shown.iter("p")}
    causes = ragsmith.diagnose(winner, cache=cache)
    assert str(causes).startswith(f"{causes.table.caption}\ncause")
    assert all(one.remedy in str(causes) for one in causes.causes)
    assert found.decision
    assert str(found.decision).startswith("take: ")
    compared = ragsmith.compare_all(winner, "naive", "bm25", cache=cache)
    assert f"verdict on {compared.pipeline}: " in str(compared)
    assert compared._repr_html_().startswith(f"<p>{compared.pipeline}: ")


def test_an_interpreter_completes_the_public_names() -> None:
    assert dir(ragsmith) == sorted(ragsmith.__all__)
