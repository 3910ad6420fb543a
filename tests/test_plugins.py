"""Python files of one's own: what loading one gives, and what is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
    file.write_text("A = 1\n")


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


def test_a_file_is_refused_when_a_module_next_to_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "edited_helper.py").write_text("VALUE = 1\n")
    file = tmp_path / "with_helper.py"
    file.write_text("import edited_helper\n")
    load_file(file)
    (tmp_path / "edited_helper.py").write_text("VALUE = 2\n")
    for refused in (lambda: load_file(file), lambda: pickle.dumps(LoadedFiles())):
        with pytest.raises(UsageError, match=r"edited_helper\.py has changed since it was imported: start again"):
            refused()
    (tmp_path / "edited_helper.py").write_text("VALUE = 1\n")


def test_another_process_refuses_code_that_has_changed_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "late_helper.py").write_text("VALUE = 1\n")
    file = tmp_path / "with_late_helper.py"
    file.write_text("import late_helper\n")
    load_file(file)
    message = pickle.dumps(LoadedFiles())
    (tmp_path / "late_helper.py").write_text("VALUE = 2\n")
    program = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    run = subprocess.run([sys.executable, "-c", program], input=message, capture_output=True, check=False)
    (tmp_path / "late_helper.py").write_text("VALUE = 1\n")
    assert run.returncode == 1
    assert b"late_helper.py has changed since it was imported: start again" in run.stderr


def test_a_module_of_the_same_name_from_another_folder_is_refused(tmp_path: Path) -> None:
    for folder, value in (("one", 1), ("two", 2), ("three", 1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(f"VALUE = {value}\n")
        (tmp_path / folder / "uses_same_name.py").write_text("from same_name import VALUE\n")
    assert load_file(tmp_path / "one" / "uses_same_name.py").VALUE == 1
    with pytest.raises(
        UsageError, match=r"imports same_name, which would be .*one.* and not .*two.*: give one of them"
    ):
        load_file(tmp_path / "two" / "uses_same_name.py")
    assert load_file(tmp_path / "three" / "uses_same_name.py").VALUE == 1


def test_a_library_is_not_taken_for_the_file_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("OTHER = 1\n")
    (tmp_path / "uses_yaml.py").write_text("import yaml\n\nVALUE = yaml.safe_load('3')\n")
    assert load_file(tmp_path / "uses_yaml.py").VALUE == 3


def test_a_file_can_be_mended_after_it_could_not_be_run(tmp_path: Path) -> None:
    (tmp_path / "broken_helper.py").write_text("VALUE = 1 +\n")
    file = tmp_path / "to_be_mended.py"
    file.write_text("from broken_helper import VALUE\n")
    with pytest.raises(UsageError, match=r"\(line 1\): SyntaxError"):
        load_file(file)
    (tmp_path / "broken_helper.py").write_text("VALUE = 1 + 1\n")
    assert load_file(file).VALUE == 2


@pytest.mark.parametrize("edited", ["VALUE = 2\n", "VALUE = 1\n\n\ndef f():\n    return 3\n", "def f(:\n"])
def test_a_module_that_was_edited_after_it_was_imported_is_refused(tmp_path: Path, edited: str) -> None:
    (tmp_path / "mine.py").write_text("VALUE = 1\n")
    program = (
        f"import mine; open('mine.py', 'w').write({edited!r}); from ragsmith.plugins import load_file\n"
        "try: load_file('mine.py')\nexcept Exception as error: print(error)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "mine.py has changed since it was imported: start again" in run.stdout


def test_two_threads_run_a_file_once(tmp_path: Path) -> None:
    file = tmp_path / "own_slow.py"
    file.write_text("import time\n\ntime.sleep(0.05)\nTOKEN = object()\n")
    with ThreadPoolExecutor(4) as pool:
        tokens = {load_file(path).TOKEN for path in pool.map(lambda _: load_file(file).__file__, range(4))}
        modules = set(pool.map(lambda _: id(load_file(file)), range(4)))
    assert len(tokens) == len(modules) == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("raise SystemExit('leave me')\n", r"own_wrong.py cannot be imported \(line 1\): SystemExit: leave me"),
        (
            "from ragsmith.measures.registry import measure\n"
            "@measure(label='x', subject='foo')\ndef own_subject(case):\n    return 1.0\n",
            "the subject of own_subject is 'foo': it is one of ranking, passages, answer",
        ),
        (
            "from ragsmith.plugins import Count\nfrom ragsmith.techniques.families import passage_filter\n"
            "@passage_filter(paper='')\ndef own_default(question, hits, *, k: Count = 0):\n    return hits\n",
            "own_default: k must be a whole number from 1 on, not 0",
        ),
        (
            "from ragsmith.techniques.families import passage_filter\n"
            "@passage_filter(paper='')\ndef own_object(question, hits, *, k=object()):\n    return hits\n",
            "own_object: k needs a type, and a default that JSON can say",
        ),
    ],
    ids=["ends the program", "an unknown subject", "a default out of range", "a default without a type"],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, source: str, said: str) -> None:
    file = tmp_path / "own_wrong.py"
    file.write_text(source)
    with pytest.raises(UsageError, match=said):
        load_file(file)
