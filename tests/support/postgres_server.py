"""A PostgreSQL server of the tests' own: in a temporary folder, as an ordinary user, on a free port of the loopback.

    with postgres() as server:
        Store.open(server.database())

It speaks to nobody else, trusts everybody on this machine, and is stopped and gone at the end.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

USER = "ragsmith"
ACCOUNT = "postgres"
"""The account of the system that the server runs under where the tests are run by root, which it refuses."""

LOCALE = ("--locale-provider=icu", "--icu-locale=en", "--locale=C.UTF-8")
"""One that sorts otherwise than bytes do, as most servers have."""


@dataclass(frozen=True)
class Server:
    """A running server; ``database`` makes a new, empty one."""

    programs: Path
    port: int
    control: Callable[..., None] = lambda *_: None
    """Runs pg_ctl: ``stop`` and ``start``."""
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def database(self) -> str:
        name = f"cache{next(self.numbers)}"
        _run(self.programs / "createdb", "-h", "127.0.0.1", "-p", self.port, "-U", USER, name)
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"


def missing() -> str:
    """Why no server can be started here; "" if one can."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed: pip install 'ragsmith[postgres]'"
    if programs() is None:
        return "PostgreSQL is not installed: no initdb on the PATH or below /usr/lib/postgresql"
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        return "PostgreSQL does not run as root, and there is no runuser to be somebody else"
    return ""


def programs() -> Path | None:
    """The folder of initdb and pg_ctl, of the newest version that is installed."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")  # where Debian has them
    return max((path.parent for path in found), key=lambda path: int(path.parent.name), default=None)


def vectors_missing() -> str:
    """Why no server with the extension pgvector can be started here; "" if one can."""
    if why := missing():
        return why
    return (
        "" if programs_with_vectors() else "PostgreSQL has no extension pgvector here: pip install pgserver brings both"
    )


def programs_with_vectors() -> Path | None:
    """The folder of initdb and pg_ctl of a PostgreSQL that has pgvector: that of the package pgserver, or as above."""
    found = find_spec("pgserver")
    for place in found.submodule_search_locations or () if found else ():
        if (folder := Path(place, "pginstall", "bin")).is_dir():
            return folder
    installed = programs()
    if installed is None:
        return None
    shared = subprocess.run([installed / "pg_config", "--sharedir"], capture_output=True, text=True, check=False)
    return installed if Path(shared.stdout.strip(), "extension", "vector.control").is_file() else None


@contextmanager
def postgres(folder: Path | None = None, locale: tuple[str, ...] = LOCALE) -> Iterator[Server]:
    """A server of the programs in ``folder`` while it is entered."""
    folder = folder or programs()
    assert folder is not None, missing()
    with tempfile.TemporaryDirectory(prefix="ragsmith-postgres-") as name:
        home = Path(name)
        if os.geteuid() == 0:
            shutil.chown(home, ACCOUNT)
        data, port = home / "data", _free_port()
        _run(folder / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "-N", *locale, cwd=home)
        options = f"-h 127.0.0.1 -p {port} -k '{home}' -c fsync=off"
        command = (folder / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", options, "-m", "immediate")
        control = partial(_run, *command, cwd=home)
        control("start")
        try:
            yield Server(folder, port, control)
        finally:
            control("stop")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(*command: object, cwd: Path | None = None) -> None:
    become = ("runuser", "-u", ACCOUNT, "--") if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*become, *map(str, command)],
        cwd=cwd or "/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
