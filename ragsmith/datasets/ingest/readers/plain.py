"""Read Markdown, plain text and source code unchanged, notebooks as Markdown, and PDF as text."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from ragsmith.datasets.document_types import SOURCE_SUFFIXES
from ragsmith.datasets.document_types.pdf import parse_pdf
from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.text.jsonl import parse_json

_FRONT_MATTER = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title: *(["']?)(?P<title>.+?)\1 *$""", re.MULTILINE)
_UNDERLINED = re.compile(r"^(?! {0,3}[#>|\-*+])(?P<title>\S.*)\n=+ *$", re.MULTILINE)


@reader("Markdown", suffixes=(".md", ".markdown", ".mdown", ".mkd"))
def read_markdown(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Markdown, unchanged."""
    text, notes = decode_text(data)
    return (FilePart(text, title=_find_title(text), notes=notes),)


@reader("text", suffixes=(".txt",))
def read_text(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Plain text, and files without another reader."""
    text, notes = decode_text(data)
    return (FilePart(text, ending=".txt", notes=notes),)


@reader("source code", suffixes=[suffix for suffix in SOURCE_SUFFIXES if suffix != ".json"])
def read_code(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Source code, unchanged."""
    text, notes = decode_text(data)
    return (FilePart(text, ending=PurePosixPath(name).suffix, notes=notes),)


def _find_title(text: str) -> str | None:
    """Return the title in the front matter or an underlined heading; headings with ``#`` are found when loading."""
    if (front := _FRONT_MATTER.match(text)) and (found := _FRONT_TITLE.search(front[1])):
        return found["title"]
    underlined = _UNDERLINED.search(text)
    return underlined["title"].strip() if underlined else None


@reader("PDF", binary=True, needs=("pypdf",))
def read_portable(data: bytes, name: str) -> tuple[FilePart, ...]:
    """PDF as text, with its pages."""
    text, title, pages = parse_pdf(data)
    return (FilePart(text, title=title, pages=pages),)


MAX_OUTPUT_CHARACTERS = 2_000
"""Maximum length of the output of a cell, in characters; longer tables and logs are truncated."""

_FENCE = re.compile("`{3,}")


@reader("notebook", suffixes=(".ipynb",))
def read_notebook(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Jupyter notebooks: text, code and short outputs."""
    text, notes = decode_text(data)
    notebook = parse_json(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(notebook, dict) or not isinstance(cells, list):
        raise TextError("is not a notebook of version 4; save it again with a newer Jupyter")
    language = _code_language(notebook.get("metadata"))
    blocks = [
        block for cell in cells if isinstance(cell, dict) for block in _iter_blocks(cell, language) if block.strip()
    ]
    return (FilePart("\n\n".join(blocks) + "\n" if blocks else "", notes=notes),)


def _iter_blocks(cell: Mapping[str, object], language: str) -> Iterator[str]:
    source = FORBIDDEN.sub("", _join_source(cell.get("source"))).strip("\n")
    if cell.get("cell_type") != "code":
        yield source
        return
    if source.strip():
        yield _fence_code(source, language)
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        printed = FORBIDDEN.sub("", _output_text(output)).strip("\n") if isinstance(output, dict) else ""
        if printed.strip():
            truncated = printed[:MAX_OUTPUT_CHARACTERS] + "..." * (len(printed) > MAX_OUTPUT_CHARACTERS)
            yield _fence_code(truncated, "text")


def _output_text(output: Mapping[str, object]) -> str:
    data = output.get("data")
    return _join_source(output.get("text") or (data.get("text/plain") if isinstance(data, dict) else ""))


def _join_source(source: object) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _fence_code(text: str, language: str) -> str:
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _code_language(metadata: object) -> str:
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) and name.isalnum() else "python"
