"""Stubs of costly models, which count the requests of a simulated search.

Replies are made by the embedded models. These select sentences, so many replies are equal, and so are the requests that
depend on them, unlike those of a chat model. So a stub appends a pseudo-word to every text, derived from the prompt.
The lengths of texts and the frequencies of verdicts are those of the model's replies in the cache; while these are few,
a verdict that leads to more requests is as likely as the embedded model's, so that a plan tends to overestimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar, cast

from ragsmith.gateway.claims import CallStore
from ragsmith.gateway.prompts_and_vectors import render_prompt
from ragsmith.gateway.vectors_and_scores import BATCH_TEXTS
from ragsmith.grouping import group_values
from ragsmith.index.entity_graph import EXTRACT_RELATIONS
from ragsmith.measures.judge import JUDGE
from ragsmith.models.calls import (
    ChatModel,
    Json,
    StoredCall,
    answer_tokens,
    completion_key,
    form_argument,
    is_chat_model,
    is_stored,
    limit_answer,
    result_key,
)
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.late_interaction import LateInteractionScorer
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel, Vectors
from ragsmith.models.roles import Models
from ragsmith.models.tasks import Input, Task
from ragsmith.models.usage import AVERAGE_CHARACTERS_PER_TOKEN
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.query_expansion.srr import parse_candidates
from ragsmith.techniques.registry import Family
from ragsmith.techniques.task_lookup import find_tasks

T = TypeVar("T")
Real = TypeVar("Real", ChatModel, Embedder, CrossEncoder)
Embedded = TypeVar("Embedded", ExtractiveModel, Embedder, CrossEncoder)

EMBED_COLLECTION, EMBED_QUERIES, SCORE_PASSAGES = (
    "embed texts of the collection",
    "embed queries",
    "score a list of passages",
)
"""Names of the requests to embedders and rerankers."""

MAX_QUERY_TEXTS = 16
"""Maximum number of texts in a request that embeds queries; with more texts, a request embeds the collection."""

PSEUDO_WORD_LETTERS = 8
"""Number of letters of a pseudo-word."""
RELATED_WORDS = 8
"""Number of words related to the question, one of which is appended to each rewritten query."""


@dataclass
class RequestCount:
    """Totals for one kind of request to one model.

    ``cached`` requests have a reply in the cache, ``needed`` ones have none. ``prompt_characters`` are the characters
    of the prompts of the needed ones, and ``reply_characters`` those of their replies by the embedded models;
    ``cached_prompt_characters`` and ``cached_prompt_tokens`` are the characters and tokens of the prompts of the
    cached ones.
    """

    needed: int = 0
    cached: int = 0
    prompt_characters: int = 0
    reply_characters: int = 0
    cached_prompt_characters: int = 0
    cached_prompt_tokens: int = 0

    def __add__(self, other: RequestCount) -> RequestCount:
        """Return the sums of both counts."""
        return RequestCount(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


RequestCounts = dict[tuple[str, str], RequestCount]
"""Counts by the id of the model and the name of the request."""


def add_counts(*summands: RequestCounts) -> RequestCounts:
    """Add up counts."""
    total: RequestCounts = {}
    for counts in summands:
        for asked, count in counts.items():
            total[asked] = total.get(asked, RequestCount()) + count
    return total


@dataclass(frozen=True, eq=False)
class _Stub(Generic[Real, Embedded]):
    """Stub that replaces a costly model by an embedded one, and adds the requests to ``counts``."""

    real: Real
    embedded: Embedded
    store: CallStore
    counts: RequestCounts

    @property
    def id(self) -> str:
        """The id, which is not that of the real model, as the replies differ; with the limit of answers, if set."""
        return f"plan of {self.real.id}@{answer_tokens(self.real)}"

    def count(self, request: str) -> RequestCount:
        """Return the count of one kind of request to the real model."""
        return self.counts.setdefault((self.real.id, request), RequestCount())


@dataclass(frozen=True, eq=False)
class _ChatStub(_Stub[ChatModel, ExtractiveModel], LanguageModel):
    """Stub of a chat model: replies from the cache if possible, and counts the other requests.

    ``collection_tasks`` are the names of tasks that are performed once for a collection, ``query_tasks`` of those whose
    replies are queries. ``cached_replies`` has the model's replies in the cache, by task. If ``racing``, all scores are
    those of the embedded judge, as cached scores would favour or penalise the answers that have them.
    """

    varies = True

    collection_tasks: frozenset[str]
    query_tasks: frozenset[str]
    cached_replies: Mapping[str, Sequence[Json]]
    racing: bool

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Return the cached reply, or perform the task by its classical method and append a pseudo-word."""
        task = limit_answer(self.real, task)
        prompt, _ = render_prompt(task, inputs, getattr(self.real, "context_window", None))
        count = self.count(task.name)
        key = completion_key(self.real.id, prompt, task.max_tokens, sample, **form_argument(self.real, task))
        known = self.store.get_calls([key]).get(key)
        if known is not None:
            try:
                reply = task.read(known.value)
            except ValueError:
                pass  # it would be requested again
            else:
                count.cached += 1
                if known.calls == 1:  # the prompt of a second request is longer
                    count.cached_prompt_characters += len(prompt)
                    count.cached_prompt_tokens += known.input_tokens
                return (
                    self.embedded.run(task, sample=sample, **inputs)
                    if self.racing and task.name == JUDGE.name
                    else reply
                )
        result = self._vary(task, self.embedded.run(task, sample=sample, **inputs), prompt, sample, inputs)
        count.needed += 1
        count.prompt_characters += len(prompt)
        count.reply_characters += min(len(str(result)), task.max_tokens * AVERAGE_CHARACTERS_PER_TOKEN)
        return result

    def _vary(self, task: Task[T], result: T, prompt: str, sample: int, inputs: Mapping[str, Input]) -> T:
        """Make ``result`` different for every prompt, as the replies of a chat model are."""
        if task.name in self.collection_tasks:
            return result  # names of entities must stay the same
        pseudo_word = _pseudo_word(prompt, sample)
        if task.name not in self.query_tasks or isinstance(result, bool | float):
            decided = self._draw_verdict(task, result, pseudo_word)
            return cast(T, _append_words(self._fit_reply_length(task, decided, pseudo_word, inputs), [pseudo_word]))
        # different queries must retrieve different chunks: BM25 ignores a pseudo-word, which is in no document
        related = self.embedded.expansion_terms(str(inputs.get("question", prompt)), RELATED_WORDS)
        first = sum(map(ord, pseudo_word))
        words = [related[(first + i) % len(related)] for i in range(len(related))] or [""]
        return cast(
            T, _append_words(_pad_queries(task, result, inputs), [f"{word} {pseudo_word}".strip() for word in words])
        )

    def _draw_verdict(self, task: Task[T], result: T, pseudo_word: str) -> T:
        """Draw a verdict from the cached replies, as further requests depend on it.

        The ``result`` of the embedded model and the verdict that leads to most requests are added to the cached
        replies. The judge's verdict is not replaced, as no requests follow from it.
        """
        if task.name == JUDGE.name or not _is_verdict(result):
            return result
        drawn = _draw([*self.cached_replies.get(task.name, ()), _EMBEDDED, _COSTLIEST], pseudo_word)
        if drawn is _EMBEDDED:
            return result
        if drawn is _COSTLIEST:
            return cast(T, type(result)(0) if isinstance(result, bool | float) else result or (pseudo_word,))
        try:
            return task.read(drawn)
        except ValueError:  # the reply to a task of that name with other inputs
            return result

    def _fit_reply_length(self, task: Task[T], result: T, pseudo_word: str, inputs: Mapping[str, Input]) -> T:
        """Cut or repeat a text, or an answer with its sources, to the length of a cached reply.

        Without a cached reply, a text with a limit of words is cut to half of it: the embedded model uses up the limit,
        other models write any number of words up to it.
        """
        known = self.cached_replies.get(task.name)
        if not known:
            most = inputs.get("words")
            if isinstance(result, str) and isinstance(most, int):
                return cast(T, " ".join(result.split()[: most // 2]))
            return result
        length = len(str(_draw(known, pseudo_word)))
        if isinstance(result, str):
            return cast(T, _fit_length(result, length))
        if isinstance(result, tuple) and result and isinstance(result[0], str) and not _is_verdict(result):
            return cast(T, (_fit_length(result[0], length), *result[1:]))
        return result


_EMBEDDED, _COSTLIEST = object(), object()
"""Placeholders for the verdict of the embedded model, and for the one that leads to most requests."""


def _draw(pool: Sequence[T], pseudo_word: str) -> T:
    """Return an element of ``pool``, determined by ``pseudo_word``."""
    return pool[sum(map(ord, pseudo_word)) % len(pool)]


def _fit_length(text: str, length: int) -> str:
    """Cut or repeat ``text`` to ``length`` characters."""
    return " ".join([text] * math.ceil(length / len(text)))[:length] if text else text


def _is_verdict(result: object) -> bool:
    """Whether a result is a bool, a number, or a list of problems."""
    return isinstance(result, bool | float) or (
        isinstance(result, tuple) and all(isinstance(point, str) for point in result)
    )


def _pseudo_word(prompt: str, sample: int) -> str:
    """Return a pseudo-word that is in no document, different for every prompt."""
    digest = blake2b(f"{sample} {prompt}".encode(errors="surrogatepass"), digest_size=PSEUDO_WORD_LETTERS).digest()
    return "".join(chr(ord("a") + byte % 26) for byte in digest)


def _append_words(result: Any, pseudo_words: Sequence[str]) -> Any:
    """Append a pseudo-word to every text in ``result``; numbers and verdicts are unchanged."""
    if isinstance(result, str):
        return f"{result} {pseudo_words[0]}" if result else result
    if isinstance(result, tuple):
        return tuple(_append_words(item, [pseudo_words[i % len(pseudo_words)]]) for i, item in enumerate(result))
    return result


def _pad_queries(task: Task[Any], result: Any, inputs: Mapping[str, Input]) -> Any:
    """Repeat queries up to the number that the task requests, as classical methods often return fewer."""
    wanted = inputs.get("n")
    if not isinstance(result, tuple) or not isinstance(wanted, int):
        return result
    question = str(inputs["question"])
    found = result or (((question, 0.5),) if task.parse is parse_candidates else (question,))
    return tuple(found[i % len(found)] for i in range(max(wanted, len(found))))


class _EmbedderStub(_Stub[Embedder, Embedder]):
    """Stub of a costly embedder."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed by the embedded model, and count the batches of uncached texts."""
        kinds = ("text", "query") if hasattr(self.real, "embed_queries") else ("text",)
        keys = {text: [result_key("embedder", self.real.id, text, kind) for kind in kinds] for text in texts}
        known = self.store.get_calls([key for each in keys.values() for key in each])
        missing = [text for text in texts if not any(key in known for key in keys[text])]
        count = self.count(EMBED_COLLECTION if len(texts) > MAX_QUERY_TEXTS else EMBED_QUERIES)
        count.cached += not missing
        count.needed += math.ceil(len(missing) / BATCH_TEXTS)
        count.prompt_characters += sum(map(len, missing))
        return self.embedded.embed(texts)


class _RerankerStub(_Stub[CrossEncoder, CrossEncoder]):
    """Stub of a costly reranker."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score by the embedded model, and count the requests for uncached texts."""
        keys = [result_key("cross_encoder", self.real.id, text, query) for text in texts]
        known = self.store.get_calls(keys)
        count = self.count(SCORE_PASSAGES)
        missing = [text for text, key in zip(texts, keys, strict=True) if key not in known]
        count.cached += not missing
        count.needed += bool(missing)
        count.prompt_characters += sum(len(query) + len(text) for text in missing)
        return self.embedded.score(query, texts)


def stub_models(
    real: Models,
    texts: Sequence[str],
    store: CallStore,
    stored_calls: Mapping[str, Sequence[StoredCall]],
    counts: RequestCounts,
    *,
    racing: bool,
    languages: Sequence[str] = (),
) -> Models:
    """Replace the models ``real`` for a collection of ``texts`` by stubs that add their requests to ``counts``.

    ``languages`` are those of the texts if they are not all English. ``stored_calls`` has the calls in the cache by
    the id of the model; ``racing`` is whether candidates are raced.
    """
    embedder = WordLlamaEmbedder()
    embedded = ExtractiveModel(texts, embedder, languages)
    reranker = LateInteractionScorer(embedder, texts)

    task_names = collection_requests(), _task_names(lambda family: family.name == "query_expansion")

    def language_model(model: LanguageModel | ChatModel) -> LanguageModel:
        if not is_chat_model(model):
            return embedded
        by_task = group_values((call.task, call.value) for call in stored_calls.get(model.id, ()))
        return _ChatStub(model, embedded, store, counts, *task_names, by_task, racing)

    return Models(
        language_model=language_model(real.language_model),
        embedder=_EmbedderStub(real.embedder, embedder, store, counts) if is_stored(real.embedder) else embedder,
        cross_encoder=_RerankerStub(real.cross_encoder, reranker, store, counts)
        if is_stored(real.cross_encoder)
        else reranker,
        judge=language_model(real.judge),
        controller=language_model(real.controller) if real.controller else None,
        test_judge=language_model(real.test_judge) if real.test_judge else None,
    )


def collection_requests() -> frozenset[str]:
    """Return the names of the requests that are made once for a collection, whatever the number of questions."""
    return frozenset([EXTRACT_RELATIONS.name, EMBED_COLLECTION, *_task_names(lambda f: f.tier == "collection")])


def _task_names(includes: Callable[[Family[Any]], bool]) -> frozenset[str]:
    """Return the names of the tasks of the techniques in the families that ``includes`` selects."""
    techniques = (technique for family in FAMILIES if includes(family) for technique in family.techniques.values())
    return frozenset(task.name for technique in techniques for task in find_tasks(technique))
