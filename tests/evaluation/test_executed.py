"""Whatever is executed to make a record counts in its key, but for the machinery that cannot change its values."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import ragsmith
from ragsmith.digest import closure
from ragsmith.evaluation.keys import CODE
from ragsmith.evaluation.testbed import Setup
from ragsmith.evaluation.threads import evaluate_job
from ragsmith.pipelines.genes import Candidate
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import load_techniques

MACHINERY = {
    *("digest", "plugins", "measures.registry", "techniques.registry"),
    *("evaluation.testbed", "evaluation.threads"),
    *("gateway.desk", "gateway.gateway", "gateway.replies", "gateway.results", "gateway.views", "index.stores"),
    *("models.calls", "models.roles"),
}
"""What finds, starts, reaches, joins, remembers and counts, without ``ragsmith.``; the last question of a review is
whether a module that is added here can change what is returned."""

ROOT = Path(ragsmith.__file__).parent


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


def test_whatever_is_executed_is_in_the_key_or_machinery(tiny_setup: Setup, pipeline: Callable[..., Candidate]) -> None:
    load_techniques()
    setup = Setup(tiny_setup.dataset, chunk_size=tiny_setup.chunk_size)
    question = min(setup.examples)
    models = [(type(model).__module__, type(model).__name__) for model in setup.loaded_models.all()]
    functions = [measure.fn for measure in setup.measures]
    techniques = [t for family in FAMILIES for t in family.techniques.values() if not t.analysis_only and not t.fitting]
    candidates = [pipeline(**{t.family: t.name, **{f: names[0] for f, names in t.after.items()}}) for t in techniques]
    with executed() as files:
        engine = setup.engine()
        results = [evaluate_job(engine, setup, candidate, (0, question)) for candidate in candidates]
    assert all(result.ok for result in results)
    places = [(fn.__module__, fn.__name__) for fn in (*functions, *(technique.fn for technique in techniques))]
    counted = set().union(*(closure(*place) for place in (*CODE, *models, *places)))
    parts = [Path(file).relative_to(ROOT).with_suffix("").parts for file in files]
    assert {".".join(names) for names in parts} - {name.removeprefix("ragsmith.") for name in counted} <= MACHINERY
