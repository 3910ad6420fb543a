"""A technique is explained by its own file: every sentence of its docstring, its parameters, needs and tasks."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ragsmith.cli.techniques import explained, parts
from ragsmith.techniques.families import FAMILIES, passage_filter
from ragsmith.techniques.registry import Fitting, Technique, load_techniques
from ragsmith.techniques.task_lookup import find_tasks
from ragsmith.types import Fitted, Gold, Hits, Question

Command = Callable[..., Any]

load_techniques()
EVERY = [technique for family in FAMILIES for technique in family.techniques.values()]


def test_a_docstring_is_sorted_by_how_its_sentences_begin() -> None:
    doc = parts(
        """Do something with
        ``n`` things.

        It is simple. Helps when things differ. Costs 1 call a thing, as Gao et al. do. It stops early.
        Against the paper: the sign is right. The bound is ours.

        Against the original system: nothing is lost. Helps nobody else.
        """
    )
    assert doc.summary == "Do something with ``n`` things."
    assert doc.helps == "Helps when things differ.\n\nHelps nobody else."
    assert doc.costs == "Costs 1 call a thing, as Gao et al. do."
    assert doc.against == (
        "Against the paper: the sign is right. The bound is ours.\n\nAgainst the original system: nothing is lost."
    )
    assert doc.details == "It is simple. It stops early."


def test_what_is_laid_out_by_hand_is_left_alone() -> None:
    doc = parts("Do it.\n\nBy this rule:\n    s = a + b\nCosts nothing.\n\nCosts nothing at all.")
    assert doc.details == "By this rule:\n    s = a + b\nCosts nothing."
    assert doc.costs == "Costs nothing at all."


@pytest.mark.parametrize("technique", EVERY, ids=lambda t: f"{t.family}.{t.name}")
def test_nothing_of_a_docstring_is_lost(technique: Technique) -> None:
    shown = " ".join(explained(technique)).split()
    written = (inspect.getdoc(technique.fn) or "").replace("``", "`").split()
    assert not Counter(written) - Counter(shown)
    assert all(f"{name} = {default!r}" in " ".join(shown) for name, default in technique.defaults.items())
    assert all(len(line) <= 120 for line in explained(technique))


@pytest.mark.parametrize("technique", EVERY, ids=lambda t: f"{t.family}.{t.name}")
def test_whoever_is_handed_a_language_model_asks_something(technique: Technique) -> None:
    assert bool(find_tasks(technique)) == ("language_model" in technique.tools.values())


def test_tasks_are_followed_through_the_functions_that_ask(ragsmith: Command) -> None:
    [hyde] = json.loads(ragsmith("techniques", "hyde", "--json").out)
    assert [task["name"] for task in hyde["tasks"]] == ["imagine_passage"]
    assert "{>question}" in hyde["tasks"][0]["prompt"] or "{question}" in hyde["tasks"][0]["prompt"]
    [both] = json.loads(ragsmith("techniques", "reranking.hybrid", "--json").out)
    [llm] = json.loads(ragsmith("techniques", "reranking.llm", "--json").out)
    assert both["tasks"] == llm["tasks"] != []  # it calls the other technique


def test_prompts_are_shown_on_request(ragsmith: Command) -> None:
    [prompt] = [task["prompt"] for t in json.loads(ragsmith("techniques", "hyde", "--json").out) for task in t["tasks"]]
    first = f"    | {prompt.splitlines()[0]}"
    assert first not in ragsmith("techniques", "hyde").out.splitlines()
    assert first in ragsmith("techniques", "hyde", "--prompts").out.splitlines()


def test_the_parts_stand_under_headings_of_their_own(ragsmith: Command) -> None:
    lines = ragsmith("techniques", "reflection_revising").out.splitlines()
    headings = ["Method", "When it helps", "What it costs", "Against the original", "Parameters", "Needs"]
    assert [line.strip() for line in lines if line.startswith("  ") and line.strip() in headings] == headings
    assert lines[lines.index("  What it costs") + 1].startswith("    Costs 1 call when the draft passes")
    assert lines[lines.index("  Needs") + 1] == "    language_model"
    assert "  (a search may vary it: " in ragsmith("techniques", "hybrid").out


def test_what_is_fitted_or_for_analysis_says_so(registered: Callable[..., Technique]) -> None:
    def by_gold(question: Question, hits: Hits, *, gold: Gold, fitted: Fitted) -> Hits:
        """Keep what is relevant."""
        return hits

    passage_filter(
        paper="",
        fitting=Fitting(lambda question, hits: 0, lambda observations: {}),
        after={"retrieval": ("bm25", "vector")},
    )(by_gold)
    try:
        shown = "\n".join(explained(passage_filter["by_gold"]))
    finally:
        del passage_filter.techniques["by_gold"]
    assert "retrieval bm25 or vector before it" in shown
    assert "on which it is fitted" in shown
    assert "for analysis only" in shown
    assert "    gold\n" not in shown


def test_programs_get_everything(ragsmith: Command) -> None:
    [found] = json.loads(ragsmith("techniques", "retrieval.hybrid", "--json").out)
    assert {"family", "name", "summary", "method", "paper", "helps", "costs", "against", "details", "doc"} <= set(found)
    assert (found["needs"], found["fitted"], found["analysis_only"], found["after"]) == (["embedder"], False, False, {})
    assert found["costs"] == "Costs one embedding a query."
    assert found["choices"]["fusion"] == ["convex", "rrf", "borda", "dbsf"]
