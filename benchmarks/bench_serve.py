"""`ragsmith serve` under load, asked on its page, or under abuse.

    python benchmarks/bench_serve.py load [--clients N] [--seconds S] [--requests N] [--path /ask] [-- FLAGS]
    python benchmarks/bench_serve.py traces [--requests N] [--rounds N]
    python benchmarks/bench_serve.py page [--pictures FOLDER]
    python benchmarks/bench_serve.py abuse [--requests N] [--seed N] [--clients N] [--rounds N] [--only WORD ...]

load   errors, latency, throughput and CPU time against a plain loop over `ragsmith.Pipeline`, on the embedded models.
       Clients keep a connection each and never ask the same twice. With --requests so many more are asked, and the
       memory of the server is printed ten times on the way. What follows -- are flags of `ragsmith serve`
traces CPU time of a request with and without traces, of two servers that are asked in turn, 100 requests each a round
       (20 rounds); the collector is in this process (needs the extra telemetry)
page   the page by keyboard in headless Chromium, at 390 and 1280 px, light and dark: requests to elsewhere, messages of
       the console, lines wider than the page, keys without effect, feedback that is not stored (needs Chromium with its
       driver, selenium and pillow)
abuse  N malformed requests of ten kinds (2,000); heads and bodies that come a byte at a time; bodies of 100 MB;
       wrong tokens, path tricks, header injection; models that hang and fail; a disk that fills up under feedback
       and paid replies; SIGTERM and SIGKILL under load. After each kind the server has to answer as ever (needs
       Linux, which lets one process limit what another writes)

Exit code 1 where anything is not as it should be; each thing is printed.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ragsmith

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tools")]

import abuse  # noqa: E402
from abuse import TOKEN, Row, Target  # noqa: E402
from collector import collecting  # noqa: E402
from malformed import KINDS  # noqa: E402


@contextmanager
def started(winner: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its URL; at the end it is sent SIGTERM, and its exit code is printed."""
    command = [sys.executable, "-m", "ragsmith", "serve", str(winner), "--port", "0", "--json", *flags]
    with tempfile.TemporaryFile("w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert server.stdout is not None
            yield server, json.loads("".join(iter(server.stdout.readline, "}\n")) + "}")["url"]
        finally:
            server.send_signal(signal.SIGTERM)
            print(f"the server ended with exit code {server.wait(150)}")


if TYPE_CHECKING:
    from browser import Browser

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


def load(given: argparse.Namespace) -> int:
    """Ask from many clients at once, and print how that went; 1 if a request failed."""
    asked = questions(given.winner)
    loops = [looped(given.winner, asked, given.seconds / 3)]
    began = time.perf_counter()
    with started(given.winner, *given.flags) as (server, url):
        port, ready = int(url.rstrip("/").rpartition(":")[2]), time.perf_counter()
        asyncio.run(ask_all(port, given.path, 1, asked, requests=1))
        first = time.perf_counter() - ready
        print(f"answers after {ready - began:.2f} s; the first answer took {1000 * first:.0f} ms")
        begin, cpu = time.perf_counter(), worked(server.pid)
        took, failed = asyncio.run(ask_all(port, given.path, given.clients, asked, seconds=given.seconds))
        rate = len(took) / (time.perf_counter() - begin)
        own = 1000 * (worked(server.pid) - cpu) / len(took)
        cuts = statistics.quantiles(took, n=100)
        print(
            f"{given.clients} clients, {given.seconds:g} s, {given.path}: {len(took):,} requests, {failed} failed; "
            f"p50 {1000 * cuts[49]:.0f} ms, p99 {1000 * cuts[98]:.0f} ms; {rate:.1f} a second, {own:.1f} CPU ms each"
        )
        for tenth in range(10 if given.requests else 0):
            _, lost = asyncio.run(ask_all(port, given.path, given.clients, asked, requests=given.requests // 10))
            failed += lost
            done = (tenth + 1) * (given.requests // 10)
            print(f"after {done:,} more requests, {lost} of the last failed: {private(server.pid):.1f} MiB")
    loops.append(looped(given.winner, asked, given.seconds / 3))
    plain, cost = (statistics.fmean(values) for values in zip(*loops, strict=True))
    print(f"a plain loop: {plain:.1f} a second, {cost:.1f} CPU ms each")
    print(f"the server has {rate / plain:.2f} of its throughput at {own / cost:.2f} of its CPU time")
    return int(failed > 0)


def tracing(given: argparse.Namespace) -> int:
    """Ask a server with traces and one without in turn, and print what traces cost; 1 if a span is missing."""
    asked, costs = questions(given.winner), ([], [])
    with collecting() as collector:
        flags = ("--traces", collector.url)
        with started(given.winner) as (plain, plain_url), started(given.winner, *flags) as (traced, traced_url):
            both = [(plain.pid, plain_url), (traced.pid, traced_url)]
            ports = [int(url.rstrip("/").rpartition(":")[2]) for _, url in both]
            for number in range(given.rounds + 1):
                before = [worked(pid) for pid, _ in both]
                for port in ports:
                    asyncio.run(ask_all(port, "/ask", 1, asked, requests=given.requests))
                time.sleep(6.5)  # until the last spans are sent
                for (pid, _), spent, begun in zip(both, costs, before, strict=True):
                    if number:  # the first round warms up
                        spent.append(1000 * (worked(pid) - begun) / given.requests)
        expected = (given.rounds + 1) * given.requests
        spans = collector.spans
    found = sum(span.name == "POST /ask" for span in spans)
    ratios = sorted(on / off for off, on in zip(*costs, strict=True))
    off, on = (statistics.fmean(spent) for spent in costs)
    print(
        f"CPU ms a request: {off:.2f} without traces, {on:.2f} with {len(spans) / found:.1f} spans each: "
        f"{on / off:.3f} of it, median of rounds {statistics.median(ratios):.3f}; "
        f"{found:,} of {expected:,} requests have spans"
    )
    return int(found != expected)


QUESTION = "How long may a buyer wait before telling the seller of a defect?"
PATIENCE = 20.0


def until(shown: "Browser", said: str) -> Any:
    """What a function body returns, once that is true."""
    end = time.monotonic() + PATIENCE
    while not (found := shown.ask(said)):
        if time.monotonic() > end:
            raise TimeoutError(said)
        time.sleep(0.02)
    return found


def press(shown: "Browser", *keys: str) -> None:
    """Press keys, one after the other, wherever the page has put the focus."""
    from selenium.webdriver.common.action_chains import ActionChains  # noqa: PLC0415  needed by this part alone

    ActionChains(shown.driver).send_keys(*keys).perform()


def look(shown: "Browser", url: str, feedback: Path, width: int, *, dark: bool, picture: Path | None) -> list[str]:
    """What is wrong with the page at a width."""
    from selenium.webdriver.common.keys import Keys  # noqa: PLC0415  needed by this part alone

    wrong: list[str] = []
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    shown.command("Emulation.setEmulatedMedia", media="", features=scheme)
    shown.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )
    shown.driver.get_log("performance")
    shown.driver.get_log("browser")
    shown.driver.get(url)
    press(shown, QUESTION, Keys.ENTER)  # the question has the focus
    until(shown, "return document.querySelectorAll('#stages > li').length === 9")
    if not shown.ask("return document.querySelectorAll('.passage.cited mark').length"):
        wrong.append("nothing is marked in what is cited")
    if shown.ask("return document.activeElement.id") != "answer":
        wrong.append("the answer has not the focus")
    wide = shown.ask("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if wide > 0:
        wrong.append(f"the page is {wide} pixels wider than its window")
    if picture:
        shown.photograph(picture, longest=1500)
    before = len(feedback.read_text().splitlines()) if feedback.exists() else 0
    shown.ask("document.querySelector('[data-thumb=down]').focus()")
    press(shown, Keys.ENTER)
    until(shown, "return document.activeElement.id === 'corrected'")
    press(shown, "Eight days.", Keys.TAB, Keys.ENTER)
    until(shown, "return document.getElementById('kept').textContent.startsWith('Kept')")
    rows = [json.loads(line) for line in feedback.read_text().splitlines()]
    if len(rows) != before + 1 or (rows[-1]["question"], rows[-1]["answer"]) != (QUESTION, "Eight days."):
        wrong.append("the feedback is not on the disk")
    shown.ask("document.activeElement.blur()")
    press(shown, "/")
    if shown.ask("return document.activeElement.id") != "question":
        wrong.append("/ does not lead to the question")
    press(shown, "x" * 5000, Keys.ENTER)
    until(shown, "return document.getElementById('problem').textContent.includes('at most 4,000')")
    wrong += [f"asked for {one}" for one in shown.requests() if not one.startswith(url)]
    wrong += [one for one in shown.messages() if "400 (Bad Request)" not in one]
    return wrong


def page(given: argparse.Namespace) -> int:
    """Ask on the page at two widths, light and dark; 1 if anything is wrong."""
    from browser import browser  # noqa: PLC0415  needed by this part alone

    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        feedback = Path(folder) / "feedback.jsonl"
        with started(given.winner, "--feedback", str(feedback)) as (_, url), browser() as shown:
            for width in (390, 1280):
                for dark in (False, True):
                    name = f"serve{'-phone' if width < 600 else ''}{'-dark' if dark else ''}.png"
                    picture = given.pictures / name if given.pictures else None
                    wrong = look(shown, url, feedback, width, dark=dark, picture=picture)
                    failed |= bool(wrong)
                    print(f"{width} px, {'dark' if dark else 'light'}: {'; '.join(wrong) or 'as it should be'}")
    return int(failed)


MALFORMED = 2_000
"""Requests of ten kinds, unless another number is given."""

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


def abused(given: argparse.Namespace, folder: Path) -> Iterator[Row]:
    def wanted(kind: str) -> bool:
        return not given.only or any(word in kind for word in given.only)

    with Target(given.winner, folder, "--feedback", folder / "abused.jsonl") as target:
        last = Row("the log of all these")
        for kind in filter(wanted, KINDS):
            yield abuse.malformed(target, kind, KINDS[kind], (given.requests or MALFORMED) // len(KINDS), given.seed)
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


def abusing(given: argparse.Namespace) -> int:
    """Print a line for each kind of abuse, then what is wrong; 1 if anything is."""
    wrong: list[str] = []
    print("| kind | requests | statuses | tracebacks | leaks | wrong |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for row in abused(given, Path(folder)):
            statuses = ", ".join(f"{'none' if s == 0 else s}: {n:,}" for s, n in sorted(row.statuses.items()))
            counts = f"{row.tracebacks} | {row.told} | {len(row.wrong)}"
            print(f"| {row.kind} | {row.requests:,} | {statuses} | {counts} |", flush=True)
            wrong += row.wrong
    print("\n".join(["", *wrong]) if wrong else "\nnothing is wrong")
    return int(bool(wrong))


def main() -> int:
    """Run the part that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True, metavar="PART")
    chosen: dict[str, argparse.ArgumentParser] = {}
    for part, run in (("load", load), ("traces", tracing), ("page", page), ("abuse", abusing)):
        chosen[part] = parts.add_parser(part, help=(run.__doc__ or "").partition(";")[0])
        chosen[part].add_argument("--winner", type=Path, default=ROOT / "reports/examples/law/winner.yaml")
        chosen[part].set_defaults(run=run)
    for part in ("load", "abuse"):
        chosen[part].add_argument("--clients", type=int, default=32)
        chosen[part].add_argument("--requests", type=int, default=0)
    chosen["load"].add_argument("--seconds", type=float, default=60.0)
    chosen["load"].add_argument("--path", default="/ask", choices=["/ask", "/retrieve", "/v1/chat/completions"])
    chosen["load"].add_argument("flags", nargs="*")
    chosen["traces"].add_argument("--requests", type=int, default=100)
    chosen["traces"].add_argument("--rounds", type=int, default=20)
    chosen["page"].add_argument("--pictures", type=Path)
    chosen["abuse"].add_argument("--seed", type=int, default=14)
    chosen["abuse"].add_argument("--rounds", type=int, default=5)
    chosen["abuse"].add_argument("--only", nargs="+", default=[])
    given = parser.parse_args()
    return int(given.run(given))


if __name__ == "__main__":
    sys.exit(main())
