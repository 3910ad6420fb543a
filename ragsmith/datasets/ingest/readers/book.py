"""EPUB as Markdown: the chapters in reading order."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree import ElementTree

from ragsmith.datasets.ingest.readers import markup
from ragsmith.datasets.ingest.readers.packages import DAMAGED, TITLE, opened
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import TextError

CONTAINER = "META-INF/container.xml"
_PAGE_TYPES = ("application/xhtml+xml", "text/html")


@reader("EPUB", member=CONTAINER, binary=True, needs=markup.NEEDS)
def read_book(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Electronic books: their chapters as Markdown."""
    archive = opened(data)
    try:
        root = ElementTree.fromstring(archive.read(CONTAINER)).find(".//{*}rootfile")
        path = "" if root is None else str(root.get("full-path"))
        package = ElementTree.fromstring(archive.read(path))
        pages = [archive.read(inner) for inner in _spine(package, posixpath.dirname(path))]
    except DAMAGED as error:
        raise TextError(f"is not an EPUB file that can be read ({type(error).__name__}); save it again") from error
    chapters = [text for text, _ in map(markup.page, pages) if text]
    title = " ".join((package.findtext(f".//{TITLE}") or "").split())
    starts = [0]
    for chapter in chapters[:-1]:
        starts.append(starts[-1] + len(chapter) + 1)
    return (FilePart("\n".join(chapters), title=title or None, pages=tuple(starts)),)


def _spine(package: ElementTree.Element, folder: str) -> Iterator[str]:
    """Yield the names of the pages in the archive, except the table of contents, which repeats headings."""
    items = {item.get("id"): item for item in package.findall("{*}manifest/{*}item")}
    for reference in package.findall("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _PAGE_TYPES or "nav" in (item.get("properties") or "").split():
            continue
        yield posixpath.normpath(posixpath.join(folder, unquote(str(item.get("href")))))
