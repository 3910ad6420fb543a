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
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup, prepare  # noqa: E402
from ragsmith.gateway.budget import Price, Prices  # noqa: E402
from ragsmith.models.names import ModelName, ModelNames  # noqa: E402
from ragsmith.pipelines.space import Space  # noqa: E402
from ragsmith.pipelines.space_file import load_space  # noqa: E402
from ragsmith.runs.plan import Plan, plan  # noqa: E402
from ragsmith.runs.record import RunSettings  # noqa: E402
from ragsmith.runs.run import Run  # noqa: E402
from ragsmith.store.store import Store  # noqa: E402
from ragsmith.strategies.genetic import PRESETS  # noqa: E402

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
        "quick": (load_space("quick"), RunSettings(genetic=PRESETS["quick"])),
        "seeds, small": (load_space(folder / "seeds.yaml"), RunSettings(genetic=PRESETS["quick"])),
        "default, 40 pipelines": (load_space("default"), RunSettings(max_evaluations=40)),
    }


def setup_at(url: str, questions: int) -> Setup:
    """``law`` with as many of its questions, search and test in their proportion."""
    data = load_dataset("law")
    kept = [
        e
        for i, e in enumerate(data.examples)
        if i * questions // len(data.examples) != (i - 1) * questions // len(data.examples)
    ]
    names = ModelNames(language_model=ModelName("openai:tiny", base_url=url))
    return prepare(replace(data, examples=tuple(kept)), names, CHUNK_SIZE)


def show(name: str, said: Plan, calls: int, tokens: int, cost: float, seconds: float) -> None:
    total = said.totals
    planned = total["calls"], total["input_tokens"] + total["output_tokens"], total["cost"]
    ratios = "  ".join(
        f"{what} {planned_of:>12,.{digits}f} {sent:>12,.{digits}f} {planned_of / sent:6.3f}"
        for what, planned_of, sent, digits in zip(
            ("calls", "tokens", "money"), planned, (calls, tokens, cost), (0, 0, 2), strict=True
        )
    )
    print(f"{name:<36} {ratios}  ({seconds:.0f} s)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--only", help="the beginning of the name of a space")
    chosen = parser.parse_args()
    print("planned, sent, planned/sent")
    with tempfile.TemporaryDirectory() as name, FaultServer() as server:
        folder = Path(name)
        server.answer = answer
        setup = setup_at(server.url, chosen.questions)
        for case, (space, settings) in cases(folder).items():
            if chosen.only and not case.startswith(chosen.only):
                continue
            with Store.open(folder / f"{space.name}.sqlite") as store:
                began = time.perf_counter()
                before = plan(setup, space, store, settings, prices=PRICES)
                seconds = time.perf_counter() - began
                server.log.clear()
                spent = Run(setup, space, store, settings, workers=64, prices=PRICES).go().spent
                assert spent.calls == len(server.log)
                show(case, before, spent.calls, spent.tokens, spent.cost, seconds)


if __name__ == "__main__":
    main()
