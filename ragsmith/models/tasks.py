"""Language tasks of techniques, independent of the language model.

A `Task` has a prompt and a parser for chat models, and a classical method for the embedded extractive model, so that
the same technique runs with either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.text.blocks import enclose, number_blocks
from ragsmith.text.declining import NOT_FOUND
from ragsmith.text.suggest import did_you_mean

T = TypeVar("T")
Input = str | int | float | tuple[str, ...]
"""The input of a task: values with one canonical form, so that every call has a complete cache key."""

_PLACEHOLDER = re.compile(r"\{(>?)(\w+)\}")


class OfflineModel(Hashable, Protocol):
    """The methods of the embedded language model, with statistics of the corpus, for classical methods of tasks."""

    def sentences(self, text: str) -> tuple[str, ...]:
        """Return the sentences of ``text``, in order, without surrounding white space."""

    def terms(self, text: str) -> tuple[str, ...]:
        """Return the content words of ``text``, stemmed, in order."""

    def idf(self, term: str) -> float:
        """Return the inverse document frequency of a stemmed term; the maximum for a term outside the corpus."""

    def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the relevance of each of ``texts`` to ``query``: shape ``(len(texts),)``, in [0, 1]."""

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of the vectors of two texts, in [0, 1]: 0 where it is negative or a text is empty."""

    def select(self, query: str, sentences: Sequence[str], n: int, diversity: float = 0.3) -> tuple[int, ...]:
        """Return the positions of ``n`` relevant and diverse sentences, in order of selection.

        ``diversity``, in [0, 1], is the weight of diversity. If there are fewer sentences, all are selected.
        """

    def feedback(self, text: str, n: int) -> tuple[str, ...]:
        """Return the ``n`` best chunks of the corpus for ``text``, best first; each shares a term with it."""

    def expansion_terms(self, text: str, n: int, documents: int = 3) -> tuple[str, ...]:
        """Return the ``n`` words that distinguish the ``documents`` best chunks for ``text``, without its own words."""

    def related(self, word: str, n: int) -> tuple[str, ...]:
        """Return up to ``n`` words of the corpus related to ``word``, nearest first, without those of its stem."""


@dataclass(frozen=True)
class ReplyForm:
    """The form of a reply as a JSON object, for servers that enforce a JSON schema.

    ``shape`` has the shapes of the values by key, in order: a type of Python, a tuple of the possible values, another
    object, or a list: of one shape for any number of items, of a shape and ``...`` for at least one item, or of as many
    equal shapes as there are items. ``name`` is sent with the schema.

    A reply in JSON is written as the text for which the prompt asks, so that one parser reads and checks both:
    ``key: value`` lines, a list of numbers on one line, and each other item of a list by the template ``item``, which
    has ``{text}`` for a text or the keys of an object. ``empty`` is the text for empty lists. If ``item`` is None,
    the parser reads JSON.
    """

    name: str
    shape: dict[str, Any]
    item: str | None = "- {text}"
    empty: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema, with keywords that servers have in common."""
        return _schema(self.shape)

    def has(self, reply: str) -> bool:
        """Whether ``reply`` is a JSON object of this form, apart from the lengths of lists."""
        with suppress(ValueError, RecursionError):
            return _has_shape(json.loads(reply, strict=False), self.shape)  # some grammars allow a bare line break
        return False

    def to_text(self, reply: str) -> str:
        """Return a reply, without additions of chat models, as text if it is a JSON object.

        Raises:
            ValueError: it begins like a JSON object, and is cut or has another form.
        """
        if self.item is None or not reply.startswith("{"):
            return reply
        if not self.has(reply):
            raise ValueError(
                f"JSON that is cut or has other keys or values than {', '.join(self.shape)}: {reply[:80]!r}"
            )
        lines = (line for key, value in json.loads(reply, strict=False).items() for line in self._lines(key, value))
        return "\n".join(lines) or self.empty

    def _lines(self, key: str, value: Any) -> Iterator[str]:
        items = value if isinstance(value, list) else [value]
        if items and all(isinstance(item, int) or items is not value for item in items):
            yield f"{key}: {', '.join(map(str, items))}"
        elif self.item:
            for item in items:
                yield self.item.format_map(
                    {
                        name: " ".join(str(part).split())
                        for name, part in (item if isinstance(item, dict) else {"text": item}).items()
                    }
                )


_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema(shape: Any) -> dict[str, Any]:
    match shape:
        case tuple():
            return {"type": _JSON_TYPES[type(shape[0])], "enum": [*shape]}
        case list():
            return {
                "type": "array",
                "items": _schema(shape[0]),
                **({"minItems": 1} if ... in shape else {}),
                **({"minItems": len(shape), "maxItems": len(shape)} if len(shape) > 1 and ... not in shape else {}),
            }
        case dict():
            properties = {key: _schema(part) for key, part in shape.items()}
            return {"type": "object", "properties": properties, "required": [*shape], "additionalProperties": False}
    return {"type": _JSON_TYPES[shape]}


def _has_shape(value: Any, shape: Any) -> bool:
    match shape:
        case tuple():
            return value in shape
        case list():
            return isinstance(value, list) and all(_has_shape(item, shape[0]) for item in value)
        case dict():
            return (
                isinstance(value, dict)
                and value.keys() == shape.keys()
                and all(_has_shape(value[key], part) for key, part in shape.items())
            )
    return isinstance(value, (int, float) if shape is float else shape)


@dataclass(frozen=True)
class Task(Generic[T]):
    """One kind of request to a language model.

    ``prompt`` has ``{placeholders}`` for inputs; a tuple of texts is rendered as numbered blocks. ``{>placeholder}``
    encloses an input, such as a document or draft, in ``<placeholder>`` and ``</placeholder>``, so that it cannot be
    mistaken for the prompt. ``parse`` turns a chat model's reply into the result, or raises `ValueError`; an unreadable
    reply is a failure, without a default. ``offline`` is the classical method; it gets the embedded model, ``sample``
    (number of a repeated request) and the inputs by keyword. ``max_tokens`` limits a reply without thoughts.
    ``usable_cut`` is whether a truncated reply is usable, if the run accepts that. ``built_in`` is the built-in prompt
    that ``prompt`` replaces, if it does. ``form`` is the form of a reply for servers that enforce one.
    """

    name: str
    prompt: str
    parse: Callable[[str], T]
    offline: Callable[..., T]
    max_tokens: int = 512
    usable_cut: bool = False
    built_in: str = ""
    form: ReplyForm | None = None

    def __hash__(self) -> int:  # equality compares all fields
        return hash(self.name)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the prompt's inputs, in order."""
        return tuple(dict.fromkeys(name for _, name in _PLACEHOLDER.findall(self.prompt)))

    def render(self, inputs: dict[str, Input]) -> str:
        """Fill the prompt; placeholders within inputs are text."""
        if missing := set(self.inputs) - inputs.keys():
            raise TypeError(f"task {self.name!r} was not given {', '.join(sorted(missing))}")
        enclosed = [name for mark, name in _PLACEHOLDER.findall(self.prompt) if mark]

        def fill(match: re.Match[str]) -> str:
            value, name = inputs[match[2]], match[2]
            shown = number_blocks(value) if isinstance(value, tuple) else str(value)
            return enclose(shown, name, enclosed) if match[1] else shown

        return _PLACEHOLDER.sub(fill, self.prompt)

    def reword(self, prompt: str) -> Task[T]:
        """Return the task with another prompt; its inputs are enclosed as in the prompt of this task.

        Raises:
            ValueError: a placeholder is unknown, or one is missing.
        """
        marks = {name: mark for mark, name in _PLACEHOLDER.findall(self.prompt)}
        placed = [name for _, name in _PLACEHOLDER.findall(prompt)]
        if unknown := next((name for name in placed if name not in marks), ""):
            raise ValueError(
                f"the prompt of {self.name} has no placeholder {{{unknown}}}: {did_you_mean(unknown, marks)}"
            )
        if missing := [f"{{{name}}}" for name in marks if name not in placed]:
            raise ValueError(f"the prompt of {self.name} lacks {', '.join(missing)}: put it where the input belongs")
        worded = _PLACEHOLDER.sub(lambda match: f"{{{marks[match[2]]}{match[2]}}}", prompt)
        return self if worded == self.prompt else replace(self, prompt=worded, built_in=self.built_in or self.prompt)

    def read(self, reply: str) -> T:
        """Parse ``reply``, a text or JSON of the task's form.

        Raises:
            ValueError: it cannot be parsed, or it repeats the instructions of the built-in prompt. One's own prompt
                may contain examples of replies, which are no instructions.
        """
        result = self.parse(self.form.to_text(clean_reply(reply)) if self.form else reply)
        texts = " ".join(" ".join(_texts_of(result)).split())
        if repeated := next((rule for rule in _rules(self.built_in or self.prompt) if rule in texts), ""):
            raise ValueError(f"the reply repeats the instructions ({repeated[:60]!r})")
        return result

    def truncate_inputs(self, inputs: dict[str, Input], most: int) -> dict[str, Input]:
        """Truncate the longest of ``inputs``, repeatedly, until the prompt has at most ``most`` characters.

        Of a tuple the last texts are truncated first, as passages are ordered best first. Truncations are marked.

        Raises:
            ValueError: the prompt is still too long.
        """
        fitted = dict(inputs)
        while (excess := len(self.render(fitted)) - most) > 0:
            sizes = {name: _count_characters(value) for name, value in fitted.items()}
            name = max(sizes, key=lambda name: (sizes[name], name))
            if sizes[name] <= len(TRUNCATION_MARK):
                raise ValueError(f"the prompt of {self.name} does not fit into {most} characters")
            fitted[name] = _shorten(fitted[name], excess)
        return fitted


MIN_RULE_WORDS = 6
"""Minimum number of words of a sentence of a prompt that no reply has by chance."""


@cache
def _rules(prompt: str) -> tuple[str, ...]:
    """Return the sentences of a prompt that are longer than phrases, without its inputs and forms after a colon.

    The sentence that declines to answer is none of them, as a reply may consist of it.
    """
    sentences = re.split(r"(?<=[.?])\s+|\n", _PLACEHOLDER.sub("\n", prompt))
    rules = (" ".join(after.split()) for before, after in pairwise(["", *sentences]) if not before.endswith(":"))
    return tuple(rule for rule in rules if len(rule.split()) >= MIN_RULE_WORDS and rule not in NOT_FOUND)


def _texts_of(result: object) -> Iterator[str]:
    if isinstance(result, str):
        yield result
    elif isinstance(result, tuple):
        for item in result:
            yield from _texts_of(item)


TRUNCATION_MARK = " [...]"
"""Marks where a text was truncated."""


def _count_characters(value: Input) -> int:
    return sum(map(len, value)) if isinstance(value, tuple) else len(value) if isinstance(value, str) else 0


def _shorten(value: Input, excess: int) -> Input:
    if isinstance(value, tuple):
        *first, last = value
        rest = _shorten(last, excess) if len(last) > excess + len(TRUNCATION_MARK) else None
        return (*first, *([] if rest is None else [str(rest)]))
    text = str(value).removesuffix(TRUNCATION_MARK)
    return text[: max(0, len(text) - excess - len(TRUNCATION_MARK))] + TRUNCATION_MARK


# --- cleaning of replies --------------------------------------------------------------------------------------------

_QUOTED_LINE = re.compile(r"^[ \t]*>(?:[ \t]+|$)", re.MULTILINE)  # as prompts and documents quote
_QUOTED_WORDS = re.compile(  # not "> 30 days"
    rf"(?![ \t]*>[ \t]*[^\w\s\[(]?\d(?!\d?[.):]\s)){_QUOTED_LINE.pattern}", re.MULTILINE
)
_QUOTED_LINES = re.compile(r"(?:>.*\n\s*)+>.*")
_ENCLOSED = re.compile(r"<(answer|claims|context|passages?|question|summary|texts?)>\s*(.*\S)\s*</\1>", re.DOTALL)
_THOUGHT = r"(?:(?:seed:)?think(?:ing)?|thoughts?|reasoning)"
_OPENED, _CLOSED = (rf"(?:<{slash}{_THOUGHT}>|(?-i:\[{slash}THINK\]))" for slash in ("", "/"))  # Mistral's has brackets
_THOUGHTS = re.compile(rf"<({_THOUGHT})>.*?</\1>|(?-i:\[THINK\].*?\[/THINK\])", re.DOTALL | re.IGNORECASE)
_END_OF_THOUGHT = re.compile(rf"^.*{_CLOSED}", re.DOTALL | re.IGNORECASE)  # the prompt's template had opened it
_CUT_THOUGHT = re.compile(rf"^\s*{_OPENED}.*", re.DOTALL | re.IGNORECASE)
_FENCED = re.compile(r"(?:```|~~~)[\w-]*[ \t]*\n(.*?)(?:\n[ \t]*(?:```|~~~)|\Z)", re.DOTALL)
_FENCE = re.compile(r"^\s*(?:```|~~~)[\w-]*\s*$", re.MULTILINE)
_MARKS = re.compile(r"(\*\*|__|```|[*_`\"'])(.+)\1|“(.+)”|‘(.+)’|«(.+)»", re.DOTALL)
_POLITE = r"(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|alright|got it)"
_PREAMBLE = re.compile(rf"\A{_POLITE}(?:[!.:]|[,!.] [^\n]{{0,120}}:)[ \t]*\n+|\A{_POLITE}! ", re.IGNORECASE)


def without_thoughts(reply: str) -> tuple[str, bool]:
    """Return ``reply`` without thoughts in tags, and whether it ends within one."""
    rest = _END_OF_THOUGHT.sub("", _THOUGHTS.sub("", reply))
    whole = _CUT_THOUGHT.sub("", rest)
    return whole, whole != rest


def ends_thoughts_alone(reply: str) -> bool:
    """Whether ``reply`` closes a thought that it did not open, as if the chat template opens one in the prompt."""
    return _END_OF_THOUGHT.match(_THOUGHTS.sub("", reply)) is not None


def clean_reply(reply: str, label: str = "") -> str:
    """Remove additions of chat models to a reply: thoughts, a code fence, marks of quotation, bold, ``Sure!``.

    With a ``label``, such as ``answer`` or ``query|question``, a leading ``Answer:`` is removed as well.
    """
    before, rest = None, without_thoughts(reply)[0].strip()
    while rest != before:
        before = rest
        if (fenced := _FENCED.fullmatch(rest)) and not _FENCE.search(fenced[1]):
            rest = fenced[1].strip()
        if enclosed := _ENCLOSED.fullmatch(rest):
            rest = enclosed[2]
        quoted = _QUOTED_LINE if _QUOTED_LINES.fullmatch(rest) else _QUOTED_WORDS
        rest = strip_marks(_PREAMBLE.sub("", quoted.sub("", rest), count=1))
        rest = _without_label(rest, label) if label else rest
    return rest


def strip_marks(line: str) -> str:
    """Remove quotation marks, backticks or bold marks that enclose the whole ``line``."""
    line = line.strip()
    while match := _MARKS.fullmatch(line):
        inner = next(group for group in match.groups()[1:] if group is not None)
        if (match[1] or line[0]) in inner or (match[1] or line[-1]) in inner:
            break  # "one" and "other"
        line = inner.strip()
    return line


def _without_label(text: str, label: str) -> str:
    begin = rf"[#*_\s]*(?:{_POLITE}[,!.:]\s+)?"
    before = r"(?:the |your |my |an? )?(?:[\w-]+ ){0,2}?"
    announced = rf"here(?:'s|’s| is| are)\s[^:\n]{{0,60}}?\b(?:{label})\b[^:\n]{{0,80}}"
    inline = rf"{begin}(?:{announced}|{before}(?:{label})(?: ?\([^)\n]*\))?)[*_]*:[*_]*\s*"
    heading = rf"(?:#{{1,6}} *|\*\*){before}(?:{label})\**[ \t]*\n+"
    return re.sub(rf"\A(?:{inline}|{heading})", "", text, flags=re.IGNORECASE).strip()


# --- replies of one text ---------------------------------------------------------------------------------------------

_VERBS = (
    r"(?:help|assist|provide|answer|write|generate|rewrite|rephrase|paraphrase|create|comply|fulfil+|produce|see"
    r"|access|find|give|determine|do (?:that|this)|imagine|decompose|respond|continue|discuss|engage|support"
    r"|process|rank|read)"
)
_REFUSAL = re.compile(
    r"(?:unfortunately,? )?(?:"
    r"(?:i['’]m|i am) (?:very |so |really |truly )?(?:sorry|afraid)\b|sorry\b"
    r"|(?:i apologi[sz]e|my apologies|apologies)\b"
    r"|(?:as|i['’]m|i am) an? (?:ai|artificial|(?:large )?language model)\b"
    r"|(?:i (?:cannot|can['’]?t|can not|could not|couldn['’]t|won['’]t|will not|must decline to)"
    rf"|(?:i['’]m|i am) (?:unable|not able) to) (?:\w+ ){{0,2}}?{_VERBS}\b"
    r"|i (?:do not|don['’]t) have (?:access|enough|any|the|information)\b)",
    re.IGNORECASE,
)


def parse_text(reply: str, label: str = "") -> str:
    """Parse a reply that is one text; ``label`` as in `clean_reply`.

    Raises:
        ValueError: the reply is blank apart from thoughts.
    """
    cleaned = clean_reply(reply, label)
    if not any(map(str.isalnum, cleaned)):
        raise ValueError("the reply is blank; expected a text")
    return cleaned


def parse_search_text(reply: str, label: str = "") -> str:
    """Parse a reply that is one text to search with; ``label`` as in `clean_reply`.

    Raises:
        ValueError: the reply is blank or a refusal.
    """
    cleaned = parse_text(reply, label)
    if _REFUSAL.match(cleaned):
        raise ValueError(f"the reply is a refusal: {cleaned[:100]!r}")
    return cleaned


def parse_query(reply: str) -> str:
    """Parse a reply that is one query or question on one line; remarks around a question are ignored.

    Raises:
        ValueError: the reply is blank, a refusal, a statement, or says more than a query.
    """
    rows = _FENCE.sub("", parse_search_text(reply, "query|question")).splitlines()
    rows = [strip_marks(_BULLET.sub("", row)) for row in rows if row.strip()]
    queries = rows if len(rows) == 1 else [row for row in rows if row.endswith(_QUESTION_MARKS)]
    if len(queries) != 1 or not _is_query(queries[0], listed=False):
        raise ValueError(f"not a query or question on one line: {reply.strip()[:100]!r}")
    return queries[0]


# --- replies of one item per line ------------------------------------------------------------------------------------

_QUESTION_MARKS = ("?", "？")
_BULLET = re.compile(r"^\s*(?:[-*•+–]|\(?\d{1,3}[.):])\s+")
_NUMBERED_LABEL = re.compile(
    r"^\W*(?:q(?:uestion|uery)?|sub-?(?:question|query)|wording|paraphrase|variant|version|item)\s*\d*\W*:[*_]*\s*",
    re.I,
)
_BOLD_LABEL = re.compile(r"^\*\*[^*?]+(?::\*\*|\*\*\s*[:–—-])\s*")
_HEADING = re.compile(r"#{1,6}\s.*|\*\*[^*]+\*\*")
_REMARK = re.compile(
    rf"(?:{_POLITE}\b[,!.:]|here(?:'s|’s| is| are| you)\b|below (?:is|are)\b|the(?:se| following)\b[^?]*\b(?:questions?"
    r"|queries|wordings?|paraphrases|versions)\b|(?:i )?hope (?:this|these|that)\b|let me know\b|feel free\b"
    r"|note(?: that\b|:)|(?:this|the|your) question (?:is|asks|can|cannot|does|needs)\b|i['’](?:ve|ll)\b"
    r"|(?:would|do) you (?:like|want)\b|is there anything else\b)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:what|which|who|whom|whose|when|where|why|how|describe|explain|list|name|give|compare|contrast|outline|discuss"
    r"|summari[sz]e|identify|define|state|provide|tell|find|show|analy[sz]e|evaluate|assess|illustrate|trace)\b",
    re.IGNORECASE,
)


def parse_lines(reply: str) -> tuple[str, ...]:
    """Parse a reply of one item per line, without bullets, numbers and introductions (``...:``).

    Raises:
        ValueError: no item is left.
    """
    found = tuple(dict.fromkeys(item for _, item in _items(reply) if not item.endswith(":")))
    if not found:
        raise ValueError("the reply has no items")
    return found


QUESTIONS = ReplyForm("questions", {"questions": [str, ...]})
"""The form of a reply of one question or query per line."""


def parse_questions(reply: str) -> tuple[str, ...]:
    """Parse a reply of one question or query per line; other text is ignored.

    Raises:
        ValueError: the reply is a refusal, or has no question.
    """
    parse_search_text(reply)
    questions = tuple(dict.fromkeys(item for listed, item in _items(reply) if _is_query(item, listed)))
    if not questions:
        raise ValueError(f"the reply has no question: {reply.strip()[:100]!r}")
    return questions


def _is_query(item: str, listed: bool) -> bool:
    if _REMARK.match(item) or _REFUSAL.match(item) or item.endswith(":"):
        return False
    return listed or item.endswith(_QUESTION_MARKS) or not item.endswith((".", "!")) or _REQUEST.match(item) is not None


def _items(reply: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines of a reply except headings, without marks, and whether each has a bullet or a number."""
    for row in _rows(clean_reply(reply)):
        item = strip_marks(
            _NUMBERED_LABEL.sub("", _BOLD_LABEL.sub("", _BULLET.sub("", strip_marks(row)).strip().rstrip(",")))
        )
        is_heading = _HEADING.fullmatch(row.strip()) and not item.endswith(_QUESTION_MARKS)
        if any(map(str.isalnum, item)) and not is_heading:
            yield _BULLET.match(strip_marks(row)) is not None, item.lstrip("# ")


def _rows(reply: str) -> list[str]:
    if reply.startswith("[") and reply.endswith("]"):
        try:
            items = json.loads(reply)
        except ValueError:  # no JSON after all
            items = None
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return [f"- {item}" for item in items]
    return _FENCE.sub("", reply).splitlines()
