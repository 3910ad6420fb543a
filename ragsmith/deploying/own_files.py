"""Files of one's own that a pipeline needs, with what they import from next to them, as they lie in a kit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.deploying.contents import read
from ragsmith.deploying.requirements import imported_by
from ragsmith.errors import UsageError
from ragsmith.plugins import load_file, parts_of

OWN = "own"
"""The folder of a kit in which they lie."""


@dataclass
class OwnFiles:
    """The files of one's own that have been taken into a kit."""

    contents: dict[str, bytes | Path] = field(default_factory=dict)

    def take(self, place: Path) -> str:
        """Take the file ``place``, and say where it lies in the kit.

        Raises:
            UsageError: it imports something from another folder, or another file of that name is in the kit.
        """
        load_file(place)
        home = place.resolve().parent
        for part in parts_of(place):
            if not part.is_relative_to(home):
                raise UsageError(f"{place} imports {part} from another folder: put it next to {place.name}")
            name = f"{OWN}/{part.relative_to(home).as_posix()}"
            if name in self.contents and read(self.contents[name]) != part.read_bytes():
                raise UsageError(f"two files of your own are called {part.name}: give one of them another name")
            self.contents[name] = part
        return f"{OWN}/{place.name}"

    def imports(self) -> set[str]:
        """The modules that they import and that do not lie among them, by the first part of their names."""
        here = {name.split("/")[1].removesuffix(".py") for name in self.contents}
        return {module for content in self.contents.values() for module in imported_by(read(content))} - here
