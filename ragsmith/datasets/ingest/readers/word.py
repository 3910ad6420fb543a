"""DOCX as Markdown, via HTML by mammoth: headings by style, lists, tables and footnotes."""

from __future__ import annotations

from io import BytesIO

from ragsmith.datasets.ingest.readers import markup
from ragsmith.datasets.ingest.readers.packages import DAMAGED, core_title, opened
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import TextError

STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
p[style-name='Code'] => pre:separator('\\n')
p[style-name='Quote'] => blockquote > p:fresh
"""


@reader("DOCX", member="word/document.xml", binary=True, needs=("mammoth", *markup.NEEDS))
def read_word(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Word documents as Markdown."""
    import mammoth  # noqa: PLC0415
    from bs4 import BeautifulSoup  # noqa: PLC0415

    archive = opened(data)
    try:
        html = mammoth.convert_to_html(BytesIO(data), style_map=STYLES, convert_image=_no_image).value
    except DAMAGED as error:
        raise TextError(f"is not a DOCX file that can be read ({type(error).__name__}); save it again") from error
    return (FilePart(markup.markdown_of(BeautifulSoup(html, "html.parser")), title=core_title(archive)),)


def _no_image(image: object) -> list[object]:
    """Drop pictures."""
    return []
