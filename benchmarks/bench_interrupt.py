"""Press Ctrl-C at moments spread over the first seconds of a default search, and see how it ends.

python benchmarks/bench_interrupt.py [MOMENTS] [--within 15] [--resume 0] [--signal INT]

Each search runs in a fresh folder, with two workers, and the signal goes to its whole process group, as a terminal's
does. A search has to end with exit code 130 within five seconds, with one sentence and without a traceback, and leave
no process behind. ``--resume N`` runs N of the interrupted searches to their end and compares their winner files, byte
by byte, with that of a search that was left alone.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from commands import ragsmith

ARGUMENTS = ("search", "--dataset", "law", "--workers", "2")
ALLOWED_SECONDS = 5.0
HOPELESS_SECONDS = 60.0


@dataclass(frozen=True)
class End:
    """How a search ended that was sent a signal: ``seconds`` after it, or before it was sent if ``finished``."""

    moment: float
    code: int
    seconds: float
    err: str
    left_running: bool
    finished: bool

    @property
    def good(self) -> bool:
        prompt = self.code == 130 and self.seconds <= ALLOWED_SECONDS and not self.left_running
        return prompt and self.err.count("interrupted") == 1 and "Traceback" not in self.err


def group_lives(group: int) -> bool:
    """Whether any process of a group is still there, a moment later at the latest."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    return True


def interrupt_at(folder: Path, moment: float, number: signal.Signals) -> End:
    with (folder / "err").open("w+") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *ARGUMENTS],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
            # a shell that started this in the background has the signal ignored, and that would be inherited
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  no other thread runs here
        )
        finished = True
        sent = time.monotonic()
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            finished = False
            sent = time.monotonic()
            os.killpg(process.pid, number)
            try:
                process.wait(HOPELESS_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = time.monotonic() - sent
        left_running = group_lives(process.pid)
        if left_running:
            os.killpg(process.pid, signal.SIGKILL)
        err.seek(0)
        return End(moment, process.returncode, seconds, err.read(), left_running, finished)


def winner(folder: Path) -> bytes:
    """Run the search in ``folder`` to its end, from whatever is there."""
    done = ragsmith(*ARGUMENTS, "--quiet", folder=folder)
    if done.code != 0:
        raise SystemExit(f"the search ended with {done.code}: {done.err}")
    return (folder / "reports/law/winner.yaml").read_bytes()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("moments", nargs="?", type=int, default=40)
    parser.add_argument("--within", type=float, default=15.0, help="seconds over which the moments are spread")
    parser.add_argument("--resume", type=int, default=0, help="how many of the interrupted searches to finish")
    parser.add_argument("--signal", default="INT", choices=["INT", "TERM", "HUP"])
    asked = parser.parse_args()
    number = signal.Signals[f"SIG{asked.signal}"]
    resumed = {round(i * (asked.moments - 1) / max(asked.resume - 1, 1)) for i in range(asked.resume)}
    good = finished = same = 0
    expected = None
    for index in range(asked.moments):
        with tempfile.TemporaryDirectory() as name:
            end = interrupt_at(Path(name), asked.within * (index + 1) / asked.moments, number)
            good += end.good
            finished += end.finished
            verdict = "finished before" if end.finished else "good" if end.good else "BAD"
            print(
                f"{index + 1:>3}  {end.moment:6.2f} s  code {end.code:>4}  {end.seconds:5.2f} s  {verdict}", flush=True
            )
            if verdict == "BAD":
                print(f"     left running: {end.left_running}; said: {end.err.strip()[-2000:]}", flush=True)
            if index in resumed:
                if expected is None:
                    with tempfile.TemporaryDirectory() as alone:
                        expected = winner(Path(alone))
                same += winner(Path(name)) == expected
                print(f"     resumed; the same winner so far in {same}", flush=True)
    sent = asked.moments - finished
    print(
        f"{asked.signal}: {good} of {sent} ended with 130 within {ALLOWED_SECONDS:g} s; {finished} finished before; "
        f"resumed to the same winner: {same} of {len(resumed)}"
    )
    return int(good < sent or same < len(resumed))


if __name__ == "__main__":
    sys.exit(main())
