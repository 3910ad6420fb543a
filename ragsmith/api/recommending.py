"""`recommend`: a pipeline named for documents, by what was learned on other data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import ModelArguments
from ragsmith.api.resources import (
    FitnessSpec,
    Resources,
    say_what_is_not_covered,
    space_of,
)
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.knowledge import read as read_effects
from ragsmith.errors import WrongOption
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment
from ragsmith.evaluation.fitness import Fitness
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
    fitness: FitnessSpec = None,
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
    question are the most that the pipeline may make; any number unless given. ``effects`` is a file of
    learned effects, or what was read from one: unless given, what ships with ragsmith. ``output`` names a file for the
    pipeline, which `ask` takes. No model is called. The other arguments are those of `search`.

    Raises:
        UsageError: the documents, the space or a model cannot be used.
    """
    resources = Resources(**given)
    if calls is not None and calls < 1:
        raise WrongOption("calls", f"is {calls}: give at least 1, for the answer")
    chosen, objects = resources.named()
    bare = not isinstance(documents, Dataset) and _has_no_questions(documents)
    data = documents if isinstance(documents, Dataset) else (load_documents if bare else load_dataset)(documents)
    setup = Experiment(data, chosen, CHUNK_SIZE if chunk_size is None else chunk_size, given=objects)
    known = effects if isinstance(effects, Knowledge) else read_effects(effects)
    say_what_is_not_covered(setup)
    found = name_pipelines(setup, space_of(space, None), known, most_calls=calls, fitness=Fitness.of(fitness))
    if output is not None:
        folder = Path(documents) if bare and not isinstance(documents, Dataset) else None
        write_file(found.yaml(Path(output).parent, folder), Path(output), telling=True)
    return found


def _has_no_questions(folder: str | Path) -> bool:
    """Whether a folder has documents and no questions; what is no folder is the name of a data set."""
    return Path(folder).is_dir() and not (Path(folder) / QUESTIONS).exists()
