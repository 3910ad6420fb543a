"""Read the file of a pipeline, exported or written by hand; error messages have file and line.

Only ``dataset`` and ``pipeline`` are required; all other keys and parameters have defaults. A pipeline without
``expected`` scores can be evaluated, but not verified.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragsmith.datasets.bundled import bundled_names, find_bundled
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.groups import MAX_GAP
from ragsmith.datasets.splits import CROSSFIT
from ragsmith.digest import digest
from ragsmith.errors import DatasetError, SpaceError, UsageError
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.exported.reference import Reference, documents_digest
from ragsmith.models.file import parse_models
from ragsmith.models.names import ModelNames
from ragsmith.models.vector_stores import from_relative_address
from ragsmith.pipelines.genes import SYSTEM, Candidate, read_configuration
from ragsmith.pipelines.space_file import read_system
from ragsmith.plugins import is_instance_of
from ragsmith.techniques.user_code import import_recorded_files
from ragsmith.text.files import find_nearest_file
from ragsmith.text.strict_yaml import read_yaml
from ragsmith.types import Dataset

FORMAT = 1
"""The version of the file format."""

KEYS = (
    *("format", "ragsmith", "dataset", "chunk_size", "chunk_overlap", "gap", "imports", "vector_store", "models"),
    *("marked_by", "fitness", "pipeline", "run", "expected", "reference", SYSTEM, "version", "parameters"),
)


FORM = "this is not a pipeline: `ragsmith recommend`, `search` and `export` write one"


def check_file(path: Path) -> Path:
    """Return the path of a pipeline; raise UsageError if there is no such file."""
    if path.is_dir():
        source = shlex.quote(str(path))
        writes = f"`ragsmith recommend {source} -o winner.yaml` writes one for its documents"
        raise UsageError(f"{path} is a folder, and not a pipeline: {writes}")
    if not path.exists():
        near = find_nearest_file(path)
        advice = (
            f"did you mean {near}?"
            if near
            else "this is the name of a data set, and the file of a pipeline is given first"
            if str(path) in bundled_names("datasets")
            else "`ragsmith recommend`, `search` and `export` write a pipeline"
        )
        raise UsageError(f"there is no file {str(path)!r}: {advice}")
    return path


class ExportedFile:
    """The content of the file of a pipeline; error messages have file and line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tree = read_yaml(check_file(path), SpaceError)
        keys = self._tree.data if isinstance(self._tree.data, dict) else {}
        if "dataset" not in keys and ("families" in keys or SYSTEM in keys):
            raise self._tree.error(
                (), "this is a search space, and no pipeline: search it with  ragsmith search --space"
            )
        self._data = self._tree.mapping(known=KEYS, form=FORM)
        if missing := [key for key in ("dataset", "pipeline") if key not in self._data and SYSTEM not in keys]:
            raise self._tree.error((), f"{missing[0]!r} is missing; {FORM}")
        if (given := self._data.get("format", FORMAT)) != FORMAT:
            reads = f"this version of ragsmith reads format {FORMAT}, not {given!r}"
            raise self._tree.error(("format",), f"{reads}: export the pipeline again")

    def import_files(self) -> None:
        """Import the user's files that the pipeline needs, which may define its techniques, measures and models."""
        listed = self._data.get("imports", [])
        is_valid = isinstance(listed, list) and all(
            isinstance(entry, dict)
            and set(entry) == {"file", "digest"}
            and all(isinstance(value, str) for value in entry.values())
            for entry in listed
        )
        if not is_valid:
            raise self._tree.error(("imports",), "imports must list files by 'file' and 'digest'")
        import_recorded_files(listed, self._path.parent)

    def candidate(self) -> Candidate:
        """Return the pipeline, with validated techniques and parameters."""
        pipeline = self._tree.mapping(("pipeline",))
        for family, gene in pipeline.items():
            has_technique = isinstance(gene, dict) and isinstance(gene.get("technique"), str)
            is_valid = has_technique and not set(gene) - {"technique", "parameters", "fitted", "prompts"}
            if not is_valid or not all(isinstance(gene.get(part, {}), dict) for part in ("parameters", "prompts")):
                raise self._tree.error(
                    ("pipeline", family), f"{family} must have a 'technique' by name, and 'parameters'"
                )
        return read_configuration(pipeline, self._tree.where("pipeline"))

    def system(self) -> tuple[str, str, Mapping[str, Any]]:
        """Return the place of the function that builds another system, its version, and its parameters.

        Raises:
            SpaceError: the program or its function is missing, or cannot be imported.
        """
        program, function, _ = read_system(self._tree, self._data.get(SYSTEM), self._path.parent)
        parameters = self._tree.mapping(("parameters",))
        return f"{program.resolve()}:{function}", str(self._data.get("version", "")), parameters

    def models(self) -> ModelNames:
        """Return the models by name, with the vector store and the options that shape results, without addresses."""
        given = {key: value for key, value in self._tree.mapping(("models",), optional=True).items() if key != "ids"}
        names = ModelNames().override(parse_models(self._tree, given, "models", affecting_results=True))
        if "vector_store" not in self._data:
            return names
        address = from_relative_address(self._path.parent, str(self._data["vector_store"]))
        return replace(names, embedder=names.for_role("embedder").with_options(vector_store=address))

    def model_ids(self) -> dict[str, str]:
        """Return the ids of the models at export, by role."""
        ids = self._tree.mapping(("models", "ids"), optional=True)
        if not all(isinstance(value, str) for value in ids.values()):
            raise self._tree.error(("models", "ids"), "ids must be 'role: model id' pairs")
        return ids

    def setup(
        self, data: Dataset, names: ModelNames, faithfulness: bool | None, given: Mapping[str, Any]
    ) -> Experiment:
        """Return the experiment of the pipeline with the models ``names``; the file may name others for scoring."""
        gap = self._characters((), "gap", MAX_GAP, 1)
        setup = Experiment(
            data, names, self._size(()), faithfulness, given=given, chunk_overlap=self._overlap(()), gap=gap
        )
        section = self._tree.mapping(("marked_by",), known=("chunk_size", "chunk_overlap", "models"), optional=True)
        if not section:
            return setup
        at = ("marked_by",)
        given_names = self._tree.mapping((*at, "models"), optional=True)
        marking = names.override(parse_models(self._tree, given_names, *at, "models", affecting_results=True))
        scoring = replace(setup, models=marking, chunk_size=self._size(at), chunk_overlap=self._overlap(at))
        return replace(setup, scored_by=scoring)

    def _size(self, at: tuple[str, ...]) -> int:
        return self._characters(at, "chunk_size", CHUNK_SIZE, 1)

    def _overlap(self, at: tuple[str, ...]) -> int:
        overlap, size = self._characters(at, "chunk_overlap", 0, 0), self._size(at)
        if overlap >= size:
            raise self._tree.error(
                (*at, "chunk_overlap"), f"chunks of {size} characters cannot overlap by {overlap}: give less"
            )
        return overlap

    def _characters(self, at: tuple[str, ...], name: str, default: int, least: int) -> int:
        number: int = self._tree.mapping(at).get(name, default)
        if not is_instance_of(int, number) or number < least:
            positive = "a positive whole number" if least else "a whole number from 0"
            raise self._tree.error((*at, name), f"{name} must be {positive}, not {number!r}")
        return number

    def fitness(self) -> Fitness:
        """Return the fitness by which the pipeline was chosen."""
        if "fitness" not in self._data:
            return Fitness()
        try:
            return Fitness.from_dict(self._tree.mapping(("fitness",)), self._path.parent)
        except (ValueError, UsageError) as error:
            raise self._tree.error(("fitness",), str(error)) from error

    def expected(self) -> dict[str, Any]:
        """Return the mean scores at export, by part (``search`` and ``test``) and name.

        ``questions`` is the number of questions, and ``failed`` has the ids of those that had failed.
        """
        expected = self._tree.mapping(("expected",), optional=True)
        for part, scores in expected.items():
            if (
                part not in ("search", "test")
                or not isinstance(scores, dict)
                or not {"questions", "fitness"} <= set(scores)
            ):
                raise self._tree.error(("expected", part), f"{part} must have 'questions', 'fitness' and other scores")
            failed = scores.get("failed", [])
            if not isinstance(failed, list) or not all(isinstance(question, str) for question in failed):
                raise self._tree.error(("expected", part, "failed"), "failed must list the ids of questions")
            for name, score in scores.items():
                if name != "failed" and not is_instance_of(float, score):
                    raise self._tree.error(("expected", part, name), f"{name} must be a number, not {score!r}")
        return expected

    def reference(self) -> Reference | None:
        """Return the scores of single test questions at export, or None if the file has none."""
        if "reference" not in self._data:
            return None
        try:
            return Reference.from_dict(self._tree.mapping(("reference",)))
        except ValueError as error:
            raise self._tree.error(("reference",), str(error)) from error

    def dataset(self, other: Dataset | str | Path | None, *, asking: bool = False) -> Dataset:
        """Return ``other``, or the data set of the file, which must be unchanged since the search.

        If only its questions changed, its documents alone are returned for ``asking``.
        """
        if other is not None:
            return other if isinstance(other, Dataset) else load_dataset(other)
        try:
            data = self.named_dataset()
        except DatasetError as error:
            raise DatasetError(error.mistakes, (*error.advice, *self._ask_advice())) from error
        section = self._tree.mapping(("dataset",))
        if data.digest != section.get("digest", data.digest):
            found_on = reference.documents if (reference := self.reference()) else section.get("documents_digest")
            if asking and found_on == documents_digest(data):
                return load_documents(self.folder())
            raise self._tree.error(
                ("dataset", "digest"),
                f"data set {self._location()[1]!r} is not the one this pipeline was found on: its documents or "
                f"questions changed; search again, score on them as they are with `ragsmith evaluate "
                f"{shlex.quote(str(self._path))} --dataset {self._quoted_location()}`, or answer from the documents as "
                f"they are with `{self._ask_command()}`",
            )
        return data

    def _ask_advice(self) -> Sequence[str]:
        """Return the advice to use `ragsmith ask`, if only the documents of the data set can be read, else nothing."""
        if self._location()[0] == "bundled":
            return ()
        try:
            load_documents(self.folder())
        except UsageError:
            return ()
        return (f"`ragsmith ask` needs no questions:  {self._ask_command()}",)

    def _ask_command(self) -> str:
        """Return the command that asks questions about the current documents."""
        return f'ragsmith ask {shlex.quote(str(self._path))} "..." --documents {self._quoted_location()}'

    def _quoted_location(self) -> str:
        kind, name, folder = self._location()
        return shlex.quote(name if kind == "bundled" else str(folder))

    def source(self) -> str:
        """Return the folder or bundled name of the data set, as in `Dataset.source`."""
        kind, name, folder = self._location()
        return name if kind == "bundled" else str(folder.resolve())

    def named_dataset(self) -> Dataset:
        """Load the data set of the file in its current state."""
        kind, _, folder = self._location()
        if kind != "bundled" and not folder.is_dir():
            raise self._tree.error(
                ("dataset",),
                f"the documents of this pipeline are missing: there is no folder {folder}, as seen from this file; put "
                "both back where they were, or name the folder with --documents or --dataset",
            )
        return (load_documents if kind == "documents" else load_dataset)(folder)

    def content(self) -> dict[str, Any]:
        """Return the content of the file."""
        return dict(self._tree.mapping())

    def folder(self) -> Path:
        """Return the folder of the data set or of the documents."""
        return self._location()[2]

    def _location(self) -> tuple[str, str, Path]:
        """Return the kind of location of the data set (a key of the file), its value, and the folder."""
        section = self._tree.mapping(("dataset",))
        kinds = {"path", "bundled", "documents"} & set(section)
        if not kinds:
            raise self._tree.error(
                ("dataset",),
                f"the data set {section.get('name')!r} was an object in Python and is in no file: pass it as "
                "dataset=..., or write it to a folder (write_dataset) and name that with --dataset",
            )
        form = "'dataset' must have a 'path', the name of a 'bundled' one, or a folder of 'documents'"
        if len(kinds) != 1 or not isinstance(section[kind := kinds.pop()], str):
            raise self._tree.error(("dataset",), form)
        name = section[kind]
        place = Path(self._path.parent, os.fsdecode(name.encode())).resolve()  # file systems may not be in UTF-8
        here = Path.cwd()
        folder = place.relative_to(here) if place.is_relative_to(here) else place
        return kind, name, find_bundled("datasets", name) if kind == "bundled" else folder

    def stated_risk(self) -> dict[str, Any]:
        """Return the risk that the pipeline was calibrated to: ``at_most`` and ``confidence``; {} if none was stated.

        Raises:
            SpaceError: they are no shares.
        """
        stated = self._tree.mapping(("run", "risk"), optional=True) if "run" in self._data else {}
        for name in ("at_most", "confidence") if stated else ():
            if not is_instance_of(float, stated.get(name)):
                raise self._tree.error(("run", "risk"), f"'risk' must have {name}, a number, not {stated.get(name)!r}")
        return dict(stated)

    def space(self) -> str:
        """Return the name of the search space; "" if no search found the pipeline."""
        return str(self._tree.mapping(("run",), optional=True).get("space", ""))

    def run_key(self) -> str:
        """Return the key of the search that found the pipeline; "" if none did."""
        return str(self._tree.mapping(("run",), optional=True).get("key", ""))

    def chosen_on_all(self, data: Dataset) -> bool:
        """Whether the pipeline is the winner of a crossfit on ``data``, even if questions were edited since."""
        return self._tree.mapping(("run",), optional=True).get("verdict") == CROSSFIT and self.chosen_on(data)

    def chosen_on(self, data: Dataset) -> bool:
        """Whether a search chose the pipeline on ``data``, an earlier state of it, or another data set of its name."""
        same = self.is_on(data) or self._tree.mapping(("dataset",)).get("name") == data.name
        return same and bool(self.expected())

    def index_digest(self) -> str:
        """Return the digest of the documents, the chunking, and the pre-embedding and retrieval techniques.

        Techniques are identified by name and parameters, not by their code, which another version may change.
        """
        section = self._tree.mapping(("dataset",))
        documents = section.get("digest") or {
            kind: value if kind in ("name", "bundled") else str(Path(self._path.parent, str(value)).resolve())
            for kind, value in section.items()
        }
        genes = [self._tree.mapping(("pipeline", family), optional=True) for family in ("pre_embedding", "retrieval")]
        techniques = [
            [gene.get("technique"), gene.get("parameters") or {}, *([gene["prompts"]] if "prompts" in gene else [])]
            for gene in genes
        ]
        return digest("index", documents, self._size(()), self._overlap(()), techniques)

    def dataset_digest(self) -> str:
        """Return the digest of the data set that the pipeline was found on; "" if the file has none."""
        return str(self._tree.mapping(("dataset",)).get("digest", ""))

    def is_on(self, data: Dataset) -> bool:
        """Whether the pipeline was found on these documents and questions."""
        return bool(self._tree.mapping(("dataset",)).get("digest") == data.digest)
