"""A report is what the store knows of a run, put so that it is plain what won, by how much, and if that is real.

Rows become frozen values (`domain`), the values become tables and sentences (`tables`, `wording`), and `sections` says
once in which order these are shown, as an HTML page and as Markdown. CSV and the terminal take the same values.
"""

from __future__ import annotations

from ragsmith.reporting.domain import load_domain
from ragsmith.reporting.spreadsheet import domain_json
from ragsmith.reporting.summary import summary_lines
from ragsmith.reporting.values import Domain, folder_of
from ragsmith.reporting.writing import Written, write_report

__all__ = ["Domain", "Written", "domain_json", "folder_of", "load_domain", "summary_lines", "write_report"]
