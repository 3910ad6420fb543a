"""PDF as text: what pypdf finds on each page, with its lines made paragraphs again. Scans have no text to find."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from ragsmith.datasets.document_types.reflow import clean, paragraphs
from ragsmith.text.files import MIB, TextError, read_bytes

MAX_BYTES = 64 * MIB
MAX_PAGES = 5_000
MAX_CHARACTERS = 16 * MIB
MAX_TITLE = 200

# A damaged file makes the parser stumble wherever it happens to be: these are what that looks like from outside.
_STUMBLES = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, RuntimeError, OSError)


def read_pdf(path: Path) -> tuple[str, str | None]:
    """Return the text of the PDF file at ``path``, pages separated by a blank line, and the title in its metadata.

    Raises as `pages_of` does.
    """
    pages, title = read_pages(path)
    return joined(pages), title


def joined(pages: Sequence[str]) -> str:
    """Return the text of ``pages``, which have a blank line between them; those without text leave no gap."""
    return "\n\n".join(page for page in pages if page) + "\n"


def page_starts(pages: Sequence[str]) -> tuple[int, ...]:
    """Return where each of ``pages`` begins in the text that is `joined`; one without text where the next does."""
    starts: list[int] = []
    at = 0
    for page in pages:
        starts.append(at)
        at += len(page) + 2 if page else 0
    return tuple(starts)


def read_pages(path: Path) -> tuple[list[str], str | None]:
    """Return the text of each page of the PDF file at ``path``, and the title in its metadata; see `pages_of`."""
    return pages_of(read_bytes(path, limit=MAX_BYTES))


def pages_of(data: bytes) -> tuple[list[str], str | None]:
    """Return the text of each page of a PDF file, and the title in its metadata.

    The same file gives the same text. Raises ``TextError`` for a file that is encrypted, damaged, too large, or has no
    text.
    """
    from pypdf import PdfReader  # noqa: PLC0415  # slow import
    from pypdf.errors import DependencyError, PyPdfError  # noqa: PLC0415

    if not data:
        raise TextError("is empty; add text or remove the file")
    try:
        with _quiet():
            reader = PdfReader(BytesIO(data))
            if reader.is_encrypted:
                raise TextError("is encrypted; save it without a password")
            if len(reader.pages) > MAX_PAGES:
                raise TextError(f"has more pages than the limit of {MAX_PAGES:,}; split it")
            pages = _texts(page.extract_text() for page in reader.pages)
            title = str(reader.metadata.title or "") if reader.metadata else ""
    except (PyPdfError, DependencyError, *_STUMBLES) as error:
        raise TextError(f"is not a PDF file that can be read ({_reason(error)}); save it again as PDF") from error
    if not any(pages):
        raise TextError("has no text, only images; run text recognition (OCR) on it first")
    return pages, " ".join(clean(title).split())[:MAX_TITLE].strip() or None


def _texts(pages: Iterator[str]) -> list[str]:
    found: list[str] = []
    length = 0
    for page in pages:
        length += len(page)
        if length > MAX_CHARACTERS:
            raise TextError(f"has more text than the limit of {MAX_CHARACTERS:,} characters; split it")
        found.append(paragraphs(page))
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what pypdf remarks about a file from standard error; what matters of it is raised."""
    logger = logging.getLogger("pypdf")
    silence, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(silence)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.propagate = propagate
        logger.removeHandler(silence)


def _reason(error: BaseException) -> str:
    """One printable line of at most 80 characters."""
    line = " ".join(clean(f"{type(error).__name__}: {error}").split())
    return line if len(line) <= 80 else f"{line[:77]}..."
