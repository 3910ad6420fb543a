"""Files that were written before a technique got its name: ``nr_mrr`` has always meant what ``nr_survival`` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragsmith.effects.knowledge import SHIPPED, read
from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import baseline
from ragsmith.pipelines.genes import configuration, make_gene, read_configuration
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.families import FAMILIES, passage_filter
from ragsmith.techniques.registry import load_techniques

SPACE = """
name: old
families:
  pre_embedding: [none]
  query_expansion: [none, hyde]
  retrieval: [vector, nest]
  reranking: [none]
  passage_filter: [top_k, nr_mrr, nr_mrr: {share: 0.5}]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
constraints:
  - forbid: {query_expansion: hyde, passage_filter: nr_mrr}
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    file = tmp_path / "old.yaml"
    file.write_text(SPACE)
    return file


def test_a_space_that_says_the_former_name_is_that_of_the_new_one(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(SPACE.replace("nr_mrr", "nr_survival"))
    assert load_space(old) == load_space(new)
    assert load_space(old).feasible_size == 2 * 2 + 2  # top_k with all; the two others behind nest, and not with hyde


def test_an_option_is_left_out_by_its_former_name(old: Path) -> None:
    left = load_space(old).leaving_out(["passage_filter.nr_mrr"])
    assert [gene.technique.name for gene in left.options[4]] == ["top_k"]
    with pytest.raises(SpaceError, match="has no such option"):
        left.leaving_out(["passage_filter.nr_mrr"])


def test_a_pipeline_of_a_file_or_a_record_is_read() -> None:
    gene = make_gene("passage_filter", "nr_survival", {"share": 0.5})
    before = baseline("naive")
    written = configuration((*before[:4], gene, *before[5:]))
    written["passage_filter"]["technique"] = "nr_mrr"
    assert read_configuration(written)[4] == gene


def test_what_was_learned_of_it_is_known_by_the_new_name(tmp_path: Path) -> None:
    plain = json.loads(SHIPPED.read_text())
    spelled = "passage_filter.nr_survival"
    assert spelled in plain["options"]
    plain["options"] = [option.replace(spelled, "passage_filter.nr_mrr") for option in plain["options"]]
    plain["code"]["passage_filter.nr_mrr"] = plain["code"].pop(spelled)
    file = tmp_path / "effects.json"
    file.write_text(json.dumps(plain))
    assert read(file).observed == read().observed
    assert read(file).code == read().code


def test_no_technique_is_called_as_another_was() -> None:
    load_techniques()
    for family in FAMILIES:
        former = [name for technique in family.techniques.values() for name in technique.formerly]
        assert len(set(former)) == len(former)
        assert not set(former) & set(family.techniques)
    assert passage_filter["nr_mrr"] is passage_filter["nr_survival"]
