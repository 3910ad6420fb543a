"""Searches of `law` on servers that fail: what changes, what a judge that is down costs, and how soon Ctrl-C ends.

python benchmarks/bench_faults.py [EVALUATIONS]
"""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from commands import ragsmith  # noqa: E402
from fault_kinds import Fault  # noqa: E402
from served import PASSING, Left, Ruled, failures, left, passing, said  # noqa: E402

from ragsmith.datasets.dataset import load_dataset  # noqa: E402
from ragsmith.datasets.splits import split  # noqa: E402
from ragsmith.store.store import Store  # noqa: E402

EVALUATIONS = sys.argv[1] if len(sys.argv) > 1 else "8"
SEARCH = (
    *("search", "--dataset", "law", "--space", "quick", "--population", "8", "--no-probes", "--quiet"),
    *("--max-evaluations", EVALUATIONS),
)
NOWHERE = "http://127.0.0.1:9/v1"


def stored(folder: Path) -> Left:
    with Store.open(folder / "cache.sqlite") as store:
        return left(store)


def winner(folder: Path) -> str:
    path = folder / "reports" / "law" / "winner.yaml"
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.exists() else "none"


def models(folder: Path, llm: str, judge: str) -> tuple[str, str]:
    path = folder / "models.yaml"
    path.write_text(
        f"language_model: {{model: 'openai:tiny', base_url: '{llm}'}}\n"
        f"judge: {{model: 'openai:judge', base_url: '{judge}'}}\n"
    )
    return "--models", str(path)


def transient() -> None:
    """20 % of attempts fail in ways that pass."""
    ended = []
    for share in (0.0, 0.2):
        rule = passing(share, kinds=(*PASSING, "429_date"))
        with Ruled(rule, latency=0.05) as server, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ran = ragsmith(*SEARCH, "--llm", "openai:tiny", "--base-url", server.url, folder=folder)
            ended.append((stored(folder), winner(folder)))
            faults = Counter(request.fault for request in server.log if request.fault)
            told = [request for request in server.log if request.told is not None]
            again = {(request.digest, request.attempt): request.time for request in server.log}
            early = sum(again[t.digest, t.attempt + 1] < t.replied + (t.told or 0.0) for t in told)
            print(
                f"{share:4.0%} faults: exit {ran.code}, {ran.wall:5.1f} s, {len(server.log):,} requests, "
                f"{faults.total()} faults {dict(sorted(faults.items()))}, {early} of {len(told)} retries too early, "
                f"answered at most {server.most_given()} times, winner {ended[-1][1]}",
                flush=True,
            )
    print(f"results, ranking, replies and winner identical: {ended[0] == ended[1]}", flush=True)


def judge_down() -> None:
    """The judge is at a server of its own, which never answers."""
    troubles = {"refuses connections": None, "HTTP 500": Fault(), "hangs": Fault("hang")}
    for trouble, fault in {**troubles, "429, 1 s": Fault("429", 1.0), "429, 20 s": Fault("429", 20.0)}.items():
        with Ruled(latency=0.2) as llm, Ruled() as judge, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            judge.always = fault
            stopped = ragsmith(*SEARCH, *models(folder, llm.url, judge.url if fault else NOWHERE), folder=folder)
            kept, sent, found = len(stored(folder).calls), len(llm.log), winner(folder)
            judge.always = None
            resumed = ragsmith(*SEARCH, *models(folder, llm.url, judge.url), folder=folder)
            twice = sum(request.attempt > 1 for request in llm.log)
            print(
                f"judge {trouble:19}: exit {stopped.code} after {stopped.wall:4.1f} s, winner {found}, {kept} of "
                f"{sent} answers kept; resumed: exit {resumed.code}, {twice} of {len(llm.log)} asked for again\n"
                f"    {stopped.err.strip()}",
                flush=True,
            )


def hard_question() -> None:
    """A question that the server rejects, in every prompt and in the imagined passages alone."""
    text = min(split(load_dataset("law")).search, key=lambda example: example.id).question
    for what, mark in (("every prompt", ""), ("query expansion alone", "Write a passage")):
        with Ruled() as server, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            server.rule = lambda r, m=mark: Fault(status=400) if m in said(r) and text in said(r) else None  # type: ignore[misc]
            ran = ragsmith(*SEARCH, "--llm", "openai:tiny", "--base-url", server.url, folder=folder)
            found = stored(folder)
            with Store.open(folder / "cache.sqlite") as store:
                failed = failures(store)
            unscored = sum(fitness is None for _, _, fitness in found.ranking)
            print(
                f"one question rejected in {what}: exit {ran.code}, {len(failed)} failures, {unscored} of "
                f"{len(found.ranking)} candidates without a score, winner {winner(folder)}  {ran.err.strip()[:160]}",
                flush=True,
            )


def interrupted() -> None:
    """Ctrl-C while a slow server is waited for."""
    with Ruled(latency=1.0) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *SEARCH, "--llm", "openai:tiny", "--base-url", server.url],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            while len(server.log) < 40 and process.poll() is None:
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGINT)
            began = time.perf_counter()
            _, said_last = process.communicate()
            took = time.perf_counter() - began
        kept = len(stored(folder).calls)
        print(
            f"Ctrl-C: exit {process.returncode} after {took:.1f} s, {kept} of {len(server.log)} replies kept: "
            f"{said_last.strip()}"
        )


if __name__ == "__main__":
    transient()
    judge_down()
    hard_question()
    interrupted()
