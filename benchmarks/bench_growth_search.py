"""How the cost of a search grows with its questions, its pipelines and its workers.

    python benchmarks/bench_growth_search.py --questions [SIZE ...] [--only SEARCH] [--memory LIMIT]
    python benchmarks/bench_growth_search.py --pipelines [SIZE ...]
    python benchmarks/bench_growth_search.py --workers [SIZE ...]

Questions are drawn about sentences of `law`, two thirds of them for the search (bench_memory.py): the default search,
which soon drops what is behind, and 60 random pipelines that all answer every question. Pipelines are of the default
space and random, for retrieval alone, on 12 search questions, in one process. Workers are those of the default search
on `law` as it is. Each figure comes from ``ragsmith search --quiet`` in a folder of its own, with nothing known: CPU
seconds of the command and its children, seconds of the clock, and the most that the parent and the largest worker had
in memory (VmHWM, what they share in full). All are printed and kept in docs/growth.json (see growth_figures.py).
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from bench_memory import MIB, made, watched
from growth_figures import ROOT, asked_for, keep

RANDOM = ("--strategy", "random", "--no-race")
SEARCHES = {"default search": (), "60 pipelines": (*RANDOM, "--max-evaluations", "60")}
ALONE = (*RANDOM, "--objective", "retrieval", "--no-probes", "--begin-with-nothing", "--no-simplify")
FEW = 18
"""Questions on which pipelines are tried: 12 of them for the search."""
SIZES = {"questions": (100, 300, 1_000, 3_000), "pipelines": (10, 100, 1_000, 10_000), "workers": (1, 2, 3, 4)}


def figure(data: str, search: tuple[str, ...], scratch: Path) -> dict[str, float]:
    """What a search of ``data`` takes."""
    folder = Path(tempfile.mkdtemp(dir=scratch)) / "search"
    env = {"RAGSMITH_LEDGER": str(folder / "looks.sqlite"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    ran = watched(ROOT, ["search", "--dataset", data, "--quiet", *search], folder, env)
    if ran.code:
        sys.exit(ran.said)
    found = {"seconds": ran.cpu, "wall": ran.wall, "parent MiB": ran.parent["VmHWM"] / MIB}
    if ran.workers:
        found["worker MiB"] = max(sizes.get("VmHWM", 0) for sizes in ran.workers) / MIB
    proposed = re.search(r"besides the ([\d,]+) that\s+the search proposed", ran.said)
    return found | ({"proposed": int(proposed[1].replace(",", ""))} if proposed else {})


def main() -> None:
    """Measure, and keep figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    grown = parser.add_mutually_exclusive_group(required=True)
    for of, sizes in SIZES.items():
        shown = ", ".join(f"{size:,}" for size in sizes)
        grown.add_argument(f"--{of}", type=int, nargs="*", metavar="SIZE", help=f"grow {of}: {shown} if none is given")
    parser.add_argument("--only", choices=SEARCHES, help="this search of many questions")
    parser.add_argument("--memory", default="2G", help="limit of a search of many questions")
    asked_for(parser)
    given = parser.parse_args()
    of = next(of for of in SIZES if getattr(given, of) is not None)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for size in getattr(given, of) or SIZES[of]:
            if of == "questions":
                data = str(made(scratch, size))
                for part in [given.only] if given.only else SEARCHES:
                    search = (*SEARCHES[part], "--workers", "2", "--memory", given.memory)
                    keep(of, part, size, figure(data, search, scratch), given.figures)
            elif of == "pipelines":
                data = str(scratch / f"law{FEW}")
                if not Path(data).exists():
                    made(scratch, FEW)
                search = (*ALONE, "--max-evaluations", str(size), "--workers", "1")
                keep(of, "retrieval alone", size, figure(data, search, scratch), given.figures)
            else:
                keep(of, "default search", size, figure("law", ("--workers", str(size)), scratch), given.figures)


if __name__ == "__main__":
    main()
