"""Progress on standard error: a live table on a terminal, lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ragsmith.building import LOGGER
from ragsmith.cli import START_TIME
from ragsmith.cli.output import print_stderr

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from ragsmith.runs.run_context import Start, StatusReader, Step


class TaskProgressHandler(logging.Handler):
    """Log handler that passes the progress of long tasks to ``show``, or prints it as lines on standard error."""

    def __init__(self, show: Callable[[logging.LogRecord], None] | None = None) -> None:
        super().__init__()
        self._show = show or (lambda record: print_stderr(record.getMessage()))

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._show(record)


def show_task_progress(show: Callable[[logging.LogRecord], None] | None = None) -> None:
    """Pass the progress of long tasks to ``show`` from now on, or print it as lines."""
    for handler in [handler for handler in LOGGER.handlers if isinstance(handler, TaskProgressHandler)]:
        LOGGER.removeHandler(handler)
    LOGGER.addHandler(TaskProgressHandler(show))
    LOGGER.setLevel(logging.INFO)


JSON_INTERVAL_SECONDS = 10.0
"""Minimum number of seconds between two JSON lines about a batch."""

LINE_INTERVAL_SECONDS = 60.0
"""Minimum number of seconds between two lines about a batch if standard error is not a terminal."""

REFRESHES_PER_SECOND = 4
"""Maximum number of refreshes of the live table per second."""


class Progress:
    """Display of the progress of a search.

    ``mode`` is ``live`` (a table on a terminal), ``lines``, ``json`` or ``none``.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._steps: int | None = None
        self._started = START_TIME
        self._last_output = self._started
        self._best: tuple[str, float] | None = None
        self._best_label = ""
        self._step = ("", 0, 0)
        self._batch = (0, 0)
        self._searching_since: float | None = None
        self._read_status: StatusReader | None = None
        self._live: Live | None = None

    @classmethod
    def for_output(cls, *, quiet: bool, as_json: bool) -> Progress:
        """Return the display for standard error: a live table on a terminal, else lines; JSON lines, or none."""
        mode = "none" if quiet else "json" if as_json else "live" if sys.stderr.isatty() else "lines"
        return cls(mode)

    def seconds(self) -> float:
        """Return the seconds since the command started."""
        return time.perf_counter() - self._started

    def begin_dataset(self, position: int, total: int, name: str) -> None:
        """Report which of several data sets is searched next."""
        self.clear()
        if self._mode == "json":
            self._print_event("data set", name=name, place=position, of=total)
        elif self._mode != "none":
            print_stderr(f"{position} of {total}: {name}")

    def begin(self, start: Start) -> None:
        """Report the data set and the space of a search that starts.

        Steps are counted for each search, and seconds from the start of the command.
        """
        from ragsmith.reporting.wording import describe_search_cost

        self.clear()
        self._best, self._best_label, self._step, self._batch = None, "", ("", 0, 0), (0, 0)
        self._searching_since = None
        self._read_status, self._steps = start.read_status, start.steps
        data, space, size = start.setup.dataset, start.space.name, start.space.feasible_size
        chunks = len(start.setup.corpus.chunks)
        counts = {"documents": len(data.documents), "chunks": chunks, "questions": len(data.examples)}
        cost = {"look": describe_search_cost(start.look)} if start.look and start.look.questions else {}
        if self._mode == "json":
            self._print_event("begin", dataset=data.name, **counts, space=space, pipelines=size, **cost)
            return
        for sentence in cost.values():  # not progress: printed with --quiet, too
            print_stderr(sentence)
        if self._mode != "none":
            listed = ", ".join(f"{n} {name}" for name, n in counts.items())
            print_stderr(f"{data.name}: {listed}; space {space!r}: {size:,} pipelines")
        if self._mode == "live":
            self._start_live(auto_refresh=start.setup.prefers_threads)

    def step(self, step: Step) -> None:
        """Report a completed step."""
        from ragsmith.pipelines.genes import label

        suffix = ""
        if step.best is not None and step.best_candidate is not None:
            suffix = f"  best {step.best:.4f}"
            if (step.phase, step.best) != self._best:
                self._best_label = label(step.best_candidate)
                suffix += f"  {self._best_label}"
            self._best = (step.phase, step.best)
        self._step = (step.phase, step.number, step.evaluated)
        self._batch = (0, 0)
        if self._searching_since is None:
            self._searching_since = time.perf_counter()
        if self._mode == "json":
            best = {"best": step.best, "pipeline": self._best_label} if step.best is not None else {}
            self._print_event(
                "step", phase=step.phase, number=step.number, evaluated=step.evaluated, **best, **self._spending()
            )
        where = f"{step.phase} {step.number:>2}" if step.phase == "search" else step.phase
        self._print_progress_line(f"[{self.seconds():6.1f} s] {where}  {step.evaluated:>4} evaluated{suffix}")

    def progress(self, done: int, total: int) -> None:
        """Update the number of answers of the batch, and show it at intervals."""
        self._batch = (done, total)
        now = time.perf_counter()
        if self._mode == "json" and now - self._last_output > JSON_INTERVAL_SECONDS:
            self._print_event("progress", done=done, total=total, **self._spending())
        if self._mode == "lines" and now - self._last_output > LINE_INTERVAL_SECONDS:
            self._print_progress_line(f"[{self.seconds():6.1f} s] {done:,} of {total:,} answers")
        if (
            self._live is not None
            and not self._live.auto_refresh
            and now - self._last_output > 1 / REFRESHES_PER_SECOND
        ):
            self._last_output = now
            self._live.refresh()

    def task_progress(self, record: logging.LogRecord) -> None:
        """Report the progress of a long task, such as building an index; see `ragsmith.building`."""
        if self._mode == "json":
            self._print_event("building", **vars(record)["fields"])
        self._print_progress_line(f"[{self.seconds():6.1f} s] {record.getMessage()}")

    def clear(self) -> None:
        """Remove the live table."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _start_live(self, *, auto_refresh: bool) -> None:
        """Show the live table; ``auto_refresh`` starts a thread, after which the process cannot be forked."""
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            get_renderable=self._table,
            console=Console(stderr=True),
            auto_refresh=auto_refresh,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._live.start()

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for name, value in self._table_rows().items():
            grid.add_row(Text(name, style="dim"), Text(value, overflow="ellipsis", no_wrap=True))
        return grid

    def _table_rows(self) -> dict[str, str]:
        phase, number, evaluated = self._step
        done, total = self._batch
        shown = {"step": f"{phase or 'baselines'} {number or ''}  {evaluated} evaluated  {done:,} of {total:,} answers"}
        if self._best:
            shown["best"] = f"{self._best[1]:.4f}  {self._best_label}"
        if self._read_status:
            activity, spent = self._read_status()
            if activity.attempts:
                rate = activity.attempts / max(self.seconds(), 1e-9)
                shown["calls"] = f"{activity.in_flight} in flight  {spent.calls:,} sent  {rate:.1f} a second"
                if activity.retries:
                    shown["calls"] += f"  {activity.retries:,} tried again"
                shown["spent"] = f"{spent.tokens:,} tokens" + (f"  {spent.cost:.4f} money" if spent.cost else "")
        left = self._seconds_left()
        shown["time"] = f"{self.seconds():.0f} s" + ("" if left is None else f", about {left:.0f} s left")
        return shown

    def _seconds_left(self) -> float | None:
        """Estimate the seconds of the remaining steps from those of the completed ones; None if unknown."""
        phase, number, _ = self._step
        if self._steps is None or self._searching_since is None or phase != "search" or number < 2:
            return None
        done, total = self._batch
        finished = number + (done / total if total else 0.0)
        took = time.perf_counter() - self._searching_since
        return max(0.0, (self._steps - finished) * took / finished)

    def _spending(self) -> dict[str, Any]:
        if self._read_status is None:
            return {}
        activity, spent = self._read_status()
        return {
            "calls": spent.calls,
            "in_flight": activity.in_flight,
            "retries": activity.retries,
            "tokens": spent.tokens,
            "cost": spent.cost,
            "seconds_left": self._seconds_left(),
        }

    def _print_event(self, event: str, **fields: Any) -> None:
        self._last_output = time.perf_counter()
        print_stderr(json.dumps({"event": event, "seconds": round(self.seconds(), 1), **fields}))

    def _print_progress_line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._mode == "lines":
            self._last_output = time.perf_counter()
            print_stderr(text)
