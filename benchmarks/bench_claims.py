"""Kill a process that holds 16 claims, where its process id says nothing, and see when another takes them over.

python benchmarks/bench_claims.py

Places: another pid namespace (a container of the same host), a process id that another process has got since, and
another host name and pid namespace on one PostgreSQL. Where namespaces cannot be made (it takes root), that is said.
Each is to be taken over within 30 seconds, with a line that says whose claims and why. The last line is of a process
that is stopped for half that time and goes on: it is to keep what it holds.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path

from served import ROOT

from ragsmith.gateway.claims import Grouped
from ragsmith.gateway.leases import SILENT_SECONDS, this_process
from ragsmith.store.store import Store

sys.path.insert(0, str(ROOT / "tests" / "support"))
from postgres_server import missing, postgres

CLAIMS = [f"call {number}" for number in range(16)]
ALLOWED_SECONDS = 30.0
HOLD = """
import sys, time
from ragsmith.gateway import leases
from ragsmith.gateway.claims import Grouped
from ragsmith.store.store import Store

where, keys, name = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
if name:
    import ragsmith.gateway.claims as claims
    claims.this_process = lambda: name[0]
store = Grouped(Store.open(where))
assert store.claim_many(keys)[0] == set(keys)
print("held", flush=True)
time.sleep(600)
"""
CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
OTHER_HOST = (*CONTAINER, "--uts", "sh", "-c", 'hostname other-host && exec "$@"', "sh")


def hold(place: Path | str, inside: tuple[str, ...] = (), name: str = "") -> subprocess.Popen[str]:
    """A process, in a namespace of its own or under another name, that has claimed all calls and beats."""
    command = [*inside, sys.executable, "-c", HOLD, str(place), ",".join(CLAIMS), *filter(None, [name])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    if process.stdout.readline().strip() != "held":
        raise SystemExit("the process that was to hold the claims did not start")
    return process


def taken_over(place: Path | str) -> tuple[float, list[str]]:
    """Seconds until all claims are ours, and what was said meanwhile."""
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as said, Store.open(place) as store:
        warnings.simplefilter("always")
        claims = Grouped(store)
        mine: set[str] = set()
        while len(mine) < len(CLAIMS) and time.monotonic() - began < 2 * ALLOWED_SECONDS:
            mine |= claims.claim_many(CLAIMS)[0]
            claims.wait_for(CLAIMS, bool)
        seconds = time.monotonic() - began
        claims.leave()
    return seconds, [str(warning.message) for warning in said]


def report(name: str, seconds: float, said: list[str]) -> bool:
    good = seconds <= ALLOWED_SECONDS and any("taken over" in sentence for sentence in said)
    print(f"{name}: taken over after {seconds:.1f} s, {'good' if good else 'BAD'}")
    for sentence in said:
        print(f"    {sentence}", flush=True)
    return good


def killed(name: str, place: Path | str, inside: tuple[str, ...] = (), identity: str = "") -> bool:
    """Kill a process that has held claims for a while."""
    process = hold(place, inside, identity)
    time.sleep(8)  # it has beaten at least once
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return report(name, *taken_over(place))


def stopped(place: Path | str) -> bool:
    """Stop a process for half the time after which it counts as dead, while another one wants its claims."""
    process = hold(place)
    os.killpg(process.pid, signal.SIGSTOP)
    with Store.open(place) as store:
        claims, kept = Grouped(store), True
        for second in range(int(2 * SILENT_SECONDS)):
            if second == int(SILENT_SECONDS / 2):
                os.killpg(process.pid, signal.SIGCONT)
            kept = kept and not claims.claim_many(CLAIMS)[0]
            time.sleep(1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    print(f"stopped for {SILENT_SECONDS / 2:.0f} s, wanted for {2 * SILENT_SECONDS:.0f} s: keeps its claims: {kept}")
    return kept


def main() -> int:
    warnings.simplefilter("ignore")
    host, pid, _, where = this_process().split(":")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ends = [killed("same host and container", folder / "same.sqlite")]
        ends.append(killed("reused process id", folder / "reused.sqlite", (), f"{host}:{pid}:1:{where}"))
        able = subprocess.run([*OTHER_HOST, "true"], capture_output=True, check=False).returncode == 0
        if able:
            ends.append(killed("another pid namespace", folder / "container.sqlite", CONTAINER))
        else:
            print("no namespaces can be made here")
        if why := missing():
            print(why)
        elif able:
            url = stack.enter_context(postgres()).database()
            ends.append(killed("another host name and pid namespace, PostgreSQL", url, OTHER_HOST))
        ends.append(stopped(folder / "stopped.sqlite"))
    print(f"{sum(ends)} of {len(ends)} good")
    return int(not all(ends))


if __name__ == "__main__":
    sys.exit(main())
