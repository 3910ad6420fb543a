"""Write the starter kit of a pipeline: server, tests, requirements, Dockerfile, gate and README."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ragsmith.deploying.contents import WINNER, WINNER_HEADER, UserFiles, data_files, winner_content
from ragsmith.deploying.requirements import find_packages, resolve_requirements
from ragsmith.deploying.wheel import build_wheel
from ragsmith.deploying.writing import KIT_LIST, check_target, write_kit
from ragsmith.errors import RagsmithError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.writing import dump_yaml
from ragsmith.models.registry import ModelProvider, providers
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, configuration

TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE_FILES = {
    "server.py": "server.py",
    "running.py": "running.py",
    "asking.py": "asking.py",
    "smoke_test.py.j2": "smoke_test.py",
    "load_test.py.j2": "load_test.py",
    "pipeline.py.j2": "pipeline.py",
    "requirements.txt.j2": "requirements.txt",
    "Dockerfile.j2": "Dockerfile",
    "compose.yaml.j2": "compose.yaml",
    "settings.j2": ".env.example",
    "gitignore": ".gitignore",
    "dockerignore": ".dockerignore",
    "pin.sh": "pin.sh",
    "gate.yml.j2": ".github/workflows/gate.yml",
    "README.md.j2": "README.md",
}
"""The file of each template; templates without ``.j2`` are copied."""
GATE_TEMPLATE = "gate.yml.j2"
SERVICE_TEMPLATE = "requirements-service.txt.j2"
SERVICE_EXTRAS = {"qdrant": "qdrant", "postgres": "postgres"}
"""The extra with the client of each service."""
MAX_QUESTION_CHARACTERS = 300
"""Maximum characters of the question in the smoke test."""


@dataclass(frozen=True, slots=True)
class Kit:
    """A starter kit in ``folder``.

    ``files`` are relative paths, ``extras`` the extras of ragsmith that the pipeline needs, ``keys`` the environment
    variables with the keys of the models (including those of the judge for the gate), ``services`` the optional
    services that the pipeline can use, and ``notes`` remarks about this kit.
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
        UsageError: ``folder`` contains other files, or the user's code cannot be copied.
    """
    check_target(folder, force=force)
    questions = bool(loaded.setup.dataset.examples) and not bare
    user_files = UserFiles()
    winner = winner_content(content, loaded, user_files, questions=questions)
    model_providers = tuple(_providers(loaded, gated=questions))
    extras = {"serve", *_extras(loaded, model_providers)}
    served = not loaded.setup.models.embedded
    uses_vectors = any(
        gene.technique.family == "retrieval" and "embedder" in gene.technique.tools.values()
        for gene in loaded.candidate
    )
    uses = {"qdrant": uses_vectors, "postgres": served}
    packages, unknown = find_packages(user_files.imported_modules())
    requirements = resolve_requirements(extras, packages=packages)
    clients = {
        service: resolve_requirements({*extras, extra}, packages=packages) - requirements
        for service, extra in SERVICE_EXTRAS.items()
    }
    wheel, wheel_bytes = build_wheel()
    keys = _keys(model_providers)
    unpinned = (line for each in (requirements, *clients.values()) for line in each.unpinned)
    notes = _notes(loaded, content, dict.fromkeys(unpinned), unknown, questions=questions)
    context = {
        "ragsmith": version("ragsmith"),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "wheel": wheel,
        "requirements": requirements.lines(),
        "qdrant_minor": ".".join(
            {**requirements.pinned, **clients["qdrant"].pinned}.get("qdrant-client", "1.15").split(".")[:2]
        ),
        "uses": uses,
        "keys": keys,
        "marking_keys": set(keys) - set(_keys(_providers(loaded, gated=False))),
        "served": served,
        "self_hosted": loaded.setup.models.self_hosted,
        "name": loaded.setup.dataset.name,
        "documents": len(loaded.setup.dataset.documents),
        "examples": len(loaded.setup.dataset.examples) if questions else 0,
        "split": "all" if loaded.chosen_on_all else "test",
        "referenced": questions and loaded.reference is not None and loaded.found_on == loaded.setup.dataset.digest,
        "own": bool(user_files.contents),
        "question": _question(loaded),
        "genes": _genes(loaded.candidate),
        "models": loaded.setup.models.to_dict(),
        "chunk_size": loaded.setup.chunk_size,
        "chunk_overlap": loaded.setup.chunk_overlap,
        "imports": [entry["file"] for entry in winner.get("imports", ())],
        "notes": notes,
    }
    contents = {
        WINNER: (WINNER_HEADER + dump_yaml(winner)).encode(),
        f"wheels/{wheel}": wheel_bytes,
        **data_files(source, questions=questions),
        **user_files.contents,
        **{
            f"requirements-{service}.txt": _render(
                SERVICE_TEMPLATE, {"service": service, "lines": client.lines()}
            ).encode()
            for service, client in clients.items()
        },
        **{
            target: _render(template, context).encode()
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


def _extras(loaded: Pipeline, model_providers: Iterable[ModelProvider]) -> set[str]:
    """Return the extras of ragsmith that the models and techniques need."""
    of_options = {
        package.extra
        for gene in loaded.candidate
        for name, values in gene.technique.packages.items()
        if (package := values.get(gene.parameters[name]))
    }
    return of_options | {provider.extra for provider in model_providers if provider.extra}


def _providers(loaded: Pipeline, *, gated: bool) -> Iterator[ModelProvider]:
    """Yield the providers of the models, and with ``gated`` those of the models that judge answers."""
    setup = loaded.setup
    judging = [setup.scored_by.models] if gated and setup.scored_by else []
    for names in (setup.models, *judging):
        for role in names.named_roles:
            if (provider := providers(role).get(names.for_role(role).kind)) is not None:
                yield provider


def _keys(model_providers: Iterable[ModelProvider]) -> tuple[str, ...]:
    """Return the environment variables with the keys of these providers."""
    return tuple(dict.fromkeys(provider.service.keys[0] for provider in model_providers if provider.service.keys))


def _question(loaded: Pipeline) -> str:
    """Return the question of the smoke test: one of the data set, or one about the first document."""
    data = loaded.setup.dataset
    if data.examples:
        return data.examples[0].question[:MAX_QUESTION_CHARACTERS]
    return f"What is said about {data.documents[0].title[:MAX_QUESTION_CHARACTERS]}?"


def _genes(candidate: Candidate) -> list[dict[str, Any]]:
    """Return family, technique and parameters of each gene, for the script."""
    genes_by_family = configuration(candidate[:N_FAMILIES])
    return [
        {"family": gene.technique.family, "summary": gene.technique.summary, **genes_by_family[gene.technique.family]}
        for gene in candidate[:N_FAMILIES]
    ]


def _notes(
    loaded: Pipeline,
    content: Mapping[str, Any],
    unpinned: Iterable[str],
    unknown: tuple[str, ...],
    *,
    questions: bool,
) -> tuple[str, ...]:
    """Return remarks about this kit."""
    missing = ", ".join(unpinned)
    notes = {
        "The kit has documents and no questions, so it has no gate.": not questions,
        "The documents differ from those of the search, so the scores of the search are omitted.": (
            loaded.found_on != loaded.setup.dataset.digest
        ),
        "The vector store is set by RAGSMITH_VECTOR_STORE, not by the pipeline file.": "vector_store" in content,
        f"Not pinned, because not installed on the machine that wrote the kit: {missing}.": missing,
        f"Your code imports {', '.join(unknown)}, which no installed package provides: "
        "requirements.txt does not list it.": unknown,
    }
    return tuple(note for note, applies in notes.items() if applies)


def literal(value: Any) -> str:
    """Return JSON data as a Python literal with double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(literal(item) for item in value) + "]"
        case _:
            return repr(value)


ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=False,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
ENVIRONMENT.filters["literal"] = literal


def _render(template: str, context: Mapping[str, Any]) -> str:
    if not template.endswith(".j2"):
        return (TEMPLATES / template).read_text(encoding="utf-8")
    return ENVIRONMENT.get_template(template).render(context)


def _check_draft(draft: Path, loaded: Pipeline) -> None:
    """Raise RagsmithError if the draft has another pipeline or other documents, because a file has changed."""
    reloaded = Pipeline.load(draft / WINNER)
    if (reloaded.candidate, reloaded.setup.dataset.digest) != (loaded.candidate, loaded.setup.dataset.digest):
        raise RagsmithError("the documents changed while the kit was written: run the command again")
