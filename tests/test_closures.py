"""What stored results depend on, by name: an import that widens one of these lists is to be seen, and decided on.

Each list has the modules, without ``ragsmith.``, of which at least one statement counts in a fingerprint.
"""

from __future__ import annotations

import pytest

from ragsmith.digest import list_dependencies
from ragsmith.evaluation.keys import FINGERPRINTED_CODE
from ragsmith.measures.registry import measures
from ragsmith.runs.run_context import DECIDING_CODE
from ragsmith.strategies import STRATEGIES

FAMILY = {"types", "techniques.families"}
ASKED = {"models.tasks", "text.blocks", "text.declining"}  # a reply may be the sentence that declines
TASK = ASKED | {"models.protocols"}
WORDS = {f"text.{name}" for name in ("languages", "scripts", "data_files", "words")}
INDEX = {
    "index.index",
    "index.screening",
    "index.top",
    "index.vector_store",
    "index.vector_stores.exact",
    "models.protocols",
    "text.bm25",
} | WORDS
SCORED = {"datasets.relevance", "measures.case", "models.usage", "pipelines.trace", "types"}

CLOSURES = {
    "datasets.chunking.chunking:chunk_documents": {
        *(f"datasets.chunking.{name}" for name in ("definitions", "pieces", "source")),
        "datasets.document_types.tables",
        "text.markdown",
        *WORDS,
        "types",
    },
    "datasets.relevance:ChunkMap": {"types"},
    "pipelines.engine:Engine": {
        *(FAMILY | TASK | INDEX),
        *("gateway.memo", "index.entity_graph", "index.relations", "models.usage", "pipelines.genes"),
        *(
            "index.fields",
            "index.filtering",
            "index.mapped_index",
            "text.filters",
            "text.strict_yaml",
            "models.names",
            "models.own_prompts",
            "pipelines.trace",
            "techniques.generation",
            "text.declining",
            "text.shared_bm25",
        ),
    },
    "pipelines.genes:out_of_fold": {"models.names", "models.own_prompts"},
    "evaluation.scoring:score_answer": SCORED,
    "evaluation.scoring:score_ranking": SCORED,
    "gateway.prompts_and_vectors:render_prompt": ASKED | {"models.usage"},
    "gateway.prompts_and_vectors:complete_until_parsed": ASKED | {"models.calls", "models.usage"},
    "gateway.prompts_and_vectors:parse_reply": ASKED,
    "gateway.prompts_and_vectors:select_embed_function": {"models.protocols"},
    "gateway.prompts_and_vectors:normalize_vectors": {"models.protocols", "models.unit_vectors"},
    "gateway.prompts_and_vectors:encode_vector": set(),
    "gateway.prompts_and_vectors:decode_vector": set(),
    "techniques.pre_embedding.contextual_chunk_headers:contextual_chunk_headers": FAMILY | TASK | WORDS,
    "techniques.query_expansion.hyde:hyde": FAMILY | TASK | {"techniques.fusion"},
    "techniques.retrieval.bm25:bm25": FAMILY | INDEX,
    "techniques.reranking.cross_encoder:cross_encoder": FAMILY | {"models.protocols", "techniques.fusion"},
    "techniques.passage_filter.sscc:sscc": FAMILY | {"techniques.acceptance", "techniques.fusion"},
    "techniques.passage_augment.prev_next:prev_next": FAMILY | {"index.index", "text.languages"},
    "techniques.passage_compress.tree_summarize:tree_summarize": FAMILY | TASK,
    "techniques.prompt_maker.long_context_reorder:long_context_reorder": FAMILY | {"text.blocks"},
    "techniques.post_generation.reflection_revising:reflection_revising": FAMILY | TASK | {"techniques.generation"},
}


@pytest.mark.parametrize("place", CLOSURES)
def test_a_result_depends_on_these_modules_and_on_no_other(place: str) -> None:
    module, _, name = place.partition(":")
    found = {counted.removeprefix("ragsmith.") for counted in list_dependencies(f"ragsmith.{module}", name)}
    assert found - {module} == CLOSURES[place]


def test_scoring_by_all_measures_depends_on_these_modules_and_on_no_other() -> None:
    functions = [(known.fn.__module__, known.fn.__name__) for known in measures().values()]
    found = {counted.removeprefix("ragsmith.") for place in functions for counted in list_dependencies(*place)}
    beside = {name for name in found if not name.startswith("measures.")}
    assert beside == TASK | WORDS | {"datasets.relevance", "text.declining", "text.content_words", "types"}


def test_everything_in_the_key_is_listed() -> None:
    assert {f"{module.removeprefix('ragsmith.')}:{name}" for module, name in FINGERPRINTED_CODE} <= set(CLOSURES)


def test_a_run_is_identified_by_what_decides_where_it_goes_and_by_nothing_that_only_carries_it_out() -> None:
    """A finished run that gets another key is run again, and looks at its test questions once more."""
    decides = [*DECIDING_CODE, *((known.fn.__module__, known.fn.__name__) for known in STRATEGIES)]
    rooms = {name.split(".")[1] for part in decides for name in list_dependencies(*part)}
    assert rooms <= {
        "strategies",
        "records",  # what is on the front, and what a pipeline costs
        "comparison",  # the loss that simplification may show
        "evaluation",
        "effects",
        "runs",
        "datasets",
        "pipelines",
        "techniques",
        "index",
        "text",
    } | {
        "gateway",  # what a question costs in money
        "models",  # the protocols, by annotations
        "types",
    }
    assert "ragsmith.models.calls" in list_dependencies(
        "ragsmith.evaluation.racing", "Races"
    )  # which models cost something
    modules = {name for part in decides for name in list_dependencies(*part)}
    assert not [name for name in modules if name.startswith(("ragsmith.models.served", "ragsmith.runs.run"))]


@pytest.mark.parametrize(
    ("changed", "strategies"),
    [
        ("greedy", {"greedy"}),
        ("tpe", {"tpe"}),
        ("nsga2", {"nsga2"}),
        ("variation", {"genetic", "nsga2"}),
        ("model_search", {"genetic", "model"}),
    ],
)
def test_a_changed_file_of_one_strategy_changes_the_runs_of_those_that_use_it_alone(
    changed: str, strategies: set[str]
) -> None:
    module = f"ragsmith.strategies.{changed}"
    assert {s.name for s in STRATEGIES if module in list_dependencies(s.fn.__module__, s.fn.__name__)} == strategies
    assert not [part for part in DECIDING_CODE if module in list_dependencies(*part)]
