"""First replies of a real model to every language task: which are read, unreadable or cut, and what they copy."""

import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.splits import split
from ragsmith.errors import ModelError, ModelUnavailable
from ragsmith.evaluation.experiment import Experiment, sort_examples
from ragsmith.gateway.gateway import Gateway
from ragsmith.gateway.prompts_and_vectors import parse_problem, render_prompt
from ragsmith.measures.judge import collect_scores
from ragsmith.measures.judge_calibration import Calibration
from ragsmith.measures.non_answers import RULES, copied_share, find_non_answers
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.names import ModelNames
from ragsmith.models.served.json_endpoint import JsonEndpoint
from ragsmith.models.served.openai_chat import OpenAIChat
from ragsmith.models.served.policy import Policy
from ragsmith.models.tasks import Task
from ragsmith.models.usage import Meter
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.check import CheckAgenda, CheckedModel, fill_inputs
from ragsmith.serving.conversation import SELF_CONTAINED
from ragsmith.techniques.task_lookup import N_PASSAGES
from ragsmith.text.blocks import number_blocks
from ragsmith.text.words import sentences
from ragsmith.types import Example

READ, UNREADABLE, CUT, FAILED = "read", "unreadable", "cut", "failed"
"""What became of a first reply; ``failed`` is one that did not arrive."""
DEADLINE = 600.0
"""Seconds for a reply, so that a slow machine does not change the table."""
MAX_REQUESTS = 16
"""Requests of one task; ragsmith sends fewer."""
FOLLOW_UP = "Is there an exception to that?"
"""The question that has to be made self-contained, after the question of the data set and its answer."""
_MARK = re.compile(r"^[ \t]*>", re.MULTILINE)


@dataclass(frozen=True)
class FirstReply:
    """The first reply to a task.

    ``copied`` is the share of its words in runs of `RUN` words that the prompt has, ``rules`` whether the instructions
    have one of these runs, and ``marks`` whether a line begins with the mark of a quotation. ``usable`` is whether the
    task was done in the end, with as many requests as ragsmith sends.
    """

    task: str
    question: str
    became: str
    problem: str = ""
    text: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    copied: float = 0.0
    rules: bool = False
    marks: bool = False
    requests: int = 0
    usable: bool = False


class _Limited:
    """A chat model that records its replies and takes at most ``most`` requests."""

    def __init__(self, model: OpenAIChat, most: int) -> None:
        self._model, self._most = model, most
        self.replies: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, *args: Any, **kwargs: Any) -> Any:
        if len(self.replies) >= self._most:
            raise ModelError("another request was not sent")
        self.replies.append(self._model.complete(*args, **kwargs))
        return self.replies[-1]


class RoleTasks:
    """The language tasks of a search and of serving, with inputs from a bundled domain."""

    def __init__(self, domain: str, space: str) -> None:
        self._setup = Experiment(load_dataset(domain), ModelNames(), faithfulness=True)
        self._agenda = CheckAgenda(self._setup, load_space(space), judge_cases=False, calibrations=())
        self.tasks = [
            *self._agenda.tasks(CheckedModel("language_model", ModelNames().language_model)).values(),
            SELF_CONTAINED,
        ]
        self._chunks = self._setup.corpus.chunks
        self._embedder = WordLlamaEmbedder()
        self._vectors = self._embedder.embed([chunk.text for chunk in self._chunks])

    def draw(self, n: int, seed: int) -> list[Example]:
        """Draw questions that the documents answer, from the search part."""
        every = [one for one in sort_examples(split(self._setup.dataset).search) if one.answer and one.evidence]
        return random.Random(seed).sample(every, min(n, len(every)))

    def inputs(self, task: Task[Any], example: Example) -> dict[str, Any]:
        """The inputs of a task: the passages are the nearest chunks, with a relevant one among them."""
        [vector] = self._embedder.embed([example.question])
        relevant = self._setup.relevance[example.id].relevant
        order = sorted(range(len(self._chunks)), key=lambda i: (-float(self._vectors[i] @ vector), i))
        first = order[:N_PASSAGES]
        gold = next(i for i in order if self._chunks[i].id in relevant)
        if gold not in first:
            first[-1] = gold
        passages = tuple(self._chunks[i].text for i in first)
        known = {
            "question": example.question,
            "query": example.question,
            "reference": example.answer,
            "answer": example.answer,
            "context": number_blocks(passages),
            "passages": passages,
            "passage": self._chunks[gold].text,
            "summary": passages[0],
            "place": self._chunks[gold].title,
            "claims": tuple(_first_sentence(passage) for passage in passages),
            "conversation": f"user: {example.question}\nassistant: {example.answer}",
        }
        found = fill_inputs(task, self._agenda.example_inputs(example) | known)
        return found | ({"question": FOLLOW_UP} if task.name == SELF_CONTAINED.name else {})


def _first_sentence(text: str) -> str:
    start, end = next(iter(sentences(text)))
    return text[start:end]


@contextmanager
def connected(url: str, model: str, *, schema: bool) -> Iterator[OpenAIChat]:
    """A client that sends one request at a time, each once, with a ``schema`` of the reply where a task has one."""
    endpoint = JsonEndpoint(url, policy=Policy(in_flight=1, attempts=1, deadline=DEADLINE))
    chat = OpenAIChat(model, endpoint=endpoint, structured_output=schema)
    try:
        yield chat
    finally:
        chat.provider.close()


def ask_all(
    url: str,
    model: str,
    roles: RoleTasks,
    examples: Sequence[Example],
    *,
    again: bool,
    until: float,
    schema: bool = True,
) -> Iterator[FirstReply]:
    """Yield the first reply to each task for each question in turn, until the time ``until`` of ``time.monotonic``.

    Short prompts come first, so that few tasks are without a reply when the time is over.
    """
    with connected(url, model, schema=schema) as chat:
        for example in examples:
            inputs = {task: roles.inputs(task, example) for task in roles.tasks}
            for task in sorted(inputs, key=lambda task: len(task.render(inputs[task]))):
                if time.monotonic() >= until:
                    return
                yield _ask(chat, task, example, inputs[task], again)


def judge_cases(
    url: str, model: str, calibration: Calibration, *, schema: bool, until: float
) -> Iterator[tuple[float | None, int]]:
    """Yield the score of each answer of a ``calibration`` in turn, None if it failed, and the replies that it took."""
    with connected(url, model, schema=schema) as chat:
        for case in calibration.cases:
            if time.monotonic() >= until:
                return
            limited = _Limited(chat, MAX_REQUESTS)
            inputs = {"question": case.question, "reference": case.reference, "answer": case.answer}
            [score] = collect_scores(Gateway().language_model(limited, Meter()), [(0, inputs)])
            yield score, len(limited.replies)


def _ask(chat: OpenAIChat, task: Task[Any], example: Example, inputs: dict[str, Any], again: bool) -> FirstReply:
    limited, problem, began = _Limited(chat, MAX_REQUESTS if again else 1), "", time.monotonic()
    try:
        Gateway().language_model(limited, Meter()).run(task, **inputs)
    except ModelUnavailable:
        raise
    except ModelError as error:
        problem = str(error)
    usable, seconds = not problem, time.monotonic() - began
    if not limited.replies:
        return FirstReply(task.name, example.id, FAILED, problem, seconds=seconds)
    first = limited.replies[0]
    became = CUT if first.cut_at else READ
    if not first.cut_at and (unreadable := parse_problem(task, first.text)):
        became, problem = UNREADABLE, unreadable
    prompt, _ = render_prompt(task, inputs, None)
    return FirstReply(
        task.name,
        example.id,
        became,
        problem,
        first.text,
        first.usage.input_tokens,
        first.usage.output_tokens,
        first.usage.seconds,
        copied_share(first.text, prompt),
        RULES in find_non_answers([first.text], task.prompt),
        _MARK.search(first.text) is not None,
        len(limited.replies),
        usable,
    )


# --- the table -------------------------------------------------------------------------------------------------------

COLUMNS = ("task", "replies", READ, UNREADABLE, CUT, FAILED, "in the end", "copied", "rules", "marks")
MEANS = {"tokens in": "input_tokens", "out": "output_tokens", "seconds": "seconds"}


def table(replies: Sequence[FirstReply]) -> list[str]:
    """The lines of a table by task, in the order of the first replies, with a line for all."""
    names = list(dict.fromkeys(reply.task for reply in replies))
    rows = [(name, [reply for reply in replies if reply.task == name]) for name in names]
    columns = (*COLUMNS, *MEANS)
    lines = [f"| {' | '.join(columns)} |", f"| --- |{' ---: |' * (len(columns) - 1)}"]
    for name, each in (*rows, ("all", list(replies))):
        arrived = [reply for reply in each if reply.became != FAILED]
        cells = [
            len(each),
            *(sum(reply.became == kind for reply in each) for kind in (READ, UNREADABLE, CUT, FAILED)),
            sum(reply.usable for reply in each),
            f"{_mean(arrived, 'copied'):.2f}",
            *(sum(getattr(reply, kind) for reply in arrived) for kind in ("rules", "marks")),
            *(f"{_mean(arrived, key):.{int(key == 'seconds')}f}" for key in MEANS.values()),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return lines


def _mean(replies: Sequence[FirstReply], key: str) -> float:
    return sum(getattr(reply, key) for reply in replies) / max(1, len(replies))


def write(replies: Sequence[FirstReply], path: Path) -> None:
    """Write a line of JSON for each reply."""
    path.write_text("".join(json.dumps(asdict(reply)) + "\n" for reply in replies), encoding="utf-8")
