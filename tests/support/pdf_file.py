"""Writes small PDF files of Helvetica lines, by hand, so that tests know exactly what is in them."""

from __future__ import annotations

from collections.abc import Sequence


def pdf(*pages: Sequence[str], title: str = "", encrypted: bool = False) -> bytes:
    """Return a PDF whose pages have these lines from top to bottom; a line is encoded in WinAnsi."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>"]
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    objects.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    objects.append(b"<< /Title (" + _escaped(title) + b") >>")
    for number, lines in enumerate(pages):
        resources = "<< /Font << /F1 3 0 R >> >>"
        media = "/MediaBox [0 0 612 792]"
        contents = f"/Contents {6 + 2 * number} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R {media} /Resources {resources} {contents} >>".encode())
        drawn = b"".join(
            b"BT /F1 10 Tf 50 %d Td (%s) Tj ET\n" % (750 - 14 * row, _escaped(line)) for row, line in enumerate(lines)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
    return _file(objects, encrypted)


def _file(objects: Sequence[bytes], encrypted: bool) -> bytes:
    data = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    standard = b"/Filter /Standard /V 1 /R 2 /O (%s) /U (%s) /P -4" % (b"o" * 32, b"u" * 32)
    lock = b"/Encrypt << %s >> /ID [(a) (a)]" % standard if encrypted else b""
    trailer = b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R %s >>\n" % (size, lock)
    start = b"startxref\n%d\n%%%%EOF\n" % len(data)
    return data + b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table) + trailer + start


def _escaped(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
