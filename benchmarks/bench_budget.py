"""Limits on calls, tokens and money: what the server has seen, over resumes and kills, is never more.

python benchmarks/bench_budget.py
"""

import math
import random
import tempfile
import time
from pathlib import Path

from served import again, asked, finish, outputs_of, rows_of, served_by, serving, start

LATENCY = 0.1
"""Seconds."""
TOKENS, PRICE = 15, (12 * 0.4 + 3 * 1.6) / 1_000_000
"""Of every reply of the server."""


def search(folder: Path, url: str, *limit: str, kill_at: float = math.inf) -> int | None:
    """Search with a limit; the exit code, None if it was killed, when so many calls were answered."""
    process = start(*served_by(url, "--max-evaluations", "6", *limit), folder=folder)
    while process.poll() is None:
        if asked(folder / "log").total() >= kill_at:
            process.kill()
            process.communicate()
            time.sleep(2 * LATENCY)  # until all that was sent is in the server's log
            return None
        time.sleep(0.02)
    error = process.communicate()[1]
    if process.returncode not in (0, 2, 130):  # done, refused, paused
        raise SystemExit(f"exit code {process.returncode}: {error}")
    return process.returncode


def steps(folder: Path, url: str, limits: list[str], flag: str, most: float, each: float, *more: str) -> bool:
    """Search under one limit after another, print what the server had seen then, and tell if it was ever too much."""
    kept = True
    for limit in limits:
        code = search(folder, url, flag, limit, *more)
        seen = asked(folder / "log")
        spent = seen.total() * each
        kept = kept and spent <= float(limit) <= most
        print(f"  {flag} {limit:<6} exit {code}: {seen.total():>4,} calls, {spent:,.6g} spent, {again(seen)} twice")
    return kept


def calls() -> None:
    print("calls, 32 in flight; the same limit three times over, then more, then enough")
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", LATENCY) as url:
        folder = Path(name)
        limits = ["100", "100", "100", "100", "300", "5000"]
        print(f"  never above: {steps(folder, url, limits, '--max-calls', 5000, 1)}")
        limited = rows_of(folder / "cache.sqlite"), outputs_of(folder / "reports")
        finish(start(*served_by(url, "--max-evaluations", "6", "--cache", "other.sqlite"), folder=folder))
        same = limited == (rows_of(folder / "other.sqlite"), outputs_of(folder / "reports"))
        print(f"  rows, winner and ranking as without a limit: {same}")


def killed(kills: int = 6, limit: int = 500) -> None:
    print(f"kill -9 at random moments, as many calls later as are drawn, --max-calls {limit}")
    draw = random.Random(5)
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", LATENCY) as url:
        folder = Path(name)
        for _ in range(kills):
            moment = asked(folder / "log").total() + draw.randint(1, 100)
            code = search(folder, url, "--max-calls", str(limit), kill_at=moment)
            seen = asked(folder / "log")
            how = f"killed at {moment:>3}" if code is None else f"exit {code}"
            print(f"  {how}: {seen.total():>4} calls, {again(seen)} twice", flush=True)
        code = search(folder, url, "--max-calls", str(limit))
        seen = asked(folder / "log")
        print(f"  at the end, exit {code}: {seen.total()} calls; never above: {seen.total() <= limit}")


def tokens_and_money() -> None:
    print("tokens")
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", LATENCY) as url:
        kept = steps(Path(name), url, ["8000", "8000", "12000"], "--max-tokens", 12000, TOKENS)
        print(f"  never above: {kept}")
    print("money")
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "log", LATENCY) as url:
        prices = Path(name) / "prices.yaml"
        prices.write_text("openai:tiny: {input: 0.40, output: 1.60}\n")
        limits = ["0.005", "0.005", "0.007"]
        kept = steps(Path(name), url, limits, "--max-cost", 0.007, PRICE, "--prices", str(prices))
        print(f"  never above: {kept}")
        before = asked(Path(name) / "log").total()
        code = search(Path(name), url, "--max-cost", "1")
        print(f"  without prices: exit {code}, {asked(Path(name) / 'log').total() - before} calls")


def main() -> None:
    calls()
    killed()
    tokens_and_money()


if __name__ == "__main__":
    main()
