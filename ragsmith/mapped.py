"""Large arrays in temporary files that are mapped into memory: processes share the pages, which the system may drop."""

from tempfile import TemporaryFile
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

MIN_MAPPED_BYTES = 1 << 22
"""Minimum bytes of an array in a file; smaller ones stay in memory."""

Scalar = TypeVar("Scalar", bound=np.generic)


def move_to_file(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a read-only array, mapped from a temporary file of its own that ends with its last process.

    Processes that are forked later share its pages; a pickled array is an ordinary copy. Returns ``array`` itself if it
    is small, a whole mapped array or not of numbers, or if the file cannot be written, as on a full disk.
    """
    if array.nbytes < MIN_MAPPED_BYTES or array.dtype.kind not in "biuf" or isinstance(array.base, np.memmap):
        return array
    folder = user_cache_path("ragsmith", appauthor=False) / "mapped"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(np.ascontiguousarray(array).data)
            file.flush()
            return np.memmap(file, dtype=array.dtype, mode="r", shape=array.shape).view(np.ndarray)
    except OSError:
        return array
