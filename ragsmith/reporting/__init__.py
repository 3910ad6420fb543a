"""A report is what the store knows of a run, put so that it is plain what won, by how much, and if that is real.

A stored run becomes frozen values (`building`, `values`), the values become tables and sentences (`run_tables`,
`wording`), and `sections` says once in which order these are shown, as an HTML page and as Markdown. CSV and the
terminal take the same values. `overview` does the same for several reports together.
"""

from __future__ import annotations

from ragsmith.reporting.building import load_report
from ragsmith.reporting.report_files import WrittenReports, report_json, write_report
from ragsmith.reporting.summary import summary_lines
from ragsmith.reporting.values import RunReport, folder_of

__all__ = ["RunReport", "WrittenReports", "folder_of", "load_report", "report_json", "summary_lines", "write_report"]
