"""Validation of rows: one whose checksum is right may still have another form than its readers expect.

Such a row was written by another program, or by a mistake of ours, and counts as damaged: it is absent, named, and
computed again. Only what readers rely on is checked.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from ragsmith.models.calls import Json

Validator: TypeAlias = Callable[[Sequence[Json]], bool]
"""Whether the decoded columns of a row have the form that its readers expect."""

VECTOR_TASKS = ("text", "query")
"""The tasks of model calls whose values are vectors."""

_TEXTS = frozenset({str})
_NUMBERS = frozenset({int, float})
_SCORES = _NUMBERS | {type(None)}


def _has(value: Json, **kinds: type | tuple[type, ...]) -> bool:
    """Whether ``value`` is a mapping with these keys, and values of these types."""
    return isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())


def _lists(value: Json, kinds: frozenset[type]) -> bool:
    """Whether ``value`` is a list of these types alone; booleans are no numbers."""
    return isinstance(value, list) and kinds.issuperset(map(type, value))


def _maps(value: Json, kinds: frozenset[type]) -> bool:
    """Whether ``value`` is a mapping to these types alone; booleans are no numbers."""
    return isinstance(value, dict) and kinds.issuperset(map(type, value.values()))


def _model_call(row: Sequence[Json]) -> bool:
    task, value = row[2], row[3]
    if type(value) in _NUMBERS:
        return True
    return isinstance(value, str) and (task not in VECTOR_TASKS or _is_vector(value))


def _is_vector(value: str) -> bool:
    try:
        decoded = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(decoded) > 0 and len(decoded) % 4 == 0


def _dataset(row: Sequence[Json]) -> bool:
    value = row[2]
    return _has(value, title=str, description=str, documents=int, chunks=int) and _maps(value.get("questions"), _TEXTS)


def _evaluation(row: Sequence[Json]) -> bool:
    value = row[2]
    return _has(value, pipeline=dict) and all(
        _has(gene, technique=str, parameters=dict) for gene in value["pipeline"].values()
    )


def _result(row: Sequence[Json]) -> bool:
    """Written to be fast: commands read tens of thousands of results."""
    state, value, attempts = row[2:5]
    if type(attempts) is not int or not isinstance(value, dict):
        return False
    if state == "failed":
        return _has(value, stage=str, error=str)
    return (
        (type(value.get("answer")) is str or value.get("part") == "ranking")
        and _lists(value.get("retrieved"), _TEXTS)
        and _maps(value.get("usage"), _NUMBERS)
        and _maps(value.get("measures"), _SCORES)
    )


def _run(row: Sequence[Json]) -> bool:
    value = row[3]
    return (
        _has(value, space=dict, settings=dict, models=dict, model_names=dict, chunk_size=int, split=dict)
        and _has(value["space"], name=str, digest=str, size=int, feasible=int, options=dict)
        and _has(value["settings"], genetic=dict, strategy=str)
        and _has(value["split"], rule=str, search=list, test=list)
        and all(isinstance(value.get(name, []), list) for name in ("probes", "history", "random", "imports"))
        and all(isinstance(value.get(name, {}), dict) for name in ("baselines", "test", "account"))
    )


def _proposal(row: Sequence[Json]) -> bool:
    genome, value = row[3], row[5]
    return _lists(genome, frozenset({int})) and _has(value, fitness=(int, float, type(None)))


def _fit(row: Sequence[Json]) -> bool:
    value = row[2]
    return _has(value, numbers=dict, held_out=list) and all(
        _has(fold, questions=list, numbers=dict) for fold in value["held_out"]
    )


def _latency(row: Sequence[Json]) -> bool:
    state, value = row[3:5]
    return _has(value, stage=str, error=str) if state == "failed" else type(value) in _NUMBERS


def _finding(row: Sequence[Json]) -> bool:
    return isinstance(row[3], dict)


def _diagnosis(row: Sequence[Json]) -> bool:
    value = row[2]
    return (
        _has(value, code=str, cause=str, gold=int, read=int)
        and all(isinstance(value.get(name, []), list) for name in ("passages", "evidence"))
        and type(value.get("further", 0)) is int
    )


def _look(row: Sequence[Json]) -> bool:
    return row[1] >= 1 and _lists(row[4], _TEXTS)


def _traits(row: Sequence[Json]) -> bool:
    value = row[1]
    return _has(value, refuses=list, thinking_tokens=int) and _lists(value["refuses"], _TEXTS)


VALIDATORS: Mapping[str, Validator] = MappingProxyType(
    {
        "model_call": _model_call,
        "dataset": _dataset,
        "evaluation": _evaluation,
        "result": _result,
        "run": _run,
        "proposal": _proposal,
        "fit": _fit,
        "traits": _traits,
        "latency": _latency,
        "finding": _finding,
        "diagnosis": _diagnosis,
        "look": _look,
    }
)
"""By table. The form of other tables needs no validation."""
