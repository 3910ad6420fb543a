"""Write the winner of a finished run, or another of its pipelines, as YAML with all parameters and scores."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from ragsmith.datasets.bundled import bundled_names
from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.groups import MAX_GAP
from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation, load_evaluation
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.latency import select_timed_questions
from ragsmith.evaluation.ranking import common_questions
from ragsmith.exported.file import FORMAT
from ragsmith.exported.reference import Reference, documents_digest
from ragsmith.models.names import ModelNames
from ragsmith.models.vector_stores import AUTO, from_relative_address, to_relative_address
from ragsmith.pipelines.genes import N_FAMILIES, SYSTEM, Candidate, configuration, label, system_parameters
from ragsmith.records.front import pick_pipeline
from ragsmith.records.objectives import load_latencies
from ragsmith.records.record import CROSSFIT, RiskCalibration, RunRecord, list_searches, load_record
from ragsmith.store.store import RunRow, Store
from ragsmith.techniques.registry import load_techniques
from ragsmith.techniques.user_code import FILESYSTEM_ROOT, import_recorded_files, record_imports
from ragsmith.text.restoring import stored_by_other_code
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


def export_yaml(
    evaluation: Evaluation,
    test: Evaluation | None,
    setup: Experiment,
    run: Mapping[str, Any],
    *,
    location: Mapping[str, str],
    folder: Path,
    fitness: Fitness,
    ids: Mapping[str, str] | None = None,
) -> str:
    """Return the YAML of a pipeline; apart from latencies, it does not depend on time and machine.

    Paths are relative to ``folder``. ``ids`` are those of the models by role; if given, no model is loaded and no API
    key is needed.
    """
    techniques = [gene.technique.fn for gene in evaluation.candidate]
    names = [setup.models, *([setup.scored_by.models] if setup.scored_by else [])]
    models = [factory for model_names in names for factory in model_names.factories()]
    imports = record_imports([*techniques, *(known.fn for known in setup.measures), *models], folder)
    vector_store_address = setup.models.vector_store_address
    reference = Reference.from_evaluation(setup, test, fitness, ids) if test else None
    documents = {} if reference else {"documents_digest": documents_digest(setup.dataset)}
    content = {
        "format": FORMAT,
        "ragsmith": version("ragsmith"),
        "dataset": {"name": setup.dataset.name, **location, "digest": setup.dataset.digest, **documents},
        **_chunking(setup),
        **({"gap": setup.gap} if setup.gap != MAX_GAP else {}),
        **({"imports": imports} if imports else {}),
        **({} if vector_store_address == AUTO else {"vector_store": to_relative_address(folder, vector_store_address)}),
        "models": {**setup.models.to_dict(), "ids": dict(ids or setup.model_ids)},
        **({"marked_by": {**_chunking(by), "models": by.models.to_dict()}} if (by := setup.scored_by) else {}),
        "fitness": fitness.to_dict(folder),
        **_describe(evaluation.candidate, setup, folder),
        "run": dict(run),
        "expected": expected_scores(evaluation, test, fitness),
        **({"reference": reference.to_dict()} if reference else {}),
    }
    origin = "found" if evaluation.records else "recommended"
    what, then = "pipeline", 'Ask it:  ragsmith ask THIS_FILE "your question"'
    if system_parameters(evaluation.candidate):
        what, then = "system", "Compare it:  ragsmith compare THIS_FILE recommended bm25"
    head = f"# A {what} {origin} by ragsmith {version('ragsmith')}.  {then}\n"
    if fitness.ranking_only:
        head += (
            "# Only retrieval was tuned: the stages after passage_filter were not searched, and no answer was scored.\n"
        )
    return head + dump_yaml(content)


def _describe(candidate: Candidate, setup: Experiment, folder: Path) -> dict[str, Any]:
    """Return the entries of the file that say what answers: a pipeline, or another system with its parameters."""
    if not (parameters := system_parameters(candidate)) or setup.system is None:
        return {"pipeline": configuration(candidate[:N_FAMILIES])}
    program, _, function = setup.system.place.rpartition(":")
    named = next(gene for gene in candidate if gene.technique.family == SYSTEM)
    return {
        SYSTEM: f"{Path(os.path.relpath(program, folder.resolve())).as_posix()}:{function}",
        "version": str(named.parameters["version"]).partition("@")[0],
        "parameters": parameters,
    }


def dump_yaml(content: Mapping[str, Any]) -> str:
    """Format the content of an exported file as YAML, with text of several lines as literal blocks."""
    return yaml.dump(dict(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes text of several lines as literal blocks."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _chunking(setup: Experiment) -> dict[str, int]:
    """Return the entries of the file about chunking."""
    overlap = {"chunk_overlap": setup.chunk_overlap} if setup.chunk_overlap else {}
    return {"chunk_size": setup.chunk_size, **overlap}


def expected_scores(search: Evaluation | None, test: Evaluation | None, fitness: Fitness) -> dict[str, dict[str, Any]]:
    """Return the mean scores over the search and test questions that a pipeline finished, for verification.

    ``questions`` is their number, and ``failed`` has the ids of the other questions, if any.
    """
    expected: dict[str, dict[str, Any]] = {}
    for part, whole in (("search", search), ("test", test)):
        if whole is None or not whole.records or not whole.attempted:
            continue
        evaluation = whole.restrict(common_questions([whole]))
        names = (*HEADLINE, *evaluation.measures)
        means = {name: mean for name in names if (mean := evaluation.mean(name, fitness)) is not None}
        failed = {"failed": sorted(whole.failures)} if whole.failures else {}
        expected[part] = {"questions": len(evaluation.questions), **failed, **means}
    return expected


def dataset_location(dataset: Dataset, folder: Path) -> dict[str, str]:
    """Return the bundled name, or the path relative to ``folder``, of a data set; {} if it was made in Python.

    The path is text in UTF-8, also where the encoding of the file system is another one (`LC_ALL=C`).
    """
    if not dataset.source:
        return {}
    path = Path(dataset.source)
    if not path.is_dir() and dataset.source in bundled_names("datasets"):
        return {"bundled": dataset.source}
    encoded = os.fsencode(Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix())
    return {"path": encoded.decode(errors="surrogateescape")}


@dataclass(frozen=True, slots=True)
class ExportedPipeline:
    """A pipeline of a run that was written to ``path``.

    ``pick`` is the criterion by which it was picked, ``"calibrated"`` for the winner that was calibrated to a stated
    risk, and ``is_winner`` whether it is the winner of the run as it was before. ``fitness`` and model ``calls`` are
    means over the search ``questions`` that it finished.
    """

    path: Path
    run: str
    pick: str
    label: str
    is_winner: bool
    fitness: float
    calls: float
    questions: int


def load_run_experiment(
    store: Store, dataset: Dataset | str | Path, run_key: str | None = None
) -> tuple[str, Experiment]:
    """Return the key of a run on ``dataset`` (the latest with a winner, unless named), and its experiment.

    Raises:
        UsageError: there is no such run, it has no winner, or a user's file that it needs is missing or has changed.
    """
    load_techniques()
    data = dataset if isinstance(dataset, Dataset) else load_dataset(dataset)
    recorded = [
        (row, RunRecord.from_dict(row.value, row.key)) for row in list_searches(store) if row.dataset == data.digest
    ]
    named = [(row, record) for row, record in recorded if row.key.startswith(run_key or "")]
    if recorded and not named:
        raise UsageError(f"no search {run_key!r} on {data.name!r} is in the cache: see `ragsmith runs`")
    ended = sorted(
        ((row, record) for row, record in named if record.winner or record.no_winner),
        key=lambda pair: pair[0].finished or "",
    )
    if named and not ended:
        raise UsageError(_describe_unfinished(store, data, *named[-1]))
    if not ended:
        raise UsageError(
            f"the cache has no search on {data.name!r} as it is now: start one with  ragsmith search "
            f"{data.source or data.name}"
        )
    row, record = next((pair for pair in reversed(ended) if pair[1].winner), ended[-1])
    if record.winner is None:
        raise UsageError(f"the search {row.key[:12]} on {data.name!r} has no winner: {record.no_winner}")
    import_recorded_files(record.imports, FILESYSTEM_ROOT)
    with stored_by_other_code("the record of a search", f"run:{row.key}"):
        names = ModelNames.from_dict(record.model_names)
    if record.vector_store != AUTO:
        names = replace(names, vector_store=from_relative_address(FILESYSTEM_ROOT, record.vector_store))
    return row.key, Experiment(data, names, record.chunk_size, chunk_overlap=record.chunk_overlap, gap=record.split.gap)


def _describe_unfinished(store: Store, data: Dataset, row: RunRow, record: RunRecord) -> str:
    """Describe the state of an unfinished search, and how to finish it."""
    state, count = record.state(row.state), len(store.proposals(row.key))
    progress = f"after {count} pipeline{'' if count == 1 else 's'}" if count else "before it proposed a pipeline"
    if state == "running":
        return f"the search {row.key[:12]} on {data.name!r} is still running and has no winner yet: wait until it ends"
    return (
        f"the search {row.key[:12]} on {data.name!r} was stopped {progress} and has no winner yet: the same search "
        "command resumes it, and `ragsmith report` shows the results so far"
    )


def winner_yaml(store: Store, run_key: str, setup: Experiment, folder: Path, pick: str = "best") -> str:
    """Return the YAML of a run's winner, or of another of its pipelines (see `PICKS`), for a file in ``folder``.

    Raises:
        UsageError: the run is unknown, or has no winner, or no pipeline that ``pick`` names.
    """
    record = _read_finished(store, run_key)
    return _pipeline_yaml(store, run_key, record, pick_pipeline(store, run_key, record, pick), setup, folder, pick)


def _read_finished(store: Store, run_key: str) -> RunRecord:
    record = load_record(store, run_key)
    if record is None or record.winner is None:
        why = f": {record.no_winner}" if record and record.no_winner else " yet: let the search finish first"
        raise UsageError(f"this run has no winner{why}")
    return record


def _pipeline_yaml(
    store: Store, run_key: str, record: RunRecord, winner: Evaluation, setup: Experiment, folder: Path, pick: str
) -> str:
    """Return the YAML of the pipeline ``winner`` of a run.

    Raises:
        UsageError: it is another system, and ``setup`` is not that of its search, so that its program is unknown.
    """
    if system_parameters(winner.candidate) and setup.system is None:
        advice = "run its search once more, which computes nothing and writes the file"
        raise UsageError(f"{label(winner.candidate)} is another system, and no program is in the cache: {advice}")
    split, settings = record.split, record.settings
    # another search may have tested this pipeline
    key_on_test = record.key_on_test(winner.key) if split.test and record.untested is None else ""
    test = load_evaluation(store, key_on_test, split.test) if key_on_test else None
    run = {
        "key": run_key,
        "space": record.space.name,
        "strategy": settings.strategy,
        "seed": settings.seed,
        "evaluations": len(store.proposals(run_key)),
        **({} if pick == "best" else {"pick": pick}),
        **({"verdict": CROSSFIT} if settings.verdict == CROSSFIT else {}),
        **({"decided_by": record.models["test_judge"]} if "test_judge" in record.models else {}),
        **({"risk": _stated_risk(found)} if (found := record.declining) and found.key == winner.key else {}),
    }
    if (seconds := load_latencies(store, record, [winner]).get(winner.key)) is not None:
        timed = len(select_timed_questions(split.order, winner.records))
        run |= {"latency_seconds": seconds, "latency_questions": timed, "machine": settings.machine}
    if drafted := {example.id for example in setup.dataset.examples if example.drafted}:
        run["drafted"] = {part: len(drafted.intersection(getattr(split, part))) for part in ("search", "test")}
    if record.failed:
        excluded = {question: str(why) for question, why in record.excluded.items()}
        run |= {
            "failed_answers": record.failed,
            "max_failure_rate": settings.max_failure_rate,
            "excluded_questions": excluded,
        }
    ids = record.models
    if winner.candidate[N_FAMILIES:] and (described := store.evaluation(winner.key)):
        ids = {**record.models, **described.configuration["models"]}
    return export_yaml(
        winner,
        test,
        setup.for_candidate(winner.candidate),
        run,
        location=dataset_location(setup.dataset, folder),
        folder=folder,
        fitness=settings.fitness,
        ids=ids,
    )


def _stated_risk(found: RiskCalibration) -> dict[str, Any]:
    """Return the stated risk, the threshold that keeps it, and the counts of answers on search and test questions."""
    counts = {part: asdict(count) for part, count in (("search", found.calibrated), ("test", found.tested)) if count}
    return {"at_most": found.risk, "confidence": found.confidence, "least": found.least, **counts}


def write_winner(store: Store, run_key: str, setup: Experiment, path: Path, pick: str = "best") -> Path:
    """Write a run's winner, or the pipeline that ``pick`` names, atomically to ``path``."""
    return write_file(winner_yaml(store, run_key, setup, path.parent, pick), path)


def export(store: Store, run_key: str, setup: Experiment, path: Path, pick: str = "best") -> ExportedPipeline:
    """Write a run's winner, or the pipeline that ``pick`` names, and return its description.

    A `Notice` warns if a file is replaced.

    Raises:
        UsageError: as for `winner_yaml`, or ``path`` is a folder.
    """
    record = _read_finished(store, run_key)
    picked = pick_pipeline(store, run_key, record, pick)
    write_file(_pipeline_yaml(store, run_key, record, picked, setup, path.parent, pick), path, warn=True)
    fitness, calls = picked.values("fitness", record.settings.fitness), picked.values("calls")
    means = math.fsum(fitness) / len(fitness), math.fsum(calls) / len(calls)
    kind = "calibrated" if record.declining and picked.key == record.declining.key else pick
    return ExportedPipeline(
        path, run_key, kind, label(picked.candidate), picked.key == record.winner, *means, len(calls)
    )
