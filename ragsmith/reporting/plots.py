"""Figures as plain JSON for plotly.js; plotly's Python side takes seconds to import and would only write the same.

Colours are Okabe and Ito's, which most colour-blind people can tell apart; line style or pattern says the same again.
Text and grid colours are left to the page, which knows whether it is dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.reporting import numbers
from ragsmith.reporting.values import TITLES, Domain, GroupScores, Option

Figure = dict[str, Any]

COLOURS: Mapping[str, str] = {
    "winner": "#0072b2",
    "leader": "#7f7f7f",
    "estimate": "#b8b8b8",
    "naive": "#e69f00",
    "bm25": "#009e73",
    "recommended": "#d55e00",
    "single": "#56b4e9",
    "cheapest": "#f0e442",
    "random": "#cc79a7",
}
DASHES: Mapping[str, str] = {"winner": "solid", "naive": "dash", "bm25": "dot", "random": "solid"}
PATTERNS: Mapping[str, str] = {
    "winner": "",
    "leader": "-",
    "estimate": "|",
    "naive": "/",
    "bm25": "x",
    "recommended": "+",
    "single": "\\",
    "cheapest": "|",
    "random": ".",
}
GREY = "#8a8f98"

LONGEST_NAME = 30


def convergence(domain: Domain) -> Figure:
    """Best fitness against pipelines evaluated, with the baselines as lines."""
    traces = [_curve(f"search ({domain.about.record.strategy})", domain.search_curve, "winner", 3)]
    if domain.random_curve:
        traces.append(_curve("random search, same budget", domain.random_curve, "random", 2))
    last = max(len(domain.search_curve), len(domain.random_curve), 2)
    for name, row in domain.baselines.items():
        if "fitness" in row.scores:
            level = _round(row.scores["fitness"].mean)
            line = {"color": COLOURS[name], "dash": DASHES[name], "width": 2}
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": TITLES[name],
                    "x": [1, last],
                    "y": [level, level],
                    "line": line,
                }
            )
    layout = _layout("Pipelines evaluated", "Best fitness F so far", 400)
    return {"data": traces, "layout": layout}


def options(probed: Sequence[Option]) -> Figure:
    """Change in fitness of each option alone, with its interval; the first option on top."""
    repeated = [option.name for option in probed]
    names = [_name(option, repeated.count(option.name) > 1) for option in probed]
    traces = []
    for inert, title, symbol, colour in (
        (False, "changes something", "circle", COLOURS["winner"]),
        (True, "inert: changes nothing here", "circle-open", GREY),
    ):
        chosen = [(n, o) for n, o in zip(names, probed, strict=True) if o.probe and o.probe.inert == inert]
        if chosen:
            traces.append(_dots(chosen, title, symbol, colour))
    layout = _layout("Change in fitness F, alone", "", 130 + 26 * len(names))
    layout["yaxis"] |= {
        "categoryorder": "array",
        "categoryarray": names[::-1],
        "type": "category",
        "dtick": 1,
        "range": [-0.7, len(names) - 0.3],
    }
    layout["xaxis"] |= {"zeroline": True}
    return {"data": traces, "layout": layout}


def types(domain: Domain) -> Figure:
    """Bars by question type: F, R and G, as far as they are known, one below the other."""
    traces = []
    known = [metric for metric in HEADLINE if any(metric in scores.scores for scores in domain.types)]
    present = list(dict.fromkeys(scores.pipeline for scores in domain.types))
    for place, metric in enumerate(known, 1):
        for name in present:
            rows = [scores for scores in domain.types if scores.pipeline == name]
            traces.append(_bars(rows, name, metric, place))
    layout = _layout("Question type (number of questions)", "", 720)
    layout |= {"barmode": "group", "grid": {"rows": len(known), "columns": 1, "pattern": "coupled", "ygap": 0.12}}
    for place, metric in enumerate(known, 1):
        axis = "yaxis" if place == 1 else f"yaxis{place}"
        title = {"text": f"{metric.capitalize()} {HEADLINE[metric]}"}
        layout[axis] = {"title": title, "rangemode": "tozero", "automargin": True}
    return {"data": traces, "layout": layout}


def _curve(title: str, values: Sequence[float | None], colour: str, width: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": title,
        "x": list(range(1, len(values) + 1)),
        "y": [_round(value) for value in values],
        "line": {"color": COLOURS[colour], "dash": DASHES[colour], "width": width, "shape": "hv"},
    }


def _dots(chosen: Sequence[tuple[str, Option]], title: str, symbol: str, colour: str) -> dict[str, Any]:
    x, above, below, hover = [], [], [], []
    for _, option in chosen:
        assert option.probe is not None
        change = option.probe.change
        assert change is not None
        low, high = (change.mean if bound is None else bound for bound in (change.low, change.high))
        x.append(_round(change.mean))
        above.append(_round(high - change.mean))
        below.append(_round(change.mean - low))
        hover.append(f"{option.family}<br>activity {numbers.share(option.probe.activity)}")
    return {
        "type": "scatter",
        "mode": "markers",
        "name": title,
        "x": x,
        "y": [name for name, _ in chosen],
        "text": hover,
        "marker": {"symbol": symbol, "color": colour, "size": 9, "line": {"color": colour, "width": 2}},
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": above,
            "arrayminus": below,
            "color": colour,
            "thickness": 1.5,
        },
    }


def _bars(rows: Sequence[GroupScores], name: str, metric: str, place: int) -> dict[str, Any]:
    rows = [row for row in rows if metric in row.scores]  # questions without evidence have no R
    scores = [row.scores[metric] for row in rows]
    bounds = [(s.mean if s.low is None else s.low, s.mean if s.high is None else s.high) for s in scores]
    return {
        "type": "bar",
        "name": TITLES[name],
        "legendgroup": name,
        "showlegend": place == 1,
        "x": [f"{row.group or '(none)'} ({row.n})" for row in rows],
        "y": [_round(score.mean) for score in scores],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [_round(high - s.mean) for s, (_, high) in zip(scores, bounds, strict=True)],
            "arrayminus": [_round(s.mean - low) for s, (low, _) in zip(scores, bounds, strict=True)],
            "color": GREY,
            "thickness": 1.2,
            "width": 3,
        },
        "marker": {"color": COLOURS[name], "pattern": {"shape": PATTERNS[name], "solidity": 0.25}},
        "xaxis": "x",
        "yaxis": "y" if place == 1 else f"y{place}",
    }


def _layout(x: str, y: str, height: int) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 12, "r": 12, "t": 12, "b": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        "xaxis": {"title": {"text": x}, "automargin": True},
        "yaxis": {"title": {"text": y}, "automargin": True},
        "hovermode": "closest",
    }


def _name(option: Option, repeated: bool) -> str:
    """A label that is unique: some names are options of two families."""
    name = option.name if len(option.name) <= LONGEST_NAME else f"{option.name[: LONGEST_NAME - 1]}…"
    return f"{name} ({option.family})" if repeated or name != option.name else name


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 5) + 0.0
