# ruff: noqa: E501, PLC0415 - contents of files each on one line; tools are imported where they are run
"""What converters to Markdown keep of headings, tables, order and sentences, on small files that this script makes.

python benchmarks/bench_readers.py [NAME ...]

Each file has the same outline: five headings, nine sentences in order, a table of a header and three rows, a list.
A heading counts where it is a line that begins with `#`; a row where all of its cells are on one line in order; order is
the share of neighbouring sentences that are still in order. Marks that are escaped with a backslash count as there, but
not as there letter by letter. Tools that are not installed are left
out, so run it in as many environments as the tools need.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

HEADINGS = ("Waterworks of Alder", "Pumps", "Spare parts", "Rules at night", "Visitors")
LEVELS = (1, 2, 2, 2, 3)
SENTENCES = (
    "The waterworks of Alder were opened in 1931.",
    "Two pumps lift the water into the upper basin.",
    "The left_hand pump runs from six until noon.",
    "Parts are kept in the red cabinet.",
    "Nobody may take more than two of them.",
    "At night the keeper *must* carry a lamp.",
    "The bypass is closed by hand.",
    "Visitors come on Thursdays at 2 < 3 o'clock.",
    "They pay [nothing] at the gate.",
)
ROWS = (("part", "size", "crowns"), ("seal", "9", "14"), ("rotor", "210", "380"), ("valve_box", "12", "31"))
ITEMS = ("Look at the gauge.", "Listen to the bearing.")
BESIDE = ("Home and Contact", "Copyright of nobody")


def outline() -> list[tuple[str, Any]]:
    """The parts of each file in order."""
    s = iter(SENTENCES)
    return [
        *(("h", 0), ("p", next(s)), ("p", next(s))),
        *(("h", 1), ("p", next(s)), ("l", ITEMS)),
        *(("h", 2), ("p", next(s)), ("t", ROWS), ("p", next(s))),
        *(("h", 3), ("p", next(s)), ("p", next(s))),
        *(("h", 4), ("p", next(s)), ("p", next(s))),
    ]


def html() -> bytes:
    """A page with what surrounds pages."""
    out = [f"<nav><a href='/'>{BESIDE[0]}</a></nav><main>"]
    for kind, what in outline():
        if kind == "h":
            out.append(f"<h{LEVELS[what]}>{HEADINGS[what]}</h{LEVELS[what]}>")
        elif kind == "p":
            out.append(f"<p>{what.replace('<', '&lt;')}</p>")
        elif kind == "l":
            out.append("<ul>" + "".join(f"<li>{item}</li>" for item in what) + "</ul>")
        else:
            head = "".join(f"<th>{cell}</th>" for cell in what[0])
            rows = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in what[1:])
            out.append(f"<table><tr>{head}</tr>{rows}</table>")
    body = "".join(out)
    return f"<!doctype html><html><head><title>Alder</title></head><body>{body}</main><footer>{BESIDE[1]}</footer></body></html>".encode()


def docx() -> bytes:
    """A Word file with the built-in styles."""
    from docx import Document

    document = Document()
    for kind, what in outline():
        if kind == "h":
            document.add_heading(HEADINGS[what], level=LEVELS[what])
        elif kind == "p":
            document.add_paragraph(what)
        elif kind == "l":
            for item in what:
                document.add_paragraph(item, style="List Bullet")
        else:
            table = document.add_table(rows=0, cols=3)
            for row in what:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
    return saved(document)


def pptx() -> bytes:
    """A slide for each heading."""
    from pptx import Presentation
    from pptx.util import Inches

    show: Any = Presentation()
    slide: Any = None
    for kind, what in outline():
        if kind == "h":
            slide = show.slides.add_slide(show.slide_layouts[1])
            slide.shapes.title.text = HEADINGS[what]
        elif kind == "t":
            table = slide.shapes.add_table(4, 3, Inches(1), Inches(5), Inches(4), Inches(1)).table
            for r, row in enumerate(what):
                for c, cell in enumerate(row):
                    table.cell(r, c).text = cell
        else:
            frame = slide.placeholders[1].text_frame
            for text in [what] if kind == "p" else what:
                frame.text = f"{frame.text}\n{text}" if frame.text else text
    return saved(show)


def xlsx() -> bytes:
    """A sheet with the table, under a caption."""
    from openpyxl import Workbook

    book: Any = Workbook()
    book.active.title = HEADINGS[2]
    for row in ((SENTENCES[0],), (), *ROWS):
        book.active.append(row)
    return saved(book)


def epub() -> bytes:
    """A book of one chapter."""
    page = html().decode().replace("<!doctype html><html>", "<html xmlns='http://www.w3.org/1999/xhtml'>")
    package = "<package xmlns='http://www.idpf.org/2007/opf' version='3.0' unique-identifier='i'><metadata xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:identifier id='i'>x</dc:identifier><dc:title>Alder</dc:title><dc:language>en</dc:language></metadata><manifest><item id='c' href='c.xhtml' media-type='application/xhtml+xml'/></manifest><spine><itemref idref='c'/></spine></package>"
    container = "<container xmlns='urn:oasis:names:tc:opendocument:xmlns:container' version='1.0'><rootfiles><rootfile full-path='book.opf' media-type='application/oebps-package+xml'/></rootfiles></container>"
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        for name, text in (("META-INF/container.xml", container), ("book.opf", package), ("c.xhtml", page)):
            archive.writestr(name, f"<?xml version='1.0'?>{text}")
    return file.getvalue()


def rst() -> bytes:
    """reStructuredText, with a directive of Sphinx around one sentence."""
    out = []
    for kind, what in outline():
        if kind == "h":
            out.append(f"{HEADINGS[what]}\n{'=-~'[LEVELS[what] - 1] * len(HEADINGS[what])}")
        elif kind == "p":
            text = what.replace("*", "\\*").replace("_", "\\_")
            out.append(f".. versionadded:: 2.1\n\n   {text}" if what == SENTENCES[6] else text)
        elif kind == "l":
            out.append("\n".join(f"- {item}" for item in what))
        else:
            rule = "==========  =====  ======"
            lines = [
                "  ".join(cell.replace("_", "\\_").ljust(10 - 5 * (c > 0)) for c, cell in enumerate(row))
                for row in what
            ]
            out.append("\n".join([rule, lines[0], rule, *lines[1:], rule]))
    return "\n\n".join(out).encode()


def pdf() -> bytes:
    """Two printed pages."""
    from pdf_file import pdf as written

    lines: list[str] = []
    for kind, what in outline():
        if kind == "h":
            lines.append(HEADINGS[what])
        elif kind == "t":
            lines += ["  ".join(row) for row in what]
        else:
            lines += [what] if kind == "p" else [f"- {item}" for item in what]
    return written(lines[:9], lines[9:])


def saved(document: Any) -> bytes:
    """The bytes of a document of a library."""
    file = BytesIO()
    document.save(file)
    return file.getvalue()


# --- converters ------------------------------------------------------------------------------------------------------


def ragsmith(path: Path) -> str:
    """What `ragsmith dataset init` makes of it."""
    from ragsmith.datasets.document_types.tables import render_table
    from ragsmith.datasets.ingest.readers.part import choose_reader

    data = path.read_bytes()
    parts = choose_reader(data, path.name).read(data, path.name)
    texts = [
        (part.title or "", render_table(part.text, ",")) if part.ending == ".csv" else ("", part.text) for part in parts
    ]
    return "\n".join(f"{title}\n{text}" for title, text in texts)


def markitdown(path: Path) -> str:
    """MarkItDown."""
    from markitdown import MarkItDown

    return str(MarkItDown().convert(str(path)).text_content)


def pandoc(path: Path) -> str:
    """pandoc, by pypandoc."""
    import pypandoc

    return str(pypandoc.convert_file(str(path), "gfm", extra_args=["--wrap=none"]))


def unstructured(path: Path) -> str:
    """unstructured's elements; titles as headings, tables as the HTML that it keeps of them."""
    from unstructured.partition.auto import partition

    out = []
    for element in partition(str(path)):
        html_table = getattr(element.metadata, "text_as_html", None)
        text = " | ".join(str(element).split("\n")) if html_table is None else html_table.replace("</tr>", "\n")
        out.append(f"# {text}" if element.category == "Title" else text)
    return "\n\n".join(out)


def trafilatura(path: Path) -> str:
    """trafilatura, which reads pages."""
    from trafilatura import extract

    return extract(path.read_text(), output_format="markdown", include_tables=True) or ""


def html2text(path: Path) -> str:
    """html2text, which reads pages."""
    from html2text import HTML2Text

    converter = HTML2Text(bodywidth=0)
    converter.ignore_links = True
    return str(converter.handle(path.read_text()))


PAGES = ("html",)
OFFICE = ("html", "docx", "pptx", "xlsx", "epub", "pdf")
TOOLS: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "ragsmith": (ragsmith, (*OFFICE, "rst")),
    "markitdown": (markitdown, OFFICE),
    "pandoc": (pandoc, ("html", "docx", "pptx", "xlsx", "epub", "rst")),
    "unstructured": (unstructured, ("html", "docx", "pptx", "xlsx", "epub", "pdf", "rst")),
    "trafilatura": (trafilatura, PAGES),
    "html2text": (html2text, PAGES),
}


def measured(text: str, kind: str) -> list[str]:
    """Headings, rows, sentences, order, how many rows and sentences are there letter by letter, and noise."""
    plain = re.sub(r"\\(?=[^A-Za-z0-9\s])", "", text)
    heads = {line.lstrip("#").strip(" *_#") for line in plain.split("\n") if line.startswith("#")}
    headings = sum(heading in heads for heading in HEADINGS)
    wanted = SENTENCES[:1] if kind == "xlsx" else SENTENCES

    def rows(of: str) -> int:
        return sum(any(in_order(line, row) for line in of.split("\n")) for row in ROWS[1:])

    places = [place for sentence in wanted if (place := plain.find(sentence)) >= 0]
    pairs = list(pairwise(places))
    order = f"{100 * sum(a < b for a, b in pairs) / len(pairs):.0f} %" if pairs else "-"
    exact = rows(text) + sum(sentence in text for sentence in wanted)
    noise = sum(beside in text for beside in BESIDE) if kind in ("html", "epub") else None
    return [
        "-" if kind == "xlsx" else f"{headings} of {len(HEADINGS)}",
        f"{rows(plain)} of {len(ROWS) - 1}",
        f"{len(places)} of {len(wanted)}",
        order,
        f"{exact} of {len(ROWS) - 1 + len(wanted)}",
        "-" if noise is None else f"{noise} of {len(BESIDE)}",
    ]


def in_order(line: str, cells: tuple[str, ...]) -> bool:
    """Whether the cells of a row stand on one line, one after the other."""
    at = 0
    for cell in cells:
        at = line.find(cell, at)
        if at < 0:
            return False
        at += len(cell)
    return True


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="*", choices=[*TOOLS, []], metavar="NAME", help=", ".join(TOOLS))
    chosen = parser.parse_args().name or list(TOOLS)
    print("| kind | converter | headings | rows | sentences | order | letter by letter | noise | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for make in (html, docx, pptx, xlsx, epub, pdf, rst):
            kind = make.__name__
            path = Path(folder) / f"alder.{kind}"
            path.write_bytes(make())
            for name in chosen:
                convert, kinds = TOOLS[name]
                if kind not in kinds:
                    continue
                try:
                    convert(path)  # once to import what it needs
                    start = time.perf_counter()
                    text = convert(path)
                except ImportError as error:
                    print(f"| {kind} | {name} | not installed ({error.name}) | | | | | | |")
                    continue
                except Exception as error:  # noqa: BLE001  of whatever class the tool's own is: that it failed is the result
                    print(
                        f"| {kind} | {name} | fails: {type(error).__name__} {' '.join(str(error).split())[:80]} | | | | | |"
                    )
                    continue
                seconds = f"{time.perf_counter() - start:.3f}"
                print(f"| {' | '.join([kind, name, *measured(text, kind), seconds])} |", flush=True)


if __name__ == "__main__":
    main()
