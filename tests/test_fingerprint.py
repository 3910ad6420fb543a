"""Fingerprints of code: what changes them, and what does not.

Each is taken in a process of its own, over a small package with ragsmith's name, its `digest`, and modules to change.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import ragsmith.digest
import ragsmith.errors
from ragsmith.digest import DISTRIBUTION_NAMES, fingerprint
from ragsmith.plugins import load_file

FUSING = '''\
"""A technique."""

from ragsmith.fusing import fuse

PROMPT = "Answer {question}"


def double(x: int) -> int:
    """Double it."""
    return 2 * fuse(x)
'''
FUSE = "def fuse(x):\n    return x\n"


_known: dict[object, str] = {}
"""Fingerprints by everything they were taken of: the plain case is compared with in every test."""


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., str]:
    """The fingerprint of ``technique.py`` with this source, or of ``name`` of the module ``of``.

    ``modules`` are those of the package. ``again`` takes it even where it is known.
    """
    package = tmp_path / "ragsmith"
    package.mkdir()
    (package / "__init__.py").write_text("")
    shutil.copy(ragsmith.digest.__file__, package / "digest.py")
    shutil.copy(ragsmith.errors.__file__, package / "errors.py")
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def measure(
        source: str = FUSING, of: str = "technique", name: str = "", again: bool = False, **modules: str
    ) -> str:
        key = source, of, name, tuple(modules.items())
        if again or key not in _known:
            (tmp_path / "technique.py").write_text(source)
            for module, text in {"fusing": FUSE, **modules}.items():
                (package / f"{module}.py").write_text(text)
            command = f"from ragsmith.digest import fingerprint; print(fingerprint({of!r}, {name!r}))"
            run = subprocess.run(
                [sys.executable, "-B", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True, env=env
            )
            _known[key] = run.stdout.strip()
        return _known[key]

    return measure


def test_a_fingerprint_is_short_and_the_same_in_every_process(take: Callable[..., str]) -> None:
    assert re.fullmatch("[0-9a-f]{16}", take())
    assert take(again=True) == take(again=True)


@pytest.mark.parametrize(
    "source",
    [
        FUSING.replace("def double", "# a comment\ndef double").replace("2 * fuse(x)", "2 * fuse(x)  # twice"),
        FUSING.replace("x: int) -> int", "\n    x: int,\n) -> int").replace(
            '"Answer {question}"', "'Answer {question}'"
        ),
        FUSING.replace("2 * fuse(x)", "(2*fuse( x ))"),
        FUSING.replace("\n", "\r\n"),
    ],
    ids=["comments", "formatting", "parentheses", "line ends"],
)
def test_comments_and_formatting_do_not_count(take: Callable[..., str], source: str) -> None:
    assert source != FUSING
    assert take(source) == take()


@pytest.mark.parametrize(
    "described",
    [
        FUSING.replace('"""A technique."""', '"""Another description of it."""'),
        FUSING.replace('"""A technique."""\n', ""),
        FUSING.replace('    """Double it."""\n', ""),
    ],
    ids=["docstring", "no docstring", "no function docstring"],
)
def test_docstrings_count_in_files_of_one_s_own_which_may_read_them(take: Callable[..., str], described: str) -> None:
    assert described != FUSING
    assert take(of="ragsmith.mine", mine=described) == take(of="ragsmith.mine", mine=FUSING)
    assert take(described) != take()


def test_the_wording_of_an_error_counts_in_files_of_one_s_own_which_may_read_it(take: Callable[..., str]) -> None:
    raising = "def find(x):\n    raise KeyError('cat')\n"
    assert take(raising) != take(raising.replace("cat", "dog"))


ORDERS = {
    "assignments": ("W = 1\n", "W += 2\n", "W *= 3\n"),
    "one more": ("W = 1\n", "W *= 2\n", "W *= 2\n"),
    "calls": ("L = []\n", "L.append(1)\n", "L.append(2)\n"),
    "a value in between": ("A = 1\n", "W = A\n", "A = 2\n"),
    "definitions": ("def W(): return 1\n", "def W(): return 2\n", ""),
    "imports": ("from ragsmith.one import W\n", "from ragsmith.two import W\n", ""),
}
"""Three statements each, of which the last two do not commute, or are not one."""


@pytest.mark.parametrize(("first", "second", "third"), ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("of", ["technique", "ragsmith.mine"])
def test_the_order_of_statements_counts(take: Callable[..., str], of: str, first: str, second: str, third: str) -> None:
    def taken(*statements: str) -> str:
        text = "".join(statements) + "def used(): return L if 'L' in dir() else W\n"
        return take(text if of == "technique" else "", of=of, name="used", **modules, mine=text)

    modules = {"one": "W = 1\n", "two": "W = 2\n"}
    turned = (second, first) if not third else (first, second) if second == third else (first, third, second)
    assert taken(first, second, third) != taken(*turned)


def test_the_order_of_functions_of_the_package_does_not_count(take: Callable[..., str]) -> None:
    one, two = "def a():\n    return 1\n", "def b():\n    return a() + LIMIT\nLIMIT = 2\n"
    assert take(of="ragsmith.mine", name="b", mine=one + two) == take(of="ragsmith.mine", name="b", mine=two + one)


@pytest.mark.parametrize("of", ["technique", "ragsmith.mine"])
def test_two_imports_that_are_exchanged_are_a_change(take: Callable[..., str], of: str) -> None:
    def taken(first: str, second: str) -> str:
        branches = f"if x:\n    from ragsmith.{first} import f\nelse:\n    from ragsmith.{second} import f\n"
        inside = branches.replace("\n", "\n    ")
        text = f"x = 1\n{branches}def used(x):\n    {inside}return f(x)\n"
        return take(text, of=of, name="used", mine=text, one="def f(x): return 1\n", two="def f(x): return 2\n")

    assert taken("one", "two") != taken("two", "one")


def test_a_file_of_one_s_own_may_have_the_name_of_the_package(tmp_path: Path) -> None:
    prints = []
    for number in (1, 2):
        file = tmp_path / str(number) / "ragsmith.py"
        file.parent.mkdir()
        file.write_text(f"def t():\n    return {number}\n")
        prints.append(fingerprint(load_file(file).__name__))
    assert prints[0] != prints[1]


@pytest.mark.parametrize(
    "source",
    [
        FUSING.replace("2 * fuse(x)", "3 * fuse(x)"),
        FUSING.replace("Answer {question}", "Answer briefly {question}"),
        FUSING.replace("def double(x: int)", "def double(x: int, y: int = 1)"),
        FUSING.replace("return 2", "x += 1\n    return 2"),
    ],
    ids=["expression", "prompt", "parameter", "statement"],
)
def test_statements_and_constants_count(take: Callable[..., str], source: str) -> None:
    assert source != FUSING
    assert take(source) != take()


@pytest.mark.parametrize(
    "statement",
    [
        "from ragsmith.fusing import fuse",
        "from ragsmith import fusing\nfuse = fusing.fuse",
        "import ragsmith.fusing\nfuse = ragsmith.fusing.fuse",
        "from ragsmith.fusing import *",
        "def fuse(x):\n    from ragsmith.fusing import fuse\n    return fuse(x)",
        "try:\n    from ragsmith.fusing import fuse\nexcept ImportError:\n    fuse = None",
    ],
)
def test_a_change_in_an_imported_module_of_the_project_counts(take: Callable[..., str], statement: str) -> None:
    source = FUSING.replace("from ragsmith.fusing import fuse", statement)
    before = take(source)
    assert take(source, fusing=FUSE.replace("return x", "return x + 1")) != before
    assert take(source, fusing="# a comment\n" + FUSE) == before


def test_modules_that_are_imported_indirectly_count(take: Callable[..., str]) -> None:
    through = "from ragsmith.deeper import fuse\n"
    assert take(fusing=through, deeper=FUSE) != take(fusing=through, deeper=FUSE.replace("return x", "return -x"))


def test_modules_that_import_each_other_are_no_endless_loop(take: Callable[..., str]) -> None:
    take(fusing="import ragsmith.back\n" + FUSE, back="import ragsmith.fusing\n")


def test_every_technique_of_the_project_has_a_fingerprint_of_its_own() -> None:
    folder = Path(ragsmith.digest.__file__).parent / "techniques"
    modules = [
        f"ragsmith.techniques.{path.parent.name}.{path.stem}"
        for path in folder.glob("*/*.py")
        if path.stem != "__init__"
    ]
    prints = {fingerprint(module) for module in modules}
    assert len(prints) == len(modules) > 30


def test_a_module_without_source_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_like_this"):
        fingerprint("nothing_like_this")


SHARED = """\
from dataclasses import dataclass

import ragsmith.settings
from ragsmith.reading import Reader, parse as read
from ragsmith import words as language

LIMIT = 5


@dataclass
class Box:
    size: int = LIMIT

    def open(self):
        return language.clean(read(self.size))


def used(box: Box):
    if box.size < 0:
        raise ValueError(f"size {box.size} is too small: give more")
    return box.open()


def unused():
    raise ValueError("another")
"""
READING = "class Reader:\n    pass\n\n\ndef parse(x):\n    return x\n"
WORDS = "def clean(x):\n    return x\n\n\ndef other(x):\n    return -x\n"


@pytest.fixture
def of_used(take: Callable[..., str]) -> Callable[..., str]:
    """The fingerprint of `used` of `SHARED`, or of what a test makes of the modules."""

    def measure(shared: str = SHARED, **modules: str) -> str:
        given = {"settings": "", "reading": READING, "words": WORDS, "shared": shared, **modules}
        return take(of="ragsmith.shared", name="used", **given)

    return measure


@pytest.mark.parametrize(
    "change",
    [
        {"shared": SHARED.replace('"another"', '"one"')},
        {"shared": SHARED.replace("is too small: give more", "is small")},
        {"shared": SHARED.replace("from ragsmith.reading import Reader, parse", "from ragsmith.reading import parse")},
        {"reading": READING.replace("    pass", "    x = 1")},
        {"words": WORDS.replace("-x", "+x")},
        {
            "shared": SHARED.replace("ragsmith.reading", "ragsmith.input").replace("import words as", "import text as"),
            "input": READING,
            "text": WORDS,
        },
        {"shared": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ragsmith.reading as r\n{SHARED}"},
    ],
    ids=["error elsewhere", "wording", "import", "class", "function", "names", "type checker's"],
)
def test_what_the_function_does_not_use_and_wordings_and_names_do_not_count(
    of_used: Callable[..., str], change: dict[str, str]
) -> None:
    assert of_used(**change) == of_used()


@pytest.mark.parametrize(
    "change",
    [
        {"shared": SHARED.replace("LIMIT = 5", "LIMIT = 6")},
        {"shared": SHARED.replace("ValueError(f", "KeyError(f")},
        {"shared": SHARED.replace("box.size < 0", "box.size < 1")},
        {"shared": SHARED.replace("@dataclass\n", "")},
        {"shared": SHARED.replace("language.clean", "language.other")},
        {"reading": READING.replace("return x", "return x + 1")},
        {"words": WORDS.replace("return x", "return x + 1")},
        {"settings": "print('imported')\n"},
        {"words": WORDS + "clean.limit = 5\n"},
    ],
    ids=["constant", "error", "condition", "decorator", "attribute", "import", "method", "side effect", "assignment"],
)
def test_whatever_the_function_uses_and_side_effects_count(of_used: Callable[..., str], change: dict[str, str]) -> None:
    assert of_used(**change) != of_used()


def test_two_functions_that_are_exchanged_are_a_change(take: Callable[..., str]) -> None:
    both = "from ragsmith.one import f\nfrom ragsmith.two import f as g\n\n\ndef used(x):\n    return f(g(x))\n"
    exchanged = both.replace(".one", ".").replace(".two", ".one").replace("ragsmith. ", "ragsmith.two ")
    modules = {"one": "def f(x):\n    return x\n", "two": "def f(x):\n    return 2 * x\n"}
    assert take(of="ragsmith.shared", name="used", shared=both, **modules) != take(
        of="ragsmith.shared", name="used", shared=exchanged, **modules
    )


def test_every_statement_of_a_file_outside_the_package_counts_and_of_those_next_to_it(
    take: Callable[..., str], tmp_path: Path
) -> None:
    source = f"import neighbour\n{FUSING}"
    (tmp_path / "neighbour.py").write_text("A = 1\n")
    before = take(source, name="double", again=True)
    assert take(source + "B = 1\n", name="double", again=True) != before
    (tmp_path / "neighbour.py").write_text("A = 2\n")
    assert take(source, name="double", again=True) != before


def test_versions_of_the_libraries_that_are_used_count(
    take: Callable[..., str], tmp_path: Path, of_used: Callable[..., str]
) -> None:
    def install(version: str) -> None:
        for old in tmp_path.glob("figures-*.dist-info"):
            shutil.rmtree(old)
        folder = tmp_path / f"figures-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: figures\nVersion: {version}\n")

    def taken(use: str) -> str:
        shared = f"import figures\n\n\ndef used(x):\n    return {use}\n\n\ndef unused(x):\n    return figures.cos(x)\n"
        return take(of="ragsmith.shared", name="used", shared=shared, again=True)

    install("1.0")
    before, without = taken("figures.sin(x)"), taken("x")
    install("1.1")
    assert taken("figures.sin(x)") != before
    assert taken("x") == without


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of code that was changed long ago."""
    file = tmp_path / "aged.py"
    file.write_text("def f(x):\n    return x\n")
    os.utime(file, (1_000_000_000, 1_000_000_000))
    return file


def remembering(
    folder: Path,
    cache: Path,
    then: str = "",
    before: str = "pass",
    home: Path = Path(ragsmith.digest.__file__).parents[1],
) -> str:
    command = f"import ragsmith.digest as d; {before}; print(d.fingerprint('aged')); {then}"
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(home)}
    run = subprocess.run(
        [sys.executable, "-B", "-c", command], cwd=folder, capture_output=True, text=True, check=True, env=env
    )
    assert not run.stderr
    return run.stdout.strip()


def test_what_a_process_read_another_remembers_until_the_file_changes(old: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = remembering(tmp_path, cache)
    assert remembering(tmp_path, cache, before="import ast; ast.parse = None") == first
    stat = old.stat()
    old.write_text("def f(x):\n    return y\n")  # as long
    os.utime(old, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as unpacking an archive does
    assert remembering(tmp_path, cache) != first


def test_a_file_that_takes_the_place_of_another_of_the_same_age_and_size_is_read(old: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = remembering(tmp_path, cache)
    other = tmp_path / "other.py"
    other.write_text("def f(x):\n    return y\n")
    os.utime(other, ns=(old.stat().st_atime_ns, old.stat().st_mtime_ns))
    other.replace(old)
    assert remembering(tmp_path, cache) != first


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff\xfe", b"null\n[]"])
def test_a_damaged_memory_is_written_again(old: Path, tmp_path: Path, damage: bytes) -> None:
    cache = tmp_path / "cache"
    first = remembering(tmp_path, cache)
    (memory,) = (cache / "ragsmith").iterdir()
    good = memory.read_bytes()
    memory.write_bytes(damage or good[:-5])
    assert remembering(tmp_path, cache) == first
    assert memory.read_bytes() == good


def test_outlines_unchanged_for_a_month_are_removed(old: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "ragsmith"
    folder.mkdir(parents=True)
    gone, used, foreign = folder / "code.cpython-39.json", folder / "code.cpython-310.json", folder / "other.json"
    for memory in (gone, used, foreign):
        memory.write_text("")
    for aged in (gone, foreign):
        os.utime(aged, (1_000_000_000, 1_000_000_000))
    remembering(tmp_path, tmp_path / "cache")
    assert not gone.exists()
    assert used.exists()
    assert foreign.exists()


def test_an_installation_has_a_memory_of_its_own(old: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "ragsmith"
    other.mkdir(parents=True)
    for name in ("__init__", "digest", "errors"):
        shutil.copy(Path(ragsmith.digest.__file__).with_name(f"{name}.py"), other)
    remembering(tmp_path, tmp_path / "cache")
    (first,) = (tmp_path / "cache" / "ragsmith").iterdir()
    before = first.read_bytes()
    remembering(tmp_path, tmp_path / "cache", home=other.parent)
    assert len(list((tmp_path / "cache" / "ragsmith").iterdir())) == 2
    assert first.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_no_error(old: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert remembering(tmp_path, tmp_path / "cache")


def test_finding_a_module_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "aged.py").write_text("")
    check = "d.fingerprint('ragsmith.models.served.cohere'); import sys; print(*sorted(sys.modules))"
    modules = remembering(tmp_path, tmp_path / "cache", check).split()
    assert "ragsmith.models" not in modules
    assert "openai" not in modules


@pytest.mark.parametrize("as_package", [False, True])
def test_what_is_imported_from_a_folder_on_the_path_of_python_counts_as_source(
    tmp_path: Path, as_package: bool
) -> None:
    def taken(folder: str, value: int) -> str:
        file = tmp_path / folder / ("elsewhere/value.py" if as_package else "elsewhere.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"VALUE = {value}\n")
        before = f"import sys; sys.path.insert(0, {str(file.parents[as_package])!r})"
        return remembering(tmp_path, tmp_path / "cache", before=before)

    (tmp_path / "aged.py").write_text(f"from {'elsewhere.value' if as_package else 'elsewhere'} import VALUE\n")
    assert taken("library", 1) != taken("library", 2)
    assert taken("site-packages", 1) == taken("site-packages", 2)


def test_libraries_that_are_imported_under_another_name_are_those_that_are_installed() -> None:
    installed = packages_distributions()
    here = {name: [package] for name, package in DISTRIBUTION_NAMES.items() if name in installed}
    assert here
    assert here == {name: installed[name] for name in here}


INDEX = """\
from ragsmith.digest import not_fingerprinted
from ragsmith.sending import pack


class Index:
    def __init__(self):
        self.kept = {}

    def search(self, query):
        return self.kept[query]
"""
MARKED = """
    @not_fingerprinted
    def send(self):
        return pack(self.kept)
"""


def of_index(take: Callable[..., str], index: str, pack: str = "zip") -> str:
    sending = f"def pack(kept):\n    return {pack}(kept)\n"
    return take(index, of="ragsmith.index", name="Index", index=index, sending=sending)


def test_a_method_that_not_fingerprinted_does_not_count_nor_what_it_alone_uses(take: Callable[..., str]) -> None:
    without = of_index(take, INDEX)
    assert of_index(take, INDEX + MARKED) == without
    assert of_index(take, INDEX + MARKED.replace("self.kept", "dict(self.kept)")) == without
    assert of_index(take, INDEX + MARKED, pack="list") == without


def test_a_method_without_the_mark_counts_and_so_does_marking_one_that_counts(take: Callable[..., str]) -> None:
    unmarked = MARKED.replace("    @not_fingerprinted\n", "")
    different = {
        of_index(take, INDEX),
        of_index(take, INDEX + unmarked),
        of_index(take, INDEX + unmarked, pack="list"),
        of_index(take, INDEX + unmarked.replace("self.kept", "dict(self.kept)")),
        of_index(take, INDEX.replace("    def search", "    @not_fingerprinted\n    def search")),
    }
    assert len(different) == 5


def test_a_mark_of_another_module_is_no_mark(take: Callable[..., str]) -> None:
    other = INDEX.replace("from ragsmith.digest", "from ragsmith.sending")
    assert of_index(take, other + MARKED) != of_index(take, other)


def test_code_of_the_script_that_is_run_is_sent_to_a_file_of_its_own() -> None:
    with pytest.raises(
        ragsmith.errors.UsageError, match=r'a module of its own, .* imports=\["FILE.py"\]; in a notebook'
    ):
        fingerprint("__main__", "technique")
