"""`recommend`, and `learn_effects`, which it goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import ModelArguments, WorkArguments
from ragsmith.api.given import (
    GivenFitness,
    Resources,
    say_what_is_not_covered,
    space_of,
)
from ragsmith.datasets.bundled import names
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.knowledge import read as read_effects
from ragsmith.effects.learning import PIPELINES, learn
from ragsmith.errors import WrongOption
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup
from ragsmith.pipelines.space import Space
from ragsmith.runs.recommended import Recommended
from ragsmith.runs.recommended import recommend as name_pipelines
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


def recommend(
    documents: Dataset | str | Path,
    *,
    calls: int | None = None,
    space: Space | str | Path = "default",
    fitness: GivenFitness = None,
    chunk_size: int | None = None,
    effects: Knowledge | str | Path | None = None,
    output: str | Path | None = None,
    **given: Unpack[ModelArguments],
) -> Recommended:
    """Name a pipeline for documents without any question, by what was learned on other data sets.

    >>> found = ragsmith.recommend("law", calls=1)
    >>> [round(one.calls) for one in found.classes][0], found.left_out
    (1, ('law',))

    ``documents`` is a folder of them, or a data set, whose questions are not looked at. ``calls`` of a language model a
    question are the most that the pipeline may make; any number unless given. ``effects`` is a file of `learn_effects`,
    or what it returned: unless given, what ships with ragsmith. ``output`` names a file for the pipeline, which `ask`
    takes. No model is called. The other arguments are those of `search`.

    Raises:
        UsageError: the documents, the space or a model cannot be used.
    """
    resources = Resources(**given)
    if calls is not None and calls < 1:
        raise WrongOption("calls", f"is {calls}: give at least 1, for the answer")
    chosen, objects = resources.named()
    bare = not isinstance(documents, Dataset) and _has_no_questions(documents)
    data = documents if isinstance(documents, Dataset) else (load_documents if bare else load_dataset)(documents)
    setup = Setup(data, chosen, CHUNK_SIZE if chunk_size is None else chunk_size, given=objects)
    known = effects if isinstance(effects, Knowledge) else read_effects(effects)
    say_what_is_not_covered(setup)
    found = name_pipelines(setup, space_of(space, None), known, most_calls=calls, fitness=Fitness.of(fitness))
    if output is not None:
        folder = Path(documents) if bare and not isinstance(documents, Dataset) else None
        write_file(found.yaml(Path(output).parent, folder), Path(output), telling=True)
    return found


def learn_effects(
    datasets: Sequence[Dataset | str | Path] | None = None,
    *,
    pipelines: int = PIPELINES,
    space: Space | str | Path = "default",
    seed: int = 0,
    chunk_size: int | None = None,
    output: str | Path | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    **given: Unpack[WorkArguments],
) -> Knowledge:
    """Learn what options are worth, from a sample of ``pipelines`` on the search questions of each of ``datasets``.

    All bundled ones are learned from unless they are named. What ``cache`` has is not computed again. ``seed`` draws
    the sample, ``output`` names a file for what was learned, which has numbers only, and ``on_progress`` is told a
    data set, how many pipelines are done, and of how many. The other arguments are those of `search`.

    Raises:
        UsageError: as for `search`, or there are fewer than two data sets.
    """
    resources = Resources(**given)
    found = space_of(space, None)
    named = [resources.setup(one, chunk_size) for one in datasets or names("datasets")]
    with resources.store() as store:
        learned = learn(
            named,
            found,
            store,
            pipelines=pipelines,
            seed=seed,
            workers=resources.workers_for(named[0]),
            on_progress=on_progress,
        )
    if output is not None:
        learned.write(Path(output))
    return learned


def _has_no_questions(folder: str | Path) -> bool:
    """Whether a folder has documents and no questions; what is no folder is the name of a data set."""
    return Path(folder).is_dir() and not (Path(folder) / QUESTIONS).exists()
