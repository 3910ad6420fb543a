"""The JUnit XML of a gate is valid by the schemas in use, whatever its texts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from ragsmith.assessment.gate import GateResult, GroupChange, to_junit, to_junit_error
from ragsmith.comparison.difference import compute_difference
from ragsmith.comparison.questions import Clusters
from ragsmith.evaluation.statistics import Verdict

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))
"""What the schema of Ant's report and that of the Jenkins plugin both accept: the narrower of the two, everywhere."""

BETWEEN = compute_difference([0.1] * 9, [0.5] * 9, list(range(9)))


def gated(name: str, *, passed: bool, n: int = 9) -> GateResult:
    moved = GroupChange(name, n, 0.5, 0.1)
    return GateResult(
        passed,
        f"fails: {name}",
        "winner.yaml",
        "base.yaml",
        name,
        0.02,
        0.5,
        0.1,
        BETWEEN,
        BETWEEN.p,
        Verdict.NO_DIFFERENCE if passed else Verdict.WORSE,
        0.1,
        Clusters.singletons(["q"]),
        (moved, GroupChange("other", 1, 0.5, 0.49)),
        (moved,),
        {name: name},
    )


@given(st.text(), st.booleans())
def test_any_name_makes_a_valid_file_whose_counts_are_right(name: str, passed: bool) -> None:
    text = to_junit(gated(name, passed=passed), seconds=1.5, now=1e9)
    SCHEMA.assertValid(etree.fromstring(text.encode()))
    [suite] = ET.fromstring(text)
    assert suite.get("timestamp") == "2001-09-09T01:46:40"
    assert int(suite.get("tests", "")) == len(suite.findall("testcase")) == 3
    failed = [case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None]
    assert int(suite.get("failures", "")) == len(failed)
    assert bool(failed) is not passed
    assert "questions of type other" not in failed


@given(st.text(min_size=1))
def test_what_cannot_be_compared_is_an_error(why: str) -> None:
    text = to_junit_error("law", why, seconds=0.0, now=0.0)
    SCHEMA.assertValid(etree.fromstring(text.encode()))
    [suite] = ET.fromstring(text)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
    assert suite.find("testcase/error") is not None
