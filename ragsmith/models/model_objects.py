"""Models passed from Python as objects: any that implement our protocols, and those of LlamaIndex, which are wrapped.

Records and files have only an object's identifier, as ``given:ID``; the object must be passed again to continue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragsmith.errors import UsageError
from ragsmith.models.names import ModelName
from ragsmith.models.registry import GIVEN, ROLE_LABELS, ROLES
from ragsmith.text.suggest import did_you_mean

_PERFORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "language_model": (("complete",), ("run", "run_all")),
    "embedder": (("embed",),),
    "cross_encoder": (("score",),),
}
"""The methods that a model of each role must have; any one of the alternatives suffices."""


def partition_models(models: Mapping[str, Any]) -> tuple[dict[str, str | ModelName], dict[str, Any]]:
    """Separate ``models`` into names by role, ``given:ID`` for objects, and the objects by role.

    Raises:
        UsageError: a role is unknown, or an object does not implement its protocol.
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
        _check_protocol(role, wrapped.setdefault(id(model), _wrap(model)))
        objects[role] = wrapped[id(model)]
        names[role] = f"{GIVEN}:{objects[role].id}"
    return names, objects


def check_objects(chosen: Mapping[str, ModelName], objects: Mapping[str, Any]) -> None:
    """Check that every object that is named was passed.

    Raises:
        UsageError: one was not; the message says how to pass it.
    """
    for role, model in chosen.items():
        if model.kind == GIVEN and role not in objects:
            raise UsageError(
                f"the {ROLE_LABELS[role]} {model.model} was an object in Python, which no file contains: pass it "
                f"again, with models={{{role!r}: ...}}, or name another model"
            )


def _wrap(model: Any) -> Any:
    """Wrap a LlamaIndex model; return anything else unchanged."""
    if not any(base.__module__.partition(".")[0] == "llama_index" for base in type(model).__mro__):
        return model
    from ragsmith.models.llama_index import LlamaIndexChat, LlamaIndexEmbedder  # noqa: PLC0415  rarely needed

    if hasattr(model, "get_text_embedding_batch"):
        return LlamaIndexEmbedder(model)
    return LlamaIndexChat(model) if hasattr(model, "complete") else model


def _check_protocol(role: str, model: Any) -> None:
    ways = _PERFORMS[ROLES[role]]
    if not any(all(callable(getattr(model, name, None)) for name in names) for names in ways):
        wanted = " or ".join(" and ".join(f"{name}()" for name in names) for names in ways)
        raise UsageError(
            f"the {ROLE_LABELS[role]} is a {type(model).__name__}, which lacks {wanted}: see ragsmith.models.protocols"
        )
    known = getattr(model, "id", None)
    if not isinstance(known, str) or not known.strip() or not known.isprintable():
        raise UsageError(
            f"the {ROLE_LABELS[role]} is a {type(model).__name__} without an 'id': give it one line of text that "
            "identifies everything its results depend on, because results are cached under it"
        )
