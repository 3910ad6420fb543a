"""Whether what SRR and CRAG decide by default tells anything, on search questions of a bundled domain."""

import pytest
from controllers import Judgements, auc, judge, measure_worth

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.experiment import Experiment
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.query_expansion.crag import solve


@pytest.fixture(scope="module")
def law() -> Experiment:
    return Experiment(load_dataset("law"))


@pytest.fixture(scope="module")
def judgements(law: Experiment) -> Judgements:
    return judge(law, "vector")


def test_the_fitted_threshold_of_crag_tells_hits_with_gold_from_others(judgements: Judgements) -> None:
    lower = solve(judgements.crag)["lower"]
    low = [label for value, label in judgements.crag if value < lower]
    assert auc(judgements.crag) > 0.75
    assert 0.15 < len(low) / len(judgements.crag) < 0.5
    assert sum(low) < len(low) / 2


def test_the_stopping_rule_of_srr_tells_nothing_and_is_not_in_the_default_space(judgements: Judgements) -> None:
    assert sum(value < 0.1 for value, _ in judgements.changes) <= len(judgements.changes) / 50
    assert auc(judgements.changes) < 0.6
    genes = [gene for options in load_space("default").options for gene in options]
    [default] = [gene for gene in genes if gene.technique.name == "srr"]
    assert default.parameters["reformulations"] == 1  # so that no search is between the first and the last
    assert default.learns


def test_what_crag_decides_changes_rankings(law: Experiment) -> None:
    [found] = measure_worth(law, "vector", ["crag, fitted"])
    assert found.others >= 3
    assert found.change > 0
