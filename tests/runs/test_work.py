"""The work of a search, in counts that do not depend on the machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import counting
import pytest
import yaml

import ragsmith

COUNTS: dict[str, dict[str, int]] = yaml.safe_load(Path(__file__).with_name("work.yaml").read_text(encoding="utf-8"))


@pytest.mark.processes
def test_the_work_of_a_search_is_unchanged(tiny_folder: Path, tiny_space: Path) -> None:
    run = subprocess.run(
        [sys.executable, counting.__file__, str(tiny_folder), str(tiny_space)],
        env={**os.environ, "PYTHONPATH": str(Path(ragsmith.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout)
    assert {kind: list(counts) for kind, counts in found.items()} == {k: list(counts) for k, counts in COUNTS.items()}
    changed = [
        f"{kind}, {name}: {found[kind][name]:,} instead of {count:,}"
        for kind, counts in COUNTS.items()
        for name, count in counts.items()
        if found[kind][name] != count
    ]
    assert changed == [], f"{'; '.join(changed)}: where that is needed, change tests/runs/work.yaml with it"
