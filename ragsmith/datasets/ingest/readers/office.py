"""Convert Office files: DOCX and PPTX to Markdown, XLSX to one or several tables for each sheet.

DOCX is converted via HTML by mammoth: headings by style, lists, tables and footnotes.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, time
from io import BytesIO
from itertools import accumulate
from typing import Any

from ragsmith.datasets.ingest.readers import markup
from ragsmith.datasets.ingest.readers.delimited import markdown_table, table_to_csv
from ragsmith.datasets.ingest.readers.part import DAMAGED, FilePart, core_title, open_archive, reader
from ragsmith.text.files import FORBIDDEN, TextError

STYLE_MAP = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Code'] => pre:separator('\\n')
p[style-name='Quote'] => blockquote > p:fresh
"""


@reader("DOCX", member="word/document.xml", binary=True, needs=("mammoth", *markup.PACKAGES))
def read_word(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Word documents as Markdown."""
    import mammoth  # noqa: PLC0415
    from bs4 import BeautifulSoup  # noqa: PLC0415

    archive = open_archive(data)
    try:
        html = mammoth.convert_to_html(BytesIO(data), style_map=STYLE_MAP, convert_image=lambda image: []).value
    except DAMAGED as error:
        raise TextError(f"is not a DOCX file that can be read ({type(error).__name__}); save it again") from error
    return (FilePart(markup.element_to_markdown(BeautifulSoup(html, "html.parser")), title=core_title(archive)),)


DEFAULT_TITLE = "PowerPoint Presentation"
"""The title that PowerPoint gives to untitled files."""


@reader("PPTX", member="ppt/presentation.xml", binary=True, needs=("python-pptx",))
def read_slides(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Slides: a heading for each slide, texts, tables and notes."""
    from pptx import Presentation  # noqa: PLC0415
    from pptx.exc import PythonPptxError  # noqa: PLC0415

    archive = open_archive(data)
    try:
        slides = [
            _convert_slide(slide, number) for number, slide in enumerate(Presentation(BytesIO(data)).slides, start=1)
        ]
    except (*DAMAGED, PythonPptxError) as error:
        raise TextError(f"is not a PPTX file that can be read ({type(error).__name__}); save it again") from error
    starts = tuple(accumulate((len(slide) + 1 for slide in slides[:-1]), initial=0))
    title = core_title(archive)
    return (FilePart("\n".join(slides), title=None if title == DEFAULT_TITLE else title, pages=starts),)


def _convert_slide(slide: Any, number: int) -> str:
    head = slide.shapes.title
    title = " ".join(_clean(head.text_frame.text).split()) if head is not None and head.has_text_frame else ""
    blocks = [f"## {title or f'Slide {number}'}"]
    for shape in _iter_shapes(slide.shapes):
        if head is not None and shape.shape_id == head.shape_id:
            continue
        if getattr(shape, "has_table", False) and shape.has_table:
            blocks.append(markdown_table([[_clean(cell.text) for cell in row.cells] for row in shape.table.rows]))
        elif shape.has_text_frame:
            blocks.append(_format_paragraphs(shape.text_frame))
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = _clean(slide.notes_slide.notes_text_frame.text).strip()
        blocks.append(f"Notes: {notes}" if notes else "")
    return "\n\n".join(block for block in blocks if block.strip()) + "\n"


def _iter_shapes(shapes: Any) -> Iterator[Any]:
    """Yield all shapes, including those of groups, from top to bottom and left to right."""
    for shape in sorted(shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _iter_shapes(shape.shapes)
        else:
            yield shape


def _format_paragraphs(frame: Any) -> str:
    lines = [(p.level, " ".join(_clean(p.text).split())) for p in frame.paragraphs]
    filled = [(level, text) for level, text in lines if text]
    if len(filled) == 1:
        return filled[0][1]
    return "\n".join(f"{'  ' * level}- {text}" for level, text in filled)


def _clean(text: str) -> str:
    return FORBIDDEN.sub("", text.replace("\x0b", "\n"))


MAX_CELLS = 5_000_000
"""Maximum number of filled cells of a sheet."""

MAX_ROWS = 1_048_576
"""Maximum number of rows of a sheet, including empty ones, as in Excel."""


@reader("XLSX", member="xl/workbook.xml", binary=True, needs=("openpyxl",))
def read_workbook(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Workbooks: the tables of each sheet."""
    from openpyxl import load_workbook  # noqa: PLC0415
    from openpyxl.utils.exceptions import InvalidFileException  # noqa: PLC0415

    archive = open_archive(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about features other than cells
            book = load_workbook(BytesIO(data), read_only=True, data_only=True)
            parts = [part for sheet in book.worksheets for part in _read_sheet(sheet)]
            book.close()
    except (*DAMAGED, InvalidFileException) as error:
        raise TextError(f"is not an XLSX file that can be read ({type(error).__name__}); save it again") from error
    if title := core_title(archive):
        return tuple(replace(part, title=f"{title}: {part.title or part.name}") for part in parts)
    return tuple(parts)


def _read_sheet(sheet: Any) -> Iterator[FilePart]:
    """Yield the tables of a sheet; a header after an empty row begins a table, and rows of one cell are captions."""
    rows = list(iter_filled_rows(sheet, _format_cell))
    hidden = ("the sheet is hidden in the workbook",) if sheet.sheet_state != "visible" else ()
    for number, (captions, inner) in enumerate(_split_tables(rows), start=1):
        converted = table_to_csv(inner)
        if converted is None:
            continue
        text, notes = converted
        above = tuple(f"has the line {caption!r} above it" for caption in captions)
        name = sheet.title + (f" {number}" if number > 1 else "")
        yield FilePart(text, ".csv", " ".join(captions) or None, name, notes=(*hidden, *above, *notes))


def iter_filled_rows(sheet: Any, format_cell: Callable[[Any], str]) -> Iterator[list[str]]:
    """Yield the rows of an openpyxl sheet, formatted by ``format_cell``, without empty cells at the end.

    Raises ``TextError`` if the sheet exceeds `MAX_CELLS` or `MAX_ROWS`.
    """
    sheet.reset_dimensions()  # else every row is padded to the rightmost formatted cell of the sheet
    n_cells = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        values = [format_cell(cell) for cell in row]
        while values and not values[-1]:
            values.pop()
        n_cells += sum(map(bool, values))
        if n_cells > MAX_CELLS or number > MAX_ROWS:
            limit = f"{MAX_CELLS:,} cells" if n_cells > MAX_CELLS else f"{MAX_ROWS:,} rows"
            raise TextError(f"has more than {limit} in the sheet {sheet.title!r}; split it")
        yield values


def _split_tables(rows: Sequence[list[str]]) -> Iterator[tuple[list[str], list[list[str]]]]:
    wide = any(sum(map(bool, row)) > 1 for row in rows)
    captions: list[str] = []
    current: list[list[str]] = []
    after_gap = True
    for row in rows:
        filled = [cell for cell in row if cell]
        if not filled:
            after_gap = True
            continue
        if len(filled) == 1 and after_gap and wide:
            if current:
                yield captions, current
                captions, current = [], []
            captions.append(filled[0])
            continue
        if current and after_gap and _is_header(row):
            yield captions, current
            captions, current = [], []
        current.append(row)
        after_gap = False
    if current:
        yield captions, current


def _is_header(row: Sequence[str]) -> bool:
    """Whether a row may be a header: distinct cells without digits."""
    filled = [cell for cell in row if cell]
    return len(set(filled)) == len(filled) and not any(any(map(str.isdigit, cell)) for cell in filled)


def _format_cell(cell: Any) -> str:
    """Return a cell as displayed: dates without midnight, integers without ``.0``, percentages with ``%``."""
    value = cell.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value * 100:.10g}%" if "%" in (cell.number_format or "") else f"{value:.15g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return "" if value is None else str(value)
