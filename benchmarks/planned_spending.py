"""What `ragsmith plan` says before a search, and once a hundred replies are there, against what the search takes."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from time import process_time, time
from typing import Any

from served_runs import asked, environment, serving

import ragsmith
from ragsmith.datasets.dataset import Dataset, load_dataset
from ragsmith.errors import BudgetExhausted
from ragsmith.gateway.budget import Limits
from ragsmith.store.store import Store, open_store

FIRST = 100
"""Replies after which the plan is made again."""

PRICES = {"openai:tiny": {"input": 0.4, "output": 1.6}}

Amounts = Mapping[str, float]


def sampled(name: str, questions: int | None) -> Dataset:
    """A bundled data set with so many of its questions, drawn with a fixed seed."""
    dataset = load_dataset(name)
    if questions is None or questions >= len(dataset.examples):
        return dataset
    drawn = Random(0).sample(sorted(dataset.examples, key=lambda example: example.id), questions)
    return replace(dataset, examples=tuple(drawn))


def print_planned(domains: Sequence[str], questions: int | None, length: int, max_evaluations: int | None) -> None:
    """Plan, search and compare, one data set after another; the server writes texts ``length`` times as long."""
    os.environ.update(environment())
    for name in domains:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "requests.jsonl"
            with serving(log, 0.0, "--distinct", str(length)) as url:
                _print_one(sampled(name, questions), url, log, max_evaluations)


def _print_one(dataset: Dataset, url: str, log: Path, max_evaluations: int | None) -> None:
    cache = log.parent / "cache.sqlite"
    arguments: dict[str, Any] = {
        "models": {"language_model": "openai:tiny"},
        "base_url": url,
        "prices": PRICES,
        "cache": cache,
        "max_evaluations": max_evaluations,
    }
    began, cpu = time(), process_time()
    before = ragsmith.plan(dataset, **arguments)
    print(f"{dataset.name}: planned in {time() - began:.0f} s, {process_time() - cpu:.0f} s CPU", flush=True)
    with suppress(BudgetExhausted):
        ragsmith.search(dataset, **arguments, limits=Limits(calls=FIRST), workers=16)
    first = _taken(cache)
    later = ragsmith.plan(dataset, **arguments).totals
    spent = ragsmith.search(dataset, **arguments, workers=16).spent
    taken = _taken(cache)
    _print_row("before", before.totals, taken)
    _print_row(f"after {first['calls']:,.0f}", {name: first[name] + (later[name] or 0.0) for name in first}, taken)
    print(f"  {'taken':<12} {_words(taken)}; counted by the run: {spent.calls:,} requests, {spent.cost:.4f}")
    print(f"  {'':<12} the server got {asked(log).total():,} requests, {len(asked(log)):,} distinct", flush=True)
    planned = {line.request: (line.calls, line.input_tokens, line.output_tokens) for line in before.lines}
    with open_store(cache, read_only=True) as store:
        requests = _by_task(store)
    print(f"  {'':<22} {'planned':>28} {'taken':>28}")
    for task in sorted({*planned, *requests}, key=lambda task: -requests.get(task, (0, 0, 0))[0]):
        cells = ("".join(f"{count:>10,}" for count in rows.get(task, (0, 0, 0))) for rows in (planned, requests))
        print(f"  {task:<22}{''.join(cells)}", flush=True)


def _by_task(store: Store) -> dict[str, list[int]]:
    """Requests, tokens in and tokens out of the replies in a cache, by task."""
    found: dict[str, list[int]] = {}
    for call in store.sample_calls("openai:tiny@temperature=0", 1 << 30):
        row = found.setdefault(call.task, [0, 0, 0])
        for i, value in enumerate((call.calls, call.input_tokens, call.output_tokens)):
            row[i] += value
    return found


def _taken(cache: Path) -> dict[str, float]:
    with open_store(cache, read_only=True) as store:
        rows = _by_task(store).values()
    calls, read, written = (sum(row[i] for row in rows) for i in range(3))
    price = PRICES["openai:tiny"]
    cost = (read * price["input"] + written * price["output"]) / 1e6
    return {"calls": calls, "input_tokens": read, "output_tokens": written, "cost": cost}


def _words(one: Mapping[str, float | None]) -> str:
    return (
        f"{one['calls']:>7,.0f} requests {one['input_tokens']:>11,.0f} tokens in {one['output_tokens']:>9,.0f} out "
        f"{one['cost']:>8.4f}"
    )


def _print_row(what: str, one: Mapping[str, float | None], taken: Amounts) -> None:
    off = ", ".join(f"{(one[name] or 0.0) / taken[name] - 1:+.1%}" for name in taken)
    print(f"  {what:<12} {_words(one)}  ({off})", flush=True)
