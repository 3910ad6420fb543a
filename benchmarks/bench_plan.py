"""What `plan` says a search takes, and what a server whose replies never repeat was then sent: three spaces."""

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from fault_server import FaultServer  # noqa: E402
from never_repeating import answer  # noqa: E402

from ragsmith.datasets.dataset import load_dataset  # noqa: E402
from ragsmith.datasets.splits import split  # noqa: E402
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup, prepare  # noqa: E402
from ragsmith.gateway.budget import Price, Prices, Spent  # noqa: E402
from ragsmith.models.names import ModelName, ModelNames  # noqa: E402
from ragsmith.pipelines.space import Space  # noqa: E402
from ragsmith.pipelines.space_file import load_space  # noqa: E402
from ragsmith.records.record import RunSettings  # noqa: E402
from ragsmith.runs.check import check_models  # noqa: E402
from ragsmith.runs.plan import Plan, plan  # noqa: E402
from ragsmith.runs.run import Allowance, Execution, Run  # noqa: E402
from ragsmith.store.store import Store  # noqa: E402

PRICES = Prices({"openai:tiny": Price(input=0.40, output=1.60)})

SEEDS = """
name: seeds, small
families:
  pre_embedding: [none, hype]
  query_expansion: [none, multi_query, iterative, srr, {srr: {candidates: decompose}}, crag]
  retrieval: [vector, {hybrid: {fusion: [convex, rrf]}}]
  reranking: [none, llm]
  passage_filter: [{top_k: {k: [5, 10]}}]
  passage_augment: [none]
  passage_compress: [none, tree_summarize]
  prompt_maker: [listing]
  post_generation: [none, reflection_revising]
"""


def cases(folder: Path) -> dict[str, tuple[Space, RunSettings]]:
    (folder / "seeds.yaml").write_text(SEEDS)
    return {
        "quick": (load_space("quick"), RunSettings()),
        "seeds, small": (load_space(folder / "seeds.yaml"), RunSettings(max_evaluations=30)),
        "default": (load_space("default"), RunSettings(max_evaluations=40)),
    }


def setup_at(url: str, questions: int) -> Setup:
    """``law`` with as many of its questions, search and test in their proportion."""
    data = load_dataset("law")
    parts = split(data)
    share = questions / len(data.examples)
    kept = [example for part in (parts.search, parts.test) for example in part[: round(share * len(part))]]
    names = ModelNames(language_model=ModelName("openai:tiny", base_url=url))
    return prepare(replace(data, examples=tuple(kept)), names, CHUNK_SIZE)


def show(name: str, said: Plan, sent: Spent) -> None:
    total = said.totals
    planned = total["calls"], total["input_tokens"] + total["output_tokens"], total["cost"]
    parts = [
        f"{what} {one:>10,.{digits}f} {other:>10,.{digits}f} {one / other:6.3f}"
        for what, one, other, digits in zip(
            ("calls", "tokens", "money"), planned, (sent.calls, sent.tokens, sent.cost), (0, 0, 2), strict=True
        )
    ]
    print(f"{name:<34} {'  '.join(parts)}", flush=True)
    if said.ranges:
        (fewest, most), (least, dearest) = said.ranges["calls"], said.ranges["cost"]
        print(f"  its range: calls {fewest:,.0f} to {most:,.0f}, money {least:.2f} to {dearest:.2f}", flush=True)


def compared(case: str, setup: Setup, space: Space, settings: RunSettings, store: Store, server: FaultServer) -> Plan:
    """Print what a plan says, beside what is sent from then on.

    Before anything is known, after `ragsmith models check` with the cache, and after two pipelines.
    """

    def search(how: RunSettings) -> Spent:
        server.log.clear()
        spent = (
            Run(setup, space, store, how, execution=Execution(workers=64), allowance=Allowance(prices=PRICES))
            .go()
            .spent
        )
        assert spent.calls == len(server.log), "the budget counts what the server was sent"
        return spent

    began = time.process_time()
    before = plan(setup, space, store, settings, prices=PRICES)
    seconds = time.process_time() - began
    check_models(setup.models, space, store=store)
    checked = plan(setup, space, store, settings, prices=PRICES)
    first = search(replace(settings, max_evaluations=2, probes=False))
    after = plan(setup, space, store, settings, prices=PRICES)
    rest = search(settings)
    show(f"{case}, nothing in the cache", before, first + rest)
    show(f"{case}, models checked", checked, first + rest)
    show(f"{case}, two pipelines in the cache", after, rest)
    print(f"  the first plan took {seconds:.1f} CPU s", flush=True)
    return before


def choices(setup: Setup, space: Space, settings: RunSettings, store: Store, whole: Plan) -> None:
    """Print what each choice is said to cost, and what a plan without it says."""
    for choice in whole.choices:
        name = choice.flag.removeprefix("--without ")
        if name == choice.flag:
            continue
        rest = plan(setup, space.leaving_out([name]), store, settings, prices=PRICES)
        saved = whole.totals["calls"] - rest.totals["calls"], whole.totals["cost"] - rest.totals["cost"]
        print(f"  {choice.flag:<28} calls {choice.calls:>8,} {saved[0]:>8,}  money {choice.cost:6.2f} {saved[1]:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--only", default="", help="the beginning of the name of a space")
    parser.add_argument("--choices", action="store_true", help="plan without each choice, too")
    chosen = parser.parse_args()
    print("each: planned, sent, planned/sent")
    with tempfile.TemporaryDirectory() as name, FaultServer() as server:
        folder = Path(name)
        server.answer = answer
        setup = setup_at(server.url, chosen.questions)
        for case, (space, settings) in cases(folder).items():
            if not case.startswith(chosen.only):
                continue
            with Store.open(folder / f"{case}.sqlite") as store:
                found = compared(case, setup, space, settings, store, server)
            if chosen.choices:
                with Store.open(folder / f"{case} again.sqlite") as store:
                    choices(setup, space, settings, store, found)


if __name__ == "__main__":
    main()
