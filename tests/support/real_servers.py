"""Servers that are not the tests' own, each in a process that is stopped when it is no longer needed."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

STARTING = 180.0
"""Seconds; on two idle cores ``transformers serve`` takes five, and LiteLLM's proxy ten."""
STOPPING = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, path: str, home: Path, **environment: str) -> Iterator[str]:
    """Run a server that answers at ``path`` when it is ready, in ``home``, with its log there; yields its URL."""
    log = home / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url + path, process, log)
        yield url
    finally:
        _stop(process)
    _assert_gone(process, port)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers; raises with what it said if it ends, or takes too long."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + STARTING
    while time.monotonic() < until and process.poll() is None:
        try:
            with direct.open(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{process.args!r} did not start: {log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPPING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _assert_gone(process: subprocess.Popen[bytes], port: int) -> None:
    """Neither it nor a child of it is left, and nobody listens."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 0)
        raise RuntimeError(f"processes of {process.args!r} are left in the group {process.pid}")
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
