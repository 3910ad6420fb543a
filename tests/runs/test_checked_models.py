"""What `models check` finds that a model cannot do is left out of a search with the same cache, which says so."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from facts_folder import facts_folder
from fault_replies import chat_reply

import ragsmith
from ragsmith.errors import ModelUnavailable, Notice
from ragsmith.models.calls import Completion
from ragsmith.models.usage import Usage
from ragsmith.pipelines.space import Space
from ragsmith.store.store import Store

HYDE = "Write a passage of four to six sentences"
JUDGE = "the word Score"


@dataclass
class Chat:
    """A chat model that is blank where a prompt contains one of ``fails``, and marks all answers with 3 if asked to."""

    fails: tuple[str, ...] = ()
    anchored: bool = False
    id: str = "my chat"
    asked: list[str] = field(default_factory=list)

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.asked.append(prompt)
        blank = any(mark in prompt for mark in self.fails)
        text = "" if blank else "Score: 3" if self.anchored and JUDGE in prompt else chat_reply(prompt)
        return Completion(text, Usage(1, 0, 0, 7, 5, 0.1))


class Gone(Chat):
    """A chat model whose server is down."""

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        raise ModelUnavailable(f"{self.id} is down")


def search(folder: Path, space: Path | Space, cache: Path, chat: Any, **changes: Any) -> tuple[Any, list[str]]:
    """A small search, and what it says."""
    small = {"max_evaluations": 3, "probes": False, "control": "none", "test": False, "rankings_first": False} | changes
    small |= {"trust_judge": True}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = ragsmith.search(folder, space=space, cache=cache, models={"language_model": chat}, workers=1, **small)
    return found, [
        str(one.message) for one in said if issubclass(one.category, Notice) and "cannot" in str(one.message)
    ]


def check(space: Path, cache: Path, chat: Chat, *, judge_cases: bool = False) -> Any:
    return ragsmith.check_models({"language_model": chat}, space=space, cache=cache, judge_cases=judge_cases)[0]


def planned(folder: Path, space: Path, cache: Path, **changes: Any) -> int:
    """The number of pipelines of the space of which `search` is planned."""
    small = {"max_evaluations": 3, "probes": False, "control": "none", "test": False, "rankings_first": False} | changes
    plan = ragsmith.plan(folder, space=space, cache=cache, models={"language_model": Chat()}, workers=1, **small)
    assert plan.genomes is not None  # it was simulated
    return plan.feasible


def options(found: Any, family: str) -> tuple[str, ...]:
    listed: tuple[str, ...] = found.run_report.about.record.space.options[family]
    return listed


def test_a_search_leaves_out_what_the_controller_cannot_do_until_another_check(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.sqlite"
    weak = Chat((HYDE,))
    assert "imagine_passage" in check(tiny_space, cache, weak).cannot
    n_asked = len(weak.asked)
    reduced, said = search(tiny_folder, tiny_space, cache, weak)
    assert options(reduced, "query_expansion") == ("none",)
    assert said == [
        "the controller cannot do the tasks of query_expansion: hyde, by its last `ragsmith models check`: a search "
        "that starts after it is without these options, until another check shows that it can"
    ]
    assert any(note.startswith("The controller cannot do") for note in reduced.run_report.notes)
    assert not any(HYDE in prompt for prompt in weak.asked[n_asked:])
    assert ragsmith.plan(tiny_folder, space=tiny_space, cache=cache, models={"language_model": weak}).feasible == 24
    assert check(tiny_space, cache, Chat()).cannot == ()
    whole, said = search(tiny_folder, tiny_space, cache, Chat())
    assert options(whole, "query_expansion") == ("none", "hyde")
    assert (said, whole.key == reduced.key) == ([], False)


def test_a_search_that_began_before_the_check_goes_on_as_it_began(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.sqlite"
    before, said = search(tiny_folder, tiny_space, cache, Chat())
    assert said == []
    check(tiny_space, cache, Chat((HYDE,)))
    again, said = search(tiny_folder, tiny_space, cache, Chat())
    assert (again.key, again.computed, options(again, "query_expansion")) == (before.key, 0, ("none", "hyde"))
    assert len(said) == 1
    assert planned(tiny_folder, tiny_space, cache) == 48
    assert planned(tiny_folder, tiny_space, cache, seed=7) == 24
    fresh, _ = search(tiny_folder, tiny_space, cache, Chat(), seed=7)
    assert options(fresh, "query_expansion") == ("none",)


def test_a_search_that_was_left_unfinished_goes_on_whatever_another_check_finds(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache.sqlite"
    check(tiny_space, cache, Chat((HYDE,)))
    with pytest.raises(ModelUnavailable):
        search(tiny_folder, tiny_space, cache, Gone())
    check(tiny_space, cache, Chat())
    assert [planned(tiny_folder, tiny_space, cache, **other) for other in ({}, {"seed": 7})] == [24, 48]
    again, said = search(tiny_folder, tiny_space, cache, Chat())
    assert (options(again, "query_expansion"), len(said)) == (("none",), 1)
    with Store.open(cache) as store:
        assert [row.key for row in store.runs()] == [again.key]
    fresh, said = search(tiny_folder, tiny_space, cache, Chat(), seed=7)
    assert (options(fresh, "query_expansion"), said) == (("none", "hyde"), [])


def test_the_folds_of_a_crossfit_that_began_before_the_check_go_on_as_it_began(
    tiny_space: Path, tmp_path: Path
) -> None:
    cache, folder = tmp_path / "cache.sqlite", facts_folder(tmp_path / "facts")
    crossfit = {"verdict": "crossfit", "folds": 3, "test": True}
    before, _ = search(folder, tiny_space, cache, Chat(), **crossfit)
    check(tiny_space, cache, Chat((HYDE,)))
    assert [planned(folder, tiny_space, cache, **crossfit, **other) for other in ({}, {"seed": 7})] == [48, 24]
    again, said = search(folder, tiny_space, cache, Chat(), **crossfit)
    assert len(said) == 1  # though there are three searches
    first, second = (one.run_report.about.record for one in (before, again))
    assert [fold.run for fold in first.folds] == [fold.run for fold in second.folds]
    fresh, _ = search(folder, tiny_space, cache, Chat(), **crossfit, seed=7)
    folds = [fold.run for fold in fresh.run_report.about.record.folds]
    with Store.open(cache) as store:
        spaces = [row.value["space"]["options"]["query_expansion"] for row in store.runs() if row.key in folds]
    assert spaces == [["none"]] * 3


def test_a_family_keeps_an_option(tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    cache, only = tmp_path / "cache.sqlite", tmp_path / "only.yaml"
    only.write_text(tiny_space.read_text().replace("[none, hyde]", "[hyde]"))
    check(only, cache, Chat((HYDE,)))
    found, said = search(tiny_folder, only, cache, Chat())
    assert (options(found, "query_expansion"), said) == (("hyde",), [])


def test_options_with_other_prompts_are_named_one_by_one(tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    cache, worded = tmp_path / "cache.sqlite", tmp_path / "worded.yaml"
    (tmp_path / "terse.txt").write_text("{question} In short:")
    (tmp_path / "blunt.txt").write_text("{question} Bluntly:")
    prompts = "prompts: {imagine_passage: [default, terse.txt, blunt.txt]}"
    worded.write_text(f"{tiny_space.read_text()}\n{prompts}\n")
    check(worded, cache, Chat((HYDE, "Bluntly:")))
    found, [said] = search(tiny_folder, worded, cache, Chat())
    assert options(found, "query_expansion") == ("none", "hyde(imagine_passage_prompt=terse)")
    assert "the tasks of query_expansion: hyde, hyde(imagine_passage_prompt=blunt), by its last" in said


def test_another_prompt_is_another_task(tiny_folder: Path, tiny_space: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    check(tiny_space, cache, Chat((HYDE,)))
    (tmp_path / "terse.txt").write_text("{question} In short:")
    found, _ = search(tiny_folder, tiny_space, cache, Chat(), prompts={"imagine_passage": tmp_path / "terse.txt"})
    assert options(found, "query_expansion") == ("none", "hyde(imagine_passage_prompt=terse)")


@pytest.mark.parametrize(("anchored", "said_so"), [(True, True), (False, False)])
def test_a_judge_that_cannot_judge_is_named_before_anything_is_spent(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path, anchored: bool, said_so: bool
) -> None:
    cache = tmp_path / "cache.sqlite"
    chat = Chat(anchored=anchored)
    checked = check(tiny_space, cache, chat, judge_cases=anchored)
    assert ("judge" in checked.cannot) == said_so
    assert (checked.judged is not None and checked.judged.asked == 36) == said_so
    found, said = search(tiny_folder, tiny_space, cache, chat)
    named = "the judge my chat cannot judge, by its last `ragsmith models check`: name another one with --judge"
    assert (named in said) == said_so
    assert found.state == "finished"
    ranked, said = search(tiny_folder, tiny_space, cache, chat, objective="retrieval")
    assert (ranked.state, said) == ("finished", [])


def test_a_verdict_that_can_be_read_makes_no_judge_of_one_that_the_cases_showed_to_be_none(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path
) -> None:
    cache, chat = tmp_path / "cache.sqlite", Chat(anchored=True)
    assert "judge" in check(tiny_space, cache, chat, judge_cases=True).cannot
    check(tiny_space, cache, chat)
    assert any("cannot judge" in one for one in search(tiny_folder, tiny_space, cache, chat)[1])


def test_a_failure_of_the_server_is_no_inability(tiny_space: Path, tmp_path: Path) -> None:
    class Failing(Chat):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            if HYDE in prompt:
                raise ragsmith.errors.ModelError("the server is busy")
            return super().complete(prompt, max_tokens=max_tokens, sample=sample)

    found = check(tiny_space, tmp_path / "cache.sqlite", Failing())
    assert [task.able for task in found.tasks if task.task == "imagine_passage"] == [None]
    with Store.open(tmp_path / "cache.sqlite") as store:
        stored = store.capabilities("my chat")
        assert stored is not None
        assert {key.split()[0]: able for key, able in stored.tasks.items()} == {"answer": True}


@dataclass
class Copying(Chat):
    """A chat model that answers with the passages, or with the rules, as ``odd`` says."""

    odd: str = "passages"

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        if "Answer the question from them" not in prompt:
            return super().complete(prompt, max_tokens=max_tokens, sample=sample)
        copied = prompt.partition("</context>")[0].partition("[1] ")[2].replace("[", "(")
        return Completion(copied if self.odd == "passages" else "It is so.", Usage(1, 0, 0, 7, 5, 0.1))


@pytest.mark.parametrize(("odd", "kind"), [("passages", "copied passages"), ("same", "the same for several")])
def test_answers_that_are_none_are_counted_in_the_report_and_named_where_one_is_explained(
    tiny_folder: Path, tiny_space: Path, tmp_path: Path, odd: str, kind: str
) -> None:
    cache, chat = tmp_path / "cache.sqlite", Copying(odd=odd)
    found, _ = search(tiny_folder, tiny_space, cache, chat, test=True)
    tested = len(found.run_report.about.record.tested)
    [note] = [note for note in found.run_report.notes if "some are none" in note]
    assert note.startswith(f"Of the winner's {tested} answers to test questions, some are none: ")
    assert f"{tested} {kind}" in note
    explained = ragsmith.explain(found.winner, "Who steers the ferry?", cache=cache)
    assert (kind in explained.non_answer) == (odd == "passages")
    plain, _ = search(tiny_folder, tiny_space, cache, Chat(id="another"), test=True)
    assert not any("some are none" in note for note in plain.run_report.notes)
