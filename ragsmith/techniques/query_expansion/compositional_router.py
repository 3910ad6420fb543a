"""Compositional router: choose how to search by predicted nDCG ("Beyond the Reranker", Singh et al.)."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.entity_graph import names
from ragsmith.index.index import embed_queries
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import Count, Range
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.entropy_router import COMPARISON_WORDS, compute_distances
from ragsmith.techniques.query_expansion.keyword_router import STRATEGIES, broad, ndcg_of_each, searched_by
from ragsmith.techniques.registry import Fitting
from ragsmith.text.words import words
from ragsmith.types import Fitted, Gold, Hits, Question, Search

Matrix = NDArray[np.float64]

NEAREST = 20
COMPONENTS = 8
FIRST_WORDS = ("what", "who", "when", "where", "which", "why", "how", "is", "are", "was", "do", "does", "did", "can")

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
    """Return a question's features and the nDCG@10 of each strategy; no scores where nothing is relevant."""
    plain = search((question.text,))[0]
    others = [searched_by(s, question, search, language_model=language_model, depth=depth) for s in STRATEGIES[1:]]
    return {
        "lexical": list(lexical(question.text, compute_distances(question, plain[:NEAREST], embedder))),
        "embedding": list(embed_question(question, embedder)),
        "ndcg": ndcg_of_each((plain[:depth], *others), gold) if gold.relevant else [],
    }


def solve(observations: Sequence[Mapping[str, Any]], *, alpha: float) -> dict[str, Any]:
    """Fit a ridge regression for each strategy.

    Standardising, projecting and regressing are one affine map in the end, and that is what is returned: ``models`` has
    for each strategy ``intercept`` and ``weights``, of the lexical features and of the embedding. It is the same
    whichever sign the principal components have. ``order`` lists the strategies, the best on average first.

    Raises:
        ValueError: no question has anything relevant to find.
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
    components = principal_components(embedding - centre)
    design = np.hstack([(lexical_part - mean) / scale, (embedding - centre) @ components.T])
    slopes = ridge(design, gains - gains.mean(axis=0), alpha)
    by_feature = np.vstack([slopes[: len(mean)] / scale[:, None], components.T @ slopes[len(mean) :]])
    intercepts = gains.mean(axis=0) - np.concatenate([mean, centre]) @ by_feature
    models = {
        strategy: {"intercept": _digits(intercepts[i]), "weights": [_digits(weight) for weight in by_feature[:, i]]}
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
    """Search plainly, with an imagined passage or with a broader question, whichever is predicted to score best.

    Helps when the form of a question determines the best strategy and there are enough questions to learn that from: 34
    features are fitted. Costs one search, one embedding of the question and of each of 20 hits, and the call of
    ``dual_path`` or ``step_back`` where that is chosen; fitting costs both calls for every calibration question.

    A ridge regression (penalty ``alpha``) for each strategy predicts nDCG@10 from the first word, question mark,
    breadth, comparison, names, length, clauses, six statistics of the distances of the first hits, and the first eight
    principal components of the question's vector. Ties go to the strategy that is best on average.

    Differences from the paper: it was cross-fitted on the labels of the split that it was scored on, including the test
    split; here the test split is never used for fitting.
    """
    plain = search((question.text,))[0]
    features = (
        *lexical(question.text, compute_distances(question, plain[:NEAREST], embedder)),
        *embed_question(question, embedder),
    )
    strategy = predicted_best(fitted.numbers, features)
    if strategy == "semantic":
        return plain[:depth]
    return searched_by(strategy, question, search, language_model=language_model, depth=depth)


def predicted_best(numbers: Mapping[str, Any], features: Sequence[float]) -> str:
    """Return the strategy with the highest prediction.

    Raises:
        ValueError: the models were fitted on another number of features, with another embedder.
    """
    models = numbers["models"]
    sizes = {len(model["weights"]) for model in models.values()}
    if sizes != {len(features)}:
        raise ValueError(
            f"query_expansion.compositional_router: it was fitted on {min(sizes)} features and a question has "
            f"{len(features)}; fit it again with this embedder"
        )
    values = {name: model["intercept"] + float(np.dot(model["weights"], features)) for name, model in models.items()}
    order: list[str] = numbers["order"]
    return max(order, key=lambda name: round(values[name], 6))


def lexical(text: str, found: Sequence[float]) -> tuple[float, ...]:
    """Return 26 features: the first word (14), six of form, and six of the distances ``found``, nearest hit first."""
    asked = words(text)
    first = [float(asked[:1] == [word]) for word in FIRST_WORDS]
    form = (
        "?" in text,
        broad(text),
        not COMPARISON_WORDS.isdisjoint(asked),
        len(names(text)),
        len(asked),
        1 + sum(match.start() > 0 for match in _CLAUSE.finditer(text.strip().lower())),
    )
    return (*first, *map(float, form), *_statistics(found))


def embed_question(question: Question, embedder: Embedder) -> tuple[float, ...]:
    """Return the question's vector, rounded as cosines are."""
    [vector] = embed_queries(embedder, [question.text]).astype(np.float64)
    return tuple(float(value) for value in np.round(vector, 6))


def principal_components(centred: Matrix) -> Matrix:
    """Return the first components of rows with mean 0: shape ``(8 at most, dimensions)``."""
    _, singular, components = np.linalg.svd(centred, full_matrices=False)
    strong = singular > 1e-9
    return components[strong][:COMPONENTS]


def ridge(design: Matrix, targets: Matrix, alpha: float) -> Matrix:
    """Return the slopes ``(X'X + alpha I)^-1 X'y`` for columns and targets with mean 0."""
    gram = design.T @ design + alpha * np.eye(design.shape[1])
    slopes: Matrix = np.linalg.solve(gram, design.T @ targets).astype(np.float64)
    return slopes


def _statistics(found: Sequence[float]) -> tuple[float, ...]:
    """Return the smallest, mean, range, standard deviation, first gap, smallest / mean; zeros without hits."""
    if not found:
        return (0.0,) * 6
    values = sorted(map(float, found))
    mean, nearest = float(np.mean(values)), values[0]
    gap = values[1] - nearest if len(values) > 1 else 0.0
    return nearest, mean, values[-1] - nearest, float(np.std(values)), gap, nearest / mean if mean else 0.0


def _digits(value: np.float64) -> float:
    return round(float(value), 9) + 0.0  # no last bits, no negative zero: those differ between machines
