"""The answers of a run to mark, without the pipelines that wrote them, and the marks as they are made."""

import json
from datetime import UTC, datetime
from pathlib import Path

from ragsmith.comparison.marked_answers import MARKS, MARKS_FILE, draw_answers, read_marks
from ragsmith.errors import UsageError
from ragsmith.labelling.reviewing.journal import FolderDisk
from ragsmith.labelling.reviewing.page.server import Body, PageServer, Values, describe_passage
from ragsmith.labelling.reviewing.passages import make_passages
from ragsmith.labelling.reviewing.review import login_name, normalise_reviewer
from ragsmith.reporting.building import answers_to_mark
from ragsmith.reporting.run_data import RunData, choose_run
from ragsmith.store.store import Store
from ragsmith.types import Dataset


class Marking:
    """The answers of a run on ``dataset`` to mark, about ``count`` of them drawn with ``seed``.

    The answers are those of the winner and of naive RAG to the same test questions, in random order. Marks are appended
    to ``file``, by default ``marks.jsonl`` in the folder of the data set in ``reports``; those that are there already
    are shown. ``marker`` is who marks, by default the current user. ``run`` is the key of a run, by default the latest
    finished one. Nothing is evaluated, and no model is called.

    Raises:
        UsageError: there is no such run, it has no test answers with scores of a judge, the data set has changed since,
            or the name of the marker is invalid.
    """

    def __init__(
        self,
        store: Store,
        dataset: Dataset,
        file: Path | None = None,
        marker: str | None = None,
        *,
        reports: Path = Path("reports"),
        run: str | None = None,
        count: int = 60,
        seed: int = 0,
    ) -> None:
        about = choose_run(store, dataset.name, run)
        if about.digest != dataset.digest:
            raise UsageError(
                f"{dataset.name!r} has changed since the search {about.run[:12]}: search it again, then mark"
            )
        drawn = draw_answers(*answers_to_mark(RunData(store, about, {})), count, seed)
        self.shown = {str(at): one for at, one in enumerate(drawn, 1)}
        if not self.shown:
            raise UsageError(
                f"the search {about.run[:12]} on {dataset.name!r} has no test answers with scores of a judge: search "
                "with a test (--test), and not for retrieval alone"
            )
        self.dataset, self.file = dataset, file or reports / about.folder / MARKS_FILE
        self.marker, self.marks = normalise_reviewer(marker or login_name()), read_marks(self.file)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._evidence = {example.id: example.evidence for example in dataset.examples}
        self._documents = {document.id: document for document in dataset.documents}

    def server(self, port: int = 0) -> PageServer:
        """Return the server of the page."""
        return PageServer(Path(__file__).parent, {"state": self.state}, {"mark": self.mark}, port)

    def counts(self) -> dict[str, int]:
        """Return the number of answers by mark; ``pending`` are those without one."""
        found = [self.marks.get(answer, "pending") for _, answer in self.shown.values()]
        return {state: found.count(state) for state in (*MARKS, "pending")}

    def state(self, _: Body) -> Values:
        """Return all answers in their order, with their marks, for the page."""
        return {"name": self.dataset.title, "marker": self.marker, "answers": [*map(self._describe, self.shown)]}

    def mark(self, body: Body) -> Values:
        """Append the ``mark`` of the answer ``id`` to the file, and return the answer.

        Raises:
            OSError: the mark could not be written, and is not counted.
            UsageError: there is no such answer or mark.
        """
        at, mark = str(body.get("id")), str(body.get("mark"))
        if at not in self.shown or mark not in MARKS:
            raise UsageError(f"{mark!r} for the answer {at!r} is no mark of these: {', '.join(MARKS)}")
        answer, made = self.shown[at][1], {"marker": self.marker, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        row = {"dataset": self.dataset.name, **answer._asdict(), "mark": mark, **made}
        FolderDisk(self.file.parent).append(self.file.name, b"\n" + json.dumps(row).encode())
        self.marks[answer] = mark
        return {"answer": self._describe(at)}

    def _describe(self, at: str) -> Values:
        question, answer = self.shown[at]
        spans = self._evidence[question]
        passages = [describe_passage(one, range(len(spans))) for one in make_passages(spans, [], self._documents)]
        return {"id": at, **answer._asdict(), "mark": self.marks.get(answer, "pending"), "passages": passages}
