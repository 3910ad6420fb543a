"""Fingerprints of functions that no file defines: those of notebook cells, and lambdas.

The source of a cell is in `linecache`, as IPython puts it there for tracebacks. The fingerprint covers the statement
that defines the function and what it uses by name: other functions of cells, plain values, and imported code by its
own fingerprint or the version of its library. It is computed at each call, as cells change.
"""

import ast
import dis
import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ragsmith.digest import digest, fingerprint, fingerprint_import
from ragsmith.errors import UsageError


def is_in_cell(fn: Callable[..., Any]) -> bool:
    """Whether a function was defined in a cell of a notebook, or in another interpreter that keeps its source."""
    fn = inspect.unwrap(fn)
    if not isinstance(fn, FunctionType) or fn.__module__.startswith("ragsmith."):
        return False
    known = linecache.cache.get(fn.__code__.co_filename, ())
    return len(known) > 1 and known[1] is None  # source without a time of change, as it is not read from a file


def fingerprint_definition(fn: Callable[..., Any]) -> str:
    """Return the fingerprint of a function of a file, or of a cell.

    Raises:
        UsageError: the function, or something that it uses, cannot be fingerprinted.
    """
    return fingerprint_source(fn) if is_in_cell(fn) else fingerprint(fn.__module__, fn.__name__)


def fingerprint_source(fn: Callable[..., Any]) -> str:
    """Return the digest of the source of a function or lambda and of what it uses by name; 16 hex digits.

    Raises:
        UsageError: there is no source of it, or it uses an object that is neither plain data nor imported.
    """
    waiting = [inspect.unwrap(fn)]
    described = []
    for one in waiting:  # grows during the loop
        defaults = {**dict(enumerate(one.__defaults__ or ())), **(one.__kwdefaults__ or {})}
        values = {**{f"default {name}": value for name, value in defaults.items()}, **_list_globals(one)}
        uses = []
        for name, value in sorted(values.items()):
            if isinstance(value, FunctionType) and (value.__module__ == one.__module__ or is_in_cell(value)):
                if value not in waiting:
                    waiting.append(value)
                uses.append([name, waiting.index(value)])
            else:
                uses.append([name, _describe(value, name, one)])
        described.append([ast.unparse(_find_definition(one)), uses])
    return digest("source", described)[:16]


def _list_globals(fn: FunctionType) -> dict[str, Any]:
    """Return what a function uses from outside itself by name; names that are not defined (yet) are left out."""
    names = {
        one.argval
        for code in _list_codes(fn.__code__)
        for one in dis.get_instructions(code)
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    return {name: fn.__globals__[name] for name in names if name in fn.__globals__} | {
        name: cell.cell_contents for name, cell in cells
    }


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_codes(constant)


def _find_definition(fn: FunctionType) -> ast.AST:
    """Return the syntax tree of a function or lambda in the source of its cell or file."""
    code = fn.__code__
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(code.co_filename)))))
    except SyntaxError:  # the file has changed since
        nodes = []
    if (found := next((node for node in nodes if _is_definition(node, code)), None)) is None:
        raise UsageError(f"the source of {fn.__name__} is not known, so its results cannot be stored: put it in a file")
    return found


def _is_definition(node: ast.AST, code: CodeType) -> bool:
    """Whether ``code`` was compiled from the function or lambda ``node``; lambdas of one line differ by column."""
    if isinstance(node, ast.Lambda):
        span = node.body.lineno, node.body.end_lineno, node.body.col_offset, node.body.end_col_offset
        return code.co_name == "<lambda>" and span in code.co_positions()
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != code.co_name:
        return False
    return min(part.lineno for part in (node, *node.decorator_list)) == code.co_firstlineno


def _describe(value: object, name: str, by: FunctionType) -> object:
    """Return what identifies ``value``, which the function ``by`` uses as ``name``."""
    if isinstance(value, ModuleType):
        return fingerprint_import(value.__name__)
    if isinstance(value, type | FunctionType | BuiltinFunctionType) and value.__module__ != by.__module__:
        return fingerprint_import(str(value.__module__), value.__qualname__.partition(".")[0])
    if isinstance(value, re.Pattern):
        return [value.pattern, value.flags]
    try:
        return digest(sorted(value) if isinstance(value, set | frozenset) else value)
    except (TypeError, ValueError):
        raise UsageError(
            f"{by.__name__} of {by.__code__.co_filename} uses {name}, a {type(value).__name__} that has no "
            "fingerprint: put both in a file and import it, or use plain data and functions"
        ) from None
