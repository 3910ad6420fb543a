"""The same search in one, two and four processes at once, on one SQLite file and on one PostgreSQL database.

python benchmarks/bench_processes.py [PROCESSES ...]
"""

import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from served import ROOT, Rows, again, asked, outputs_of, rows_of, served_by, serving, start

sys.path.insert(0, str(ROOT / "tests" / "support"))
from postgres_server import missing, postgres

LATENCY = 0.1
"""Seconds."""
PROCESSES = [int(number) for number in sys.argv[1:]] or [1, 2, 4]
End = tuple[Rows, tuple[bytes, bytes]]


def together(processes: int, cache: Path | str, name: str, expected: End | None) -> End:
    """Run the search so many times at once, and print what it took and whether anything was done twice or differs."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "log", LATENCY) as url:
        homes = [Path(folder) / str(number) for number in range(processes)]
        for home in homes:
            home.mkdir()
        began = time.perf_counter()
        arguments = served_by(url, "--max-evaluations", "6", "--cache", str(cache))
        searches = [start(*arguments, folder=home) for home in homes]
        errors = [search.communicate()[1] for search in searches]
        wall = time.perf_counter() - began
        codes = [search.returncode for search in searches]
        requests = asked(Path(folder) / "log")
        for error in filter(None, errors):
            print(error)
        ends = [(rows_of(cache), outputs_of(home / "reports")) for home in homes]
    differs = {name for end in ends for name in differing(end, expected or ends[0])}
    print(
        f"{name:<10} {processes} at once: {wall:5.1f} s, exit {codes}, {requests.total():,} calls, "
        f"{again(requests)} twice, differs from one: {', '.join(sorted(differs)) or 'nothing'}",
        flush=True,
    )
    return ends[0]


def differing(end: End, other: End) -> list[str]:
    """The tables and files that are not the same."""
    files = dict(zip(("winner.yaml", "ranking.csv"), zip(end[1], other[1], strict=True), strict=True))
    tables = {table: (rows, other[0][table]) for table, rows in end[0].items()}
    return [name for name, (mine, theirs) in (tables | files).items() if mine != theirs]


def main() -> None:
    with ExitStack() as stack:
        server = None if missing() else stack.enter_context(postgres())
        if server is None:
            print(missing())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        expected: End | None = None
        for number, processes in enumerate(PROCESSES):
            expected = together(processes, folder / f"{number}.sqlite", "SQLite", expected)
        for processes in PROCESSES if server else ():
            together(processes, server.database(), "PostgreSQL", expected)


if __name__ == "__main__":
    main()
