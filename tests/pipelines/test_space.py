"""Search spaces: what a file means, what is refused, genomes, feasibility and size."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import SpaceError, UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.pipelines.genes import Candidate, configuration, label, make_gene, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.families import FAMILIES

FAMILY_NAMES = [family.name for family in FAMILIES]
SMALL: dict[str, list[Any]] = {
    "pre_embedding": ["none", "contextual_chunk_headers"],
    "query_expansion": ["none", "hyde"],
    "retrieval": ["vector", "bm25", "hybrid"],
    "reranking": ["none", "cross_encoder"],
    "passage_filter": ["top_k"],
    "passage_augment": ["none"],
    "passage_compress": ["none"],
    "prompt_maker": ["listing"],
    "post_generation": ["none"],
}


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write a space; the families are those of ``SMALL`` with the changes given."""

    def write(
        *, constraints: Any = None, name: str = "small", order: list[str] = FAMILY_NAMES, **families: Any
    ) -> Path:
        listed = {**SMALL, **families}
        data: dict[str, Any] = {"name": name, "families": {family: listed[family] for family in order}}
        if constraints is not None:
            data["constraints"] = constraints
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    return write


def test_the_paper_s_space_has_46_080_pipelines() -> None:
    space = load_space("paper")
    assert space.sizes == (4, 8, 5, 4, 2, 3, 3, 2, 2)
    assert space.size == space.feasible_size == 46_080


@pytest.mark.parametrize("name", ["paper", "default", "quick"])
def test_a_bundled_space_can_be_loaded_and_says_what_it_is(name: str) -> None:
    space = load_space(name)
    assert space.name == name
    assert space.description.endswith(".")
    assert 0 < space.feasible_size <= space.size
    assert len(set(space.options[0])) == len(space.options[0])


def test_a_space_without_a_family_or_an_option_is_another_space() -> None:
    space = load_space("paper")
    left = space.without_options(["passage_compress", "query_expansion.hyde"])
    options = dict(zip(FAMILY_NAMES, left.options, strict=True))
    assert [gene.technique.name for gene in options["passage_compress"]] == ["none"]
    assert "hyde" not in {gene.technique.name for gene in options["query_expansion"]}
    assert left.size == space.size // 3 * 7 // 8
    assert left.digest != space.digest
    assert left.name == "paper without passage_compress, query_expansion.hyde"
    assert space.without_options([]) is space


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "passage_compression",
            "without names the unknown family 'passage_compression': give FAMILY or FAMILY.OPTION, ",
        ),
        ("retrieval", "without is retrieval, and a pipeline needs one: remove single options, retrieval.OPTION"),
        ("retrieval.bm52", "without is retrieval.bm52, and the space 'quick' has no such option: did you mean 'bm25'?"),
        ("passage_filter.top_k", "space 'quick': no option of passage_filter can be used, not even top_k"),
    ],
)
def test_what_cannot_be_left_out_is_said(name: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        load_space("quick").without_options([name])
    assert str(error.value).startswith(said)


def test_options_stand_in_the_order_of_the_file(written: Callable[..., Path]) -> None:
    space = load_space(written(retrieval=["hybrid", "vector"]))
    assert [str(gene) for gene in space.options[2]] == ["hybrid", "vector"]
    assert space.sizes == (2, 2, 2, 2, 1, 1, 1, 1, 1)


def test_a_list_of_values_is_a_grid(written: Callable[..., Path]) -> None:
    space = load_space(
        written(
            retrieval=["vector", {"hybrid": {"fusion": ["convex", "rrf"], "weight": [0.3, 0.7], "k": 10}}],
            passage_filter=[{"top_k": {"k": [3, 5]}}],
        )
    )
    hybrids = [dict(gene.parameters) for gene in space.options[2][1:]]
    assert [(p["fusion"], p["weight"], p["k"]) for p in hybrids] == [
        ("convex", 0.3, 10),
        ("convex", 0.7, 10),
        ("rrf", 0.3, 10),
        ("rrf", 0.7, 10),
    ]
    assert [str(gene) for gene in space.options[4]] == ["top_k(k=3)", "top_k(k=5)"]


def test_all_means_every_technique_at_its_defaults(written: Callable[..., Path]) -> None:
    space = load_space(written(reranking="all"))
    reranking = FAMILIES[3]
    assert {gene.technique.name for gene in space.options[3]} == set(reranking.techniques)
    assert all(dict(gene.parameters) == gene.technique.defaults for gene in space.options[3])


def test_parameters_at_their_default_are_the_plain_option(written: Callable[..., Path]) -> None:
    with pytest.raises(SpaceError, match=r"passage_filter lists top_k twice"):
        load_space(written(passage_filter=["top_k", {"top_k": {"k": 10}}]))


def test_the_digest_ignores_the_name_and_the_order_of_families(written: Callable[..., Path]) -> None:
    forbid = [{"forbid": {"retrieval": "bm25", "reranking": "cross_encoder"}}]
    turned = [{"forbid": {"reranking": ["cross_encoder"], "retrieval": ["bm25"]}}]
    digest = load_space(written(constraints=forbid)).digest
    assert load_space(written(constraints=turned, name="other", order=FAMILY_NAMES[::-1])).digest == digest


@pytest.mark.parametrize(
    "change",
    [
        {"retrieval": ["vector", "bm25"]},
        {"retrieval": ["bm25", "vector", "hybrid"]},
        {"passage_filter": [{"top_k": {"k": 9}}]},
        {"constraints": [{"forbid": {"retrieval": "bm25", "reranking": "cross_encoder"}}]},
    ],
    ids=["fewer options", "other order of options", "a parameter", "a constraint"],
)
def test_the_digest_changes_with_what_a_genome_means(written: Callable[..., Path], change: dict[str, Any]) -> None:
    assert load_space(written(**change)).digest != load_space(written()).digest


def test_a_genome_and_its_candidate_are_the_same_thing(written: Callable[..., Path]) -> None:
    space = load_space(written())
    for genome in itertools.product(*map(range, space.sizes)):
        candidate = space.candidate(genome)
        assert space.genome(candidate) == genome
        assert [gene.technique.family for gene in candidate] == FAMILY_NAMES


@given(st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_a_pipeline_survives_as_plain_data(rng: random.Random) -> None:
    space = load_space("paper")
    genome = tuple(rng.randrange(size) for size in space.sizes)
    candidate = space.candidate(genome)
    again: Candidate = read_configuration(yaml.safe_load(yaml.safe_dump(configuration(candidate))))
    assert again == candidate
    assert space.genome(again) == genome


def test_a_pipeline_that_the_space_lacks_is_named(written: Callable[..., Path]) -> None:
    space = load_space(written())
    other = space.candidate((0,) * 9)
    other = (*other[:2], make_gene("retrieval", "graph"), *other[3:])
    with pytest.raises(SpaceError, match=r"space 'small' does not contain graph"):
        space.genome(other)


def test_a_label_says_what_differs_from_the_plainest_pipeline(written: Callable[..., Path]) -> None:
    space = load_space(written())
    assert label(space.candidate((0,) * 9)) == "vector"
    assert (
        label(space.candidate((1, 1, 2, 1, 0, 0, 0, 0, 0)))
        == "contextual_chunk_headers + hyde + retrieval hybrid + cross_encoder"
    )


def test_constraints_forbid_what_matches_all_of_one(written: Callable[..., Path]) -> None:
    space = load_space(
        written(
            constraints=[
                {"forbid": {"retrieval": ["bm25", "hybrid"], "reranking": "cross_encoder"}},
                {
                    "forbid": {
                        "pre_embedding": "contextual_chunk_headers",
                        "query_expansion": "hyde",
                        "retrieval": "vector",
                    }
                },
            ]
        )
    )
    forbidden = [g for g in itertools.product(*map(range, space.sizes)) if not space.is_feasible(g)]
    by_first = [g for g in forbidden if g[2] in (1, 2) and g[3] == 1]
    by_second = [g for g in forbidden if g[:3] == (1, 1, 0)]
    assert len(by_first) == 8
    assert len(by_second) == 2
    assert len(forbidden) == 10
    assert (space.size, space.feasible_size) == (24, 14)
    assert list(space.genomes()) == [g for g in itertools.product(*map(range, space.sizes)) if g not in forbidden]


def test_a_constraint_names_techniques_and_so_all_their_parameters(written: Callable[..., Path]) -> None:
    space = load_space(
        written(
            passage_filter=[{"top_k": {"k": [3, 5]}}, "similarity_threshold"],
            constraints=[{"forbid": {"passage_filter": "top_k", "retrieval": "bm25"}}],
        )
    )
    assert space.size - space.feasible_size == 2 * 2 * 2 * 2


@st.composite
def constrained(draw: st.DrawFn) -> Space:
    plain = load_space("paper")
    options = tuple(genes[: draw(st.integers(1, min(3, len(genes))))] for genes in plain.options)
    forbidden = []
    for _ in range(draw(st.integers(0, 4))):
        places = draw(st.lists(st.integers(0, 8), min_size=2, max_size=3, unique=True))
        constraint = {}
        for place in places:
            names = sorted({gene.technique.name for gene in options[place]})
            constraint[FAMILY_NAMES[place]] = frozenset(draw(st.lists(st.sampled_from(names), min_size=1)))
        forbidden.append(constraint)
    return Space("drawn", "", options, tuple(forbidden))


@given(constrained())
@settings(max_examples=25, deadline=None)
def test_feasible_genomes_are_counted_as_if_one_by_one(space: Space) -> None:
    every = list(itertools.product(*map(range, space.sizes)))
    assert space.size == len(every)
    assert space.feasible_size == sum(space.is_feasible(genome) for genome in every)


HEAD = "name: x\n"
REST = "".join(f"  {family}: [{options[0]}]\n" for family, options in SMALL.items() if family != "retrieval")
WHOLE = f"{HEAD}families:\n{REST}  retrieval: [vector, bm25]\n"

FORBID = f"{WHOLE}constraints:\n  - forbid: "

MALFORMED: list[tuple[str, str, int, str]] = [
    ("empty", "", 1, "empty"),
    ("a list", "- a\n- b\n", 1, "a space must be 'name: value' pairs"),
    ("a text", "hello\n", 1, "a space must be 'name: value' pairs"),
    ("no families", HEAD, 1, "'families' is missing"),
    ("families are a list", f"{HEAD}families: [a]\n", 2, "'families' must be 'name: value' pairs"),
    ("families are nothing", f"{HEAD}families:\n", 2, "'families' must be 'name: value' pairs"),
    ("name is a number", "name: 3\n" + WHOLE.removeprefix(HEAD), 1, "name must be text, not 3"),
    ("description is a list", "description: []\n" + WHOLE, 1, "description must be text"),
    ("unknown key", WHOLE + "constrains: []\n", 12, "unknown key 'constrains'; did you mean 'constraints'?"),
    ("a missing family", f"{HEAD}families:\n{REST}", 2, "no options for retrieval"),
    ("unknown family", f"{HEAD}families:\n{REST}  retreival: [vector]\n", 11, "did you mean 'retrieval'?"),
    ("duplicate family", WHOLE + "  retrieval: [bm25]\n", 12, "duplicate key 'retrieval'"),
    (
        "unknown technique",
        WHOLE.replace("bm25", "bm52"),
        11,
        "no retrieval technique is called 'bm52'",
    ),
    ("own technique", WHOLE.replace("bm25", "mine"), 11, "vector; one of your own needs --import FILE"),
    ("no options", WHOLE.replace("[vector, bm25]", "[]"), 11, "must be a list of techniques, or the word all"),
    ("a text for options", WHOLE.replace("[vector, bm25]", "vector"), 11, "must be a list of techniques, or the word"),
    ("nothing for options", WHOLE.replace("[vector, bm25]", ""), 11, "must be a list of techniques, or the word all"),
    ("a number for an option", WHOLE.replace("bm25", "25"), 11, "an option is a name or 'name: {parameters}', not 25"),
    ("nothing for an option", WHOLE.replace("bm25", "~"), 11, "an option is a name or 'name: {parameters}', not None"),
    ("a list for an option", WHOLE.replace("bm25", "[bm25]"), 11, "an option is a name or 'name: {parameters}'"),
    ("two techniques in one", WHOLE.replace("bm25", "{bm25: {}, graph: {}}"), 11, "an option is a name or"),
    ("no parameters", WHOLE.replace("bm25", "{bm25: }"), 11, "the parameters of bm25 must be 'name: value' pairs"),
    ("a list of parameters", WHOLE.replace("bm25", "{bm25: [k]}"), 11, "the parameters of bm25 must be"),
    ("unknown parameter", WHOLE.replace("bm25", "{bm25: {kk: 3}}"), 11, "has no parameter 'kk'"),
    ("wrong type", WHOLE.replace("bm25", "{bm25: {k: many}}"), 11, "k must be a whole number like 20, not 'many'"),
    ("wrong type in a grid", WHOLE.replace("bm25", "{bm25: {k: [3, x]}}"), 11, "k must be a whole number"),
    ("an empty grid", WHOLE.replace("bm25", "{bm25: {k: []}}"), 11, "bm25: k has no values"),
    ("a grid in a grid", WHOLE.replace("bm25", "{bm25: {k: [[3]]}}"), 11, "k must be a whole number like 20, not [3]"),
    ("not a choice", WHOLE.replace("bm25", "{hybrid: {fusion: sum}}"), 11, "fusion must be one of 'convex', 'rrf'"),
    ("an option twice", WHOLE.replace("bm25", "vector"), 11, "retrieval lists vector twice"),
    ("a value twice", WHOLE.replace("bm25", "{bm25: {k: [3, 3]}}"), 11, "retrieval lists bm25(k=3) twice"),
    ("constraints are a mapping", WHOLE + "constraints: {a: b}\n", 12, "constraints must be a list"),
    ("constraints are nothing", WHOLE + "constraints:\n", 12, "constraints must be a list"),
    ("a constraint is a text", WHOLE + "constraints:\n  - forbid\n", 13, "a constraint is 'forbid:"),
    ("another verb", WHOLE + "constraints:\n  - allow: {retrieval: bm25}\n", 13, "a constraint is 'forbid:"),
    ("forbid is a list", FORBID + "[bm25]\n", 13, "a constraint is 'forbid:"),
    (
        "unknown family in a constraint",
        FORBID + "{retrievals: bm25, reranking: none}\n",
        13,
        "unknown family 'retrievals': did you mean 'retrieval'?",
    ),
    (
        "unknown option in a constraint",
        FORBID + "{retrieval: graph, reranking: none}\n",
        13,
        "retrieval has no option graph in this space",
    ),
    ("no option in a constraint", FORBID + "{retrieval: [], reranking: none}\n", 13, "retrieval"),
    (
        "a mapping for an option in a constraint",
        FORBID + "{retrieval: {bm25: {k: 3}}, reranking: none}\n",
        13,
        "retrieval",
    ),
    ("a constraint on one family", FORBID + "{retrieval: bm25}\n", 13, "a constraint names at least two families"),
    (
        "nothing left",
        FORBID + "{retrieval: [vector, bm25], reranking: none}\n",
        12,
        "the constraints forbid every candidate",
    ),
    ("an alias", WHOLE.replace("[vector, bm25]", "[&a vector, *a]"), 11, "not allowed"),
    ("a tag", WHOLE.replace("bm25", "!!python/name:os.system x"), 11, "not allowed"),
    ("a tab", WHOLE.replace("  retrieval", "\tretrieval"), 11, "not valid YAML"),
    ("two documents", WHOLE + "---\n" + WHOLE, 12, "second document"),
]


@pytest.mark.parametrize(("text", "line", "said"), [row[1:] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_a_wrong_space_is_refused_in_one_sentence_with_its_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(SpaceError) as raised:
        load_space(path)
    message = str(raised.value)
    assert message.startswith(f"{path}:{line}: ")
    assert said in message
    assert "\n" not in message
    assert "  " not in message


def test_an_unknown_space_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as raised:
        load_space("papers")
    assert "did you mean 'paper'" in str(raised.value)


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        ({}, "the pipeline has no pre_embedding"),
        ({"retrievals": {"technique": "bm25"}}, "unknown family 'retrievals'"),
    ],
)
def test_a_pipeline_in_plain_data_must_be_whole(pipeline: dict[str, Any], said: str) -> None:
    with pytest.raises(SpaceError, match=said):
        read_configuration(pipeline)


def test_a_dictionary_leaves_families_at_the_option_of_naive_rag() -> None:
    space = load_space({"retrieval": ("vector", "bm25", {"hybrid": {"weight": [0.3, 0.5]}})})
    naive = baseline("naive")
    others = [place for place, family in enumerate(FAMILY_NAMES) if family != "retrieval"]
    assert space.size == 4
    assert [space.options[place] for place in others] == [(naive[place],) for place in others]


def test_a_dictionary_is_the_file_with_the_same_content(written: Callable[..., Path]) -> None:
    forbid = [{"forbid": {"retrieval": "bm25", "reranking": "none"}}]
    assert load_space({"families": SMALL, "constraints": forbid}) == replace(
        load_space(written(constraints=forbid)), name="own"
    )
    chunks = load_space({"retrieval": ["bm25"], "corpus": {"chunk_size": [900, 500]}})
    assert [str(gene) for gene in chunks.settings[0]] == ["900", "500"]


@pytest.mark.parametrize(
    ("space", "complaint"),
    [
        (
            {"retreival": ["bm25"]},
            r"space\['families'\]\['retreival'\]: unknown key 'retreival'; did you mean 'retriev",
        ),
        ({"retrieval": ["vektor"]}, r"space\['families'\]\['retrieval'\]\[0\]: no retrieval technique is called"),
        ({"retrieval": "bm25"}, r"space\['families'\]\['retrieval'\]: retrieval must be a list of techniques"),
        ({"families": ["bm25"]}, "'families' must be 'name: value' pairs"),
        ({"retrieval": [load_space]}, "is not plain data"),
        ({"retrieval": [{"hybrid": {"weight": float("nan")}}]}, "is not plain data"),
    ],
)
def test_a_mistake_in_a_dictionary_is_named_with_its_path(space: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpaceError, match=complaint):
        load_space(space)
