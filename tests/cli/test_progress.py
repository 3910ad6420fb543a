"""Progress of a search, and requests to end a command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap

import pytest

from ragsmith.building import log_progress
from ragsmith.cli.progress import Progress, show_task_progress
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.experiment import Experiment
from ragsmith.gateway.budget import Spent
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.run_context import Start, Step


def told(mode: str, setup: Experiment, capsys: pytest.CaptureFixture[str]) -> list[str]:
    progress = Progress(mode)
    pulse = ProviderActivity(attempts=12, retries=2, in_flight=3), Spent(12, 3400, 0.5)
    progress.begin(Start(setup, load_space("quick"), 21, lambda: pulse))
    progress.step(Step("baselines, each option alone", 0, 9, None, None))
    progress.progress(5, 20)
    progress.step(Step("search", 1, 4, 0.5, baseline("naive")))
    progress.step(Step("search", 2, 8, 0.5, baseline("naive")))
    progress.clear()
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_file_gets_a_line_a_step_and_a_pipeline_only_when_it_is_new(
    tiny_setup: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    first, prelude, one, two = told("lines", tiny_setup, capsys)
    assert first == "island: 4 documents, 24 chunks, 24 questions; space 'quick': 48 pipelines"
    assert prelude.endswith("baselines, each option alone     9 evaluated")
    assert one.endswith("search  1     4 evaluated  best 0.5000  vector")
    assert two.endswith("search  2     8 evaluated  best 0.5000")


def test_a_program_gets_json_with_what_was_spent(tiny_setup: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    begin, prelude, one, two = map(json.loads, told("json", tiny_setup, capsys))
    assert (begin["event"], begin["questions"], begin["pipelines"]) == ("begin", 24, 48)
    assert (prelude["event"], prelude["phase"]) == ("step", "baselines, each option alone")
    assert "best" not in prelude
    assert (one["best"], one["pipeline"], one["seconds_left"]) == (0.5, "vector", None)
    assert {name: two[name] for name in ("calls", "in_flight", "retries", "tokens", "cost")} == {
        "calls": 12,
        "in_flight": 3,
        "retries": 2,
        "tokens": 3400,
        "cost": 0.5,
    }
    assert two["seconds_left"] >= 0


def test_quiet_prints_nothing(tiny_setup: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    assert told("none", tiny_setup, capsys) == []


def test_a_terminal_gets_a_table_that_is_taken_away(tiny_setup: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told("live", tiny_setup, capsys)
    assert lines[0].startswith("island: 4 documents")
    assert any("search  1" in line for line in lines)


def built(mode: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_task_progress(Progress(mode).task_progress)
    log_progress("embedding texts", 4_096, 99_770)
    show_task_progress()
    return capsys.readouterr().err.splitlines()


def test_what_is_built_once_is_said_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    [line] = built("lines", capsys)
    assert line.endswith("s] embedding texts: 4,096 of 99,770")
    [said] = map(json.loads, built("json", capsys))
    assert {name: said[name] for name in ("event", "what", "done", "total")} == {
        "event": "building",
        "what": "embedding texts",
        "done": 4_096,
        "total": 99_770,
    }
    assert built("none", capsys) == []


SWALLOWED = """
    import signal
    import time

    from ragsmith.cli import interrupts

    interrupts.GRACE_SECONDS = 0.1
    interrupts.Interrupts()
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        time.sleep(60)
    """

WRITING = """
    import signal
    import threading
    import time

    from ragsmith.cli import interrupts
    from ragsmith.gateway.claims import BatchedStore
    from ragsmith.models.calls import StoredCall

    class Slow:
        def put_calls(self, calls, replacing, payment):
            begun.set()
            time.sleep(1)
            print("written", flush=True)

    interrupts.GRACE_SECONDS = 0.1
    interrupts.Interrupts()
    begun, store = threading.Event(), BatchedStore(Slow())
    threading.Thread(target=store.put_calls, args=([StoredCall("k", "m", "task", "a reply")],), daemon=True).start()
    begun.wait()
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        time.sleep(60)
    """

FINALISER = """
    import signal
    import time

    from ragsmith.cli.interrupts import Interrupts

    class Finalised:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    Interrupts()
    try:
        Finalised()
        time.sleep(4)
    except KeyboardInterrupt:
        print("raised again")
    """

IGNORED = """
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)

    from ragsmith.cli.interrupts import Interrupts

    interrupts = Interrupts()
    signal.raise_signal(signal.SIGINT)
    print(interrupts.received)
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        print(interrupts.received)
    """

COMPILED = """
    import sys

    from ragsmith import cli

    def run(arguments):
        exec("import signal; signal.raise_signal(signal.SIGINT)")

    cli.run = run
    cli.main()
    """

HELD = """
    import signal
    import subprocess
    import sys

    from ragsmith.evaluation.signals import signals_deferred

    HEAR = "import signal; print(*(int(n in signal.pthread_sigmask(signal.SIG_BLOCK, ())) for n in (1, 2, 15)))"
    try:
        with signals_deferred():
            signal.raise_signal(signal.SIGINT)
            subprocess.run([sys.executable, "-c", HEAR])
            print("held", flush=True)
    except KeyboardInterrupt:
        print("heard afterwards", flush=True)
    subprocess.run([sys.executable, "-c", HEAR])
    """


def _listen() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "code", "out"),
    [
        pytest.param(SWALLOWED, 130, [], id="what is swallowed ends the process a little later"),
        pytest.param(WRITING, 130, ["written"], id="replies that are being written are waited for"),
        pytest.param(FINALISER, 0, ["raised again"], id="what a finaliser drops is raised again"),
        pytest.param(IGNORED, 0, ["False", "True"], id="what is ignored already stays so"),
        pytest.param(COMPILED, 130, [], id="code that is compiled from a string changes nothing"),
        pytest.param(
            HELD,
            0,
            ["1 1 1", "held", "heard afterwards", "0 0 0"],
            id="held signals come afterwards, and a child begins with them blocked",
        ),
    ],
)
def test_requests_to_end(script: str, code: int, out: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        preexec_fn=_listen,  # shells have what runs in the background ignore Ctrl-C, and these tests with it
    )
    assert (done.returncode, done.stdout.splitlines()) == (code, out)
    assert done.stderr.count("interrupted") == (code == 130)
    assert "Traceback" not in done.stderr
