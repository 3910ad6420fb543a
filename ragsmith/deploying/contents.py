"""The files of a starter kit: the data, the user's code, and ``winner.yaml``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from ragsmith.datasets.documents import FOLDER
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.sources import read_sources
from ragsmith.deploying.requirements import find_imported_modules
from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.plugins import load_file, loaded_modules, parts_of

Contents = Mapping[str, bytes | Path]
"""The bytes, or the file to copy, by the path in the kit with ``/`` between folders."""

DATA_FOLDER = "data"
"""Folder of a kit with the data set or the documents."""
USER_CODE_FOLDER = "own"
"""Folder of a kit with the user's code."""
WINNER = "winner.yaml"
WINNER_HEADER = (
    "# A pipeline found by ragsmith for the documents in data/.  To ask it a question:  "
    'ragsmith ask winner.yaml "your question"\n'
)


def read_bytes(content: bytes | Path) -> bytes:
    """Return the bytes of an entry of `Contents`."""
    return content if isinstance(content, bytes) else content.read_bytes()


def visible_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below ``folder`` with their relative paths, without hidden files and compiled modules."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in relative.parts):
            yield relative.as_posix(), path


def data_files(folder: Path, *, questions: bool) -> Contents:
    """Return the files of the data set or of the documents in ``folder``, with or without the questions.

    ``folder`` was loaded before, so it contains no links and no files that cannot be read.
    """
    documents = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    files = {f"{DATA_FOLDER}/{FOLDER}/{name}": path for name, path in visible_files(documents)}
    names = [MANIFEST, *([QUESTIONS] if questions else []), *([SOURCES] if _sources_are_relative(folder) else [])]
    if documents != folder:
        files |= {f"{DATA_FOLDER}/{name}": folder / name for name in names if (folder / name).is_file()}
    return files


def _sources_are_relative(folder: Path) -> bool:
    paths = [PurePosixPath(row.source) for row in read_sources(folder)]
    return not any(path.is_absolute() or ".." in path.parts for path in paths)


@dataclass
class UserFiles:
    """The user's code in a kit, with the modules that it imports from its folder."""

    contents: dict[str, bytes | Path] = field(default_factory=dict)

    def add(self, path: Path) -> str:
        """Add the file ``path`` and the modules that it imports from its folder; return its path in the kit.

        Raises:
            UsageError: the file imports from another folder, or the kit has a different file of that name.
        """
        load_file(path)
        folder = path.resolve().parent
        for part in parts_of(path):
            if not part.is_relative_to(folder):
                raise UsageError(f"{path} imports {part} from another folder: put it next to {path.name}")
            name = f"{USER_CODE_FOLDER}/{part.relative_to(folder).as_posix()}"
            if name in self.contents and read_bytes(self.contents[name]) != part.read_bytes():
                raise UsageError(f"two of your files are called {part.name}: rename one of them")
            self.contents[name] = part
        return f"{USER_CODE_FOLDER}/{path.name}"

    def imported_modules(self) -> set[str]:
        """Return the top-level modules that the files import, without the files themselves."""
        own_modules = {name.split("/")[1].removesuffix(".py") for name in self.contents}
        modules = {
            module for content in self.contents.values() for module in find_imported_modules(read_bytes(content))
        }
        return modules - own_modules


def winner_content(
    content: Mapping[str, Any], pipeline: Pipeline, user_files: UserFiles, *, questions: bool
) -> dict[str, Any]:
    """Return the content of a pipeline's file with all paths replaced by those in the kit.

    Scores are included if they belong to the same documents and questions. The address of the vector store is
    omitted, as it is a setting of the kit.
    """
    data = pipeline.setup.dataset
    kit_content = {key: value for key, value in content.items() if key != "vector_store"}
    if not questions or pipeline.found_on != data.digest:
        kit_content = {key: value for key, value in kit_content.items() if key not in ("expected", "reference")}
    kit_content["dataset"] = {
        "name": data.name,
        "path" if questions else "documents": DATA_FOLDER,
        "digest": data.digest,
    }
    if imports := content.get("imports"):
        files = {fingerprint(module.__name__): Path(str(module.__file__)) for module in loaded_modules()}
        kit_content["imports"] = [{**entry, "file": user_files.add(files[entry["digest"]])} for entry in imports]
    if pipeline.fitness.file:
        kit_content["fitness"] = {**content["fitness"], "file": user_files.add(Path(pipeline.fitness.file))}
    return kit_content
