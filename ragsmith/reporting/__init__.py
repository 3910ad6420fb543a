"""Reports of stored runs: the winner, its lead over the baselines, and whether the lead is significant.

`building` turns a stored run into the data model of `values`; `run_tables` and `wording` turn it into tables and
sentences, and `sections` orders these for the HTML page and for Markdown. CSV files and the terminal use the same
values. `overview` combines several reports.
"""

from ragsmith.reporting.building import load_report
from ragsmith.reporting.report_files import WrittenReports, report_json, write_report
from ragsmith.reporting.summary import summary_lines
from ragsmith.reporting.values import RunReport, folder_of

__all__ = ["RunReport", "WrittenReports", "folder_of", "load_report", "report_json", "summary_lines", "write_report"]
