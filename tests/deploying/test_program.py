"""Programs of other frameworks: what is written, what is refused, and what they say; without the frameworks."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from translated import CHAT, write_pipeline

import ragsmith as library
from ragsmith.deploying.program import FRAMEWORKS, to_format, to_jinja
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.genes import Candidate, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.generation import answer_task
from ragsmith.techniques.query_expansion.query_rewriting import REWRITE

Command = Callable[..., Any]
Build = Callable[..., Candidate]

MODELS = {
    "embedded": {"language_model": CHAT},
    "served": {"language_model": CHAT, "embedder": {"model": "openai:text-embedding-3-small", "dimensions": 64}},
    "transformers": {
        "language_model": {"model": CHAT, "answer_tokens": 77},
        "embedder": {"model": "sentence-transformers:intfloat/e5-small-v2", "query_prefix": "query: "},
        "cross_encoder": {"model": "sentence-transformers:cross-encoder/ms-marco-MiniLM-L6-v2", "revision": "main"},
    },
}


@pytest.fixture
def home(tmp_path: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, techniques: None) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "island").symlink_to(tiny_folder, target_is_directory=True)
    return tmp_path


@pytest.fixture
def winner(home: Path, pipeline: Build) -> Callable[..., Path]:
    """The file of a pipeline on the tiny data set; keywords are its options, and ``models`` and other keys."""

    def write(**options: Any) -> Path:
        more = {key: options.pop(key) for key in ("models", "chunk_size") if key in options}
        return write_pipeline(home / "winner.yaml", {"name": "island", "path": "island"}, pipeline(**options), **more)

    return write


def options_of(space: Space) -> Iterator[Candidate]:
    """Pipelines that together have every option of a space."""
    for place, size in enumerate(space.sizes):
        for option in range(size):
            genome = [0] * len(space.sizes)
            genome[place] = option
            yield space.candidate(tuple(genome))


def imports(path: Path) -> set[str]:
    """The top-level packages that a program imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("models", MODELS)
def test_every_option_of_the_space_is_a_program_that_needs_no_ragsmith(
    framework: str, models: str, winner: Callable[..., Path], home: Path
) -> None:
    named = MODELS[models]
    candidates = list(options_of(load_space("translatable")))
    if "cross_encoder" in named:
        file = yaml.safe_load(winner(reranking="cross_encoder").read_text())["pipeline"]
        candidates.append(read_configuration(file))
    used: set[str] = set()
    for candidate in candidates:
        file = write_pipeline(home / "winner.yaml", {"name": "island", "path": "island"}, candidate, models=named)
        written = library.translate(file, framework, home / "mine.py", force=True)
        used |= imports(written.path)
    assert "ragsmith" not in used
    assert {"langchain": "langchain_core", "haystack": "haystack", "llama-index": "llama_index"}[framework] in used
    assert {"wordllama"} <= set(written.packages) or models != "embedded"
    assert "bm25s" in used
    assert ("sentence_transformers" in used) == (models == "transformers")


def test_the_file_beside_the_program_has_the_chunks_of_ragsmith(winner: Callable[..., Path], home: Path) -> None:
    file = winner(pre_embedding="contextual_chunk_headers", chunk_size=100)
    written = library.translate(file, "langchain", home / "mine.py")
    data = json.loads(written.data.read_text(encoding="utf-8"))
    loaded = Pipeline.load(file, models={"language_model": "extractive"})
    entries = {entry.chunk.id: entry for entry in loaded.engine.index(loaded.candidate[0]).entries}
    assert [chunk["id"] for chunk in data["chunks"]] == list(entries)
    for chunk in data["chunks"]:
        text = data["documents"][chunk["doc"]][chunk["start"] : chunk["end"]]
        assert text == entries[chunk["id"]].chunk.text
        assert tuple(chunk["keys"]) == entries[chunk["id"]].keys


def test_other_chunks_are_another_program(winner: Callable[..., Path], home: Path) -> None:
    texts = set()
    for size in (100, 200):
        texts.add(library.translate(winner(chunk_size=size), "haystack", home / "mine.py", force=True).path.read_text())
    assert len(texts) == 2, "kept answers are those of a program, see ragsmith.systems.loading"


def test_all_options_without_an_equivalent_are_named_at_once(
    winner: Callable[..., Path], ragsmith: Command, home: Path
) -> None:
    file = winner(
        retrieval=("hybrid", {"fusion": "borda"}),
        query_expansion=("hyde", {"n": 3}),
        reranking="cross_encoder",
        passage_augment="prev_next",
        post_generation="reflection_revising",
        models={},
    )
    ended = ragsmith("translate", file, "--to", "haystack", "-o", "mine.py")
    assert ended.code == 2
    assert ended.err == (
        f"error: {file} has options without an equivalent in Haystack (query_expansion: hyde(n=3); retrieval: "
        "hybrid(fusion=borda); passage_augment: prev_next; post_generation: reflection_revising; language_model: "
        "extractive; cross_encoder: late_interaction): search the space 'translatable', whose techniques have one, and "
        "name models that have one, as --llm openai:MODEL\n"
    )
    assert not (home / "mine.py").exists()
    assert not (home / "mine.json").exists()


@pytest.mark.parametrize(
    ("models", "named"),
    [
        ({"language_model": "extractive"}, "language_model: extractive"),
        ({"language_model": {"model": CHAT, "context_window": 4096}}, f"language_model: {CHAT} with context_window"),
        ({"language_model": CHAT, "controller": "extractive"}, "controller: extractive"),
        ({"language_model": CHAT, "embedder": "cohere:embed-v4"}, "embedder: cohere:embed-v4"),
    ],
)
def test_a_model_without_an_equivalent_is_refused_if_it_is_used(
    models: dict[str, Any], named: str, winner: Callable[..., Path], home: Path
) -> None:
    with pytest.raises(UsageError) as refused:
        library.translate(winner(models=models, query_expansion="hyde"), "langchain", home / "mine.py")
    assert f"({named}):" in str(refused.value)
    if models["language_model"] == CHAT:
        library.translate(winner(models=models, retrieval="bm25"), "langchain", home / "mine.py")


def test_a_chat_model_may_be_named_in_the_place_of_the_embedded_one(
    winner: Callable[..., Path], ragsmith: Command, home: Path
) -> None:
    file = winner(models={})
    ended = ragsmith("translate", file, "--to", "LangChain", "-o", "mine.py", "--llm", "openai:other", "--json")
    assert (ended.code, ended.err) == (0, "")
    said = json.loads(ended.out)
    assert (said["framework"], said["path"], said["data"]) == ("langchain", "mine.py", "mine.json")
    assert said["packages"][:2] == ["langchain-core", "langchain-openai"]
    assert 'model="other"' in (home / "mine.py").read_text()


def test_words_of_another_language_are_refused(winner: Callable[..., Path], home: Path) -> None:
    (home / "texte").mkdir()
    (home / "texte" / "insel.md").write_text(
        "# Die Insel\n\nDie Insel liegt weit draußen im Meer, und niemand weiß, wer dort zuerst gelebt hat. Das Schiff "
        "fährt im Sommer jeden Tag, aber im Winter nur, wenn das Wetter es erlaubt.\n"
    )
    file = winner(retrieval="bm25")
    with pytest.raises(UsageError, match=r"\(retrieval: bm25 of documents in de\)"):
        library.translate(file, "langchain", home / "mine.py", documents=home / "texte")
    library.translate(winner(retrieval="vector"), "langchain", home / "mine.py", documents=home / "texte")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "langchian", "-o", "mine.py"), "there is no framework 'langchian' to translate to: did you mean"),
        (("--to", "langchain", "-o", "mine.txt"), "mine.txt is not the name of a Python program"),
        (("--to", "langchain", "-o", "there.py"), "there.py would be overwritten: give --force, or name another file"),
        (("--to", "langchain", "-o", "there.py/mine.py"), "there.py is a file, so that nothing can be written in it"),
        (("--to", "langchain", "-o", "folder.py", "--force"), "folder.py is a folder: name a file in it"),
        (("--to", "langchain", "-o", "json.py"), "json.py would hide the module 'json' from the programs beside it"),
        (("--to", "haystack", "-o", "haystack.py"), "haystack.py would hide the module 'haystack'"),
        (("--to", "llama-index", "-o", "openai.py"), "openai.py would hide the module 'openai'"),
    ],
)
def test_misuse_is_one_sentence(
    arguments: tuple[str, ...], said: str, winner: Callable[..., Path], ragsmith: Command, home: Path
) -> None:
    (home / "there.py").write_text("mine = 1\n")
    (home / "folder.py").mkdir()
    ended = ragsmith("translate", winner(), *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert (home / "there.py").read_text() == "mine = 1\n"


def test_with_force_an_earlier_program_is_replaced(winner: Callable[..., Path], ragsmith: Command, home: Path) -> None:
    (home / "there.py").write_text("mine = 1\n")
    assert ragsmith("translate", winner(), "--to", "llama_index", "-o", "there.py", "--force").code == 0
    assert "llama_index" in imports(home / "there.py")


def start(program: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an isolated interpreter without installed packages, so that no framework can be imported."""
    command = [sys.executable, "-I", "-S", str(program), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_program_says_in_a_sentence_what_it_lacks(framework: str, winner: Callable[..., Path], home: Path) -> None:
    written = library.translate(winner(), framework, home / "mine.py")
    keyless = start(written.path, "Who?")
    assert (keyless.returncode, keyless.stdout) == (2, "")
    assert keyless.stderr.startswith("error: OPENAI_API_KEY is not set: ")
    assert keyless.stderr.count("\n") == 1
    whole = start(written.path, "Who?", OPENAI_API_KEY="key")
    assert "ModuleNotFoundError" in whole.stderr, "its own data and a key are enough to go on to the framework"
    written.data.write_text(written.data.read_text().replace("chunks", "pieces"))
    other = start(written.path, "Who?", OPENAI_API_KEY="key")
    assert (other.returncode, other.stdout) == (2, "")
    said = "error: mine.json beside it is not what was written with mine.py: translate the pipeline again\n"
    assert other.stderr == said
    written.data.unlink()
    assert start(written.path, "Who?", OPENAI_API_KEY="key").stderr == said


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_no_question(option: str, winner: Callable[..., Path], home: Path) -> None:
    ended = start(library.translate(winner(), "langchain", home / "mine.py").path, option)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("usage: python mine.py [QUESTION ...]")


def test_the_program_is_written_after_its_data(winner: Callable[..., Path], home: Path) -> None:
    (home / "mine.json").mkdir()
    with pytest.raises(UsageError, match=r"mine\.json is a folder"):
        library.translate(winner(), "langchain", home / "mine.py", force=True)
    assert not (home / "mine.py").exists()


PROMPT = """{context}



Say {"answer": "..."} in {{ one }} {% set line %} of "text" \\ and \\n nothing {# else #}.
{question}
"""


def test_an_own_prompt_is_rendered_as_by_ragsmith_whatever_is_in_it(winner: Callable[..., Path], home: Path) -> None:
    inputs: dict[str, Any] = {"context": "[1] {question} {{ context }}", "question": "Which {context}?"}
    for task in (answer_task(1), answer_task(1).reword(PROMPT), REWRITE):
        rendered = task.render(inputs)
        assert to_format(task.prompt).format(**inputs) == rendered
        assert jinja2.Environment().from_string(to_jinja(task.prompt)).render(inputs) == rendered
    file = yaml.safe_load(winner().read_text())
    file["pipeline"]["prompt_maker"]["prompts"] = {"answer": {"name": 'my """new\\n"', "text": PROMPT}}
    file["pipeline"]["query_expansion"] = {
        "technique": "query_rewriting",
        "prompts": {"rewrite_query": {"name": "short", "text": 'Shorten {question} as {"query"}'}},
    }
    (home / "winner.yaml").write_text(yaml.safe_dump(file))
    written = library.translate(home / "winner.yaml", "langchain", home / "mine.py")
    assert 'Shorten {question} as {{"query"}}' in constants(written.path)
    assert to_format(answer_task(1).reword(PROMPT).prompt) in constants(written.path)


def constants(path: Path) -> list[object]:
    """The texts of a program."""
    return [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
