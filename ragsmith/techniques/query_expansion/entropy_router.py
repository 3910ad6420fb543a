"""Entropy router (EGR): choose a search strategy by the entropy of the scores of a first search (Singh et al.)."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from ragsmith.index.index import embed_queries
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import Amount, Count, Range
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.decomposition import decomposition
from ragsmith.techniques.query_expansion.keyword_router import STRATEGIES, compute_ndcgs, search_by_strategy
from ragsmith.techniques.registry import Fitting
from ragsmith.text.words import words
from ragsmith.types import Fitted, Gold, Hits, Question, Search

FITTED_OBJECTIVES = ("ndcg", "agreement")
"""The objectives that thresholds can be fitted to."""

COMPARISON_WORDS = frozenset(words("both same than between versus vs compare compared respectively either neither"))
"""Words of questions that compare."""
_NAME = re.compile(r"\b[A-Z]\w{2,}")


def observe(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    embedder: Embedder,
    gold: Gold,
    temperature: float,
    multi_hop: bool,
    nearest: int,
    depth: int,
) -> dict[str, Any]:
    """Return the entropy of a question and the nDCG@10 of each strategy; no scores without hits or relevant chunks."""
    hits = search((question.text,))[0]
    if not gold.relevant or not hits:
        return {"entropy": 0.0, "ndcg": []}
    entropy = softmax_entropy(compute_distances(question, hits[:nearest], embedder), temperature)
    others = [_search(strategy, question, search, language_model, multi_hop, depth) for strategy in STRATEGIES[1:]]
    return {"entropy": entropy, "ndcg": compute_ndcgs((hits[:depth], *others), gold)}


def solve(observations: Sequence[Mapping[str, Any]], *, thresholds: str, nearest: int) -> dict[str, float]:
    """Fit ``low`` and ``high``: the pair of thresholds with the highest mean nDCG, or the highest agreement.

    Agreement is with the oracle, the first strategy with the highest nDCG@10. Ties are broken in favour of the pair
    that uses the plain search most often, then of the one that uses the broader question least often.

    Raises:
        ValueError: no question has a relevant chunk.
    """
    scored = sorted((each["entropy"], each["ndcg"]) for each in observations if each["ndcg"])
    if not scored:
        raise ValueError("query_expansion.entropy_router: no calibration question has gold; label some")
    gains = np.array([ndcg for _, ndcg in scored])
    if thresholds == "agreement":
        gains = np.eye(len(STRATEGIES))[gains.argmax(axis=1)]
    plain, both, broad = np.vstack([np.zeros(len(STRATEGIES)), np.cumsum(gains, axis=0)]).T
    # questions before the first cut use the plain search, those before the second dual_path, others step_back
    entropies = [entropy for entropy, _ in scored]
    cuts = [i for i in range(len(scored) + 1) if i in (0, len(scored)) or entropies[i - 1] < entropies[i]]
    best, best_value, end = (0, 0), -math.inf, len(scored)
    for i in reversed(cuts):
        if _marginal_gain(both, broad, i) > _marginal_gain(both, broad, end):
            end = i
        value = round(float(plain[i] - both[i] + both[end] - broad[end] + broad[-1]), 9)
        if value > best_value:
            best, best_value = (i, end), value
    low, high = (_place_threshold(entropies, cut, math.log(nearest)) for cut in best)
    return {"low": low, "high": high}


def _marginal_gain(both: Any, broad: Any, cut: int) -> float:
    """Return the gain of `dual_path` over `step_back` for the first ``cut`` questions, to 9 decimals."""
    return round(float(both[cut] - broad[cut]), 9)


def _place_threshold(entropies: Sequence[float], cut: int, most: float) -> float:
    """Return a threshold that is above exactly the first ``cut`` entropies."""
    if cut == 0:
        return 0.0
    if cut == len(entropies):
        return most + 1
    middle = entropies[cut - 1] + (entropies[cut] - entropies[cut - 1]) / 2
    return middle if middle > entropies[cut - 1] else entropies[cut]


@query_expansion(
    paper="Singh et al., Beyond the Reranker",
    choices={"thresholds": ("given", *FITTED_OBJECTIVES), "temperature": (0.05, 0.02, 1.0), "multi_hop": (False, True)},
    fitting=Fitting(observe, solve, when={"thresholds": FITTED_OBJECTIVES}),
)
def entropy_router(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    embedder: Embedder,
    fitted: Fitted,
    thresholds: str = "given",
    temperature: Annotated[float, Range(0.001)] = 0.05,
    low: Amount = 1.8,
    high: Amount = 2.6,
    multi_hop: bool = False,
    nearest: Count = 20,
    depth: Count = 20,
) -> Hits:
    """Search with the question alone, or expand it if the distances of the best hits are too similar.

    Helps when ambiguous questions can be recognised by their hits, for which there is no evidence: in the paper's own
    data the entropy hardly correlates with the best strategy (rank correlation 0.1). Costs one search, one embedding
    per hit, and the call of ``dual_path`` or ``step_back`` if it is chosen. If the entropy (nats) of the softmax of
    ``-distance / temperature`` over the ``nearest`` hits (squared L2) is below ``low``, the first hits are returned;
    below ``high``, those of ``dual_path``; else, or without hits, those of ``step_back``. The entropy is at most the
    logarithm of the number of hits, so a search with fewer than 14 hits never reaches the default ``high``.

    ``thresholds`` are ``given``, or fitted on search questions, which costs both calls for each of them: over all pairs
    for the highest mean nDCG@10 (``ndcg``) or, as in the paper's code, for the most questions on which router and
    oracle agree (``agreement``). With ``multi_hop``, a question for ``step_back`` is decomposed instead if it compares,
    or has two names of three letters or more after its first word; in the paper this flag has no effect.

    Differences from the paper: it claims fitted thresholds and uses ``temperature=1.0`` with the ``given`` 1.8 and 2.6.
    Distances of unit vectors differ so little that the entropy of every question is then near the maximum, log 20 =
    3.0, and all use ``step_back``. At 0.05 all three strategies are chosen. The paper's code tries 40 thresholds.
    """
    if temperature <= 0 or low > high or nearest < 1:
        raise ValueError(
            f"query_expansion.entropy_router: temperature is {temperature}, low {low}, high {high}, nearest {nearest}; "
            "give a temperature above 0, low up to high, and 1 or more nearest"
        )
    if thresholds != "given":
        low, high = fitted.numbers["low"], fitted.numbers["high"]
    hits = search((question.text,))[0]
    entropy = softmax_entropy(compute_distances(question, hits[:nearest], embedder), temperature)
    if hits and entropy < low:
        return hits[:depth]
    strategy = "dual_path" if hits and entropy < high else "step_back"
    return _search(strategy, question, search, language_model, multi_hop, depth)


def is_multi_hop(text: str) -> bool:
    """Whether a question compares, or has two different capitalised words after its first one."""
    _, _, rest = text.strip().partition(" ")
    return not COMPARISON_WORDS.isdisjoint(words(text)) or len(set(_NAME.findall(rest))) >= 2


def _search(
    strategy: str, question: Question, search: Search, language_model: LanguageModel, multi_hop: bool, depth: int
) -> Hits:
    if strategy == "step_back" and multi_hop and is_multi_hop(question.text):
        return decomposition(question, search, language_model=language_model, depth=depth)
    return search_by_strategy(strategy, question, search, language_model=language_model, depth=depth)


def compute_distances(question: Question, hits: Hits, embedder: Embedder) -> tuple[float, ...]:
    """Return the squared L2 distance between the vectors of the question and of each hit's text."""
    if not hits:
        return ()
    [question_vector] = embed_queries(embedder, [question.text]).astype(np.float64)
    hit_vectors = embedder.embed([hit.chunk.text for hit in hits]).astype(np.float64)
    # |a - b|^2 = 2 - 2 cos(a, b); rounded, as the last bits differ between machines
    return tuple(float(value) for value in np.round(2 - 2 * (hit_vectors @ question_vector), 6))


def softmax_entropy(values: Sequence[float], temperature: float) -> float:
    """Return the entropy, in nats, of the softmax of ``-values / temperature``: 0 to ``log(len(values))``."""
    nearest = min(values, default=0.0)
    powers = [math.exp((nearest - value) / temperature) for value in values]  # p_i = softmax(-d_i / T)
    total = math.fsum(powers)
    # H = -sum p log p; rounded, so that rounding errors do not decide at a threshold
    return round(-math.fsum(power / total * math.log(power / total) for power in powers if power), 9) + 0.0
