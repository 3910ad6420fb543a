"""Make the ten small corpora of `benchmarks/corpora`, with 40 questions each, of packages that anybody can fetch.

    python benchmarks/other_corpora.py FOLDER [NAME ...]

The repository has none of their texts: a recipe names packages of PyPI, Debian and npm, their files by patterns, and
what becomes of them, and tells by digests whether the documents are those that the questions were written for;
evidence is a place in a document, and is quoted from it here. Each corpus becomes the data set FOLDER/NAME. One that is
there is only compared with its recipe. Where a document differs, or a package cannot be had, it is named, and its
corpus is left out; exit code 1 then.

Packages are fetched by `pip`, `apt-get` and `npm`. Those of Debian are of release 12, and `apt-get update` has to have
run. Read HTML with the extra `documents`: a recipe names the versions that its documents were read with.

A recipe's `names` say what files are called: `file`, each by its own name, or by its whole path with `__` between the
folders where two have the same one; `package`, by the package's name and its own. What is compressed with gzip is
decompressed. With `convert: roff` manual pages become text, and their names end in `.md`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from roff import roff_to_text

import ragsmith
from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, format_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import UsageError
from ragsmith.text.strict_yaml import read_yaml
from ragsmith.types import Dataset

CORPORA = Path(__file__).resolve().parent / "corpora"
RECIPE = "recipe.yaml"
DIGITS = 12
"""Of the SHA-256 of a document's text."""


@dataclass(frozen=True)
class Package:
    """A package in one version, and patterns of the files that are taken, from its top folder on."""

    registry: str
    name: str
    version: str
    files: Sequence[str]
    archive: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.registry})"

    @property
    def fetching(self) -> list[str]:
        """The command that puts the package's archive into the folder in which it runs."""
        match self.registry, self.archive:
            case "pypi", "sdist" | "wheel":
                form = "--no-binary" if self.archive == "sdist" else "--only-binary"
                pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
                return [*pip, form, self.name, f"{self.name}=={self.version}"]
            case "debian", "":
                return ["apt-get", "download", f"{self.name}={self.version}"]
            case "npm", "":
                return ["npm", "pack", f"{self.name}@{self.version}"]
        raise UsageError(f"{self}: there is no registry {self.registry!r} with archives {self.archive!r}")


@dataclass(frozen=True)
class Recipe:
    """How a corpus is made: what ``dataset.yaml`` says of it, where files come from, and digests of the documents."""

    about: Mapping[str, str]
    names: str
    convert: str
    read_with: Sequence[str]  # as pip names versions
    packages: Sequence[Package]
    documents: Mapping[str, str]

    @classmethod
    def read(cls, corpus: Path) -> Recipe:
        """Read the recipe in a folder of `benchmarks/corpora`. Raises ``UsageError``."""
        tree = read_yaml(corpus / RECIPE)
        said = tree.mapping(known=(*KEYS, *cls.__dataclass_fields__))
        about = {key: said.pop(key) for key in KEYS}
        packages = [Package(**package) for package in said.pop("packages")]
        for key, known in (("names", ("file", "package")), ("convert", ("none", "roff"))):
            if said[key] not in known:
                raise tree.error((key,), f"{key!r} must be one of {', '.join(known)}, not {said[key]!r}")
        return cls(about, packages=packages, **said)


Fetch = Callable[[Package, Path], Path]
"""Puts the files of a package below a new folder, and returns their top folder."""


def fetch(package: Package, folder: Path) -> Path:
    """Fetch a package with the client of its registry, and unpack it. Raises ``UsageError``."""
    folder.mkdir()
    _run(package, package.fetching, folder)
    [archive] = folder.iterdir()
    files = folder / "files"
    files.mkdir()
    if archive.suffix == ".deb":
        _run(package, ["dpkg-deb", "-x", archive.name, files.name], folder)
    elif archive.suffix == ".whl":
        shutil.unpack_archive(archive, files, "zip")
    else:
        shutil.unpack_archive(archive, files, filter="data")
        [files] = files.iterdir()
    return files


def _run(package: Package, command: Sequence[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise UsageError(f"{package} cannot be had: {command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.splitlines() if package.name in line]
        raise UsageError(f"{package} cannot be had: {said[-1] if said else f'{command[0]} failed'}") from None


def chosen(package: Package, top: Path) -> dict[str, bytes]:
    """Return the decompressed files that a package's patterns choose, by their paths from its top folder.

    Raises ``UsageError`` where a pattern chooses none.
    """
    files: dict[str, bytes] = {}
    for pattern in package.files:
        paths = sorted(path for path in top.glob(pattern) if path.is_file())
        if not paths:
            raise UsageError(f"{package} has no file {pattern}")
        for path in paths:
            data = path.read_bytes()
            name = path.relative_to(top).as_posix()
            files[name.removesuffix(".gz")] = gzip.decompress(data) if name.endswith(".gz") else data
    return files


def named(recipe: Recipe, files: Mapping[tuple[str, str], bytes]) -> dict[str, bytes]:
    """Return converted files by the names that a recipe gives them; ``files`` go by package and path.

    Raises ``UsageError`` where two would have the same name.
    """
    shared = Counter(PurePosixPath(path).name for _, path in files)
    result: dict[str, bytes] = {}
    for (package, path), data in files.items():
        name = PurePosixPath(path).name
        if recipe.names == "package":
            name = f"{package}__{name}"
        elif shared[name] > 1:
            name = path.replace("/", "__")
        if name in result:
            raise UsageError(f"two files are called {name}")
        result[name] = data
    if recipe.convert == "roff":
        return {f"{name}.md": roff_to_text(data.decode()).encode() for name, data in result.items()}
    return result


def make(corpus: Path, folder: Path, fetch: Fetch = fetch) -> Dataset:
    """Make the data set of a corpus in ``folder``, or compare the one there with the recipe; return it.

    Raises ``UsageError`` where a package cannot be had or a document differs; nothing new is left behind then.
    """
    recipe = Recipe.read(corpus)
    output = folder / recipe.about["name"]
    if output.exists():
        _compare(recipe, load_documents(output))
        return ragsmith.load_dataset(output)
    _can_read(recipe)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as name:
        draft = Path(name)
        packages, files, data_set = (draft / part for part in ("packages", "files", "data"))
        for part in (packages, files, data_set):
            part.mkdir()
        found: dict[tuple[str, str], bytes] = {}
        for package in recipe.packages:
            top = fetch(package, packages / package.name)
            found |= {(package.name, path): data for path, data in chosen(package, top).items()}
        for file, data in named(recipe, found).items():
            (files / file).write_bytes(data)
        (data_set / MANIFEST).write_text(format_manifest(recipe.about, {}), encoding="utf-8")
        ragsmith.init_dataset(files, data_set)
        documents = load_documents(data_set)
        _compare(recipe, documents)
        (data_set / QUESTIONS).write_text(quoted(corpus / QUESTIONS, documents), encoding="utf-8")
        ragsmith.load_dataset(data_set)  # the evidence is checked here
        data_set.rename(output)
    return ragsmith.load_dataset(output)


def _can_read(recipe: Recipe) -> None:
    """Raise ``UsageError`` where a package that documents are read with is not installed, in whatever version."""
    for wanted in recipe.read_with:
        try:
            version(wanted.partition("==")[0])
        except PackageNotFoundError:
            raise UsageError(f"its documents are read with {wanted}, which is not installed") from None


def digests(data: Dataset) -> dict[str, str]:
    """Return the first digits of the SHA-256 of each document's text, by its identifier."""
    return {one.id: sha256(one.text.encode()).hexdigest()[:DIGITS] for one in data.documents}


def _compare(recipe: Recipe, data: Dataset) -> None:
    """Raise ``UsageError`` with every document that is not that of the recipe."""
    wanted, there = recipe.documents, digests(data)
    if wanted == there:
        return
    changed = sorted(id_ for id_ in wanted.keys() & there.keys() if wanted[id_] != there[id_])
    parts = {
        "differ": changed,
        "are missing": sorted(wanted.keys() - there.keys()),
        "are not in the recipe": sorted(there.keys() - wanted.keys()),
    }
    wrong = [f"documents that {what}: {', '.join(those)}" for what, those in parts.items() if those]
    versions = f"; they were read with {' and '.join(recipe.read_with)}" if recipe.read_with else ""
    raise UsageError("; ".join(wrong) + versions)


def quoted(questions: Path, data: Dataset) -> str:
    """Return the questions in a file, a line each, whose evidence has the text that stands at its place."""
    texts = {document.id: document.text for document in data.documents}
    lines = []
    for line in questions.read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        for place in question["evidence"]:
            place["text"] = texts[place["doc"]][place["start"] : place["end"]]
        lines.append(json.dumps(question, ensure_ascii=False) + "\n")
    return "".join(lines)


def main(arguments: Sequence[str] | None = None, *, corpora: Path = CORPORA, fetch: Fetch = fetch) -> int:
    known = sorted(path.parent.name for path in corpora.glob(f"*/{RECIPE}"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data sets go")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(known)}; all if not given")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"there is no corpus {unknown[0]!r}; known: {', '.join(known)}")
    names, left_out = given.names or known, []
    for name in names:
        try:
            data = make(corpora / name, given.folder, fetch)
        except UsageError as error:
            left_out.append(name)
            print(f"{name}: {error}", file=sys.stderr, flush=True)
        else:
            print(f"{name}: {len(data.documents)} documents, {len(data.examples)} questions", flush=True)
    if left_out:
        print(f"{len(left_out)} of {len(names)} corpora were left out: {', '.join(left_out)}", file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
