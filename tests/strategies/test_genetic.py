from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from itertools import product
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from landscapes import CHAIN_SIZES, PAPER_SIZES, additive, chained, run

from ragsmith.errors import UsageError
from ragsmith.strategies import PRESETS, GeneticSearch, GeneticSettings, Genome, Pruned, RandomSearch
from ragsmith.strategies.selection import SELECTIONS
from ragsmith.strategies.variation import CROSSOVERS, MUTATIONS

PAPER = PRESETS["paper"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 15), min_size=1, max_size=6).map(tuple),
    st.builds(
        GeneticSettings,
        population=st.integers(4, 9),
        generations=st.integers(1, 6),
        elitism=st.integers(0, 3),
        crossover=st.sampled_from(sorted(CROSSOVERS)),
        mutation=st.sampled_from(sorted(MUTATIONS)),
        selection=st.sampled_from(sorted(SELECTIONS)),
        breeding=st.just("best"),
        crossover_rate=st.sampled_from([0.0, 0.6, 1.0]),
    ),
    st.integers(0, 50),
    st.booleans(),
)
def test_population_is_constant_and_elites_survive_unchanged(
    sizes: tuple[int, ...], knobs: GeneticSettings, seed: int, flaky: bool
) -> None:
    true_score = additive(sizes, seed)

    def score(genome: Genome) -> float | None:
        return None if flaky and sum(genome) % 3 == 0 else true_score(genome)

    search = GeneticSearch(sizes, knobs, seed=seed)
    run(search, score)

    def order(genome: Genome) -> float:
        return -1.0 if (value := score(genome)) is None else value

    assert len(search.history) <= knobs.generations + 1
    assert {len(generation.population) for generation in search.history} == {knobs.population}
    for last, generation in zip(search.history, search.history[1:], strict=False):
        elites = sorted(last.population, key=order, reverse=True)[: knobs.elitism]  # stable: the first of equals first
        assert list(generation.population[: knobs.elitism]) == elites
        assert 0.0 <= generation.mutation_rate <= max(knobs.mutation_max, knobs.mutation_rate)


def test_the_papers_run_is_generation_0_and_twenty_more() -> None:
    search = GeneticSearch(PAPER_SIZES, replace(PAPER, target=None))
    proposed = run(search, additive(PAPER_SIZES, 1))
    assert [generation.number for generation in search.history] == list(range(21))
    assert PAPER.evaluations == 16 + 20 * 11 == 236
    assert len(proposed) < PAPER.evaluations  # children that are known cost nothing
    assert search.history[0].evaluations == len(set(search.history[0].population))


@pytest.mark.parametrize(("breeding", "scored"), [("best", 148), ("elites", 133)])
def test_it_finds_99_percent_of_the_optimum_and_beats_random_search(breeding: str, scored: int) -> None:
    found, baseline, evaluations = [], [], []
    for seed in range(20):
        score = additive(PAPER_SIZES, seed)
        search = GeneticSearch(PAPER_SIZES, replace(PAPER, breeding=breeding, target=None), seed=seed)
        evaluations.append(len(run(search, score)))
        blind = RandomSearch(PAPER_SIZES, seed=seed, max_evaluations=evaluations[-1])
        run(blind, score)
        found.append(search.best()[1])
        baseline.append(blind.best()[1])
    assert fmean(found) >= 0.99
    assert fmean(found) > fmean(baseline) + 0.05
    assert sum(ours > blind for ours, blind in zip(found, baseline, strict=True)) >= 19
    assert fmean(evaluations) == pytest.approx(scored, abs=10)  # the reference's simulation, of the best: 147.8


@pytest.mark.parametrize(
    ("kind", "name"),
    [("crossover", name) for name in CROSSOVERS]
    + [("mutation", name) for name in MUTATIONS]
    + [("selection", name) for name in SELECTIONS],
)
def test_every_operator_searches(kind: str, name: str) -> None:
    found = []
    for seed in range(8):
        search = GeneticSearch(PAPER_SIZES, replace(PAPER, **{kind: name}), seed=seed)
        run(search, additive(PAPER_SIZES, seed))
        found.append(search.best()[1])
    assert fmean(found) > 0.96  # random search with as many evaluations: 0.91


def test_a_generation_that_is_wholly_known_is_recorded_and_passed_over() -> None:
    search = GeneticSearch((2, 2), GeneticSettings(population=4, elitism=1, target=None))
    proposed = run(search, additive((2, 2), 1))
    assert sorted(proposed) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(search.history) == 21
    assert [generation.evaluations for generation in search.history].count(0) >= 17


def test_the_rate_adapts_to_diversity_and_stagnation() -> None:
    search = GeneticSearch(PAPER_SIZES, replace(PAPER, target=None))
    run(search, additive(PAPER_SIZES, 2))
    assert search.history[0].mutation_rate is None
    for last, generation in zip(search.history, search.history[1:], strict=False):
        expected = 0.08 + 0.12 * ((1 - last.diversity) + min(last.stagnant / 10, 1)) / 2
        assert generation.mutation_rate == pytest.approx(expected)
    search = GeneticSearch(PAPER_SIZES, replace(PAPER, mutation="swap", mutation_rate=0.3))
    run(search, additive(PAPER_SIZES, 2))
    assert {generation.mutation_rate for generation in search.history[1:]} == {0.3}  # other mutations keep theirs


def test_it_stops_after_so_many_generations_without_improvement() -> None:
    search = GeneticSearch((4, 4, 4), replace(PAPER, convergence=3, target=None))
    run(search, lambda genome: 0.5)
    assert [generation.stagnant for generation in search.history] == [0, 1, 2, 3]

    search = GeneticSearch((4, 4, 4), replace(PAPER, convergence=None, target=None))
    run(search, lambda genome: 0.5)
    assert len(search.history) == 21


def test_it_stops_when_the_target_is_reached() -> None:
    score = additive(PAPER_SIZES, 1)
    search = GeneticSearch(PAPER_SIZES, replace(PAPER, target=0.9))
    run(search, score)
    best = [generation.best for generation in search.history]
    assert best[-1] >= 0.9 > best[-2]


def test_failed_members_are_never_parents_of_an_elite_selection_while_enough_succeed() -> None:
    knobs = GeneticSettings(population=6, elitism=3, generations=1, crossover_rate=0.0, mutation="random",
                            mutation_rate=0.0, target=None, breeding="best")  # fmt: skip
    search = GeneticSearch((9, 9, 9), knobs)
    batch = search.propose()
    assert len(batch) == 6
    search.tell({genome: None if i < 3 else 0.1 * i for i, genome in enumerate(batch)})
    assert search.propose() == ()
    assert search.history[1].population == tuple(reversed(batch[3:])) * 2


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"crossover": "blend"}, "unknown crossover 'blend': known: multi_point, order, segment"),
        ({"mutation": "gauss"}, "unknown mutation 'gauss': known: adaptive, categorical"),
        ({"selection": "best"}, "unknown selection 'best': known: elite, rank, roulette, tournament"),
        ({"population": 1, "elitism": 0}, "population is 1: give at least 2"),
        ({"generations": 0}, "generations is 0: give at least 1"),
        ({"tournament": 0}, "tournament is 0"),
        ({"convergence": 0}, "convergence is 0"),
        ({"elitism": 16}, "elitism is 16: give 0 to 15, fewer than the population"),
        ({"elitism": -1}, "elitism is -1"),
        ({"elitism": 0}, "elitism is 0: parents are elites, so give at least 1, or another breeding"),
        ({"breeding": "all"}, "unknown breeding 'all': known: best, elites, known"),
        ({"screening": 0}, "screening is 0: give at least 1"),
        ({"screening": 5}, "screening is 5: it preselects among new children, so set unseen too, or give 1"),
        ({"budget": 0}, "budget is 0: give at least 1"),
        ({"generations": None}, "generations and budget are both None: set at least one of them"),
        ({"local_search": 2.0}, "local_search is 2.0: give a number between 0 and 1"),
        ({"crossover_rate": 1.5}, "crossover_rate is 1.5: give a number between 0 and 1"),
        ({"mutation_rate": float("nan")}, "mutation_rate is nan"),
        ({"mutation_rate": 0.5}, "adaptive mutation needs it between mutation_min 0.01 and mutation_max 0.2"),
        ({"target": float("nan")}, "target is nan: give the fitness to stop at"),
        ({"mutation_min": 0.1}, "mutation_rate is 0.08"),
    ],
)
def test_settings_are_checked(knobs: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        GeneticSettings(**knobs)


def test_the_presets() -> None:
    assert {name: preset.evaluations for name, preset in PRESETS.items()} == {"paper": 236, "default": 100, "quick": 50}
    assert replace(PRESETS["default"], generations=2).evaluations == 10 + 2 * 5
    assert asdict(PAPER) == {
        "population": 16, "generations": 20, "crossover": "uniform", "crossover_rate": 0.6, "mutation": "adaptive",
        "mutation_rate": 0.08, "mutation_min": 0.01, "mutation_max": 0.2, "selection": "elite", "elitism": 5,
        "convergence": 100, "target": 1.0, "tournament": 3, "breeding": "elites", "unseen": False, "screening": 1,
        "local_search": 0.0, "budget": None,
    }  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("population", [2, 3, 5, 8, 12])
def test_every_preset_works_with_a_small_population(preset: str, population: int) -> None:
    knobs = PRESETS[preset].changed(population=population, generations=3, target=None)
    assert knobs.elitism == min(PRESETS[preset].elitism, knobs.elitism) >= 1
    search = GeneticSearch((4, 4, 4), knobs)
    run(search, lambda genome: float(sum(genome)))
    assert [len(step.population) for step in search.history if step.by == "genetic"] == [population] * 4


def test_elites_are_kept_in_proportion_unless_their_number_is_given() -> None:
    assert PAPER.changed(population=16) == PAPER
    assert PAPER.changed(population=32).elitism == 5
    assert PAPER.changed(population=8).elitism == 2
    assert PAPER.changed(population=8, elitism=7).elitism == 7
    assert PRESETS["default"].changed(elitism=0).changed(population=2).elitism == 0
    with pytest.raises(UsageError, match="elitism is 8: give 0 to 7"):
        PAPER.changed(population=8, elitism=8)
    with pytest.raises(UsageError, match="population is 1: give at least 2"):
        PAPER.changed(population=1)


# --- what is feasible ------------------------------------------------------------------------------------------------

FEASIBLE = [genome for genome in product(*map(range, CHAIN_SIZES)) if chained(genome)]


def far_from_uniform(counts: Counter[Genome]) -> float:
    """How far counts are from an equal share for every feasible genome: chi-square in its standard deviations."""
    expected = counts.total() / len(FEASIBLE)
    excess = sum((counts[genome] - expected) ** 2 / expected for genome in FEASIBLE) - (len(FEASIBLE) - 1)
    return excess / (2 * (len(FEASIBLE) - 1)) ** 0.5


def test_the_first_generation_is_uniform_over_what_is_feasible() -> None:
    drawn = [GeneticSearch(CHAIN_SIZES, PAPER, seed=seed, feasible=chained).propose() for seed in range(1500)]
    counts = Counter(genome for genomes in drawn for genome in genomes)
    assert set(counts) == set(FEASIBLE)
    assert far_from_uniform(counts) < 4


def test_without_selection_breeding_favours_no_option() -> None:
    knobs = replace(
        PAPER, elitism=0, breeding="best", selection="roulette", mutation="random", mutation_rate=0.2, target=None
    )
    counts: Counter[Genome] = Counter()
    for seed in range(150):
        search = GeneticSearch(CHAIN_SIZES, knobs, seed=seed, feasible=chained)
        run(search, lambda genome: 0.5)
        counts.update(genome for step in search.history[10:] for genome in step.population)
    for gene, size in enumerate(CHAIN_SIZES):
        for option in range(size):
            share = sum(n for genome, n in counts.items() if genome[gene] == option) / counts.total()
            fair = sum(genome[gene] == option for genome in FEASIBLE) / len(FEASIBLE)
            assert share == pytest.approx(fair, abs=0.02)


# --- what is added to the paper's ------------------------------------------------------------------------------------

DEFAULT = PRESETS["default"]


def test_parents_of_the_paper_are_elites_and_two_that_differ() -> None:
    knobs = replace(PAPER, elitism=3, generations=1, crossover_rate=0.0, mutation="random", mutation_rate=0.0)
    search = GeneticSearch((9, 9, 9), replace(knobs, target=None))
    run(search, additive((9, 9, 9), 1))
    last = search.history[1].population
    children = last[3:]
    assert set(children) <= set(last[:3])
    assert all(one != other for one, other in zip(children[::2], children[1::2], strict=False))


def test_told_genomes_are_elites_and_parents_by_default_and_not_in_the_paper() -> None:
    best = (3, 7, 4, 3, 1, 2, 2, 1, 1)
    for preset, kept in ((DEFAULT, True), (PAPER, False)):
        search = GeneticSearch(PAPER_SIZES, replace(preset, target=None), max_evaluations=40)
        search.tell({best: 5.0})
        run(search, additive(PAPER_SIZES, 1))
        second = search.history[1]
        assert (second.population[0] == best) == kept
        nearest = min(sum(a != b for a, b in zip(best, child, strict=True)) for child in second.population[5:])
        assert (nearest <= 2) == kept


def test_no_evaluation_is_spent_on_what_is_known() -> None:
    search = GeneticSearch(PAPER_SIZES, replace(DEFAULT, convergence=None, target=None), max_evaluations=100)
    search.tell({(0,) * 9: 0.3})
    run(search, additive(PAPER_SIZES, 3))
    met: set[Genome] = {(0,) * 9}
    for step in search.history:
        new = [genome for genome in step.population if genome not in met]
        assert len(new) == step.evaluations
        met.update(new)
    assert [step.evaluations for step in search.history] == [9, *[5] * 12, 1, *[5] * 6]  # 70, and 30 of local search


def test_local_search_is_kept_a_share_of_the_budget_and_changes_single_genes_of_the_best() -> None:
    score = additive(PAPER_SIZES, 5)
    search = GeneticSearch(
        PAPER_SIZES, replace(DEFAULT, local_search=0.4, convergence=None, target=None), max_evaluations=100
    )
    run(search, score)
    local = [step for step in search.history if step.by == "local search"]
    assert sum(step.evaluations for step in local) == 40
    known = {genome for step in search.history if step.by == "genetic" for genome in step.population}
    for step in local:
        for genome in step.population:
            assert min(sum(a != b for a, b in zip(one, genome, strict=True)) for one in known) == 1
        known |= set(step.population)
    assert search.best()[1] > 0.99


def test_a_model_chooses_among_more_children_than_are_scored() -> None:
    means = []
    for screening in (1, 5):
        knobs = replace(DEFAULT, screening=screening, local_search=0.0, convergence=None, target=None)
        found = []
        for seed in range(6):
            search = GeneticSearch(PAPER_SIZES, knobs, seed=seed, max_evaluations=60)
            assert len(run(search, additive(PAPER_SIZES, seed))) == 60
            found.append(search.best()[1])
        means.append(fmean(found))
    assert means[1] > means[0] + 0.02


def test_the_default_can_converge_before_its_budget_ends() -> None:
    search = GeneticSearch(PAPER_SIZES, DEFAULT, max_evaluations=DEFAULT.evaluations)
    assert len(run(search, lambda genome: 0.5)) < DEFAULT.evaluations
    assert search.history[-1].stagnant == DEFAULT.convergence


def test_what_was_dropped_is_no_elite() -> None:
    score = additive(PAPER_SIZES, 1)
    search = GeneticSearch(PAPER_SIZES, replace(DEFAULT, target=None), max_evaluations=60)
    run(search, lambda genome: Pruned(7, 0.99, 0.076) if genome[1] % 2 else score(genome))
    for step in search.history[1:]:
        if step.by == "genetic":
            assert all(genome[1] % 2 == 0 for genome in step.population[:5])


def test_a_prior_chooses_the_first_generation_among_many_draws() -> None:
    score = additive(PAPER_SIZES, 1)
    firsts = []
    for prior in (None, lambda genomes: (np.array([*map(score, genomes)]), np.full(len(genomes), 0.05))):
        search = GeneticSearch(PAPER_SIZES, DEFAULT, prior=prior, max_evaluations=100)
        search.tell({(0,) * 9: score((0,) * 9)})
        firsts.append(fmean(map(score, search.propose())))
    assert firsts[1] > firsts[0] + 0.1
