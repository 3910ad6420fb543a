"""Several searches in a few lines for a terminal: a line for each data set."""

from __future__ import annotations

from ragsmith.evaluation.statistics import Verdict
from ragsmith.reporting import numbers
from ragsmith.reporting.values import TITLES, Domain

RIVALS = ("naive", "bm25")
"""What has a column."""

HEAD = ("data set", "n", "F", *(f"winner − {TITLES[name]}" for name in RIVALS))

SHOWN = "F of the winner and differences on n test questions, with 95 % intervals; * is shown, by p of the verdict."


def row(domain: Domain) -> list[str]:
    """What the test questions of a data set say of its winner, under `HEAD`."""
    tests = {finalist.name: finalist.test for finalist in domain.finalists if not domain.folds}
    fitness = tests["winner"].scores.get("fitness") if "winner" in tests else None
    tested = max((one.difference.n for one in domain.comparisons if one.difference), default=None)
    counted = numbers.MISSING if tested is None else str(tested)
    score = numbers.plain(fitness.mean if fitness else None)
    return [domain.about.dataset, counted, score, *(_against(domain, name) for name in RIVALS)]


def _against(domain: Domain, name: str) -> str:
    same = domain.same.get(name, name)
    if same == "winner":
        return "is the winner"
    one = next((one for one in domain.comparisons if one.name in (name, same)), None)
    if one is None or one.difference is None:
        return numbers.MISSING
    mark = "*" if one.verdict in (Verdict.BETTER, Verdict.WORSE) else ""
    its = one.difference
    return f"{numbers.signed(its.mean_difference)}{mark} {numbers.interval(its.low, its.high, sign=True)}"
