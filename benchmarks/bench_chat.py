"""What the default search on `law` asks a chat model, at a server whose replies never repeat: by step and by purpose.

python benchmarks/bench_chat.py [EVALUATIONS [DATASET [SPACE]]]
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from fault_server import FaultServer  # noqa: E402
from never_repeating import answer  # noqa: E402
from sqlalchemy import create_engine, text  # noqa: E402

from ragsmith.evaluation.testbed import CHUNK_SIZE, prepare  # noqa: E402
from ragsmith.gateway.budget import Price, Prices  # noqa: E402
from ragsmith.models.names import ModelName, ModelNames  # noqa: E402
from ragsmith.pipelines.space_file import load_space  # noqa: E402
from ragsmith.records.record import RunRecord, RunSettings  # noqa: E402
from ragsmith.runs.run import Allowance, Callbacks, Execution, Run, Start, Step  # noqa: E402
from ragsmith.store.store import Store  # noqa: E402

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else None
DATASET = sys.argv[2] if len(sys.argv) > 2 else "law"
SPACE = sys.argv[3] if len(sys.argv) > 3 else "default"
PRICE = Price(input=0.40, output=1.60)
IN_FLIGHT = 64


class Watch:
    """Prints what was spent by the end of each step."""

    def __init__(self) -> None:
        self.start: Start | None = None

    def begin(self, start: Start) -> None:
        self.start = start

    def step(self, step: Step) -> None:
        assert self.start
        spent = self.start.pulse()[1]
        print(f"  {step.phase} {step.number}: {spent.calls:,} calls, {spent.cost:.2f} USD", flush=True)


def by_purpose(cache: Path) -> None:
    """Print the calls, tokens and money of each task, the dearest first."""
    query = "select task, sum(calls), sum(input_tokens), sum(output_tokens) from model_call group by task"
    engine = create_engine(f"sqlite:///{cache}")
    with engine.connect() as connection:
        rows = [(task, int(n), int(read), int(wrote)) for task, n, read, wrote in connection.execute(text(query))]
    engine.dispose()
    money = {task: (read * PRICE.input + wrote * PRICE.output) / 1e6 for task, _, read, wrote in rows}
    for task, calls, read, wrote in sorted(rows, key=lambda row: -money[row[0]]):
        print(f"  {task:<28} {calls:>7,} calls {read:>12,} in {wrote:>10,} out {money[task]:>7.2f} USD")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, FaultServer() as server:
        server.answer = answer
        names = ModelNames(language_model=ModelName("openai:tiny", base_url=server.url))
        setup, cache, watch = prepare(DATASET, names, CHUNK_SIZE), Path(name) / "cache.sqlite", Watch()
        began = time.process_time()
        with Store.open(cache) as store:
            settings = RunSettings(max_evaluations=EVALUATIONS)
            prices = Prices({"openai:tiny": PRICE})
            outcome = Run(
                setup,
                load_space(SPACE),
                store,
                settings,
                execution=Execution(workers=IN_FLIGHT),
                allowance=Allowance(prices=prices),
                callbacks=Callbacks(on_start=watch.begin, on_step=watch.step),
            ).go()
            [run] = store.runs()
            record = RunRecord.read(run.value)
        seconds = time.process_time() - began
        by_purpose(cache)
        met = Counter(dropped.questions for dropped in record.dropped.values())
        print(f"dropped after so many questions: {dict(sorted(met.items()))}")
        print(
            f"{DATASET}, {len(outcome.evaluations):,} pipelines, {outcome.computed:,} answers: {outcome.spent.calls:,} "
            f"calls, {outcome.spent.tokens:,} tokens, {outcome.spent.cost:.2f} USD; the server was sent "
            f"{len(server.log):,}, {len({request.digest for request in server.log}):,} distinct; {seconds:.0f} CPU s"
        )


if __name__ == "__main__":
    main()
