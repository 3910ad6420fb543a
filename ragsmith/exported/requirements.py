"""Refuse options whose requirements a run does not meet, before anything is computed."""

from collections.abc import Iterable, Sequence
from itertools import chain

from ragsmith.errors import UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import RETRIEVAL
from ragsmith.gateway.claims import CallStore
from ragsmith.index.entity_graph import EXTRACT_RELATIONS
from ragsmith.measures.judge import JUDGE
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.models.names import LATE_INTERACTION, NONE, ModelNames
from ragsmith.pipelines.genes import Gene, list_tasks
from ragsmith.pipelines.space import Space
from ragsmith.types import Example

JUDGE_FLAGS = "--judge", "--test-judge"
"""The flags that name the judge of search questions, and that of test questions."""

MODEL_REMEDIES: dict[str, str] = {
    "cross_encoder": f"name a reranker (--reranker {LATE_INTERACTION} is embedded and needs nothing)",
}
"""How to provide each optional model, by role."""


def searchable_space(setup: Experiment, space: Space, *, ranks: bool) -> Space:
    """Return the part of ``space`` that a search on ``setup`` covers, without options that cannot be fitted.

    If ``ranks``, only the stages up to the ranking are searched.

    If some search questions have no answer in the documents, the options of the space for these are added.

    Raises:
        UsageError: an option needs a model that this run lacks, or a package that is not installed, or allows fewer
            chunks, or answers are to be scored and a question has no reference answer.
    """
    if len(setup.folds) < 2:  # without held-out questions, nothing can be fitted
        space = space.without(lambda gene: gene.learns)
    space = space.without(lambda gene: setup.lacks_weights(gene) and not gene.learns)
    if ranks:
        space = space.restricted_to_rankings()
    else:
        refuse_missing_answers(setup.dataset.examples)
        if any(not example.answerable for example in setup.split.search):
            space = space.with_unanswerable()
    genes = list(chain.from_iterable(space.options))
    refuse_missing_models(genes, setup.models)
    refuse_missing_packages(genes)
    refuse_too_large(genes, max(len(variant.corpus.chunks) for variant in setup.variants))
    return space


def leave_out_unable(
    setup: Experiment, space: Space, store: CallStore, *, ranks: bool
) -> tuple[Space, tuple[str, ...]]:
    """Return ``space`` without options whose tasks the controller cannot do, and sentences about that and the judge.

    What models can do is what their last check found with the present prompts, if it was stored. No family loses all of
    its options. If only rankings are searched (``ranks``), nothing is said about the judge.
    """
    models = [variant.loaded_models for variant in setup.variants]
    found = {one.id: store.capabilities(one.id) or ModelCapabilities() for each in models for one in each.all()}

    def is_unable(gene: Gene) -> bool:
        relations = [EXTRACT_RELATIONS] if "entity_graph" in gene.tools else []
        tasks = [*list_tasks([gene]).values(), *relations]
        return all(any(map(found[each.technique_model.id].cannot, tasks)) for each in models)

    unable = {gene for gene in chain.from_iterable(space.options) if is_unable(gene)}
    unable -= set(chain.from_iterable(genes for genes in space.options if unable.issuperset(genes)))
    listed = [
        (name, [str(gene) for gene in genes if gene in unable])
        for name, genes in zip(space.names, space.options, strict=True)
    ]
    judges = {flag: judge.id for each in models for flag, judge in zip(JUDGE_FLAGS, each.judges, strict=False)}
    said = [
        f"the judge {judge} cannot judge, by its last `ragsmith models check`: name another one with {flag}"
        for flag, judge in judges.items()
        if found[judge].cannot(JUDGE) and not ranks
    ]
    if options := "; ".join(f"{name}: {', '.join(genes)}" for name, genes in listed if genes):
        said.append(
            f"the controller cannot do the tasks of {options}, by its last `ragsmith models check`: "
            "a search that starts after it is without these options, until another check shows that it can"
        )
    return space.without(unable.__contains__), tuple(said)


def refuse_missing_answers(examples: Sequence[Example]) -> None:
    """Refuse to score answers without reference answers.

    Raises:
        UsageError: a question has no reference answer.
    """
    without = [example.id for example in examples if example.answerable and not example.answer.strip()]
    if without:
        raise UsageError(
            f"{len(without)} of {len(examples)} questions have no reference answer to score by, the first is "
            f"{without[0]}: add them, or tune retrieval alone with --objective {RETRIEVAL}"
        )


def refuse_missing_models(genes: Iterable[Gene], names: ModelNames) -> None:
    """Refuse options whose model this run lacks.

    Raises:
        UsageError: the message names these options, the model, and how to provide it.
    """
    for kind, remedy in MODEL_REMEDIES.items():
        if names.for_role(kind).name != NONE:
            continue
        needing = dict.fromkeys(
            f"{gene.technique.family}.{gene.technique.name}" for gene in genes if kind in gene.technique.tools.values()
        )
        if needing:
            listed = f"{' and '.join(needing)} {'needs' if len(needing) == 1 else 'need'}"
            raise UsageError(
                f"{listed} a {kind.replace('_', '-')} and this run has none: {remedy}, or leave the "
                f"option{'s' if len(needing) > 1 else ''} out of the space"
            )


def refuse_missing_packages(genes: Iterable[Gene]) -> None:
    """Refuse options that need a package which is not installed.

    Raises:
        MissingExtra: a package is missing; the message says how to install it.
    """
    for gene in genes:
        for name, values in gene.technique.packages.items():
            if package := values.get(gene.parameters[name]):
                package.check()


def refuse_too_large(genes: Iterable[Gene], chunks: int) -> None:
    """Refuse options that would take too much time or memory for so many chunks.

    Raises:
        UsageError: the message names these options with their limits.
    """
    limits = {
        f"{gene.technique.family}.{gene.technique.name}": gene.technique.most_chunks
        for gene in genes
        if gene.technique.most_chunks is not None and gene.technique.most_chunks < chunks
    }
    if limits:
        listed = " and ".join(f"{name} is for at most {most:,}" for name, most in limits.items())
        raise UsageError(
            f"the collection has {chunks:,} chunks, and {listed}, as time and memory grow with them: leave the "
            f"option{'s' if len(limits) > 1 else ''} out, give larger chunks, or take a part of the documents"
        )
