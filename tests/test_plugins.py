"""Python files of one's own: what loading one gives, and what is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from ragsmith.errors import UsageError
from ragsmith.plugins import LoadedFiles, load_file


def test_a_file_is_run_once_and_its_functions_can_be_pickled(tmp_path: Path) -> None:
    file = tmp_path / "own_once.py"
    file.write_text("def double(x):\n    return 2 * x\n")
    module = load_file(file)
    assert load_file(str(file)) is module
    assert pickle.loads(pickle.dumps(module.double)) is module.double


def test_the_name_of_the_module_does_not_say_where_the_file_lies(tmp_path: Path) -> None:
    names = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own_place.py").write_text("A = 1\n")
        names.append(load_file(tmp_path / folder / "own_place.py").__name__)
    assert names[0] == names[1]


def test_a_file_imports_what_stands_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "own_neighbour.py").write_text("VALUE = 3\n")
    (tmp_path / "own_importing.py").write_text("from own_neighbour import VALUE\n")
    assert load_file(tmp_path / "own_importing.py").VALUE == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", r"\(line 1\): SyntaxError"),
        ("A = 1\nB = A / 0\n", r"\(line 2\): ZeroDivisionError: division by zero"),
        ("import nothing_like_this\n", r"\(line 1\): ModuleNotFoundError"),
    ],
)
def test_a_file_that_cannot_be_run_is_named_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own_broken.py"
    file.write_text(text)
    for _ in range(2):  # what failed is not taken for loaded
        with pytest.raises(UsageError, match=rf"own_broken\.py cannot be imported {message}"):
            load_file(file)


def test_a_missing_file_and_one_that_is_not_python_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.py cannot be imported \(No such file or directory\)"):
        load_file(tmp_path / "none.py")
    (tmp_path / "notes.txt").write_text("A = 1\n")
    with pytest.raises(UsageError, match=r"its name must end in \.py"):
        load_file(tmp_path / "notes.txt")


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own_changing.py"
    file.write_text("A = 1\n")
    load_file(file)
    file.write_text("A = 2\n")
    with pytest.raises(UsageError, match="has changed since it was imported"):
        load_file(file)


def test_a_file_that_the_script_imported_itself_is_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print('run')\n")
    program = "import mine; from ragsmith.plugins import load_file; assert load_file(mine.__file__) is mine"
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout == "run\n"


def test_another_process_loads_the_same_files(tmp_path: Path) -> None:
    file = tmp_path / "own_shared.py"
    file.write_text("def double(x):\n    return 2 * x\n")
    message = pickle.dumps((LoadedFiles(), load_file(file).double))
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer)[1](21))"
    run = subprocess.run([sys.executable, "-c", program], input=message, capture_output=True, check=True)
    assert run.stdout.strip() == b"42"
