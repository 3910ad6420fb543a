"""Compositional router: choose a search strategy by predicted nDCG ("Beyond the Reranker", Singh et al.)."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import embed_queries
from ragsmith.index.relations import find_names
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import Count, Range
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.entropy_router import COMPARISON_WORDS, compute_distances
from ragsmith.techniques.query_expansion.keyword_router import (
    STRATEGIES,
    compute_ndcgs,
    has_breadth_word,
    search_by_strategy,
)
from ragsmith.techniques.registry import Fitting
from ragsmith.text.words import words
from ragsmith.types import Fitted, Gold, Hits, Question, Search

Matrix = NDArray[np.float64]

N_NEAREST_HITS = 20
"""Number of hits whose distances to the question are features."""
MAX_COMPONENTS = 8
"""Maximum number of principal components of question vectors that are features."""
FIRST_WORDS = ("what", "who", "when", "where", "which", "why", "how", "is", "are", "was", "do", "does", "did", "can")
"""First words of questions, each of which is an indicator feature."""

_CLAUSE = re.compile(r"[,;:—]|\b(?:and|but|or|if|because|although|though|while|that|which|who|when|after|before)\b")


def observe(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    embedder: Embedder,
    gold: Gold,
    depth: int,
) -> dict[str, Any]:
    """Return a question's features and the nDCG@10 of each strategy; no scores without relevant chunks."""
    hits = search((question.text,))[0]
    others = [
        search_by_strategy(s, question, search, language_model=language_model, depth=depth) for s in STRATEGIES[1:]
    ]
    return {
        "lexical": list(
            compute_lexical_features(question.text, compute_distances(question, hits[:N_NEAREST_HITS], embedder))
        ),
        "embedding": list(embed_question(question, embedder)),
        "ndcg": compute_ndcgs((hits[:depth], *others), gold) if gold.relevant else [],
    }


def solve(observations: Sequence[Mapping[str, Any]], *, alpha: float) -> dict[str, Any]:
    """Fit a ridge regression for each strategy.

    Standardisation, projection and regression are combined into one affine map: ``models`` has for each strategy
    ``intercept`` and ``weights``, of the lexical features and of the embedding. The map does not depend on the signs of
    the principal components. ``order`` lists the strategies by descending mean nDCG.

    Raises:
        ValueError: no question has relevant chunks.
    """
    scored = [observation for observation in observations if observation["ndcg"]]
    if not scored:
        raise ValueError("query_expansion.compositional_router: no calibration question has gold; label some")
    lexical_part, embedding, gains = (
        np.array([observation[part] for observation in scored], dtype=np.float64)
        for part in ("lexical", "embedding", "ndcg")
    )
    mean, deviation = lexical_part.mean(axis=0), lexical_part.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    centre = embedding.mean(axis=0)
    components = compute_components(embedding - centre)
    design = np.hstack([(lexical_part - mean) / scale, (embedding - centre) @ components.T])
    slopes = fit_ridge(design, gains - gains.mean(axis=0), alpha)
    by_feature = np.vstack([slopes[: len(mean)] / scale[:, None], components.T @ slopes[len(mean) :]])
    intercepts = gains.mean(axis=0) - np.concatenate([mean, centre]) @ by_feature
    models = {
        strategy: {"intercept": _round(intercepts[i]), "weights": [_round(weight) for weight in by_feature[:, i]]}
        for i, strategy in enumerate(STRATEGIES)
    }
    average = [round(float(value), 9) for value in gains.mean(axis=0)]
    return {"models": models, "order": sorted(STRATEGIES, key=lambda name: -average[STRATEGIES.index(name)])}


@query_expansion(
    paper="Singh et al., Beyond the Reranker",
    choices={"alpha": (1.0, 10.0)},
    fitting=Fitting(observe, solve),
)
def compositional_router(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    embedder: Embedder,
    fitted: Fitted,
    alpha: Annotated[float, Range(0.001)] = 1.0,
    depth: Count = 20,
) -> Hits:
    """Search with the question, a hypothetical passage or a broader question, by the highest predicted score.

    Helps when the form of a question determines the best strategy and there are enough questions to learn this from: 34
    features are fitted. Costs one search, one embedding of the question and of each of 20 hits, and the call of
    ``dual_path`` or ``step_back`` if it is chosen; fitting costs both calls for every calibration question.

    A ridge regression (penalty ``alpha``) for each strategy predicts nDCG@10 from the first word, question mark,
    breadth, comparison, names, length, clauses, six statistics of the distances of the first hits, and the first eight
    principal components of the question's vector. Ties go to the strategy with the highest mean.

    Differences from the paper: its router was cross-fitted on the labels of the split that it was evaluated on,
    including the test split; here the test split is never used for fitting.
    """
    hits = search((question.text,))[0]
    features = (
        *compute_lexical_features(question.text, compute_distances(question, hits[:N_NEAREST_HITS], embedder)),
        *embed_question(question, embedder),
    )
    strategy = predict_best_strategy(fitted.numbers, features)
    if strategy == "semantic":
        return hits[:depth]
    return search_by_strategy(strategy, question, search, language_model=language_model, depth=depth)


def predict_best_strategy(numbers: Mapping[str, Any], features: Sequence[float]) -> str:
    """Return the strategy with the highest prediction.

    Raises:
        ValueError: the models were fitted on another number of features, with another embedder.
    """
    models = numbers["models"]
    sizes = {len(model["weights"]) for model in models.values()}
    if sizes != {len(features)}:
        raise ValueError(
            f"query_expansion.compositional_router was fitted on {min(sizes)} features and a question has "
            f"{len(features)}; fit it again with this embedder"
        )
    values = {name: model["intercept"] + float(np.dot(model["weights"], features)) for name, model in models.items()}
    order: list[str] = numbers["order"]
    return max(order, key=lambda name: round(values[name], 6))


def compute_lexical_features(text: str, distances: Sequence[float]) -> tuple[float, ...]:
    """Return 26 features: the first word (14), six of form, and six of ``distances``, those of the nearest hits in
    order.
    """
    question_words = words(text)
    first = [float(question_words[:1] == [word]) for word in FIRST_WORDS]
    form = (
        "?" in text,
        has_breadth_word(text),
        not COMPARISON_WORDS.isdisjoint(question_words),
        len(find_names(text)),
        len(question_words),
        1 + sum(match.start() > 0 for match in _CLAUSE.finditer(text.strip().lower())),
    )
    return (*first, *map(float, form), *_summarise_distances(distances))


def embed_question(question: Question, embedder: Embedder) -> tuple[float, ...]:
    """Return the question's vector, rounded to 6 decimals as cosines are."""
    [vector] = embed_queries(embedder, [question.text]).astype(np.float64)
    return tuple(float(value) for value in np.round(vector, 6))


def compute_components(centred: Matrix) -> Matrix:
    """Return the principal components of rows with mean 0: shape ``(at most 8, dimensions)``."""
    _, singular, components = np.linalg.svd(centred, full_matrices=False)
    strong = singular > 1e-9
    return components[strong][:MAX_COMPONENTS]


def fit_ridge(design: Matrix, targets: Matrix, alpha: float) -> Matrix:
    """Return the slopes ``(X'X + alpha I)^-1 X'y`` for columns and targets with mean 0."""
    gram = design.T @ design + alpha * np.eye(design.shape[1])
    slopes: Matrix = np.linalg.solve(gram, design.T @ targets).astype(np.float64)
    return slopes


def _summarise_distances(distances: Sequence[float]) -> tuple[float, ...]:
    """Return minimum, mean, range, standard deviation, first gap, and minimum / mean; zeros without hits."""
    if not distances:
        return (0.0,) * 6
    values = sorted(map(float, distances))
    mean, nearest = float(np.mean(values)), values[0]
    gap = values[1] - nearest if len(values) > 1 else 0.0
    return nearest, mean, values[-1] - nearest, float(np.std(values)), gap, nearest / mean if mean else 0.0


def _round(value: np.float64) -> float:
    return round(float(value), 9) + 0.0  # last bits and negative zeros differ between machines
