"""PDF as text, with the offsets at which its pages start."""

from __future__ import annotations

from ragsmith.datasets.document_types.pdf import joined, page_starts, pages_of
from ragsmith.datasets.ingest.readers.part import FilePart, reader


@reader("PDF", binary=True, needs=("pypdf",))
def read_portable(data: bytes, name: str) -> tuple[FilePart, ...]:
    """PDF as text, with its pages."""
    pages, title = pages_of(data)
    return (FilePart(joined(pages), title=title, pages=page_starts(pages)),)
