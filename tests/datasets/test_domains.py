"""Every bundled domain is valid, and `tools/domains.py` finds what is not.

Domains are found by themselves; gates are held in `tests/labelling/checking/test_gates.py`.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import domains as tool
import pytest

from ragsmith.datasets.bundled import bundled_domains, find_bundled
from ragsmith.errors import UsageError

Rows = list[dict[str, Any]]


@pytest.mark.parametrize("name", bundled_domains())
def test_everything_holds_of_each_bundled_domain(name: str) -> None:
    assert list(tool.mistakes(tool.Domain.read(find_bundled("datasets", name)))) == []


# --- a small domain, and what can be wrong with one -------------------------------------------------------------------


@pytest.fixture
def folder(tiny_folder: Path, tmp_path: Path) -> Path:
    """The island, annotated: two clusters of two documents each, the second is the test."""
    home = shutil.copytree(tiny_folder, tmp_path / "island")
    (home / "clusters.yaml").write_text("sea: [ferry, lighthouse]\nland: [market, school]\n")
    rows, notes = [], []
    for line in (home / "questions.jsonl").read_text().splitlines():
        row = json.loads(line)
        sea = row["evidence"][0]["doc"] in ("ferry", "lighthouse")
        rows.append({**row, "split": "search" if sea else "test"})
        notes.append(
            {
                "id": row["id"],
                "cluster": "sea" if sea else "land",
                "traits": [],
                "paraphrase": f"It is this: {row['answer']}",
                "wrong": "Nobody knows.",
                "wrong_kind": "confusion",
                "second_reading": {"from_spans": True, "without_documents": False},
            }
        )
    write(home, rows, notes)
    return home


def write(folder: Path, rows: Rows, notes: Rows) -> None:
    for name, listed in (("questions", rows), ("annotations", notes)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))


def read(folder: Path) -> tuple[Rows, Rows]:
    names = ("questions", "annotations")
    questions, notes = ([json.loads(line) for line in (folder / f"{n}.jsonl").read_text().splitlines()] for n in names)
    return questions, notes


def wrong(folder: Path) -> list[str]:
    """The mistakes of single questions, clusters and references: such a set is too small for its figures."""
    domain = tool.Domain.read(folder)
    figures = {one.name for one in tool.figures(domain)}
    return [said for said in tool.mistakes(domain) if said.partition(": ")[0] not in figures]


DAMAGES: list[tuple[str, str, object, list[str]]] = [
    ("question", "split", "test", ["cluster sea: its questions are in several parts"]),
    (
        "annotation",
        "cluster",
        "land",
        [
            "cluster land: its questions are in several parts",
            "ferry-1: its evidence lies in ferry, which is not in the cluster land",
        ],
    ),
    ("annotation", "cluster", "air", ["ferry-1: there is no cluster air"]),
    (
        "annotation",
        "traits",
        ["across_documents"],
        ["ferry-1: is not across documents, and its traits say otherwise"],
    ),
    ("annotation", "traits", ["unanswerable"], ["ferry-1: is not unanswerable, and its traits say otherwise"]),
    (
        "annotation",
        "wrong",
        "IT IS THIS: A",
        ["ferry-1: answer, paraphrase and wrong answer are not three different texts"],
    ),
    ("annotation", "wordings", ["When?", "When?"], ["ferry-1: its other wordings are not two or three that differ"]),
    (
        "annotation",
        "id",
        "nobody-1",
        ["ferry-1: is in questions.jsonl alone", "nobody-1: is in annotations.jsonl alone"],
    ),
]


def test_a_sound_one_has_no_mistake(folder: Path) -> None:
    assert wrong(folder) == []


@pytest.mark.parametrize(("where", "key", "value", "said"), DAMAGES)
def test_a_mistake_is_named_and_no_other(folder: Path, where: str, key: str, value: object, said: list[str]) -> None:
    rows, notes = read(folder)
    notes[0]["paraphrase"] = "It is this: A"
    (rows if where == "question" else notes)[0][key] = value
    write(folder, rows, notes)
    assert wrong(folder) == said


def test_clusters_are_lists_of_documents(folder: Path) -> None:
    (folder / "clusters.yaml").write_text("quay: [ferry, market]\nhill: [school]\n")
    assert tool.read_clusters(folder) == {"quay": ("ferry", "market"), "hill": ("school",)}
    (folder / "clusters.yaml").write_text("quay: ferry\n")
    with pytest.raises(UsageError, match=r"clusters\.yaml:1: clusters are 'name: \[document, \.\.\.\]'"):
        tool.read_clusters(folder)
    (folder / "clusters.yaml").unlink()
    assert tool.read_clusters(folder) == {}


def test_each_document_is_in_one_cluster(folder: Path) -> None:
    (folder / "clusters.yaml").write_text("sea: [ferry, lighthouse, harbour]\nland: [market, school, ferry]\n")
    assert wrong(folder) == [
        "clusters.yaml: ferry is in 2 clusters, and not in one",
        "clusters.yaml: there is no document harbour",
    ]


def test_a_large_cluster_is_divided_by_groups(folder: Path) -> None:
    rows, notes = read(folder)
    (folder / "clusters.yaml").write_text("all: [ferry, lighthouse, market, school]\n")
    everywhere = [{**note, "cluster": "all"} for note in notes]
    write(folder, rows, everywhere)
    assert wrong(folder) == [
        "cluster all: joins 4 documents, and 3 are the most",
        "cluster all: its questions are in several parts",
    ]
    write(folder, rows, [{**note, "group": note["id"].partition("-")[0]} for note in everywhere])
    assert wrong(folder) == []


def test_counts_are_held_against_what_is_asked_of_a_domain(folder: Path) -> None:
    found = {one.name: one for one in tool.figures(tool.Domain.read(folder))}
    assert (found["questions"].value, found["questions"].holds) == (24, False)
    assert (found["search questions"].value, found["test questions"].value) == (12, 12)
    assert (found["clusters"].value, found["clusters or groups tested"].value) == (2, 1)
    assert found["documents with gold"].holds
    assert found["percent factual"].value == 100


def test_what_another_reader_could_not_answer_has_to_be_read_again(folder: Path) -> None:
    rows, notes = read(folder)
    notes[0]["second_reading"] = {"from_spans": False, "without_documents": False, "mended": "evidence added"}
    notes[1]["second_reading"] = {"from_spans": True, "without_documents": True, "mended": "asks for the reason"}
    write(folder, rows, notes)
    found = {one.name: one for one in tool.figures(tool.Domain.read(folder))}
    assert found["answered from spans, first reading"].value == pytest.approx(23 / 24)
    assert found["guessed without documents, first"].value == pytest.approx(1 / 24)
    assert not found["answered from spans, latest reading"].holds
    assert not found["guessed without documents, latest"].holds
    for note in notes[:2]:
        note["third_reading"] = {"from_spans": True, "without_documents": False}
    write(folder, rows, notes)
    found = {one.name: one for one in tool.figures(tool.Domain.read(folder))}
    assert (found["answered from spans, latest reading"].value, found["guessed without documents, latest"].value) == (
        1,
        0,
    )
    assert found["answered from spans, first reading"].value == pytest.approx(23 / 24)


@pytest.mark.parametrize(
    ("name", "part", "guessed", "broken"),
    [
        ("island", "search", 1, {"guessed without documents, latest"}),
        ("law", "search", 2, set()),
        ("law", "search", 3, {"guessed without documents, latest"}),
        ("law", "test", 1, {"guessed without documents, tested"}),
    ],
)
def test_what_a_domain_is_known_not_to_hold_becomes_no_worse_and_its_test_holds_it(
    folder: Path, name: str, part: str, guessed: int, broken: set[str]
) -> None:
    (folder / "dataset.yaml").write_text((folder / "dataset.yaml").read_text().replace("island", name))
    rows, notes = read(folder)
    chosen = [note for row, note in zip(rows, notes, strict=True) if row["split"] == part][:guessed]
    for note in chosen:
        note["second_reading"] = {"from_spans": True, "without_documents": True}
    write(folder, rows, notes)
    held = {one.name for one in tool.figures(tool.Domain.read(folder)) if not one.holds}
    assert {one for one in held if one.startswith("guessed")} == broken


@pytest.mark.parametrize(
    ("sentence", "title", "holds"),
    [
        ("As section 2 of the Tolls Order says, no toll is due.", "tolls order", True),
        ("As section 7 of the Tolls Order says, no toll is due.", "tolls order", False),
        ("See DD-14, section 1, on this.", "dd-14", True),
        ("See DD-14, section 3, on this.", "dd-14", False),
        ("See section 1 below.", "", True),
        ("See section 2 below.", "", False),
    ],
)
def test_a_place_that_is_named_is_looked_up(folder: Path, sentence: str, title: str, holds: bool) -> None:
    domain = tool.Domain.read(folder)
    ferry, light, market, school = domain.data.documents
    texts = {
        ferry: ("Tolls Order", "# Tolls Order\n\n## 1 What\n\nA toll.\n\n## 2 Who\n\nNobody.\n"),
        light: ("DD-14: The lamp", "# DD-14: The lamp\n\n## Section 1. Oil\n\nWhale oil.\n"),
        market: ("The market", f"# The market\n\n## 1 Eels\n\n{sentence}\n"),
        school: (school.title, school.text),
    }
    made = tuple(replace(one, title=name, text=text) for one, (name, text) in texts.items())
    [found] = tool.references(replace(domain, data=replace(domain.data, documents=made)))
    assert (found.title, found.holds) == (title, holds)


def test_the_page_has_a_column_a_domain_and_every_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, notes = read(folder)
    write(folder, rows, notes[1:])
    assert tool.main([str(folder)]) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[0].split() == ["island", "limit"]
    assert "  ferry-1: is in questions.jsonl alone" in shown.splitlines()
    assert "gate: leakage" in shown
    assert tool.main([str(folder), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["island"]
    assert told["figures"]["questions"] == {"value": 24, "limit": "200 to 200"}
    (folder / "questions.jsonl").write_text("{\n")
    assert tool.main([str(folder)]) == 1
    assert "questions.jsonl:1" in capsys.readouterr().out


def test_a_limit_that_differs_by_domain_is_not_shown_as_that_of_all(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = []
    for name in ("law", "finance"):
        home = shutil.copytree(folder, tmp_path / name)
        (home / "dataset.yaml").write_text((home / "dataset.yaml").read_text().replace("name: island", f"name: {name}"))
        named.append(str(home))
    tool.main([*named, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert {name: one["figures"]["percent factual"]["limit"] for name, one in told.items()} == {
        "law": "21 to 25",
        "finance": "17 to 21",
    }
    tool.main(named)
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("percent factual")).endswith("by domain")
    assert next(line for line in lines if line.startswith("questions ")).endswith("200 to 200")


def test_a_gate_without_a_figure_is_null(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    tool.main([str(folder), "--json"])
    figures = json.loads(capsys.readouterr().out, parse_constant=refused)["island"]["figures"]
    assert None in [its["value"] for name, its in figures.items() if name.startswith("gate: ")]


def test_folders_of_one_name_are_told_apart_by_their_paths(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(folder, tmp_path / "other" / folder.name)
    tool.main([str(folder), str(other), "--json"])
    assert list(json.loads(capsys.readouterr().out)) == [str(folder), str(other)]


def test_an_unknown_option_is_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.main([str(folder), "--jsn"])
    assert ended.value.code == 2
    assert "--jsn" in capsys.readouterr().err
