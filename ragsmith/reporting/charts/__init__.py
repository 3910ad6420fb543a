"""Charts that need no script: SVG inside the page, coloured by the page's style, light, dark or printed.

They are written by hand, an element a mark. A plotting library would fix colours, letters and width when a page is
written, where here the page decides when it is looked at, and the largest of them are slow to import. A mark
shows its value when pointed at (``title``), and a table in the same section has the numbers.
"""

from __future__ import annotations

from markupsafe import Markup

from ragsmith.reporting.charts.bars import Columns, DotMark, Dots, ForestPlot, ForestRow, histogram
from ragsmith.reporting.charts.curves import Cloud, CloudPoint, Curve, Series, Steps
from ragsmith.reporting.charts.shapes import ReferenceLine

__all__ = [
    "Chart",
    "Cloud",
    "CloudPoint",
    "Columns",
    "Curve",
    "DotMark",
    "Dots",
    "ForestPlot",
    "ForestRow",
    "ReferenceLine",
    "Series",
    "Steps",
    "drawn",
    "histogram",
    "keys_of",
]

Chart = ForestPlot | Columns | Curve | Steps | Cloud | Dots


def drawn(chart: Chart) -> Markup:
    """A chart as an SVG element; its title is what is read out instead of it."""
    height, parts = chart.drawing
    return Markup('<svg class="chart" role="img" width="100%" height="{:g}" aria-label="{}">\n{}\n</svg>').format(
        height, chart.title, Markup("\n").join(parts)
    )


def keys_of(chart: Chart) -> tuple[tuple[str, str], ...]:
    """Class and name of each kind of mark, where there are several."""
    return chart.keys if isinstance(chart, Steps | Dots) else ()
