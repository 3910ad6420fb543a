"""Build a wheel (PEP 427) of the running ragsmith, so that a kit has the same code.

Cache keys and answers depend on the code, and a development version has the number of the previous release.
"""

import io
import os
import subprocess
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from pathlib import Path

from ragsmith.datasets.bundled import PACKAGE
from ragsmith.deploying.contents import visible_files
from ragsmith.errors import UsageError

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time of a ZIP archive, for reproducible builds."""
SPACES = "search_spaces"
"""Folder that is next to the package in a checkout, and inside it in a wheel."""
DATA_SETS = "_bundled/datasets/"
"""Folder of an installed package that a kit leaves out: it has questions with their answers and evidence."""
LICENCE = "licenses/LICENSE"
TAGS = "Wheel-Version: 1.0\nGenerator: ragsmith\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SCRIPTS = "[console_scripts]\nragsmith = ragsmith.cli:main\n"


def build_wheel() -> tuple[str, bytes]:
    """Return the file name and the bytes of the wheel.

    Raises:
        UsageError: ragsmith runs from a checkout whose files git cannot list.
    """
    installed = distribution("ragsmith")
    dist_info = f"ragsmith-{installed.version}.dist-info"
    files = {name: path.read_bytes() for name, path in package_files()}
    files |= {f"{dist_info}/{name}": text.encode() for name, text in _metadata(installed)}
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    record = f"{dist_info}/RECORD"
    files[record] = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return f"ragsmith-{installed.version}-py3-none-any.whl", buffer.getvalue()


def package_files(package: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    """Yield the files of the package with their names in the archive, with bundled search spaces and no data sets.

    A checkout may contain the user's own search spaces as well, so only those that git tracks are included.

    Raises:
        UsageError: git cannot list the files of the checkout.
    """
    for name, path in visible_files(package):
        if not name.startswith(DATA_SETS):
            yield f"ragsmith/{name}", path
    if (package / "_bundled").is_dir():
        return
    checkout = package.parent
    tracked = _tracked_files(checkout) if (checkout / ".git").exists() else None
    for name, path in visible_files(checkout / SPACES):
        if tracked is None or f"{SPACES}/{name}" in tracked:
            yield f"ragsmith/_bundled/{SPACES}/{name}", path


def _tracked_files(checkout: Path) -> set[str]:
    """Return the paths, relative to the checkout, of the search spaces that git tracks."""
    command = ["git", "-c", f"safe.directory={checkout}", "-C", str(checkout), "ls-files", "-z", "--", SPACES]
    # within a git hook, variables point to the repository of the hook
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        listed = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        problem = (error.strerror or str(error)) if isinstance(error, OSError) else os.fsdecode(error.stderr).strip()
        raise UsageError(
            f"git cannot list which search spaces in {checkout} belong to ragsmith ({problem}): check that git runs "
            "there, or install ragsmith (pip install .) and deploy with the installed version"
        ) from None
    return {os.fsdecode(name) for name in listed.split(b"\0") if name}


def _metadata(installed: Distribution) -> Iterator[tuple[str, str]]:
    """Yield the files of ``.dist-info``, without the path that the package was installed from."""
    yield "METADATA", installed.read_text("METADATA") or ""
    yield "WHEEL", TAGS
    yield "entry_points.txt", installed.read_text("entry_points.txt") or SCRIPTS
    if (licence := installed.read_text(LICENCE)) is not None:
        yield LICENCE, licence


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
