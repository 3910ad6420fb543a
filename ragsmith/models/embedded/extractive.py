"""The embedded language model: classical methods over the sentences and words of a corpus.

It performs a `Task` by the task's classical method, and provides what those methods need. Results are deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.digest import digest, fingerprint
from ragsmith.models.embedded.feedback import RelevanceFeedback
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.embedded.sentence_ranking import SentenceRanking
from ragsmith.models.embedded.thesaurus import Thesaurus
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.models.registry import provider
from ragsmith.models.tasks import Input, Task
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import sentences

T = TypeVar("T")

_REMEMBERED_TEXTS = 1 << 13


@provider("language_model", "extractive")
class ExtractiveModel(LanguageModel):
    """A `LanguageModel` over the chunks ``texts`` of a corpus, with vectors of words from ``word_vectors``.

    ``languages`` are those of the texts if they are not all English. Statistics are computed on first use. Thread-safe.
    """

    def __init__(self, texts: Sequence[str], word_vectors: Embedder, languages: Sequence[str] = ()) -> None:
        self._texts = tuple(texts)
        self._languages = tuple(languages) if set(languages) - {ENGLISH} else ()
        self._embedder = word_vectors
        self._lexicon = Lexicon(self._texts, self._languages)
        self._ranking = SentenceRanking(self._lexicon, word_vectors)
        self._feedback = RelevanceFeedback(self._texts, self._lexicon, self._languages)
        self._thesaurus = Thesaurus(self._lexicon, word_vectors)
        self._sentences = bounded_cache(_REMEMBERED_TEXTS, key="a text")(_sentence_texts)

    @cached_property
    def id(self) -> str:
        """``extractive:<code>:<corpus and embedder>``."""
        corpus = digest(self._embedder.id, self._texts, *filter(None, [self._languages]))
        return f"extractive:{fingerprint(__name__, type(self).__name__)}:{corpus}"

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Perform ``task`` by its classical method."""
        return task.run_offline(self, sample, inputs)

    def sentences(self, text: str) -> tuple[str, ...]:
        """See `OfflineModel.sentences`."""
        return self._sentences(text)

    def terms(self, text: str) -> tuple[str, ...]:
        """See `OfflineModel.terms`."""
        return self._lexicon.terms(text)

    def idf(self, term: str) -> float:
        """See `OfflineModel.idf`."""
        return self._lexicon.idf(term)

    def relevance(self, query: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return how well each of ``texts`` fits ``query``: shape ``(len(texts),)``, in [0, 1].

        Half is the share of the query's terms that the text has, weighted by idf; half the cosine of their vectors, 0
        where it is negative: exact and soft matching complement each other (Mitra, Diaz and Craswell 2017).
        """
        return self._ranking.relevance(query, texts)

    def similarity(self, a: str, b: str) -> float:
        """See `OfflineModel.similarity`."""
        return self._ranking.similarity(a, b)

    def select(self, query: str, sentences: Sequence[str], n: int, diversity: float = 0.3) -> tuple[int, ...]:
        """Return the positions of ``n`` sentences that fit ``query`` and differ from each other, in order of choice.

        Maximal marginal relevance (Carbonell and Goldstein 1998) with lambda = 1 - ``diversity``, which is in [0, 1];
        equals go to the first. Fewer when there are fewer.
        """
        return self._ranking.select(query, sentences, n, diversity)

    def feedback(self, text: str, n: int) -> tuple[str, ...]:
        """Return the ``n`` best chunks for ``text`` by BM25, best first; none that shares no term with it."""
        return tuple(self._texts[position] for position, _ in self._feedback.best(text, n))

    def expansion_terms(self, text: str, n: int, documents: int = 3) -> tuple[str, ...]:
        """Return the ``n`` words that mark the ``documents`` best chunks for ``text``, best first.

        Relevance model (Lavrenko and Croft 2001; Abdul-Jaleel et al. 2004); never a word of ``text`` or of its stem.
        They are spelled as the corpus spells them most often.
        """
        return self._feedback.expansion_terms(text, n, documents)

    def related(self, word: str, n: int) -> tuple[str, ...]:
        """Return up to ``n`` words of the corpus that are near ``word`` in meaning, nearest first, none of its stem.

        Neighbours by word vectors (Kuzi et al. 2016) above a least cosine, higher for a word that the corpus lacks.
        """
        return self._thesaurus.related(word, n)

    def __reduce__(self) -> tuple[type[ExtractiveModel], tuple[tuple[str, ...], Embedder, tuple[str, ...]]]:
        return ExtractiveModel, (self._texts, self._embedder, self._languages)


def _sentence_texts(text: str) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in sentences(text))
