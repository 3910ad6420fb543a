"""Convert PDF to text with pypdf, and reflow lines to paragraphs. Scans have no text."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import accumulate
from pathlib import Path

from ragsmith.datasets.document_types.reflow import clean, paragraphs
from ragsmith.text.files import MIB, TextError, read_bytes

MAX_BYTES = 64 * MIB
MAX_PAGES = 5_000
MAX_CHARACTERS = 16 * MIB
MAX_TITLE = 200

# A damaged file may raise any of these anywhere in the parser.
_STUMBLES = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, RuntimeError, OSError)


def read_pdf(path: Path) -> tuple[str, str | None, tuple[int, ...]]:
    """Read the PDF file at ``path``; see `parse_pdf`."""
    return parse_pdf(read_bytes(path, limit=MAX_BYTES))


def parse_pdf(data: bytes) -> tuple[str, str | None, tuple[int, ...]]:
    """Return the text of a PDF file, the title in its metadata, and the offsets of its pages in the text.

    Pages are separated by blank lines; a page without text has the offset of the next. Raises ``TextError`` for a file
    that is encrypted, damaged, too large, or has no text.
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
    starts = tuple(accumulate((len(page) + 2 if page else 0 for page in pages[:-1]), initial=0))
    text = "\n\n".join(page for page in pages if page) + "\n"
    return text, " ".join(clean(title).split())[:MAX_TITLE].strip() or None, starts


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
    """Suppress the log messages and warnings of pypdf."""
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
