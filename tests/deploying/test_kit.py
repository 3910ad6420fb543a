"""A starter kit stands alone, says nothing of the machine that made it, and answers as the winner does."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import ragsmith
from ragsmith.datasets.dataset import load_dataset, write_dataset
from ragsmith.deploying.kit import Kit, literal
from ragsmith.deploying.requirements import find_imported_modules, find_packages, resolve_requirements
from ragsmith.errors import UsageError

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
Program = Callable[..., "subprocess.CompletedProcess[str]"]
TEXTS = (".py", ".yaml", ".yml", ".md", ".txt", ".json", ".example", "Dockerfile", "ignore")


@pytest.fixture
def moved(kit: Kit, tmp_path: Path) -> Path:
    """The kit in another place: nothing in it may lead back."""
    shutil.copytree(kit.folder, tmp_path / "elsewhere")
    return tmp_path / "elsewhere"


def test_it_holds_what_it_says_and_nothing_else(kit: Kit) -> None:
    there = {path.relative_to(kit.folder).as_posix() for path in kit.folder.rglob("*") if path.is_file()}
    assert there == set(kit.files)
    listed = json.loads((kit.folder / "kit.json").read_text())["files"]
    assert set(listed) == there - {"kit.json"}
    assert all(sha256((kit.folder / name).read_bytes()).hexdigest() == digest for name, digest in listed.items())
    readme = (kit.folder / "README.md").read_text()
    named = set(re.findall(r"`([\w./-]+\.(?:py|yaml|yml|txt|json|example))`", readme)) - {"base.yaml"}
    assert named <= there
    assert (kit.extras, kit.keys) == (("serve",), ())


def test_no_file_names_a_place_of_this_machine(kit: Kit, winner: Path) -> None:
    places = {str(winner.parent), str(kit.folder.parent), str(Path.home()), str(Path(sys.prefix)), str(Path.cwd())}
    for name in kit.files:
        if name.endswith(TEXTS):
            text = (kit.folder / name).read_text()
            assert [place for place in places if place in text] == [], name
    with zipfile.ZipFile(next((kit.folder / "wheels").iterdir())) as wheel:
        about = [name for name in wheel.namelist() if ".dist-info/" in name]
        assert {name.partition("/")[2] for name in about} <= {
            "METADATA",
            "WHEEL",
            "entry_points.txt",
            "licenses/LICENSE",
            "RECORD",
        }


def test_the_wheel_is_this_package_and_its_record_is_true(kit: Kit) -> None:
    package = Path(ragsmith.__file__).parent
    with zipfile.ZipFile(next((kit.folder / "wheels").iterdir())) as wheel:
        names = wheel.namelist()
        assert wheel.testzip() is None
        for name in ("ragsmith/__init__.py", "ragsmith/deploying/templates/gitignore", "ragsmith/py.typed"):
            assert wheel.read(name) == (package.parent / name).read_bytes()
        [record] = [name for name in names if name.endswith("RECORD")]
        lines = wheel.read(record).decode().splitlines()
    assert [line.partition(",")[0] for line in lines] == names
    assert not [name for name in names if "__pycache__" in name or name.startswith("/")]
    assert any(name.startswith("ragsmith/_bundled/search_spaces/") for name in names)
    assert not [name for name in names if "questions" in Path(name).name and name.endswith(".jsonl")]


def test_every_requirement_is_pinned_to_what_is_installed(kit: Kit) -> None:
    lines = (kit.folder / "requirements.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    assert {"numpy", "uvicorn", "starlette", "wordllama", "h11", "pyyaml"} <= set(pins)
    assert not {"torch", "qdrant-client", "pytest"} & set(pins)
    assert all(version(name).partition("+")[0] == pinned for name, pinned in pins.items())
    assert [line for line in lines if line.startswith("./wheels/")] == [
        f"./{name}" for name in kit.files if name.startswith("wheels/")
    ]


def test_its_programs_are_python_and_its_settings_name_no_key(kit: Kit) -> None:
    for path in kit.folder.glob("*.py"):
        ast.parse(path.read_text())
    empty = [
        line for line in (kit.folder / ".env.example").read_text().splitlines() if re.match(r"\w*(TOKEN|KEY)", line)
    ]
    assert empty == ["RAGSMITH_TOKEN="]


def test_its_containers_are_limited_and_the_server_waits_for_healthy_stores(kit: Kit) -> None:
    services = yaml.safe_load((kit.folder / "compose.yaml").read_text())["services"]
    assert {name: its.get("profiles") for name, its in services.items()} == {
        "server": None,
        "qdrant": ["qdrant"],
        "postgres": ["postgres"],
    }
    assert all(its["mem_limit"] and its["pids_limit"] for its in services.values())
    assert all(its["security_opt"] == ["no-new-privileges:true"] for its in services.values())
    server = services["server"]
    assert (server["read_only"], server["cap_drop"]) == (True, ["ALL"])
    waited = server["depends_on"]
    assert {name: its["condition"] for name, its in waited.items()} == dict.fromkeys(waited, "service_healthy")
    assert set(waited) == {name for name, its in services.items() if "healthcheck" in its}


def test_an_image_installs_the_clients_of_its_services_alone(kit: Kit) -> None:
    pins = {
        name: {
            line.partition("==")[0]
            for line in (kit.folder / f"requirements{name}.txt").read_text().splitlines()
            if line[0] not in "#."
        }
        for name in ("", "-qdrant", "-postgres")
    }
    every = set.union(*(set(re.findall(r"[a-z0-9-]+", one.partition(">")[0])) for one in pins["-qdrant"]))
    assert "qdrant-client" in every
    assert not pins[""] & (pins["-qdrant"] | pins["-postgres"])
    assert not any("qdrant" in name for name in pins["-postgres"])


@pytest.mark.processes
def test_an_image_has_no_questions_and_answers_from_its_documents(kit: Kit, tmp_path: Path, program: Program) -> None:
    ignored = (kit.folder / ".dockerignore").read_text().splitlines()
    image = shutil.copytree(
        kit.folder,
        tmp_path / "image",
        ignore=lambda folder, names: [
            name for name in names if (Path(folder) / name).relative_to(kit.folder).as_posix() in ignored
        ],
    )
    assert not list(image.rglob("*questions*"))
    smoke = program(image, "smoke_test.py", "Who steers the ferry?")
    assert (smoke.returncode, smoke.stdout.splitlines()[-1:]) == (0, ["passed"]), smoke.stderr
    assert ragsmith.ask(kit.folder / "winner.yaml", "Who steers the ferry?").answer in smoke.stdout


def changed_repository(kit: Path, folder: Path, change: Callable[[Path], None]) -> Path:
    """A repository of the kit with a branch, as the workflow of its gate finds it, that has ``change``."""
    shutil.copytree(kit, folder)

    def git(*arguments: str) -> None:
        named = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", "-A", "-f")
    git("commit", "-q", "-m", "the kit")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("checkout", "-q", "-b", "change")
    change(folder)
    git("add", "-A")
    git("commit", "-q", "-m", "a change")
    return folder


def run_gate(folder: Path, program: Program) -> subprocess.CompletedProcess[str]:
    """Run the commands of the workflow as it does, but for what is installed and cached."""
    steps = yaml.safe_load((folder / ".github" / "workflows" / "gate.yml").read_text())["jobs"]["gate"]["steps"]
    commands = [step["run"] for step in steps if "run" in step and not step["run"].startswith("pip ")]
    script = "\n".join(["set -e", 'ragsmith() { "$PYTHON" -m ragsmith "$@"; }', *commands])
    (folder / "run.sh").write_text(script)
    wrapper = "import os, subprocess, sys; sys.exit(subprocess.call(['sh', 'run.sh'], env={**os.environ, **ENV}))"
    environment = {"TARGET": "main", "PYTHON": sys.executable}
    return program(folder, "-c", wrapper.replace("ENV", repr(environment)))


def keep_gold(folder: Path) -> None:
    """Move the paragraphs of a document, with a typo, as a person might."""
    path = folder / "data" / "documents" / "ferry.md"
    title, *rest = path.read_text().strip().split("\n\n")
    path.write_text("\n\n".join([title, "Nothing else is new.", *rest[::-1]]) + "\n")


def delete_gold(folder: Path) -> None:
    for path in (folder / "data" / "documents").iterdir():
        path.write_text(f"# {path.stem}\n\nNothing is known of it any more.\n")


@needs_git
@pytest.mark.processes
@pytest.mark.parametrize(
    ("change", "code", "said"), [(keep_gold, 0, "passes"), (delete_gold, 3, "is not found in the")]
)
def test_its_workflow_compares_each_pipeline_on_its_own_documents(
    kit: Kit, tmp_path: Path, program: Program, change: Callable[[Path], None], code: int, said: str
) -> None:
    folder = changed_repository(kit.folder, tmp_path / "repository", change)
    ended = run_gate(folder, program)
    assert ended.returncode == code, ended.stderr
    assert said in " ".join((ended.stdout + ended.stderr).split())
    assert (folder / "gate.xml").is_file()


PROGRAMS = {
    "docker": 'echo "sha256:$(echo "$4" | sha256sum | cut -c 1-64)"',
    "git": r'printf "%040d\t%s\n%040d\t%s\n" 1 "$3" 2 "$4"',
    "uv": r"""awk '{ print $0 " \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb" }' .names > .hashes""",
}
"""What `pin.sh` asks: each answers in the form of the program of its name."""


def test_what_is_fetched_by_name_can_be_pinned_and_is_as_written_after_undo(kit: Kit, tmp_path: Path) -> None:
    folder = shutil.copytree(kit.folder, tmp_path / "kit")
    (tmp_path / "bin").mkdir()
    for name, script in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def pin(*arguments: str) -> str:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        ended = subprocess.run(
            ["sh", "pin.sh", *arguments], cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def contents() -> dict[str, bytes]:
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    written = contents()
    unpinned = pin()
    once = contents()
    assert pin() == unpinned
    assert contents() == once
    assert set(once) == set(written)
    images = re.findall(
        r"(?:FROM|image:) (\S+)", (folder / "Dockerfile").read_text() + (folder / "compose.yaml").read_text()
    )
    assert len(images) == 3
    assert all(re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", image) for image in images)
    actions = re.findall(r"uses: (.*)", (folder / ".github" / "workflows" / "gate.yml").read_text())
    assert actions
    assert all(re.match(r"actions/[\w-]+@0{39}2 # v\d", action) for action in actions)
    lines = (folder / "requirements.txt").read_text().splitlines()
    hashed = [line for line in lines if line[0] not in "#."]
    assert all(line.endswith(" --hash=sha256:aa --hash=sha256:bb") for line in hashed)
    names = {line.split(":")[0] for line in unpinned.splitlines()}
    assert names <= {"requirements-qdrant.txt", "requirements-postgres.txt"}, "packages that are not installed here"
    [wheel] = [line for line in lines if line.startswith("./wheels/")]
    place, _, digest = wheel.partition(" --hash=sha256:")
    assert sha256((folder / place).read_bytes()).hexdigest() == digest
    pin("--undo")
    assert contents() == written


def test_the_script_says_the_same_pipeline_and_answers_as_the_winner_does(
    moved: Path, winner: Path, program: Program
) -> None:
    script = ast.parse((moved / "pipeline.py").read_text())
    [written] = [
        ast.literal_eval(one.value)
        for one in script.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id == "PIPELINE"
    ]
    assert written == yaml.safe_load(winner.read_text())["pipeline"]
    question = "Who steers the ferry?"
    said = program(moved, "pipeline.py", question, "--json")
    assert said.returncode == 0, said.stderr
    reply = ragsmith.ask(winner, question)
    found = json.loads(said.stdout)
    assert found["answer"] == reply.answer
    assert [(one["doc"], one["start"], one["end"], one["cited"]) for one in found["sources"]] == [
        (one.doc, one.start, one.end, one.cited) for one in reply.sources
    ]
    assert ragsmith.ask(moved / "winner.yaml", question) == reply


def test_its_gate_passes_on_the_scores_that_came_along(moved: Path, winner: Path) -> None:
    assert ragsmith.gate(moved / "winner.yaml", dataset=moved / "data", cache=moved / "cache.sqlite").passed
    (moved / "base.yaml").write_bytes((moved / "winner.yaml").read_bytes())
    against = moved / "base.yaml"
    assert ragsmith.gate(
        moved / "winner.yaml", dataset=moved / "data", against=against, cache=moved / "c.sqlite"
    ).passed
    assert ragsmith.verify(moved / "winner.yaml", cache=moved / "cache.sqlite").differences == ()


@pytest.mark.processes
def test_it_passes_its_own_smoke_test_and_load_test(moved: Path, program: Program) -> None:
    smoke = program(moved, "smoke_test.py")
    assert (smoke.returncode, smoke.stdout.splitlines()[-1:]) == (0, ["passed"]), smoke.stderr
    load = program(moved, "load_test.py", "--clients", "2", "--seconds", "1", "--json")
    assert load.returncode == 0, load.stderr
    figures: dict[str, Any] = json.loads(load.stdout)
    assert figures["answers"] > 0
    assert figures["errors"] == 0
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]


@pytest.mark.processes
def test_the_tests_of_a_kit_that_is_broken_fail(moved: Path, program: Program) -> None:
    with (moved / "data" / "documents" / "ferry.md").open("a") as document:
        document.write("\nOn Sundays it does not sail.\n")
    for name in ("smoke_test.py", "load_test.py"):
        done = program(moved, name)
        assert done.returncode == 1
        assert "its documents or questions" in done.stderr


def test_documents_alone_have_no_questions_no_scores_and_no_gate(winner: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "well.md").write_text("# The well\n\nThe well of Coldwell is ninety feet deep.")
    made = ragsmith.deploy(winner, tmp_path / "kit", documents=tmp_path / "notes")
    assert "data/documents/well.md" in made.files
    assert not {"data/questions.jsonl", ".github/workflows/gate.yml"} & set(made.files)
    content = yaml.safe_load((made.folder / "winner.yaml").read_text())
    assert content["dataset"]["documents"] == "data"
    assert not {"expected", "reference"} & set(content)
    assert any("no gate" in note for note in made.notes)
    assert "ninety feet" in ragsmith.ask(made.folder / "winner.yaml", "How deep is the well of Coldwell?").answer
    assert "gate" not in (made.folder / "README.md").read_text().replace("no gate", "")


def test_other_documents_and_questions_have_no_scores_yet(winner: Path, tiny_folder: Path, tmp_path: Path) -> None:
    data = load_dataset(tiny_folder)
    kept = [example for example in data.examples if example.evidence[0].doc != "ferry"]
    other = ragsmith.datasets.dataset.make_dataset({"name": "fewer"}, data.documents, kept)
    write_dataset(other, tmp_path / "fewer")
    made = ragsmith.deploy(winner, tmp_path / "kit", dataset=tmp_path / "fewer")
    assert load_dataset(made.folder / "data").digest == other.digest
    assert any("scores of the search are omitted" in note for note in made.notes)
    assert not {"expected", "reference"} & set(yaml.safe_load((made.folder / "winner.yaml").read_text()))
    assert ".github/workflows/gate.yml" in made.files


def test_models_elsewhere_are_asked_for_by_the_names_of_their_keys(winner: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(winner.read_text())
    content["models"] = {"language_model": "openai:gpt-4.1-mini"}
    beside = winner.parent / "served.yaml"
    beside.write_text(yaml.safe_dump(content))
    made = ragsmith.deploy(beside, tmp_path / "kit")
    assert made.keys == ("OPENAI_API_KEY",)
    assert "postgres" in made.services
    assert "\nOPENAI_API_KEY=\n" in (made.folder / ".env.example").read_text()
    gate = (made.folder / ".github" / "workflows" / "gate.yml").read_text()
    assert "OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}" in gate
    assert yaml.safe_load(gate)


def test_models_that_mark_are_needed_where_there_is_a_gate(winner: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(winner.read_text())
    content["marked_by"] = {
        "models": {"judge": "openai:gpt-4.1-mini", "embedder": "sentence-transformers:sentence-transformers/LaBSE"}
    }
    beside = winner.parent / "marked.yaml"
    beside.write_text(yaml.safe_dump(content))
    made = ragsmith.deploy(beside, tmp_path / "kit")
    assert made.keys == ("OPENAI_API_KEY",)
    assert made.extras == ("sentence-transformers", "serve")
    gate = (made.folder / ".github" / "workflows" / "gate.yml").read_text()
    assert "OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}" in gate
    assert "including the judge of the gate" in (made.folder / "README.md").read_text()
    assert "for the judge of answers:\nOPENAI_API_KEY=\n" in (made.folder / ".env.example").read_text()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "well.md").write_text("# The well\n\nThe well of Coldwell is ninety feet deep.")
    bare = ragsmith.deploy(beside, tmp_path / "bare", documents=tmp_path / "notes")  # nothing is marked
    assert (bare.keys, bare.extras) == ((), ("serve",))


DEPLOYS_OWN = """
import json
import sys
from pathlib import Path

import yaml

import ragsmith
from ragsmith.digest import fingerprint
from ragsmith.plugins import load_file

own, winner, folder = map(Path, sys.argv[1:])
module = load_file(own)
content = yaml.safe_load(winner.read_text())
content["pipeline"]["prompt_maker"] = {"technique": own.stem}
content["imports"] = [{"file": str(own), "digest": fingerprint(module.__name__)}]
beside = winner.parent / "own.yaml"
beside.write_text(yaml.safe_dump(content))
made = ragsmith.deploy(beside, folder)
print(json.dumps({"files": made.files, "notes": made.notes}))
"""
"""Deploys a pipeline with a technique of one's own in a process of its own: what a file registers stays for good."""


def test_files_of_one_s_own_come_along_with_what_they_import(winner: Path, tmp_path: Path, program: Program) -> None:
    own = tmp_path / "mine"
    own.mkdir()
    (own / "kit_words_beside.py").write_text(
        "import hypothesis.strategies\n"
        "try:\n"
        "    from nobody_has_this.inside import anything\n"
        "except ImportError:\n"
        "    pass\n\n"
        "MARK = 'From the kit: '\n"
    )
    (own / "kit_said.py").write_text(
        "from kit_words_beside import MARK\n"
        "from ragsmith.techniques.families import prompt_maker\n"
        "from ragsmith.techniques.prompt_maker.listing import listing\n"
        "from ragsmith.types import Passages, Prompt, Question\n\n"
        "@prompt_maker(paper='none')\n"
        "def kit_said(question: Question, passages: Passages) -> Prompt:\n"
        "    '''Show the passages, and say where they come from.'''\n"
        "    return listing(question, passages)\n\n"
        "NOTE = MARK\n"
    )
    (tmp_path / "deploys.py").write_text(DEPLOYS_OWN)
    arguments = (str(own / "kit_said.py"), str(winner), str(tmp_path / "kit"))
    done = program(tmp_path, "deploys.py", *arguments)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert {"own/kit_said.py", "own/kit_words_beside.py"} <= set(made["files"])
    pins = (tmp_path / "kit" / "requirements.txt").read_text().splitlines()
    assert {f"hypothesis=={version('hypothesis')}", f"sortedcontainers=={version('sortedcontainers')}"} <= set(pins)
    [note] = [note for note in made["notes"] if "which no installed package provides" in note]
    assert "imports nobody_has_this, which" in note  # and neither the file beside nor what is Python's own
    assert note in (tmp_path / "kit" / "README.md").read_text()
    own.rename(tmp_path / "gone")
    said = program(tmp_path / "kit", "pipeline.py", "Who steers the ferry?")
    assert said.returncode == 0, said.stderr
    assert "Varn" in said.stdout


DIGEST = (
    "from ragsmith.digest import fingerprint; from ragsmith.plugins import load_file; "
    "print(fingerprint(load_file('own/kit_shown.py').__name__))"
)


@needs_git
@pytest.mark.processes
def test_a_change_of_one_s_own_code_is_compared_with_the_scores_of_the_target_branch(
    winner: Path, tmp_path: Path, program: Program
) -> None:
    own = tmp_path / "mine" / "kit_shown.py"
    own.parent.mkdir()
    own.write_text(
        "from ragsmith.techniques.families import prompt_maker\n"
        "from ragsmith.techniques.prompt_maker.listing import listing\n"
        "from ragsmith.types import Passages, Prompt, Question\n\n"
        "@prompt_maker(paper='none')\n"
        "def kit_shown(question: Question, passages: Passages) -> Prompt:\n"
        "    '''Show the passages.'''\n"
        "    return listing(question, passages)\n"
    )
    (tmp_path / "deploys.py").write_text(DEPLOYS_OWN)
    done = program(tmp_path, "deploys.py", str(own), str(winner), str(tmp_path / "kit"))
    assert done.returncode == 0, done.stderr

    def change(folder: Path) -> None:
        edited = folder / "own" / own.name
        edited.write_text(
            edited.read_text().replace("listing(question, passages)", "listing(question, passages[::-1])")
        )
        told = yaml.safe_load((folder / "winner.yaml").read_text())
        told["imports"][0]["digest"] = program(folder, "-c", DIGEST).stdout.strip()
        (folder / "winner.yaml").write_text(yaml.safe_dump(told))

    for name, edit, against in (("same", keep_gold, ""), ("other", change, "the scores kept in ")):
        ended = run_gate(changed_repository(tmp_path / "kit", tmp_path / name, edit), program)
        assert ended.returncode in (0, 1), ended.stderr
        assert f"winner.yaml against {against}base/winner.yaml on " in " ".join(ended.stdout.split())


def test_a_gate_of_one_s_own_is_not_gone_over_by_that_of_the_next_kit(winner: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "well.md").write_text("# The well\n\nThe well of Coldwell is ninety feet deep.")
    folder = tmp_path / "kit"
    ragsmith.deploy(winner, folder, documents=tmp_path / "notes")  # no questions, and no gate
    mine = folder / ".github" / "workflows" / "gate.yml"
    mine.parent.mkdir(parents=True)
    mine.write_text("name: mine\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"gate\.yml was added"):
        ragsmith.deploy(winner, folder, force=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    mine.unlink()
    assert ".github/workflows/gate.yml" in ragsmith.deploy(winner, folder, force=True).files


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import a.b, c as d", {"a", "c"}),
        ("from e.f import g", {"e"}),
        ("def h():\n    import i", {"i"}),
        ("from . import j\nfrom .k import l\nfrom ..m import n", set()),
        (
            "from __future__ import annotations\nimport os.path\nimport ragsmith\nfrom ragsmith.types import Prompt",
            set(),
        ),
        ("# import o\np = 'import q'", set()),
    ],
)
def test_what_code_imports_is_read_from_it(code: str, modules: set[str]) -> None:
    assert find_imported_modules(code.encode()) == modules


def test_a_module_is_in_the_package_that_is_installed_under_another_name() -> None:
    assert find_packages({"yaml", "nobody_has_this"}) == (("pyyaml",), ("nobody_has_this",))
    alone = resolve_requirements(()).pinned
    assert not set(alone) & {"hypothesis", "sortedcontainers"}
    both = resolve_requirements((), packages=["Hypothesis"]).pinned
    assert set(both) == {*alone, "hypothesis", "sortedcontainers"}


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_LIKE)
def test_what_the_script_says_is_what_the_file_says(value: object) -> None:
    assert ast.literal_eval(literal(value)) == value


@pytest.mark.parametrize(("source", "kept"), [("notes/minutes.docx", True), ("/home/me/minutes.docx", False)])
def test_what_documents_were_made_of_comes_along_unless_it_names_a_place(
    winner: Path, tiny_folder: Path, tmp_path: Path, source: str, kept: bool
) -> None:
    shutil.copytree(tiny_folder, tmp_path / "island")
    digest = "0" * 64
    row = {
        "source": source,
        "sha256": digest,
        "kind": "docx",
        "converter": "x",
        "text_sha256": digest,
        "ending": ".docx",
    }
    (tmp_path / "island" / "sources.jsonl").write_text(json.dumps({**row, "doc": "ferry"}) + "\n")
    made = ragsmith.deploy(winner, tmp_path / "kit", dataset=tmp_path / "island")
    assert ("data/sources.jsonl" in made.files) == kept


def test_a_pipeline_chosen_on_all_questions_has_a_gate_on_all_of_them(winner: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(winner.read_text())
    content["run"]["verdict"] = "crossfit"
    content.pop("reference", None)
    beside = winner.parent / "crossfit.yaml"
    beside.write_text(yaml.safe_dump(content))
    made = ragsmith.deploy(beside, tmp_path / "kit")
    gate = (made.folder / ".github" / "workflows" / "gate.yml").read_text()
    assert "--dataset base/data --split all --min-effect" in gate
    assert "--dataset data  " not in (made.folder / "README.md").read_text()


def test_nothing_is_left_behind_where_it_cannot_be_made(winner: Path, tmp_path: Path) -> None:
    content = yaml.safe_load(winner.read_text())
    content["models"] = {"language_model": "given:a model of mine"}
    beside = winner.parent / "given.yaml"
    beside.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match="was a Python object"):
        ragsmith.deploy(beside, tmp_path / "kit")
    assert list(tmp_path.iterdir()) == []
