"""Draft on ten documents with a chat model at 200 ms, killed and resumed: what is paid twice, spans, filters, rows.

python benchmarks/bench_draft_chat.py [--trials N] [--questions N]

The model is a local server that answers in the form of each prompt and quotes what it is shown; some of its replies
cannot be read, once or for good, some misquote, some claim to know the answer or to find it elsewhere. Each trial kills
the command three times, after random numbers of requests, by SIGKILL or by Ctrl-C, and then lets it end.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/support"))  # behind this folder, which has a `served`, too

from drafting_replies import answering  # noqa: E402
from fault_server import FaultServer, Request  # noqa: E402
from served import start  # noqa: E402

DOCUMENTS = (
    "client.py",
    "limits.h",
    "error_codes.csv",
    "parts.csv",
    "s2-user-manual.md",
    "s3-user-manual.md",
    "protocol-reference.md",
    "maintenance-guide.md",
    "troubleshooting.md",
    "support-letters.txt",
)
LATENCY = 0.2
KILLS = 3
ROWS = ("questions.jsonl", "rejected.jsonl")


def data_set(folder: Path) -> list[str]:
    """Make one of ten documents of `workshop`, without questions; the sentences that the model knows by heart."""
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: ten\n")
    for name in DOCUMENTS:
        shutil.copy(ROOT / "datasets/workshop/documents" / name, folder / "documents" / name)
    texts = [(folder / "documents" / name).read_text() for name in DOCUMENTS]
    return [line for text in texts for line in text.replace("\n", " ").split(". ")]


class Trial:
    """A data set in a folder of its own, a server with a log of its own, and what happened to them."""

    def __init__(self, folder: Path, questions: int) -> None:
        self.folder = folder
        self.questions = questions
        self.server = FaultServer(latency=LATENCY)
        self.server.answer = answering(data_set(folder / "ten"))
        self.kills: list[float] = []
        self.latest = 0.0  # seconds between the last reply that was not kept and the kill after it

    def command(self, *more: str) -> subprocess.Popen[str]:
        url = ("--llm", "openai:tiny", "--base-url", self.server.url, "--json")
        return start("dataset", "draft", "ten", "--questions", str(self.questions), *url, *more, folder=self.folder)

    def to_the_end(self, *more: str, code: int = 0) -> Any:
        process = self.command(*more)
        out, err = process.communicate()
        if process.returncode != code:
            raise SystemExit(f"exit code {process.returncode}: {err}")
        return json.loads(out)

    def killed(self, after: int, how: signal.Signals) -> int:
        """Kill the command when the server was sent ``after`` requests, unless it ends before; its exit code."""
        process = self.command()
        while process.poll() is None and len(self.server.log) < after:
            time.sleep(0.002)
        self.kills.append(time.monotonic())
        process.send_signal(how)
        process.communicate()
        return process.returncode

    @property
    def log(self) -> list[Request]:
        return [request for request in self.server.log if request.path.endswith("/chat/completions")]

    def twice(self) -> Counter[str]:
        """Requests that came again, by whether a kill came before the reply to the first of them was sent, or after."""
        last: dict[str, Request] = {}
        counts = Counter[str]()
        for request in self.log:
            if (before := last.get(request.digest)) is not None:
                ended = before.replied or float("inf")
                late = min((kill - ended for kill in self.kills if kill >= before.time), default=float("inf"))
                counts["killed before the reply" if late <= 0 else "killed after it"] += 1
                self.latest = max(self.latest, late)
            last[request.digest] = request
        return counts

    def rows(self) -> list[bytes]:
        paths = [self.folder / "ten" / name for name in ROWS]
        return [path.read_bytes() if path.exists() else b"" for path in paths]

    def spans(self) -> tuple[int, int]:
        """Evidence whose words stand where it says, and all of it."""
        from ragsmith.datasets.dataset import load_dataset  # noqa: PLC0415

        documents = {document.id: document.text for document in load_dataset(self.folder / "ten").documents}
        lines = self.rows()[0].decode().splitlines()
        found = [entry for line in lines for entry in json.loads(line)["evidence"]]
        return sum(documents[e["doc"]][e["start"] : e["end"]] == e["text"] for e in found), len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--questions", type=int, default=60)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands started in the background would not hear it
    with tempfile.TemporaryDirectory() as name:
        alone = Trial(Path(name), given.questions)
        with alone.server:
            began = time.perf_counter()
            found = alone.to_the_end()
            wall = time.perf_counter() - began
            needed = Counter(request.digest for request in alone.log)
            again = alone.to_the_end()
        expected, (right, spans) = alone.rows(), alone.spans()
        assert len(alone.log) == needed.total()
    print(
        f"left alone: {wall:.1f} s, {needed.total()} requests, {len(needed)} distinct; the same command again sends 0"
    )
    print(f"{found['added']} questions of {sum(found['made'].values())} drafts; exact spans: {right} of {spans}")
    print(f"by type: {found['types']}")
    from ragsmith.labelling.drafting.checks import closed_book, round_trip  # noqa: PLC0415
    from ragsmith.labelling.drafting.filters import FILTERS, QUOTE  # noqa: PLC0415

    filters = [QUOTE, *(one.__name__ for one in FILTERS), closed_book.NAME, round_trip.NAME]
    refused = {name: found["refused"].get(name, 0) for name in filters}
    print(f"refused: {refused}; asked the same as another: {found['known']}; not needed: {found['left']}")
    print(f"added by the same command again: {again['added']}")
    kinds = Counter((one["prompt"], one["kind"]) for one in found["failures"])
    print(f"without a reply of use: {dict(Counter({f'{p} {k}': n for (p, k), n in kinds.items()}))}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        trial = Trial(Path(name), given.questions)
        with trial.server:
            paused = trial.to_the_end("--max-calls", "200", code=130)
            sent = len(trial.log)
            ended = trial.to_the_end("--max-calls", "2000")
        print(
            f"--max-calls 200: {sent} requests reached the server, {paused['added']} questions written; with 2000 "
            f"{ended['added']} more, {trial.twice().total()} sent twice; counted by itself {ended['spent']['calls']}, "
            f"by the server {len(trial.log)}",
            flush=True,
        )

    draw = random.Random(5)
    same, latest = 0, 0.0
    sums = Counter[str]()
    for number in range(1, given.trials + 1):
        how = signal.SIGKILL if number % 2 else signal.SIGINT
        moments = sorted(draw.randrange(1, needed.total()) for _ in range(KILLS))
        with tempfile.TemporaryDirectory() as name:
            trial = Trial(Path(name), given.questions)
            with trial.server:
                codes = [trial.killed(moment, how) for moment in moments]
                trial.to_the_end()
            twice = trial.twice()
            equal = trial.rows() == expected and {r.digest for r in trial.log} == set(needed)
            exact = trial.spans()
        same, latest = same + equal, max(latest, trial.latest)
        sums[f"{how.name}, in all"] += twice.total()
        sums.update({f"{how.name}, {why}": count for why, count in twice.items()})
        print(
            f"{number:>3}  {how.name} after {moments} requests (exit codes {codes}): {len(trial.log)} requests, "
            f"{len({r.digest for r in trial.log})} distinct; sent again: {dict(twice) or 'none'}; exact spans "
            f"{exact[0]} of {exact[1]}; same rows: {equal}",
            flush=True,
        )
    print(f"same questions.jsonl, rejected.jsonl and requests as left alone: {same} of {given.trials}")
    print(
        f"sent again in all: {dict(sums)}; replies that were not kept were sent {latest:.3f} s before the kill at most"
    )


if __name__ == "__main__":
    main()
