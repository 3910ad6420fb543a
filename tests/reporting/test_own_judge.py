"""A user's own judge: what a good answer is, is decided once, and every form of a result agrees on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ragsmith
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage
from ragsmith.records.record import load_record
from ragsmith.reporting import load_report, report_json, summary_lines
from ragsmith.reporting.decision import decide
from ragsmith.reporting.rendering import report_page
from ragsmith.store.store import Store
from ragsmith.text.declining import declines


class ComparesWords:
    """Performs the judge's task itself; all answers have a score that is good for a judge that compares words."""

    id = "my judge"

    def run(self, task: Any, *, sample: int = 0, **inputs: Any) -> float:
        return 0.5

    def run_all(self, task: Any, inputs: Any) -> tuple[float, ...]:
        return tuple(0.5 for _ in inputs)


class Chats:
    """A chat model, whose score 3 of 5 is not good."""

    id = "my chat"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        return Completion("Score: 3", Usage(1, 0, 0, 500, 2, 1.0))


@pytest.mark.parametrize(("judge", "least", "good"), [(ComparesWords(), 0.25, True), (Chats(), 0.75, False)])
def test_every_form_of_a_result_agrees_on_what_a_good_answer_is(
    tmp_path: Path, tiny_folder: Path, tiny_space: Path, judge: Any, least: float, good: bool
) -> None:
    cache, winner = tmp_path / "cache.sqlite", tmp_path / "winner.yaml"
    found = ragsmith.search(
        tiny_folder,
        space=tiny_space,
        models={"judge": judge},
        population=4,
        generations=1,
        max_risk=0.9,
        chunk_size=100,
        trust_judge=True,
        workers=1,
        cache=cache,
        winner=winner,
    )
    with Store.open(cache) as store:
        record = load_record(store, found.key)
        report = load_report(store, tiny_folder.name)
    assert record is not None
    assert record.threshold == least
    decision = decide(report)
    assert decision is not None
    counts = decision.taken.counts
    assert counts is not None
    test = [one for one in report.questions.asked if one.split == "test" and one.taken and one.taken.cause]
    well = sum(one.taken.cause == "answered well" for one in test if one.taken)
    assert counts.well.right == well == (counts.well.of if good else 0)
    said = f"it answers {well} well"
    assert said in "\n".join(summary_lines(report, columns=1000))
    assert said in report_page(report)
    data = report_json(report)["decision"]
    assert (data["least_good"], data["answered_well"]["right"]) == (least, well)
    assert record.declining is not None
    assert record.declining.whole.wrong == (0 if good else record.declining.whole.answered)
    explained = ragsmith.explain(winner, test[0].question, dataset=tiny_folder, models={"judge": judge}, cache=cache)
    assert not declines(explained.answer)
    assert (explained.cause == "answered well") == good
