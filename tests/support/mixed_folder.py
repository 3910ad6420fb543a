# ruff: noqa: E501 - contents of files are easier to see when each is on one line
"""Writes a folder such as people have: 59 entries of 14 kinds, nested, with duplicates, odd names and broken files.

The texts are about a town's waterworks, and every station, valve and rule has numbers of its own, so that questions
about them have one answer. `written` needs the packages of the extra ``documents``, and python-docx.
"""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from pdf_file import pdf

ENTRIES = 59
NEEDED = ("bs4", "charset_normalizer", "docutils", "docx", "mammoth", "markdownify", "openpyxl", "pptx")
"""Packages of the extra ``documents``, and python-docx, which writes a file for it to read."""

STAGES = (
    ("Alderbrook", "Marten Quill", "the old tannery", 412, 1931),
    ("Birchholm", "Ines Farrow", "the north meadow", 388, 1947),
    ("Coldwell", "Tobias Renner", "the quarry road", 521, 1952),
    ("Dunmere", "Hedda Voss", "the lower lock", 276, 1958),
    ("Eastfold", "Rufus Kemble", "the parish barn", 634, 1963),
    ("Fenwick", "Salome Arden", "the salt marsh", 199, 1966),
    ("Garrow", "Piers Holloway", "the cider mill", 455, 1970),
    ("Harcombe", "Odile Brandt", "the chapel green", 347, 1974),
    ("Inchfield", "Laurence Pike", "the brick kiln", 583, 1979),
    ("Juniper Hill", "Mabel Stroud", "the watch tower", 168, 1983),
    ("Kestrel Bay", "Anton Leary", "the fish market", 709, 1986),
    ("Larkspur", "Greta Moss", "the rope walk", 243, 1990),
    ("Millrace", "Conrad Tully", "the flax store", 496, 1994),
    ("Northgate", "Vera Sandal", "the toll house", 317, 1997),
    ("Oakhanger", "Felix Marsh", "the deer park", 562, 2001),
    ("Pinder", "Agnes Rowe", "the slate pier", 224, 2004),
)
"""Name, keeper, place, cubic metres an hour, and year of each pumping station."""


@dataclass(frozen=True)
class Mixed:
    """The folder, and by path what is to become of what is in it; a refusal with a part of its reason."""

    folder: Path
    duplicates: frozenset[str]
    refused: dict[str, str]
    aside: frozenset[str]
    kinds: frozenset[str]


def sentences(number: int) -> list[str]:
    """Facts about a station, a sentence each."""
    name, keeper, place, volume, year = STAGES[number % len(STAGES)]
    return [
        f"The {name} pumping station stands beside {place} and was opened in {year}.",
        f"Its keeper is {keeper}, who answers the telephone on line {number + 21} day and night.",
        f"The two pumps of {name} lift {volume} cubic metres of water an hour into the upper basin.",
        f"When the gauge at {name} falls below {3 + number} bar, the keeper closes the bypass valve by hand.",
        f"Filters at {name} are rinsed every {5 + number % 9} days, and the sand is renewed after {year % 7 + 2} years.",
        f"A spare seal for {name} costs {volume // 3} crowns and is kept in the red cabinet of {place}.",
    ]


def markdown(number: int) -> str:
    """A station as Markdown, with two sections."""
    name = STAGES[number % len(STAGES)][0]
    found = sentences(number)
    first, second = "\n\n".join(found[:3]), "\n\n".join(found[3:])
    return f"# The {name} station\n\n{first}\n\n## Upkeep of {name}\n\n{second}\n"


def written(folder: Path) -> Mixed:
    """Write the folder; it may exist, and is empty then."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {
        # Markdown, text, RST and source code
        "README.md": markdown(0).encode(),
        "handbook/birchholm.md": markdown(1).encode(),
        "handbook/deep/er/still/coldwell.markdown": markdown(2).encode(),
        "handbook/notes on dunmere.txt": " ".join(sentences(3)).encode(),
        "handbook/windows.txt": "\r\n\r\n".join(sentences(4)).encode(),
        "handbook/utf16.txt": "\n\n".join(sentences(5)).encode("utf-16"),
        "handbook/utf16_without_mark.txt": "\n\n".join(sentences(6)).encode("utf-16-le"),
        "handbook/latin.txt": "Die Schlüssel für das Wehr hängen im Büro; über Änderungen führt Frau Möller Buch.\n".encode(
            "cp1252"
        ),
        "handbook/LICENCE": b"Anyone may copy these pages of the waterworks, and change them, without asking.\n",
        "handbook/harcombe.rst": _rst(7),
        "handbook/rules.rst": _rst_rules(),
        "code/valve.py": _python(),
        "code/gauge.c": b"/* Bars at which the bypass is closed. */\n#define LOWEST_BAR 3\n\nint must_close(int bar)\n{\n    return bar < LOWEST_BAR;\n}\n",
        "code/settings.yaml": b"basin:\n  upper_litres: 90000\n  alarm_bar: 3\n",
        # pages, Office, books
        "web/inchfield.html": _html(8),
        "web/prices.htm": _html_prices(),
        "office/juniper_hill-Station_v2.docx": _docx(9),
        "office/contract.docx": _docx(10, headings=False),
        "office/kestrel.pptx": _pptx(11),
        "office/readings.xlsx": _xlsx(),
        "office/staff 2024.xlsx": _xlsx_staff(),
        "books/waterworks.epub": _epub(12, 13),
        "books/oakhanger.pdf": pdf(sentences(14)[:3], sentences(14)[3:], title="Oakhanger in print"),
        "books/scan_of-plan.pdf": pdf(["Plan of the Pinder station", *sentences(15)[:2]]),
        # mail, tables, JSON, notebooks
        "mail/2024/bypass.eml": _mail(
            "Bypass at Fenwick",
            "The bypass at Fenwick leaks 40 litres a day since Monday.\n\nPlease send a seal of size 9.",
        ),
        "mail/2024/meeting.eml": _mail(
            "Meeting of keepers", "The keepers meet on 14 May at the toll house.", html=True
        ),
        "mail/order.eml": _mail(
            "Order of sand", "Twelve tonnes of filter sand arrive on Friday.", attachment="order.png"
        ),
        "tables/seals.csv": _csv(
            ",", ["seal", "size", "crowns"], [["nitrile", "9", "14"], ["viton", "11", "22"], ["ptfe", "12", "31"]]
        ),
        "tables/pipes.csv": _csv(";", ["pipe", "metres"], [["main", "412,5"], ["branch", "97,0"]]),
        "tables/tanks.tsv": _csv(
            "\t", ["tank", "litres", "colour"], [["north", "900", "green"], ["south", "750", "grey"]]
        ),
        "tables/ragged.csv": b"town,fee,fee\nAlderbrook,3,4\nBirchholm,5\n",
        "data/alarms.json": json.dumps(
            [{"alarm": "A1", "bar": 3, "horn": True}, {"alarm": "B2", "bar": 5, "horn": False}]
        ).encode(),
        "data/plant.json": json.dumps({"plant": {"name": "Upper basin", "litres": 90000}}).encode(),
        "data/visits.jsonl": b"".join(
            json.dumps({"visit": n, "station": STAGES[n][0], "minutes": 10 + n}).encode() + b"\n" for n in range(5)
        ),
        "data/reports.jsonl": b"".join(
            json.dumps({"title": f"Report {n}", "body": "\n\n".join(sentences(n + 2))}).encode() + b"\n"
            for n in range(2)
        ),
        "data/pressure.ipynb": _notebook(),
        # odd names, and things under other names than they have
        "odd/[draft] (final)  #2?.md": b"# Draft rules\n\nNo keeper works more than nine nights in a row.\n",
        "odd/R\u00e9sum\u00e9 \u6c34.txt": b"The apprentice of Larkspur has been trained for 18 months.\n",
        "odd/two\nlines.md": b"# Two lines\n\nThe name of this file has a line break in it.\n",
        "odd/pdf.txt": pdf(["A page of the annals: the flood of 1902 reached the third step of the toll house."]),
        "odd/page": b"<!DOCTYPE html>\n<html><head><title>Signals</title></head><body><p>A blue flag means clean water.</p></body></html>",
        "odd/" + "x" * 240 + ".text": b"A file with a long name says that the long name does not matter.\n",
    }
    duplicates = {
        "copies/readme (copy).md": files["README.md"],
        "copies/birchholm.txt.bak": files["handbook/birchholm.md"],
        "copies/birchholm with the line ends of Windows.md": files["handbook/birchholm.md"].replace(b"\n", b"\r\n"),
    }
    files |= {"copies/nearly alderbrook.md": markdown(0).replace("red cabinet", "green cabinet").encode()}
    broken: dict[str, tuple[bytes, str]] = {
        "broken/empty.md": (b"", "is empty"),
        "broken/blank.txt": (b" \n\t\n", "is empty"),
        "broken/locked.pdf": (pdf(["Secret."], encrypted=True), "is encrypted"),
        "broken/no text.pdf": (pdf([]), "has no text, only images"),
        "broken/archive.docx": (zipped({"readme.txt": b"hello"}), "is a ZIP archive, not DOCX as its name suggests"),
        "broken/program.txt": (b"\x7fELF\x02\x01\x01" + bytes(64), "is a program"),
        "broken/picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(64), "is a picture"),
        "broken/old.doc": (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(512), "in the format of Office before 2007"),
        "broken/bytes.dat": (bytes(range(256)) * 8, "is binary data"),
        "broken/cut.xlsx": (_xlsx()[:900], "is a damaged archive"),
        "broken/bad.ipynb": (b'{"cells": 3}', "is not a notebook"),
    }
    for name, data in (files | duplicates | {name: data for name, (data, _) in broken.items()}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "odd/outside.md").symlink_to("/etc/hostname")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("[core]\n")
    refused = {name: reason for name, (_, reason) in broken.items()}
    refused["odd/outside.md"] = "is a symbolic link out of the folder"
    kinds = frozenset(
        {
            "Markdown",
            "text",
            "RST",
            "HTML",
            "DOCX",
            "PPTX",
            "XLSX",
            "PDF",
            "EPUB",
            "e-mail",
            "tables",
            "JSON",
            "JSON Lines",
            "notebook",
            "source code",
        }
    )
    return Mixed(folder, frozenset(duplicates), refused, frozenset({".git"}), kinds)


def entries(folder: Path) -> list[str]:
    """Everything in the folder but its folders, by path; what is hidden is one entry."""
    found: list[str] = []
    for above, folders, files in os.walk(folder):
        inner = Path(above).relative_to(folder)
        found += [(inner / name).as_posix() for name in files]
        found += [(inner / name).as_posix() for name in folders if name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
    return sorted(found)


def _rst(number: int) -> bytes:
    name = STAGES[number][0]
    found = sentences(number)
    title = f"The {name} station"
    body = "\n\n".join(found[:3])
    return f"{'=' * len(title)}\n{title}\n{'=' * len(title)}\n\n{body}\n\nUpkeep\n------\n\n.. note:: {found[3]}\n\n{found[4]}\n".encode()


def _rst_rules() -> bytes:
    return b"""\
Rules for keepers
=================

.. versionadded:: 2.1
   Keepers carry a lamp at night.

=======  =======
Flag     Meaning
=======  =======
yellow   no water
blue     clean water
=======  =======

See :ref:`the basin <basin>` for its size::

    litres = 90000
"""


def _python() -> bytes:
    return b'''\
"""Valves of the waterworks."""


class Valve:
    """A valve that is opened by quarter turns."""

    def turns(self, share: float) -> int:
        """Return how many quarter turns open this share of the valve; 12 open it wholly."""
        return round(12 * share)
'''


def _html(number: int) -> bytes:
    found = sentences(number)
    rows = "".join(f"<tr><td>pump {n}</td><td>{n * 40} kW</td></tr>" for n in (1, 2))
    return f"""<!doctype html><html><head><title>{STAGES[number][0]} | Waterworks</title><script>var x = 1;</script></head>
<body><nav><a href="/">Home</a></nav><main><h1>The {STAGES[number][0]} station</h1><p>{found[0]} {found[1]}</p>
<h2>Power</h2><table><tr><th>pump</th><th>power</th></tr>{rows}</table><ul><li>{found[2]}</li><li>{found[3]}</li></ul></main>
<footer>Copyright of nobody</footer></body></html>""".encode()


def _html_prices() -> bytes:
    return "<html><head><meta charset='iso-8859-1'><title>Prices of water</title></head><body><p>A cubic metre costs 3 £ in summer and 2 £ in winter.</p></body></html>".encode(
        "latin-1"
    )


def _docx(number: int, *, headings: bool = True) -> bytes:
    from docx import Document  # noqa: PLC0415

    document: Any = Document()
    found = sentences(number)
    name = STAGES[number][0]
    if headings:
        document.add_heading(f"The {name} station", level=1)
    else:
        document.core_properties.title = f"Contract of {name}"
    document.add_paragraph(found[0])
    document.add_paragraph(found[1])
    if headings:
        document.add_heading("Upkeep", level=2)
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "part", "crowns"
    for part, price in (("gland", number + 4), ("rotor", number + 90)):
        cells = table.add_row().cells
        cells[0].text, cells[1].text = part, str(price)
    document.add_paragraph(found[3], style="List Bullet")
    document.add_paragraph(found[4], style="List Bullet")
    return _saved(document.save)


def _pptx(number: int) -> bytes:
    from pptx import Presentation  # noqa: PLC0415
    from pptx.util import Inches  # noqa: PLC0415

    show: Any = Presentation()
    found = sentences(number)
    show.core_properties.title = f"{STAGES[number][0]} for visitors"
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = f"The {STAGES[number][0]} station"
    slide.placeholders[1].text = "\n".join(found[:3])
    slide.notes_slide.notes_text_frame.text = found[5]
    second = show.slides.add_slide(show.slide_layouts[5])
    second.shapes.title.text = "Power of the pumps"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for at, text in enumerate(("pump", "kilowatts", "first", "75")):
        table.cell(at // 2, at % 2).text = text
    return _saved(show.save)


def _xlsx() -> bytes:
    from openpyxl import Workbook  # noqa: PLC0415

    book: Any = Workbook()
    sheet = book.active
    sheet.title = "Readings"
    sheet.append(["Readings of the upper basin"])
    sheet.append([])
    sheet.append(["month", "litres", "share"])
    for month, litres, share in (("January", 81000, 0.9), ("February", 76500, 0.85), ("March", 79200, 0.88)):
        sheet.append([month, litres, share])
        sheet.cell(sheet.max_row, 3).number_format = "0%"
    second = book.create_sheet("Valves / old".replace("/", "and"))
    second.append(["valve", "turns"])
    second.append(["bypass", 12])
    return _saved(book.save)


def _xlsx_staff() -> bytes:
    from openpyxl import Workbook  # noqa: PLC0415

    book: Any = Workbook()
    book.active.title = "Keepers"
    book.active.append(["keeper", "station", "since"])
    for name, keeper, _, _, year in STAGES:
        book.active.append([keeper, name, year])
    return _saved(book.save)


def _epub(*numbers: int) -> bytes:
    chapters = {
        f"OEBPS/chapter{n}.xhtml": f"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><head><title>c</title></head><body><h1>The {STAGES[n][0]} station</h1>{''.join(f'<p>{s}</p>' for s in sentences(n))}</body></html>".encode()
        for n in numbers
    }
    items = "".join(f"<item id='c{n}' href='chapter{n}.xhtml' media-type='application/xhtml+xml'/>" for n in numbers)
    spine = "".join(f"<itemref idref='c{n}'/>" for n in numbers)
    package = f"<?xml version='1.0'?><package xmlns='http://www.idpf.org/2007/opf' version='3.0'><metadata xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:title>A book of waterworks</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    container = "<?xml version='1.0'?><container xmlns='urn:oasis:names:tc:opendocument:xmlns:container' version='1.0'><rootfiles><rootfile full-path='OEBPS/book.opf' media-type='application/oebps-package+xml'/></rootfiles></container>"
    return zipped(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": container.encode(),
            "OEBPS/book.opf": package.encode(),
            **chapters,
        }
    )


def _mail(subject: str, text: str, *, html: bool = False, attachment: str = "") -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = (
        subject,
        "Vera Sandal <vera@example.org>",
        "keepers@example.org",
    )
    message["Date"] = "Tue, 14 May 2024 08:00:00 +0000"
    if html:
        message.set_content(f"<html><body><h2>Notice</h2><p>{text}</p></body></html>", subtype="html")
    else:
        message.set_content(text)
    if attachment:
        message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename=attachment)
    return message.as_bytes()


def _csv(delimiter: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter).writerows([header, *rows])
    return file.getvalue().encode()


def _notebook() -> bytes:
    cells = [
        {
            "cell_type": "markdown",
            "source": ["# Pressure over a week\n", "\n", "The pressure at Garrow was read every hour."],
        },
        {
            "cell_type": "code",
            "source": ["bars = [4, 5, 6]\n", "print(sum(bars) / 3)"],
            "outputs": [{"output_type": "stream", "name": "stdout", "text": ["5.0\n"]}],
        },
        {"cell_type": "markdown", "source": "The mean of the week was 5 bar."},
    ]
    return json.dumps(
        {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    ).encode()


def zipped(files: dict[str, bytes]) -> bytes:
    """Return a ZIP archive of files by name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return file.getvalue()


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()
