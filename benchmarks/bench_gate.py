"""The gate in a sample repository: how often it passes on noise, and how often it fails on a planted regression.

    python benchmarks/bench_gate.py [--repeats 20] [--workers 2]

A repository is made with a pipeline over the documents of `law` and a technique of its own that finds nothing for a
share of the questions, drawn by a seed: as a pipeline whose parts fail by chance. Each repetition is a branch that
changes the pipeline's file, and is gated against the file of `main` with the commands of docs/gate_workflow.yml, in
processes of their own. On noise both have the same share, and different seeds. The regression has a larger share: the
smallest of a grid whose predicted power is .8 or more. It is predicted from the scores with and without passages, by
drawing the lots and testing as the gate does; then the branches are run, once.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ragsmith.comparison.difference import compute_difference
from ragsmith.datasets.dataset import load_dataset

REPOSITORY = Path(__file__).resolve().parent.parent
SHARE = 0.1
"""Of the questions that the pipeline on main finds nothing for."""
GRID = tuple(round(SHARE + 0.05 * step, 2) for step in range(1, 13))
ENOUGH = 0.8
MIN_EFFECT = 0.02
LEVEL = 0.05
WORLDS = 500
"""Drawn for a prediction."""

TECHNIQUE = '''\
"""A filter that loses all passages of some questions, by the lot."""

from hashlib import sha256

from ragsmith.techniques.families import passage_filter
from ragsmith.types import Hits, Question


@passage_filter(paper="https://example.org/none")
def lossy(question: Question, hits: Hits, *, share: float = 0.0, seed: int = 0) -> Hits:
    """Find nothing for a share of the questions."""
    drawn = int.from_bytes(sha256(f"{seed} {question.text}".encode()).digest()[:8], "big") / 2**64
    return () if drawn < share else hits[:10]
'''

WINNER = """\
dataset: {{bundled: law}}
pipeline:
  pre_embedding: {{technique: none}}
  query_expansion: {{technique: none}}
  retrieval: {{technique: bm25}}
  reranking: {{technique: none}}
  passage_filter: {{technique: lossy, parameters: {{share: {share}, seed: {seed}}}}}
  passage_augment: {{technique: none}}
  passage_compress: {{technique: none}}
  prompt_maker: {{technique: listing}}
  post_generation: {{technique: none}}
"""


class Sample:
    """A repository whose main branch has a pipeline, and whose branches change it."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._workers = workers
        (folder / "lossy.py").write_text(TECHNIQUE)
        self._git("init", "-q", "-b", "main")
        self._git("add", ".")
        self._commit("a technique")

    def gated(self, base: tuple[float, int], now: tuple[float, int]) -> tuple[int, dict[str, object]]:
        """Gate a branch with the share and seed ``now`` against main with ``base``: the exit code, and what is said."""
        self._git("checkout", "-q", "main")
        self._write(*base)
        self._git("checkout", "-q", "-B", "change")
        self._write(*now)
        (self._folder / "base.yaml").write_text(self._git("show", "main:winner.yaml"))
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "ragsmith", "gate", "winner.yaml", "--against", "base.yaml", "--split", "all"),
                *("--min-effect", str(MIN_EFFECT), "--junit", "gate.xml", "--json", "--import", "lossy.py"),
                *("--workers", str(self._workers)),
            ],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode > 1:
            raise RuntimeError(ended.stderr)
        return ended.returncode, json.loads(ended.stdout)

    def scores(self, share: float) -> dict[str, tuple[float, int]]:
        """The fitness and the group of each question with a share: 0 has all passages, 1 none."""
        self._git("checkout", "-q", "main")
        self._write(share, 0)
        ended = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "ragsmith",
                    "compare",
                    "winner.yaml",
                    "winner.yaml",
                    "--split",
                    "all",
                    "--json",
                ),
                *("--import", "lossy.py", "--workers", str(self._workers)),
            ],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=True,
        )
        located = {example.id for example in load_dataset("law").examples if example.evidence}  # others are no groups
        rows = json.loads(ended.stdout)["questions"]
        return {row["id"]: (row["first"]["fitness"], row["group"]) for row in rows if row["id"] in located}

    def _write(self, share: float, seed: int) -> None:
        (self._folder / "winner.yaml").write_text(WINNER.format(share=share, seed=seed))
        self._git("add", "winner.yaml")
        self._commit(f"share {share}, seed {seed}")

    def _commit(self, message: str) -> None:
        who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
        self._git(*who, "commit", "-q", "--allow-empty", "-m", message)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self._folder, capture_output=True, text=True, check=True)
        return done.stdout


def predicted(
    with_: dict[str, tuple[float, int]], without: dict[str, tuple[float, int]], share: float
) -> tuple[float, float]:
    """The true loss of a branch with ``share``, and the power by which the gate sees it.

    A question loses what passages are worth to it, in the branch with the probability ``share``, and on main with
    `SHARE`. The lots of both are drawn in many worlds, and each is tested.
    """
    names, draw, closed = [group for _, group in with_.values()], random.Random(0), 0
    worth = [with_[question][0] - without[question][0] for question in with_]
    for _ in range(WORLDS):
        now, base = ([0.0 if draw.random() < lost else value for value in worth] for lost in (share, SHARE))
        found = compute_difference(now, base, names)
        closed += found.p <= LEVEL and -found.mean_difference > MIN_EFFECT
    return (share - SHARE) * math.fsum(worth) / len(worth), closed / WORLDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sample = Sample(Path(folder), asked.workers)
        with_, without = sample.scores(0.0), sample.scores(1.0)
        table = {share: predicted(with_, without, share) for share in GRID}
        share = next(share for share, (_, power) in table.items() if power >= ENOUGH)
        loss, power = table[share]
        groups = len({group for _, group in with_.values()})
        print(f"law: {len(with_)} questions in {groups} groups; level {LEVEL}, least effect {MIN_EFFECT}")
        said = f"nothing found for {share:.0%} instead of {SHARE:.0%}, a loss of {loss:.3f}"
        print(f"planted: {said}, predicted power {power:.2f}")
        for name, changed in (("noise", SHARE), ("regression", share)):
            codes, changes = Counter[int](), []
            for number in range(asked.repeats):
                code, said = sample.gated((SHARE, 2 * number), (changed, 2 * number + 1))
                codes[code] += 1
                changes.append(said["now"] - said["before"])
            mean = math.fsum(changes) / len(changes)
            print(
                f"{name}: passed {codes[0]} of {asked.repeats}, failed {codes[1]} (mean change {mean:+.3f}, "
                f"from {min(changes):+.3f} to {max(changes):+.3f})"
            )


if __name__ == "__main__":
    main()
