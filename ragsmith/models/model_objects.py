"""Models handed over from Python as objects: any with our protocols, and those of LlamaIndex, which are wrapped.

Such an object is recorded by its identifier alone, as ``given:ID``. So a file or a record that names one says what it
was, and whoever goes on with it hands the object over again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.names import ModelName
from ragsmith.models.registry import GIVEN, ROLES, SPOKEN
from ragsmith.text.suggest import did_you_mean

_PERFORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "language_model": (("complete",), ("run", "run_all")),
    "embedder": (("embed",),),
    "cross_encoder": (("score",),),
}
"""Role to the methods that its model has, in either of the ways in which it may work."""


def apart(models: Mapping[str, Any]) -> tuple[dict[str, str | ModelName], dict[str, Any]]:
    """Names by role, an object's being ``given:ID``, and the objects by role; one object in two roles stays one.

    Raises:
        UsageError: there is no such role, or an object cannot play it.
    """
    names: dict[str, str | ModelName] = {}
    objects: dict[str, Any] = {}
    wrapped: dict[int, Any] = {}
    for role, model in models.items():
        if role not in ROLES:
            raise UsageError(f"there is no role {role!r} for a model; {did_you_mean(role, ROLES)}")
        if isinstance(model, str | ModelName):
            names[role] = model
            continue
        _refuse_unfit(role, wrapped.setdefault(id(model), _wrapped(model)))
        objects[role] = wrapped[id(model)]
        names[role] = f"{GIVEN}:{objects[role].id}"
    return names, objects


def refuse_absent(chosen: Mapping[str, ModelName], objects: Mapping[str, Any]) -> None:
    """Refuse names of objects that were not handed over.

    Raises:
        UsageError: there is one; the message says how to hand it over.
    """
    for role, model in chosen.items():
        if model.kind == GIVEN and role not in objects:
            raise UsageError(
                f"the {SPOKEN[role]} {model.model} was an object in Python and is in no file: hand it over again, with "
                f"models={{{role!r}: ...}}, or name another model"
            )


def _wrapped(model: Any) -> Any:
    """A model of LlamaIndex as one of ours; anything else as it is."""
    if not any(base.__module__.partition(".")[0] == "llama_index" for base in type(model).__mro__):
        return model
    from ragsmith.models.llama_index import LlamaIndexChat, LlamaIndexEmbedder  # noqa: PLC0415  rarely needed

    if hasattr(model, "get_text_embedding_batch"):
        return LlamaIndexEmbedder(model)
    return LlamaIndexChat(model) if hasattr(model, "complete") else model


def _refuse_unfit(role: str, model: Any) -> None:
    ways = _PERFORMS[ROLES[role]]
    if not any(all(callable(getattr(model, name, None)) for name in names) for names in ways):
        wanted = " or ".join(" and ".join(f"{name}()" for name in names) for names in ways)
        raise UsageError(
            f"the {SPOKEN[role]} is a {type(model).__name__}, which lacks {wanted}: see ragsmith.models.protocols"
        )
    known = getattr(model, "id", None)
    if not isinstance(known, str) or not known.strip() or not known.isprintable():
        raise UsageError(
            f"the {SPOKEN[role]} is a {type(model).__name__} without an 'id': give it one line of text that says "
            "everything its results depend on, because results are kept under it"
        )
