"""No two classes of the package have the same name, so that a search for a name finds one thing."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import ragsmith

TWICE = set(
    """
    Activity Answered Asked Batch Block Changes Checked Choice Corpus Difference Draft Entry
    Feedback Finding Found Gold Held Kept Kind Language Line Look OptionEffect Outcome Page
    Paragraph Part Passage Piece PipelineRetriever Placed Plan Pooled Prompt Quote Reading Refused
    Replies Request Scores Section Source State Table Timing Unusable Variances Window Work _Client
    _Found _Line _Reader _Refused _Server _View
    """.split()
)
"""Names that more than one module uses still: it may only shrink."""


def test_no_class_name_is_used_twice_but_for_those_that_are_still_to_be_renamed() -> None:
    modules = Path(ragsmith.__file__).parent.rglob("*.py")
    names = Counter(
        node.name
        for module in modules
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == TWICE
