"""Scores a question in files, and HetDocQA's rules on numbers that are made here."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hetdocqa import Claim, Effect, Findings, benjamini_hochberg, judge, recentred_bootstrap
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from per_query import MOST_MISTAKES, PerQuery, read_per_query
from scipy import stats

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
        "line 5: expected a JSON object, found a list; write {...}",
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


DEV, TEST = 140, 363
"""Questions; the study's test split has 363."""

SYSTEMS: Mapping[str, tuple[float, float]] = {
    "worse by far": (0.05, 0.0425),
    "worse a little": (0.03, 0.0226),
    "better": (-0.04, -0.03),
    "other sign on dev": (-0.05, 0.04),
    "the same": (0.0, 0.0),
}
"""Five systems, and what the full one is better by, on dev and on test."""


def differences(n: int, mean: float, seed: int) -> NDArray[np.float64]:
    """``n`` differences of the very ``mean``; half of the questions do not differ, as in studies."""
    if mean == 0:
        return np.zeros(n)
    drawn = np.where(np.arange(n) % 2, np.random.default_rng(seed).normal(0, 0.15, n), 0.0)
    drawn[1::2] += n * mean / (n // 2) - drawn[1::2].mean()
    return drawn


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, str], NDArray[np.float64]]:
    """Full minus other by system and split."""
    return {
        (system, split): differences(n, mean, seed)
        for seed, (system, means) in enumerate(SYSTEMS.items())
        for split, n, mean in zip(("dev", "test"), (DEV, TEST), means, strict=True)
    }


@pytest.fixture(scope="module")
def numbers(made: dict[tuple[str, str], NDArray[np.float64]]) -> PerQuery:
    levels = {"dev": np.full(DEV, 0.5), "test": np.full(TEST, 0.5)}
    columns = {("full", split): level for split, level in levels.items()}
    columns |= {(system, split): levels[split] - found for (system, split), found in made.items()}
    return PerQuery(
        {
            key: {"ndcg_10": {f"q{i}": float(value) for i, value in enumerate(column)}}
            for key, column in columns.items()
        },
        ("ndcg_10",),
    )


@pytest.fixture(scope="module")
def found(numbers: PerQuery) -> Findings:
    return judge(numbers)


def by_system(found: Findings) -> dict[str, Effect]:
    return {effect.system: effect for effect in found.effects}


def test_five_differences_and_intervals_are_those_of_the_published_recipe(
    found: Findings, made: dict[tuple[str, str], NDArray[np.float64]]
) -> None:
    assert found.full == "full"
    assert found.family == len(found.effects) == 5
    for effect in found.effects:
        for split, tested in (("dev", effect.dev), ("test", effect.test)):
            d = made[effect.system, split]
            means = d[np.random.default_rng(0).integers(0, len(d), (10_000, len(d)))].mean(axis=1)
            p = max(float((np.abs(means - means.mean()) >= abs(d.mean()) - 1e-15).mean()), 1e-4)
            assert tested.difference == pytest.approx(
                dict(zip(("dev", "test"), SYSTEMS[effect.system], strict=True))[split]
            )
            assert (tested.low, tested.high) == pytest.approx(tuple(np.percentile(means, [2.5, 97.5])), abs=1e-12)
            assert tested.p == pytest.approx(p, abs=2e-4)
            assert tested.n == len(d)


def test_p_is_adjusted_over_all_comparisons_of_a_measure(found: Findings) -> None:
    expected = stats.false_discovery_control([effect.test.p for effect in found.effects], method="bh")
    assert [effect.adjusted_p for effect in found.effects] == pytest.approx(list(expected))


def test_a_claim_needs_the_same_sign_on_dev_and_test(found: Findings) -> None:
    effects = by_system(found)
    assert {system: effect.claim for system, effect in effects.items()} == {
        "worse by far": Claim.HELPS,
        "worse a little": Claim.HELPS,
        "better": Claim.HARMS,
        "other sign on dev": Claim.NOT_SHOWN,
        "the same": Claim.INERT,
    }
    assert effects["other sign on dev"].why_not == ("the signs on dev and test are not the same",)
    assert effects["the same"].test.nonzero == 0


def test_more_comparisons_make_a_claim_harder() -> None:
    rng = np.random.default_rng(3)
    d = rng.normal(0, 1, 40)
    d += 0.4 - d.mean()  # p about 0.03
    zero = dict.fromkeys(map(str, range(40)), 0.0)

    def against(idle: int) -> Effect:
        worse = {str(i): -float(value) for i, value in enumerate(d)}
        systems = {"full": zero, "less": worse, **{f"idle {i}": zero for i in range(idle)}}
        values = {(name, split): {"f1": its} for name, its in systems.items() for split in ("dev", "test")}
        return judge(PerQuery(values, ("f1",))).effects[0]

    assert against(0).claim is Claim.HELPS
    assert against(9).claim is Claim.NOT_SHOWN
    assert "after Benjamini and Hochberg" in against(9).why_not[0]


def test_a_question_without_a_value_is_left_out_and_counted(numbers: PerQuery) -> None:
    values = dict(numbers.values)
    kept = {query: value for query, value in values["better", "test"]["ndcg_10"].items() if query not in ("q3", "q9")}
    values["better", "test"] = {"ndcg_10": kept}
    test = by_system(judge(PerQuery(values, numbers.measures)))["better"].test
    assert (test.n, test.left_out) == (TEST - 2, 2)


def test_what_cannot_be_judged_is_said(numbers: PerQuery) -> None:
    with pytest.raises(UsageError, match="'ful'"):
        judge(numbers, "ful")
    only = {key: its for key, its in numbers.values.items() if key[0] == "full"}
    with pytest.raises(UsageError, match="compares it with systems that lack a part"):
        judge(PerQuery(only, numbers.measures))
    undeveloped = {
        key: its for key, its in numbers.values.items() if key not in [("better", "dev"), ("the same", "test")]
    }
    with pytest.raises(
        UsageError, match=r"better and full share no question of dev .*; the same and full share no .* test"
    ):
        judge(PerQuery(undeveloped, numbers.measures))
    with pytest.raises(UsageError, match="no numbers"):
        judge(PerQuery({}, ()))


def test_few_differences_have_a_p_by_sign_flips_beside_the_study_s() -> None:
    """Three questions of 363 that differ: resampling says far less than half, and no pattern of three signs can."""
    d = np.zeros(TEST)
    d[[5, 77, 300]] = 0.4, 0.3, 0.2
    assert recentred_bootstrap(d, np.zeros(TEST)) < 0.2
    values = {
        (name, split): {"f1": {str(i): float(value) for i, value in enumerate(column)}}
        for split in ("dev", "test")
        for name, column in (("full", d), ("less", np.zeros(TEST)))
    }
    assert judge(PerQuery(values, ("f1",))).effects[0].test.sign_flip_p == 0.25


PVALUES = st.lists(st.integers(0, 100).map(lambda n: n / 100), max_size=8)


@given(PVALUES)
def test_benjamini_and_hochberg_agree_with_scipy(pvalues: list[float]) -> None:
    expected = stats.false_discovery_control(pvalues, method="bh") if pvalues else []
    assert benjamini_hochberg(pvalues) == pytest.approx(tuple(expected))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=2, max_size=30), st.integers(0, 5))
def test_the_recentred_p_is_the_published_recipe(differences: list[int], seed: int) -> None:
    d = np.array(differences, dtype=float)
    means = d[np.random.default_rng(seed).integers(0, len(d), (2_000, len(d)))].mean(axis=1)
    centred = np.abs(means - means.mean())
    least = max(float((centred >= abs(d.mean()) + 1e-9).mean()), 1 / 2_000)
    most = max(float((centred >= abs(d.mean()) - 1e-9).mean()), 1 / 2_000)
    assert least <= recentred_bootstrap(d, np.zeros(len(d)), resamples=2_000, seed=seed) <= most


def test_the_recentred_p_is_never_nothing_and_1_without_a_difference() -> None:
    assert recentred_bootstrap([1.0] * 30, [0.0] * 30) == 1e-4
    assert recentred_bootstrap([0.5] * 30, [0.5] * 30) == 1.0
