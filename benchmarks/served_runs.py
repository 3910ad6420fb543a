"""A slow server in a process of its own, what it was asked, and what a search against it leaves in the cache."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine

ROOT = Path(__file__).resolve().parents[1]
SEARCH = ("search", "--dataset", "law", "--space", "quick", "--no-probes", "--quiet", "--workers", "32")
"""A search with 32 questions in flight, as many as a provider is sent at once."""

TABLES = {
    "fit": "select key, dataset, value from fit",
    "result": "select evaluation, question, state, value from result",
    "evaluation": "select key, dataset, configuration from evaluation",
    "proposal": "select run, position, step, genome, evaluation, value from proposal",
}
"""What equal runs leave: all but attempts, times, and the cost of calls in seconds."""

Rows = dict[str, list[tuple[Any, ...]]]


def served_by(url: str, *more: str) -> tuple[str, ...]:
    """The arguments of a search whose language model answers at ``url``."""
    return (*SEARCH, "--llm", "openai:tiny", "--base-url", url, *more)


def environment() -> dict[str, str]:
    """With a key, as a server wants one, and without another address."""
    kept = {name: value for name, value in os.environ.items() if name != "OPENAI_BASE_URL"}
    return {**kept, "OPENAI_API_KEY": "sk-benchmark", "RAGSMITH_LEDGER": "off"}


@contextmanager
def serving(log: Path, latency: float, *more: str) -> Iterator[str]:
    """The base URL of a server that replies after ``latency`` seconds and writes a line to ``log`` for each request.

    ``more`` are further options of `tests/support/fault_server.py`.
    """
    command = [
        sys.executable,
        str(ROOT / "tests/support/fault_server.py"),
        "--latency",
        str(latency),
        "--log",
        str(log),
        *more,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def asked(log: Path) -> Counter[str]:
    """How often the server was sent each request."""
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(json.loads(line)["digest"] for line in lines)


def again(requests: Counter[str]) -> int:
    """Requests beyond the first of each."""
    return requests.total() - len(requests)


def rows_of(cache: Path | str) -> Rows:
    """The tables of a cache, a file or a database, that must be the same whatever happened on the way."""
    url = f"sqlite:///{cache}" if isinstance(cache, Path) else cache.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        rows: Rows = {}
        for table, query in TABLES.items():
            cursor.execute(query)
            rows[table] = sorted(map(tuple, cursor.fetchall()))
    engine.dispose()
    return rows


def outputs_of(reports: Path) -> tuple[bytes, bytes]:
    """The winner and the ranking, byte by byte."""
    return (reports / "law/winner.yaml").read_bytes(), (reports / "law/ranking.csv").read_bytes()


def start(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    """Start ``ragsmith`` in ``folder``, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ragsmith", *arguments],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a command that must succeed; what it printed."""
    out, err = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"exit code {process.returncode}: {err}")
    return out
