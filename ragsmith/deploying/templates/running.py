"""The kit's server in a process of its own, on a free port of this machine, for as long as a test needs it."""

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
def running(seconds: float = 120.0) -> Iterator[str]:
    """Give the address of a server that answers within ``seconds``; it is told to stop, by its process id, in the end.

    Raises:
        RuntimeError: it does not answer in time, or does not end well; with the end of its log.
    """
    environment = {**os.environ, "RAGSMITH_HOST": "127.0.0.1", "RAGSMITH_PORT": "0", "RAGSMITH_TOKEN": ""}
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        command = [sys.executable, str(HERE / "server.py")]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url = first_line(process.stdout, seconds)
            if not url:
                raise RuntimeError(f"the server does not answer:\n{end_of(log)}")
            yield url
            if code := stopped(process, seconds):
                raise RuntimeError(f"the server ended with exit code {code}:\n{end_of(log)}")
        finally:
            stopped(process, 5.0)


def stopped(process: "subprocess.Popen[str]", seconds: float) -> int:
    """Tell a server to stop, and end it after ``seconds`` if it has not; its exit code."""
    process.terminate()
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def first_line(output: IO[str] | None, seconds: float) -> str:
    """What ``output`` says first; nothing, if it says nothing for that long."""
    said: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: said.put(output.readline() if output else ""), daemon=True).start()
    try:
        return said.get(timeout=seconds).strip()
    except queue.Empty:
        return ""


def end_of(log: IO[str]) -> str:
    """The last lines of the server's log."""
    log.seek(0)
    return "".join(log.readlines()[-20:])
