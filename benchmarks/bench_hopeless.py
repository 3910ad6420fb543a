"""Searches of `law` where some prompts always fail, where all of one role do, and where a server is down for a while.

Each ends by itself; what is hopeless is asked once, the same command asks nothing again, and nothing is paid twice.

python benchmarks/bench_hopeless.py [prompts | roles | outage]
"""

import hashlib
import itertools
import re
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from commands import Ran, ragsmith  # noqa: E402
from fault_kinds import Fault  # noqa: E402
from fault_server import Request  # noqa: E402
from served import Ruled, said  # noqa: E402

SHARES = (100, 20)
"""One prompt of so many always fails: 1 %, with which a run has a winner, and 5 %, with which it may have none."""
PROMPTS = {
    "empty": Fault("empty_content"),
    "cut": Fault("cut_at_limit"),
    "unreadable": Fault("malformed"),
    "HTTP 400": Fault(status=400, said="this prompt is not answered"),
}
ROLES = {**PROMPTS, "HTTP 500": Fault("500"), "HTTP 429": Fault("429", wait=1.0)}
SPACE = """families:
  pre_embedding: [none]
  query_expansion: [none]
  retrieval: [bm25, vector]
  reranking: [none]
  passage_filter: [top_k: {k: [2, 5]}]
  passage_augment: [none]
  passage_compress: [none]
  prompt_maker: [listing]
  post_generation: [none]
"""
"""Four pipelines; with the test questions, all 70 are asked."""


def search(folder: Path, *more: str) -> Ran:
    space = folder / "four.yaml"
    space.write_text(SPACE)
    command = ("search", "--dataset", "law", "--space", str(space), "--strategy", "exhaustive", "--no-probes")
    return ragsmith(*command, "--quiet", *more, folder=folder)


def models(folder: Path, llm: str, judge: str) -> tuple[str, str]:
    path = folder / "models.yaml"
    path.write_text(
        f"language_model: {{model: 'openai:tiny', base_url: '{llm}'}}\n"
        f"judge: {{model: 'openai:judge', base_url: '{judge}'}}\n"
    )
    return "--models", str(path)


def failing(fault: Fault, share: int, request: Request) -> Fault | None:
    """``fault`` for one prompt of ``share``, whatever the limit on tokens that it is sent with."""
    return None if int(hashlib.sha256(said(request).encode()).hexdigest(), 16) % share else fault


def ended(ran: Ran, folder: Path) -> str:
    files = {path.name for path in folder.glob("reports/law/*")}
    kept = ("a winner" if "winner.yaml" in files else "no winner") + (", a report" if "report.md" in files else "")
    return f"exit {ran.code} after {ran.wall:.1f} s, {kept}"


def set_aside(folder: Path) -> list[str]:
    """The questions that the report says were set aside."""
    found = folder / "reports" / "law" / "report.md"
    table = found.read_text().partition("Questions set aside")[2].partition("\n*")[0] if found.exists() else ""
    return re.findall(r"^\| (law-\d+) ", table, re.MULTILINE)


def prompts() -> None:
    """A share of all prompts fails for ever."""
    for share, (name, fault) in itertools.product(SHARES, PROMPTS.items()):
        with Ruled(partial(failing, fault, share)) as server, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            reached = ("--llm", "openai:tiny", "--base-url", server.url)
            first = ended(search(folder, *reached), folder)
            aside = set_aside(folder)
            hopeless = Counter(said(request) for request in server.log if request.fault)
            sent = len(server.log)
            second = ended(search(folder, *reached), folder)
            print(
                f"{1 / share:.0%} of prompts always {name}: {first}; {sent} requests, {hopeless.total()} of them for "
                f"{len(hopeless)} hopeless prompts, at most {max(hopeless.values())} each, others answered at most "
                f"{server.most_given()} times; again: {second}, {len(server.log) - sent} requests; "
                f"set aside: {', '.join(aside) or 'none'}",
                flush=True,
            )


def roles() -> None:
    """All that the judge is asked fails, and nothing else."""
    for name, fault in ROLES.items():
        with Ruled() as llm, Ruled() as judge, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            judge.always = fault
            reached = models(folder, llm.url, judge.url)
            ran = search(folder, *reached)
            first, sent = ended(ran, folder), len(judge.log)
            second = ended(search(folder, *reached), folder)
            again = len(judge.log) - sent
            judge.always = None
            mended = ended(search(folder, *reached, "--retry-failed"), folder)
            print(
                f"judge always {name}: {first}, {sent} requests; again: {second}, {again} requests; mended, "
                f"with --retry-failed: {mended}, answers given at most {llm.most_given()} times\n    {ran.err.strip()}",
                flush=True,
            )


def outage() -> None:
    """The server fails from the 100th request on, and is there again for the next command."""
    for name, fault in {"HTTP 503": Fault(status=503), "resets": Fault("reset"), "hangs": Fault("hang")}.items():
        with Ruled() as server, tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            server.rule = lambda request, f=fault: f if request.number >= 100 else None  # type: ignore[misc]
            reached = ("--llm", "openai:tiny", "--base-url", server.url)
            ran = search(folder, *reached)
            stopped = ended(ran, folder)
            server.rule = lambda request: None
            resumed = ended(search(folder, *reached), folder)
            print(
                f"from the 100th request on {name}: {stopped}; resumed: {resumed}, a request answered at most "
                f"{server.most_given()} times\n    {ran.err.strip()}",
                flush=True,
            )


if __name__ == "__main__":
    parts = {"prompts": prompts, "roles": roles, "outage": outage}
    for part in sys.argv[1:] or parts:
        parts[part]()
