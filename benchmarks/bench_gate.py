"""The gate in a sample repository: how often it passes on noise, and how often it fails on a planted regression.

    python benchmarks/bench_gate.py [--repeats 20] [--workers 2] [--documents [DOMAIN]]

A repository is made with a pipeline over the documents of `law` and a technique of its own that finds nothing for a
share of the questions, drawn by a seed: as a pipeline whose parts fail by chance. Each repetition is a branch that
changes the pipeline's file, and is gated against the file of `main` with the commands of docs/gate_workflow.yml, in
processes of their own. On noise both have the same share, and different seeds. The regression has a larger share: the
smallest of a grid whose predicted power is .8 or more. It is predicted from the scores with and without passages, by
drawing the lots and testing as the gate does; then the branches are run, once.

With `--documents` branches edit the documents of `DOMAIN` and the pipeline stays. Harmless ones have typos in the
documents and move paragraphs, by a seed; another adds 208 garbled copies. Each is gated as a kit does, the pipeline of
`main` on the documents of `main`, and also with both pipelines on the edited documents.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ragsmith.comparison.difference import compute_difference
from ragsmith.datasets.dataset import load_dataset, write_dataset

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


COPIES = 208
GARBLED = 0.3
"""Of the words of a copy, whose letters are shuffled."""
TYPOS = 0.005
"""Of the words of a document, two of whose letters are swapped."""
MOVED = 3
"""Paragraphs of a document that are moved."""

EMBEDDED = """\
dataset: {path: data}
pipeline:
  pre_embedding: {technique: none}
  query_expansion: {technique: none}
  retrieval: {technique: hybrid}
  reranking: {technique: none}
  passage_filter: {technique: top_k}
  passage_augment: {technique: none}
  passage_compress: {technique: none}
  prompt_maker: {technique: listing}
  post_generation: {technique: none}
"""


def swap(word: str, draw: random.Random) -> str:
    """Swap two neighbouring letters inside a word."""
    at = draw.randrange(1, len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def shuffle(word: str, draw: random.Random) -> str:
    """Shuffle the letters of a word."""
    return "".join(draw.sample(word, len(word)))


def edit_words(text: str, share: float, edit: Callable[[str, random.Random], str], draw: random.Random) -> str:
    """Edit a share of the words of four letters or more."""
    return re.sub(r"[^\W\d_]{4,}", lambda found: edit(found[0], draw) if draw.random() < share else found[0], text)


def move_paragraphs(text: str, draw: random.Random) -> str:
    """Move `MOVED` paragraphs of prose to another place of their document."""
    blocks = text.split("\n\n")
    for _ in range(MOVED):
        prose = [place for place, block in enumerate(blocks) if place and block[:1].isalnum()]
        if prose:
            block = blocks.pop(draw.choice(prose))
            blocks.insert(draw.randrange(1, len(blocks) + 1), block)
    return "\n\n".join(blocks)


def edit_harmlessly(folder: Path, seed: int) -> None:
    """Edit each document as a person might who means the same."""
    for path in sorted(folder.iterdir()):
        draw = random.Random(f"{seed} {path.name}")
        path.write_text(move_paragraphs(edit_words(path.read_text(), TYPOS, swap, draw), draw))


def add_garbled(folder: Path) -> None:
    """Add garbled copies of all documents, in turn."""
    originals = sorted(folder.iterdir())
    for number in range(COPIES):
        path = originals[number % len(originals)]
        text = edit_words(path.read_text(), GARBLED, shuffle, random.Random(number))
        (folder / f"copy_{number:03}{path.suffix}").write_text(text)


def gate_documents(folder: Path, *of: str) -> tuple[int, str]:
    """Gate the pipeline on the branch with these options: the exit code, and the reason."""
    command = [sys.executable, "-m", "ragsmith", "gate", "winner.yaml", "--against", "base/winner.yaml", *of, "--json"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = json.loads(ended.stdout)
    return ended.returncode, said["reason"] if "reason" in said else said["error"]["message"]


def measure_documents(folder: Path, domain: str, repeats: int) -> None:
    """Print what the gate says of edited documents."""
    (folder / "base").mkdir()
    write_dataset(load_dataset(domain), folder / "base" / "data")
    for home in (folder, folder / "base"):
        (home / "winner.yaml").write_text(EMBEDDED)
    codes = Counter[int]()
    for seed in range(repeats):
        shutil.copytree(folder / "base" / "data", folder / "data")
        edit_harmlessly(folder / "data" / "documents", seed)
        code, reason = gate_documents(folder, "--dataset", "base/data", "--documents", "data")
        codes[code] += 1
        print(f"  harmless {seed}: exit code {code}, {reason}", flush=True)
        shutil.rmtree(folder / "data")
    print(f"{domain}, typos and moved paragraphs: passed {codes[0]} of {repeats}, exit codes {dict(codes)}")
    shutil.copytree(folder / "base" / "data", folder / "data")
    add_garbled(folder / "data" / "documents")
    for name, of in (
        ("the earlier pipeline on the earlier documents", ("--dataset", "base/data", "--documents", "data")),
        ("both pipelines on the edited documents", ("--dataset", "data")),
    ):
        code, reason = gate_documents(folder, *of)
        print(f"{domain}, {COPIES} garbled documents, {name}: exit code {code}, {reason}")


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
    parser.add_argument("--documents", nargs="?", const="law", metavar="DOMAIN", help="edit documents of this domain")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.documents:
            measure_documents(Path(folder), asked.documents, asked.repeats)
            return
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
