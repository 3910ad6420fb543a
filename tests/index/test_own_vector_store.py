"""A vector store of a user's own file, by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OWN = '''
from pathlib import Path

from ragsmith.extensions import Package
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.vector_stores import vector_store


def whole(address):
    return None if address.endswith(".log") else f"the log {address!r} must end in .log"


@vector_store("logging", form="logging:FILE.log", check_address=whole)
def logging(address, keys, make):
    """Exact search that logs how many keys it has."""
    Path(address).write_text(f"{keys.count} keys")
    return ExactVectors(keys, make)


@vector_store("nothing", exact=False)
def nothing(address, keys, make):
    """No store."""
    return 7


@vector_store("lacking", package=Package("no_such_module", "no-such-package"))
def lacking(address, keys, make):
    """A store whose package is not installed."""


@vector_store("dotted", package=Package("no_such_module.part", "no-such-package"))
def dotted(address, keys, make):
    """A store that needs a part of a package."""


@vector_store("importing")
def importing(address, keys, make):
    """A store that imports what is not installed when it is opened."""
    import no_such_module


@vector_store("importing_late")
def importing_late(address, keys, make):
    """A store that imports what is not installed when it is searched."""
    return Late(keys, make)


class Late(ExactVectors):
    def search(self, query_vectors, k):
        import no_such_module
'''
CHOICES = {"retrieval": "[vector]", "passage_filter": "[top_k: {k: [1, 2]}]", "prompt_maker": "[listing]"}
FAMILIES = ("pre_embedding", "query_expansion", "reranking", "passage_augment", "passage_compress", "post_generation")


@pytest.fixture
def search(tmp_path: Path, tiny_folder: Path, spawn: Callable[..., Any]) -> Callable[..., tuple[int, str, str]]:
    """Search a small space with the stores of ``own.py``: the exit code, and both streams."""
    (tmp_path / "own.py").write_text(OWN)
    options = CHOICES | dict.fromkeys(FAMILIES, "[none]")
    (tmp_path / "space.yaml").write_text("families:\n" + "".join(f"  {k}: {v}\n" for k, v in options.items()))

    def run(store: str, *more: object) -> tuple[int, str, str]:
        data = ("--dataset", tiny_folder, "--space", "space.yaml", "--chunk-size", 100, "--no-probes")
        own = ("--no-warm-start", "--json", "--import", "own.py", "--vector-store", store)
        process = spawn("search", *data, *own, *more)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return run


@pytest.mark.processes
def test_a_vector_store_of_a_users_file_is_searched_and_finds_what_exact_search_finds(
    search: Callable[..., tuple[int, str, str]], tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    code, out, err = search("logging:keys.log", "--workers", 2)
    assert code == 0, err
    assert (tmp_path / "keys.log").read_text().endswith(" keys")
    winner = json.loads(out)["winner"]
    assert json.loads(search("exact")[1])["computed"] == 0
    own = ("--import", "own.py", "--vector-store", "logging:asked.log")
    asked = spawn("ask", winner, "What is here?", *own)
    _, err = asked.communicate(timeout=120)
    assert asked.returncode == 0, err
    assert (tmp_path / "asked.log").exists()


@pytest.mark.processes
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("loging:keys.log", "unknown vector store 'loging:keys.log': give auto, approximate or approximate:FOLDER"),
        ("logging:keys.txt", "the log 'keys.txt' must end in .log"),
        ("nothing", "the vector store nothing returned 7: return an object with a method search"),
        ("lacking:there", "no-such-package is not installed: run pip install no-such-package"),
        ("dotted:there", "no-such-package is not installed: run pip install no-such-package"),
        ("importing", "cannot import what it needs (No module named 'no_such_module'): install the package"),
        ("importing_late", "retrieval.vector needs a package that is not installed (No module named 'no_such_module')"),
    ],
)
def test_a_store_that_cannot_be_opened_is_refused(
    search: Callable[..., tuple[int, str, str]], store: str, said: str, workers: int
) -> None:
    code, _, err = search(store, "--workers", workers)
    assert code == 2
    assert said in " ".join(err.split())
    assert "Traceback" not in err
