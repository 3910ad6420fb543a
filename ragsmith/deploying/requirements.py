"""The packages that a pipeline requires, pinned to the installed versions."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ragsmith.errors import UsageError


@dataclass(frozen=True, slots=True)
class Requirements:
    """Required packages: ``pinned`` maps names to versions; ``unpinned`` are requirements not installed here."""

    pinned: dict[str, str]
    unpinned: tuple[str, ...]

    def __sub__(self, other: Requirements) -> Requirements:
        """Return the requirements that ``other`` does not have."""
        pinned = {name: number for name, number in self.pinned.items() if name not in other.pinned}
        return Requirements(pinned, tuple(line for line in self.unpinned if line not in other.unpinned))

    def lines(self) -> list[str]:
        """Return the lines of ``requirements.txt``, sorted by name."""
        return sorted([*(f"{name}=={version}" for name, version in self.pinned.items()), *self.unpinned])


def find_imported_modules(source: bytes) -> set[str]:
    """Return the top-level modules that Python code imports anywhere.

    The standard library, ragsmith and relative imports are excluded.
    """
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
    return {name.partition(".")[0] for name in modules} - {"ragsmith", *sys.stdlib_module_names}


def find_packages(modules: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the installed packages that provide ``modules``, and those of ``modules`` that no package provides.

    If several packages share a namespace, such as ``google``, all of them are returned.
    """
    names = sorted(modules)
    packages_by_module = packages_distributions() if names else {}
    packages = {canonicalize_name(package) for name in names for package in packages_by_module.get(name, ())}
    return tuple(sorted(packages)), tuple(name for name in names if name not in packages_by_module)


def resolve_requirements(
    extras: Iterable[str], package: str = "ragsmith", *, packages: Iterable[str] = ()
) -> Requirements:
    """Return the transitive requirements of ``package`` with ``extras``, and ``packages`` with their requirements.

    ``package`` itself is not included. Environment markers are evaluated for this machine. Local version labels
    (``2.1+cpu``) are dropped.

    Raises:
        UsageError: the installed ``package`` does not have an extra.
    """
    provided = distribution(package).metadata.get_all("Provides-Extra") or []
    if unknown := sorted(
        {canonicalize_name(extra) for extra in extras} - {canonicalize_name(extra) for extra in provided}
    ):
        raise UsageError(
            f"the metadata of the installed {package} is outdated and lacks the extras {', '.join(unknown)}: install "
            "it again (pip install -e . in a checkout)"
        )
    pinned: dict[str, str] = {}
    unpinned: dict[str, None] = {}
    seen: set[tuple[str, str]] = set()
    pending = [(package, extra) for extra in ("", *sorted(extras))]
    for name_to_add in sorted({canonicalize_name(name) for name in packages} - {canonicalize_name(package)}):
        pinned[name_to_add] = Version(distribution(name_to_add).version).public
        pending.append((name_to_add, ""))
    for name, extra in pending:  # grows in the loop
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            if not _belongs_to(requirement, extra):
                continue
            dependency = canonicalize_name(requirement.name)
            try:
                installed = distribution(dependency).version
            except PackageNotFoundError:
                unpinned[f"{dependency}{requirement.specifier}"] = None
                continue
            if dependency != package:
                pinned[dependency] = Version(installed).public
            pending += [(dependency, dependency_extra) for dependency_extra in ("", *sorted(requirement.extras))]
    return Requirements(dict(sorted(pinned.items())), tuple(unpinned))


def _belongs_to(requirement: Requirement, extra: str) -> bool:
    """Whether a requirement belongs to ``extra``, or to the package itself if ``extra`` is empty."""
    if requirement.marker is None:
        return not extra
    applies = requirement.marker.evaluate
    return applies({"extra": extra}) and (not extra or not applies({"extra": ""}))
