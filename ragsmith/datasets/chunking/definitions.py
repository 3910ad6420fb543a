"""Find the nested definitions of a source file: with `ast` for Python, else by layout."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

DATA_SUFFIXES = frozenset({".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties"})
TABLE_SUFFIXES = DATA_SUFFIXES - {".json", ".yaml", ".yml"}
SELECTOR_SUFFIXES = frozenset({".css", ".scss", ".tf", ".graphql"})
SHELL_SUFFIXES = frozenset({".sh", ".bash", ".zsh"})
MAX_NAME_CHARACTERS = 100
"""Maximum length of the name of a definition, in characters; longer ones are truncated."""

MAX_LINE_CHARACTERS = 1_000
"""Maximum length of a line that is parsed, in characters; longer lines are generated."""

_MODIFIERS = (
    "export|default|public|private|protected|internal|static|abstract|final|sealed|async(?!\\s+def)|unsafe|extern|inline|virtual|"
    "override|partial|data|open|suspend|readonly|declare|const|local|pub|pub\\([a-z]{1,9}\\)"
)
_KEYWORDS = (
    "class|interface|trait|struct|enum|union|impl|protocol|extension|module|namespace|object|record|message|service|type|"
    "defmodule|defp|async\\s+def|def|function|func|fun|fn|sub|macro_rules!"
)
_KEYWORD = re.compile(
    rf"(?:(?:{_MODIFIERS})\s+)*+(?P<keyword>{_KEYWORDS})\b!?(?:\s*<[^<>]*>|\s*\([^()]*\)(?=\s+\w))?[\s*]+(?P<name>[\w.:$?!]+)"
)
_ARROW = re.compile(
    r"(?:export\s+)?(?:const|let|var)\s+(?P<name>[\w$]+)\s*(?::[^=]*)?=\s*(?:async\s*)?"
    r"(?:function\b|(?:\([^()]*\)|[\w$]+)\s*(?::[^=]*)?=>)"
)
_CREATE = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:unique\s+|temp(?:orary)?\s+|materialized\s+|external\s+)*"
    r"(?P<keyword>table|view|index|function|procedure|trigger|type|schema|sequence)\s+(?:if\s+not\s+exists\s+)?"
    r"(?P<name>[\w.\"`\[\]]+)",
    re.IGNORECASE,
)
_YAML_KEY = re.compile(r"(?:- )?(?P<name>[\w./ \"'-]+?)\s*:\s*(?:[|>][-+]?\s*)?(?:#.*)?")
_JSON_KEY = re.compile(r'"(?P<name>(?:[^"\\]|\\.)+)"\s*:\s*[{\[]')
_TABLE = re.compile(r"\[{1,2}[^\[\]]+\]{1,2}")
_WORD = re.compile(r"~?[A-Za-z_$][\w$:<>\[\],?]*")
_CONTROL = re.compile(
    "if|for|foreach|while|switch|match|catch|return|else|elif|do|new|throw|await|yield|sizeof|using|lock|with|until|unless|"
    "when|case|typeof|delete|not|and|or|in|assert|print|echo|goto|raise"
)


def definition_name(line: str, suffix: str) -> str | None:
    """Return the name of the definition that begins with ``line``, without indentation, in a file with this suffix."""
    if len(line) > MAX_LINE_CHARACTERS:
        return None
    if suffix in DATA_SUFFIXES:
        name = _data_name(line, suffix)
    elif suffix in SELECTOR_SUFFIXES:
        name = line.removesuffix("{").strip() if line.endswith("{") else None
    elif suffix == ".sql":
        match = _CREATE.match(line)
        name = f"CREATE {match['keyword'].upper()} {match['name']}" if match else None
    else:
        name = None if suffix in SHELL_SUFFIXES and not line.startswith("function ") else _code_name(line)
    return name[:MAX_NAME_CHARACTERS] if name else None


def function_name(line: str) -> str | None:
    """Return ``name()`` if ``line`` looks like the head of a function without keyword: ``int prime(pump *p)``."""
    head, paren, _ = line.partition("(")
    words = head.replace("*", " ").replace("&", " ").split()
    if not paren or not words or len(line) > MAX_LINE_CHARACTERS or any(map(_CONTROL.fullmatch, (words[0], words[-1]))):
        return None
    return f"{words[-1]}()"[:MAX_NAME_CHARACTERS] if all(_WORD.fullmatch(word) for word in words) else None


def _data_name(line: str, suffix: str) -> str | None:
    if suffix in TABLE_SUFFIXES:
        return line if _TABLE.fullmatch(line.partition("#")[0].strip()) else None
    match = (_JSON_KEY if suffix == ".json" else _YAML_KEY).fullmatch(line)
    return match["name"].strip("\"'") if match else None


def _code_name(line: str) -> str | None:
    if match := _KEYWORD.match(line):
        return f"{match['keyword']} {match['name'].rstrip(':')}"
    if match := _ARROW.match(line):
        return f"const {match['name']}"
    return None


MAX_DEPTH = 12
"""Maximum depth of nested definitions."""

MAX_PARSED_CHARACTERS = 1 << 19
"""Maximum length of a Python file that is parsed, in characters."""

MAX_HEAD_LINES = 8
"""Maximum number of lines of the head of a function, from its name to the opening brace."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_CLOSER = re.compile(
    r"[})\]{]|(?:end|fi|done|esac|else|elif|elsif|except|finally|catch|rescue|then|do|begin)\b|\*/|#endif|#el"
)
_LEADING = re.compile(r"//|/\*|\*|#(?!(?:endif|el))|--|;|@|\[[A-Z]\w*.*\]$|%")
_IGNORED = re.compile(
    r"\"(?:[^\"\\]|\\.)*+(?:\"|$)|'(?:[^'\\]|\\.){0,80}+'|//.*|/\*(?:.*?\*/|.*)|(?:^|\s)#.*"
)  # strings and comments; a single quote may be a lifetime in Rust


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A stripped line, its indentation in columns, and its offsets."""

    text: str
    indent: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Definition:
    """The lines ``[first, last)`` of a definition with the comments and decorators right above it."""

    name: str
    first: int
    last: int
    inner: tuple[Definition, ...] = ()


def parse_lines(text: str) -> list[CodeLine]:
    """Return the lines of ``text``; ``end`` is after the last visible character."""
    found = []
    for match in _LINE.finditer(text):
        visible = match.group().rstrip()
        stripped = visible.lstrip()
        indent = len(visible[: len(visible) - len(stripped)].expandtabs(4))
        found.append(CodeLine(stripped, indent, match.start(), match.start() + len(visible)))
    return found


def find_definitions(text: str, lines: Sequence[CodeLine], suffix: str) -> tuple[Definition, ...]:
    """Return the outermost definitions of a source file with this suffix, in order."""
    if suffix in (".py", ".pyi") and len(text) <= MAX_PARSED_CHARACTERS:
        try:
            with warnings.catch_warnings():  # warnings about escapes and comparisons in the file
                warnings.simplefilter("ignore")
                body = ast.parse(text).body
            return tuple(_iter_python_definitions(body, lines, 0))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass  # Python 2, a template or newer syntax: parse the layout
    return tuple(_LayoutParser(lines, suffix).iter_definitions(0, len(lines), 0))


def _iter_python_definitions(
    body: Sequence[ast.AST], lines: Sequence[CodeLine], floor: int, depth: int = 0
) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            keyword = {ast.ClassDef: "class", ast.AsyncFunctionDef: "async def"}.get(type(node), "def")
            head = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            inner = (
                tuple(_iter_python_definitions(node.body, lines, node.lineno, depth + 1)) if depth < MAX_DEPTH else ()
            )
            last = node.end_lineno or node.lineno
            yield Definition(f"{keyword} {node.name}", _find_leading_comments(lines, head, floor), last, inner)
            floor = last
        elif isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While | ast.ExceptHandler):
            for field in ("body", "handlers", "orelse", "finalbody"):
                for found in _iter_python_definitions(getattr(node, field, []), lines, floor, depth):
                    yield found
                    floor = found.last


def _find_leading_comments(lines: Sequence[CodeLine], head: int, floor: int) -> int:
    """Return the first comment or decorator line right above line ``head``, not before line ``floor``."""
    first = head
    while first > floor and _is_leading(lines[first - 1], lines[head].indent):
        first -= 1
    return first


def _is_leading(line: CodeLine, indent: int) -> bool:
    return bool(_LEADING.match(line.text)) and (line.indent == indent or line.text.startswith("*"))


def _strip_literals(line: CodeLine) -> str:
    """Return the line without strings and comments; "" for a long, generated line."""
    return _IGNORED.sub("", line.text) if len(line.text) <= MAX_LINE_CHARACTERS else ""


class _LayoutParser:
    """A parser that finds the starts of definitions by patterns, and their ends by indentation and braces."""

    def __init__(self, lines: Sequence[CodeLine], suffix: str) -> None:
        self.lines = lines
        self.suffix = suffix
        self.closing = _find_closing_lines(lines)

    def iter_definitions(self, first: int, last: int, depth: int) -> Iterator[Definition]:
        at = floor = first
        while at < last:
            name = self._find_name(at, last)
            if name is None:
                at += 1
                continue
            end = self._find_end(at, last)
            inner = tuple(self.iter_definitions(at + 1, end, depth + 1)) if depth < MAX_DEPTH and end > at + 1 else ()
            yield Definition(name, _find_leading_comments(self.lines, at, floor), end, inner)
            at = floor = end

    def _find_name(self, at: int, last: int) -> str | None:
        text = self.lines[at].text
        if not text or (_LEADING.match(text) and self.suffix not in TABLE_SUFFIXES):
            return None
        name = definition_name(text, self.suffix)
        if name or self.suffix in TABLE_SUFFIXES:
            return name
        return function_name(text) if self._opens_body(at, last) else None

    def _opens_body(self, at: int, last: int) -> bool:
        """Whether a brace opens after the head of a function, before a statement ends."""
        for line in self.lines[at : min(at + MAX_HEAD_LINES, last)]:
            code = _strip_literals(line)
            if "{" in code:
                return ";" not in code.partition("{")[0]
            if ";" in code or not line.text:
                return False
        return False

    def _find_end(self, at: int, last: int) -> int:
        """Return the line after the definition that begins at line ``at``."""
        if self.suffix in TABLE_SUFFIXES:
            follows = (i for i in range(at + 1, last) if definition_name(self.lines[i].text, self.suffix))
            return self._skip_trailing_blanks(at, next(follows, last))
        if self.suffix == ".sql":
            ends = (i + 1 for i in range(at, last) if self.lines[i].text.endswith(";"))
            return next(ends, self._skip_trailing_blanks(at, last))
        i = at + 1
        while i < last and self._continues(at, i):
            i += 1
        close = next((self.closing[j] for j in range(at, min(at + MAX_HEAD_LINES, i)) if j in self.closing), None)
        if close is None or close >= last:
            return self._skip_trailing_blanks(at, i)
        unindented = close >= i  # the body ends with its brace, regardless of layout
        outer = close < i and all(line.text[:1] in ("", "}") for line in self.lines[close + 1 : i])
        return close + 1 if unindented or outer else self._skip_trailing_blanks(at, i)

    def _continues(self, at: int, i: int) -> bool:
        line = self.lines[i]
        if self.suffix in (".yaml", ".yml") and line.text.startswith("- ") and line.indent == self.lines[at].indent:
            return not self.lines[at].text.startswith("- ")
        return not line.text or line.indent > self.lines[at].indent or bool(_CLOSER.match(line.text))

    def _skip_trailing_blanks(self, at: int, end: int) -> int:
        while end > at + 1 and not self.lines[end - 1].text:
            end -= 1
        return end


def _find_closing_lines(lines: Sequence[CodeLine]) -> dict[int, int]:
    """Map lines with an open brace to the later line that closes it."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    for number, line in enumerate(lines):
        for brace in re.findall(r"[{}]", _strip_literals(line)):
            if brace == "{":
                opened.append(number)
            elif opened and (start := opened.pop()) != number:
                closing[start] = number
    return closing
