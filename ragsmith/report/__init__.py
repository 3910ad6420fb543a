"""A report is what the store knows of a run, put so that it is plain what won, by how much, and if that is real.

Rows become frozen values (`domain`), the values become tables and sentences (`sections`, `wording`), and these are
shown as a page, as Markdown, as CSV and in the terminal; nothing is computed twice or said differently in two places.
"""

from __future__ import annotations

from ragsmith.report.domain import load_domain
from ragsmith.report.tables import domain_json
from ragsmith.report.values import Domain
from ragsmith.report.wording import summary_lines
from ragsmith.report.writing import Written, write_report

__all__ = ["Domain", "Written", "domain_json", "load_domain", "summary_lines", "write_report"]
