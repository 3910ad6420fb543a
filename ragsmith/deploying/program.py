"""Write a pipeline as a program of another framework: LangChain, Haystack or LlamaIndex.

The program needs no ragsmith. Its documents are in a file beside it, as they were read and cut, because no framework
cuts as ragsmith does; vectors, retriever, prompt, chat model and pipeline are those of the framework. Each option of
`EQUIVALENTS` is a part of the templates in ``programs/``, and a pipeline with another one is refused.
"""

import ast
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader

from ragsmith.deploying.kit import ENVIRONMENT as KIT_ENVIRONMENT
from ragsmith.deploying.kit import literal
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.models.names import ModelName
from ragsmith.models.tasks import Task
from ragsmith.models.vector_stores import identify_store
from ragsmith.pipelines.genes import N_FAMILIES, Gene
from ragsmith.techniques.generation import answer_task
from ragsmith.techniques.task_lookup import find_tasks
from ragsmith.text.declining import NOT_FOUND
from ragsmith.text.languages import ENGLISH
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.words import STOP_WORDS
from ragsmith.text.writing import write_file

PROGRAMS = Path(__file__).parent / "programs"
FRAMEWORKS = {"langchain": "LangChain", "haystack": "Haystack", "llama-index": "LlamaIndex"}
"""The label of each framework by its name, which is also that of the extra."""
PACKAGES = {
    "langchain": "langchain-core langchain-openai",
    "haystack": "haystack-ai",
    "llama-index": "llama-index-core openai",
}
"""The packages of each framework that every program needs."""

Values = Mapping[str, tuple[Any, ...]]
EQUIVALENTS: Mapping[str, Mapping[str, Values]] = {
    "pre_embedding": {"none": {}, "contextual_chunk_headers": {"source": ("headings",)}, "parent_document": {}},
    "query_expansion": {"none": {}, "hyde": {"n": (1,), "keep_question": (False,)}, "query_rewriting": {}},
    "retrieval": {"vector": {}, "bm25": {}, "hybrid": {"fusion": ("convex", "rrf")}},
    "reranking": {"none": {}, "cross_encoder": {}},
    "passage_filter": {"top_k": {}, "similarity_threshold": {}},
    "passage_augment": {"none": {}},
    "passage_compress": {"none": {}},
    "prompt_maker": {"listing": {}, "long_context_reorder": {}},
    "post_generation": {"none": {}},
}
"""The techniques that can be translated, by family, and of parameters that cannot have any value, those they can."""
MODELS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "language_model": {"openai": frozenset({"answer_tokens", "structured_output"})},
    "controller": {"openai": frozenset({"structured_output"})},
    "embedder": {
        "wordllama": frozenset(),
        "openai": frozenset({"dimensions", "document_prefix", "query_prefix"}),
        "sentence-transformers": frozenset({"revision", "document_prefix", "query_prefix"}),
    },
    "cross_encoder": {"sentence-transformers": frozenset({"revision"})},
}
"""The providers whose models can be translated, by role, and the options that affect results which may be set."""

SPACE = "translatable"
"""The bundled space of options that can be translated."""
_PLACEHOLDER = re.compile(r"\{(context|question)\}")


@dataclass(frozen=True, slots=True)
class Program:
    """A pipeline as a program of ``framework``: its file, that of its documents, and the packages that it needs."""

    framework: str
    path: Path
    data: Path
    packages: tuple[str, ...]


def write_program(loaded: Pipeline, source: Path, framework: str, path: Path, *, force: bool = False) -> Program:
    """Write the pipeline of the file ``source`` as a program to ``path``, and its documents to a file beside it.

    ``force`` replaces existing files.

    Raises:
        UsageError: the framework is unknown, the pipeline has options without an equivalent there, ``path`` is no
            Python file or has the name of a module that the program imports, or a file exists.
        OSError: a file cannot be written.
    """
    name = framework.lower().replace("_", "-")
    if name not in FRAMEWORKS:
        raise UsageError(f"there is no framework {framework!r} to translate to: {did_you_mean(name, FRAMEWORKS)}")
    if path.suffix != ".py":
        raise UsageError(f"{path} is not the name of a Python program: name a file that ends with .py")
    data = path.with_suffix(".json")
    if (existing := [str(file) for file in (path, data) if file.exists()]) and not force:
        raise UsageError(f"{' and '.join(existing)} would be overwritten: give --force, or name another file")
    refuse_untranslatable(loaded, source, FRAMEWORKS[name])
    documents = json.dumps(_documents(loaded), ensure_ascii=False) + "\n"
    hashed = sha256(documents.encode()).hexdigest()
    context = _describe(loaded, name) | {"path": path, "source": source, "digest": hashed}
    program = ENVIRONMENT.get_template(f"{name.replace('-', '_')}.py.j2").render(context)
    if path.stem in sys.stdlib_module_names | _imported(program):
        raise UsageError(f"{path} would hide the module {path.stem!r} from the programs beside it: name another file")
    write_file(documents, data)  # first: a program never stands beside data that it does not know
    write_file(re.sub(r"\n{4,}", "\n\n\n", program), path)  # parts that are left out leave blank lines
    return Program(name, path, data, context["packages"])


def _imported(program: str) -> set[str]:
    """Return the top-level names of the modules that a program imports."""
    nodes = list(ast.walk(ast.parse(program)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def refuse_untranslatable(loaded: Pipeline, source: Path, framework: str) -> None:
    """Raise `UsageError`, with every option of a pipeline that has no equivalent in ``framework``."""
    options, models = list(_untranslatable_options(loaded)), list(_untranslatable_models(loaded))
    if options or models:
        named = "; ".join(f"{part}: {name}" for part, name in (*options, *models))
        techniques = f"search the space {SPACE!r}, whose techniques have one" if options else ""
        served = "name models that have one, as --llm openai:MODEL" if models else ""
        advice = ", and ".join(filter(None, (techniques, served)))
        raise UsageError(f"{source} has options without an equivalent in {framework} ({named}): {advice}")


def _untranslatable_options(loaded: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield the family and the option of each gene without an equivalent."""
    for gene in loaded.candidate[:N_FAMILIES]:
        techniques = EQUIVALENTS.get(gene.technique.family, {"none": {}})
        values = techniques.get(gene.technique.name)
        if values is None or any(gene.parameters[name] not in each for name, each in values.items()):
            yield gene.technique.family, str(gene)
    languages = {document.language for document in loaded.setup.dataset.documents} - {ENGLISH}
    retrieval = _gene(loaded, "retrieval")
    if languages and retrieval.technique.name in ("bm25", "hybrid"):
        yield "retrieval", f"{retrieval} of documents in {', '.join(sorted(languages))}"


def _untranslatable_models(loaded: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield the role and the name of each model that the pipeline uses and that has no equivalent."""
    for role in _used_roles(loaded):
        name = loaded.setup.models.for_role(role)
        options = MODELS[role].get(name.kind)
        if options is None:
            yield role, name.name
        elif unknown := sorted(name.result_options.keys() - options):
            yield role, f"{name.name} with {', '.join(unknown)}"
    if search := identify_store(loaded.setup.models.vector_store_address):
        yield "vector_store", search


def _used_roles(loaded: Pipeline) -> tuple[str, ...]:
    """Return the roles of the models that are used: the controller only if it is another model than the answers'."""
    genes = [_gene(loaded, family) for family in ("query_expansion", "retrieval", "reranking")]
    tools = {tool for gene in genes for tool in gene.technique.tools.values()}
    controller = ["controller"] if "language_model" in tools and loaded.setup.models.controller else []
    return ("language_model", *controller, *(role for role in ("embedder", "cross_encoder") if role in tools))


def _gene(loaded: Pipeline, family: str) -> Gene:
    return next(gene for gene in loaded.candidate if gene.technique.family == family)


def _documents(loaded: Pipeline) -> dict[str, Any]:
    """Return the texts of the documents, and their chunks in the order of ids, with the texts by which they are found.

    The texts of a chunk that is found by its own text are omitted.
    """
    gene = _gene(loaded, "pre_embedding")
    arguments = {**dict.fromkeys(gene.technique.tools), **gene.parameters}  # the options of EQUIVALENTS call no model
    chunks = []
    for entry in sorted(gene.technique.fn(loaded.setup.corpus.chunks, **arguments), key=lambda entry: entry.chunk.id):
        chunk = entry.chunk
        keys = {} if entry.keys == (chunk.text,) else {"keys": entry.keys}
        chunks.append({"id": chunk.id, "doc": chunk.doc, "start": chunk.start, "end": chunk.end, **keys})
    return {"documents": {document.id: document.text for document in loaded.setup.dataset.documents}, "chunks": chunks}


def _describe(loaded: Pipeline, framework: str) -> dict[str, Any]:
    """Return the values of the templates."""
    genes = {gene.technique.family: gene for gene in loaded.candidate[:N_FAMILIES]}
    options = {family: {"technique": gene.technique.name, **gene.parameters} for family, gene in genes.items()}
    models = {role: _describe_model(loaded.setup.models.for_role(role)) for role in _used_roles(loaded)}
    embedder = models.get("embedder", {"kind": ""})
    words = options["retrieval"]["technique"] != "vector"
    task, query_tasks = answer_task(1), find_tasks(genes["query_expansion"].technique)
    convert = to_jinja if framework == "haystack" else to_format
    needs = {
        "numpy bm25s PyStemmer": words,
        "numpy wordllama safetensors tokenizers": embedder["kind"] == "wordllama",
        "sentence-transformers": any(model["kind"] == "sentence-transformers" for model in models.values()),
    }
    packages = " ".join([PACKAGES[framework], *(names for names, needed in needs.items() if needed)]).split()
    return {
        **options,
        **models,
        "embedder": embedder,
        "words": words,
        "stop_words": textwrap.wrap(" ".join(sorted(STOP_WORDS)), 110),
        "not_found": NOT_FOUND,
        "controller": models.get("controller", models["language_model"]),
        "prompt": convert(_prompt(genes["prompt_maker"], task)),
        "max_tokens": models["language_model"].get("answer_tokens", task.max_tokens),
        "query_prompt": "".join(convert(_prompt(genes["query_expansion"], one)) for one in query_tasks),
        "query_tokens": sum(one.max_tokens for one in query_tasks),
        "framework": FRAMEWORKS[framework],
        "packages": tuple(dict.fromkeys(packages)),
        "genes": [f"{family}: {gene}" for family, gene in genes.items() if gene.technique.name != "none"],
        "name": loaded.setup.dataset.name,
    }


def _describe_model(name: ModelName) -> dict[str, Any]:
    return {"kind": name.kind, "model": name.model, **name.options}


def _prompt(gene: Gene, task: Task[Any]) -> str:
    """Return the prompt of a task of an option: one's own, or the built-in one."""
    own = gene.prompts.get(task.name)
    return (task.reword(own.text) if own else task).prompt


def split_prompt(prompt: str) -> list[str]:
    """Return the parts of a prompt: texts and, at odd places, the names of inputs."""
    return _PLACEHOLDER.split(prompt.replace("{>context}", "<context>\n{context}\n</context>"))


def to_format(prompt: str) -> str:
    """Return a prompt as a template of `str.format`, in which all other braces are doubled."""
    parts = enumerate(split_prompt(prompt))
    return "".join(f"{{{part}}}" if at % 2 else part.replace("{", "{{").replace("}", "}}") for at, part in parts)


def to_jinja(prompt: str) -> str:
    """Return a prompt as a template of Jinja, which removes one line break at the end."""
    parts = enumerate(split_prompt(prompt))
    return "".join(f"{{{{ {part} }}}}" if at % 2 else part.replace("{", '{{ "{" }}') for at, part in parts) + "\n"


def text_literal(value: str) -> str:
    """Return a text as a Python literal, over several lines if it can be read so."""
    readable = not value.endswith('"') and not any(part in value for part in ("\\", '"""', "\n\n\n"))
    return f'"""{value}"""' if readable else literal(value)


ENVIRONMENT = KIT_ENVIRONMENT.overlay(loader=FileSystemLoader(PROGRAMS))
ENVIRONMENT.filters = {**ENVIRONMENT.filters, "text": text_literal}
