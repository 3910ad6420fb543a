"""PPTX as Markdown: for each slide a heading, texts from top to bottom, tables, and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from ragsmith.datasets.ingest.readers.grid import markdown_table
from ragsmith.datasets.ingest.readers.packages import DAMAGED, core_title, opened
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import FORBIDDEN, TextError

DEFAULT_TITLE = "PowerPoint Presentation"
"""The title in files without one."""


@reader("PPTX", member="ppt/presentation.xml", binary=True, needs=("python-pptx",))
def read_slides(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Slides: a heading each, texts, tables and notes."""
    from pptx import Presentation  # noqa: PLC0415
    from pptx.exc import PythonPptxError  # noqa: PLC0415

    archive = opened(data)
    try:
        slides = [_slide(slide, number) for number, slide in enumerate(Presentation(BytesIO(data)).slides, start=1)]
    except (*DAMAGED, PythonPptxError) as error:
        raise TextError(f"is not a PPTX file that can be read ({type(error).__name__}); save it again") from error
    starts: list[int] = []
    text = ""
    for slide in slides:
        text += "\n" if text else ""
        starts.append(len(text))
        text += slide
    title = core_title(archive)
    return (FilePart(text, title=None if title == DEFAULT_TITLE else title, pages=tuple(starts)),)


def _slide(slide: Any, number: int) -> str:
    head = slide.shapes.title
    title = " ".join(_clean(head.text_frame.text).split()) if head is not None and head.has_text_frame else ""
    blocks = [f"## {title or f'Slide {number}'}"]
    for shape in _shapes(slide.shapes):
        if head is not None and shape.shape_id == head.shape_id:
            continue
        if getattr(shape, "has_table", False) and shape.has_table:
            blocks.append(markdown_table([[_clean(cell.text) for cell in row.cells] for row in shape.table.rows]))
        elif shape.has_text_frame:
            blocks.append(_paragraphs(shape.text_frame))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = _clean(slide.notes_slide.notes_text_frame.text).strip()
        blocks.append(f"Notes: {notes}" if notes else "")
    return "\n\n".join(block for block in blocks if block.strip()) + "\n"


def _shapes(shapes: Any) -> Iterator[Any]:
    """Yield all shapes, including those of groups, from top to bottom and left to right."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _paragraphs(frame: Any) -> str:
    found = [(p.level, " ".join(_clean(p.text).split())) for p in frame.paragraphs]
    written = [(level, text) for level, text in found if text]
    if len(written) == 1:
        return written[0][1]
    return "\n".join(f"{'  ' * level}- {text}" for level, text in written)


def _clean(text: str) -> str:
    return FORBIDDEN.sub("", text.replace("\x0b", "\n"))
