"""Write a text file whole or not at all."""

from __future__ import annotations

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
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        replaces = telling and path.exists() and path.read_bytes() != text.encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(text, encoding="utf-8", newline="\n")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # nobody knows the name of the draft
    if replaces:
        warnings.warn(f"{path} replaces a file of that name with something else in it.", Notice, stacklevel=2)
    return path
