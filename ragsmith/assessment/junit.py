"""Write the result of a gate as JUnit XML, with a test case for each question type.

The file conforms to both schemas in use, that of Ant and that of the Jenkins plugin. No case fails if the gate passes:
a type has too few questions for a verdict of its own.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime

from ragsmith.assessment.gate import GateResult, GroupChange
from ragsmith.text import numbers

SUITE = "ragsmith.gate"
VERDICT = "verdict"
"""The name of the case that fails if the gate fails."""


def junit(found: GateResult, *, seconds: float, now: float) -> str:
    """The gate as XML; it took ``seconds`` and began at ``now``, in seconds since 1970."""
    cases = [(VERDICT, "" if found.passed else found.reason, "failure")]
    for moved in found.types:
        lost = not found.passed and -moved.change > found.min_effect
        cases.append((f"questions of type {moved.name}", _describe(moved, found.of) if lost else "", "failure"))
    lines = [found.reason, *(f"{moved.name}: {_describe(moved, found.of)}" for moved in found.types)]
    lines += [f"lost {moved.name}: {_describe(moved, found.of)}" for moved in found.lost]
    lines += [f"failed {question}: {why}" for question, why in found.failures.items()]
    return _suite(found.dataset, cases, lines, seconds, now)


def junit_error(name: str, why: str, *, seconds: float, now: float) -> str:
    """The XML of a gate that could not compare, because of ``why``."""
    return _suite(name, [(VERDICT, why, "error")], [why], seconds, now)


def _describe(moved: GroupChange, of: str) -> str:
    return (
        f"{of} {numbers.plain(moved.before)} before, {numbers.plain(moved.now)} now "
        f"({numbers.signed(moved.change)}, {moved.n} question{'' if moved.n == 1 else 's'})"
    )


def _suite(
    dataset: str, cases: Sequence[tuple[str, str, str]], lines: Sequence[str], seconds: float, now: float
) -> str:
    """One suite of cases, each with its name, its problem or "", and whether that is a failure or an error."""
    wrong = {kind: sum(kind == of and bool(why) for _, why, of in cases) for kind in ("failure", "error")}
    root = ET.Element("testsuites")
    counts = {"tests": str(len(cases)), "failures": str(wrong["failure"]), "errors": str(wrong["error"])}
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    about = {"name": SUITE, "timestamp": stamp, "hostname": "localhost", "time": f"{seconds:.3f}"}
    suite = ET.SubElement(root, "testsuite", {**about, **counts, "id": "0", "package": "ragsmith"})
    ET.SubElement(suite, "properties")
    for name, why, kind in cases:
        took = seconds if name == VERDICT else 0.0
        case = ET.SubElement(
            suite, "testcase", name=_clean(name), classname=_clean(f"{SUITE}.{dataset}"), time=f"{took:.3f}"
        )
        if why:
            ET.SubElement(case, kind, message=_clean(why), type=kind).text = _clean(why)
    ET.SubElement(suite, "system-out").text = _clean("\n".join(lines))
    ET.SubElement(suite, "system-err").text = ""
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """Replace the characters that XML cannot represent."""
    return "".join(
        c
        if c in "\t\n" or (c >= " " and not 0xD800 <= ord(c) <= 0xDFFF and ord(c) not in (0xFFFE, 0xFFFF))
        else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
