"""A section of the report that a person's own file declares."""

from __future__ import annotations

from pathlib import Path

from toy import put_toy

from ragsmith.plugins import load_file
from ragsmith.reporting import load_report
from ragsmith.reporting.rendering import report_markdown, report_page
from ragsmith.reporting.sections import SECTION_WRITERS
from ragsmith.store.store import Store

SECTION = '''
from collections.abc import Iterator

from ragsmith.reporting.blocks import Block
from ragsmith.reporting.sections import section
from ragsmith.reporting.values import RunReport
from ragsmith.text import numbers
from ragsmith.text.table import Table, figures, texts


@section("The hardest questions", "Hardest")
def hardest(report: RunReport) -> Iterator[Block]:
    """The questions that the winner answers worst: read their answers before you trust a mean."""
    scored = [one for one in report.answered if one.pipeline == "winner" and one.state == "ok"]
    worst = sorted(scored, key=lambda one: (one.measures["fitness"], one.question))[:5]
    if worst:
        yield "The questions with the lowest fitness of the winner."
        rows = [(one.question, one.split, one.measures["fitness"]) for one in worst]
        columns = (*texts("Question", "Split"), *figures(numbers.plain, "F"))
        yield Table("The hardest questions for the winner", columns, rows)
'''


def test_a_section_of_one_s_own_is_on_the_page_and_in_markdown(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(SECTION, encoding="utf-8")
    load_file(file)
    try:
        with Store.open(tmp_path / "cache.sqlite") as store:
            put_toy(store)
            domain = load_report(store, "toy")
        page, text = report_page(domain), report_markdown(domain)
    finally:
        del SECTION_WRITERS["hardest"]
    assert '<section id="hardest">' in page
    assert "## The hardest questions" in text
    assert "The questions with the lowest fitness of the winner." in page
    assert "*The hardest questions for the winner*" in text
