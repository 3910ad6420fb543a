"""Make the starter kit of a pipeline: server, tests, requirements, Dockerfile, gate and README."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ragsmith.deploying.contents import WINNER, UserFiles, data_files, winner_bytes, winner_content
from ragsmith.deploying.requirements import Requirements, find_packages, resolve_requirements
from ragsmith.deploying.wheel import build_wheel
from ragsmith.deploying.writing import KIT_LIST, check_target, write_kit
from ragsmith.errors import RagsmithError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.models.registry import ModelProvider, providers
from ragsmith.pipelines.genes import GENES, Candidate, configuration

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE_FILES = {
    "server.py": "server.py",
    "running.py": "running.py",
    "asking.py": "asking.py",
    "smoke_test.py.j2": "smoke_test.py",
    "load_test.py.j2": "load_test.py",
    "pipeline.py.j2": "pipeline.py",
    "requirements.txt.j2": "requirements.txt",
    "requirements-services.txt.j2": "requirements-services.txt",
    "Dockerfile.j2": "Dockerfile",
    "compose.yaml.j2": "compose.yaml",
    "settings.j2": ".env.example",
    "gitignore": ".gitignore",
    "dockerignore": ".dockerignore",
    "gate.yml.j2": ".github/workflows/gate.yml",
    "README.md.j2": "README.md",
}
"""Template to file; templates without ``.j2`` are copied."""
GATE_TEMPLATE = "gate.yml.j2"
SERVICE_EXTRAS = {"qdrant": "qdrant", "postgres": "postgres"}
"""Service to the extra that brings its client."""
MAX_QUESTION_CHARACTERS = 300
"""Characters of the question in the smoke test."""


@dataclass(frozen=True, slots=True)
class Kit:
    """A starter kit in ``folder``.

    ``files`` are paths in it, ``extras`` those of ragsmith that the pipeline needs, ``keys`` the environment variables
    with the keys of the models (those that judge answers for the gate included), ``services`` the optional services
    that the pipeline can use, and ``notes`` remarks about this kit.
    """

    folder: Path
    files: tuple[str, ...]
    extras: tuple[str, ...]
    keys: tuple[str, ...]
    services: tuple[str, ...]
    notes: tuple[str, ...]


def make_kit(
    loaded: Pipeline, content: dict[str, Any], source: Path, folder: Path, *, bare: bool = False, force: bool = False
) -> Kit:
    """Write the kit of a pipeline to ``folder``.

    ``content`` is the parsed file of the pipeline and ``source`` the folder of its data. ``bare`` leaves the questions
    out; ``force`` replaces an existing kit.

    Raises:
        UsageError: ``folder`` contains something else, or an own file cannot be copied.
    """
    check_target(folder, force=force)
    questions = bool(loaded.setup.dataset.examples) and not bare
    own = UserFiles()
    winner = winner_content(content, loaded, own, questions=questions)
    used = tuple(_providers(loaded, gated=questions))
    extras = {"serve", *_extras(loaded, used)}
    served = not loaded.setup.models.embedded
    vectors = any(
        gene.technique.family == "retrieval" and "embedder" in gene.technique.tools.values()
        for gene in loaded.candidate
    )
    uses = {"qdrant": vectors, "postgres": served}
    packages, unknown = find_packages(own.imported_modules())
    main = resolve_requirements(extras, packages=packages)
    with_services = resolve_requirements({*extras, *SERVICE_EXTRAS.values()}, packages=packages)
    services = with_services - main
    wheel, wheel_bytes = build_wheel()
    keys = _keys(used)
    notes = _notes(loaded, content, main, services, unknown, questions=questions)
    facts = {
        "ragsmith": version("ragsmith"),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "wheel": wheel,
        "requirements": main.lines(),
        "services": services.lines(),
        "qdrant_minor": ".".join(with_services.pinned.get("qdrant-client", "1.15").split(".")[:2]),
        "uses": uses,
        "keys": keys,
        "marking_keys": set(keys) - set(_keys(_providers(loaded, gated=False))),
        "served": served,
        "self_hosted": loaded.setup.models.self_hosted,
        "name": loaded.setup.dataset.name,
        "documents": len(loaded.setup.dataset.documents),
        "examples": len(loaded.setup.dataset.examples) if questions else 0,
        "split": "all" if loaded.saw_all else "test",
        "referenced": questions and loaded.reference is not None and loaded.found_on == loaded.setup.dataset.digest,
        "question": _question(loaded),
        "genes": _genes(loaded.candidate),
        "models": loaded.setup.models.to_dict(),
        "chunk_size": loaded.setup.chunk_size,
        "chunk_overlap": loaded.setup.chunk_overlap,
        "imports": [entry["file"] for entry in winner.get("imports", ())],
        "notes": notes,
    }
    contents = {
        WINNER: winner_bytes(winner),
        f"wheels/{wheel}": wheel_bytes,
        **data_files(source, questions=questions),
        **own.contents,
        **{
            target: _render(template, facts).encode()
            for template, target in TEMPLATE_FILES.items()
            if questions or template != GATE_TEMPLATE
        },
    }
    write_kit(contents, folder, lambda draft: _check_draft(draft, loaded))
    return Kit(
        folder,
        tuple(sorted([*contents, KIT_LIST])),
        tuple(sorted(extras)),
        keys,
        tuple(service for service, useful in uses.items() if useful),
        notes,
    )


def _extras(loaded: Pipeline, used: Iterable[ModelProvider]) -> set[str]:
    """Return the extras of ragsmith that the models and techniques need."""
    found = {declared.extra for declared in used if declared.extra}
    for gene in loaded.candidate:
        for name, values in gene.technique.packages.items():
            if package := values.get(gene.parameters[name]):
                found.add(package.extra)
    return found


def _providers(loaded: Pipeline, *, gated: bool) -> Iterator[ModelProvider]:
    """Yield the providers of the models, and with ``gated`` those of the models that judge answers."""
    setup = loaded.setup
    marking = [setup.scored_by.models] if gated and setup.scored_by else []
    for names in (setup.models, *marking):
        for role in names.named_roles:
            if (declared := providers(role).get(names.for_role(role).kind)) is not None:
                yield declared


def _keys(used: Iterable[ModelProvider]) -> tuple[str, ...]:
    """Return the environment variables with the keys of these providers."""
    return tuple(dict.fromkeys(declared.service.keys[0] for declared in used if declared.service.keys))


def _question(loaded: Pipeline) -> str:
    """Return the question of the smoke test: one of the data set, or one about the first document."""
    data = loaded.setup.dataset
    if data.examples:
        return data.examples[0].question[:MAX_QUESTION_CHARACTERS]
    return f"What is said about {data.documents[0].title[:MAX_QUESTION_CHARACTERS]}?"


def _genes(candidate: Candidate) -> list[dict[str, Any]]:
    """Return family, technique and parameters of each gene, as the script lists them."""
    plain = configuration(candidate[:GENES])
    return [
        {"family": gene.technique.family, "summary": gene.technique.summary, **plain[gene.technique.family]}
        for gene in candidate[:GENES]
    ]


def _notes(
    loaded: Pipeline,
    content: Mapping[str, Any],
    main: Requirements,
    services: Requirements,
    unknown: tuple[str, ...],
    *,
    questions: bool,
) -> tuple[str, ...]:
    """Return remarks that apply to this kit only."""
    found = []
    if not questions:
        found.append("The kit has documents and no questions, so it has no gate.")
    if loaded.found_on != loaded.setup.dataset.digest:
        found.append("The documents differ from those of the search, so the scores of the search are left out.")
    if "vector_store" in content:
        found.append("The vector store is set by RAGSMITH_VECTOR_STORE here, not by the pipeline's file.")
    if main.unpinned or services.unpinned:
        listed = ", ".join((*main.unpinned, *services.unpinned))
        found.append(f"Not pinned, because not installed where the kit was made: {listed}.")
    if unknown:
        found.append(
            f"Your own files import {', '.join(unknown)}, which no package that is installed here has: "
            "requirements.txt does not list it."
        )
    return tuple(found)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["literal"] = literal
    return environment


def literal(value: Any) -> str:
    """Return plain data as a Python literal with double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(literal(one) for one in value) + "]"
        case _:
            return repr(value)


def _render(template: str, facts: Mapping[str, Any]) -> str:
    if not template.endswith(".j2"):
        return (TEMPLATES / template).read_text(encoding="utf-8")
    return _environment().get_template(template).render(facts)


def _check_draft(draft: Path, loaded: Pipeline) -> None:
    """Raise RagsmithError if a file changed meanwhile, so that the kit has another pipeline or other documents."""
    there = Pipeline.load(draft / WINNER)
    if (there.candidate, there.setup.dataset.digest) != (loaded.candidate, loaded.setup.dataset.digest):
        raise RagsmithError("the documents changed while the kit was made: make it again")
