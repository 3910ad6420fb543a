"""Model calls needed and made, and what evaluating each candidate alone would have cost."""

import tempfile
from pathlib import Path

from ragsmith.evaluation.testbed import CHUNK_SIZE, prepare
from ragsmith.models.loading import ModelNames
from ragsmith.pipelines.space_file import load_space
from ragsmith.records.record import RunSettings
from ragsmith.runs.run import Execution, Run
from ragsmith.store.store import Store

BILLED = {"language_model": "calls", "embedder": "texts_embedded", "cross_encoder": "pairs_scored"}


def main() -> None:
    setup = prepare("law", ModelNames(), CHUNK_SIZE)
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


if __name__ == "__main__":
    main()
