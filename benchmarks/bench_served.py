"""A default search on `law` against a local server that takes 200 ms a call, 32 in flight: wall time, calls, overhead.

    python benchmarks/bench_served.py [LATENCY [SPACE]]

The server is `tests/support/fault_server.py` in a process of its own. The bound is
1.15 x (distinct calls x latency / 32) plus the wall time of the same search on the embedded models, run first.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from commands import ragsmith

LATENCY = float(sys.argv[1]) if len(sys.argv) > 1 else 0.2
SPACE = sys.argv[2] if len(sys.argv) > 2 else "default"
IN_FLIGHT = 32
SERVER = Path(__file__).resolve().parent.parent / "tests" / "support" / "fault_server.py"
SEARCH = ("search", "--dataset", "law", "--space", SPACE, "--json")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        embedded = ragsmith(*SEARCH, folder=folder)
        assert embedded.code == 0, embedded.err
        print(f"embedded       {embedded.wall:6.1f} s wall, {embedded.cpu:6.1f} s CPU", flush=True)
        log = folder / "requests.jsonl"
        arguments = ["--port", "0", "--latency", str(LATENCY), "--log", str(log)]
        with subprocess.Popen([sys.executable, SERVER, *arguments], stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = server.stdout.readline().strip()
                measure(folder, url, log, embedded.wall)
            finally:
                server.terminate()


def measure(folder: Path, url: str, log: Path, embedded: float) -> None:
    command = (*SEARCH, "--llm", "openai:tiny", "--base-url", url, "--cache", "served.sqlite")
    served = ragsmith(*command, folder=folder)
    assert served.code == 0, served.err
    digests = requests(log)
    distinct, made = len(digests), sum(digests.values())
    least = distinct * LATENCY / IN_FLIGHT
    print(f"served         {served.wall:6.1f} s wall, {served.cpu:6.1f} s CPU of the client")
    print(f"calls          {made:,} made, {distinct:,} distinct: ratio {made / distinct:.4f}")
    print(f"waiting alone  {least:6.1f} s: {distinct:,} x {LATENCY:g} s / {IN_FLIGHT}")
    print(
        f"bound          {1.15 * least + embedded:6.1f} s: 1.15 x waiting + embedded; kept: "
        f"{served.wall <= 1.15 * least + embedded}"
    )
    print(f"overhead       {served.wall / least - 1:6.1%} over waiting alone")
    again = ragsmith(*command, folder=folder)
    assert again.code == 0, again.err
    print(f"again          {again.wall:6.1f} s wall, {sum(requests(log).values()) - made} calls")
    same = json.loads(served.out)["summary"] == json.loads(again.out)["summary"]
    print(f"same tables    {same}")


def requests(log: Path) -> Counter[str]:
    time.sleep(0.5)  # the server writes a line when it has answered
    return Counter(json.loads(line)["digest"] for line in log.read_text(encoding="utf-8").splitlines() if line)


if __name__ == "__main__":
    main()
