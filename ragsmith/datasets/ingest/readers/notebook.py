"""A Jupyter notebook as Markdown: texts, fenced code, and printed output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.text.jsonl import parse_json

LONGEST_OUTPUT = 2_000
"""Most characters of a cell's output; the rest of long tables and logs is dropped."""

_FENCE = re.compile("`{3,}")


@reader("notebook", suffixes=(".ipynb",))
def read_notebook(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Jupyter notebooks: text, code and short outputs."""
    text, notes = decode_text(data)
    notebook = parse_json(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(notebook, dict) or not isinstance(cells, list):
        raise TextError("is not a notebook of version 4; save it again with a newer Jupyter")
    language = _language(notebook.get("metadata"))
    blocks = [block for cell in cells if isinstance(cell, dict) for block in _blocks(cell, language) if block.strip()]
    return (FilePart("\n\n".join(blocks) + "\n" if blocks else "", notes=notes),)


def _blocks(cell: Mapping[str, object], language: str) -> Iterator[str]:
    source = FORBIDDEN.sub("", _joined(cell.get("source"))).strip("\n")
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield _fenced(source, language)
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        shown = FORBIDDEN.sub("", _shown(output)).strip("\n") if isinstance(output, dict) else ""
        if shown.strip():
            cut = shown if len(shown) <= LONGEST_OUTPUT else f"{shown[:LONGEST_OUTPUT]}..."
            yield _fenced(cut, "text")


def _shown(output: Mapping[str, object]) -> str:
    data = output.get("data")
    return _joined(output.get("text") or (data.get("text/plain") if isinstance(data, dict) else ""))


def _joined(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _fenced(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _language(metadata: object) -> str:
    about = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = about.get("name") if isinstance(about, dict) else None
    return name if isinstance(name, str) and name.isalnum() else "python"
