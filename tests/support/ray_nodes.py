"""Ray clusters of two nodes on the loopback interface, with one CPU each; the second one can be killed.

with Nodes() as nodes: ...                     # nodes.address; nodes.lose()
python tests/support/ray_nodes.py              # prints the address; "lose" kills a node, the end of its input both
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

LOOPBACK_ALONE: Mapping[str, str] = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""The environment of the nodes, and of whoever connects to them from this machine."""

STORE = 80 << 20
"""Bytes of the object store of each node."""


TRIES = 3


class TooBusy(Exception):
    """The machine has so much else to do that Ray gives up before its nodes know each other."""


class Nodes:
    """Two nodes, in processes of their own, which end with this one.

    ``address`` is that of the cluster, for its machines, and ``client`` that of its client server; ``pid`` is the
    process that has started both.
    """

    def __enter__(self) -> Nodes:
        for _ in range(TRIES):
            self._begin()
            if self.address:
                return self
            self.__exit__()
        raise TooBusy(f"Ray could not start two nodes here in {TRIES} tries, each of half a minute")

    def _begin(self) -> None:
        command = [sys.executable, str(Path(__file__).resolve())]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, env={**os.environ, **LOOPBACK_ALONE}, text=True, **pipes)
        self.pid = self._process.pid
        self.address, _, self.client = self._said().partition(" ")

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def lose(self) -> None:
        """Kill the second node, and all processes on it."""
        assert self._process.stdin is not None
        self._process.stdin.write("lose\n")
        self._process.stdin.flush()
        assert self._said() == "lost"

    def _said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    folder = tempfile.mkdtemp(prefix="rs-", dir="/tmp")  # names of sockets are short
    os.environ["RAY_TMPDIR"] = folder
    Path(folder, "ray").mkdir()
    from ray.cluster_utils import Cluster  # noqa: PLC0415  it reads the environment

    options = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": STORE}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    first = {**options, "include_dashboard": False, "ray_client_server_port": port}
    cluster = Cluster(initialize_head=True, head_node_args=first)
    second = cluster.add_node(**options)
    say(f"{cluster.address} 127.0.0.1:{port}")
    for _ in sys.stdin:
        cluster.remove_node(second, allow_graceful=False)
        say("lost")
    cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
