"""Identify the weights of a model: the contents of a folder, or a commit of a repository on the hub."""

import hashlib
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ragsmith.errors import MissingExtra, UsageError

_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_CONFIG_FILES = ("modules.json", "config.json")
"""A sentence-transformers model has the first of these files, other models have the second."""
_OTHER_RUNTIMES = frozenset({"onnx", "openvino"})


@dataclass(frozen=True, slots=True)
class LocatedWeights:
    """The location and identifier of weights; ``revision`` is the commit of a repository, None for a folder."""

    location: str
    revision: str | None
    id: str


def find_weights(model: str, revision: str | None = None) -> LocatedWeights:
    """Find a folder, or else a repository in the hub's cache or, unless ``HF_HUB_OFFLINE`` is set, on the hub.

    Raises:
        UsageError: neither exists.
        MissingExtra: a repository is named, and huggingface-hub is not installed.
    """
    if Path(model).is_dir():
        if revision is not None:
            raise UsageError(f"{model!r} is a folder and has no revision {revision!r}: leave the revision out")
        return LocatedWeights(model, None, folder_id(Path(model)))
    if not _REPOSITORY.fullmatch(model):
        raise UsageError(
            f"{model!r} is neither a folder nor the name of a model on the hub: give a folder, or owner/name"
        )
    commit = _commit(model, revision)
    return LocatedWeights(model, commit, f"{model}@{commit}")


def folder_id(folder: Path) -> str:
    """Return ``sha256-`` and 32 hexadecimal digits of the names and contents of a model's files.

    Hidden files, descriptions (``*.md``) and exports for other runtimes are left out.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    state = hashlib.sha256()
    for name in sorted(filter(_is_weight_file, paths)):
        state.update(f"{name}\0{_file_digest(paths[name])}\0".encode())
    return f"sha256-{state.hexdigest()[:32]}"


def installed_version(package: str, extra: str) -> str:
    """Return the version of ``package``, or raise `MissingExtra` with the command that installs ``extra``."""
    try:
        return version(package)
    except PackageNotFoundError:
        raise MissingExtra(package, extra) from None


def _is_weight_file(name: str) -> bool:
    parts = name.split("/")
    hidden = any(part.startswith(".") for part in parts)
    return not (hidden or name.lower().endswith(".md") or _OTHER_RUNTIMES.intersection(parts[:-1]))


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _commit(model: str, revision: str | None) -> str:
    """Return the commit of a branch, tag or abbreviation, which is a folder's name in the hub's cache."""
    try:
        from huggingface_hub import hf_hub_download  # noqa: PLC0415  0.3 s
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("huggingface-hub", "sentence-transformers") from None
    problem: Exception | None = None
    for name in _CONFIG_FILES:
        try:
            return Path(hf_hub_download(model, name, revision=revision)).parent.name
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
            problem = error
    at_revision = f" at revision {revision!r}" if revision else ""
    raise UsageError(
        f"the model {model!r}{at_revision} was not found, neither in the hub's cache nor, unless HF_HUB_OFFLINE is "
        f"set, on the hub: check its name (owner/name), or give a folder ({type(problem).__name__})"
    )
