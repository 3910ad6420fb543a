"""Errors of the user's own code are sentences; those of ragsmith are raised as they are."""

from __future__ import annotations

import pytest

from ragsmith.datasets.splits import split
from ragsmith.errors import DatasetError, UsageError
from ragsmith.extensions import Extension, Package


def broken(_: int) -> float:
    return 1 / 0


def call(extension: Extension) -> None:
    with extension.named_errors():
        extension.fn(1)


def test_an_exception_of_own_code_is_a_sentence_with_file_and_line() -> None:
    line = broken.__code__.co_firstlineno + 1
    with pytest.raises(
        UsageError, match=rf"broken of \S+test_extensions.py:{line} failed: ZeroDivisionError: division"
    ):
        call(Extension(name="broken", fn=broken))


def test_errors_of_ragsmith_and_exceptions_of_its_own_code_stay() -> None:
    own = Extension(name="own", fn=broken)
    with pytest.raises(DatasetError), own.named_errors():
        raise DatasetError(["line 1: no question"])
    bundled = Extension(name="bundled", fn=split)
    with pytest.raises(KeyError), bundled.named_errors():
        raise KeyError("defect")


def test_a_bundled_extension_whose_package_is_damaged_names_the_extra() -> None:
    bundled = Extension(name="bundled", fn=split, package=Package("json", "json-package", "large"))
    said = r"\(libgomp is missing\): run  pip install 'ragsmith\[large\]'"
    with pytest.raises(UsageError, match=said), bundled.named_errors():
        raise ImportError("libgomp is missing")
