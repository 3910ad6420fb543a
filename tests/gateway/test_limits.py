"""The limit on tokens of a reply: what a task has a model write, and what the model needs to think."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragsmith.errors import CutReply, LoopingReply, ModelError, RefusedContent, TooLong, Unreadable
from ragsmith.gateway.budget import Budget
from ragsmith.gateway.completions import MIN_EXTRA_THINKING_TOKENS, MIN_LEARNT_THINKING_TOKENS
from ragsmith.gateway.failures import Failures
from ragsmith.gateway.gateway import Gateway
from ragsmith.models.calls import Completion
from ragsmith.models.capabilities import CapabilityLearner, ModelCapabilities
from ragsmith.models.tasks import ReplyForm, Task, parse_text
from ragsmith.models.usage import Meter, Usage
from ragsmith.store.store import Store

SAY = Task("say", "{word}", parse_text, lambda model, **_: "", max_tokens=64)
ANSWER = Task("answer", "{word}", parse_text, lambda model, **_: "", max_tokens=64, usable_cut=True)


class Thinker:
    """Thinks ``thinks`` tokens, then says the prompt; obeys its limit. ``largest`` is the most that it takes."""

    id = "chat:thinker"

    def __init__(self, thinks: int, *, largest: int = 1 << 30, window: int | None = None, cut_answers: bool = False):
        self.thinks, self.largest, self.context_window, self.cut_answers = thinks, largest, window, cut_answers
        self.learner = CapabilityLearner()
        self.limits: list[int] = []
        self.used = 0

    @property
    def thinking_tokens(self) -> int:
        return self.learner.capabilities.thinking_tokens

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        if max_tokens > self.largest:
            raise RefusedContent("HTTP 400: max_tokens is too large")
        self.limits.append(max_tokens)
        written = min(max_tokens, self.thinks + 10)
        self.used += 5 + written
        cut_at = max_tokens if written < self.thinks + 10 else 0
        usage = Usage(1, 0, 0, 5, written, 0.0)
        return Completion(prompt[:4] if cut_at else prompt, usage, cut_at, min(written, self.thinks))


def test_the_limit_of_answers_is_that_of_the_model_and_of_no_other_task() -> None:
    model = Thinker(0)
    model.answer_tokens = 200  # type: ignore[attr-defined]
    view = Gateway().language_model(model, Meter())
    assert [view.run(task, word="word") for task in (SAY, ANSWER)] == ["word", "word"]
    assert model.limits == [64, 200]


@pytest.mark.parametrize(("task", "limits"), [(SAY, [64, 256]), (ANSWER, [5, 20])])
def test_a_text_gets_at_most_four_times_its_limit(task: Task[str], limits: list[int]) -> None:
    class Talker(Thinker):
        answer_tokens = 5

        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            self.limits.append(max_tokens)
            return Completion("a text without end", Usage(1, 0, 0, 5, max_tokens, 0.0), max_tokens)

    model = Talker(0)
    with pytest.raises(CutReply):
        Gateway().language_model(model, Meter()).run(task, word="word")
    assert model.limits == limits


def test_a_reply_that_was_cut_is_asked_for_once_more_and_what_it_needed_is_learnt() -> None:
    model, meter = Thinker(700), Meter()
    view = Gateway().language_model(model, meter)
    assert [view.run(SAY, word=word) for word in ("first", "second")] == ["first", "second"]
    assert model.limits == [
        64,
        64 + MIN_EXTRA_THINKING_TOKENS,
        64 + 2048,
    ]  # 646 more were needed: twice that, as a power of two
    assert model.learner.capabilities == ModelCapabilities(thinking_tokens=2048)
    # both replies have the bill that they would have had, had it been known before
    assert (meter.calls, meter.output_tokens) == (2, 2 * 710)


def test_a_learned_allowance_never_shrinks() -> None:
    model = Thinker(60)
    view = Gateway().language_model(model, Meter())
    for thinks, allowed in (
        (60, MIN_LEARNT_THINKING_TOKENS),
        (10, MIN_LEARNT_THINKING_TOKENS),
        (3000, 4096),
        (5000, 8192),
        (60, 8192),
    ):
        model.thinks = thinks
        view.run(SAY, word=f"after {thinks}, {allowed}")
        assert model.thinking_tokens == allowed


def test_a_reply_that_is_always_cut_fails_and_says_what_to_do() -> None:
    model = Thinker(10**6)
    view = Gateway().language_model(model, Meter())
    with pytest.raises(
        CutReply, match=r"chat:thinker: the reply to say was truncated at the limit of 4,160 .* thinking_token"
    ) as raised:
        view.run(SAY, word="first")
    assert "--score-cut-answers" not in str(raised.value)
    assert (raised.value.calls, raised.value.output_tokens) == (2, 64 + 4160)
    with pytest.raises(CutReply, match="--score-cut-answers"):
        view.run(ANSWER, word="first")
    assert model.learner.capabilities.thinking_tokens == 0  # nothing was seen to be enough


def test_a_server_that_takes_no_larger_limit_leaves_a_cut_reply() -> None:
    model = Thinker(100, largest=64)
    with pytest.raises(CutReply, match="limit of 64 tokens"):
        Gateway().language_model(model, Meter()).run(SAY, word="first")


def test_a_limit_of_the_models_own_is_named_and_not_tried_again() -> None:
    class Modest(Thinker):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            return super().complete(prompt, max_tokens=min(max_tokens, 32), sample=sample)

    model = Modest(100)
    with pytest.raises(CutReply, match=r"at the limit of 32 tokens, .* raise the token limit of the model"):
        Gateway().language_model(model, Meter()).run(SAY, word="first")
    assert model.limits == [32]


def test_a_reply_without_thoughts_succeeds_where_the_server_grants_no_room_for_them() -> None:
    class Narrow(Thinker):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            if len(prompt) + max_tokens > 1000:
                self.limits.append(max_tokens)
                raise TooLong("HTTP 400: the maximum context length is 1000")
            return super().complete(prompt, max_tokens=max_tokens, sample=sample)

    model = Narrow(0)
    model.learner.restore(ModelCapabilities(thinking_tokens=2048))  # as shorter prompts needed it, or by an option
    view = Gateway().language_model(model, Meter())
    assert view.run(SAY, word="first") == "first"
    assert model.limits == [64 + 2048, 64]
    with pytest.raises(TooLong):
        view.run(SAY, word="long" * 250)
    assert model.limits[2:] == [64 + 2048, 64]


def test_thoughts_that_the_server_does_not_count_are_learned() -> None:
    class Silent(Thinker):
        def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
            reply = super().complete(prompt, max_tokens=max_tokens, sample=sample)
            return replace(
                reply, text="" if reply.cut_at else reply.text, usage=Usage(1, 0, 0, 5, 10), thought_tokens=0
            )

    model = Silent(700)
    view = Gateway().language_model(model, Meter())
    for n in range(9):
        assert view.run(SAY, word=f"{n}") == f"{n}"
    assert len(model.limits) < 9 + 4
    assert model.limits[-1] == 64 + 1024


def test_the_larger_limit_leaves_room_for_the_prompt_in_the_window() -> None:
    model = Thinker(200, window=512)
    assert Gateway().language_model(model, Meter()).run(SAY, word="first") == "first"
    assert model.limits == [64, 510]  # 2 of 512 may be the prompt's


def test_a_cut_reply_is_paid_for_and_its_thinking_is_reserved(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        budget = Budget(store, "run")
        model = Thinker(700)
        Gateway(store, budget).language_model(model, Meter()).run(SAY, word="first")
        assert budget.spent.tokens == model.used == 5 + 64 + 5 + 710


def test_a_cut_reply_is_not_stored(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        with pytest.raises(CutReply):
            Gateway(store).language_model(Thinker(10**6), Meter()).run(ANSWER, word="first")
        assert store.statistics()["tables"]["model_call"]["rows"] == 0


def test_a_cut_answer_is_accepted_on_request_under_a_key_of_its_own(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        for sends in (2, 0):
            model, meter = Thinker(10**6, cut_answers=True), Meter()
            view = Gateway(store).language_model(model, meter)
            assert view.run(ANSWER, word="first answer") == "firs"
            assert (len(model.limits), meter.total().cut) == (sends, 1)
        with pytest.raises(CutReply):
            view.run(SAY, word="first answer")
        with pytest.raises(CutReply):
            Gateway(store).language_model(Thinker(10**6), Meter()).run(ANSWER, word="first answer")
        whole = Thinker(0)
        assert Gateway(store).language_model(whole, Meter()).run(ANSWER, word="second") == "second"
        taking = Thinker(10**6, cut_answers=True)
        assert Gateway(store).language_model(taking, Meter()).run(ANSWER, word="second") == "second"
        assert taking.limits == []  # a whole reply is one in either case


class Writer:
    """Writes ``text``, without thoughts, up to the limit, at a token for four characters."""

    id = "chat:writer"

    def __init__(self, text: str, fails_at: int = 0) -> None:
        self.text, self.fails_at, self.limits = text, fails_at, list[int]()

    def complete(self, prompt: str, *, max_tokens: int, sample: int) -> Completion:
        self.limits.append(max_tokens)
        if len(self.limits) == self.fails_at:
            raise KeyboardInterrupt
        text = self.text[: 4 * max_tokens]
        return Completion(text, Usage(1, 0, 0, 5, max_tokens), 0 if text == self.text else max_tokens)


def test_a_loop_fails_as_one_and_is_never_asked_for_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        model = Writer("The ferry sails at noon. " * 1000)
        for _ in range(2):  # the second in another command
            view = Gateway(store, failures=Failures(store)).language_model(model, Meter())
            with pytest.raises(LoopingReply, match=r"the reply to answer repeats itself up to the limit of 64 tokens"):
                view.run(ANSWER, word="first")
        assert model.limits == [64]


def test_a_text_that_was_cut_gets_four_times_its_limit_at_most() -> None:
    words = " ".join(f"word{n * n}x{'abcdefg'[n % 7] * (n % 5)}" for n in range(2000))
    model = Writer(words)
    with pytest.raises(CutReply, match="name a model that writes less"):
        Gateway().language_model(model, Meter()).run(SAY, word="first")
    assert model.limits == [64, 256]
    model = Writer(words[:1000])
    assert Gateway().language_model(model, Meter()).run(SAY, word="first") == words[:1000]
    assert model.limits == [64, 256]


def test_a_limit_at_which_a_reply_was_cut_is_not_tried_again_after_an_interrupt(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        words = " ".join(f"word{n * n}x{'abcdefg'[n % 7] * (n % 5)}" for n in range(100))[:1000]
        model = Writer(words, fails_at=2)
        with pytest.raises(KeyboardInterrupt):
            Gateway(store, failures=Failures(store)).language_model(model, Meter()).run(SAY, word="first")
        view = Gateway(store, failures=Failures(store)).language_model(model, Meter())
        assert view.run(SAY, word="first") == words
        assert model.limits == [64, 256, 256]


SCORE = Task("score", "{word}", int, lambda model, **_: 0, max_tokens=64, form=ReplyForm("score", {"score": int}, None))
LOOP = '{"score": [' + "[1, 2], " * 1000
PADDED = '{"score": 4' + " " * 8000


class Formed:
    """Writes the next of ``texts`` to a request, up to its limit; an exception is raised instead."""

    id = "chat:formed"
    structured_output = True

    def __init__(self, *texts: str | BaseException) -> None:
        self.texts = [*texts]
        self.sent: list[tuple[bool, int, bool]] = []
        """Whether each request had a form, its limit, and whether it has the error of an earlier reply."""
        self.used = 0

    def complete(self, prompt: str, *, max_tokens: int, sample: int, form: ReplyForm | None = None) -> Completion:
        self.sent.append((form is not None, max_tokens, "could not be used" in prompt))
        text = self.texts.pop(0)
        if isinstance(text, BaseException):
            raise text
        written = min(max_tokens, len(text) // 4 + 1)
        self.used += 5 + written
        cut = text[: 4 * max_tokens]
        return Completion(cut, Usage(1, 0, 0, 5, written), 0 if cut == text else max_tokens)


@pytest.mark.parametrize("loop", [LOOP, PADDED])
def test_a_form_in_which_a_model_loops_is_left_out_once_and_each_reply_is_paid_for(tmp_path: Path, loop: str) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        model, meter, budget = Formed(loop, "4"), Meter(), Budget(store, "run")
        gateway = Gateway(store, budget, failures=Failures(store))
        assert gateway.language_model(model, meter).run(SCORE, word="first") == 4
        assert model.sent == [(True, 64, False), (False, 64, False)]
        assert (meter.calls, meter.input_tokens, meter.output_tokens) == (1, 5, 1)  # as if it had been left out before
        assert (budget.spent.tokens, gateway.counts()["language_model"].made) == (model.used, 2)
        again = Gateway(store, failures=Failures(store)).language_model(model, Meter())
        assert (again.run(SCORE, word="first"), len(model.sent)) == (4, 2)


def test_a_text_that_loops_as_well_is_the_failure_with_the_cost_of_all_replies(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        model = Formed("no score", LOOP, LOOP)
        for n in range(2):  # the second in another command
            with pytest.raises(LoopingReply, match="repeats itself") as raised:
                Gateway(store, failures=Failures(store)).language_model(model, Meter()).run(SCORE, word="first")
            costs = raised.value.calls, raised.value.input_tokens, raised.value.output_tokens
            assert costs == ((0, 0, 0) if n else (3, 15, 3 + 64 + 64))
        assert model.sent == [(True, 64, False), (True, 64, True), (False, 64, False)]


def test_a_resumed_run_sends_no_form_in_which_a_reply_looped(tmp_path: Path) -> None:
    with Store.open(tmp_path / "cache.sqlite") as store:
        model = Formed(LOOP, KeyboardInterrupt(), ModelError("HTTP 500"), "4")
        for error in (KeyboardInterrupt, ModelError):
            with pytest.raises(error):
                Gateway(store, failures=Failures(store)).language_model(model, Meter()).run(SCORE, word="first")
        assert Gateway(store, failures=Failures(store)).language_model(model, Meter()).run(SCORE, word="first") == 4
        assert [formed for formed, *_ in model.sent] == [True, False, False, False]


def test_only_a_loop_has_a_form_left_out() -> None:
    words = " ".join(f"word{n * n}x{'abcdefg'[n % 7] * (n % 5)}" for n in range(2000))
    for texts, error in (
        (("no", "none"), Unreadable),
        ((words, words), CutReply),
        ((RefusedContent("HTTP 400"),), RefusedContent),
    ):
        model = Formed(*texts)
        with pytest.raises(error):
            Gateway().language_model(model, Meter()).run(SCORE, word="first")
        assert [formed for formed, *_ in model.sent] == [True] * len(texts)
