"""README and CONTRIBUTING: their generated parts are fresh, their links lead somewhere, their space can be pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documentation import README, rendered

from ragsmith.pipelines.space_file import load_space

ROOT = README.parent


def test_the_generated_parts_are_fresh() -> None:
    text = README.read_text(encoding="utf-8")
    assert rendered(text) == text


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md"])
def test_every_relative_link_leads_to_a_file(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_benchmark_is_described() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted((ROOT / "benchmarks").glob("bench_*.py")) if path.name not in text] == []


def test_the_space_in_the_readme_can_be_pasted(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(name: mine\n.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "mine.yaml"
    file.write_text(example, encoding="utf-8")
    space = load_space(file)
    assert 0 < space.feasible_size < space.size
