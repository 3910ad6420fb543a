"""The winner's YAML, byte by byte: workers, hash seeds, folders."""

import hashlib
import tempfile
from pathlib import Path

from commands import SEARCH, ragsmith

CASES = {
    "1 worker, PYTHONHASHSEED 0": ("1", "0", "a"),
    "4 workers, PYTHONHASHSEED 0": ("4", "0", "a"),
    "1 worker, PYTHONHASHSEED 1": ("1", "1", "a"),
    "4 workers, PYTHONHASHSEED 1, another folder": ("4", "1", "some/where else"),
}
found = {}
for label, (workers, seed, below) in CASES.items():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / below
        folder.mkdir(parents=True)
        done = ragsmith(*SEARCH, "--workers", workers, folder=folder, env={"PYTHONHASHSEED": seed})
        assert done.code == 0, done.err
        found[label] = (folder / "reports/law/winner.yaml").read_bytes()
    print(f"{hashlib.sha256(found[label]).hexdigest()[:16]}  {done.wall:5.1f} s  {label}", flush=True)
print(f"byte-identical: {len(set(found.values())) == 1}")
