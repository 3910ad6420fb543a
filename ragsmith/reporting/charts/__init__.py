"""Charts as inline SVG, styled by the CSS of the page and readable without scripts.

The SVG is written directly instead of by a plotting library, which would fix colours, fonts and widths when the page is
written (they depend on the reader's screen and colour scheme) and would be slow to import. Each mark has a tooltip
(``title``) with its value, and a table in the same section has all numbers.
"""

from markupsafe import Markup

from ragsmith.reporting.charts.bars import Columns, DotMark, DotPlot, ForestPlot, ForestRow, histogram
from ragsmith.reporting.charts.curves import Curve, ScatterPlot, ScatterPoint, Series, StepPlot
from ragsmith.reporting.charts.shapes import ReferenceLine

__all__ = [
    "Chart",
    "Columns",
    "Curve",
    "DotMark",
    "DotPlot",
    "ForestPlot",
    "ForestRow",
    "ReferenceLine",
    "ScatterPlot",
    "ScatterPoint",
    "Series",
    "StepPlot",
    "draw",
    "histogram",
    "legend_of",
]

Chart = ForestPlot | Columns | Curve | StepPlot | ScatterPlot | DotPlot


def draw(chart: Chart) -> Markup:
    """Return a chart as an SVG element, with its title as the label for screen readers."""
    height, parts = chart.drawing
    return Markup('<svg class="chart" role="img" width="100%" height="{:g}" aria-label="{}">\n{}\n</svg>').format(
        height, chart.title, Markup("\n").join(parts)
    )


def legend_of(chart: Chart) -> tuple[tuple[str, str], ...]:
    """Return the style class and name of each series; empty for charts without a legend."""
    return chart.keys if isinstance(chart, StepPlot | DotPlot) else ()
