"""Numbered and enclosed blocks of documents in prompts, which a document can neither forge nor end."""

import re
from collections.abc import Iterable

from ragsmith.caches import bounded_cache

_LINE_START = r"(?:^|(?<=[\r\v\f\x1c-\x1e\x85\u2028\u2029]))"
_FORGED_MARKER = re.compile(rf"({_LINE_START}[^\S\n]*[\u200b-\u200f\u2060\ufeff]*)\[(\d+)\]", re.MULTILINE)
_MARKER = re.compile(r"^\[\d+\](?: |$)", re.MULTILINE)


def number_blocks(texts: Iterable[str]) -> str:
    """Return ``texts`` as blocks ``[1] ...``, ``[2] ...``, separated by blank lines.

    Only a block may begin a line with ``[n]``: in the texts it is replaced by ``(n)``, so that no document can be read
    as two.
    """
    return "\n\n".join(f"[{n}] {_escape_markers(text)}" for n, text in enumerate(texts, 1))


@bounded_cache(1 << 13, key="a text")  # thousands of pipelines show the same passages
def _escape_markers(text: str) -> str:
    return _FORGED_MARKER.sub(r"\1(\2)", text).strip()


def split_blocks(context: str) -> tuple[str, ...]:
    """Return the texts that `number_blocks` joined, in order."""
    return tuple(text.strip() for text in _MARKER.split(context)[1:])


def enclose(text: str, tag: str, tags: Iterable[str]) -> str:
    """Return ``text`` between ``<tag>`` and ``</tag>``.

    In the text, ``<`` is replaced by ``(`` where it could end or begin a block of one of the ``tags``: before ``/`` and
    a tag, and before a tag that ends with ``>``, maybe after attributes. Comparisons such as ``x < context`` stay.
    """
    names = "|".join(sorted({name.removesuffix("s") for name in (tag, *tags)}))
    name, noise = rf"(?:{names})s?(?![^\W_])", r"[\W_]{0,9}"
    ending, bare = rf"{noise}[/\\\u2044\u2215\uff0f]{noise}{name}", rf"{noise}{name}{noise}>"
    attributes = rf"[^\w\s]{{0,9}}{name}\s[^<>\n]*>|{noise}{name}\s[^<>\n]*=[^<>\n]*>"
    forged = re.compile(rf"<(?={ending}|{bare}|{attributes})", re.IGNORECASE)
    return f"<{tag}>\n{forged.sub('(', text)}\n</{tag}>"
