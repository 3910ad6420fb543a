"""Convert HTML and EPUB to Markdown: headings, lists, tables and code, without navigation and other boilerplate."""

import codecs
import posixpath
import re
import warnings
from collections.abc import Iterator
from itertools import accumulate
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.part import DAMAGED, TITLE, FilePart, open_archive, reader
from ragsmith.text.files import FORBIDDEN, TextError

PACKAGES = ("markdownify", "beautifulsoup4")

_BOILERPLATE = ("script", "style", "noscript", "template", "nav", "footer", "aside", "svg", "iframe", "form", "button")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")
_TRAILING_SPACES = re.compile(r"[ \t]+$", re.MULTILINE)
_CHARSET = re.compile(rb"""<(?:meta|\?xml)[^>]{0,200}?(?:charset|encoding)\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_WIDE = ("utf-16", "utf-32")
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def page_to_markdown(data: bytes | str) -> tuple[str, str | None]:
    """Return a page as Markdown, and its ``title``. Only the main element is read if the page has exactly one.

    Links and images are replaced by their text, without URLs.
    """
    from bs4 import BeautifulSoup  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about pages that look like XML or like a file name
        soup = BeautifulSoup(data if isinstance(data, str) else _decode(data), "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    for element in soup(_BOILERPLATE):
        element.decompose()
    main: Any = soup.find_all(["main"]) or soup.find_all(attrs={"role": "main"}) or soup.find_all("article")
    root = main[0] if len(main) == 1 else soup.body or soup
    return element_to_markdown(root), title or None


def element_to_markdown(root: Any) -> str:
    """Return an element of a parsed page as Markdown."""
    markdown = _make_converter().convert_soup(root)
    text = _BLANK_LINES.sub("\n\n", _TRAILING_SPACES.sub("", FORBIDDEN.sub("", markdown.replace("\xa0", " ")))).strip()
    return f"{text}\n" if text else ""


def _decode(data: bytes) -> str:
    """Decode a page with its declared encoding, else with the encoding that `decode_text` detects.

    A declaration of UTF-16 or UTF-32 in an ASCII-compatible page is wrong; like browsers, ignore it.
    """
    if (declared := _CHARSET.search(data[:4096])) and not data.startswith(_BYTE_ORDER_MARKS):
        try:
            codec = codecs.lookup(declared[1].decode()).name
            if not codec.startswith(_WIDE):
                return data.decode(codec)
        except (UnicodeDecodeError, LookupError):
            pass
    return decode_text(data)[0]


def _make_converter() -> Any:
    from markdownify import MarkdownConverter  # noqa: PLC0415

    base: Any = MarkdownConverter

    class Converter(base):
        def convert_a(self, element: Any, text: str, parent_tags: Any) -> str:
            return text

        def convert_img(self, element: Any, text: str, parent_tags: Any) -> str:
            return str(element.attrs.get("alt") or "")

        def process_text(self, element: Any, parent_tags: Any = None) -> str:
            text = str(super().process_text(element, parent_tags=parent_tags))
            return text.replace("|", "\\|") if element.find_parent(("td", "th")) else text

    return Converter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        escape_misc=False,
        table_infer_header=True,
    )


@reader("HTML", suffixes=(".html", ".htm", ".xhtml"), edition=2, needs=PACKAGES)
def read_markup(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Web pages as Markdown."""
    from bs4.exceptions import ParserRejectedMarkup  # noqa: PLC0415

    try:
        text, title = page_to_markdown(data)
    except (*DAMAGED, ParserRejectedMarkup) as error:  # also pages that are nested too deeply
        raise TextError(f"is not HTML that can be read ({type(error).__name__}); save it as text") from error
    return (FilePart(text, title=title),)


CONTAINER = "META-INF/container.xml"
_PAGE_TYPES = ("application/xhtml+xml", "text/html")


@reader("EPUB", member=CONTAINER, binary=True, needs=PACKAGES)
def read_book(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Electronic books: chapters as Markdown."""
    archive = open_archive(data)
    try:
        root = ElementTree.fromstring(archive.read(CONTAINER)).find(".//{*}rootfile")
        path = "" if root is None else str(root.get("full-path"))
        package = ElementTree.fromstring(archive.read(path))
        pages = [archive.read(inner) for inner in _iter_spine(package, posixpath.dirname(path))]
    except DAMAGED as error:
        raise TextError(f"is not an EPUB file that can be read ({type(error).__name__}); save it again") from error
    chapters = [text for text, _ in map(page_to_markdown, pages) if text]
    title = " ".join((package.findtext(f".//{TITLE}") or "").split())
    starts = tuple(accumulate((len(chapter) + 1 for chapter in chapters[:-1]), initial=0))
    return (FilePart("\n".join(chapters), title=title or None, pages=starts),)


def _iter_spine(package: ElementTree.Element, folder: str) -> Iterator[str]:
    """Yield the names of the pages in the archive, except the table of contents, which repeats headings."""
    items = {item.get("id"): item for item in package.findall("{*}manifest/{*}item")}
    for reference in package.findall("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is None or item.get("media-type") not in _PAGE_TYPES or "nav" in (item.get("properties") or "").split():
            continue
        yield posixpath.normpath(posixpath.join(folder, unquote(str(item.get("href")))))
