"""The JUnit XML of a gate is valid by the schemas in use, whatever its texts."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from ragsmith.assessment.gate import GateResult, GroupChange, junit, junit_error
from ragsmith.comparison.difference import difference
from ragsmith.comparison.questions import Clusters
from ragsmith.evaluation.statistics import Verdict

SCHEMA = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="testsuites"><xs:complexType><xs:sequence>
    <xs:element ref="testsuite" minOccurs="0" maxOccurs="unbounded"/>
  </xs:sequence></xs:complexType></xs:element>
  <xs:element name="testsuite"><xs:complexType><xs:sequence>
    <xs:element name="properties"><xs:complexType/></xs:element>
    <xs:element ref="testcase" minOccurs="0" maxOccurs="unbounded"/>
    <xs:element name="system-out" type="xs:string"/>
    <xs:element name="system-err" type="xs:string"/>
  </xs:sequence>
    <xs:attribute name="name" type="xs:token" use="required"/>
    <xs:attribute name="timestamp" use="required"><xs:simpleType><xs:restriction base="xs:dateTime">
      <xs:pattern value="[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"/>
    </xs:restriction></xs:simpleType></xs:attribute>
    <xs:attribute name="hostname" type="xs:token" use="required"/>
    <xs:attribute name="tests" type="xs:int" use="required"/>
    <xs:attribute name="failures" type="xs:int" use="required"/>
    <xs:attribute name="errors" type="xs:int" use="required"/>
    <xs:attribute name="time" type="xs:decimal" use="required"/>
    <xs:attribute name="id" type="xs:int" use="required"/>
    <xs:attribute name="package" type="xs:token" use="required"/>
  </xs:complexType></xs:element>
  <xs:element name="testcase"><xs:complexType><xs:choice minOccurs="0">
    <xs:element name="error" type="wrong"/>
    <xs:element name="failure" type="wrong"/>
  </xs:choice>
    <xs:attribute name="name" type="xs:token" use="required"/>
    <xs:attribute name="classname" type="xs:token" use="required"/>
    <xs:attribute name="time" type="xs:decimal" use="required"/>
  </xs:complexType></xs:element>
  <xs:complexType name="wrong"><xs:simpleContent><xs:extension base="xs:string">
    <xs:attribute name="message" type="xs:string"/>
    <xs:attribute name="type" type="xs:string" use="required"/>
  </xs:extension></xs:simpleContent></xs:complexType>
</xs:schema>
"""
"""What the schema of Ant's report and that of the Jenkins plugin both accept: the narrower of the two, everywhere."""

BETWEEN = difference([0.1] * 9, [0.5] * 9, list(range(9)))


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
        Verdict.WORSE,
        0.1,
        Clusters.alone(["q"]),
        (moved, GroupChange("other", 1, 0.5, 0.49)),
        (moved,),
        {name: name},
    )


@given(st.text(), st.booleans())
def test_any_name_makes_a_valid_file_whose_counts_are_right(name: str, passed: bool) -> None:
    text = junit(gated(name, passed=passed), seconds=1.5, now=1e9)
    etree.XMLSchema(etree.fromstring(SCHEMA)).assertValid(etree.fromstring(text.encode()))
    [suite] = ET.fromstring(text)
    assert suite.get("timestamp") == "2001-09-09T01:46:40"
    assert int(suite.get("tests", "")) == len(suite.findall("testcase")) == 3
    failed = [case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None]
    assert int(suite.get("failures", "")) == len(failed)
    assert bool(failed) is not passed
    assert "questions of type other" not in failed


@given(st.text(min_size=1))
def test_what_cannot_be_compared_is_an_error(why: str) -> None:
    text = junit_error("law", why, seconds=0.0, now=0.0)
    etree.XMLSchema(etree.fromstring(SCHEMA)).assertValid(etree.fromstring(text.encode()))
    [suite] = ET.fromstring(text)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
    assert suite.find("testcase/error") is not None
