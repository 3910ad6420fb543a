"""The embedded language model: classical methods over the sentences and words of a corpus.

The model performs a `Task` by the task's classical method, as an `OfflineModel`. Results are deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

from ragsmith.caches import bounded_cache
from ragsmith.digest import digest, fingerprint
from ragsmith.models.embedded.lexicon import Lexicon, RelevanceFeedback, SentenceRanking, Thesaurus
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.models.registry import provider
from ragsmith.models.tasks import Input, Task
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import sentences

T = TypeVar("T")

_CACHED_TEXTS = 1 << 13


@provider("language_model", "extractive")
class ExtractiveModel(LanguageModel):
    """A `LanguageModel` over the chunks ``texts`` of a corpus, with vectors of words from ``word_vectors``.

    ``languages`` are those of the texts if they are not all English. Statistics are computed on first use. Thread-safe.
    """

    def __init__(self, texts: Sequence[str], word_vectors: Embedder, languages: Sequence[str] = ()) -> None:
        self._texts = tuple(texts)
        self._languages = tuple(languages) if set(languages) - {ENGLISH} else ()
        self._embedder = word_vectors
        lexicon = Lexicon(self._texts, self._languages)
        ranking = SentenceRanking(lexicon, word_vectors)
        self._feedback = RelevanceFeedback(lexicon)
        self.terms, self.idf = lexicon.terms, lexicon.idf
        self.relevance, self.similarity, self.select = ranking.relevance, ranking.similarity, ranking.select
        self.expansion_terms = self._feedback.expansion_terms
        self.related = Thesaurus(lexicon, word_vectors).related
        self.sentences = bounded_cache(_CACHED_TEXTS, key="a text")(_sentence_texts)

    @cached_property
    def id(self) -> str:
        """``extractive:<code>:<corpus and embedder>``."""
        corpus = digest(self._embedder.id, self._texts, *filter(None, [self._languages]))
        return f"extractive:{fingerprint(__name__, type(self).__name__)}:{corpus}"

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Perform ``task`` by its classical method."""
        return task.offline(self, sample=sample, **inputs)

    def feedback(self, text: str, n: int) -> tuple[str, ...]:
        """Return the ``n`` best chunks for ``text`` by BM25, best first; chunks without a common term are excluded."""
        return tuple(self._texts[position] for position, _ in self._feedback.best(text, n))

    def __reduce__(self) -> tuple[type[ExtractiveModel], tuple[tuple[str, ...], Embedder, tuple[str, ...]]]:
        return ExtractiveModel, (self._texts, self._embedder, self._languages)


def _sentence_texts(text: str) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in sentences(text))
