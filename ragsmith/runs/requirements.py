"""What options need that a run may lack: found out, and said, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragsmith.errors import UsageError
from ragsmith.evaluation.fitness import RETRIEVAL
from ragsmith.models.names import LATE_INTERACTION, NONE, ModelNames
from ragsmith.pipelines.genes import Gene
from ragsmith.types import Example

HOW_TO_GET: dict[str, str] = {
    "cross_encoder": f"name a reranker (--reranker {LATE_INTERACTION} is embedded and needs nothing)",
}
"""Kind of tool that a run may do without, and where it comes from."""


def refuse_missing_answers(examples: Sequence[Example]) -> None:
    """Refuse to score answers where there is nothing to compare them with.

    Raises:
        UsageError: a question has no reference answer.
    """
    without = [example.id for example in examples if not example.answer.strip()]
    if without:
        raise UsageError(
            f"{len(without)} of {len(examples)} questions have no reference answer to score by, the first is "
            f"{without[0]}: add them, or tune retrieval alone with --objective {RETRIEVAL}"
        )


def refuse_missing_models(genes: Iterable[Gene], names: ModelNames) -> None:
    """Refuse options whose model this run has not.

    Raises:
        UsageError: there are some; the message names them, what they need, and how to get it.
    """
    for kind, remedy in HOW_TO_GET.items():
        if names.of(kind).name != NONE:
            continue
        needing = dict.fromkeys(
            f"{gene.technique.family}.{gene.technique.name}" for gene in genes if kind in gene.technique.tools.values()
        )
        if needing:
            word = "needs" if len(needing) == 1 else "need"
            listed = " and ".join(needing)
            raise UsageError(
                f"{listed} {word} a {kind.replace('_', '-')} and this run has none: {remedy}, or leave the "
                f"option{'s' if len(needing) > 1 else ''} out of the space"
            )
