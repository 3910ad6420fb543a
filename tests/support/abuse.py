"""What a stranger, a failing model and a full disk do to `ragsmith serve`, and what is wrong with how it takes that.

Each function does one kind of it to a server in a process of its own (`Target`) and returns a `Row`: how many requests,
with which statuses, and a sentence for each thing that is not as it should be. Of every reply is asked whether its
status is right, whether it is an error in the form of all others, and whether it tells what nobody may know; of the
log, in the end, the same, and whether a traceback is in it.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from fault_kinds import Fault
from listening import listen_to_signals
from malformed import CANARY, LOOKING, ROUTES, Make, request
from served import Ruled

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "correct-horse-battery-staple"
KEY = "sk-abcdefghijklmnop1234"
PATIENCE = 30.0
"""Seconds after which a reply that has not come never comes."""
MIB = 1 << 20
INSIDE = ("Traceback", 'File "', "site-packages", "h11", "uvicorn", "starlette", str(ROOT))
"""What no reply says."""
SHOWN = 5
"""Of sentences of one kind, so many are kept."""


@dataclass
class Reply:
    """``status`` 0: the connection ended without one."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Row:
    """What came of one kind of requests."""

    kind: str
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    told: int = 0
    """Replies, and lines of the log, that say what they must not."""
    tracebacks: int = 0

    @property
    def requests(self) -> int:
        return self.statuses.total()

    def judge(self, target: Target, sent: bytes, got: Reply, right: Sequence[int] | frozenset[int]) -> None:
        """Note what is wrong with a reply."""
        self.statuses[got.status] += 1
        about = f"{self.kind}: {sent[:100]!r}: {got.status}"
        said = str(got.headers) + got.body.decode("utf-8", "replace")
        if got.status not in right:
            self.say(f"{about}, not {' or '.join(map(str, sorted(right)))}: {said[:200]}")
        if got.status >= 400:
            if found := [secret for secret in (*INSIDE, *target.secrets) if secret in said]:
                self.told += 1
                self.tracebacks += "Traceback" in found
                self.say(f"{about}: it tells {found}")
            if not sent.startswith(b"HEAD ") and (mistake := _malformed_error(got)):
                self.say(f"{about}: {mistake}")

    def say(self, sentence: str) -> None:
        if len(self.wrong) < SHOWN:
            self.wrong.append(sentence)


def _malformed_error(got: Reply) -> str:
    if not re.fullmatch(r"[\w.-]{1,64}", got.headers.get("x-request-id", "")):
        return "it has no request id"
    try:
        error = got.json["error"]
    except (ValueError, KeyError, TypeError):
        return f"it is no error as OpenAI sends it: {got.body[:100]!r}"
    if set(error) != {"message", "type", "param", "code"} or "\n" in error["message"]:
        return f"its error is {error}"
    return ""


class Target:
    """`ragsmith serve` with ``flags``; what it writes is read all the time, so that it never waits for us."""

    def __init__(self, winner: Path, folder: Path, *flags: object, **environment: str) -> None:
        self.secrets = [str(folder), TOKEN, KEY]
        self.log: list[str] = []
        self.started = time.perf_counter()
        given = {"PYTHONPATH": str(ROOT), "RAGSMITH_LEDGER": "off", "OPENAI_API_KEY": KEY, **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", "serve", winner, "--port", "0", "--json", *map(str, flags)],
            cwd=folder,
            env={**os.environ, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=listen_to_signals,  # noqa: PLW1509  it only calls the system
        )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line == "}\n":
                break
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not said:
            self._reader.join(PATIENCE)
            raise RuntimeError("".join(self.log))
        self.port = int(json.loads(said)["url"].rstrip("/").rpartition(":")[2])

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def send(self, sent: bytes) -> Reply:
        """What is replied to a request on a connection of its own."""
        with closing(self.connected()) as connection:
            with suppress(OSError):  # it may be refused before it has arrived
                connection.sendall(sent)
            return read_reply(connection, has_body=not sent.startswith(b"HEAD "))

    def ask(self, question: str, path: str = "/ask", **more: object) -> Reply:
        headers = [] if "token" not in more else [("Authorization", f"Bearer {more.pop('token')}")]
        return self.send(request(path, json.dumps({"question": question, **more}).encode(), more=headers))

    def resident(self) -> int:
        """Bytes of it in memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def let_write(self, size: int | None) -> None:
        """Let it write so many bytes to a file, as if there were no more room on the disk; None takes that back."""
        limit = resource.RLIM_INFINITY if size is None else size
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    def logged(self) -> list[dict[str, Any]]:
        """What the log says of requests, after the end."""
        return [said for line in self.log if (said := _json(line)) and said.get("event") == "request"]

    def stop(self, row: Row) -> None:
        """Have it end, and note what is wrong with that, and with its log."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.ended(row)

    def ended(self, row: Row, code: int = 0) -> None:
        """Wait for the end, and note what is wrong with it."""
        if (found := self.process.wait(PATIENCE)) != code:
            row.say(f"{row.kind}: it ended with exit code {found}")
        self._reader.join(PATIENCE)
        for line in self.log:
            said = _json(line)
            if said is None:
                row.tracebacks += "Traceback" in line
                row.say(f"{row.kind}: the log has a line that is no JSON: {line[:300]!r}")
            elif "traceback" in said:
                row.tracebacks += 1
                row.say(f"{row.kind}: the log has a traceback: {said['traceback'][-400:]!r}")
            if found := [secret for secret in (TOKEN, KEY, CANARY) if secret in line]:
                row.told += 1
                row.say(f"{row.kind}: the log tells {found}: {line[:300]!r}")


def _json(line: str) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def read_reply(connection: socket.socket, *, has_body: bool = True) -> Reply:
    """A reply as it comes; what is broken off counts as none."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            if not (part := connection.recv(1 << 16)):
                return Reply()
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        wanted = int(headers["content-length"]) if "content-length" in headers else None
        while has_body and (not body.endswith(b"\r\n0\r\n\r\n") if wanted is None else len(body) < wanted):
            if not (part := connection.recv(1 << 16)):
                break
            body += part
    except OSError:
        return Reply()
    if has_body and wanted is not None and len(body) < wanted:
        return Reply()
    return Reply(int(first.split(" ", 2)[1]), headers, body)


def healthy(target: Target, row: Row) -> None:
    """Note where the server does not answer as ever."""
    for path in ("/health", "/ready"):
        if (status := target.send(request(path, method="GET")).status) != 200:
            row.say(f"{row.kind}: afterwards {path} says {status}")
    for path in ("/ask", "/retrieve"):
        if (status := target.ask("When does the limitation period begin?", path, token=TOKEN).status) != 200:
            row.say(f"{row.kind}: afterwards {path} says {status}")


# --- from outside ----------------------------------------------------------------------------------------------------


def malformed(target: Target, kind: str, make: Make, count: int, seed: int) -> Row:
    """So many requests of a kind, each on a connection of its own."""
    row, draw = Row(kind), random.Random(f"{seed} {kind}")
    for _ in range(count):
        one = make(draw)
        row.judge(target, one.sent, target.send(one.sent), one.right)
    healthy(target, row)
    return row


def dripping(target: Target, seconds: float, each: int = 4) -> Row:
    """Heads and bodies that come a byte at a time, or not at all: given up after ``seconds``; others are answered."""
    row = Row("slow heads and bodies")
    head = request("/ask", headers=[("Host", "localhost"), ("Content-Type", "application/json")]).removesuffix(b"\r\n")
    announced, chunked = head + b"Content-Length: 5000\r\n\r\n", head + b"Transfer-Encoding: chunked\r\n\r\n"
    ways: list[tuple[bytes, bytes, set[int]]] = [
        (b"", b"", {0}),
        (b"", b"G", {0}),
        (head, b"", {0}),
        (head, b"X", {0}),
        (announced, b"", {408}),
        (announced, b"{", {408}),
        (chunked, b"1\r\n{\r\n", {408}),
    ]
    late: list[str] = []

    def go(begin: bytes, piece: bytes, right: set[int]) -> None:
        began = time.monotonic()
        with closing(target.connected()) as connection:
            connection.sendall(begin)
            connection.settimeout(0.2)
            while time.monotonic() < began + seconds + PATIENCE:
                with suppress(TimeoutError):
                    if not connection.recv(1 << 16, socket.MSG_PEEK):
                        break
                    connection.settimeout(PATIENCE)
                    reply = read_reply(connection)
                    row.judge(target, begin + piece, reply, right)
                    return
                try:
                    connection.sendall(piece)
                except OSError:
                    break
            else:
                late.append(f"{row.kind}: {begin + piece!r} is still waited for after {seconds + PATIENCE:g} s")
            row.judge(target, begin + piece, Reply(), right)

    threads = [threading.Thread(target=go, args=way) for way in ways for _ in range(each)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    healthy(target, row)
    if time.monotonic() - began > seconds / 2:
        row.say(f"{row.kind}: others were kept waiting for {time.monotonic() - began:.1f} s")
    for thread in threads:
        thread.join()
    row.wrong += late
    healthy(target, row)
    return row


def large(target: Target, size: int = 100 * MIB) -> Row:
    """Bodies of so many bytes, announced and not: refused, and none of them in memory."""
    row, block = Row(f"bodies of {size // MIB} MB"), b"x" * MIB
    before = target.resident()
    for path in ROUTES:
        own = [("Host", "localhost"), ("Content-Type", "application/json")]
        for sent, part in (
            (request(path, headers=[*own, ("Content-Length", str(size))]), block),
            (request(path, headers=[*own, ("Transfer-Encoding", "chunked")]), b"%x\r\n%b\r\n" % (len(block), block)),
        ):
            with closing(target.connected()) as connection:
                with suppress(OSError):  # it hangs up before all of it is there
                    connection.sendall(sent)
                    for _ in range(size // MIB):
                        connection.sendall(part)
                row.judge(target, sent, read_reply(connection), {413, 0})
    if row.statuses[413] < row.requests / 2:
        row.say(f"{row.kind}: only {row.statuses[413]} of {row.requests} could read why they were refused")
    if (grown := target.resident() - before) > 32 * MIB:
        row.say(f"{row.kind}: it takes {grown / MIB:.0f} MiB more than before")
    healthy(target, row)
    return row


def wrong_tokens(target: Target) -> Row:
    """Tokens that are none, to a server that wants one: nothing but the page and its health is told."""
    row = Row("wrong tokens")
    given: list[str | bytes | None] = [
        *(None, "", "Bearer", "Bearer ", "Basic " + TOKEN, TOKEN, f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x"),
        *(
            f"Bearer {TOKEN.upper()}",
            f"Bearer x {TOKEN}",
            f'Bearer "{TOKEN}"',
            b"Bearer \xff\xfe",
            "Bearer " + "a" * 9000,
        ),
        *("Bearer null", "Bearer ' OR 1=1 --", f"Digest {TOKEN}", "Bearer " + TOKEN[::-1]),
    ]
    for token in given:
        more = [] if token is None else [("Authorization", token)]
        for path in (*ROUTES, *LOOKING, "/nothing", f"/ask?token={TOKEN}x"):
            method = "GET" if path in LOOKING else "POST"
            sent = request(path, json.dumps(ROUTES.get(path, {})).encode(), method=method, more=more)
            row.judge(target, sent, target.send(sent), {200} if path in ("/", "/health", "/ready") else {401})
    healthy(target, row)
    return row


PATHS = (
    *("/../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/....//....//etc/passwd"),
    *("/static/../../etc/passwd", "/v1/models/../../ask", "/v1/models/%2e%2e%2f%2e%2e%2fask", "/%252e%252e%252fask"),
    *("/ask%00", "/%00", "/ask%00.json", "/ask%0a", "/ask%0d%0a", "/ask%20", "/ask\\..\\x", "/%5c..%5cask", "/C:/x"),
    *("//ask", "///etc/passwd", "/./ask", "/ask/.", "/ask/..", "/ask//", "/%2fask", "/%ff%fe", "/%c0%ae%c0%ae/x"),
    *("/%ed%a0%80", "/%e2%80%ae", "/~root", "/proc/self/environ", "/winner.yaml", "/cache.sqlite", "/feedback.jsonl"),
    *("file:///etc/passwd", "http://localhost/../ask", "/" + "../" * 2000 + "etc/passwd", "/" + "%2e%2e%2f" * 2000),
)


def path_tricks(target: Target) -> Row:
    """Paths that lead out of what is served, or would for others: nothing is there."""
    row = Row("path tricks")
    for path in PATHS:
        for method in ("GET", "POST"):
            sent = request(path, json.dumps(ROUTES["/ask"]).encode(), method=method)
            got = target.send(sent)
            row.judge(target, sent, got, {404})
            if "location" in got.headers:
                row.say(f"{row.kind}: {path!r} leads to {got.headers['location']!r}")
    healthy(target, row)
    return row


IDS = (
    *(b"a%0d%0aX-Evil: 1", b"a\rX-Evil: 1", b"a\r X-Evil: 1", b"a\nX-Evil: 1", b"a\x00b", b"a\x0bX-Evil: 1"),
    *("a\u2028X-Evil: 1".encode(), "a\u0085X-Evil: 1".encode(), "č\r".encode(), "嘊嘍X-Evil: 1".encode()),
    *(b"<script>alert(1)</script>", b'"}\x1b[2J', b"a" * 5000, b"", b" ", b"\xff", b"a,b", b"a\r\nX-Evil: 1"),
    *(b"a\r\n\r\nHTTP/1.1 200 OK\r\nX-Evil: 1", b'x","level":"error","event":"forged', b"${jndi:ldap://x}", b"%s%n"),
)


def header_injection(target: Target) -> Row:
    """Request ids that would be a header of the reply, or a line of the log: never repeated."""
    row = Row("header injection")
    for id_ in IDS:
        for name in ("X-Request-ID", "x-request-id"):
            sent = request("/health", method="GET", more=[(name, id_)])
            got = target.send(sent)
            row.judge(target, sent, got, {200, 400})
            own = got.headers.get("x-request-id", "")
            if any("evil" in line.lower() for line in (*got.headers, *got.headers.values())):
                row.say(f"{row.kind}: {id_!r} becomes {got.headers}")
            if not re.fullmatch(r"[0-9a-f]{16}|a", own):
                row.say(f"{row.kind}: {id_!r} is repeated as {own!r}")
    for name in (
        "Host",
        "Origin",
        "Referer",
        "User-Agent",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "Cookie",
        "Forwarded",
    ):
        sent = request("/nothing", method="GET", more=[(name, "a\rX-Evil: 1")])
        got = target.send(sent)
        row.judge(target, sent, got, {400})
        forwarded = request("/nothing", method="GET", more=[(name, "evil.example")] if name != "Host" else [])
        got = target.send(forwarded)
        row.judge(target, forwarded, got, {403, 404})
        if "evil" in str(got.headers).lower() + got.body.decode():
            row.say(f"{row.kind}: {name} is repeated in {got.headers}")
    healthy(target, row)
    return row


# --- from behind -----------------------------------------------------------------------------------------------------


def served_by(model: Ruled) -> tuple[object, ...]:
    return ("--llm", "openai:tiny", "--base-url", model.url)


def at_once(sends: Sequence[Callable[[], Reply]]) -> list[Reply]:
    """Send all of them at the same time."""
    with ThreadPoolExecutor(len(sends)) as pool:
        return list(pool.map(lambda send: send(), sends))


def soon(said: Callable[[], bool]) -> None:
    """Wait until something is so, or `PATIENCE` is over: what follows says what is wrong then."""
    until = time.monotonic() + PATIENCE
    while not said() and time.monotonic() < until:
        time.sleep(0.02)


def hanging(winner: Path, folder: Path, *, seconds: float = 2.0) -> Row:
    """A model that never answers: each request is told so in time, those beyond the queue at once.

    Who arrives after the first was told finds room, and is told later than twice the time for each. On a machine so
    busy that this happens, it is tried again with more time.
    """
    for each in (seconds, 4 * seconds):
        trial = folder / f"{each:g}"
        trial.mkdir()
        row, took = _hanging(winner, trial, each)
        if took < 2 * each:
            break
    return row


def _hanging(winner: Path, folder: Path, seconds: float) -> tuple[Row, float]:
    """Also return the seconds from the first request until all were told."""
    row = Row("a model that hangs")
    flags = ("--seconds", seconds, "--concurrency", 2, "--queue", 4)
    with (
        Ruled(lambda request: Fault("hang")) as model,
        Target(winner, folder, *served_by(model), *flags) as target,
        closing(target.connected()) as streamed,
    ):
        said = {"messages": [{"role": "user", "content": f"{CANARY} Who hangs on?"}], "stream": True}
        first = time.monotonic()
        streamed.sendall(request("/v1/chat/completions", json.dumps(said).encode()))
        soon(lambda: bool(model.log))
        began = time.monotonic()
        for got in at_once([partial(target.ask, f"{CANARY} Who hangs, {n}?") for n in range(12)]):
            row.judge(target, b"POST /ask", got, {503, 504})
            if got.status == 503 and not int(got.headers.get("retry-after", "0")):
                row.say(f"{row.kind}: who is sent away is not told when to come again")
        if row.statuses[504] != 5:
            row.say(f"{row.kind}: {row.statuses[504]} were taken, where there is room for 1 and 4 that wait")
        told = time.monotonic()
        if (took := told - began) > seconds + 5:
            row.say(f"{row.kind}: they were told after {took:.1f} s")
        got = read_reply(streamed)
        row.judge(target, b"POST /v1/chat/completions", got, {200})
        if b'"code": "timeout"' not in got.body:
            row.say(f"{row.kind}: a stream ends with {got.body[-200:]!r}")
        if (status := target.send(request("/health", method="GET")).status) != 200:
            row.say(f"{row.kind}: meanwhile /health says {status}")
        model.rule = partial(_always, None)
        model.let_go()
        soon(lambda: target.send(request("/ready", method="GET")).status == 200)
        healthy(target, row)
        target.stop(row)
    return row, told - first


def failing(winner: Path, folder: Path) -> Row:
    """A model whose errors tell keys and paths: a sentence, and nothing of them."""
    row = Row("a model that fails")
    said = "no luck in /srv/secret-path/models with the key KEY"
    faults = [Fault(status=status, said=said) for status in (400, 401, 403, 404, 422, 500)]
    faults += [Fault(kind) for kind in ("no_choices", "malformed", "not_utf8", "filter", "reset", "redirect")]
    with Ruled() as model, Target(winner, folder, *served_by(model), "--seconds", 2) as target:
        target.secrets += ["secret-path"]
        for number, fault in enumerate(faults):
            model.rule = partial(_always, fault)
            asks = [partial(target.ask, f"{CANARY} Who fails, {number}?", path) for path in ("/ask", "/explain")]
            for got in at_once(asks):
                row.judge(target, str(fault).encode(), got, {502, 503, 504})
        model.rule = partial(_always, None)
        soon(lambda: target.ask("Who is back?").status == 200)  # it may be left in peace for a while
        healthy(target, row)
        target.stop(row)
    return row


def _always(fault: Fault | None, request: object) -> Fault | None:
    return fault


def no_room_for_feedback(winner: Path, folder: Path) -> Row:
    """A disk that fills up in the middle of a line, and a device that is always full: said, and nothing is spoilt."""
    row, file = Row("a full disk: feedback"), folder / "feedback.jsonl"
    good = request("/feedback", json.dumps(ROUTES["/feedback"]).encode())
    confirmed: list[str] = []

    def give(target: Target, times: int, right: int) -> None:
        for _ in range(times):
            got = target.send(good)
            row.judge(target, good, got, {right})
            confirmed.extend([got.json["id"]] if got.status == 201 else [])

    with Target(winner, folder, "--feedback", file) as target:
        give(target, 3, 201)
        before = file.read_bytes()
        for room in (0, 1, 40, 100):
            target.let_write(len(before) + room)
            give(target, 5, 507)
            if file.read_bytes() != before:
                row.say(f"{row.kind}: something is left of what was not kept")
        healthy(target, row)
        target.let_write(None)
        give(target, 3, 201)
        healthy(target, row)
        target.stop(row)
    if (found := ids_in(file)) != confirmed:
        row.say(f"{row.kind}: {len(confirmed)} were confirmed, and the file has {len(found)}")
    full = folder / "full.jsonl"
    full.symlink_to("/dev/full")
    with Target(winner, folder, "--feedback", full) as target:
        give(target, 5, 507)
        healthy(target, row)
        target.stop(row)
    return row


def ids_in(file: Path) -> list[str]:
    """Of feedback; a line that is none counts as one without."""
    return [(_json(line) or {"id": ""})["id"] for line in file.read_text().splitlines()]


def no_room_for_replies(winner: Path, folder: Path) -> Row:
    """A disk that fills up under the cache of paid replies: none is asked for, or paid for, a second time."""
    row = Row("a full disk: paid replies")
    with Ruled() as model, Target(winner, folder, *served_by(model), "--cache", folder / "full.sqlite") as target:
        target.ask("Who comes first?")
        target.let_write(0)
        asked = [f"{CANARY} Who comes when there is no room, {n}?" for n in range(6)]
        for question in asked:
            got = target.ask(question)
            row.judge(target, b"POST /ask", got, {503})
        target.let_write(None)
        for question in asked:
            got = target.ask(question)
            row.judge(target, b"POST /ask", got, {200})
        if (most := model.most_given()) > 1:
            row.say(f"{row.kind}: a reply was paid for {most} times")
        healthy(target, row)
        target.stop(row)
    return row


@dataclass
class Load:
    """Clients that ask, and others that give feedback, until the server hears no more."""

    target: Target
    clients: int
    answered: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    others: Counter[int] = field(default_factory=Counter)
    """Statuses but 200 and 201; 0 for a connection that was taken and ended without a reply."""

    def __enter__(self) -> Load:
        names = range(self.clients)
        self._threads = [threading.Thread(target=self._ask, args=(n,)) for n in names]
        self._threads += [threading.Thread(target=self._tell) for _ in range(max(self.clients // 8, 1))]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()

    def _ask(self, client: int) -> None:
        for number in count():
            question = f"{CANARY} Who asks, {client} or {number}?"
            got = self._sent(request("/ask", json.dumps({"question": question}).encode()))
            if got is None:
                return
            self.answered.extend([question] if got.status == 200 else [])

    def _tell(self) -> None:
        good = request("/feedback", json.dumps(ROUTES["/feedback"]).encode())
        while (got := self._sent(good)) is not None:
            self.kept.extend([got.json["id"]] if got.status == 201 else [])

    def _sent(self, sent: bytes) -> Reply | None:
        """A reply; None where there is no server any more, or none that answers."""
        try:
            got = self.target.send(sent)
        except OSError:
            return None
        if got.status not in (200, 201):
            self.others[got.status] += 1
        return got if got.status else None


def stopped_under_load(
    winner: Path, folder: Path, number: signal.Signals, *, clients: int = 16, seconds: float = 2.0
) -> Row:
    """A signal while many ask a model that takes its time, and give feedback.

    After SIGTERM whoever was accepted is answered. After any, what was confirmed is there, and what was answered is not
    paid for again by the next server.
    """
    row, file = Row(f"{number.name} under load"), folder / f"{number.name}.jsonl"
    cache = ("--cache", folder / f"{number.name}.sqlite")
    with Ruled(latency=0.2) as model:
        flags = (*served_by(model), *cache, "--feedback", file)
        with Target(winner, folder, *flags) as target:
            with Load(target, clients) as load:
                time.sleep(seconds)
                soon(lambda: len(load.answered) > clients and len(load.kept) > clients)
                target.process.send_signal(number)
            target.ended(row, 0 if number == signal.SIGTERM else -number)
        row.statuses += Counter({200: len(load.answered), 201: len(load.kept), **load.others})
        if set(load.others) - {0}:
            row.say(f"{row.kind}: some were told {dict(load.others)}")
        if number == signal.SIGTERM:
            whole = [said["status"] for said in target.logged() if said["whole"]]
            if len(whole) != len(target.logged()):
                row.say(f"{row.kind}: {len(target.logged()) - len(whole)} replies were broken off")
            if Counter(whole) != Counter({200: len(load.answered), 201: len(load.kept)}):
                row.say(f"{row.kind}: {Counter(whole)} were answered, and clients have {row.statuses}")
        if lost := set(load.kept) - set(ids_in(file)):
            row.say(f"{row.kind}: {len(lost)} of {len(load.kept)} confirmed feedbacks are lost")
        model.rule = partial(_always, Fault(status=400))  # it answers nothing new
        with Target(winner, folder, *flags) as target:
            for question in load.answered:
                if (status := target.ask(question).status) != 200:
                    row.say(f"{row.kind}: {question!r} was answered, and is paid for again: {status}")
            good = request("/feedback", json.dumps(ROUTES["/feedback"]).encode())
            if (status := target.send(good).status) != 201:
                row.say(f"{row.kind}: feedback is not taken any more: {status}")
            target.stop(row)
        if "" in ids_in(file):
            row.say(f"{row.kind}: a line of feedback is broken")
    return row
