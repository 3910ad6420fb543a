"""What a gate says, as the JUnit XML that systems for continuous integration show: a test case for each question type.

The file has what both schemas in use ask for, that of Ant and that of the Jenkins plugin: attributes that one of them
requires are there, and nothing that the other forbids. No case fails where the gate is open: a type has too few
questions to say by itself that anything is worse.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime

from ragsmith.assessment.gate import GateResult, GroupChange
from ragsmith.text import numbers

SUITE = "ragsmith.gate"
VERDICT = "verdict"
"""The name of the case that fails whenever the gate is shut."""


def junit(found: GateResult, *, seconds: float, now: float) -> str:
    """The gate as XML; it took ``seconds`` and began ``now``, in seconds since 1970."""
    cases = [(VERDICT, "" if found.passed else found.reason, "failure")]
    for moved in found.types:
        lost = not found.passed and -moved.change > found.min_effect
        cases.append((f"questions of type {moved.name}", _said(moved, found.of) if lost else "", "failure"))
    lines = [found.reason, *(f"{moved.name}: {_said(moved, found.of)}" for moved in found.types)]
    lines += [f"lost {moved.name}: {_said(moved, found.of)}" for moved in found.lost]
    lines += [f"failed {question}: {why}" for question, why in found.failures.items()]
    return _suite(found.dataset, cases, lines, seconds, now)


def junit_error(name: str, why: str, *, seconds: float, now: float) -> str:
    """The same where nothing could be compared."""
    return _suite(name, [(VERDICT, why, "error")], [why], seconds, now)


def _said(moved: GroupChange, of: str) -> str:
    return (
        f"{of} {numbers.plain(moved.before)} before, {numbers.plain(moved.now)} now "
        f"({numbers.signed(moved.change)}, {moved.n} question{'' if moved.n == 1 else 's'})"
    )


def _suite(
    dataset: str, cases: Sequence[tuple[str, str, str]], lines: Sequence[str], seconds: float, now: float
) -> str:
    """One suite of cases, each with its name, what is wrong with it, if anything is, and what kind of wrong it is."""
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
    """Text without the characters that XML has no way to write."""
    return "".join(
        c
        if c in "\t\n" or (c >= " " and not 0xD800 <= ord(c) <= 0xDFFF and ord(c) not in (0xFFFE, 0xFFFF))
        else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )
