"""Searches of 12 questions of `law` on models that think, refuse and are cut: what fails, and what is counted.

python benchmarks/bench_thinking.py [field|tags|usage|refusing|cut ...] [-- MORE ARGUMENTS OF SEARCH]
"""

import hashlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "support")]

from commands import Ran, ragsmith  # noqa: E402
from served import failures, left  # noqa: E402
from thinking_server import MODES, ThinkingServer  # noqa: E402

from ragsmith.datasets.dataset import load_dataset  # noqa: E402
from ragsmith.datasets.splits import split  # noqa: E402
from ragsmith.store.store import Store  # noqa: E402

QUESTIONS = 12
SCENARIOS = (*MODES, "refusing", "cut")
GIVEN = sys.argv[1:]
MORE = GIVEN[GIVEN.index("--") + 1 :] if "--" in GIVEN else []
CHOSEN = [name for name in GIVEN[: GIVEN.index("--") if "--" in GIVEN else None] if name in SCENARIOS] or SCENARIOS


def twelve(folder: Path) -> Path:
    """A data set with the documents of `law` and the first 12 of its search questions."""
    kept = {example.id for example in split(load_dataset("law")).search[:QUESTIONS]}
    place = folder / "law12"
    shutil.copytree(ROOT / "datasets" / "law", place)
    lines = (place / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    (place / "questions.jsonl").write_text(
        "\n".join(line for line in lines if json.loads(line)["id"] in kept), encoding="utf-8"
    )
    return place


def search(folder: Path, data: Path, url: str, *more: str) -> Ran:
    """The default search, or what follows ``--`` on the command line."""
    flags = ("--llm", "openai:tiny", "--base-url", url, "--json", *MORE, *more)
    return ragsmith("search", "--dataset", str(data), *flags, folder=folder, env={"OPENAI_API_KEY": "sk-benchmark"})


def told(ran: Ran, server: ThinkingServer, folder: Path, before: tuple[int, int] = (0, 0)) -> str:
    """What a search ended with, and whether its counts are the server's; ``before`` are earlier requests and tokens."""
    if ran.code:
        return f"exit {ran.code}: {ran.out[-300:]} {ran.err[-300:]}"
    spent = json.loads(ran.out)["spent"]
    with Store.open(folder / "cache.sqlite") as store:
        failed = len(failures(store))
    counted = server.requests - before[0], server.tokens - before[1]
    return (
        f"exit 0 in {ran.wall:.0f} s, {failed} answers failed; spent {spent['calls']:,} requests and "
        f"{spent['tokens']:,} tokens, the server counts {counted[0]:,} and {counted[1]:,}: "
        f"{'equal' if counted == (spent['calls'], spent['tokens']) else 'NOT EQUAL'}"
    )


def thinking(mode: str) -> None:
    with ThinkingServer(mode) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ran = search(folder, twelve(folder), server.url)
        print(f"thinks ({mode}): {told(ran, server, folder)}; {server.cut_replies} replies were cut", flush=True)


def refusing() -> None:
    refuses = ("temperature", "max_tokens", "system")
    with ThinkingServer(refuses=refuses) as server, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = twelve(folder)
        ran = search(folder, data, server.url)
        print(f"refuses {', '.join(refuses)}: {told(ran, server, folder)}; {len(server.refused)} refused", flush=True)
        first = len(server.refused)
        search(folder, data, server.url, "--seed", "1")
        print(f"  another search on the same cache: {len(server.refused) - first} refused", flush=True)


def cut() -> None:
    """5 % of the replies are cut under the first limit, none, or under any."""
    ended = []
    for limit in (0, 4096, 1 << 30):

        def is_cut(prompt: str, sent: int, limit: int = limit) -> bool:
            return sent < limit and hashlib.sha256(prompt.encode()).digest()[0] < 13

        with ThinkingServer("usage", cut=is_cut, thinks=lambda _: 0) as server, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ran = search(folder, twelve(folder), server.url)
            print(
                f"cut below {limit:,}: {told(ran, server, folder)}; {server.cut_replies} replies were cut", flush=True
            )
            if not ran.code:
                with Store.open(folder / "cache.sqlite") as store:
                    ended.append(left(store))
                print(f"  winner {str(ended[-1].winner)[:8]}", flush=True)
    print(f"winner, rows and replies, those cut at the first limit as without: {ended[0] == ended[1]}", flush=True)


if __name__ == "__main__":
    for scenario in CHOSEN:
        thinking(scenario) if scenario in MODES else {"refusing": refusing, "cut": cut}[scenario]()
