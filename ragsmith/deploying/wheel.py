"""The ragsmith that runs, as a wheel (PEP 427): whoever installs it elsewhere has the same code, whatever it came from.

Keys and answers depend on the code, and a version in development has the number of the one before.
"""

from __future__ import annotations

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
from ragsmith.errors import UsageError

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that an archive can say: the same code makes the same bytes."""
BESIDE = ("datasets", "search_spaces")
"""The folders that lie beside the package in a checkout, and in it in a wheel."""
LICENCE = "licenses/LICENSE"
TAGS = "Wheel-Version: 1.0\nGenerator: ragsmith\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SCRIPTS = "[console_scripts]\nragsmith = ragsmith.cli:main\n"


def own_wheel() -> tuple[str, bytes]:
    """The name of the wheel of this ragsmith, and its bytes.

    Raises:
        UsageError: it runs from a checkout, and git does not say what belongs to that.
    """
    installed = distribution("ragsmith")
    about = f"ragsmith-{installed.version}.dist-info"
    files = {name: path.read_bytes() for name, path in packed()}
    files |= {f"{about}/{name}": text.encode() for name, text in _described(installed)}
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    record = f"{about}/RECORD"
    files[record] = "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return f"ragsmith-{installed.version}-py3-none-any.whl", made.getvalue()


def packed(package: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    """The files of the package by their names in the archive, with the data sets and spaces that come with it.

    Nothing hidden is among them. In a checkout, data sets of one's own may lie beside those that come with ragsmith: of
    one that git keeps, only what git lists is taken.

    Raises:
        UsageError: git keeps it, and does not say what it lists.
    """
    yield from _below(package, "ragsmith")
    if (package / "_bundled").is_dir():
        return
    checkout = package.parent
    listed = _listed(checkout) if (checkout / ".git").exists() else None
    for kind in BESIDE:
        for name, path in _below(checkout / kind, f"ragsmith/_bundled/{kind}"):
            if listed is None or path.relative_to(checkout).as_posix() in listed:
                yield name, path


def _listed(checkout: Path) -> set[str]:
    """The files of data sets and search spaces that git keeps, by their paths in the checkout."""
    command = ["git", "-c", f"safe.directory={checkout}", "-C", str(checkout), "ls-files", "-z", "--", *BESIDE]
    # a hook of git has variables that lead to the repository that it runs for
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        problem = os.fsdecode(done.stderr).strip() if done.returncode else ""
    except OSError as error:
        done, problem = None, error.strerror or str(error)
    if done is None or done.returncode:
        raise UsageError(
            f"git does not say which data sets in {checkout} come with ragsmith, and which are your own ({problem}): "
            "see that git runs there, or install ragsmith (pip install .) and deploy with that"
        )
    return {os.fsdecode(name) for name in done.stdout.split(b"\0") if name}


def _below(folder: Path, called: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in within.parts):
            yield f"{called}/{within.as_posix()}", path


def _described(installed: Distribution) -> Iterator[tuple[str, str]]:
    """What an installer reads; where the package came from on this machine is left out."""
    yield "METADATA", installed.read_text("METADATA") or ""
    yield "WHEEL", TAGS
    yield "entry_points.txt", installed.read_text("entry_points.txt") or SCRIPTS
    if (licence := installed.read_text(LICENCE)) is not None:
        yield LICENCE, licence


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
