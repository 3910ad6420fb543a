"""Many clients at once ask `ragsmith serve`: errors, how long they wait, throughput against a plain loop, and memory.

python benchmarks/bench_serve.py [--clients N] [--seconds S] [--requests N] [--winner FILE] [--path /ask] [-- FLAGS]

The server is a process of its own on the embedded models; the clients are in this one, each with a connection of its
own, and ask again as soon as they have their answer, never the same twice. The plain loop asks `ragsmith.Pipeline` in
one thread for a third as long, before and after. With --requests so many more are asked, and the memory that the server
has to itself is printed ten times on the way: where it is flat, the later ones are alike. What follows -- are flags of
`ragsmith serve`.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

import ragsmith

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20


def questions(winner: Path) -> Iterator[str]:
    """Questions of the data set, each made another by its number."""
    data = ragsmith.Pipeline.load(winner).setup.dataset
    numbers = count(1)
    return (f"{example.question} (case {next(numbers)})" for example in cycle(data.examples))


def looped(winner: Path, asked: Iterator[str], seconds: float) -> tuple[float, float]:
    """Answers a second of a plain loop over a loaded pipeline, and CPU milliseconds of each."""
    pipeline = ragsmith.Pipeline.load(winner)
    pipeline.ask(next(asked))
    began, worked, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        pipeline.ask(next(asked))
        done += 1
    return done / (time.perf_counter() - began), 1000 * (time.process_time() - worked) / done


class Client:
    """A connection that is kept: as little work as possible is done on this side."""

    def __init__(self, port: int, path: str) -> None:
        self._port, self._path = port, path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, question: str) -> int:
        """The status of the reply to a question."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        message = {"messages": [{"role": "user", "content": question}]}
        body = json.dumps(message if "chat" in self._path else {"question": question}).encode()
        head = f"POST {self._path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        got = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = next(line for line in got.split("\r\n") if line.startswith("content-length:"))
        await reader.readexactly(int(length.partition(":")[2]))
        return int(got.split(" ", 2)[1])


async def ask_all(
    port: int, path: str, clients: int, asked: Iterator[str], *, seconds: float = 0.0, requests: int = 0
) -> tuple[list[float], int]:
    """Seconds of each answer, and how many requests failed, of clients that ask for so long, or so many requests."""
    took: list[float] = []
    failed = 0
    until, left = time.perf_counter() + seconds, count(1)

    async def go() -> None:
        nonlocal failed
        client = Client(port, path)
        while (time.perf_counter() < until) if seconds else (next(left) <= requests):
            began = time.perf_counter()
            try:
                status = await client.ask(next(asked))
            except (OSError, asyncio.IncompleteReadError):
                client, status = Client(port, path), 0
            took.append(time.perf_counter() - began)
            failed += status != 200

    await asyncio.gather(*[go() for _ in range(clients)])
    return took, failed


def private(pid: int) -> float:
    """MiB that a process has to itself."""
    words = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE") / MIB


def worked(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--winner", type=Path, default=ROOT / "reports/examples/law/winner.yaml")
    parser.add_argument("--path", default="/ask", choices=["/ask", "/retrieve", "/v1/chat/completions"])
    parser.add_argument("flags", nargs="*")
    given = parser.parse_args()
    asked = questions(given.winner)
    loops = [looped(given.winner, asked, given.seconds / 3)]
    with tempfile.TemporaryFile("w") as log:
        command = [sys.executable, "-m", "ragsmith", "serve", str(given.winner), "--port", "0", "--json", *given.flags]
        began = time.perf_counter()
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            url = json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
            port, started = int(url.rstrip("/").rpartition(":")[2]), time.perf_counter()
            asyncio.run(ask_all(port, given.path, 1, asked, requests=1))
            first = time.perf_counter() - started
            print(f"answers after {started - began:.2f} s; the first answer took {1000 * first:.0f} ms")
            begin, cpu = time.perf_counter(), worked(server.pid)
            took, failed = asyncio.run(ask_all(port, given.path, given.clients, asked, seconds=given.seconds))
            rate = len(took) / (time.perf_counter() - begin)
            own = 1000 * (worked(server.pid) - cpu) / len(took)
            cuts = statistics.quantiles(took, n=100)
            p50, p99 = 1000 * cuts[49], 1000 * cuts[98]
            print(
                f"{given.clients} clients, {given.seconds:g} s, {given.path}: {len(took):,} requests, {failed} failed; "
                f"p50 {p50:.0f} ms, p99 {p99:.0f} ms; {rate:.1f} a second, {own:.1f} CPU ms each"
            )
            for tenth in range(10 if given.requests else 0):
                _, lost = asyncio.run(ask_all(port, given.path, given.clients, asked, requests=given.requests // 10))
                done = (tenth + 1) * (given.requests // 10)
                print(f"after {done:,} more requests, {lost} of the last failed: {private(server.pid):.1f} MiB")
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(150)
    loops.append(looped(given.winner, asked, given.seconds / 3))
    plain, cost = (statistics.fmean(values) for values in zip(*loops, strict=True))
    print(f"a plain loop: {plain:.1f} a second, {cost:.1f} CPU ms each")
    print(f"the server has {rate / plain:.2f} of its throughput at {own / cost:.2f} of its CPU time")
    print(f"the server ended with exit code {code}")


if __name__ == "__main__":
    main()
