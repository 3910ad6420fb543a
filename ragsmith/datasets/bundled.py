"""Data sets and search spaces bundled with ragsmith, by name.

The files are next to the package in a checkout or an editable install, and in ``ragsmith/_bundled`` in a wheel.
"""

from pathlib import Path
from typing import Literal

from ragsmith.errors import UsageError
from ragsmith.text.suggest import did_you_mean

Kind = Literal["datasets", "search_spaces"]

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder of the installed package."""

ALL_DOMAINS = "all"
"""Name of all bundled domains where several data sets are accepted."""

NON_DOMAINS = frozenset({"workshop"})
"""Bundled data sets that are not domains: `workshop` has files of all types."""


def bundled_path(kind: Kind, name: str | Path, *, package: Path = PACKAGE) -> Path:
    """Return the folder of a data set or the file of a search space, given as a path or by name.

    An existing path takes precedence. ``package`` is the folder of the installed package. Raises ``UsageError`` for an
    unknown name.
    """
    path = Path(str(name))
    if path.is_dir() if kind == "datasets" else path.is_file():
        return path
    return find_bundled(kind, str(name), package=package)


def find_bundled(kind: Kind, name: str, *, package: Path = PACKAGE) -> Path:
    """Return the bundled data set or search space ``name``, ignoring other paths. Raises ``UsageError``."""
    known = bundled_names(kind, package=package)
    if name in known:
        return _bundle_folder(kind, package) / (name if kind == "datasets" else f"{name}.yaml")
    what, form = ("data set", "folder") if kind == "datasets" else ("search space", "YAML file")
    problem = (
        "a file: give the folder of a data set or of documents; `ragsmith ask` takes the file of a pipeline, and "
        "`ragsmith dataset anchor` a list of questions"
        if kind == "datasets" and Path(name).is_file()
        else f"neither a {form} nor the name of a {what}"
    )
    raise UsageError(f"{name!r} is {problem}; {did_you_mean(name, known)}")


def bundled_names(kind: Kind, *, package: Path = PACKAGE) -> tuple[str, ...]:
    """Return the sorted names of bundled data sets or search spaces."""
    home = _bundle_folder(kind, package)
    if kind == "datasets":
        return tuple(sorted(p.parent.name for p in home.glob("*/dataset.yaml")))
    return tuple(sorted(p.stem for p in home.glob("*.yaml")))


def bundled_domains(*, package: Path = PACKAGE) -> tuple[str, ...]:
    """Return the sorted names of bundled domains: collections of prose about one subject."""
    return tuple(name for name in bundled_names("datasets", package=package) if name not in NON_DOMAINS)


def _bundle_folder(kind: Kind, package: Path) -> Path:
    """Return the folder of the bundled data sets or search spaces.

    A ``pyproject.toml`` next to the package identifies a checkout: next to an installed package, a folder ``datasets``
    may belong to another distribution.
    """
    checkout = package.parent
    return checkout / kind if (checkout / "pyproject.toml").is_file() else package / "_bundled" / kind
