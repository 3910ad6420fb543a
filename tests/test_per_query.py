from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from per_query import MOST_MISTAKES, read_per_query

from ragsmith.errors import DatasetError, UsageError

NUMBERS = st.one_of(st.none(), st.floats(-1, 1), st.integers(0, 1))
ROWS = st.dictionaries(
    st.tuples(
        st.sampled_from(["q1", "q2", "ß 3"]), st.sampled_from(["full", "a, b"]), st.sampled_from(["dev", "test"])
    ),
    st.fixed_dictionaries({"ndcg_10": NUMBERS, "token_f1": NUMBERS}),
    min_size=1,
)


@given(rows=ROWS)
def test_both_kinds_of_files_say_the_same(rows: dict[tuple[str, str, str], dict[str, float | None]]) -> None:
    import tempfile  # noqa: PLC0415  a folder for each example

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records = [dict(zip(("query", "system", "split"), key, strict=True)) | its for key, its in rows.items()]
        lines = "\n".join(json.dumps(record) for record in records)
        (folder / "numbers.jsonl").write_text(lines, encoding="utf-8")
        with (folder / "numbers.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
        found = read_per_query(folder / "numbers.jsonl")
        assert read_per_query(folder / "numbers.csv") == found
    assert set(found.measures) == {"ndcg_10", "token_f1"}
    for (query, system, split), its in rows.items():
        for measure, value in its.items():
            assert found.of(system, split, measure).get(query) == value  # what is not there is no 0


def test_every_mistake_is_listed_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "numbers.jsonl"
    path.write_text(
        "\n".join(
            [
                '{"query": "q1", "system": "full", "split": "test", "ndcg_10": 0.5}',
                '{"query": "q1", "system": "full", "split": "test", "ndcg_10": 0.6}',
                '{"query": "q2", "system": "full", "split": "train", "ndcg_10": 0.5}',
                '{"query": "q3", "system": "full", "ndcg_10": "high"}',
                "[1, 2]",
                '{"query": "q4", "system": " ", "split": "dev", "ndcg_10": true}',
                '{"query": "q5", "system": "full", "split": "dev", "ndcg_10": 1e999}',
            ]
        )
    )
    with pytest.raises(DatasetError) as raised:
        read_per_query(path)
    assert [mistake.removeprefix(f"{path}: ") for mistake in raised.value.mistakes] == [
        "line 2: q1 of full on test stands in line 1 already",
        "line 3: the split is 'train': it is dev or test",
        "line 4: 'split' is missing",
        "line 4: 'ndcg_10' is 'high': a measure is a number, or nothing",
        "line 5: a list stands here instead of a JSON object; write {...}",
        "line 6: 'system' is blank; write it",
        "line 6: 'ndcg_10' is a boolean: a measure is a number, or nothing",
        "line 7: 'ndcg_10' is inf: a measure is a finite number, or nothing",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("numbers.txt", "", r"read from a \.csv or a \.jsonl file"),
        ("absent.csv", None, "cannot be read"),
        ("numbers.csv", "", "there is no column 'query'"),
        ("numbers.csv", "query,system,split\nq1,full,dev\n", "it has no values"),
        ("numbers.csv", "query,system,split,f1,f1\nq1,full,dev,1,1\n", "the column 'f1' is there twice"),
        ("numbers.csv", "query,system,split,f1\nq1,full,dev\n", "line 2: has 3 cells, and the head has 4"),
        ("numbers.csv", "query,system,split,f1\nq1,full,dev,nan\n", "line 2: 'f1' is nan"),
        ("numbers.jsonl", "", "it has no values"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        read_per_query(tmp_path / name)


def test_of_many_mistakes_the_first_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("query,system,split,f1\n" + "q,full,dev,much\n" * 50)
    with pytest.raises(DatasetError) as raised:
        read_per_query(path)
    assert len(raised.value.mistakes) == MOST_MISTAKES + 1
    assert raised.value.mistakes[-1].endswith("and 30 more mistakes")
