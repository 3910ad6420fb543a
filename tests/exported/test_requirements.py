"""An option whose model is missing is refused before a search starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from published import read

from ragsmith.datasets.bundled import bundled_domains
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import MissingExtra, SpaceError, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import refuse_missing_packages, refuse_too_large, searchable_space
from ragsmith.extensions import Package
from ragsmith.models.loading import ModelNames
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, Gene, make_gene
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.plan import plan
from ragsmith.runs.run import Run
from ragsmith.store.store import Store
from ragsmith.strategies import STRATEGIES
from ragsmith.techniques.registry import Technique
from ragsmith.types import Chunks, Entries


def test_a_search_is_refused_before_anything_is_computed(tiny_setup: Experiment, store: Store) -> None:
    without = Experiment(tiny_setup.dataset, ModelNames(cross_encoder="none"), tiny_setup.chunk_size)
    with pytest.raises(UsageError, match=r"^reranking.cross_encoder and reranking.hybrid need a cross-encoder"):
        Run(without, load_space("paper"), store).go()
    assert store.runs() == []


def test_a_plan_refuses_what_a_search_refuses_in_the_same_sentence(
    tiny_setup: Experiment, space: Space, store: Store
) -> None:
    data = tiny_setup.dataset
    unanswered = replace(data, examples=tuple(replace(example, answer="") for example in data.examples))
    wrong = (
        (Experiment(data, ModelNames(cross_encoder="none"), tiny_setup.chunk_size), load_space("paper")),
        (Experiment(unanswered, ModelNames(), tiny_setup.chunk_size), space),
    )
    for setup, searched in wrong:
        with pytest.raises(UsageError) as refused:
            Run(setup, searched, store)
        with pytest.raises(UsageError) as planned:
            plan(setup, searched, store)
        assert str(planned.value) == str(refused.value)
    ranking = RunSettings(fitness=Fitness().with_objective("retrieval"))
    assert plan(wrong[1][0], space, store, ranking).made == "rankings"


@pytest.mark.parametrize("strategy", [known.name for known in STRATEGIES])
def test_a_plan_knows_the_budget_of_every_strategy(tiny_setup: Experiment, store: Store, strategy: str) -> None:
    paper = load_space("paper")
    objectives = ("quality", "calls") if strategy == "nsga2" else ("quality",)
    racing = None if strategy == "nsga2" else Racing()
    settings = RunSettings(strategy=strategy, probes=False, objectives=objectives, racing=racing)
    whole = paper.feasible_size if strategy == "exhaustive" else 100
    assert plan(tiny_setup, paper, store, settings).about_pipelines == whole + 2
    few = replace(settings, max_evaluations=7)
    assert plan(tiny_setup, paper, store, few).about_pipelines == 7 + 2


def test_a_plan_has_no_more_pipelines_than_the_space(tiny_setup: Experiment, space: Space, store: Store) -> None:
    settings = RunSettings(strategy="random", max_evaluations=1_000_000, probes=False)
    assert plan(tiny_setup, space, store, settings).about_pipelines == space.feasible_size + 2


def written(tmp_path: Path, **options: str) -> Path:
    families = {
        "pre_embedding": "[none]",
        "query_expansion": "[none]",
        "retrieval": "[vector, nest]",
        "reranking": "[none]",
        "passage_filter": "[top_k, nr_survival]",
        "passage_augment": "[none]",
        "passage_compress": "[none]",
        "prompt_maker": "[listing]",
        "post_generation": "[none]",
    } | options
    path = tmp_path / "space.yaml"
    path.write_text("families:\n" + "".join(f"  {family}: {listed}\n" for family, listed in families.items()))
    return path


def test_what_has_to_come_after_something_is_never_proposed_without_it(tmp_path: Path) -> None:
    space = load_space(written(tmp_path))
    assert (space.size, space.feasible_size) == (4, 3)
    for genome in space.genomes():
        names = [gene.technique.name for gene in space.candidate(genome)]
        assert "nr_survival" not in names or "nest" in names
    alone = tuple(options[-1] if i == 4 else options[0] for i, options in enumerate(space.options))
    assert not space.allows(alone)
    assert not space.is_feasible(space.genome(alone))


def test_a_space_that_lacks_what_an_option_needs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match=r"space.yaml:\d+: nr_survival needs retrieval nest, which the space lacks"):
        load_space(written(tmp_path, retrieval="[vector]"))


def test_a_technique_that_reads_the_gold_is_in_no_space(tmp_path: Path) -> None:
    with pytest.raises(
        SpaceError,
        match=r"space.yaml:\d+: oracle_router reads the gold labels, so no pipeline may contain it: `ragsmith audit`",
    ):
        load_space(written(tmp_path, query_expansion="[none, oracle_router]"))
    everything = load_space(written(tmp_path, query_expansion="all"))
    assert "oracle_router" not in {gene.technique.name for gene in everything.options[1]}


def test_an_option_whose_package_is_missing_is_refused() -> None:
    def unfounded(chunks: Chunks, *, way: str = "plain") -> Entries:
        """Index nothing."""
        return ()

    needed = {"way": {"hard": Package("no_such_module", "no-such-package", "hard")}}
    technique = Technique("pre_embedding", unfounded, "", {"way": ("plain", "hard")}, packages=needed)
    refuse_missing_packages([Gene(technique, {"way": "plain"})])
    with pytest.raises(MissingExtra, match=r"no-such-package is not installed: run  pip install 'ragsmith\[hard\]'"):
        refuse_missing_packages([Gene(technique, {"way": "plain"}), Gene(technique, {"way": "hard"})])


def test_options_that_are_not_for_so_many_chunks_are_refused_all_at_once() -> None:
    genes = [make_gene("retrieval", name) for name in ("vector", "graph", "graph_ppr")]
    refuse_too_large(genes, 300_000)
    refuse_too_large(genes[:1], 10**9)
    with pytest.raises(UsageError) as refused:
        refuse_too_large(genes, 300_001)
    assert str(refused.value) == (
        "the collection has 300,001 chunks, and retrieval.graph is for at most 300,000 and retrieval.graph_ppr is for "
        "at most 300,000, as time and memory grow with them: leave the options out, give larger chunks, or take "
        "a part of the documents"
    )


def limited(pipeline: Candidate, most: int) -> Candidate:
    """``pipeline`` with a retrieval that is for so many chunks."""
    return tuple(
        replace(gene, technique=replace(gene.technique, most_chunks=most))
        if gene.technique.family == "retrieval"
        else gene
        for gene in pipeline
    )


def test_a_search_of_too_many_chunks_is_refused_before_anything_is_computed(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate], store: Store
) -> None:
    chunks = len(tiny_setup.corpus.chunks)
    for most in (chunks - 1, chunks):
        space = Space("small", "", tuple((gene,) for gene in limited(pipeline(retrieval="bm25"), most)))
        if most < chunks:
            with pytest.raises(UsageError, match=rf"{chunks} chunks, and retrieval.bm25 is for at most {most}"):
                Run(tiny_setup, space, store)
        else:
            Run(tiny_setup, space, store)
    assert store.runs() == []


def test_a_pipeline_is_not_asked_about_more_chunks_than_it_is_for(
    tiny_setup: Experiment, pipeline: Callable[..., Candidate]
) -> None:
    few, many = (limited(pipeline(retrieval="bm25"), len(tiny_setup.corpus.chunks) - less) for less in (1, 0))
    assert Pipeline(many, tiny_setup).ask("Who steers the ferry?")
    with pytest.raises(UsageError, match=r"retrieval\.bm25 is for at most"):
        Pipeline(few, tiny_setup).ask("Who steers the ferry?")


@pytest.mark.parametrize("name", bundled_domains())
def test_the_space_of_the_paper_has_its_size_on_every_domain(name: str) -> None:
    setup = Experiment(load_dataset(name))
    assert searchable_space(setup, load_space("paper"), ranks=False).feasible_size == 46_080


@pytest.mark.parametrize("name", ["cranfield", "hotpotqa_100", "ragsmith_finance_10", "ragsmith_law_10", "tatqa_dev"])
def test_the_space_of_the_paper_has_its_size_on_published_data(name: str, store: Store) -> None:
    folder = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not beside the checkout")
    data, has_answers = read(str(folder))
    fitness = Fitness() if has_answers else Fitness().with_objective("retrieval")
    planned = plan(Experiment(data), load_space("paper"), store, RunSettings(fitness=fitness))
    # without answers only the pipelines that rank differently are told apart: the first five families
    assert planned.feasible == (46_080 if has_answers else 4 * 8 * 5 * 4 * 2)


def test_options_for_unanswerable_questions_are_searched_if_search_questions_can_teach_them() -> None:
    data = load_dataset("law")
    moved = [replace(one, split="search" if one.answerable else "test") for one in data.examples]
    taught, untaught = Experiment(data), Experiment(replace(data, examples=tuple(moved)))
    default = load_space("default")

    def names(setup: Experiment, space: Space) -> set[str]:
        return {gene.technique.name for gene in searchable_space(setup, space, ranks=False).options[N_FAMILIES - 1]}

    assert "abstain" in names(taught, default)
    assert "abstain" not in names(untaught, default)
    assert "abstain" not in names(taught, default.without_options(["post_generation.abstain"]))
    assert "abstain" not in {gene.technique.name for options in default.options for gene in options}
