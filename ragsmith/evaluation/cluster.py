"""Connection to a Ray cluster (Moritz et al. 2018, OSDI) that runs evaluations.

The connection is made, or a local cluster started, at the first computation. A local cluster listens on the loopback
interface only, sends no usage statistics, and is stopped at the end; an existing cluster keeps running.
"""

import logging
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from secrets import token_hex
from typing import Any, Self

from ragsmith.errors import MissingExtra, UsageError, WrongOption
from ragsmith.evaluation.signals import signal_handlers_restored

PROCESSES, RAY, AUTO = "processes", "ray", "auto"
ENGINE_FORMS = (
    "ray (a cluster is started here), ray://HOST:PORT (Ray's client server), ray:HOST:PORT or ray:auto (on a node)"
)

LOOPBACK = "127.0.0.1"
MAX_FOLDER_LENGTH = 24
"""Maximum number of characters of the folder for temporary files, as the length of socket paths is limited."""

CONNECT_SECONDS = 10.0
"""Timeout in seconds of the first connection to a cluster."""

ENVIRONMENT: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # otherwise Ray warns of a future change
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # otherwise Ray prints messages on lost nodes, which are handled
}
"""Environment variables of every connection."""

_TOKEN = token_hex(32)
LOCAL_ENVIRONMENT: Mapping[str, str] = {
    **ENVIRONMENT,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # so that the node uses the loopback interface on every system
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": _TOKEN,  # otherwise Ray would draw one and write it into the user's home
}
"""Environment variables of a local cluster."""


class Cluster:
    """A Ray cluster, connected at first use; a context manager that stops a local cluster.

    ``address`` is an address for ``ray.init``, or "" for a local cluster. ``actors`` is the number of actors; by
    default the number of cores.

    Raises:
        MissingExtra: Ray is not installed.
    """

    def __init__(self, address: str, actors: int | None = None) -> None:
        if find_spec("ray") is None:
            raise MissingExtra("ray", "ray")
        self.address = address
        self._actors = actors
        self._ray: Any = None
        self._connection = ExitStack()
        """What ends the connection, and a local cluster, if this object has made them."""

    @property
    def actors(self) -> int:
        """The number of actors; without a connection the default is the number of cores of this machine."""
        if self._actors is None and self._ray is not None:
            self._actors = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        return self._actors or os.cpu_count() or 1

    def connect(self) -> Any:
        """Connect to the cluster, and return the module ``ray``.

        Raises:
            WrongOption: this program is connected to a cluster already, and ``address`` names one.
            UsageError: there is no cluster at the address, its version does not fit, or none can be started.
        """
        if self._ray is None:
            with _environment(ENVIRONMENT if self.address else LOCAL_ENVIRONMENT):
                import ray  # noqa: PLC0415  slow to import, and an extra

                if not ray.is_initialized():
                    self._initialize(ray)
                elif self.address not in ("", AUTO):  # an existing connection is kept
                    raise WrongOption(
                        "engine",
                        f"names the Ray cluster at {self.address}, and this program is connected to one: give {RAY} to "
                        "use that one, or end the connection before (ray.shutdown())",
                    )
                self._ray = ray
        return self._ray

    def _initialize(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        with ExitStack() as connection:
            if not self.address:
                short = tempfile.gettempdir() if len(tempfile.gettempdir()) <= MAX_FOLDER_LENGTH else "/tmp"
                folder = tempfile.mkdtemp(prefix="ragsmith-ray-", dir=short)
                connection.callback(shutil.rmtree, folder, ignore_errors=True)
                options |= {"num_cpus": self.actors, "include_dashboard": False, "_temp_dir": folder}
            connection.callback(signal_handlers_restored()(ray.shutdown))
            try:
                with signal_handlers_restored():
                    _init(ray, self.address, options)
            except (ImportError, OSError, RuntimeError, ValueError, AssertionError, ray.exceptions.RayError) as error:
                at = f"no Ray cluster can be used at {self.address}" if self.address else "Ray cannot be started here"
                first = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise UsageError(f"{at}: {first}") from error
            self._connection = connection.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._ray = None


def _init(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    """Connect to the cluster at ``address``, or start a local one for ""."""
    if address not in ("", AUTO):
        host, _, port = address.rpartition("://")[2].rpartition(":")
        at = host.strip("[]"), int(port)
        socket.create_connection(at, CONNECT_SECONDS).close()  # Ray would retry for minutes
    if address:
        with suppress(ConnectionError):  # a busy client server may refuse once
            ray.init(address=address, **options)
            return
    ray.init(address=address or "local", **options)
    if not address and any(node["NodeManagerAddress"] != LOOPBACK for node in ray.nodes()):
        raise UsageError(
            "Ray was imported before, and would listen beyond this machine: import ragsmith first, or start a "
            "cluster of your own and name its address"
        )


def parse_engine(engine: str, workers: int | None = None) -> Cluster | None:
    """Return the cluster named by ``engine``, with this number of ``workers``; None for processes of this machine.

    Raises:
        WrongOption: ``engine`` is not one of the accepted forms.
        MissingExtra: Ray is not installed.
    """
    if engine == PROCESSES:
        return None
    if engine.partition(":")[0] != RAY or not engine.removeprefix("ray:").strip("/"):
        raise WrongOption("engine", f"is {engine!r}: give {PROCESSES}, or one of {ENGINE_FORMS}")
    found = re.fullmatch(r"ray(?::(?:(?://)?(auto)|(//)?([^/:].*:\d+)))?", engine)
    if not found:
        raise WrongOption("engine", f"is {engine!r}, which names no host and port: give one of {ENGINE_FORMS}")
    auto, client, address = found.groups("")
    return Cluster(auto or (engine if client else address), workers)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within a block, and restore them afterwards."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)
