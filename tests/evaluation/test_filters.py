"""Questions with a filter are evaluated on the documents that it admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import pipeline_key
from ragsmith.evaluation.threads import ANSWER, RANKING, evaluate_job

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
