"""PDF as text, with the offsets at which its pages start."""

from __future__ import annotations

from ragsmith.datasets.intake.readers.part import Part, reader
from ragsmith.datasets.kinds.pdf import joined, page_starts, pages_of


@reader("PDF", binary=True, needs=("pypdf",))
def read_portable(data: bytes, name: str) -> tuple[Part, ...]:
    """PDF as text, with its pages."""
    pages, title = pages_of(data)
    return (Part(joined(pages), title=title, pages=page_starts(pages)),)
