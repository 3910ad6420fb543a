"""The embedded embedder: WordLlama's static token vectors of 256 dimensions.

Weights and tokenizer are read from the folder of the installed package, which is not imported because that would
configure logging for the process and load unneeded modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.digest import fingerprint
from ragsmith.errors import UsageError
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import provider

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PACKAGE = "wordllama"
MODEL = "l2_supercat_256"
WEIGHTS = f"weights/{MODEL}.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
DIMENSIONS = 256

_CACHED_WORDS = 1 << 15  # about 250 bytes each
_BATCH_TEXTS = 1 << 8  # 2 KB each while they are scaled


@provider("embedder", "wordllama")
class WordLlamaEmbedder:
    """Embeds a text as the mean of its tokens' static vectors, scaled to length 1 (as ``WordLlama.embed(norm=True)``).

    A vector depends only on its text. Files are read on first use. Thread-safe.
    """

    def __init__(self) -> None:
        self._tokens_of_word = bounded_cache(_CACHED_WORDS, key="a word")(self._encoded)

    @cached_property
    def id(self) -> str:
        """Model, versions of its package and of ``tokenizers``, and fingerprint of this code."""
        return (
            f"{PACKAGE}:{MODEL}@{version(PACKAGE)}:{version('tokenizers')}:{fingerprint(__name__, type(self).__name__)}"
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), 256)``, rows of length 1, or 0 for a text without tokens."""
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for start in range(0, len(texts), _BATCH_TEXTS):
            part = texts[start : start + _BATCH_TEXTS]
            totals = np.zeros((len(part), DIMENSIONS))
            for total, text in zip(totals, part, strict=True):
                if ids := self.tokens(text):
                    # The weights are float16, so their float64 sum is exact in any order.
                    np.add.reduce(self._weights.take(ids, axis=0), axis=0, dtype=np.float64, out=total)
            vectors[start : start + len(part)] = _unit(totals)  # the mean has the direction of the sum
        return vectors

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of ``text`` in order, word by word because no token spans two words."""
        if "  " in text or text[:1] == " " or text[-1:] == " " or "<" in text or "\u2581" in text:
            return list(self._encoded(text))  # runs of blanks are tokens, and "</s>" is a token in any position
        return list(chain.from_iterable(map(self._tokens_of_word, text.split(" "))))

    def _encoded(self, text: str) -> tuple[int, ...]:
        # the fast batch computes no offsets, which halves the time
        return tuple(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def vocabulary(self) -> tuple[str, ...]:
        """Return the form of every token by id; ``▁`` is the space in front of a word."""
        forms = self._tokenizer.get_vocab()
        return tuple(sorted(forms, key=forms.__getitem__))

    def vocabulary_vectors(self) -> Vectors:
        """Return the vectors of all tokens by id: shape ``(vocabulary, 256)``, rows of length 1."""
        return _unit(self._weights.astype(np.float32))

    @cached_property
    def _weights(self) -> NDArray[np.float16]:
        from safetensors.numpy import load_file  # noqa: PLC0415 — loaded on first use

        weights: NDArray[np.float16] = load_file(_find_file(WEIGHTS))["embedding.weight"]
        return weights

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer  # noqa: PLC0415 — loaded on first use

        return Tokenizer.from_file(str(_find_file(TOKENIZER)))

    def __reduce__(self) -> tuple[type[WordLlamaEmbedder], tuple[()]]:  # a process reads the files itself
        return WordLlamaEmbedder, ()


def _unit(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """Scale ``rows`` to length 1; zero rows stay zero."""
    lengths = np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., np.newaxis]
    scaled: NDArray[np.floating] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return scaled


def _find_file(name: str) -> Path:
    spec = find_spec(PACKAGE)  # finds a top-level package without executing it
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        if (path := Path(folder) / name).is_file():
            return path
    raise UsageError(f"the embedded models need {name} of the package {PACKAGE}: run  pip install 'wordllama>=0.3.9'")
