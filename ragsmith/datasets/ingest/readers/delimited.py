"""CSV and TSV with any separator, as CSV with unique column names."""

from __future__ import annotations

import csv
import io
from collections import Counter

from ragsmith.datasets.document_types.tables import rendered
from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.grid import table
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import TextError

SEPARATORS = ",;\t|"
SAMPLE = 50

LONGEST_CELL = 1 << 27
"""Most characters of a cell; the default of the module `csv` is 131,072."""


@reader("tables", suffixes=(".csv", ".tsv", ".tab"))
def read_delimited(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Tables of values that commas, tabs, semicolons or pipes part."""
    text, notes = decode_text(data)
    separator = _separator(text)
    if separator == ",":
        try:
            rendered(text, separator)
        except TextError:
            pass
        else:
            return (FilePart(text, ".csv", notes=notes),)
    rows = _rows(text, separator)
    widths = Counter(map(len, rows))
    usual = widths.most_common(1)[0][0] if widths else 0
    uneven = sum(widths.values()) - widths[usual]
    made = table(rows)
    if made is None:
        raise TextError("has no rows below its header; remove the file")
    said = (f"of {len(rows)} rows {uneven} have another number of cells than the others",) if uneven else ()
    return (FilePart(made[0], ".csv", notes=(*notes, *said, *made[1])),)


def _rows(text: str, separator: str) -> list[list[str]]:
    csv.field_size_limit(LONGEST_CELL)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise TextError(f"is not valid CSV ({error}); save it again from the program that made it") from None


def _separator(text: str) -> str:
    """Return the separator that splits most of the first lines into the same number of cells; a comma by default."""
    lines = [line for line in text.split("\n")[:SAMPLE] if line.strip()]

    def score(separator: str) -> tuple[int, int]:
        rows = _rows("\n".join(lines), separator) if lines else []
        counts = Counter(len(row) for row in rows if len(row) > 1)
        if not counts:
            return 0, 0
        width, agreeing = max(counts.items(), key=lambda item: (item[1], item[0]))
        return agreeing, width

    return max(SEPARATORS, key=score)
