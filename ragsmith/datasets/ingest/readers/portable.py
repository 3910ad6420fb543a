"""PDF as text, with the offsets of its pages."""

from __future__ import annotations

from ragsmith.datasets.document_types.pdf import parse_pdf
from ragsmith.datasets.ingest.readers.part import FilePart, reader


@reader("PDF", binary=True, needs=("pypdf",))
def read_portable(data: bytes, name: str) -> tuple[FilePart, ...]:
    """PDF as text, with its pages."""
    text, title, pages = parse_pdf(data)
    return (FilePart(text, title=title, pages=pages),)
