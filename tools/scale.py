"""What larger corpora do: docs/scale.svg, and the tables within docs/scale.md.

Both are made of docs/scale.json, which `benchmarks/bench_distractors.py` writes, and of docs/growth.json, which
`benchmarks/bench_growth.py` writes; `python tools/documentation.py` makes them with the other generated pages, and
checks with ``--check`` that they are fresh. Whatever is said of sizes beyond the measured ones is a power law: a
straight line on two logarithmic axes, by least squares, with what Student's t says of its slope and of its height.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import stdtrit

from ragsmith.reporting.charts.shapes import YScale, diamond, dot, line_segment, spread_out, text, ticks

Kept = dict[str, Any]

BEYOND = (10**6, 10**8, 10**10)
"""Chunks that is spoken of."""
KINDS = {"winner": "one", "naive RAG": "two", "BM25": "three", "recommended": "four"}
"""Pipelines that have a colour, a form and a dash of their own."""
CALLED = {"winner": "winner of `law`", "recommended": "recommended"}
TOP = 5
ROOM = 4 * 1024
"""MiB of a process that holds a part of a corpus."""
START = 3_000
"""Chunks below which a search is mostly its start: what it costs there says nothing of larger corpora."""
TEMPLATES = Path(__file__).resolve().parents[1] / "ragsmith" / "reporting" / "templates"


# --- the fit ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerLaw:
    """``y = exp(intercept) * x ** exponent`` through points, by least squares of the logarithms.

    ``error`` is the standard error of the exponent, ``residual`` the standard deviation of the points from the line,
    and ``worst`` the largest factor by which one is off it.
    """

    exponent: float
    intercept: float
    error: float
    residual: float
    worst: float
    count: int
    middle: float
    spread: float

    @classmethod
    def through(cls, points: Sequence[tuple[float, float]]) -> PowerLaw:
        """The fit of at least three points at two sizes or more, all positive.

        Raises:
            ValueError: there are fewer, or one is not positive.
        """
        if len(points) < 3 or len({x for x, _ in points}) < 2 or min(min(point) for point in points) <= 0:
            raise ValueError("a power law needs three positive points, not all at one size")
        x, y = (np.log(np.array(values, dtype=np.float64)) for values in zip(*points, strict=True))
        middle = float(x.mean())
        spread = float(((x - middle) ** 2).sum())
        exponent = float(((x - middle) * (y - y.mean())).sum() / spread)
        intercept = float(y.mean() - exponent * middle)
        rest = y - intercept - exponent * x
        residual = math.sqrt(float((rest**2).sum()) / (len(points) - 2))
        worst = math.exp(float(np.abs(rest).max()))
        return cls(exponent, intercept, residual / math.sqrt(spread), residual, worst, len(points), middle, spread)

    @property
    def interval(self) -> tuple[float, float]:
        """What holds the exponent with 95 % probability, if the law holds."""
        reach = self._t * self.error
        return self.exponent - reach, self.exponent + reach

    def at(self, x: float) -> tuple[float, float, float]:
        """The value at ``x``, and what a point there lies between with 95 % probability, if the law holds."""
        away = math.log(x) - self.middle
        value = self.intercept + self.exponent * math.log(x)
        reach = self._t * self.residual * math.sqrt(1 + 1 / self.count + away**2 / self.spread)
        return tuple(math.exp(min(value + side * reach, 700)) for side in (0, -1, 1))  # type: ignore[return-value]

    @property
    def _t(self) -> float:
        return float(stdtrit(self.count - 2, 0.975))


# --- tables -----------------------------------------------------------------------------------------------------------


def growth_table(kept: Kept) -> list[list[str]]:
    """A row for each size of the corpus: who is best there, and what choosing there costs on the largest."""
    rows = [["corpus", "chunks", "best on it", "tau-b", "of the top 5", "regret, R", "on test questions", "CPU s"]]
    for one in kept["growth"]:
        said = f"{one['size']} times" if one["size"] > 1 else "law alone"
        rows.append([said, f"{one['chunks']:,}", _named(kept, one["chosen"]), *_differences(one), _seconds(one)])
    return rows


def samples_table(kept: Kept) -> list[list[str]]:
    """A row for each way to sample and number of distractors: means, and between what the samples lie."""
    rows = [["sample", "k", "chunks", "samples", "tau-b", "of the top 5", "regret, R", "on test questions", "CPU s"]]
    groups = dict.fromkeys((one["how"], one["k"]) for one in kept["samples"])
    for how, k in sorted(groups, key=lambda group: (group[0] != "random", group[1])):
        found = [one for one in kept["samples"] if (one["how"], one["k"]) == (how, k)]
        each = [_spread([one[name] for one in found], n) for name, n in _SHOWN]
        chunks, seconds = (fmean(one[name] for one in found) for name in ("chunks", "seconds"))
        rows.append([how, f"{k}", f"{chunks:,.0f}", f"{len(found)}", *each, f"{seconds:.0f}"])
    other = kept["resampled"]
    said = [f"{other['tau']:.2f}", "", f"{other['regret']:.3f} (a tenth over {other['most']:.3f})", "", ""]
    rows.append(["whole, other questions", "", f"{kept['growth'][-1]['chunks']:,}", "2,000", *said])
    return rows


_SHOWN = (("tau", 2), ("top5", 1), ("regret", 3), ("test", 3))


def _differences(one: Kept) -> list[str]:
    return [_number(one[name], n) for name, n in _SHOWN]


def _spread(values: Sequence[float], places: int) -> str:
    low, high = _number(min(values), places), _number(max(values), places)
    return low if low == high else f"{_number(fmean(values), places)} ({low} to {high})"


def survivors_table(kept: Kept) -> list[list[str]]:
    """A row for each pipeline that has a name of its own or is among the first somewhere: R and rank at each size."""
    growth = kept["growth"]
    shown = [n for n, one in enumerate(kept["pipelines"]) if one["name"] in KINDS]
    shown += [n for one in growth for n in _order(one["search"])[:TOP]]
    rows = [["pipeline", *(f"R at {one['chunks']:,}" for one in growth), "on test questions"]]
    for number in sorted(dict.fromkeys(shown), key=_order(growth[-1]["search"]).index):
        cells = [f"{one['search'][number]:.3f} ({_order(one['search']).index(number) + 1}.)" for one in growth]
        rows.append([_named(kept, number), *cells, f"{growth[-1]['tests'][number]:.3f}"])
    return rows


def decline_table(kept: Kept) -> list[list[str]]:
    """A row for each of the same pipelines: the exponent of R, and what it would be beyond."""
    rows = [["R of", "exponent", "off by at most", *(f"at 10^{round(math.log10(n))}" for n in BEYOND)]]
    best = _order(kept["growth"][-1]["search"])
    named = [n for n in best if kept["pipelines"][n]["name"] in KINDS]
    for number in dict.fromkeys([*best[:TOP], *named]):
        law = PowerLaw.through(recall_points(kept, number))
        rows.append([_named(kept, number), _exponent(law), f"{law.worst - 1:.0%}", *(_range(law, n) for n in BEYOND)])
    return rows


def recall_points(kept: Kept, number: int) -> list[tuple[float, float]]:
    """Chunks, and R of a pipeline on the search questions: on every size of the corpus, and on every random sample."""
    found = [*kept["growth"], *(one for one in kept["samples"] if one["how"] == "random")]
    return [(one["chunks"], one["search"][number]) for one in found]


def costs_table(figures: Sequence[Kept], name: str, unit: Callable[[float], str]) -> list[list[str]]:
    """A row for each retriever: what was measured, the exponent, and what it would be beyond."""
    found = _measured(figures, name)
    sizes = sorted({size for points in found.values() for size, _ in points})
    rows = [["", *(f"{size:,}" for size in sizes), "exponent", *(f"10^{round(math.log10(n))}" for n in BEYOND)]]
    for part, points in found.items():
        held = dict(points)
        measured = [unit(held[size]) if size in held else "" for size in sizes]
        law = PowerLaw.through(points) if len(points) > 2 else None
        beyond = ["measured" if n in held else unit(law.at(n)[0]) if law else "" for n in BEYOND]
        rows.append([part, *measured, _exponent(law) if law else "too few figures", *beyond])
    return rows


def search_table(kept: Kept) -> list[list[str]]:
    """What the search costs by the size of the corpus, as `costs_table` has it."""
    found = [*kept["growth"], *(one for one in kept["samples"] if one["how"] == "random")]
    points = [(one["chunks"], one["seconds"]) for one in found if one["chunks"] >= START]
    law = PowerLaw.through(points)
    sizes = [one["chunks"] for one in kept["growth"]]
    rows = [["", *(f"{size:,}" for size in sizes), "exponent", *(f"10^{round(math.log10(n))}" for n in BEYOND)]]
    measured = [duration(one["seconds"]) for one in kept["growth"]]
    name = (
        f"{len(kept['pipelines'])} pipelines, {kept['resampled']['questions'] + kept['resampled']['tested']} questions"
    )
    return [*rows, [name, *measured, _exponent(law), *(duration(law.at(n)[0]) for n in BEYOND)]]


def shards_table(figures: Sequence[Kept]) -> list[list[str]]:
    """A row for each retriever: its memory, and how many processes of `ROOM` hold a corpus at most.

    The whole process counts as if all of it were chunks: Python, models and corpus are in it.
    """
    rows = [["", "chunks", "MiB at most", "bytes a chunk, at most", "chunks in 4 GiB"]]
    rows[0] += [f"processes for 10^{round(math.log10(n))}" for n in BEYOND]
    for part, points in _measured(figures, "MiB").items():
        size, much = max(points)
        held = size * ROOM / much
        cells = [f"{size:,}", f"{much:,.0f}", f"{much * 2**20 / size:,.0f}", f"{held / 1e6:.1f} million"]
        rows.append([part, *cells, *(f"{math.ceil(n / held):,}" for n in BEYOND)])
    return rows


def _measured(figures: Sequence[Kept], name: str) -> dict[str, list[tuple[int, float]]]:
    """Sizes and values of each retriever that was built at three sizes or more, where the values are not nothing."""
    of_chunks = [one for one in figures if one["of"] == "chunks"]
    built = [one["part"] for one in of_chunks if one["measured"].get("seconds")]
    found: dict[str, list[tuple[int, float]]] = {}
    for one in of_chunks:
        if built.count(one["part"]) > 2 and one["measured"].get(name):
            found.setdefault(one["part"], []).append((one["size"], one["measured"][name]))
    return found


def _exponent(law: PowerLaw) -> str:
    low, high = law.interval
    return f"{_number(law.exponent, 2)} [{_number(low, 2)}, {_number(high, 2)}]"


def _range(law: PowerLaw, size: float) -> str:
    value, low, high = law.at(size)
    return f"{value:.2f} [{low:.2f}, {min(high, 1.0):.2f}]"


def duration(seconds: float) -> str:
    """CPU time in a unit that suits it."""
    for most, unit, name in ((120, 1, "s"), (7_200, 60, "min"), (172_800, 3_600, "h"), (63_072_000, 86_400, "d")):
        if seconds < most:
            return f"{_digits(seconds / unit)} {name}"
    return f"{_digits(seconds / 31_536_000)} years"


def wait(milliseconds: float) -> str:
    """The time of an answer."""
    return f"{_digits(milliseconds)} ms" if milliseconds < 1_000 else duration(milliseconds / 1_000)


def _digits(value: float) -> str:
    """Two digits that count."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _number(value: float, places: int) -> str:
    return f"{value:.{places}f}".replace("-", "−") if round(value, places) else f"{0:.{places}f}"


def _seconds(one: Kept) -> str:
    return f"{one['seconds']:.0f}"


def _order(scores: Sequence[float]) -> list[int]:
    """Pipelines, the best first; of equal ones the earlier."""
    return sorted(range(len(scores)), key=lambda number: (-scores[number], number))


def _named(kept: Kept, number: int) -> str:
    one = kept["pipelines"][number]
    return f"{CALLED.get(one['name'], one['name'])}: `{one['label']}`" if one["name"] in KINDS else f"`{one['label']}`"


# --- the picture ------------------------------------------------------------------------------------------------------

WIDTH = 800
LEFT, RIGHT = 7.0, 70.0
"""Percent of the width between which is drawn; right of it are names."""
UPPER, LOWER = (46, 300), (450, 170)
"""Top and height of the two plots, in pixels."""
HEIGHT = 676
STYLE = """
svg { font-family: system-ui, sans-serif; background: var(--ground); }
.chart .paper { fill: var(--ground); }
.chart line.other { stroke: var(--faint); stroke-width: 1; }
.chart .curve.two, .chart .spread.two { stroke: var(--two); stroke-dasharray: 7 4; }
.chart .curve.three { stroke: var(--three); stroke-dasharray: 2 3; }
.chart .curve.four { stroke: var(--four); stroke-dasharray: 10 3 2 3; }
.chart .spread { stroke: var(--one); stroke-width: 2; }
.chart text.head { font-weight: 600; font-size: 14px; }
"""


@dataclass(frozen=True)
class Logarithmic:
    """Sizes from ``least`` to ``most`` across the plot."""

    least: float
    most: float

    def __call__(self, value: float) -> float:
        """Percent of the width."""
        share = math.log(value / self.least) / math.log(self.most / self.least)
        return LEFT + (RIGHT - LEFT) * share


def drawing(kept: Kept) -> str:
    """The picture as SVG that stands alone: R by the size of the corpus, and regret by the size of a sample."""
    style = "\n".join((TEMPLATES / name).read_text(encoding="utf-8").strip() for name in ("colours.css", "chart.css"))
    first, last = kept["growth"][0], kept["growth"][-1]
    leader = _named(kept, first["chosen"]), _named(kept, last["chosen"])
    said = (
        f"Upper: R of {len(kept['pipelines'])} pipelines on the search questions of law, from {first['chunks']:,} to "
        f"{last['chunks']:,} chunks, a line each. Best on the first: {leader[0]}, R {max(first['search']):.3f}; best "
        f"on the last: {leader[1]}, R {max(last['search']):.3f}. Lower: what choosing on a sample loses on the whole, "
        "by distractors for each chunk of gold: random samples and the nearest documents."
    ).replace("`", "")
    return "\n".join(
        [
            Markup(
                '<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-labelledby="title desc" '
                'width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
            ).format(w=WIDTH, h=HEIGHT),
            '<title id="title">Pipelines of law as the corpus grows, and as it is sampled</title>',
            Markup('<desc id="desc">{}</desc>').format(said),
            f"<style>\n{style}\n{STYLE.strip()}\n</style>",
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
            *_growth(kept),
            *_samples(kept),
            "</svg>\n",
        ]
    )


def _growth(kept: Kept) -> Iterator[Markup]:
    growth = kept["growth"]
    top, tall = UPPER
    values = [value for one in growth for value in one["search"]]
    low = math.floor(10 * min(values)) / 10
    x, y = Logarithmic(growth[0]["chunks"], growth[-1]["chunks"]), YScale(low, max(values) + 0.02, top, tall)
    yield text(LEFT, 18, "R on the search questions, by chunks of the corpus", "head", "start")
    yield text(LEFT, 36, f"{len(kept['pipelines'])} pipelines, a line each; logarithmic to the right", "soft", "start")
    yield from _grid(y, low, max(values))
    for one in growth:
        yield line_segment(x(one["chunks"]), top + tall, x(one["chunks"]), top + tall + 4, "axis")
        yield text(x(one["chunks"]), top + tall + 18, f"{one['chunks']:,}", "soft", "middle")
    yield text((LEFT + RIGHT) / 2, top + tall + 36, "chunks", "soft", "middle")
    named = [n for n, one in enumerate(kept["pipelines"]) if one["name"] in KINDS]
    best = growth[-1]["chosen"]
    for number in range(len(kept["pipelines"])):
        if number not in named:
            yield from _line(kept, number, x, y, "curve" if number == best else "other")
    for number in named:
        yield from _line(kept, number, x, y, f"curve {KINDS[kept['pipelines'][number]['name']]}")
    said = [*named, *([best] if best not in named else [])]
    ends = [y(growth[-1]["search"][number]) for number in said]
    for number, end, height in zip(said, ends, spread_out([end + 4 for end in ends], 15), strict=True):
        one = kept["pipelines"][number]
        name = CALLED.get(one["name"], one["name"]).replace("`", "") if number in named else "best on the largest"
        if number == best and number in named:
            name += " (best)"
        yield line_segment(RIGHT + 0.8, end, RIGHT + 1.8, height - 4, "leader")
        yield text(RIGHT + 2.2, height, name, "name", "start")


def _line(kept: Kept, number: int, x: Logarithmic, y: YScale, css: str) -> Iterator[Markup]:
    one = kept["pipelines"][number]
    points = [(x(found["chunks"]), y(found["search"][number]), found) for found in kept["growth"]]
    for (a, b, _), (c, d, _) in pairwise(points):
        yield line_segment(a, b, c, d, css)
    if css != "other":
        kind = KINDS.get(one["name"], "")
        for a, b, found in points:
            said = f"{one['label']}: {found['search'][number]:.3f} at {found['chunks']:,} chunks"
            yield (diamond if kind in {"two", "four"} else dot)(a, b, f"dot {kind}", said)


def _samples(kept: Kept) -> Iterator[Markup]:
    top, tall = LOWER
    found = kept["samples"]
    most = max([one["regret"] for one in found] + [kept["growth"][0]["regret"], kept["resampled"]["regret"]])
    ks = sorted({one["k"] for one in found})
    x, y = Logarithmic(ks[0] / 1.3, ks[-1] * 1.3), YScale(0, max(most, 0.01) * 1.1, top, tall)
    yield text(LEFT, top - 28, "What choosing on a sample loses on the whole corpus, R", "head", "start")
    yield text(LEFT, top - 10, "mean, and from the least to the most of several samples", "soft", "start")
    yield from _grid(y, 0, max(most, 0.01))
    level = y(kept["resampled"]["regret"])
    yield line_segment(LEFT, level, RIGHT, level, "limit")
    labels: list[tuple[float, str]] = [(level, "other questions, whole corpus")]
    for how, css, aside in (("random", "one", -0.5), ("nearest", "two", 0.5)):
        points = []
        for k in ks:
            values = [one["regret"] for one in found if (one["how"], one["k"]) == (how, k)]
            if values:
                points.append((x(k) + aside, y(fmean(values))))
                yield line_segment(x(k) + aside, y(min(values)), x(k) + aside, y(max(values)), f"spread {css}")
                said = f"{how}, {k}: {fmean(values):.4f} ({min(values):.4f} to {max(values):.4f})"
                yield (diamond if css == "two" else dot)(*points[-1], f"dot {css}", said)
        for (a, b), (c, d) in pairwise(points):
            yield line_segment(a, b, c, d, f"curve {css}")
        if points:
            labels.append((points[-1][1], {"random": "random documents", "nearest": "nearest documents"}[how]))
    for (end, name), height in zip(labels, spread_out([end + 4 for end, _ in labels], 15), strict=True):
        yield line_segment(RIGHT + 0.4, end, RIGHT + 1.8, height - 4, "leader")
        yield text(RIGHT + 2.2, height, name, "name", "start")
    for k in ks:
        yield line_segment(x(k), top + tall, x(k), top + tall + 4, "axis")
        yield text(x(k), top + tall + 18, f"{k}", "soft", "middle")
    yield text((LEFT + RIGHT) / 2, top + tall + 36, "distractors for each chunk of gold", "soft", "middle")


def _grid(y: YScale, least: float, most: float) -> Iterator[Markup]:
    for value in ticks(least, most, 5):
        yield line_segment(LEFT, y(value), RIGHT, y(value), "guide")
        yield text(LEFT - 0.8, y(value) + 4, f"{value:.3g}", "soft", "end")
    bottom = y(least)
    yield line_segment(LEFT, bottom, RIGHT, bottom, "axis")


# --- the page ---------------------------------------------------------------------------------------------------------


def filled(page: str, kept: Kept | None, figures: Sequence[Kept]) -> str:
    """A page with each table behind its mark; of what is not ``kept`` yet, that it is not measured."""
    shown = {"build": costs_table(figures, "seconds", duration), "query": costs_table(figures, "ms", wait)}
    shown["shards"] = shards_table(figures)
    blocks = {name: _table(rows) for name, rows in shown.items()}
    blocks |= {name: _table(made(kept)) if kept else NOT_YET for name, made in MEASURED.items()}
    if kept:
        said = f"R of {len(kept['pipelines'])} pipelines by chunks, and regret by the size of a sample"
        blocks["growth"] = f"![{said}](scale.svg)\n\n{blocks['growth']}"
    for name, block in blocks.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marked.sub(lambda match, block=block: f"{match[1]}\n{block}\n\n{match[2]}", page)
    return page


MEASURED: dict[str, Callable[[Kept], list[list[str]]]] = {
    "growth": growth_table,
    "survivors": survivors_table,
    "decline": decline_table,
    "samples": samples_table,
    "search": search_table,
}
NOT_YET = "Not measured yet."


def _table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    head, *rest = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def pages(docs: Path) -> dict[Path, str]:
    """The page with its tables and, of what was measured, the picture, as they should be."""
    file, page = docs / "scale.json", docs / "scale.md"
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    figures = json.loads((docs / "growth.json").read_text(encoding="utf-8"))
    drawn = {docs / "scale.svg": drawing(kept)} if kept else {}
    return {page: filled(page.read_text(encoding="utf-8"), kept, figures), **drawn}
