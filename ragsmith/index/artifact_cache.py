"""A cache of artifacts: arrays derived from a corpus, in files that processes map into memory.

    FOLDER/<kind>-<code and models>/<source>/manifest.json, seal.json, NAME.npy ...

Artifacts are immutable; a grown corpus has a new one, which reuses rows of earlier ones (`ArtifactCache.iter_recent`).
An artifact is written to a temporary folder and renamed, so that writes are atomic and concurrent writers do not
conflict. Reads are verified: the manifest by its digest, the arrays by the manifest, and byte by byte if the file
status has changed since the last verification. Damaged artifacts are removed with a warning and built again; artifacts
that are temporarily unreadable (too many open files, no memory, no permission) are not removed.

Other files in FOLDER are not touched: only folders with names of the cache are removed, and only artifacts with a valid
manifest are evicted.
"""

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import digest
from ragsmith.errors import warn_caller
from ragsmith.text.writing import replace_file, sync_folder

T = TypeVar("T")

FORMAT = 1
"""Version of the file format."""

MAX_BYTES = 10 << 30
"""Default size limit; the least recently used artifacts are removed beyond it."""

_MANIFEST, _STATUS_FILE = "manifest.json", "seal.json"
_DRAFT, _REMOVED = ".draft-", ".removed-"
_FAMILY, _NAME = re.compile(r".+-[0-9a-f]{16}", re.DOTALL), re.compile(r"[0-9a-f]{32}")
"""Patterns of the folders of `ArtifactKey`."""
_LEFTOVER = re.compile(rf"\{_DRAFT}[0-9a-f]{{8}}-\d+-[0-9a-f]{{8}}|\{_REMOVED}[0-9a-f]{{8}}-[0-9a-f]{{8}}")
"""Names of partially written or removed artifacts, which killed processes leave in the folder of a family."""
MAX_RECENT_ARTIFACTS = 4
"""Maximum number of earlier artifacts whose rows are reused."""
_BLOCK_ROWS = 8_192
"""Number of rows copied at a time."""
_ABANDONED_SECONDS = 3600
"""Age in seconds after which a temporary folder is considered abandoned."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class ArtifactKey:
    """The key of an artifact: its ``kind``, the code and models that made it (``made_by``) and its source (``of``)."""

    kind: str
    made_by: str
    of: str

    @property
    def family(self) -> str:
        """The folder of all artifacts with the same kind, code and models."""
        return f"{self.kind}-{digest('volumes', FORMAT, self.kind, self.made_by)[:16]}"

    @property
    def name(self) -> str:
        """The folder of the artifact within that of its family."""
        return digest("volume", self.of)


@dataclass(frozen=True, slots=True)
class Artifact:
    """Read-only arrays mapped from the files of a cache."""

    key: ArtifactKey
    arrays: Arrays


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    """A listed artifact with its size in bytes and its last use in Unix seconds."""

    key: ArtifactKey
    size: int
    used: float


class ArtifactCache:
    """A cache of artifacts in ``folder`` with a total size of up to ``max_bytes``."""

    def __init__(self, folder: str | Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder = Path(folder)
        self._max_bytes = max_bytes

    def read(self, key: ArtifactKey) -> Artifact | None:
        """Return the artifact with this key; None if it is missing or, with a `Notice`, unusable."""
        return self._open(self.folder / key.family / key.name, key)

    def contains(self, key: ArtifactKey) -> bool:
        """Return whether an artifact with this key exists, without verifying it."""
        return (self.folder / key.family / key.name).is_dir()

    def iter_recent(self, key: ArtifactKey) -> Iterator[Artifact]:
        """Yield up to `MAX_RECENT_ARTIFACTS` artifacts of the same family, most recently used first."""
        places = sorted(self._iter_folders(key.family), key=lambda place: _get_status(place)[1], reverse=True)
        for place in places[:MAX_RECENT_ARTIFACTS]:
            found = self._open(place, None)
            if found is not None and (found.key.kind, found.key.made_by) == (key.kind, key.made_by):
                yield found

    def write(self, key: ArtifactKey, arrays: Arrays) -> bool:
        """Store an artifact unless it exists; return False with a `Notice` if writing fails."""
        place = self.folder / key.family / key.name
        draft = place.with_name(f"{_DRAFT}{key.name[:8]}-{os.getpid()}-{token_hex(4)}")
        try:
            draft.mkdir(parents=True)
            _write_artifact(draft, key, arrays)
            try:
                draft.rename(place)
            except OSError:
                if not place.is_dir():  # otherwise another process has written an equal artifact
                    raise
            sync_folder(place.parent)
        except OSError as error:
            what = error.strerror or type(error).__name__
            warn_caller(
                f"the {key.kind} of the index cannot be stored in {self.folder}: {what}; they are computed again at "
                "the next start"
            )
            return False
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        self._evict(place)
        return True

    def list_entries(self) -> list[ArtifactEntry]:
        """Return all artifacts with a readable manifest, most recently used first."""
        found = []
        for place in self._iter_folders():
            with suppress(OSError, ValueError):
                found.append(ArtifactEntry(_load_manifest(place)[0], _compute_size(place), _get_status(place)[1]))
        return sorted(found, key=lambda one: (-one.used, one.key.family, one.key.name))

    def _iter_folders(self, family: str = "*") -> Iterator[Path]:
        with suppress(OSError):  # unlistable folders are ignored
            for place in self.folder.glob(f"{family}/*"):
                if _FAMILY.fullmatch(place.parent.name) and _NAME.fullmatch(place.name) and place.is_dir():
                    yield place

    def _open(self, place: Path, key: ArtifactKey | None) -> Artifact | None:
        folder = _get_status(place)[0]
        try:
            if not place.is_dir():
                return None
            found, files = _load_manifest(place)
            if key is not None and found != key:
                raise ValueError("its manifest has another key")
            arrays = {name: _map_array(place, name, about) for name, about in files.items()}
            _verify_arrays(place, files, arrays)
        except (OSError, ValueError) as error:
            if _get_status(place)[0] == folder:  # otherwise another process has removed or replaced it
                self._remove_damaged(place, error)
            return None
        if key is not None:
            with suppress(OSError):  # a read-only folder
                os.utime(place)
        return Artifact(found, arrays)

    def _remove_damaged(self, place: Path, error: OSError | ValueError) -> None:
        """Remove a damaged artifact, but not one that is temporarily unreadable (handles, memory, permissions)."""
        why = str(error)
        if isinstance(error, FileNotFoundError):
            why = f"{Path(error.filename or '').name or 'a file'} is missing"
        elif isinstance(error, OSError) and error.errno != errno.EIO:
            why = error.strerror or type(error).__name__
            warn_caller(f"{place} cannot be read now and is ignored: {why}")
            return
        warn_caller(f"{place} is damaged and is computed again: {why}")
        _remove_artifact(place)

    def _evict(self, newest: Path) -> None:
        """Remove abandoned temporary folders, and the least recently used artifacts beyond the size limit."""
        now = time.time()
        with suppress(OSError):
            for leftover in self.folder.glob("*/.*"):
                if not (_FAMILY.fullmatch(leftover.parent.name) and _LEFTOVER.fullmatch(leftover.name)):
                    continue
                if now - leftover.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(leftover, ignore_errors=True)
        total = 0
        folders = [place for place in self._iter_folders() if _is_artifact(place)]
        for place in sorted(folders, key=lambda folder: (folder == newest, _get_status(folder)[1]), reverse=True):
            total += _compute_size(place)
            if total > self._max_bytes and place != newest:
                _remove_artifact(place)


def pack_texts(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the concatenated UTF-8 bytes of texts, and the end of each in characters."""
    whole = "".join(texts).encode("utf-8", "surrogatepass")
    return np.frombuffer(whole, dtype=np.uint8), np.cumsum([len(text) for text in texts], dtype=np.int64)


def unpack_texts(content: NDArray[np.uint8], ends: NDArray[np.int64]) -> list[str]:
    """Return the texts packed by `pack_texts`."""
    whole = content.tobytes().decode("utf-8", "surrogatepass")
    return [whole[start:end] for start, end in pairwise([0, *ends.tolist()])]


def digest_texts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Return a digest of each text, by which rows of artifacts are matched: shape ``(texts, 16)``."""
    found = b"".join([blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts])
    return np.frombuffer(found, dtype=np.uint8).reshape(-1, 16)


def match_rows(
    rows: NDArray[np.uint8], known: Iterable[tuple[NDArray[np.uint8], T]]
) -> tuple[list[tuple[T, NDArray[np.int64], NDArray[np.int64]]], NDArray[np.int64]]:
    """Match ``rows`` with the rows of ``known`` values.

    Return each matched value with positions in ``rows`` and in its own rows, and the positions of unmatched rows.
    """
    matched = []
    missing = np.arange(len(rows))
    for others, value in known:
        places = find_rows(rows[missing], others)
        if (is_known := places >= 0).any():
            matched.append((value, missing[is_known], places[is_known]))
        missing = missing[~is_known]
        if not len(missing):
            break
    return matched, missing


def gather_rows(count: int, parts: Sequence[tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]]) -> NDArray[Any]:
    """Gather ``count`` rows from ``parts``: arrays, positions in the result, and positions in the array."""
    array = parts[-1][0]
    gathered = np.empty((count, array.shape[1]), dtype=array.dtype)
    for vectors, targets, sources in parts:
        for start in range(0, len(targets), _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            gathered[targets[part]] = vectors[sources[part]]
    return gathered


def find_rows(rows: NDArray[np.uint8], known: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the position of each of ``rows`` in ``known``, or -1."""
    places = {bytes(row): place for place, row in enumerate(known.view("V16").reshape(-1).tolist())}
    wanted = rows.view("V16").reshape(-1).tolist()
    return np.array([places.get(bytes(row), -1) for row in wanted], dtype=np.int64)


def _write_artifact(draft: Path, key: ArtifactKey, arrays: Arrays) -> None:
    files: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        contiguous = np.ascontiguousarray(array)
        with (draft / f"{name}.npy").open("xb") as file:
            np.lib.format.write_array(file, contiguous, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        files[name] = {
            "dtype": contiguous.dtype.str,
            "shape": list(contiguous.shape),
            "digest": _digest_bytes(contiguous),
        }
    key_fields = {"kind": key.kind, "made_by": key.made_by, "of": key.of}
    text = json.dumps({"format": FORMAT, **key_fields, "files": files}, ensure_ascii=True)
    replace_file(f"{text}\n{_digest_text(text)}\n".encode(), draft / _MANIFEST)
    replace_file(json.dumps(_get_file_status(draft, files)).encode(), draft / _STATUS_FILE)


def _remove_artifact(place: Path) -> None:
    """Remove an artifact by a rename, which is atomic, then delete its files."""
    aside = place.with_name(f"{_REMOVED}{place.name[:8]}-{token_hex(4)}")
    with suppress(OSError):
        place.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _get_status(place: Path) -> tuple[int, float]:
    """Return the inode and the last use of a folder; 0 if it does not exist."""
    with suppress(OSError):
        state = place.stat()
        return state.st_ino, state.st_mtime
    return 0, 0.0


def _read_manifest(place: Path) -> dict[str, Any]:
    """Return the manifest of an artifact of any format."""
    text, _, end = (place / _MANIFEST).read_text(encoding="utf-8").partition("\n")
    if end.strip() != _digest_text(text):
        raise ValueError(f"{_MANIFEST} does not match its digest")
    manifest: dict[str, Any] = json.loads(text)
    return manifest


def _is_artifact(place: Path) -> bool:
    """Return whether a folder has a valid manifest."""
    with suppress(OSError, ValueError):
        return "format" in _read_manifest(place)
    return False


def _load_manifest(place: Path) -> tuple[ArtifactKey, dict[str, dict[str, Any]]]:
    """Return the key of an artifact and the descriptions of its files; other formats raise `ValueError`."""
    manifest = _read_manifest(place)
    if manifest["format"] != FORMAT:
        raise ValueError(f"it has the format {manifest['format']}, and this ragsmith reads {FORMAT}")
    return ArtifactKey(manifest["kind"], manifest["made_by"], manifest["of"]), manifest["files"]


def _map_array(place: Path, name: str, description: Mapping[str, Any]) -> NDArray[Any]:
    empty = 0 in description["shape"]  # an empty file cannot be mapped
    try:
        array = np.load(place / f"{name}.npy", mmap_mode=None if empty else "r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{name}.npy cannot be read: {error}") from error
    if array.dtype.str != description["dtype"] or list(array.shape) != description["shape"]:
        raise ValueError(f"{name}.npy has {array.dtype.str}{list(array.shape)}, which does not match the manifest")
    mapped: NDArray[Any] = np.asarray(array)
    mapped.flags.writeable = False
    return mapped


def _verify_arrays(place: Path, files: Mapping[str, Mapping[str, Any]], arrays: Arrays) -> None:
    """Compare every byte with the manifest unless the file status equals that of the last comparison."""
    states = _get_file_status(place, files)
    with suppress(OSError, ValueError):
        if json.loads((place / _STATUS_FILE).read_text(encoding="utf-8")) == states:
            return
    for name, about in files.items():
        if _digest_bytes(arrays[name]) != about["digest"]:
            raise ValueError(f"{name}.npy does not match its digest")
    with suppress(OSError):
        replace_file(json.dumps(states).encode(), place / _STATUS_FILE)


def _get_file_status(place: Path, files: Mapping[str, Any]) -> list[list[Any]]:
    """Return the status of the files of arrays, which changes with every write."""
    found = {name: (place / f"{name}.npy").stat() for name in sorted(files)}
    return [[name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino] for name, s in found.items()]


def _digest_bytes(array: NDArray[Any]) -> str:
    return blake2b(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()


def _digest_text(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _compute_size(place: Path) -> int:
    with suppress(OSError):
        return sum(file.stat().st_size for file in place.iterdir())
    return 0
