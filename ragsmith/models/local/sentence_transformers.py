"""Bi-encoders and cross-encoders of sentence-transformers (Reimers and Gurevych 2019), in this process.

A model is a folder, or the name of a repository on the hub (``HF_HUB_OFFLINE=1`` restricts to the cache). Code in
a repository is never run. On a CPU, results do not depend on batches, threads or processes (`Network`); on a GPU they
may differ by rounding.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ragsmith.digest import fingerprint
from ragsmith.errors import ModelError, UsageError
from ragsmith.models.local.networks import Array, Network, loading
from ragsmith.models.local.weights import LocatedWeights, find_weights, installed_version
from ragsmith.models.options import BatchSize, ContextWindow, Device, Dtype
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import provider

PACKAGE = EXTRA = "sentence-transformers"


class _SentenceTransformer:
    """Base of both kinds of model; the weights are located for its id, and loaded on first use."""

    slow = True
    """Results are cached on disk, and threads share the network: see `ragsmith.models.calls.is_stored`."""

    def __init__(self, model: str, options: dict[str, Any], **prefixes: str | None) -> None:
        self._model = model
        self._options = options
        self._prefixes = prefixes
        self._network: Network | None = None
        self._loading = threading.Lock()

    @cached_property
    def id(self) -> str:
        """Class, weights (a folder's digest or a repository's commit), options that affect results, and versions."""
        versions = [f"{package} {installed_version(package, EXTRA)}" for package in (PACKAGE, "transformers", "torch")]
        options = {name: self._options[name] for name in ("dtype", "context_window")} | self._prefixes
        described = ", ".join(f"{name}={value!r}" for name, value in options.items())
        return f"{type(self).__name__}:{self._weights.id}:{described}:{', '.join(versions)}:{fingerprint(__name__)}"

    @property
    def truncated(self) -> int:
        """Number of texts that were truncated in this process."""
        return self._network.truncated if self._network else 0

    @cached_property
    def _weights(self) -> LocatedWeights:
        return find_weights(self._model, self._options["revision"])

    def _load(self, architecture: str, warm_up: Callable[[Any], object]) -> Network:
        """Load the network once; ``warm_up`` calls it before other threads do, which initialises its tokenizer."""
        with self._loading:
            if self._network is None:
                installed_version(PACKAGE, EXTRA)
                with loading(self._model):
                    network = self._load_network(architecture)
                    warm_up(network.model)
                self._network = network
            return self._network

    def _load_network(self, architecture: str) -> Network:
        import sentence_transformers  # noqa: PLC0415  5 s
        import torch  # noqa: PLC0415

        weights, options = self._weights, self._options
        model = getattr(sentence_transformers, architecture)(
            weights.location,
            device=options["device"],
            revision=weights.revision,
            local_files_only=weights.revision is None,
            trust_remote_code=False,
        )
        if options["dtype"] is not None:
            model.to(getattr(torch, options["dtype"]))
        return Network(model, context_window=options["context_window"], rows=options["batch_size"])

    def __reduce__(self) -> tuple[Callable[[], _SentenceTransformer], tuple[()]]:  # a process reads the weights itself
        weights: LocatedWeights | None = self.__dict__.get("_weights")
        options = self._options | ({"revision": weights.revision} if weights else {})
        return partial(type(self), self._model, **options, **self._prefixes), ()  # type: ignore[arg-type]


@provider("embedder", PACKAGE, extra=EXTRA)
class SentenceTransformersEmbedder(_SentenceTransformer):
    """Embeds texts with a bi-encoder; queries with `embed_queries`.

    ``query_prefix`` and ``document_prefix`` precede every text; None takes the model's own prompts, if any. ``dtype``
    None is that of the weights. Texts longer than ``context_window`` tokens, by default the model's window, are
    truncated. ``batch_size`` is for accelerators (`Network`). A blank text has the zero vector. Thread-safe.

    Raises, when used:
        MissingExtra: the library is not installed.
        UsageError: the model cannot be found or loaded.
        ModelError: a vector is not finite.
    """

    def __init__(
        self,
        model: str,
        *,
        device: Device | None = None,
        dtype: Dtype | None = None,
        batch_size: BatchSize | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        context_window: ContextWindow | None = None,
        revision: str | None = None,
    ) -> None:
        options = {"device": device, "dtype": dtype, "batch_size": batch_size}
        options |= {"context_window": context_window, "revision": revision}
        super().__init__(model, options, query_prefix=query_prefix, document_prefix=document_prefix)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed documents: shape ``(len(texts), dimensions)``, rows of length 1, or 0 for an empty text."""
        prompts = ("document", "passage", "corpus")
        return self._embed(texts, "encode_document", self._prefixes["document_prefix"], prompts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Embed queries; see `embed`."""
        return self._embed(texts, "encode_query", self._prefixes["query_prefix"], ("query",))

    def _embed(self, texts: Sequence[str], method: str, prefix: str | None, prompts: tuple[str, ...]) -> Vectors:
        network = self._load("SentenceTransformer", lambda model: model.encode([""], show_progress_bar=False))
        model_prompts = network.model.prompts
        prompt = (
            next((model_prompts[name] for name in prompts if model_prompts.get(name)), "") if prefix is None else prefix
        )
        encode = getattr(network.model, method)

        def forward(batch: list[str]) -> Array:
            rows = encode(batch, prompt=prompt, batch_size=len(batch), show_progress_bar=False, convert_to_tensor=True)
            floats: Array = rows.float().cpu().numpy()
            return floats

        nonblank = [row for row, text in enumerate(texts) if text.strip()]
        outputs = network.run([texts[row] for row in nonblank], forward, [[prompt + texts[row] for row in nonblank]])
        vectors = np.zeros((len(texts), len(outputs[0]) if outputs else forward([""]).shape[1]), dtype=np.float32)
        for row, vector in zip(nonblank, outputs, strict=True):
            _check_finite(vector, self._model, texts[row])
            vectors[row] = _unit(vector)
        return vectors


@provider("cross_encoder", PACKAGE, extra=EXTRA)
class SentenceTransformersCrossEncoder(_SentenceTransformer):
    """Scores texts against a query with a cross-encoder: the logit of its one output, to six decimals.

    The longer side of a pair longer than ``context_window`` tokens, by default the model's window, is truncated.
    Thread-safe.

    Raises, when used:
        MissingExtra: the library is not installed.
        UsageError: the model cannot be found or loaded, or has several outputs.
        ModelError: a score is not finite.
    """

    def __init__(
        self,
        model: str,
        *,
        device: Device | None = None,
        dtype: Dtype | None = None,
        batch_size: BatchSize | None = None,
        context_window: ContextWindow | None = None,
        revision: str | None = None,
    ) -> None:
        options = {"device": device, "dtype": dtype, "batch_size": batch_size}
        super().__init__(model, options | {"context_window": context_window, "revision": revision})

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts`` against ``query``."""
        network = self._load("CrossEncoder", lambda model: model.predict([("", "")], show_progress_bar=False))
        if network.model.num_labels != 1:
            raise UsageError(f"{self._model!r} has {network.model.num_labels} outputs: give a reranker, which has one")
        import torch  # noqa: PLC0415

        def forward(batch: list[str]) -> Array:
            rows = network.model.predict(
                [(query, text) for text in batch],
                batch_size=len(batch),
                show_progress_bar=False,
                activation_fn=torch.nn.Identity(),  # a sigmoid would make different scores equal
                convert_to_tensor=True,
            )
            floats: Array = rows.float().cpu().numpy()
            return floats

        scores = network.run(texts, forward, [[query] * len(texts), texts])
        for score, text in zip(scores, texts, strict=True):
            _check_finite(score, self._model, text)
        return tuple(round(float(score), 6) for score in scores)


def _check_finite(values: Array, model: str, text: str) -> None:
    if not np.isfinite(values).all():
        raise ModelError(
            f"{model!r} returned values that are not finite for the text that begins {text[:60]!r}: use dtype float32"
        )


def _unit(vector: Array) -> Array:
    exact = vector.astype(np.float64)
    length = np.sqrt(exact @ exact)
    unit: Array = (exact / length if length > 0 else exact).astype(np.float32)
    return unit
