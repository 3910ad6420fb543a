"""The wheel of a kit has what comes with ragsmith, and nothing that merely lies about in a checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ragsmith.deploying.wheel import package_files
from ragsmith.errors import UsageError

OURS = ("search_spaces/größe.yaml", "search_spaces/default.yaml")
GOLD = ("datasets/law/dataset.yaml", "datasets/law/questions.jsonl")
STRAY = ("search_spaces/mine.yaml", "search_spaces/old/mine.yaml")
HIDDEN = ("ragsmith/.env", "ragsmith/.idea/workspace.xml", "search_spaces/.cache/a.yaml", "search_spaces/.DS_Store")
CODE = ("ragsmith/__init__.py", "ragsmith/techniques/new.py")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder laid out as a checkout is, that git does not keep."""
    for name in (*OURS, *GOLD, *STRAY, *HIDDEN, *CODE, "ragsmith/__pycache__/old.pyc", "elsewhere.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def keep(checkout: Path) -> None:
    """Have git keep what is ours, one hidden file and the package among it."""
    for command in (["init", "-q"], ["add", *OURS, *GOLD, "ragsmith/__init__.py", "search_spaces/.DS_Store"]):
        subprocess.run(["git", *command], cwd=checkout, check=True)


def named(*files: str) -> set[str]:
    return {name if name.startswith("ragsmith/") else f"ragsmith/_bundled/{name}" for name in files}


@needs_git
def test_of_a_checkout_spaces_of_one_s_own_and_data_sets_stay_where_they_are(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(checkout)
    other = tmp_path_factory.mktemp("other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))  # as in a hook of another repository
    found = dict(package_files(checkout / "ragsmith"))
    assert set(found) == named(*OURS, *CODE)
    assert all(path.read_text() in (*OURS, *CODE) for path in found.values())


@needs_git
def test_what_git_lists_and_nobody_has_any_more_is_left_out(checkout: Path) -> None:
    keep(checkout)
    (checkout / OURS[0]).unlink()
    assert {name for name, _ in package_files(checkout / "ragsmith")} == named(*OURS[1:], *CODE)


def test_without_git_everything_is_taken_that_is_not_hidden(checkout: Path) -> None:
    assert {name for name, _ in package_files(checkout / "ragsmith")} == named(*OURS, *STRAY, *CODE)


def test_what_is_installed_has_its_spaces_inside_and_its_data_sets_stay(checkout: Path) -> None:
    for name in (OURS[1], *GOLD):
        (checkout / "ragsmith" / "_bundled" / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / "ragsmith" / "_bundled" / name).write_text(name)
    assert {name for name, _ in package_files(checkout / "ragsmith")} == named(OURS[1], *CODE)


@pytest.mark.parametrize("git", [False, True])
def test_a_checkout_of_which_git_says_nothing_is_refused(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, git: bool
) -> None:
    (checkout / ".git").write_text("gitdir: nowhere\n")
    if not git:
        monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(UsageError, match="git cannot list which search spaces"):
        list(package_files(checkout / "ragsmith"))
