"""The ragsmith that runs, as a wheel (PEP 427): whoever installs it elsewhere has the same code, whatever it came from.

Keys and answers depend on the code, and a version in development has the number of the one before.
"""

from __future__ import annotations

import io
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import Distribution, distribution
from pathlib import Path

from ragsmith.datasets.bundled import PACKAGE

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that an archive can say: the same code makes the same bytes."""
LICENCE = "licenses/LICENSE"
TAGS = "Wheel-Version: 1.0\nGenerator: ragsmith\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SCRIPTS = "[console_scripts]\nragsmith = ragsmith.cli:main\n"


def own_wheel() -> tuple[str, bytes]:
    """The name of the wheel of this ragsmith, and its bytes."""
    installed = distribution("ragsmith")
    about = f"ragsmith-{installed.version}.dist-info"
    files = {name: path.read_bytes() for name, path in _package()}
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


def _package() -> Iterator[tuple[str, Path]]:
    """The files of the package by their names in the archive, with the data sets and spaces that come with it."""
    yield from _below(PACKAGE, "ragsmith")
    if not (PACKAGE / "_bundled").is_dir():  # in a checkout these lie beside the package
        for kind in ("datasets", "search_spaces"):
            yield from _below(PACKAGE.parent / kind, f"ragsmith/_bundled/{kind}")


def _below(folder: Path, called: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        within = path.relative_to(folder)
        if path.is_file() and "__pycache__" not in within.parts:
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
