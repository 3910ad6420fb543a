"""The starter kit of a pipeline: what it holds, and what it says about itself."""

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

from ragsmith.deploying.data import copied
from ragsmith.deploying.own_files import OwnFiles
from ragsmith.deploying.requirements import Needed, needed, packages_of
from ragsmith.deploying.wheel import own_wheel
from ragsmith.deploying.winner_file import FILE, in_kit, written
from ragsmith.deploying.writing import LIST, refuse_taken, write_kit
from ragsmith.errors import RagsmithError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.models.registry import ModelProvider, providers
from ragsmith.pipelines.genes import GENES, Candidate, configuration

TEMPLATES = Path(__file__).parent / "templates"
FILES = {
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
"""Template to the file that is made of it; one without ``.j2`` is copied."""
GATE = "gate.yml.j2"
SERVICES = {"qdrant": "qdrant", "postgres": "postgres"}
"""Service to the extra with its client."""
LONGEST_QUESTION = 300


@dataclass(frozen=True, slots=True)
class Kit:
    """A starter kit that was written to ``folder``.

    ``files`` are paths in it. ``extras`` are those of ragsmith that the pipeline needs, ``keys`` the environment
    variables that have to hold keys (of the models that answer, and of those that mark answers for the gate),
    ``services`` those that the pipeline has a use for, and ``notes`` what is to be known of this kit.
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
    """Write the kit of a pipeline, ``content`` being that of its file, to ``folder``.

    ``source`` is where its data lie; ``bare`` leaves questions out. ``force`` replaces an earlier kit.

    Raises:
        UsageError: ``folder`` is taken, or a file of one's own cannot be taken along.
    """
    refuse_taken(folder, force=force)
    questions = bool(loaded.setup.dataset.examples) and not bare
    own = OwnFiles()
    winner = in_kit(content, loaded, own, questions=questions)
    used = tuple(_providers(loaded, gated=questions))
    extras = {"serve", *_extras(loaded, used)}
    served = not loaded.setup.models.embedded
    vectors = any(
        gene.technique.family == "retrieval" and "embedder" in gene.technique.tools.values()
        for gene in loaded.candidate
    )
    uses = {"qdrant": vectors, "postgres": served}
    further, unknown = packages_of(own.imports())
    main = needed(extras, further=further)
    all_of_them = needed({*extras, *SERVICES.values()}, further=further)
    services = Needed(
        {name: number for name, number in all_of_them.pinned.items() if name not in main.pinned},
        tuple(line for line in all_of_them.loose if line not in main.loose),
    )
    wheel, packed = own_wheel()
    keys = _keys(used)
    notes = _notes(loaded, content, main, services, unknown, questions=questions)
    facts = {
        "ragsmith": version("ragsmith"),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "wheel": wheel,
        "requirements": main.lines(),
        "services": services.lines(),
        "qdrant_minor": ".".join(all_of_them.pinned.get("qdrant-client", "1.15").split(".")[:2]),
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
        FILE: written(winner),
        f"wheels/{wheel}": packed,
        **copied(source, questions=questions),
        **own.contents,
        **{
            target: _rendered(template, facts).encode()
            for template, target in FILES.items()
            if questions or template != GATE
        },
    }
    write_kit(contents, folder, lambda draft: _check(draft, loaded))
    return Kit(
        folder,
        tuple(sorted([*contents, LIST])),
        tuple(sorted(extras)),
        keys,
        tuple(service for service, useful in uses.items() if useful),
        notes,
    )


def _extras(loaded: Pipeline, used: Iterable[ModelProvider]) -> set[str]:
    """The extras of ragsmith that its models and techniques need."""
    found = {declared.extra for declared in used if declared.extra}
    for gene in loaded.candidate:
        for name, values in gene.technique.packages.items():
            if package := values.get(gene.parameters[name]):
                found.add(package.extra)
    return found


def _providers(loaded: Pipeline, *, gated: bool) -> Iterator[ModelProvider]:
    """Who makes the models that it uses; and those that mark it, where others do and there is a gate."""
    setup = loaded.setup
    marking = [setup.marked_by.models] if gated and setup.marked_by else []
    for names in (setup.models, *marking):
        for role in names.named:
            if (declared := providers(role).get(names.for_role(role).kind)) is not None:
                yield declared


def _keys(used: Iterable[ModelProvider]) -> tuple[str, ...]:
    """The environment variables that keys of these models are looked for in."""
    return tuple(dict.fromkeys(declared.service.keys[0] for declared in used if declared.service.keys))


def _question(loaded: Pipeline) -> str:
    """What the smoke test asks: a question of the data set, or else after the first document."""
    data = loaded.setup.dataset
    if data.examples:
        return data.examples[0].question[:LONGEST_QUESTION]
    return f"What is said about {data.documents[0].title[:LONGEST_QUESTION]}?"


def _genes(candidate: Candidate) -> list[dict[str, Any]]:
    """What the script says of each family."""
    plain = configuration(candidate[:GENES])
    return [
        {"family": gene.technique.family, "summary": gene.technique.summary, **plain[gene.technique.family]}
        for gene in candidate[:GENES]
    ]


def _notes(
    loaded: Pipeline,
    content: Mapping[str, Any],
    main: Needed,
    services: Needed,
    unknown: tuple[str, ...],
    *,
    questions: bool,
) -> tuple[str, ...]:
    """What is to be known of this kit and not of every other."""
    found = []
    if not questions:
        found.append("There are documents alone, and no questions, so that it has no gate.")
    if loaded.found_on != loaded.setup.dataset.digest:
        found.append("The documents are not those that the pipeline was found on, so that its scores are left out.")
    if "vector_store" in content:
        found.append(
            "Where vectors lie is a setting here, RAGSMITH_VECTOR_STORE, and not taken from the pipeline's file."
        )
    if main.loose or services.loose:
        listed = ", ".join((*main.loose, *services.loose))
        found.append(f"Not installed where the kit was made, and therefore not pinned: {listed}.")
    if unknown:
        found.append(
            f"Files of your own import what no package that is installed here has: {', '.join(unknown)}. Nothing in "
            "requirements.txt brings it."
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
    """Plain data as Python has it, with double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(one)}" for key, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(literal(one) for one in value) + "]"
        case _:
            return repr(value)


def _rendered(template: str, facts: Mapping[str, Any]) -> str:
    if not template.endswith(".j2"):
        return (TEMPLATES / template).read_text(encoding="utf-8")
    return _environment().get_template(template).render(facts)


def _check(draft: Path, loaded: Pipeline) -> None:
    """Refuse a kit that is not the same pipeline on the same documents: a file may have changed in the meantime."""
    there = Pipeline.load(draft / FILE)
    if (there.candidate, there.setup.dataset.digest) != (loaded.candidate, loaded.setup.dataset.digest):
        raise RagsmithError("the documents changed while the kit was made: make it again")
