"""Whatever is executed to make a record counts in its key, but for the machinery that cannot change its values."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from fault_replies import chat_reply

import ragsmith
from ragsmith.digest import list_dependencies
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import FINGERPRINTED_CODE
from ragsmith.evaluation.threads import evaluate_job
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage
from ragsmith.pipelines.genes import Candidate
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques

Build = Callable[..., Candidate]

MACHINERY = {
    *("caches", "cells", "digest", "mapped", "plugins", "measures.registry", "techniques.registry"),
    *("evaluation.experiment", "evaluation.threads"),
    *(
        "gateway.call_context",
        "gateway.completions",
        "gateway.failures",
        "gateway.gateway",
        "gateway.vectors_and_scores",
        "index.stores",
    ),
    *("extensions", "models.roles", "models.capabilities"),
    *("models.options", "models.vector_stores"),
}
"""What finds, starts, reaches, joins, remembers and counts, without ``ragsmith.``; the last question of a review is
whether a module that is added here can change what is returned."""

ELSEWHERE = {
    *("gateway.batching", "gateway.claims", "gateway.leases"),
    *("store.database", "store.engine", "store.rows", "store.store", "store.schema"),
}
"""More of it, for models that are waited for: it joins requests, and keeps replies."""

ROOT = Path(ragsmith.__file__).parent


def named(files: set[str]) -> set[str]:
    """The modules in these files of the package, without ``ragsmith.``."""
    parts = [Path(file).relative_to(ROOT).with_suffix("").parts for file in files]
    return {".".join(names) for names in parts}


def counted(*places: tuple[str, str]) -> set[str]:
    """The modules that count in the fingerprints of ``places``, without ``ragsmith.``."""
    return {name.removeprefix("ragsmith.") for place in places for name in list_dependencies(*place)}


@contextmanager
def executed() -> Iterator[set[str]]:
    """The modules of the package, of which a function is called meanwhile in this thread."""
    found: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED  # and no body of a class or a module, which are imported
        if event == "call" and is_function and code.co_filename.startswith(str(ROOT)):
            found.add(code.co_filename)

    gc.collect()  # a generator that is thrown away is entered once more
    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield found
    finally:
        sys.setprofile(before)


def test_whatever_is_executed_is_in_the_key_or_machinery(tiny_setup: Experiment, pipeline: Build) -> None:
    load_techniques()
    setup = Experiment(tiny_setup.dataset, chunk_size=tiny_setup.chunk_size)
    question = min(setup.examples)
    models = [(type(model).__module__, type(model).__name__) for model in setup.loaded_models.all()]
    functions = [measure.fn for measure in setup.measures]
    techniques = [t for family in FAMILIES for t in family.techniques.values() if not t.analysis_only and not t.fitting]
    candidates = [pipeline(**{t.family: t.name, **{f: names[0] for f, names in t.after.items()}}) for t in techniques]
    with executed() as found:
        engine = setup.engine()
        results = [evaluate_job(engine, setup, candidate, (0, question)) for candidate in candidates]
    assert all(result.ok for result in results)
    places = [(fn.__module__, fn.__name__) for fn in (*functions, *(technique.fn for technique in techniques))]
    assert named(found) - counted(*FINGERPRINTED_CODE, *models, *places) <= MACHINERY


class Chat:
    """Replies in the form asked for, but only when a prompt is sent once more; it can read little at once."""

    id = "chat@1"
    context_window = 1400

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        reply = chat_reply(prompt) if "could not be used" in prompt else ""
        return Completion(reply, Usage(1, 0, 0, 10, 2))


@dataclass
class Slow:
    """An embedder whose vectors are kept."""

    model: Any
    id: str = "slow@1"
    slow: bool = True

    def embed(self, texts: Sequence[str]) -> Any:
        return self.model.embed(texts)


def test_how_models_elsewhere_are_asked_is_in_the_key(tiny_setup: Experiment, pipeline: Build, store: Store) -> None:
    models = tiny_setup.loaded_models
    asked = replace(models, language_model=Chat(), judge=Chat(), embedder=Slow(models.embedder))
    setup = Experiment(tiny_setup.dataset, chunk_size=tiny_setup.chunk_size, faithfulness=False)
    candidate = pipeline(prompt_maker="listing")
    for _ in range(2):  # the second time from the store
        with executed() as found:
            engine = setup.engine(store)
            engine.models = asked
            result = evaluate_job(engine, setup, candidate, (0, min(setup.examples)))
        assert result.ok, result.value
    assert engine.gateway.counts()["language_model"].cut
    functions = [(measure.fn.__module__, measure.fn.__name__) for measure in setup.measures]
    techniques = [(gene.technique.fn.__module__, gene.technique.fn.__name__) for gene in candidate]
    embedder = type(models.embedder).__module__, type(models.embedder).__name__
    extra = named(found) - counted(*FINGERPRINTED_CODE, embedder, *functions, *techniques)
    assert extra <= MACHINERY | ELSEWHERE
    assert "gateway.prompts_and_vectors" in named(found)
    assert not (MACHINERY | ELSEWHERE) & counted(*FINGERPRINTED_CODE)
