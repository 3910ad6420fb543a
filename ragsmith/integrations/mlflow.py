"""Log a search as one run of MLflow: settings, metrics by step, the report and the winner.

The run is found again by the key of the search, and a metric that it has for a step is not logged again. A search that
was killed and resumed repeats its steps from stored results, and so is one run, without gaps or doubles.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from ragsmith.errors import WrongOption, warn_caller
from ragsmith.records.record import RunRecord
from ragsmith.runs.run_context import Step

EXPERIMENT = "ragsmith"


class MlflowRun:
    """The run of the search ``run_key`` in the tracking store ``uri``, created unless it exists.

    Later errors of MLflow are warnings: the same search, repeated, logs what is missing.

    Raises:
        WrongOption: the tracking store cannot be used.
    """

    def __init__(self, uri: str, run_key: str, dataset: str) -> None:
        tags = {"ragsmith.run": run_key, "ragsmith.dataset": dataset}
        try:
            self._client = client = MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(EXPERIMENT)
            experiment_id = experiment.experiment_id if experiment else client.create_experiment(EXPERIMENT)
            found = client.search_runs([experiment_id], f"tags.`ragsmith.run` = '{run_key}'")
            run = found[0] if found else client.create_run(experiment_id, None, tags, f"{dataset} {run_key[:12]}")
            self._id, names = run.info.run_id, run.data.metrics
            self._logged = {(one.key, one.step) for name in names for one in client.get_metric_history(self._id, name)}
            client.update_run(self._id, "RUNNING")
        except (MlflowException, OSError) as error:
            raise WrongOption("mlflow", f"is {uri}, which cannot be used: {error}") from None

    def log_step(self, step: Step) -> None:
        """Log the best fitness so far, and the number of candidates, of a step of a strategy; ignore other steps."""
        if step.best is not None:
            with _errors_as_warnings():
                self._log(step.phase, step.number, best=step.best, candidates=step.evaluated)

    def end(self, state: str, record: RunRecord, files: Sequence[Path]) -> None:
        """Log the settings, all generations, and ``files``; a search that can be resumed is killed, to MLflow."""
        with _errors_as_warnings():
            settings = record.to_dict()["settings"]
            settings |= {**settings.pop("genetic"), "space": record.space.name, "chunk_size": record.chunk_size}
            settings |= {f"model.{role}": model for role, model in record.models.items()}
            known = self._client.get_run(self._id).data.params  # cannot be changed, and a time limit might have been
            new = [Param(name, str(value)) for name, value in settings.items() if name not in known]
            self._client.log_batch(self._id, params=new)
            for one in record.history:
                self._log("search", one.number, best=one.best, mean=one.mean, diversity=one.diversity)
            for file in files:
                self._client.log_artifact(self._id, str(file))
            self._client.set_terminated(self._id, "FINISHED" if state == "finished" else "KILLED")

    def _log(self, phase: str, step: int, **values: float | None) -> None:
        """Log those metrics of a step that the run lacks."""
        named = {re.sub(r"[^\w ]", "", f"{phase} {name}"): value for name, value in values.items()}
        at = int(1000 * time.time())
        new = [
            Metric(name, value, at, step)
            for name, value in named.items()
            if value is not None and (name, step) not in self._logged
        ]
        self._client.log_batch(self._id, metrics=new)
        self._logged |= {(one.key, one.step) for one in new}


@contextmanager
def _errors_as_warnings() -> Iterator[None]:
    try:
        yield
    except (MlflowException, OSError) as error:
        warn_caller(f"MLflow: {error}; the same search logs what is missing")
