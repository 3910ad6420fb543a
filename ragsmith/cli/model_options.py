"""The options that say which models there are, the same for every command that uses some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ragsmith.models.names import ModelName, ModelNames

ModelsOption = Annotated[
    Path | None,
    typer.Option("--models", help="A YAML file: models by role, and where and how they are asked. Flags go before it."),
]
LlmOption = Annotated[
    str | None,
    typer.Option("--llm", help="What writes answers: extractive (embedded), or openai:MODEL. [default: extractive]"),
]
ControllerOption = Annotated[
    str | None, typer.Option("--controller", help="What techniques ask for plans and rewrites. [default: the --llm]")
]
JudgeOption = Annotated[str | None, typer.Option("--judge", help="The model that judges answers. [default: the --llm]")]
EmbedderOption = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        help="wordllama (embedded), openai:MODEL, cohere:MODEL or sentence-transformers:MODEL. [default: wordllama]",
    ),
]
RerankerOption = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        help="late_interaction (embedded), cohere:MODEL, jina:MODEL, rerank:MODEL, sentence-transformers:MODEL, or "
        "none. [default: late_interaction]",
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="An OpenAI-compatible server, for openai: models.")
]

VectorStoreOption = Annotated[
    str | None,
    typer.Option("--vector-store", help="Where vectors lie: auto, exact, qdrant:URL or qdrant:FOLDER. [default: auto]"),
]


def named(
    llm: str | None, controller: str | None, judge: str | None, embedder: str | None, reranker: str | None
) -> dict[str, str]:
    """The models that flags name, by role."""
    flags = {
        "language_model": llm,
        "controller": controller,
        "judge": judge,
        "embedder": embedder,
        "cross_encoder": reranker,
    }
    return {role: name for role, name in flags.items() if name is not None}


def choose(
    models: Path | None, flags: dict[str, str], base_url: str | None, vector_store: str | None = None
) -> ModelNames:
    """The models of a run: the embedded ones, then those of the file ``models``, then ``flags``.

    Raises:
        UsageError: a name is unknown, or the file wrong.
    """
    from ragsmith.models.names import ModelNames

    chosen = ModelNames().overridden(overrides(models, flags), base_url, vector_store)
    chosen.check()
    return chosen


def overrides(models: Path | None, flags: dict[str, str]) -> dict[str, str | ModelName]:
    """What the file ``models`` names, if there is one, but for what ``flags`` name otherwise."""
    from ragsmith.models.file import read_models

    filed = {} if models is None else read_models(models)
    return {**filed, **{role: name for role, name in flags.items() if role not in filed or filed[role].name != name}}
