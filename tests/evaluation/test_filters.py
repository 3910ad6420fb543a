"""Questions with a filter are evaluated on the documents that it admits."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key, pipeline_key, ranking_key, retrieval_key
from ragsmith.evaluation.threads import ANSWER, RANKING, evaluate_job
from ragsmith.pipelines.genes import make_gene
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run_context import run_key

ROWS = (
    '{"id": "old", "question": "What is the rent of the mill?", "answer": "300 crowns"%s}\n',
    '{"id": "new", "question": "What is the rent of the mill?", "answer": "400 crowns"%s}\n',
)


def deeds(folder: Path, *filters: str) -> Path:
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: deeds\nfields: {signed: date}\n")
    for year, rent in ((2019, 300), (2023, 400)):
        text = f"---\nsigned: {year}-02-01\n---\n# Lease of the mill\n\nThe rent of the mill is {rent} crowns.\n"
        (folder / "documents" / f"lease-{year}.md").write_text(text)
    rows = [row % (f', "filter": "{where}"' if where else "") for row, where in zip(ROWS, filters, strict=True)]
    (folder / "questions.jsonl").write_text("".join(rows))
    return folder


@pytest.mark.parametrize("part", [ANSWER, RANKING])
def test_a_question_is_answered_and_ranked_from_what_its_filter_admits(
    tmp_path: Path, techniques: None, part: str
) -> None:
    setup = Experiment(load_dataset(deeds(tmp_path / "d", "signed<2020-01-01", "signed>=2020-01-01")))
    engine, candidate = setup.engine(), baseline("naive")
    for id_, year, rent in (("old", 2019, "300 crowns"), ("new", 2023, "400 crowns")):
        done = evaluate_job(engine, setup, candidate, (0, id_), part)
        assert done.ok
        assert {chunk.split("#")[0] for chunk in done.value["retrieved"]} == {f"lease-{year}"}
        if part == ANSWER:
            assert rent in done.value["answer"]


def test_keys_change_with_the_filter_of_a_question_only(tmp_path: Path, techniques: None) -> None:
    def key(name: str, *filters: str) -> str:
        setup = Experiment(load_dataset(deeds(tmp_path / name, *filters)))
        return pipeline_key(setup, baseline("naive"))

    plain, filtered = key("a", "", ""), key("b", "signed<2020-01-01", "")
    assert len({plain, filtered, key("c", "signed<2021-01-01", "")}) == 3
    assert key("d", "", "") == plain
    assert key("e", "signed before 2020-01-01", "") == filtered


def test_keys_of_a_pipeline_that_proposes_filters_change_with_the_fields_of_documents(
    tmp_path: Path, techniques: None
) -> None:
    first = Experiment(load_dataset(deeds(tmp_path / "a", "", "")))
    moved = tuple(replace(document, fields={"signed": date(2020, 1, 1)}) for document in first.dataset.documents)
    other = replace(first, dataset=replace(first.dataset, documents=moved))
    plain = baseline("naive")
    proposing = (plain[0], make_gene("query_expansion", "self_query"), *plain[2:])
    for key in (pipeline_key, evaluation_key, ranking_key, retrieval_key):
        assert key(first, plain) == key(other, plain)
        assert key(first, proposing) != key(other, proposing)
        assert key(first, proposing) == key(replace(first), proposing)


def test_the_key_of_a_run_changes_with_the_fields_if_its_space_proposes_filters(
    tmp_path: Path, techniques: None
) -> None:
    first = Experiment(load_dataset(deeds(tmp_path / "a", "", "")))
    bare = tuple(replace(document, fields={}) for document in first.dataset.documents)
    other = replace(first, dataset=replace(first.dataset, documents=bare))
    space = load_space("paper")
    expansions = (*space.options[1], make_gene("query_expansion", "self_query"))
    proposing = replace(space, options=(space.options[0], expansions, *space.options[2:]))
    assert run_key(first, space, RunSettings()) == run_key(other, space, RunSettings())
    assert run_key(first, proposing, RunSettings()) != run_key(other, proposing, RunSettings())
