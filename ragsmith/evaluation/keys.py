"""What makes a stored evaluation stale: a change in anything that its value depends on, and in nothing else.

These are the data, how it is cut, the genes (technique, code, parameters, fitted numbers), the models, and the code
that makes and scores answers, with the versions of the libraries it uses. A change in any of them misses; how an
error is worded, what a file is called and how models are reached are not among them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from ragsmith.digest import digest, fingerprint
from ragsmith.models.roles import MEASURES_EMBEDDER
from ragsmith.pipelines.genes import GENES, Candidate
from ragsmith.techniques.families import FILTER, post_generation

if TYPE_CHECKING:
    from ragsmith.evaluation.experiment import Experiment
    from ragsmith.measures.registry import Measure

CODE = (
    ("ragsmith.datasets.chunking.chunking", "chunk_documents"),
    ("ragsmith.datasets.relevance", "ChunkMap"),
    ("ragsmith.pipelines.engine", "Engine"),
    ("ragsmith.pipelines.genes", "facing"),
    ("ragsmith.evaluation.scoring", "scored"),
    ("ragsmith.evaluation.scoring", "scored_ranking"),
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
"""The code of ours, besides techniques and models, from a document to a record: a module, and what is called there."""


def evaluation_key(setup: Experiment, candidate: Candidate) -> str:
    """Identifies what every record of ``candidate`` on the data set of ``setup`` depends on."""
    further = [[gene.identity for gene in candidate[GENES:]]] if candidate[GENES:] else []
    key = pipeline_key(setup.of(candidate), candidate[:GENES], setup.measures)
    return digest("record", key, [measure.identity for measure in setup.measures], *further)


def ranking_key(setup: Experiment, candidate: Candidate) -> str:
    """Identifies what the rankings of ``candidate`` depend on: its genes up to the filter, and the models they ask."""
    setup, genes = setup.of(candidate), candidate[: FILTER + 1]
    measured = [known for known in setup.measures if known.subject == "ranking"]
    identities = [gene.identity for gene in genes], [known.identity for known in measured]
    return digest("ranking", setup.dataset.digest, setup.cut, *identities, _asked(setup, genes, measured), code())


def retrieval_key(setup: Experiment, candidate: Candidate) -> str:
    """Identifies what every record of ``candidate`` depends on where retrieval alone is evaluated.

    Rankings have a key of their own; the store names the pipeline that was ranked first.
    """
    return digest("retrieval", ranking_key(setup, candidate), [gene.identity for gene in candidate[FILTER + 1 :]])


def pipeline_key(setup: Experiment, genes: Candidate, measured: Sequence[Measure] = ()) -> str:
    """Identifies what the stages of ``genes``, a pipeline or the beginning of one, say of the data set of ``setup``.

    What is ``measured`` of it has models of its own.
    """
    identities = [gene.identity for gene in genes]
    models = _asked(setup, genes, measured)
    return digest("evaluation", setup.dataset.digest, setup.cut, identities, models, code())


def _asked(setup: Experiment, genes: Candidate, measured: Sequence[Measure]) -> dict[str, str]:
    """What identifies the models that ``genes``, and measures of what they do, ask, by role.

    The embedder is that of the index; what another embedder marks goes by a role of its own.
    """
    tools = {tool for gene in genes for tool in gene.technique.tools.values()}
    roles = {"embedder"} | ({"cross_encoder"} & tools)
    if tools & {"language_model", "entity_graph"}:
        roles.add("controller" if "controller" in setup.model_ids else "language_model")
    if any(gene.technique.family == post_generation.name for gene in genes):
        roles.add("language_model")
    marking = {role for known in measured for role in known.tools.values()}
    roles |= marking | ({MEASURES_EMBEDDER} if "embedder" in marking else set())
    return {role: setup.model_ids[role] for role in sorted(roles & setup.model_ids.keys())}


@cache
def code() -> tuple[str, ...]:
    """Fingerprints of `CODE`, and the version of Unicode: it says which characters make a word."""
    return (*(fingerprint(module, name) for module, name in CODE), unicodedata.unidata_version)
