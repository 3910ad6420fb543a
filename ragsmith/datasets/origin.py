"""Read and write the origin of a question, the key ``origin`` of its row."""

from __future__ import annotations

from ragsmith.text.files import shown
from ragsmith.text.jsonl import Record, key_problems, kind, text_problems
from ragsmith.types import DRAFTED, Origin, Span

REVIEWED = ("accepted", "mended")

_TEXTS = ("by", "method", "model", "prompt", "reviewed", "reviewer")
_PLACE = ("doc", "start", "end")


def read_origin(value: object) -> tuple[Origin | None, list[str]]:
    """Return the origin, or a sentence for each mistake in it."""
    if not isinstance(value, dict):
        return None, [f"'origin' must be an object, not {kind(value)}"]
    problems = [
        *key_problems(value, required=("by",), optional=(*_TEXTS[1:], "passage")),
        *text_problems(value, _TEXTS),
    ]
    by, reviewed = value.get("by"), value.get("reviewed")
    if isinstance(by, str) and by != DRAFTED:
        problems.append(f"'by' must be {DRAFTED!r}, not {shown(by)}; leave 'origin' out where a person wrote it")
    if isinstance(reviewed, str) and reviewed not in REVIEWED:
        problems.append(f"'reviewed' must be 'accepted' or 'mended', not {shown(reviewed)}")
    passage, wrong = _passage(value["passage"]) if "passage" in value else (None, [])
    problems += wrong
    if problems:
        return None, [f"origin: {problem}" for problem in problems]
    by, method, model, prompt, reviewed, reviewer = (str(value.get(key, "")) for key in _TEXTS)
    return Origin(by, method, model, prompt, passage, reviewed, reviewer), []


def origin_record(origin: Origin) -> dict[str, object]:
    """Return the inverse of `read_origin`."""
    record: dict[str, object] = {key: said for key in _TEXTS[:4] if (said := getattr(origin, key))}
    if origin.passage is not None:
        record["passage"] = {key: getattr(origin.passage, key) for key in _PLACE}
    return record | {key: said for key in _TEXTS[4:] if (said := getattr(origin, key))}


def _passage(value: object) -> tuple[Span | None, list[str]]:
    """Read the passage a question was drafted from, unchecked, as the document may have changed."""
    if not isinstance(value, dict):
        return None, [f"'passage' must be an object with the keys {', '.join(_PLACE)}, not {kind(value)}"]
    record: Record = value
    doc, start, end = (record.get(key) for key in _PLACE)
    problems = [*key_problems(record, required=_PLACE), *text_problems(record, ("doc",))]
    if problems:
        return None, [f"passage: {problem}" for problem in problems]
    if type(start) is not int or type(end) is not int or not 0 <= start < end:
        return None, [f"passage: 'start' and 'end' must be integers from 0 up, in order, not {shown([start, end])}"]
    return Span(str(doc), start, end), []
