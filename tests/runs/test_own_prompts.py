"""One's own prompts are options of a space, part of keys, and in the file of a winner and its starter kit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from wordings import OTHER, WordedModel, claimed, race, winning_wording

import ragsmith
from ragsmith.datasets.dataset import load_dataset
from ragsmith.errors import SpaceError, UsageError
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.keys import evaluation_key, ranking_key
from ragsmith.models.own_prompts import OwnPrompt
from ragsmith.pipelines.genes import Candidate, configuration, describe_changes, label, read_configuration
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.task_lookup import tasks_by_role

BRIEF = OwnPrompt("brief", "{context}\n\nReply in three words: {question}")
Build = Callable[..., Candidate]


@pytest.fixture
def own(tiny_space: Path, tmp_path: Path) -> Path:
    """The tiny space with two prompts of the answer and one of the passage of HyDE."""
    (tmp_path / "brief.txt").write_text(BRIEF.text)
    (tmp_path / "terse.txt").write_text("{question} In short:")
    path = tmp_path / "own.yaml"
    path.write_text(tiny_space.read_text() + "prompts: {answer: [default, brief.txt], imagine_passage: terse.txt}\n")
    return path


def test_prompts_are_options_of_the_techniques_that_ask(own: Path, space: Space) -> None:
    read = load_space(own)
    shown = dict(zip(read.names, ([str(gene) for gene in genes] for genes in read.options), strict=True))
    assert shown["prompt_maker"] == ["listing", "listing(answer_prompt=brief)"]
    assert shown["query_expansion"] == ["none", "hyde(imagine_passage_prompt=terse)"]
    assert read.feasible_size == 2 * space.feasible_size
    assert space.with_prompts({"answer": (None, BRIEF)}).options[-2] == read.options[-2]
    assert space.with_prompts({}) is space
    assert read.with_prompts({"answer": (None,), "imagine_passage": (None,)}).options == space.options


def test_the_text_of_a_prompt_is_part_of_the_key(space: Space, tiny_setup: Experiment) -> None:
    def keys(*prompts: OwnPrompt | None) -> set[str]:
        genes = (space.with_prompts({"answer": (own,)}).candidate((0,) * 9) for own in prompts)
        return {evaluation_key(tiny_setup, candidate) for candidate in genes}

    assert len(keys(None, BRIEF, replace(BRIEF, text=BRIEF.text + " Be kind."))) == 3
    assert keys(BRIEF) == keys(replace(BRIEF, name="renamed"))
    expanding = (0, 1, *[0] * 7)
    worded = space.with_prompts({"imagine_passage": (OwnPrompt("terse", "{question}"),)})
    plain, other = space.candidate(expanding), worded.candidate(expanding)
    assert ranking_key(tiny_setup, plain) != ranking_key(tiny_setup, other)
    answering = space.with_prompts({"answer": (BRIEF,)}).candidate(expanding)
    assert ranking_key(tiny_setup, plain) == ranking_key(tiny_setup, answering)


def test_a_configuration_is_read_back(space: Space) -> None:
    candidate = space.with_prompts({"answer": (BRIEF,)}).candidate((0,) * 9)
    plain = configuration(candidate)
    assert plain["prompt_maker"]["prompts"] == {"answer": {"name": "brief", "text": BRIEF.text}}
    assert read_configuration(plain) == candidate
    assert label(candidate).endswith("listing(answer_prompt=brief)")
    built_in = space.candidate((0,) * 9)
    assert describe_changes(candidate, built_in) == "changes listing: answer_prompt default → brief"
    for broken, problem in (
        ({"judge": {"name": "a", "text": "b"}}, "prompt_maker.listing asks for no 'judge'"),
        ({"answer": {"name": "a"}}, "an own prompt must have a 'name' and a 'text'"),
        ({"answer": {"name": "a", "text": "{question}"}}, "prompt 'a': the prompt of answer lacks {context}"),
    ):
        with pytest.raises(SpaceError, match=problem.replace("{", r"\{")):
            read_configuration({**plain, "prompt_maker": {**plain["prompt_maker"], "prompts": broken}})


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("answer={folder}/absent.txt", "absent.txt: is missing"),
        ("answer={folder}/wrong.txt", "the prompt of answer lacks {context}"),
        ("answr={folder}/brief.txt", "did you mean 'answer'"),
        ("judge={folder}/brief.txt", "asks for 'judge'"),
        ("answer={folder}/brief.txt", "the embedded model reads no prompts: --llm must name a chat model"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused_in_one_sentence(
    ragsmith: Callable[..., Any], tiny_folder: Path, own: Path, prompt: str, problem: str
) -> None:
    (own.parent / "wrong.txt").write_text("Reply: {question}")
    given = prompt.replace("{folder}", str(own.parent))
    ended = ragsmith("search", "--dataset", tiny_folder, "--cache", own.parent / "cache.sqlite", "--prompt", given)
    assert ended.code == 2
    assert problem in ended.err
    assert len(ended.err.strip().splitlines()) == 1


@pytest.mark.parametrize("prompts", [5, "answer=brief.txt", True, [5], {5: "brief.txt"}, {"answer": 5}])
def test_prompts_of_another_type_are_refused_in_one_sentence(prompts: Any, tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        ragsmith.search(tiny_folder, prompts=prompts, cache=tmp_path / "cache.sqlite")
    assert len(str(refused.value).splitlines()) == 1


def test_a_space_names_the_line_of_its_prompts(own: Path) -> None:
    (own.parent / "brief.txt").write_text("{context} {question} {style}")
    with pytest.raises(SpaceError, match=r"own\.yaml:\d+: prompt 'brief': .*no placeholder \{style\}"):
        load_space(own)


def test_the_better_wording_wins_and_stands_in_the_winner_and_its_kit(tmp_path: Path) -> None:
    result = race(load_dataset("law"), 0.4, 0.9, 1, tmp_path)
    assert (winning_wording(result), claimed(result)) == ("other", True)
    winner = tmp_path / "winner.yaml"
    result.export(winner)
    plain = yaml.safe_load(winner.read_text())["pipeline"]["prompt_maker"]
    assert plain["prompts"] == {"answer": {"name": "other", "text": OTHER}}
    model = WordedModel(load_dataset("law"), {False: 0.0, True: 1.0}, 1)
    (tmp_path / "other.txt").unlink()
    loaded = ragsmith.Pipeline.load(winner, models={"language_model": model, "judge": "extractive"})
    question = load_dataset("law").examples[0]
    assert loaded.ask(question.question).answer == question.answer
    (tmp_path / "plain.txt").write_text("{context}\n\nAnswer.\n\nQuestion: {question}\n")
    plain_answer = ragsmith.ask(loaded, question.question, prompts={"answer": tmp_path / "plain.txt"}).answer
    assert plain_answer == "That is another matter."
    with pytest.raises(UsageError, match="answer has several prompts"):
        loaded.with_prompts({"answer": ["default", tmp_path / "plain.txt"]})


def test_neither_of_two_equal_wordings_is_called_better(tmp_path: Path) -> None:
    assert not claimed(race(load_dataset("law"), 0.6, 0.6, 1, tmp_path))


DOCS = Path(__file__).parents[2] / "docs" / "search_spaces.md"


def test_the_documented_example_is_a_space(tiny_space: Path, tmp_path: Path) -> None:
    section = DOCS.read_text(encoding="utf-8").partition("## One's own prompts")[2]
    [listed] = re.findall(r"```yaml\n(prompts:\n.*?)```", section, re.DOTALL)
    [brief] = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    (tmp_path / "brief.txt").write_text(brief)
    (tmp_path / "terse.txt").write_text("{question}")
    families = tiny_space.read_text().replace("[none, hyde]", "[none, query_rewriting]")
    (tmp_path / "space.yaml").write_text(f"{families}{listed}")
    assert load_space(tmp_path / "space.yaml").own_prompts


def test_the_documented_roles_are_those_of_the_techniques() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`\{.*?) \| (.*) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {role: (re.findall(r"\{(\w+)\}", inputs), set(re.findall(r"`(\w+)`", by))) for role, inputs, by in rows}
    expected: dict[str, tuple[list[str], set[str]]] = {}
    for technique in (each for family in FAMILIES for each in family.techniques.values()):
        for role, task in ({} if technique.analysis_only else tasks_by_role(technique)).items():
            asking = expected.setdefault(role, (list(task.inputs), set()))[1]
            asking.update({technique.name} if technique.family != "prompt_maker" else ())
    assert shown == expected


def test_a_kit_has_the_prompt(tiny_folder: Path, space: Space, tmp_path: Path) -> None:
    own = space.with_prompts({"answer": (BRIEF,)}).candidate((0,) * 9)
    content = {"dataset": {"path": str(tiny_folder)}, "pipeline": configuration(own)}
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(content))
    kit = ragsmith.deploy(tmp_path / "pipeline.yaml", tmp_path / "kit")
    found = [path for path in kit.folder.rglob("*.yaml") if "Reply in three words" in path.read_text()]
    assert len(found) == 1
    assert ragsmith.Pipeline.load(found[0]).candidate == own
