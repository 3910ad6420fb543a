"""What has to be installed for a pipeline, in the versions that are installed here."""

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
class Needed:
    """Packages that have to be installed: ``pinned`` by name to version; ``loose`` are not installed here."""

    pinned: dict[str, str]
    loose: tuple[str, ...]

    def lines(self) -> list[str]:
        """The lines of a file of requirements, in the order of names."""
        return sorted([*(f"{name}=={version}" for name, version in self.pinned.items()), *self.loose])


def imported_by(source: bytes) -> set[str]:
    """The modules that Python code imports, wherever in it, by the first part of their names.

    Those of Python itself and of ragsmith are left out, and so is what is imported relative to the file.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found} - {"ragsmith", *sys.stdlib_module_names}


def packages_of(modules: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The installed packages that ``modules`` are in, and those of ``modules`` that are in none.

    Several packages may share the first part of a name, as all below ``google`` do: then each of them is named.
    """
    wanted = sorted(modules)
    known = packages_distributions() if wanted else {}
    found = {canonicalize_name(package) for name in wanted for package in known.get(name, ())}
    return tuple(sorted(found)), tuple(name for name in wanted if name not in known)


def needed(extras: Iterable[str], package: str = "ragsmith", *, further: Iterable[str] = ()) -> Needed:
    """What ``package`` with ``extras`` needs, directly or not, without itself; and ``further`` packages with theirs.

    Conditions on system and Python are answered for this machine. Of a version built for a machine (``2.1+cpu``) the
    public part is named, which registries have.

    Raises:
        UsageError: the installed ``package`` knows nothing of an extra.
    """
    known = distribution(package).metadata.get_all("Provides-Extra") or []
    if strange := sorted({canonicalize_name(extra) for extra in extras} - {canonicalize_name(one) for one in known}):
        raise UsageError(
            f"the installed {package} is described as an earlier one, without {', '.join(strange)}: install it again "
            "(pip install -e . in a checkout), so that what a kit needs is known"
        )
    pinned: dict[str, str] = {}
    loose: dict[str, None] = {}
    seen: set[tuple[str, str]] = set()
    ahead = [(package, extra) for extra in ("", *sorted(extras))]
    for one in sorted({canonicalize_name(one) for one in further} - {canonicalize_name(package)}):
        pinned[one] = Version(distribution(one).version).public
        ahead.append((one, ""))
    for name, extra in ahead:  # grows on the way
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for line in distribution(name).requires or ():
            asked = Requirement(line)
            if not _asks(asked, extra):
                continue
            its = canonicalize_name(asked.name)
            try:
                installed = distribution(its).version
            except PackageNotFoundError:
                loose[f"{its}{asked.specifier}"] = None
                continue
            if its != package:
                pinned[its] = Version(installed).public
            ahead += [(its, further) for further in ("", *sorted(asked.extras))]
    return Needed(dict(sorted(pinned.items())), tuple(loose))


def _asks(one: Requirement, extra: str) -> bool:
    """Whether it is one of ``extra``, or, with none, of the package itself."""
    if one.marker is None:
        return not extra
    return one.marker.evaluate({"extra": extra}) and (not extra or not one.marker.evaluate({"extra": ""}))
