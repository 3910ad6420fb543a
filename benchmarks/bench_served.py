"""A default search on `law` against a local server that takes 200 ms a call, 32 in flight: wall time and calls.

    python benchmarks/bench_served.py [--latency SECONDS] [--space SPACE]
    python benchmarks/bench_served.py --embedded
    python benchmarks/bench_served.py --slots
    python benchmarks/bench_served.py --planned law finance [--questions N] [--length TIMES] [--max-evaluations N]

The server is `tests/support/fault_server.py` in a process of its own. The bound is 1.15 x (distinct calls x latency /
32) plus the wall time of the same search on the embedded models, run first. ``--embedded`` counts the calls that the
search with the paper's preset needs and makes, with one process and two, and what evaluating each candidate alone would
have cost. ``--planned`` shows what `plan` says before a search, and once a hundred replies are there, against what the
search takes, at a server whose replies never repeat and whose texts are ``--length`` times as long.
"""

import argparse
import json
import tempfile
from pathlib import Path

from commands import ragsmith
from planned_spending import print_planned
from served_runs import asked, environment, serving
from served_slots import print_throughput

from ragsmith.evaluation.experiment import CHUNK_SIZE, prepare_experiment
from ragsmith.models.loading import ModelNames
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store

IN_FLIGHT = 32
BILLED = {"language_model": "calls", "embedder": "texts_embedded", "cross_encoder": "pairs_scored"}


def compare_with_waiting(latency: float, space: str) -> None:
    """Search on the embedded models, then at the server, then again from the cache."""
    search = ("search", "--dataset", "law", "--space", space, "--json")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        embedded = ragsmith(*search, folder=folder)
        assert embedded.code == 0, embedded.err
        print(f"embedded       {embedded.wall:6.1f} s wall, {embedded.cpu:6.1f} s CPU", flush=True)
        log = folder / "requests.jsonl"
        with serving(log, latency) as url:
            model = ("--llm", "openai:tiny", "--base-url", url, "--in-flight", str(IN_FLIGHT))
            command = (*search, *model, "--cache", "served.sqlite")
            served = ragsmith(*command, folder=folder, env=environment())
            assert served.code == 0, served.err
            requests = asked(log)
            again = ragsmith(*command, folder=folder, env=environment())
            assert again.code == 0, again.err
    distinct, made = len(requests), requests.total()
    least = distinct * latency / IN_FLIGHT
    bound = 1.15 * least + embedded.wall
    same = json.loads(served.out)["summary"] == json.loads(again.out)["summary"]
    print(f"served         {served.wall:6.1f} s wall, {served.cpu:6.1f} s CPU of the client")
    print(f"calls          {made:,} made, {distinct:,} distinct: ratio {made / distinct:.4f}")
    print(f"waiting alone  {least:6.1f} s: {distinct:,} x {latency:g} s / {IN_FLIGHT}")
    print(f"bound          {bound:6.1f} s: 1.15 x waiting + embedded; kept: {served.wall <= bound}")
    print(f"overhead       {served.wall / least - 1:6.1%} over waiting alone")
    print(f"again          {again.wall:6.1f} s wall; same tables: {same}")


def count_calls() -> None:
    """Print calls needed and made, and what each candidate alone would have cost."""
    setup = prepare_experiment("law", ModelNames(), CHUNK_SIZE)
    needed = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as name, Store.open(Path(name) / "cache.sqlite") as store:
            outcome = Run(setup, load_space("paper"), store, RunSettings(), execution=Execution(workers=workers)).go()
            records = [
                row.value for e in store.evaluations(setup.dataset.digest) for row in store.results(e.key).values()
            ]
        work = outcome.work
        assert work is not None
        # one process sees every call, so its distinct calls are the calls needed; several may each need the same one
        needed = needed or {kind: work.calls[kind].distinct for kind in BILLED}
        print(f"{workers} process{'es' * (workers > 1)}: {len(records):,} answers")
        for kind, unit in BILLED.items():
            made = work.calls[kind].made
            alone = sum(record["usage"][unit] for record in records)
            print(
                f"  {kind:<15} needed {needed[kind]:>7,}  made {made:>7,}  made/needed {made / needed[kind]:.4f}"
                f"  each candidate alone {alone:>9,}, x{alone / made:.1f}"
            )
        print(
            f"  stages          asked {work.stages_requested:,}, computed {work.stages_computed:,}: "
            f"x{work.stages_requested / work.stages_computed:.2f} against evaluating each candidate alone"
        )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.2, help="seconds a call")
    parser.add_argument("--space", default="default", help="the space that is searched")
    parser.add_argument("--embedded", action="store_true", help="count calls of the embedded models")
    parser.add_argument("--slots", action="store_true", help="print the throughput at servers with slots")
    parser.add_argument("--planned", nargs="+", metavar="DATASET", help="compare plans with searches of data sets")
    parser.add_argument("--questions", type=int, help="with --planned: questions of each data set [all]")
    parser.add_argument("--length", type=int, default=1, help="with --planned: how often a text is written on")
    parser.add_argument("--max-evaluations", type=int, help="with --planned: as in a search")
    given = parser.parse_args()
    if given.planned:
        print_planned(given.planned, given.questions, given.length, given.max_evaluations)
        return
    if given.slots:
        print_throughput()
        return
    if given.embedded:
        count_calls()
    else:
        compare_with_waiting(given.latency, given.space)


if __name__ == "__main__":
    main()
