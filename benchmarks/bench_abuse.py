"""What strangers, failing models and full disks do to `ragsmith serve`: right statuses, no traceback, nothing told.

python benchmarks/bench_abuse.py [--requests N] [--seed N] [--clients N] [--rounds N] [--only WORD ...] [--winner FILE]

Servers in processes of their own, on the loopback interface: N malformed requests of ten kinds, drawn from the seed;
heads and bodies that come a byte at a time; bodies of 100 MB, announced and not; wrong tokens, path tricks, header
injection; models that hang and fail; a disk that fills up under feedback and paid replies; SIGTERM and SIGKILL while
many ask. After each kind the server has to answer as ever. A line for each kind, then each thing that is wrong in a
sentence, and exit code 1 if there is one. Needs Linux, which lets one process limit what another writes.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/support")]

import abuse  # noqa: E402
from abuse import TOKEN, Row, Target  # noqa: E402
from malformed import KINDS  # noqa: E402

FROM_OUTSIDE: dict[str, Callable[[Target], Row]] = {
    "slow heads and bodies": partial(abuse.dripping, seconds=10.0),
    "bodies of 100 MB": abuse.large,
    "path tricks": abuse.path_tricks,
    "header injection": abuse.header_injection,
}
FROM_BEHIND: dict[str, Callable[[Path, Path], Row]] = {
    "a model that hangs": abuse.hanging,
    "a model that fails": abuse.failing,
    "a full disk: feedback": abuse.no_room_for_feedback,
    "a full disk: paid replies": abuse.no_room_for_replies,
}


def rows(given: argparse.Namespace, folder: Path) -> Iterator[Row]:
    def wanted(kind: str) -> bool:
        return not given.only or any(word in kind for word in given.only)

    with Target(given.winner, folder, "--feedback", folder / "abused.jsonl") as target:
        last = Row("the log of all these")
        for kind in filter(wanted, KINDS):
            yield abuse.malformed(target, kind, KINDS[kind], given.requests // len(KINDS), given.seed)
        for kind in filter(wanted, FROM_OUTSIDE):
            yield FROM_OUTSIDE[kind](target)
        target.stop(last)
        yield last
    if wanted("wrong tokens"):
        with Target(given.winner, folder, RAGSMITH_TOKEN=TOKEN) as target:
            row = abuse.wrong_tokens(target)
            target.stop(row)
            yield row
    for kind in filter(wanted, FROM_BEHIND):
        yield FROM_BEHIND[kind](given.winner, folder)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for turn in range(given.rounds if wanted(f"{number.name} under load") else 0):
            (own := folder / f"{number.name}{turn}").mkdir()
            yield abuse.stopped_under_load(given.winner, own, number, clients=given.clients)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--winner", type=Path, default=ROOT / "reports/examples/law/winner.yaml")
    given = parser.parse_args()
    wrong: list[str] = []
    print("| kind | requests | statuses | tracebacks | leaks | wrong |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(given, Path(folder)):
            statuses = ", ".join(f"{'none' if s == 0 else s}: {n:,}" for s, n in sorted(row.statuses.items()))
            counts = f"{row.tracebacks} | {row.told} | {len(row.wrong)}"
            print(f"| {row.kind} | {row.requests:,} | {statuses} | {counts} |", flush=True)
            wrong += row.wrong
    print("\n".join(["", *wrong]) if wrong else "\nnothing is wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
