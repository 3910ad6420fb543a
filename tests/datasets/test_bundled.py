"""Data sets and search spaces are found by name in a checkout and in an installed wheel."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from ragsmith.datasets.bundled import PACKAGE, bundled_domains, bundled_names, bundled_path
from ragsmith.errors import UsageError


def bundle(home: Path) -> None:
    for name in ("law", "finance"):
        (home / "datasets" / name).mkdir(parents=True)
        (home / "datasets" / name / "dataset.yaml").write_text(f"name: {name}\n")
    (home / "datasets" / "draft").mkdir()
    (home / "search_spaces").mkdir()
    (home / "search_spaces" / "default.yaml").write_text("name: default\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The package's folder in a checkout."""
    bundle(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "ragsmith").mkdir()
    return tmp_path / "ragsmith"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The package's folder in site-packages, beside somebody else's ``datasets``."""
    bundle(tmp_path / "ragsmith" / "_bundled")
    (tmp_path / "datasets" / "foreign").mkdir(parents=True)
    (tmp_path / "datasets" / "foreign" / "dataset.yaml").touch()
    return tmp_path / "ragsmith"


@pytest.mark.parametrize("install", ["checkout", "wheel"])
def test_names_and_paths(install: str, request: pytest.FixtureRequest) -> None:
    package: Path = request.getfixturevalue(install)
    assert bundled_names("datasets", package=package) == ("finance", "law")
    assert bundled_names("search_spaces", package=package) == ("default",)
    assert (bundled_path("datasets", "law", package=package) / "dataset.yaml").read_text() == "name: law\n"
    assert bundled_path("search_spaces", "default", package=package).read_text() == "name: default\n"


def test_an_existing_path_wins(checkout: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    assert bundled_path("datasets", own, package=checkout) == own
    assert bundled_path("datasets", str(own), package=checkout) == own


def test_a_folder_is_not_a_search_space(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is neither a YAML file nor the name of a search space; known: default"):
        bundled_path("search_spaces", tmp_path, package=checkout)


def test_an_unknown_name_is_answered_with_the_known_ones(checkout: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        bundled_path("datasets", "finace", package=checkout)
    expected = "'finace' is neither a folder nor the name of a data set; did you mean 'finance'? known: finance, law"
    assert str(refusal.value) == expected


@pytest.mark.parametrize("name", ["draft", "../datasets/law", "law/../law", "*"])
def test_only_listed_names_are_found(checkout: Path, name: str) -> None:
    with pytest.raises(UsageError, match="known: finance, law"):
        bundled_path("datasets", name, package=checkout)


MOST_BYTES = 6_000_000


def test_what_a_wheel_carries_stays_small() -> None:
    """Each file compressed alone, as a wheel has it; of the package itself all that is no bytecode."""
    carried = [PACKAGE, PACKAGE.parent / "datasets", PACKAGE.parent / "search_spaces"]
    files = [file for home in carried for file in home.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert sum(len(zlib.compress(file.read_bytes())) for file in files) < MOST_BYTES


def test_domains_are_found_by_themselves_and_all_but_the_workshop(checkout: Path, tmp_path: Path) -> None:
    assert bundled_domains(package=checkout) == ("finance", "law")
    for name in ("workshop", "zoology"):
        (tmp_path / "datasets" / name).mkdir()
        (tmp_path / "datasets" / name / "dataset.yaml").touch()
    assert bundled_domains(package=checkout) == ("finance", "law", "zoology")
