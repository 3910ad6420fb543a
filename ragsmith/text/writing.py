"""Write a file whole or not at all."""

import os
import warnings
from pathlib import Path
from uuid import uuid4

from ragsmith.errors import Notice, UsageError


def write_file(text: str, path: Path, *, telling: bool = False) -> Path:
    """Write a file whole or not at all, with the line ends of ``text``, and the folder it is in.

    ``telling`` says with a `Notice` that it replaces something else.

    Raises:
        UsageError: ``path`` is a folder.
        OSError: it cannot be written, whose ``filename`` is ``path``; what was there before is there still.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    try:
        replaces = telling and path.exists() and path.read_bytes() != text.encode()
        data = text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(data, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # not the name of the temporary file
    if replaces:
        warnings.warn(f"{path} replaces a file of that name with something else in it.", Notice, stacklevel=2)
    return path


def replace_file(data: bytes, path: Path) -> None:
    """Write a file whole or not at all; it is on the disk when this returns, with the permissions that it had.

    Raises:
        OSError: it cannot be written; what was there before is there still.
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file)
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o777)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let the names of its files reach the disk, too, where a folder can be opened."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
