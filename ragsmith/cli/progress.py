"""Progress on standard error: a live table on a terminal, lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any

from ragsmith.building import LOGGER
from ragsmith.cli import BEGAN
from ragsmith.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import LogRecord

    from rich.live import Live
    from rich.table import Table

    from ragsmith.runs.run_context import Pulse, Start, Step


class BuildMessages(logging.Handler):
    """Prints messages about long tasks: a line each, unless a command shows them otherwise."""

    def __init__(self, show: Callable[[logging.LogRecord], None] | None = None) -> None:
        super().__init__()
        self._show = show or (lambda record: note(record.getMessage()))

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._show(record)


def show_building(show: Callable[[logging.LogRecord], None] | None = None) -> None:
    """Have what is being built shown by ``show`` from now on, or else as lines."""
    for handler in [handler for handler in LOGGER.handlers if isinstance(handler, BuildMessages)]:
        LOGGER.removeHandler(handler)
    LOGGER.addHandler(BuildMessages(show))
    LOGGER.setLevel(logging.INFO)


EVERY_SECONDS = 10.0
"""The interval between JSON lines about a batch."""

LINE_SECONDS = 60.0
"""The interval after which a file gets a line about a batch."""

DRAWN_A_SECOND = 4
"""Maximum number of times that the table is drawn in a second."""


class Progress:
    """What is shown while a search runs."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._steps: int | None = None
        self._started = BEGAN
        self._told = self._started
        self._best: tuple[str, float] | None = None
        self._best_label = ""
        self._step = ("", 0, 0)
        self._batch = (0, 0)
        self._searching_since: float | None = None
        self._pulse: Pulse | None = None
        self._live: Live | None = None

    @classmethod
    def suited(cls, *, quiet: bool, as_json: bool) -> Progress:
        """The progress for a terminal, a file or a program, or none."""
        mode = "none" if quiet else "json" if as_json else "live" if sys.stderr.isatty() else "lines"
        return cls(mode)

    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self._started

    def of_several(self, place: int, of: int, name: str) -> None:
        """Say which of several data sets is searched next."""
        self.clear()
        if self._mode == "json":
            self._tell("data set", name=name, place=place, of=of)
        elif self._mode != "none":
            note(f"{place} of {of}: {name}")

    def begin(self, start: Start) -> None:
        """Say what is searched, and remember where to ask what providers do and what was spent.

        A search that begins after another has its own steps; seconds count from the beginning of the command.
        """
        self.clear()
        self._best, self._best_label, self._step, self._batch = None, "", ("", 0, 0), (0, 0)
        self._searching_since = None
        self._pulse, self._steps = start.pulse, start.steps
        data, space, size = start.setup.dataset, start.space.name, start.space.feasible_size
        chunks = len(start.setup.corpus.chunks)
        counts = {"documents": len(data.documents), "chunks": chunks, "questions": len(data.examples)}
        if self._mode == "json":
            self._tell("begin", dataset=data.name, **counts, space=space, pipelines=size)
            return
        if self._mode != "none":
            listed = ", ".join(f"{n} {name}" for name, n in counts.items())
            note(f"{data.name}: {listed}; space {space!r}: {size:,} pipelines")
        if self._mode == "live":
            self._go_live(by_itself=start.setup.waits)

    def step(self, step: Step) -> None:
        """Say how a step ended."""
        from ragsmith.pipelines.genes import label

        said = ""
        if step.best is not None and step.best_candidate is not None:
            said = f"  best {step.best:.4f}"
            if (step.phase, step.best) != self._best:
                self._best_label = label(step.best_candidate)
                said += f"  {self._best_label}"
            self._best = (step.phase, step.best)
        self._step = (step.phase, step.number, step.evaluated)
        self._batch = (0, 0)
        if self._searching_since is None:
            self._searching_since = time.perf_counter()
        if self._mode == "json":
            best = {"best": step.best, "pipeline": self._best_label} if step.best is not None else {}
            self._tell(
                "step", phase=step.phase, number=step.number, evaluated=step.evaluated, **best, **self._spending()
            )
        where = f"{step.phase} {step.number:>2}" if step.phase == "search" else step.phase
        self._line(f"[{self.seconds():6.1f} s] {where}  {step.evaluated:>4} evaluated{said}")

    def progress(self, done: int, total: int) -> None:
        """Take note of how far the batch is."""
        self._batch = (done, total)
        now = time.perf_counter()
        if self._mode == "json" and now - self._told > EVERY_SECONDS:
            self._tell("progress", done=done, total=total, **self._spending())
        if self._mode == "lines" and now - self._told > LINE_SECONDS:
            self._line(f"[{self.seconds():6.1f} s] {done:,} of {total:,} answers")
        if self._live is not None and not self._live.auto_refresh and now - self._told > 1 / DRAWN_A_SECOND:
            self._told = now
            self._live.refresh()

    def building(self, record: LogRecord) -> None:
        """Say what is being built once for the whole collection: see `ragsmith.building`."""
        if self._mode == "json":
            self._tell("building", **vars(record)["fields"])
        self._line(f"[{self.seconds():6.1f} s] {record.getMessage()}")

    def clear(self) -> None:
        """Take the live table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _go_live(self, *, by_itself: bool) -> None:
        """Show the table; one that is drawn ``by_itself`` needs a thread, and a process with two cannot be copied."""
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            get_renderable=self._table,
            console=Console(stderr=True),
            auto_refresh=by_itself,
            refresh_per_second=DRAWN_A_SECOND,
            transient=True,
        )
        self._live.start()

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for name, value in self._shown().items():
            grid.add_row(Text(name, style="dim"), Text(value, overflow="ellipsis", no_wrap=True))
        return grid

    def _shown(self) -> dict[str, str]:
        phase, number, evaluated = self._step
        done, total = self._batch
        shown = {"step": f"{phase or 'baselines'} {number or ''}  {evaluated} evaluated  {done:,} of {total:,} answers"}
        if self._best:
            shown["best"] = f"{self._best[1]:.4f}  {self._best_label}"
        if self._pulse:
            activity, spent = self._pulse()
            if activity.attempts:
                rate = activity.attempts / max(self.seconds(), 1e-9)
                shown["calls"] = f"{activity.in_flight} in flight  {spent.calls:,} sent  {rate:.1f} a second"
                if activity.retries:
                    shown["calls"] += f"  {activity.retries:,} tried again"
                shown["spent"] = f"{spent.tokens:,} tokens" + (f"  {spent.cost:.4f} money" if spent.cost else "")
        left = self._left()
        shown["time"] = f"{self.seconds():.0f} s" + ("" if left is None else f", about {left:.0f} s left")
        return shown

    def _left(self) -> float | None:
        """Seconds that the remaining steps take if they take what those so far took."""
        phase, number, _ = self._step
        if self._steps is None or self._searching_since is None or phase != "search" or number < 2:
            return None
        done, total = self._batch
        finished = number + (done / total if total else 0.0)
        took = time.perf_counter() - self._searching_since
        return max(0.0, (self._steps - finished) * took / finished)

    def _spending(self) -> dict[str, Any]:
        if self._pulse is None:
            return {}
        activity, spent = self._pulse()
        return {
            "calls": spent.calls,
            "in_flight": activity.in_flight,
            "retries": activity.retries,
            "tokens": spent.tokens,
            "cost": spent.cost,
            "seconds_left": self._left(),
        }

    def _tell(self, event: str, **said: Any) -> None:
        self._told = time.perf_counter()
        note(json.dumps({"event": event, "seconds": round(self.seconds(), 1), **said}))

    def _line(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._mode == "lines":
            self._told = time.perf_counter()
            note(text)
