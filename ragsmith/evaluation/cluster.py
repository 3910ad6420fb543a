"""Where evaluations run: processes of this machine, or the nodes of a Ray cluster (Moritz et al. 2018, OSDI).

A cluster is connected to, or started here, when there is something to compute. What is started here listens on the
loopback interface only, sends no usage statistics, and is stopped at the end; an existing cluster keeps running.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any

from ragsmith.errors import MissingExtra, UsageError, WrongOption
from ragsmith.evaluation.signals import SIGNALS

PROCESSES, RAY, AUTO = "processes", "ray", "auto"
FORMS = "ray (a cluster is started here), ray://HOST:PORT (Ray's client server), ray:HOST:PORT or ray:auto (on a node)"

LOOPBACK = "127.0.0.1"
MOST_LETTERS = 24
"""A folder for temporary files with a longer name is not used: names of sockets are short."""

CONNECTS_IN = 10.0
"""Seconds in which a cluster has to take a connection."""

QUIET: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of a change to come
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # else it prints what it knows of nodes that are lost, which is dealt with
}
"""Of every connection."""

_TOKEN = token_hex(32)
OF_OWN: Mapping[str, str] = {
    **QUIET,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # one machine alone: on every system its name for the loopback interface
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,  # else Ray would draw one, and write it into the user's home
}
"""Of a cluster that is started here."""


class Cluster:
    """A Ray cluster, connected to when it is first needed; a context manager, so that what was started is stopped.

    ``address`` is "" where one is to be started here, else what ``ray.init`` takes. ``actors`` is how many evaluate: as
    many as there are cores unless given.

    Raises:
        MissingExtra: Ray is not installed.
    """

    def __init__(self, address: str, actors: int | None = None) -> None:
        if find_spec("ray") is None:
            raise MissingExtra("ray", "ray")
        self.address = address
        self._actors = actors
        self._ray: Any = None
        self._is_ours = False
        self._folder: Path | None = None

    @property
    def actors(self) -> int:
        """How many processes evaluate; before there is a connection, as many as this machine has cores at most."""
        if self._actors is None and self._ray is not None:
            self._actors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self._actors or os.cpu_count() or 1

    def connect(self) -> Any:
        """The module ``ray``, connected.

        Raises:
            WrongOption: this program is connected to another one.
            UsageError: there is no cluster at the address, it does not fit, or none can be started.
        """
        if self._ray is None:
            with _environment(QUIET if self.address else OF_OWN):
                import ray  # noqa: PLC0415  a second, and an extra

                if not ray.is_initialized():
                    self._begin(ray)
                elif not is_at(self.address, connected := _connections(ray)):  # a program that has a cluster keeps it
                    raise WrongOption(
                        "engine",
                        f"names the Ray cluster at {self.address}, and this program is connected to the one at "
                        f"{connected[0]}: give {RAY} to use that one, or end the connection before (ray.shutdown())",
                    )
                self._ray = ray
        return self._ray

    def _begin(self, ray: Any) -> None:
        self._is_ours = True
        with ExitStack() as stack:
            stack.callback(self._end, ray)
            try:
                with _handlers_kept():
                    self._init(ray)
            except (ImportError, OSError, RuntimeError, ValueError, AssertionError, ray.exceptions.RayError) as error:
                at = f"no Ray cluster can be used at {self.address}" if self.address else "Ray cannot be started here"
                first = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise UsageError(f"{at}: {first}") from error
            stack.pop_all()

    def _init(self, ray: Any) -> None:
        plain = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self.address:
            if self.address != AUTO:
                host, _, port = self.address.rpartition("://")[2].rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), CONNECTS_IN).close()  # Ray tries for minutes
            with suppress(ConnectionError):  # a client server that is busy may give up: it is asked once more
                ray.init(address=self.address, **plain)
                return
            ray.init(address=self.address, **plain)
            return
        usual = tempfile.gettempdir()
        short = usual if len(usual) <= MOST_LETTERS else "/tmp"
        self._folder = Path(tempfile.mkdtemp(prefix="ragsmith-ray-", dir=short))
        folder = str(self._folder)
        ray.init(address="local", num_cpus=self.actors, include_dashboard=False, _temp_dir=folder, **plain)
        if any(node["NodeManagerAddress"] != LOOPBACK for node in ray.nodes()):
            raise UsageError(
                "Ray was imported before, and would listen beyond this machine: import ragsmith first, or start a "
                "cluster of your own and name its address"
            )

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ray is not None and self._is_ours:
            self._end(self._ray)
        self._ray = None

    def _end(self, ray: Any) -> None:
        with _handlers_kept():
            ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._is_ours = False


def read_engine(engine: str, workers: int | None = None) -> Cluster | None:
    """The cluster that ``engine`` names, of so many ``workers``; None where evaluations run on this machine as usual.

    Raises:
        WrongOption: it names none.
        MissingExtra: Ray is not installed.
    """
    if engine == PROCESSES:
        return None
    kind, colon, rest = engine.partition(":")
    if kind != RAY or (colon and not rest.strip("/")):
        raise WrongOption("engine", f"is {engine!r}: give {PROCESSES}, or one of {FORMS}")
    if not colon:
        return Cluster("", workers)
    if rest.removeprefix("//") == AUTO:
        return Cluster(AUTO, workers)
    host, _, port = rest.removeprefix("//").rpartition(":")
    if not (host and port.isdigit()):
        raise WrongOption("engine", f"is {engine!r}, which names no host and port: give one of {FORMS}")
    return Cluster(engine if rest.startswith("//") else rest, workers)


def is_at(address: str, connected: Sequence[str]) -> bool:
    """Whether ``address``, as of a `Cluster`, is one of those at which a cluster is ``connected``."""
    return address in ("", AUTO) or any(_same(address, other) for other in connected)


def _same(address: str, other: str) -> bool:
    kind, _, place = address.rpartition("://")
    other_kind, _, other_place = other.rpartition("://")
    host, _, port = place.rpartition(":")
    other_host, _, other_port = other_place.rpartition(":")
    return (kind, port) == (other_kind, other_port) and bool(_numbers(host) & _numbers(other_host))


def _numbers(host: str) -> set[str]:
    """The addresses of a host, and its name."""
    host = host.strip("[]")
    with suppress(OSError):
        return {host, *(str(found[4][0]) for found in socket.getaddrinfo(host, None))}
    return {host}


def _connections(ray: Any) -> list[str]:
    """The addresses of the cluster that ``ray`` is connected to: its own, and that of the client server if by one."""
    found = [str(ray.get_runtime_context().gcs_address)]
    client = ray.util.client.ray
    if client.is_connected():
        worker = getattr(client.get_context(), "client_worker", None)
        found.append(f"ray://{getattr(worker, '_conn_str', '')}")  # no public name says it
    return found


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have ``variables`` set, and as they were afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back the handlers of signals that Ray replaces: they would end the process before anything is kept."""
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in SIGNALS} if in_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                with suppress(ValueError):
                    signal.signal(number, handler)
