"""Recognise definitions in lines of source code: ``class Pump``, ``fn prime``, ``CREATE TABLE parts``, ``[tool.ruff]``.

One set of patterns serves all languages: a missed definition costs a heading and a better split, never text.
"""

from __future__ import annotations

import re

DATA = frozenset({".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".properties"})
TABLED = DATA - {".json", ".yaml", ".yml"}
SELECTED = frozenset({".css", ".scss", ".tf", ".graphql"})
SHELL = frozenset({".sh", ".bash", ".zsh"})
LONGEST = 100
MAX_LINE = 1_000

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


def defined(line: str, suffix: str) -> str | None:
    """Return the name of the definition that ``line``, without indentation, begins in a file with this suffix."""
    if len(line) > MAX_LINE:
        return None
    if suffix in DATA:
        name = _data_name(line, suffix)
    elif suffix in SELECTED:
        name = line.removesuffix("{").strip() if line.endswith("{") else None
    elif suffix == ".sql":
        match = _CREATE.match(line)
        name = f"CREATE {match['keyword'].upper()} {match['name']}" if match else None
    else:
        name = None if suffix in SHELL and not line.startswith("function ") else _code_name(line)
    return name[:LONGEST] if name else None


def called(line: str) -> str | None:
    """Return ``name()`` if ``line`` looks like the head of a function without keyword: ``int prime(pump *p)``."""
    head, paren, _ = line.partition("(")
    words = head.replace("*", " ").replace("&", " ").split()
    if not paren or not words or len(line) > MAX_LINE or any(map(_CONTROL.fullmatch, (words[0], words[-1]))):
        return None
    return f"{words[-1]}()"[:LONGEST] if all(_WORD.fullmatch(word) for word in words) else None


def _data_name(line: str, suffix: str) -> str | None:
    if suffix in TABLED:
        return line if _TABLE.fullmatch(line.partition("#")[0].strip()) else None
    match = (_JSON_KEY if suffix == ".json" else _YAML_KEY).fullmatch(line)
    return match["name"].strip("\"'") if match else None


def _code_name(line: str) -> str | None:
    if match := _KEYWORD.match(line):
        return f"{match['keyword']} {match['name'].rstrip(':')}"
    if match := _ARROW.match(line):
        return f"const {match['name']}"
    return None
