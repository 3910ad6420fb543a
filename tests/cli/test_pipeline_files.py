"""``ragsmith recommend | effects | index | deploy``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from effects import main as learn_effects
from typer.testing import CliRunner

from ragsmith.cli import run as command
from ragsmith.cli.app import load
from ragsmith.datasets.dataset import load_documents
from ragsmith.effects.knowledge import SHIPPED
from ragsmith.effects.recommending import Recommendation, merge_equal_classes
from ragsmith.errors import DatasetError, UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.exported.collection import Collection
from ragsmith.index.artifact_cache import ArtifactCache

Command = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = tmp_path / "talks"
    documents.mkdir()
    (documents / "talk.txt").write_text("Ann: Where is the key?\nBob: It is in the shed.\n" * 9)
    return documents


def test_what_is_named_is_told_once_and_the_file_is_asked(ragsmith: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "winner.yaml"
    ended = ragsmith("recommend", folder, "-o", file, "--calls", 1)
    assert ended.code == 0
    blocks = [block for block in ended.out.split("\n\n") if " a question" in block]
    told = [block.partition(": ")[2] for block in blocks]
    assert len(set(told)) == len(told) > 0
    assert blocks[0].startswith("at most 1 call a question")
    assert "any number of calls" in blocks[-1].splitlines()[0]
    assert "take care: these documents are of the kind conversation" in ended.out
    assert ended.out.splitlines()[-2:] == [
        f"{file}: the pipeline of at most 1 call",
        f'ask it  ragsmith ask {file} "your question"',
    ]
    assert "shed" in ragsmith("ask", file, "Where is the key?").out
    verified = ragsmith("verify", file)
    assert verified.code == 2
    assert (
        "a pipeline that was recommended has none; its techniques, models and documents are available" in verified.err
    )
    file.write_text(file.read_text().replace("embedder: wordllama:", "embedder: before:"))
    assert "recommended has none; its models have changed: embedder wordllama:" in ragsmith("verify", file).err
    ragsmith("recommend", folder, "-o", file, "--calls", 1)
    assert ragsmith("recommend", folder, "-o", file, "--calls", 1).err == ""
    file.write_text("something of mine")
    assert (
        f"{file} replaced a file with different content" in ragsmith("recommend", folder, "-o", file, "--calls", 1).err
    )


def test_classes_of_costs_are_together_where_the_same_is_recommended() -> None:
    one = Recommendation(baseline("naive"), 1, 1.0, 0.01, 0.02, -0.03, 0.05, (), 7, ())
    two, most, other = (replace(one, most_calls=2), replace(one, most_calls=None), replace(one, most_calls=2, gain=0.3))
    assert merge_equal_classes([one, two, most]) == [[one, two, most]]
    assert merge_equal_classes([one, other, most]) == [[one], [other], [most]]
    assert merge_equal_classes([one, two, replace(most, gain=0.3)]) == [[one, two], [replace(most, gain=0.3)]]
    assert merge_equal_classes([]) == []


def test_json_output(ragsmith: Command, folder: Path, tmp_path: Path) -> None:
    found = json.loads(ragsmith("recommend", folder, "-o", tmp_path / "w.yaml", "--json").out)
    assert [one["most_calls"] for one in found["classes"]] == [1, 2, None]
    assert found["kind"] == "conversation"
    assert found["winner"] == str(tmp_path / "w.yaml")


@pytest.mark.parametrize("calls", ["0", "few", "-1"])
def test_calls_are_a_number(ragsmith: Command, folder: Path, calls: str) -> None:
    ended = ragsmith("recommend", folder, "--calls", calls)
    assert (ended.code, "--calls is" in ended.err) == (2, True)


def test_what_is_no_folder_is_refused(ragsmith: Command, tmp_path: Path) -> None:
    ended = ragsmith("recommend", tmp_path / "nothing")
    assert ended.code == 2
    assert "neither a folder nor the name of a data set" in ended.err


def test_what_ships_is_shown_with_what_was_checked(ragsmith: Command) -> None:
    shown = ragsmith("effects", "show")
    assert shown.code == 0
    assert "retrieval.bm25" in shown.out
    assert "the recommendation of the other data sets for each" in shown.out
    checked = json.loads(ragsmith("effects", "show", "--validate", "--json").out)["checked"]
    assert {one["dataset"] for one in checked} >= {"law", "workshop"}
    assert ragsmith("effects", "show", "--validate").out in shown.out


def test_a_file_that_does_not_say_how_it_was_made_is_shown(ragsmith: Command, tmp_path: Path) -> None:
    plain = json.loads(SHIPPED.read_text())
    del plain["made"]
    before = tmp_path / "before.json"
    before.write_text(json.dumps(plain))
    shown = ragsmith("effects", "show", "--effects", before)
    assert shown.code == 0, shown.err
    assert "retrieval.bm25" in shown.out
    assert "drawn from" not in shown.out
    assert "drawn from the space 'default' with seed 0" in ragsmith("effects", "show").out


def test_a_file_is_learned_and_used(ragsmith: Command, tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in tiny_folder.iterdir():
        if file.is_file():
            (other / file.name).write_text(file.read_text().replace("name: island", "name: another"))
    (other / "documents").mkdir()
    for file in (tiny_folder / "documents").iterdir():
        (other / "documents" / file.name).write_text(file.read_text() + "\nNothing more is known of it.\n")
    made = tmp_path / "effects.json"
    learn_effects(
        [
            "--own",
            str(tiny_folder),
            str(other),
            "--space",
            str(tiny_space),
            "--pipelines",
            "6",
            "-o",
            str(made),
            "--cache",
            str(tmp_path / "c.sqlite"),
        ]
    )
    named = ragsmith("recommend", "law", "--effects", made, "--space", tiny_space, "-o", tmp_path / "w.yaml")
    assert named.code == 0, named.err


def test_one_data_set_is_refused(tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    learning = ["--own", str(tiny_folder), "--space", str(tiny_space), "--cache", str(tmp_path / "c.sqlite")]
    with pytest.raises(SystemExit, match="2 data sets or more"):
        learn_effects(learning)


TEXTS = {
    "harbour": "The harbour of Aldham has levied salt dues since 1402. The master collects the salt dues.",
    "tower": "The tower wall of Brenwick was mended after the flood of 1620.",
    "bell": "The bell of Corsey is rung for every ship.",
}


def write(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and a pipeline that was found on them."""
    monkeypatch.chdir(tmp_path)
    documents = write(tmp_path / "documents", TEXTS)
    plain = ("query_expansion", "reranking", "passage_augment", "passage_compress", "post_generation")
    pipeline = {
        "pre_embedding": {"technique": "none"},
        "retrieval": {"technique": "hybrid"},
        "passage_filter": {"technique": "top_k", "parameters": {"k": 1}},
        "prompt_maker": {"technique": "listing"},
        **{family: {"technique": "none"} for family in plain},
    }
    dataset = {"name": "annals", "documents": "documents", "digest": load_documents(documents).digest}
    (tmp_path / "winner.yaml").write_text(yaml.safe_dump({"dataset": dataset, "pipeline": pipeline}))
    return tmp_path


def said(*arguments: str) -> Any:
    done = CliRunner().invoke(load(), [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def ask(question: str, *further: str) -> Any:
    return said("ask", "winner.yaml", question, *further)


def update(**changes: Any) -> Any:
    """The record of an update with these changes."""
    return {"added": [], "replaced": [], "removed": [], "hidden": {}, "shown": [], **changes}


def test_an_index_grows_and_shrinks_and_is_asked_as_it_is(home: Path) -> None:
    built = said("index", "build", "winner.yaml")
    assert (built["documents"], built["chunks"]) == (3, 3)
    assert built["changes"] == {"added": [], "changed": [], "removed": []}
    assert built["folder"] == str(home / "documents")
    new = write(home / "new", {"ferry": "The ferry of Dunmere carries sheep."})
    write(home / "documents", {"bell": "The bell of Corsey is cracked."})
    added = said("index", "add", "winner.yaml", "new", "documents")
    assert added["changes"] == {"added": ["ferry"], "changed": ["bell"], "removed": []}
    assert added["update"] == update(added=["ferry"], replaced=["bell"])
    found = ask("What does the ferry of Dunmere carry?", "--indexed")
    assert [source["doc"] for source in found["sources"]] == ["ferry"]
    assert found["changes"]["added"] == ["ferry"]
    removed = said("index", "remove", "winner.yaml", "ferry", "tower")
    assert removed["changes"] == {"added": [], "changed": ["bell"], "removed": ["tower"]}
    assert removed["update"] == update(removed=["ferry", "tower"])
    assert (new / "ferry.md").exists()
    assert ask("What does the ferry of Dunmere carry?", "--indexed")["sources"][0]["doc"] != "ferry"
    assert said("index", "add", "winner.yaml", str(new / "ferry.md"))["documents"] == 3
    status = said("index", "status", "winner.yaml")
    assert (status["index"]["documents"], status["names"]) == (3, ["bell", "ferry", "harbour"])
    assert {kept["kind"] for kept in status["kept"]} == {"documents", "vectors", "words"}
    assert ask("bell", "--documents", "documents")["changes"] == {"added": [], "changed": ["bell"], "removed": []}


def test_text_output(home: Path) -> None:
    run = CliRunner().invoke(load(), ["index", "build", "winner.yaml"], catch_exceptions=False)
    assert run.stdout.splitlines() == [
        "3 added: bell, harbour, tower",
        "3 documents, 3 chunks",
        "changes against the documents that the pipeline was found on: none added, changed or removed",
    ]
    status = CliRunner().invoke(load(), ["index", "status"], catch_exceptions=False).stdout
    assert "vectors" in status
    (home / "documents" / "tower.md").unlink()
    asking = ["ask", "winner.yaml", "bell", "--documents", "documents"]
    asked = CliRunner().invoke(load(), asking, catch_exceptions=False)
    assert "1 removed" in asked.stderr


def printed(*arguments: str) -> list[str]:
    done = CliRunner().invoke(load(), ["index", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_every_command_names_what_it_changed(home: Path) -> None:
    printed("build", "winner.yaml")
    write(home / "documents" / "copies", {"bell": TEXTS["bell"], "zebra": TEXTS["bell"]})
    write(home / "documents", {"tower": "The tower wall fell."})
    added = printed("add", "winner.yaml", "documents")
    assert added[:4] == [
        "2 added: copies/bell, copies/zebra",
        "1 replaced: tower",
        "2 hidden: copies/bell (identical to bell), copies/zebra (identical to bell)",
        "3 documents, 3 chunks, 2 more hidden as identical to another",
    ]
    assert printed("add", "winner.yaml", "documents")[0] == "no document was added, replaced, removed or hidden"
    removed = printed("remove", "winner.yaml", "bell", "--list")
    assert removed[:6] == [
        "1 removed",
        "  bell",
        "1 hidden",
        "  copies/zebra (identical to copies/bell)",
        "1 no longer hidden",
        "  copies/bell",
    ]
    status = printed("status", "winner.yaml", "--list")
    assert status[0] == "3 documents, 3 chunks, 1 more hidden as identical to another"
    assert status[1] == f"folder of the index: {home / 'documents'}"
    assert status[3:7] == ["copies/bell", "harbour", "tower", "copies/zebra (identical to copies/bell)"]
    write(home / "more", {f"more-{number}": f"The {number}th of many." for number in range(7)})
    first = "more-0, more-1, more-2, more-3, more-4 and 2 more (--list names all)"
    assert printed("add", "winner.yaml", "more")[0] == f"7 added: {first}"


def test_nothing_is_kept_before_something_was_built(home: Path) -> None:
    assert said("index", "status") == {"folder": "cache.sqlite.indexes", "kept": [], "index": None, "names": []}


def test_what_is_wrong_is_said(home: Path) -> None:
    collection = Collection(Path("winner.yaml"), ArtifactCache("cache.sqlite.indexes"))
    for attempt in (collection.read, lambda: collection.add(["documents"]), lambda: collection.remove(["bell"])):
        with pytest.raises(UsageError, match=r"there is no index of winner\.yaml yet: build it with"):
            attempt()
    before, _ = collection.start(load_documents("documents").documents, Path("documents"))
    with pytest.raises(DatasetError, match="has no 'bells': did you mean") as wrong:
        collection.remove(["bells", "bell", "ferry"])
    assert len(wrong.value.mistakes) == 2
    with pytest.raises(UsageError, match="all documents of the index"):
        collection.remove(list(TEXTS))
    (home / "picture.png").write_bytes(b"\x89PNG")
    with pytest.raises(DatasetError) as unread:
        collection.add(["picture.png", "nowhere.md", "documents"])
    assert [line.partition(":")[0] for line in unread.value.mistakes] == ["picture.png", "nowhere.md"]
    assert collection.read() == before


def test_a_damaged_collection_is_not_believed(home: Path) -> None:
    collection = Collection(Path("winner.yaml"), ArtifactCache("cache.sqlite.indexes"))
    collection.start(load_documents("documents").documents, Path("documents"))
    file = next(home.glob("cache.sqlite.indexes/collections/*.jsonl"))
    file.write_text(file.read_text().replace("1402", "1403"))
    for attempt in (
        collection.read,
        lambda: collection.start(load_documents("documents").documents, Path("documents")),
    ):
        with pytest.raises(UsageError, match=r"is damaged: restore a copy of the file, or .* --replace$"):
            attempt()
    collection.start(load_documents("documents").documents, Path("documents"), replace=True)
    assert len(collection.read().documents) == 3


@pytest.mark.parametrize(
    "given", ["documents/hr/policy.md", "documents/hr", "documents", "documents/hr/../hr/policy.md"]
)
def test_a_file_replaces_its_document_whichever_way_it_is_given(home: Path, given: str) -> None:
    for team in ("hr", "it"):
        write(home / "documents" / team, {"policy": f"Passwords of {team} have nine letters."})
    said("index", "build", "winner.yaml", "--documents", "documents")
    write(home / "documents" / "hr", {"policy": "Passwords of hr have ten letters."})
    assert said("index", "add", "winner.yaml", given)["documents"] == 5
    [source] = ask("How many letters have passwords of hr?", "--indexed")["sources"]
    assert (source["doc"], source["text"].strip()) == ("hr/policy", "Passwords of hr have ten letters.")
    assert said("index", "remove", "winner.yaml", "documents/hr/policy.md")["documents"] == 4


def answers(question: str) -> list[tuple[str, str]]:
    """The documents that the index answers from, and what it says."""
    return [(source["doc"], source["text"].strip()) for source in ask(question, "--indexed")["sources"]]


def answers_of_a_new_index(question: str) -> list[tuple[str, str]]:
    said("index", "build", "winner.yaml", "--documents", "documents", "--replace", "--cache", "anew.sqlite")
    found = ask(question, "--indexed", "--cache", "anew.sqlite")["sources"]
    return [(source["doc"], source["text"].strip()) for source in found]


def test_a_new_file_overwrites_no_other_document_of_its_name(home: Path) -> None:
    write(home / "documents", {"policy": "The policy of the house: doors are locked at nine."})
    said("index", "build", "winner.yaml", "--documents", "documents")
    write(home / "documents" / "hr", {"policy": "The policy of hr: leave is twenty days."})
    assert said("index", "add", "winner.yaml", "documents/hr/policy.md")["documents"] == 5
    for question in ("When are the doors of the house locked?", "How many days of leave does hr give?"):
        assert answers(question) == answers_of_a_new_index(question)


def test_no_hidden_duplicate_of_a_file_comes_back_after_an_edit(home: Path) -> None:
    said("index", "build", "winner.yaml", "--documents", "documents")
    write(home / "documents" / "hr", {"leave": "Leave of hr is twenty days."})
    said("index", "add", "winner.yaml", "documents/hr/leave.md")
    assert said("index", "add", "winner.yaml", "documents")["documents"] == 4
    write(home / "documents" / "hr", {"leave": "Leave of hr is thirty days."})
    assert said("index", "add", "winner.yaml", "documents")["documents"] == 4
    question = "How many days is leave of hr?"
    assert answers(question) == answers_of_a_new_index(question) == [("hr/leave", "Leave of hr is thirty days.")]


def test_an_edit_is_answered_from_whichever_way_its_file_was_added_before(home: Path) -> None:
    said("index", "build", "winner.yaml", "--documents", "documents")
    write(home / "documents" / "hr", {"leave": "Leave of hr is twenty days."})
    said("index", "add", "winner.yaml", "documents/hr")
    write(home / "documents" / "hr", {"leave": "Leave is now longer, and for hr it is thirty days."})
    said("index", "add", "winner.yaml", "documents")
    question = "Leave of hr is how many days?"
    assert answers(question) == answers_of_a_new_index(question)
    said("index", "remove", "winner.yaml", "documents/hr/leave.md")
    (home / "documents" / "hr" / "leave.md").unlink()
    assert answers(question) == answers_of_a_new_index(question)


def test_a_file_elsewhere_replaces_another_ones_document_only_on_purpose(home: Path) -> None:
    said("index", "build", "winner.yaml")
    write(home / "new", {"bell": "The bell of Corsey is cracked."})
    refused = CliRunner().invoke(load(), ["index", "add", "winner.yaml", "new"])
    assert isinstance(refused.exception, DatasetError)
    assert f"{home}/new/bell.md and {home}/documents/bell.md are both 'bell'" in str(refused.exception)
    assert said("index", "add", "winner.yaml", "new", "--replace")["update"] == update(replaced=["bell"])
    assert answers("What is the bell of Corsey?") == [("bell", "The bell of Corsey is cracked.")]


def test_a_new_file_in_a_folder_does_not_replace_one_of_the_same_name_above(home: Path) -> None:
    said("index", "build", "winner.yaml")
    write(home / "new", {})
    write(home / "new" / "north", {"tower": "The tower of the north has a lamp."})
    assert said("index", "add", "winner.yaml", "new")["changes"]["added"] == ["north/tower"]


def test_documents_that_were_added_are_not_given_up_by_building_again(home: Path) -> None:
    write(home / "new", {"ferry": "The ferry of Dunmere carries sheep."})
    said("index", "build", "winner.yaml")
    said("index", "add", "winner.yaml", "new")
    refused = CliRunner().invoke(load(), ["index", "build", "winner.yaml"])
    assert isinstance(refused.exception, UsageError)
    assert "holds documents that are not among these, 1 in all (ferry)" in str(refused.exception)
    assert said("index", "status", "winner.yaml")["index"]["documents"] == 4
    write(home / "documents", {"ferry": "The ferry of Dunmere carries goats."})
    assert said("index", "build", "winner.yaml", "--documents", "documents")["documents"] == 4, "none is given up"
    (home / "documents" / "ferry.md").unlink()
    assert said("index", "build", "winner.yaml", "--replace")["documents"] == 3


def test_of_two_files_with_one_text_each_can_be_removed_and_the_other_is_asked(home: Path) -> None:
    """The data set keeps one of them; the index must not lose the text with it, nor not know the other."""
    write(home / "documents", {"zebra": TEXTS["bell"]})
    assert said("index", "build", "winner.yaml", "--documents", "documents")["documents"] == 3
    assert said("index", "remove", "winner.yaml", "bell")["documents"] == 3
    assert ask("Which bell is rung for every ship?", "--indexed")["sources"][0]["doc"] == "zebra"
    assert said("index", "add", "winner.yaml", "documents")["documents"] == 3
    assert said("index", "remove", "winner.yaml", "zebra")["documents"] == 3
    assert ask("Which bell is rung for every ship?", "--indexed")["sources"][0]["doc"] == "bell"


def test_a_folder_that_is_added_brings_both_files_of_one_text(home: Path) -> None:
    said("index", "build", "winner.yaml")
    ferry = "The ferry of Dunmere carries sheep."
    write(home / "new", {"ferry": ferry, "yacht": ferry})
    assert said("index", "add", "winner.yaml", "new")["documents"] == 4
    assert said("index", "remove", "winner.yaml", "ferry")["changes"]["added"] == ["yacht"]
    assert ask("What does the ferry of Dunmere carry?", "--indexed")["sources"][0]["doc"] == "yacht"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with documents and a pipeline that is about them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "harbour.md").write_text("The master of Aldham collects the salt dues.")
    families = ("pre_embedding", "query_expansion", "reranking", "passage_augment", "passage_compress")
    pipeline = {
        **{family: {"technique": "none"} for family in (*families, "post_generation")},
        "retrieval": {"technique": "bm25"},
        "passage_filter": {"technique": "top_k"},
        "prompt_maker": {"technique": "listing"},
    }
    dataset = {"name": "annals", "documents": "documents", "digest": load_documents("documents").digest}
    (tmp_path / "winner.yaml").write_text(yaml.safe_dump({"dataset": dataset, "pipeline": pipeline}))
    return tmp_path


def deploy(*arguments: str) -> int:
    return command(["deploy", "winner.yaml", *arguments])


def test_what_was_made_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy("-o", "kit", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["folder"] == "kit"
    assert set(said["files"]) == {
        path.relative_to("kit").as_posix() for path in Path("kit").rglob("*") if path.is_file()
    }
    assert (said["extras"], said["keys"], said["services"]) == (["serve"], [], [])  # words alone: no vectors to hold
    assert deploy("-o", "kit", "--force") == 0
    assert "starter kit  kit" in capsys.readouterr().out
    asking = ["ask", "kit/winner.yaml", "Who collects the salt dues?"]
    asked = CliRunner().invoke(load(), asking, catch_exceptions=False)
    assert "master of Aldham" in asked.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "documents"], "is not a starter kit"),
        (["-o", "documents", "--force"], "is not a starter kit"),
        (["-o", "winner.yaml"], "is a file"),
        (["-o", "kit", "--documents", "nowhere"], "neither a folder nor a data set"),
        (["-o", "kit", "--dataset", "nowhere"], "neither a folder nor the name of a data set"),
        (["-o", "kit", "--dataset", "law", "--documents", "documents"], "give one of them"),
        ([], "needs -o"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_written(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    before = sorted(here.rglob("*"))
    assert deploy(*arguments) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
    assert sorted(here.rglob("*")) == before


def test_a_kit_is_replaced_only_where_that_is_asked_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy("-o", "kit") == 0
    before = {path: path.stat().st_mtime_ns for path in Path("kit").rglob("*") if path.is_file()}
    assert deploy("-o", "kit") == 2
    assert "--force" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in Path("kit").rglob("*") if path.is_file()} == before


def test_programs_that_were_edited_are_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy("-o", "kit") == 0
    for name in ("pipeline.py", "server.py", "compose.yaml", "Dockerfile"):
        with (here / "kit" / name).open("a") as file:
            file.write("# mine\n")
    before = {path: path.read_bytes() for path in Path("kit").rglob("*") if path.is_file()}
    assert deploy("-o", "kit", "--force") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Dockerfile, compose.yaml, pipeline.py, server.py were added or edited after the kit was written" in said
    assert {path: path.read_bytes() for path in Path("kit").rglob("*") if path.is_file()} == before
