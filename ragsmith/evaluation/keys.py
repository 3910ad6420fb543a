"""Keys of stored evaluations, which include everything that results depend on, and nothing else.

A key depends on the data, the chunking, the genes (technique, code, parameters, fitted parameters), the models, and the
code that computes and scores answers, with the versions of its libraries. It does not depend on messages, file names or
the addresses of models.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from ragsmith.digest import digest, fingerprint
from ragsmith.models.roles import MEASURES_EMBEDDER
from ragsmith.pipelines.genes import N_FAMILIES, Candidate
from ragsmith.techniques.families import FILTER_INDEX, post_generation

if TYPE_CHECKING:
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.measures.registry import Measure

FINGERPRINTED_CODE = (
    ("ragsmith.datasets.chunking.chunking", "chunk_documents"),
    ("ragsmith.datasets.relevance", "ChunkMap"),
    ("ragsmith.pipelines.engine", "Engine"),
    ("ragsmith.pipelines.genes", "out_of_fold"),
    ("ragsmith.evaluation.scoring", "score_answer"),
    ("ragsmith.evaluation.scoring", "score_ranking"),
    *(
        ("ragsmith.gateway.prompts_and_vectors", name)
        for name in (
            "render_prompt",
            "complete_until_parsed",
            "parse_reply",
            "select_embed_function",
            "normalize_vectors",
            "encode_vector",
            "decode_vector",
        )
    ),
)
"""Functions and classes, by module, that results depend on besides techniques and models."""


def evaluation_key(setup: Experiment, candidate: Candidate, *, tested: bool = False) -> str:
    """Return the key of the records of ``candidate`` on the data set of ``setup``; by the test judge if ``tested``."""
    further = [[gene.identity for gene in candidate[N_FAMILIES:]]] if candidate[N_FAMILIES:] else []
    key = pipeline_key(setup.for_candidate(candidate), candidate[:N_FAMILIES], setup.measures, tested=tested)
    return digest("record", key, [measure.identity for measure in setup.measures], *further)


def ranking_key(setup: Experiment, candidate: Candidate) -> str:
    """Return the key of the rankings of ``candidate``, from its genes up to the filter and their models."""
    setup, genes = setup.for_candidate(candidate), candidate[: FILTER_INDEX + 1]
    measured = [known for known in setup.measures if known.subject == "ranking"]
    identities = [gene.identity for gene in genes], [known.identity for known in measured]
    return digest(
        "ranking",
        setup.data_digest(genes),
        setup.chunking_key,
        *identities,
        _used_model_ids(setup, genes, measured),
        code_fingerprints(),
    )


def retrieval_key(setup: Experiment, candidate: Candidate) -> str:
    """Return the key of the records of ``candidate`` if retrieval alone is evaluated.

    Pipelines with equal rankings have different keys, so that the store describes each of them.
    """
    return digest("retrieval", ranking_key(setup, candidate), [gene.identity for gene in candidate[FILTER_INDEX + 1 :]])


def pipeline_key(setup: Experiment, genes: Candidate, measured: Sequence[Measure] = (), *, tested: bool = False) -> str:
    """Return the key of the outputs of ``genes``, a pipeline or its first stages, on the data set of ``setup``.

    The models of the ``measured`` values are included, with the test judge as the judge if ``tested``.
    """
    identities = [gene.identity for gene in genes]
    models = _used_model_ids(setup, genes, measured, tested=tested)
    return digest("evaluation", setup.data_digest(genes), setup.chunking_key, identities, models, code_fingerprints())


def finding_key(key: str, test_judge: str) -> str:
    """Return the key of a finding on an evaluation, of which another ``test_judge`` scored a part if it is not ""."""
    return f"{key}:{test_judge}" if test_judge else key


def scoring_model_ids(ids: Mapping[str, str], *, tested: bool = False) -> dict[str, str]:
    """Return the ids of models by role without the test judge, which is the judge if answers are ``tested``."""
    judge = {"judge": ids["test_judge"]} if tested and "test_judge" in ids else {}
    return {role: id_ for role, id_ in {**ids, **judge}.items() if role != "test_judge"}


def _used_model_ids(
    setup: Experiment, genes: Candidate, measured: Sequence[Measure], *, tested: bool = False
) -> dict[str, str]:
    """Return the ids by role of the models that ``genes`` and the measures use.

    The embedder is that of the index; an embedder used for scoring has its own role.
    """
    tools = {tool for gene in genes for tool in gene.technique.tools.values()}
    roles = {"embedder"} | ({"cross_encoder"} & tools)
    if tools & {"language_model", "entity_graph"}:
        roles.add("controller" if "controller" in setup.model_ids else "language_model")
    if any(gene.technique.family == post_generation.name for gene in genes):
        roles.add("language_model")
    marking = {role for known in measured for role in known.tools.values()}
    roles |= marking | ({MEASURES_EMBEDDER} if "embedder" in marking else set())
    ids = scoring_model_ids(setup.model_ids, tested=tested)
    return {role: ids[role] for role in sorted(roles & ids.keys())}


@cache
def code_fingerprints() -> tuple[str, ...]:
    """Return the fingerprints of `FINGERPRINTED_CODE`, and the version of Unicode, which affects tokenization."""
    return (*(fingerprint(module, name) for module, name in FINGERPRINTED_CODE), unicodedata.unidata_version)
