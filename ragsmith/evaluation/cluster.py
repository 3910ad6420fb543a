"""Connection to a Ray cluster (Moritz et al. 2018, OSDI) that runs evaluations.

The connection is made, or a local cluster started, at the first computation. A local cluster listens on the loopback
interface only, sends no usage statistics, and is stopped at the end; an existing cluster keeps running.
"""

import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
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
        self._owns_connection = False
        self._folder: Path | None = None

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
        self._owns_connection = True
        with ExitStack() as stack:
            stack.callback(self._shutdown, ray)
            try:
                with signal_handlers_restored():
                    self._init(ray)
            except (ImportError, OSError, RuntimeError, ValueError, AssertionError, ray.exceptions.RayError) as error:
                at = f"no Ray cluster can be used at {self.address}" if self.address else "Ray cannot be started here"
                first = next(iter(str(error).strip().splitlines()), type(error).__name__)
                raise UsageError(f"{at}: {first}") from error
            stack.pop_all()

    def _init(self, ray: Any) -> None:
        options = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self.address:
            if self.address != AUTO:
                host, _, port = self.address.rpartition("://")[2].rpartition(":")
                socket.create_connection(
                    (host.strip("[]"), int(port)), CONNECT_SECONDS
                ).close()  # Ray would retry for minutes
            with suppress(ConnectionError):  # a busy client server may refuse once
                ray.init(address=self.address, **options)
                return
            ray.init(address=self.address, **options)
            return
        default = tempfile.gettempdir()
        short = default if len(default) <= MAX_FOLDER_LENGTH else "/tmp"
        self._folder = Path(tempfile.mkdtemp(prefix="ragsmith-ray-", dir=short))
        folder = str(self._folder)
        ray.init(address="local", num_cpus=self.actors, include_dashboard=False, _temp_dir=folder, **options)
        if any(node["NodeManagerAddress"] != LOOPBACK for node in ray.nodes()):
            raise UsageError(
                "Ray was imported before, and would listen beyond this machine: import ragsmith first, or start a "
                "cluster of your own and name its address"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ray is not None and self._owns_connection:
            self._shutdown(self._ray)
        self._ray = None

    def _shutdown(self, ray: Any) -> None:
        with signal_handlers_restored():
            ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._owns_connection = False


def parse_engine(engine: str, workers: int | None = None) -> Cluster | None:
    """Return the cluster named by ``engine``, with this number of ``workers``; None for processes of this machine.

    Raises:
        WrongOption: ``engine`` is not one of the accepted forms.
        MissingExtra: Ray is not installed.
    """
    if engine == PROCESSES:
        return None
    kind, colon, rest = engine.partition(":")
    if kind != RAY or (colon and not rest.strip("/")):
        raise WrongOption("engine", f"is {engine!r}: give {PROCESSES}, or one of {ENGINE_FORMS}")
    if not colon:
        return Cluster("", workers)
    if rest.removeprefix("//") == AUTO:
        return Cluster(AUTO, workers)
    host, _, port = rest.removeprefix("//").rpartition(":")
    if not (host and port.isdigit()):
        raise WrongOption("engine", f"is {engine!r}, which names no host and port: give one of {ENGINE_FORMS}")
    return Cluster(engine if rest.startswith("//") else rest, workers)


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
