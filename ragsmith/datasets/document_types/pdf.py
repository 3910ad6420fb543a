"""Convert PDF to text with pypdf, and reflow lines to paragraphs. Scans have no text."""

import logging
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import accumulate
from pathlib import Path

from ragsmith.text.files import FORBIDDEN, MAX_DOCUMENT_BYTES, MIB, TextError, read_bytes

WRAPPED_SHARE = 0.7
"""Minimum length of a wrapped line, as a share of the width of the page."""

_LIGATURE = re.compile("[\ufb00-\ufb06]")
_BREAK = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = re.compile("\u00ad(?!\n|$)|[\u200b\ufeff]")
_ITEM = re.compile(r"(?:[-*+\u2022\u2023\u25aa\u25cf\u25e6\u2013\u2014]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})[.)])\s+\S")
_HYPHEN = re.compile("(?<=[^\\W\\d_])[-\u00ad\u2010]$")
_SENTENCE_ENDS = (".", "!", "?", ":", ".\u201d", '."', ".)", "\u3002")


def clean_text(text: str) -> str:
    """Return ``text`` with ligatures expanded, without control characters, with ``\\n`` as line end."""
    spelled = _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return _INVISIBLE.sub("", FORBIDDEN.sub("", _BREAK.sub("\n", spelled)))


def reflow_page(page: str) -> str:
    """Return the text of a page with one line for each paragraph and blank lines between them.

    A line continues in the next line if it is about as long as the lines of the page and its sentence does not end
    early, or if it ends with a hyphenated word. The hyphen is removed before a lower-case letter, also from a compound
    broken at its hyphen. List items and short lines stay separate.
    """
    lines = [" ".join(line.split()) for line in clean_text(page).split("\n")]
    width = _estimate_width([line for line in lines if line])
    paragraphs: list[str] = []
    last = ""  # the last line of the current paragraph
    joined = False
    for line in lines:
        if not line:
            last = ""
            paragraphs.extend([""] if paragraphs and paragraphs[-1] else [])
        elif last and _continues(last, line, width):
            paragraphs[-1] = _join_lines(paragraphs[-1], line)
            last, joined = line, True
        else:
            if last and not _ITEM.match(line) and (joined or _ends_paragraph(last, width)):
                paragraphs.append("")  # the end of a paragraph without a blank line
            paragraphs.append(line)
            last, joined = line, False
    return "\n".join(paragraphs).replace("\u00ad", "").strip()


def _estimate_width(lines: Sequence[str]) -> int:
    """Return the 90th percentile of line lengths, which is robust against a single long line."""
    lengths = sorted(map(len, lines), reverse=True)
    return lengths[len(lengths) // 10] if lengths else 0


def _continues(line: str, following: str, width: int) -> bool:
    if _HYPHEN.search(line) and following[0].isalpha():
        return True
    if len(line) < WRAPPED_SHARE * width or _ITEM.match(following):
        return False
    fits = (
        len(line) + 1 + len(following.split(" ", 1)[0]) <= width
    )  # the next word would have fitted, so the line break is intended
    return not (fits and _ends_sentence(line))


def _ends_paragraph(line: str, width: int) -> bool:
    return len(line) >= WRAPPED_SHARE * width and _ends_sentence(line)


def _ends_sentence(line: str) -> bool:
    return line.endswith(_SENTENCE_ENDS)


def _join_lines(text: str, line: str) -> str:
    if not _HYPHEN.search(text):
        return f"{text} {line}"
    return f"{text[:-1]}{line}" if line[0].islower() or text.endswith("\u00ad") else f"{text}{line}"


MAX_PAGES = 5_000
"""Maximum number of pages of a file."""

MAX_CHARACTERS = 16 * MIB
"""Maximum length of the text of a file, in characters."""

MAX_TITLE_CHARACTERS = 200
"""Maximum length of a title, in characters; longer ones are truncated."""

# pypdf may raise any of these exceptions for a damaged file.
_PARSER_ERRORS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
    OSError,
)


def read_pdf(path: Path) -> tuple[str, str | None, tuple[int, ...]]:
    """Read the PDF file at ``path``; see `parse_pdf`."""
    return parse_pdf(read_bytes(path, limit=MAX_DOCUMENT_BYTES))


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
        with _silence_pypdf():
            reader = PdfReader(BytesIO(data))
            if reader.is_encrypted:
                raise TextError("is encrypted; save it without a password")
            if len(reader.pages) > MAX_PAGES:
                raise TextError(f"has more pages than the limit of {MAX_PAGES:,}; split it")
            pages = _reflow_pages(page.extract_text() for page in reader.pages)
            title = str(reader.metadata.title or "") if reader.metadata else ""
    except (PyPdfError, DependencyError, *_PARSER_ERRORS) as error:
        raise TextError(f"is not a PDF file that can be read ({_format_error(error)}); save it again as PDF") from error
    if not any(pages):
        raise TextError("has no text, only images; run text recognition (OCR) on it first")
    starts = tuple(accumulate((len(page) + 2 if page else 0 for page in pages[:-1]), initial=0))
    text = "\n\n".join(page for page in pages if page) + "\n"
    return text, " ".join(clean_text(title).split())[:MAX_TITLE_CHARACTERS].strip() or None, starts


def _reflow_pages(pages: Iterator[str]) -> list[str]:
    reflowed: list[str] = []
    length = 0
    for page in pages:
        length += len(page)
        if length > MAX_CHARACTERS:
            raise TextError(f"has more text than the limit of {MAX_CHARACTERS:,} characters; split it")
        reflowed.append(reflow_page(page))
    return reflowed


@contextmanager
def _silence_pypdf() -> Iterator[None]:
    """Suppress the log messages and warnings of pypdf."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _format_error(error: BaseException) -> str:
    """Return the error as one printable line of at most 80 characters."""
    line = " ".join(clean_text(f"{type(error).__name__}: {error}").split())
    return line if len(line) <= 80 else f"{line[:77]}..."
