"""Document types by file suffix, with the conversion of files to text and the modality of the text.

Offsets of evidence and chunks refer to the converted text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ragsmith.datasets.document_types.pdf import read_pdf
from ragsmith.datasets.document_types.tables import cell_separator, read_columns, render_table
from ragsmith.datasets.fields import RawFields, read_front_matter
from ragsmith.text.files import MAX_DOCUMENT_BYTES, read_text
from ragsmith.text.markdown import find_title
from ragsmith.types import Modality

SOURCE_SUFFIXES = (
    *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".kts", ".scala", ".groovy"),
    *(".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".cs", ".fs", ".go", ".rs", ".zig", ".swift", ".m"),
    *(".rb", ".php", ".lua", ".pl", ".pm", ".r", ".jl", ".hs", ".ml", ".ex", ".exs", ".erl", ".clj", ".dart"),
    *(".sh", ".bash", ".zsh", ".ps1", ".sql", ".proto", ".graphql", ".tf", ".css", ".scss"),
    *(".yaml", ".yml", ".toml", ".json", ".ini", ".cfg", ".conf", ".properties"),
)


@dataclass(frozen=True, slots=True)
class LoadedText:
    """The text of a file, with its title, the offsets of its pages, and its fields, if any."""

    text: str
    title: str | None = None
    pages: tuple[int, ...] = ()
    fields: RawFields = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DocumentType:
    """The type of files with one of ``suffixes``; ``read`` raises ``TextError``.

    Identifiers of documents have no suffix if ``by_stem``; otherwise they have one, such as ``pump.c`` and ``pump.h``.
    """

    name: str
    suffixes: tuple[str, ...]
    modality: Modality
    read: Callable[[Path], LoadedText]
    by_stem: bool = False

    def __str__(self) -> str:
        some = ", ".join(self.suffixes[:2])
        return f"{self.name} ({some}{', ...' if len(self.suffixes) > 2 else ''})"


def _read_prose(path: Path) -> LoadedText:
    text = read_text(path, limit=MAX_DOCUMENT_BYTES)
    return LoadedText(text, find_title(text), fields=read_front_matter(text))


def _read_table(path: Path) -> LoadedText:
    text = read_text(path, limit=MAX_DOCUMENT_BYTES)
    if text.strip():
        return LoadedText(render_table(text, cell_separator(path)), fields=read_columns(text, cell_separator(path)))
    return LoadedText(text)


DOCUMENT_TYPES = (
    DocumentType("text", (".md", ".txt"), Modality.PROSE, _read_prose, by_stem=True),
    DocumentType(
        "source code",
        SOURCE_SUFFIXES,
        Modality.CODE,
        lambda path: LoadedText(read_text(path, limit=MAX_DOCUMENT_BYTES)),
    ),
    DocumentType("tables", (".csv", ".tsv"), Modality.TABLE, _read_table),
    DocumentType("PDF", (".pdf",), Modality.PROSE, lambda path: LoadedText(*read_pdf(path))),
)


def find_document_type(file: str | PurePath) -> DocumentType | None:
    """Return the document type of a file by its suffix, ignoring case."""
    suffix = PurePath(file).suffix.lower()
    return next((kind for kind in DOCUMENT_TYPES if suffix in kind.suffixes), None)


def describe_document_types() -> str:
    """Return ``text (.md, .txt), source code (.py, ...), ... or PDF (.pdf)``, for messages."""
    *first, last = map(str, DOCUMENT_TYPES)
    return f"{', '.join(first)} or {last}"
