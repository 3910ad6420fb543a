"""Definitions and uses of names in Python files, from the syntax tree.

The tree is parsed by `ast`, which has no dependencies and follows the scoping rules of the language. A parser of many
languages (tree-sitter) needs a grammar for each, as compiled wheels or downloads at run time, and returns concrete
syntax, in which scopes and definitions have to be resolved for each language. Code in other languages, and files that
do not parse, are therefore joined by shared identifiers (`chunk_edges`).
"""

import ast
import re
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ragsmith.types import Chunk

SUFFIXES = (".py", ".pyi")
"""Suffixes of Python files."""
MAX_CHARACTERS = 1 << 19
"""Maximum number of characters of a file that is parsed."""

_LINE = re.compile(r"\r\n|\n|\r")

LOCAL_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
"""Nodes with a local scope; names in a class are also accessible from outside, as attributes."""
Lines = dict[str, set[int]]
"""Line numbers by name."""


def find_uses(chunks: Sequence[Chunk]) -> dict[str, tuple[set[int], set[int]]] | None:
    """Return the positions of the chunks that define and that use each name defined in a document.

    ``chunks`` are all chunks of the document. Return None if it is not a Python file or does not parse.
    """
    if not chunks or not chunks[0].doc.lower().endswith(SUFFIXES):
        return None
    text = _join_chunks(chunks)
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():  # about escapes and comparisons in the file
            warnings.simplefilter("ignore")
            names = _Names()
            names.visit(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    begins = [0, *(match.end() for match in _LINE.finditer(text))]
    order = sorted(range(len(chunks)), key=lambda place: (chunks[place].start, place))
    starts = [chunks[place].start for place in order]

    def places(lines: Iterable[int]) -> set[int]:
        return {order[max(0, bisect_right(starts, begins[line - 1]) - 1)] for line in lines}

    return {name: (places(names.defined[name]), places(names.used[name])) for name in sorted(names.defined)}


def _join_chunks(chunks: Sequence[Chunk]) -> str:
    """Return the text of the document from its ``chunks``; gaps between them are white space."""
    parts: list[str] = []
    end = 0
    for chunk in sorted(chunks, key=lambda chunk: (chunk.start, chunk.end)):
        if chunk.start > end:  # chunks begin at the beginning of a line
            parts.append(" " * (chunk.start - end - 1) + "\n")
            end = chunk.start
        parts.append(chunk.text[end - chunk.start :])
        end = max(end, chunk.end)
    return "".join(parts)


class _Names(ast.NodeVisitor):
    """The lines on which names are defined and used: functions, classes, their attributes, and variables of a module.

    Variables and arguments of a function are local and shadow outer names.
    """

    def __init__(self) -> None:
        self.defined: Lines = defaultdict(set)
        self.used: Lines = defaultdict(set)
        self._local_names: list[frozenset[str]] = []
        """The local names of the enclosing functions, innermost last."""

    def visit(self, node: ast.AST) -> None:
        """Collect the definitions and uses in a node and its children."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not self._local_names:
            self.defined[node.name].add(node.lineno)
        if not isinstance(node, LOCAL_SCOPES):
            super().visit(node)
            return
        self._local_names.append(_find_local_names(node))
        self.generic_visit(node)
        self._local_names.pop()

    def visit_Name(self, node: ast.Name) -> None:
        """Record a variable."""
        if any(node.id in own for own in self._local_names):
            return
        if isinstance(node.ctx, ast.Load):
            self.used[node.id].add(node.lineno)
        elif not self._local_names:
            self.defined[node.id].add(node.lineno)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Record an attribute of any object."""
        found = self.used if isinstance(node.ctx, ast.Load) else self.defined
        found[node.attr].add(node.end_lineno or node.lineno)
        self.generic_visit(node)


def _find_local_names(node: ast.AST) -> frozenset[str]:
    """Return the local names of a function or comprehension."""
    bound: set[str] = set()
    outside: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            bound.add(part.arg)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            bound.add(part.id)
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and part is not node:
            bound.add(part.name)
        elif isinstance(part, ast.Global | ast.Nonlocal):
            outside.update(part.names)
        elif isinstance(part, ast.ExceptHandler) and part.name:
            bound.add(part.name)
    return frozenset(bound - outside)
