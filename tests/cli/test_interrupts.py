"""Requests to end, in a process of its own each: the handler changes what signals do to the whole process."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

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
    print(interrupts.heard)
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:
        print(interrupts.heard)
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

    from ragsmith.evaluation.signals import signals_held

    HEAR = "import signal; print(*(int(n in signal.pthread_sigmask(signal.SIG_BLOCK, ())) for n in (1, 2, 15)))"
    try:
        with signals_held():
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
