"""Cold and repeated search on `law` with the paper's preset, or over the space given, and how fast the help is."""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from commands import ragsmith, search_of

SEARCH = search_of(sys.argv[1] if len(sys.argv) > 1 else None)

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    help_times = [ragsmith("--help", folder=folder).wall for _ in range(10)]
    cold = ragsmith(*SEARCH, "--json", folder=folder)
    assert cold.code == 0, cold.err
    first = (folder / "reports/law/winner.yaml").read_bytes()
    again = ragsmith(*SEARCH, "--json", folder=folder)
    assert again.code == 0, again.err
    same = (folder / "reports/law/winner.yaml").read_bytes() == first
    size = (folder / "cache.sqlite").stat().st_size

one, two = json.loads(cold.out), json.loads(again.out)
print(f"ragsmith --help         median {statistics.median(help_times):.3f} s of 10, worst {max(help_times):.3f} s")
print(
    f"cold search             {cold.wall:6.1f} s wall, {cold.cpu:6.1f} s CPU, {one['computed']:,} answers, "
    f"{one['model_calls']:,} model calls, cache {size / 1e6:.0f} MB"
)
print(
    f"the same command again  {again.wall:6.1f} s wall, {again.cpu:6.1f} s CPU, {two['computed']:,} answers, "
    f"{two['model_calls']:,} model calls"
)
print(f"ratio                   {cold.wall / again.wall:6.1f}")
print(f"same winner             {same}")
