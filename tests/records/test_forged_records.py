"""Records of another form, though their checksums are right, are refused with a sentence and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import describe_run, put_toy

from ragsmith.errors import UsageError
from ragsmith.records.record import RunRecord
from ragsmith.reporting import load_report
from ragsmith.store.store import Store

OTHERS: list[Any] = [None, 0, -1, 1.5, True, "x", "", [], {}, [1], {"a": 1}, [[]], [None], 10**400]
RUN = json.loads(json.dumps(describe_run(test=True).to_dict()))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values within a value, besides itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*path, name)
        yield from paths(one, (*path, name))


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """A copy of a value with another value at a path."""
    copy = here = deepcopy(value)
    for name in path[:-1]:
        here = here[name]
    here[path[-1]] = other
    return copy


@given(st.sampled_from(list(paths(RUN))), st.sampled_from(OTHERS))
@settings(max_examples=300, deadline=None)
def test_a_record_of_another_form_is_refused_or_restored_as_it_is(path: tuple[Any, ...], other: Any) -> None:
    forged = replaced(RUN, path, other)
    with suppress(UsageError):
        assert json.loads(json.dumps(RunRecord.from_dict(forged).to_dict())) == forged


@pytest.mark.parametrize(
    ("path", "other"),
    [
        (("threshold",), "x"),
        (("command",), []),
        (("history", 1, "mutation_rate"), [1]),
        (("split", "groups"), [1]),
        (("dropped",), []),
    ],
)
def test_the_report_of_a_forged_record_is_refused_in_a_sentence(
    store: Store, path: tuple[Any, ...], other: Any
) -> None:
    put_toy(store)
    [row] = store.runs()
    store.update_run(row.key, "finished", replaced(row.value, path, other))
    with pytest.raises(UsageError, match="cannot be read"):
        load_report(store, "toy")


def test_proposals_of_another_space_are_left_out(store: Store) -> None:
    put_toy(store)
    [row] = store.runs()
    complete = store.proposals(row.key)
    store.put_proposals(row.key, [type(complete[0])(0, 0, [], complete[0].evaluation, {"fitness": 0.5})])
    assert load_report(store, "toy").about.run == row.key
