"""Servers in processes of their own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable

from asking import PATIENCE


class Started:
    """A server that has said where it is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        said = ""
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if line == "}\n":
                break
        assert said, process.stderr and process.stderr.read()
        self.url: str = json.loads(said)["url"]
        self.port = int(self.url.rstrip("/").rpartition(":")[2])

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def stop(self) -> tuple[int, str]:
        """Ask it to end; its exit code, and its log."""
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log


Start = Callable[..., Started]
