"""Run the server of the kit in a separate process, on a free local port, for tests."""

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent


@contextmanager
def running_server(seconds: float = 120.0) -> Iterator[str]:
    """Yield the URL of a server that starts within ``seconds``, and stop the server after the block.

    Raises:
        RuntimeError: the server does not start in time, or fails; the message has the end of its log.
    """
    environment = {**os.environ, "RAGSMITH_HOST": "127.0.0.1", "RAGSMITH_PORT": "0", "RAGSMITH_TOKEN": ""}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        command = [sys.executable, str(HERE / "server.py")]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = read_first_line(process.stdout, seconds)
            if not url:
                raise RuntimeError(f"the server does not answer:\n{tail(log)}")
            yield url
            if code := stop(process, seconds):
                raise RuntimeError(f"the server ended with exit code {code}:\n{tail(log)}")
        finally:
            stop(process, 5.0)


def stop(process: "subprocess.Popen[str]", seconds: float) -> int:
    """Terminate a server, kill it after ``seconds``, and return its exit code."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def read_first_line(output: IO[str] | None, seconds: float) -> str:
    """Return the first line of ``output``, or "" after ``seconds`` without one."""
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: lines.put(output.readline() if output else ""), daemon=True).start()
    try:
        return lines.get(timeout=seconds).strip()
    except queue.Empty:
        return ""


def tail(log: IO[str]) -> str:
    """Return the last lines of the log."""
    log.seek(0)
    return "".join(log.readlines()[-20:])
