"""The audit: every option alone against the same pipeline without it, on search questions only."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.models.loading import ModelNames
from ragsmith.pipelines.genes import make_gene
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.audit import Audit, OptionFinding, PairFinding
from ragsmith.reporting.audit import audit_markdown
from ragsmith.runs.audit import audit, option_pairs, sample_questions
from ragsmith.store.rows import _checksum
from ragsmith.store.store import Store
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.registry import Technique
from ragsmith.types import Hits, Question

SPACE = """
name: some
families:
  pre_embedding: [none]
  query_expansion: [none, hyde, iterative]
  retrieval: [vector, nest]
  reranking: [none]
  passage_filter: [top_k, top_k: {k: 60}, top_k: {k: 61}, nr_survival, sscc]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""


@pytest.fixture(scope="module")
def audited(tiny_setup: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("audit")
    (folder / "some.yaml").write_text(SPACE)
    with Store.open(folder / "cache.sqlite") as store:
        return audit(tiny_setup, load_space(folder / "some.yaml"), store, sample_questions(tiny_setup, 12))


@pytest.fixture
def findings(audited: Audit) -> dict[str, OptionFinding]:
    return {finding.option: finding for finding in audited.findings}


@pytest.fixture
def pairs(audited: Audit) -> dict[frozenset[str], PairFinding]:
    return {frozenset((pair.one, pair.other)): pair for pair in audited.pairs}


def test_every_option_that_naive_rag_lacks_is_tried(findings: dict[str, OptionFinding]) -> None:
    ours = {name for name, finding in findings.items() if not finding.analysis_only}
    assert ours == {"hyde", "iterative", "nest", "top_k(k=60)", "top_k(k=61)", "nr_survival", "sscc"}
    assert all(finding.compared == 12 and finding.failed == 0 for finding in findings.values())


def test_what_an_option_changes_and_costs_is_counted(findings: dict[str, OptionFinding]) -> None:
    assert findings["hyde"].activity == 1
    assert findings["hyde"].calls == 1  # one imagined passage
    assert findings["sscc"].calls == 0
    assert findings["hyde"].fitness is not None
    assert findings["hyde"].fitness.low <= findings["hyde"].fitness.mean_difference <= findings["hyde"].fitness.high


def test_every_two_options_of_a_family_are_compared(audited: Audit) -> None:
    sizes = [3, 2, 5]  # of the families that have a choice
    assert len(audited.pairs) == sum(size * (size - 1) // 2 for size in sizes)
    assert all(pair.compared == 12 for pair in audited.pairs)


def test_options_that_never_differ_are_named(audited: Audit, pairs: dict[frozenset[str], PairFinding]) -> None:
    same = pairs[frozenset(("top_k(k=60)", "top_k(k=61)"))]  # there are not so many candidates
    assert (same.output, same.result, same.alike) == (0, 0, True)
    other = pairs[frozenset(("none", "hyde"))]
    assert other.output == 1
    assert not other.alike
    said = audit_markdown([audited])
    assert "| passage_filter | top_k(k=60) | top_k(k=61) | " in said
    assert "| none | hyde |" not in said


def test_a_stored_result_that_lacks_a_stage_is_compared_in_the_others(tiny_setup: Experiment, tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_text(SPACE.replace("[none, hyde, iterative]", "[none]"))
    space, cache = load_space(tmp_path / "some.yaml"), tmp_path / "cache.sqlite"
    for _ in range(2):
        with Store.open(cache) as store:
            found = audit(tiny_setup, space, store, sample_questions(tiny_setup, 2))
        with closing(sqlite3.connect(cache)) as connection:
            for *keys, state, value, attempts, _ in connection.execute("SELECT * FROM result").fetchall():
                forged = json.loads(value)
                forged["stages"].pop("passage_filter", None)
                row = [*keys, state, json.dumps(forged, sort_keys=True, separators=(",", ":")), attempts]
                connection.execute("REPLACE INTO result VALUES (?, ?, ?, ?, ?, ?)", [*row, _checksum("result", row)])
            connection.commit()
    assert {pair.output for pair in found.pairs if pair.family == "passage_filter"} == {0}
    assert all(pair.compared == 2 for pair in found.pairs)


def test_two_options_are_compared_where_both_can_stand(tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(SPACE)
    for trial in option_pairs(load_space(path)):
        retrieval = {str(pipeline[2]) for pipeline in trial.pipelines}
        if "nr_survival" in trial.names:
            assert retrieval == {"nest"}
        elif trial.family != "retrieval":
            assert retrieval == {"vector"}


def _audit_of(dataset: str, *pairs: PairFinding) -> Audit:
    return Audit(dataset, "some", 10, {"language_model": "a", "embedder": "b"}, (), pairs)


def test_over_several_data_sets_a_pair_is_told_apart_by_one_of_them() -> None:
    def pair(one: str, output: float, result: float) -> PairFinding:
        return PairFinding("reranking", one, "z", 10, output, result)

    audits = [
        _audit_of("sea", pair("never", 0.2, 0), pair("somewhere", 0, 0), pair("always", 1, 1)),
        _audit_of("land", pair("never", 0, 0), pair("somewhere", 0.5, 0.3), pair("always", 1, 0.1)),
    ]
    said = audit_markdown(audits)
    table = said[said.index("## Pairs of options over all data sets") :]
    assert "1 differ on every data set in passages or answers, 1 on some, 1 on none" in table
    assert "| reranking | never | z | 20 % / 0 % | 0 % / 0 % | never |\n" in table
    assert "| reranking | somewhere | z | 0 % / 0 % | 50 % / 30 % | yes |\n" in table
    assert "always" not in table
    assert "| reranking | never | z | 20 % |\n" in said


def test_options_that_read_the_gold_are_tried_and_are_not_in_the_family_of_tests(
    findings: dict[str, OptionFinding],
) -> None:
    oracles = [finding for finding in findings.values() if finding.analysis_only]
    assert oracles
    assert all(finding.p is None for finding in oracles)
    assert all(finding.p is not None for finding in findings.values() if not finding.analysis_only)


def test_the_sample_is_of_search_questions_and_depends_on_the_seed_alone(tiny_setup: Experiment) -> None:
    search = set(tiny_setup.calibration)
    drawn = sample_questions(tiny_setup, 5, seed=1)
    assert len(drawn) == 5
    assert set(drawn) <= search
    assert sample_questions(tiny_setup, 5, seed=1) == drawn != sample_questions(tiny_setup, 5, seed=2)
    assert set(sample_questions(tiny_setup, 10_000)) == search
    with pytest.raises(UsageError, match="at least 1"):
        sample_questions(tiny_setup, 0)


def test_an_option_whose_model_is_missing_is_refused(tiny_setup: Experiment, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(SPACE.replace("reranking: [none]", "reranking: [none, cross_encoder, hybrid]"))
    without = Experiment(tiny_setup.dataset, ModelNames(cross_encoder="none"), tiny_setup.chunk_size)
    with pytest.raises(UsageError) as refusal:
        audit(without, load_space(path), store, sample_questions(without, 3))
    assert str(refusal.value) == (
        "reranking.cross_encoder and reranking.hybrid need a cross-encoder and this run has none: name a reranker "
        "(--reranker late_interaction is embedded and needs nothing), or leave the options out of the space"
    )
    assert store.statistics()["tables"]["result"]["rows"] == 0


def test_an_option_that_failed_on_a_question_is_compared_on_the_others(
    tiny_setup: Experiment, registered: Callable[..., Technique], store: Store
) -> None:
    questions = sample_questions(tiny_setup, 12)
    bad = {example.question for example in questions[:2]}

    def failing(question: Question, hits: Hits) -> Hits:
        """Keep four, or fail."""
        if question.text in bad:
            raise LookupError("no luck")
        return hits[:4]

    failing.__name__ = "unsteady"
    registered(passage_filter, failing)
    space = load_space("quick")
    places = [options[:1] for options in space.options]
    places[4] = (*places[4], make_gene("passage_filter", "unsteady"))
    narrow = replace(space, options=tuple(places))

    def found() -> OptionFinding:
        findings = audit(tiny_setup, narrow, store, questions).findings
        return next(one for one in findings if one.option == "unsteady")

    assert found().fitness is None  # a tenth is what it may fail on
    bad.discard(questions[0].question)
    finding = found()
    assert finding.fitness is not None
    assert (finding.fitness.n, finding.failed) == (11, 1)
    said = audit_markdown([Audit("tiny", "some", 12, {"language_model": "a", "embedder": "b"}, (finding,))])
    assert "0.000 [0.000, 0.000] (n 11) |" in said
