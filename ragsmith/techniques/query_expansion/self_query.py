"""Self-query: search the documents whose fields fulfil what a question says of them (Poliakov & Shvai 2024)."""

import json
import re

from ragsmith.index.fields import Field, FieldSearch, read_fields
from ragsmith.models.protocols import LanguageModel
from ragsmith.models.tasks import OfflineModel, ReplyForm, Task, parse_lines
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.fusion import convex_combination
from ragsmith.text.filters import OPERATORS, format_filter
from ragsmith.text.periods import find_period
from ragsmith.text.words import words
from ragsmith.types import Condition, Filter, Hits, Question, Search

_CONDITION = re.compile(r'(?:"[^"]+"|[^\s"<>=|]+)\s*(?:[<>=]|(?:in|before|after)\s)')
_ALTERNATIVES = re.compile(r'(?<=\sin\s")[^"|]+(?:\|[^"|]+)+(?="$)')
_YEARS = re.compile(r"(?:1[89]|20)\d\d to (?:1[89]|20)\d\d")
_FORM = ReplyForm("filter", {"conditions": [{"field": str, "operator": (*OPERATORS,), "value": str}]}, None)


def parse_proposal(reply: str) -> str:
    """Parse a reply of one condition per line, or of `_FORM`, to a filter, "" for ``NONE``; other text is ignored.

    Raises:
        ValueError: there is neither a condition nor ``NONE``.
    """
    if _FORM.has(reply):
        return format_filter(
            Filter(
                tuple(
                    Condition(
                        each["field"],
                        OPERATORS[each["operator"]],
                        tuple(each["value"].split("|")) if each["operator"] == "in" else (each["value"],),
                    )
                    for each in json.loads(reply, strict=False)["conditions"]
                )
            )
        )
    lines = parse_lines(reply)
    conditions = [line for line in lines if _CONDITION.match(line)]
    if not conditions and not lines[0].upper().startswith("NONE"):
        raise ValueError(f"no condition: {lines[0][:80]!r}; expected lines such as year>=2020, or NONE")
    return " and ".join(_ALTERNATIVES.sub(lambda found: found[0].replace("|", '"|"'), line) for line in conditions)


def propose_filter_offline(model: OfflineModel, *, sample: int, question: str, fields: tuple[str, ...]) -> str:
    """Return a filter by the texts of fields and the period that a question names, or "".

    A text counts if the question writes it as a name, with a capital or a digit, or names its field. The period is that
    of the field which the question names, or else of the only date, or else of the only number whose values are years.
    """
    known = read_fields(fields)
    named = [field for field in known if {*words(field.name)} <= {*words(question)}]
    dates = [field for field in known if field.type == "date"]
    years = [field for field in known if field.type == "number" and all(map(_YEARS.fullmatch, field.values))]
    conditions = [
        Condition(field.name, "in", values)
        for field in known
        if field.type in ("text", "list") and (values := find_values(question, field, field in named))
    ]
    groups = ([field for field in named if field in dates + years], dates, years)
    dated = next((group[0] for group in groups if len(group) == 1), None)
    first, last = (int(end[:4]) for end in dated.values[0].split(" to ")) if dated else (0, 0)
    if dated and (period := find_period(question, range(first, last + 1))):
        conditions += [
            Condition(dated.name, operator, (str(day if dated in dates else day.year),))
            for operator, day in zip((">=", "<="), period, strict=True)
            if day
        ]
    return format_filter(Filter(tuple(conditions)))


def find_values(question: str, field: Field, is_named: bool) -> tuple[str, ...]:
    """Return the values of ``field`` that are names in ``question``, or any that it has if it names the field as well.

    Of two values of which one is part of the other, the question has the longer one.
    """
    longest_first = "|".join(map(re.escape, sorted(field.values, key=len, reverse=True)))
    written = {
        found[0].casefold()
        for found in re.finditer(rf"(?<!\w)(?:{longest_first})(?!\w)", question, re.IGNORECASE)
        if is_named or (len(found[0]) > 1 and not found[0].islower() and (found.start() or found[0] in field.values))
    }
    return tuple(value for value in field.values if value.casefold() in written)


PROPOSE_FILTER = Task(
    name="propose_filter",
    prompt=(
        "Question: {question}\n\n"
        "These are the fields of the documents of a search engine, with their types and values; of a number or a date, "
        "the least and the greatest, and of many texts some:\n\n{>fields}\n\n"
        "Which conditions on these fields does the question itself state, so that no other document can answer it? "
        "Write one condition a line as FIELD OPERATOR VALUE, with an operator of = < <= > >= and double quotes around "
        "a name or value of several words. For one of several texts write FIELD in VALUE|VALUE. A period of a date "
        "takes two lines, such as date>=2021-04-01 and then date<2021-07-01. Use only the fields above, and of texts "
        "only values as they are written there. If the question states no condition, reply with NONE alone."
    ),
    parse=parse_proposal,
    form=_FORM,
    offline=propose_filter_offline,
    max_tokens=192,
)


@query_expansion(paper="https://arxiv.org/abs/2406.13213", choices={"min_hits": (1, 5), "weight": (0.5, 1.0)})
def self_query(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    field_search: FieldSearch,
    min_hits: Count = 1,
    weight: Share = 1.0,
) -> Hits:
    """Search the documents whose fields fulfil the conditions that the question states, such as a period or a name.

    Helps when documents differ in fields, such as the reports of several years, and questions name them. Costs one
    call. As a filter is a guess, the question is searched as by ``none`` if the retriever finds fewer than ``min_hits``
    hits with it, unless it finds no more without it.
    Below 1, ``weight`` is the share of the filtered search in the score, and the rest that of a search without the
    filter, which finds the evidence of a question that names a year of something else. A proposed filter only narrows
    the filter that the question has. Without fields this is ``none``, and costs no call. In the paper a language model
    extracts the values of one schema, and there is no other search; the embedded model reads periods and names.
    """
    fields = field_search.describe(question.text)
    hits = (
        field_search(language_model.run(PROPOSE_FILTER, question=question.text, fields=fields), question.text)
        if fields
        else ()
    )
    plain = () if weight == 1 and len(hits) >= min_hits else search((question.text,))[0]
    if len(hits) < min(min_hits, len(plain)):
        return plain
    return hits if weight == 1 else convex_combination((hits, plain), (weight, 1 - weight))
