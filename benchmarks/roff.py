r"""Manual pages as text: the macros of roff's `man` become headings, paragraphs and tables, its escapes characters.

`.SH` and `.SS` become headings as Markdown has them, a row of a table becomes a line with ` | ` between its cells, what
is not to be filled is indented by four blanks. Fonts, comments, definitions and conditions (but for `n`) are dropped.
"""

from __future__ import annotations

import re

CHARACTERS = {
    **{"aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "Aq": "'", "fm": "'", "ga": "`", "ha": "^"},
    **{"em": "—", "en": "–", "hy": "-", "mi": "-", "bu": "•", "pc": "·", "ti": "~", "ul": "_", "rs": "\\", "sl": "/"},
    **{"ba": "|", "bv": "|", "lB": "[", "rB": "]", "la": "<", "ra": ">", "at": "@", "sh": "#", "sc": "§", "de": "°"},
    **{"co": "©", "rg": "®", "Tm": "TM", "tm": "TM", "lA": "⇐", "rA": "⇒", "mu": "×", "+-": "±"},
    **{"<=": "<=", ">=": ">=", "->": "->", "!=": "!=", "ss": "ß", "e'": "é", "o:": "ö", "u:": "ü", "a:": "ä"},
}
STRINGS = {"lq": "“", "rq": "”", "R": "®", "Tm": "TM", "Aq": "'", "-": "-"}
SINGLE = {**{character: character for character in "- .'`"}, "e": "\\", "\\": "\\", "~": " ", "0": " ", "t": "\t"}
BULLETS = ("•", "*", "-", "o")

ESCAPE = re.compile(
    r"""\\(?:
        ["#].*                                                        # a comment
      | \*(?:\((?P<two>..)|\[(?P<string>[^]]*)\]|(?P<one>.))          # a string by its name
      | f(?:\(..|\[[^]]*\]|.)                                         # fonts
      | [mMFgkn](?:\(..|\[[^]]*\]|[+-]?.)                             # colours and registers
      | s(?:[+-]?\d{1,2}|\[[^]]*\]|\([+-]?..)                         # sizes
      | [hvwLlbDXxoNZ]'[^']*'                                         # moves, lines and the like
      | (?:\((?P<short>..)|\[(?P<character>[^]]*)\])                  # a character by its name
      | (?P<single>.)?
    )""",
    re.VERBOSE,
)
ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|((?:\\.|[^\s"\\])(?:\\.|[^\s\\])*)')
MACRO = re.compile(r"[.']\s*([A-Za-z]+)?\s?(.*)")


def roff_to_text(source: str) -> str:
    """Return the text of a page whose source this is."""
    page = _Page()
    for line in re.sub(r"\\\n(?=[^.'])", "", source).split("\n"):
        page.read(line)
    page.end()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(page.lines)).strip() + "\n"


class _Page:
    """The ``lines`` of a page so far, and how the next one is to be read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.paragraph: list[str] = []
        self.table: list[str] | None = None
        self.filled = True
        self.is_tag = False  # what comes next is what a paragraph is hung on
        self.joined = False  # what comes next follows without a blank
        self.defining = False
        self.braces = 0  # open ones, of a condition that is dropped

    def read(self, line: str) -> None:
        """Take in the next line of the source."""
        if self.table is not None:
            self._row(self.table, line)
        elif self.defining:
            self.defining = line.rstrip() != ".."
        elif self.braces:
            self.braces += _opened(line)
        elif line.startswith((".", "'")):
            self._control(line)
        elif line.strip():
            self._text(line)
        else:
            self._space()

    def end(self, *, blank: bool = True) -> None:
        """End the paragraph, with a blank line behind it unless there is one."""
        if self.paragraph:
            self.lines.append("".join(self.paragraph).strip())
            self.paragraph.clear()
        if blank and self.lines and self.lines[-1]:
            self.lines.append("")
        self.joined = False

    def _row(self, table: list[str], line: str) -> None:
        if line.startswith(".TE"):
            self.lines += [*_table(table), ""]
            self.table = None
        else:
            table.append(line)

    def _space(self) -> None:
        if self.filled:
            self.end()
        else:
            self.lines.append("")

    def _text(self, line: str) -> None:
        goes_on = re.search(r"\\c\s*$", line)
        if self.filled and line.startswith(" "):
            self.end(blank=False)
        self._add(_plain(line[: goes_on.start()] if goes_on else line.rstrip()))
        self.joined = bool(goes_on)

    def _add(self, words: str) -> None:
        if self.filled:
            self.paragraph += [" "] if self.paragraph and not self.joined else []
            self.paragraph.append(words.lstrip())
            self.joined = False
        else:
            self.end(blank=False)
            self.lines.append(f"    {words.rstrip()}" if words.strip() else "")
        if self.is_tag:
            self.is_tag = False
            self.end(blank=False)

    def _control(self, line: str) -> None:
        name, rest = _macro(line)
        if name in ("if", "ie"):
            if not re.match(r"n\s", rest):
                self.braces = _opened(line)
                return
            name, rest = _macro(rest[1:].strip())
        elif name == "el":
            self.braces = _opened(line)
        words = [_plain(word) for word in _arguments(re.sub(r'(?<!\\)\\".*', "", rest))]
        if not self._structure(name, words):
            self._inline(name, words)

    def _structure(self, name: str, words: list[str]) -> bool:
        """Do what a macro says that shapes the page; whether it is one."""
        match name:
            case "de" | "am" | "ig":
                self.defining = True
            case "TH":
                self.lines += [f"# {words[0]}({words[1]})", ""]
            case "SH" | "SS":
                self.end()
                self.filled = True
                self.lines += [f"{'##' if name == 'SH' else '###'} {' '.join(words)}", ""] if words else []
            case "sp":
                self._space()
            case "PP" | "LP" | "P" | "RE" | "HP":
                self.end()
            case "RS" | "br":
                self.end(blank=False)
            case "TP" | "TQ":
                self.end(blank=name == "TP")
                self.is_tag = True
            case "IP":
                self.end()
                if words and words[0] in BULLETS:
                    self.paragraph.append("-")
                elif words and words[0]:
                    self.lines.append(words[0])
            case "nf" | "EX":
                self.end()
                self.filled = False
            case "fi" | "EE":
                self.filled = True
                self.end()
            case "TS":
                self.end()
                self.table = []
            case _:
                return False
        return True

    def _inline(self, name: str, words: list[str]) -> None:
        """Add what a macro says that stands within a paragraph."""
        match name, words:
            case "B" | "I" | "SM" | "SB", [_, *_]:
                self._add(" ".join(words))
            case "BR" | "RB" | "IR" | "RI" | "BI" | "IB", _:
                self._add("".join(words))
            case "q", [quoted, *rest]:  # of the pages about time zones
                self._add(f"“{quoted}”{''.join(rest)}")
            case "SY", _:
                self.end(blank=False)
                self._add(" ".join(words))
            case "OP", _:
                self._add(f"[{' '.join(words)}]")
            case "URL" | "MTO", [address, *rest]:
                label, behind, *_ = [*rest, "", ""]
                self._add((f"{label} <{address}>" if label else address) + behind)
            case "UR" | "MT", [address, *_]:
                self._add(f"<{address}>")
            case "UE" | "ME", [behind, *_]:
                self.joined = True
                self._add(behind)


def _macro(line: str) -> tuple[str, str]:
    """The name of a control line's macro, and what follows it; blank where it is none."""
    match = MACRO.match(line)
    return (match[1] or "", match[2].strip()) if match else ("", "")


def _opened(line: str) -> int:
    return line.count(r"\{") - line.count(r"\}")


def _arguments(rest: str) -> list[str]:
    """The arguments of a macro; quotes hold words together."""
    return [(quoted or bare).replace('""', '"') for quoted, bare in ARGUMENT.findall(rest)]


def _plain(text: str) -> str:
    """Return a line without comments and fonts, and with the characters that escapes stand for."""
    return ESCAPE.sub(_meant, text)


def _meant(escape: re.Match[str]) -> str:
    found = escape.groupdict("")
    if string := found["two"] or found["string"] or found["one"]:
        return STRINGS.get(string, "")
    name = found["short"] or found["character"]
    if point := re.fullmatch("u([0-9A-F]{4,6})", name):
        return chr(int(point[1], 16))
    return CHARACTERS.get(name, "") or SINGLE.get(found["single"], "")


def _table(lines: list[str]) -> list[str]:
    """The rows of a table of `tbl`, each a line."""
    told = re.search(r"\btab\s*\((.)\)", lines[0] if lines else "")
    tab = told[1] if told else "\t"
    last_format = next((at for at, line in enumerate(lines) if line.rstrip().endswith(".")), -1)

    def cell(block: re.Match[str]) -> str:
        """A cell of several lines on one; what separates cells is text in it."""
        return re.sub(r"^\.sp\n?", "", block[1], flags=re.MULTILINE).replace("\n", " ").replace(tab, "\0")

    rows = []
    body = re.sub(r"T\{\n(.*?)\n?T\}", cell, "\n".join(lines[last_format + 1 :]), flags=re.DOTALL)
    for line in body.split("\n"):
        if re.match(r"\.(?:B|I|BR|IR)\s", line):
            row = "".join(_arguments(line.split(None, 1)[1]))
        elif line.startswith(".") or re.fullmatch(r"[_=\s]*", line):
            continue
        else:
            row = re.sub(r" \.(?:BR?|IR?|RI|RB) ", " ", line)
        cells = [_plain(one).strip() for one in row.split(tab)]
        rows.append(" | ".join(cells).replace("\0", tab).rstrip(" |"))
    return rows
