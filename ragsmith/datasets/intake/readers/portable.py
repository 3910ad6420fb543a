"""PDF as text, with the offsets at which its pages start."""

from __future__ import annotations

from ragsmith.datasets.intake.readers.part import Part, Reader
from ragsmith.datasets.kinds.pdf import joined, page_starts, pages_of


def _read(data: bytes, name: str) -> tuple[Part, ...]:
    pages, title = pages_of(data)
    return (Part(joined(pages), title=title, pages=page_starts(pages)),)


PDF = Reader("PDF", _read, needs=("pypdf",))
