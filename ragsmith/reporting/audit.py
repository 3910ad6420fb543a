"""Render audits of search spaces as HTML and as Markdown: effects of options, inert and equivalent ones."""

from collections.abc import Iterator, Sequence

from ragsmith.records.audit import Audit, OptionFinding, PairFinding
from ragsmith.reporting.blocks import Block, Collapsed, Plot, ReportSection
from ragsmith.reporting.charts import ForestPlot
from ragsmith.reporting.plots import MAX_OPTIONS, effect_row, forest_plot
from ragsmith.reporting.rendering import markdown_document, render
from ragsmith.reporting.sections import append_terms
from ragsmith.text import numbers
from ragsmith.text.table import Table, counts, figures, prose, texts

AUDIT_EXPLAINED = (
    "Every option was switched on alone in naive RAG, or together with a technique that it needs, on the same "
    "search questions. Activity is the share of questions for which the output of its stage changes. p is adjusted "
    "for the number of options; intervals are not, so that some exclude 0 by chance."
)


def audit_page(audits: Sequence[Audit]) -> str:
    """Render a page with a section per audit, and one on pairs of options over all of them."""
    title = f"Audit of {audits[0].space} on {', '.join(audit.dataset for audit in audits)}"
    return render("audit.html.j2", title=title, audits=audits, sections=_sections(audits))


def audit_markdown(audits: Sequence[Audit]) -> str:
    """Render ``audits`` as Markdown."""
    models = audits[0].models
    names = ", ".join(f"`{audit.dataset}`" for audit in audits)
    said = f"Language model `{models['language_model'].split(':')[0]}`, embedder `{models['embedder']}`."
    return markdown_document([f"# Audit of `{audits[0].space}` on {names}", said], _sections(audits))


def _sections(audits: Sequence[Audit]) -> list[ReportSection]:
    listed = [
        ReportSection(f"audit-{place}", f"On {audit.dataset}", audit.dataset, tuple(_audit_blocks(audit)))
        for place, audit in enumerate(audits)
    ]
    if len(audits) > 1:
        listed.append(
            ReportSection("pairs", "Pairs of options over all data sets", "Pairs", tuple(_pair_blocks(audits)))
        )
    return append_terms(listed)


def _audit_blocks(audit: Audit) -> Iterator[Block]:
    """Yield the results of an audit: effects of single options, inert options, and equivalent ones."""
    moved = sorted((one for one in audit.findings if _negative_gain(one)), key=_negative_gain)
    inert = [f"{one.family} {one.option}" for one in audit.findings if one.inert]
    same = [f"{one.family} {one.option} as {one.same_as}" for one in audit.findings if one.same_as]
    yield f"{len(audit.findings)} options on {audit.questions} search questions. {AUDIT_EXPLAINED}"
    if moved:
        gains = [one for one in moved if _negative_gain(one) < 0][:MAX_OPTIONS]
        losses = [one for one in moved if _negative_gain(one) > 0][-MAX_OPTIONS:]
        yield Plot(_chart(gains + losses))
    yield f"Inert here: {', '.join(inert)}." if inert else "No option is inert here."
    if same:
        yield f"The same results: {'; '.join(same)}."
    yield Collapsed(f"All {len(audit.findings)} options", (_options(audit),))
    if alike := [(pair.family, pair.one, pair.other, pair.output) for pair in audit.pairs if pair.alike]:
        columns = (*texts("Family", "Option", "Other option"), *figures(numbers.share, "Output of the stage differs"))
        yield Table("Pairs of options with the same passages and answers here", columns, alike)
    else:
        yield "All pairs of options of a family differ here in passages or answers."


def _pair_blocks(audits: Sequence[Audit]) -> Iterator[Block]:
    """Yield a table of the pairs of options that are equivalent on some data set.

    A cell has the share of questions with another output of the stage, and with other passages or another answer.
    """
    known = [{pair.named: pair for pair in audit.pairs} for audit in audits]
    names = list(dict.fromkeys(named for pairs in known for named in pairs))
    never = [named for named in names if all(named in pairs and pairs[named].alike for pairs in known)]
    some = [named for named in names if any(named in pairs and pairs[named].alike for pairs in known)]
    yield (
        f"Of {len(names)} pairs of options of one family, each switched on alone, {len(names) - len(some)} differ on "
        f"every data set in passages or answers, {len(some) - len(never)} on some, {len(never)} on none. The table "
        "has the pairs that do not differ on some data set, with the share of questions with another output of their "
        "stage / with other filtered passages or another answer:"
    )
    rows = [
        (*named, *(_shares_cell(pairs.get(named)) for pairs in known), "never" if named in never else "yes")
        for named in some
    ]
    columns = (*texts("Family", "Option", "Other option"), *counts(*(audit.dataset for audit in audits)))
    if rows:
        yield Table("Pairs that do not differ on some data set", (*columns, *texts("Differ")), rows)


def _shares_cell(pair: PairFinding | None) -> str:
    if pair is None or pair.output is None or pair.result is None:
        return ""
    return f"{numbers.share(pair.output)} / {numbers.share(pair.result)}"


def _chart(findings: Sequence[OptionFinding]) -> ForestPlot:
    rows = []
    for one in findings:
        assert one.fitness is not None
        mean, low, high = one.fitness.mean_difference, one.fitness.low, one.fitness.high
        said = f"{numbers.signed(mean)} {numbers.interval(low, high, sign=True)}"
        rows.append(effect_row(f"{one.family} {_option_name(one)}", mean, low, high, said))
    return forest_plot("Change in F of one option alone, with its 95 % interval", rows, ("worse", "better"))


def _options(audit: Audit) -> Table:
    ordered = sorted(audit.findings, key=lambda one: (one.fitness is None, _negative_gain(one)))
    rows = [
        (
            *(one.family, _option_name(one), one.difference, one.activity, one.calls, _change_cell(one), one.p),
            *(one.retrieval.mean_difference if one.retrieval else None, one.failed),
        )
        for one in ordered
    ]
    columns = (
        *(*texts("Family", "Option"), *prose("What it changes"), *figures(numbers.share, "Activity")),
        *(*figures(numbers.signed_tenths, "Calls added"), *counts("Change in F")),
        *(*figures(numbers.probability, "p, adjusted"), *figures(numbers.signed, "Change in R"), *counts("Failed")),
    )
    marks = ["inert" if one.inert else "" for one in ordered]
    return Table("Options, by what they add alone", columns, rows, marks)


def _change_cell(one: OptionFinding) -> str:
    found = one.fitness
    if found is None:
        return numbers.MISSING
    counted = f" (n {found.n})" if one.failed else ""
    return f"{numbers.signed(found.mean_difference)} {numbers.interval(found.low, found.high, sign=True)}{counted}"


def _option_name(one: OptionFinding) -> str:
    """Return the name of the option, marked if it reads the gold and is for analysis only."""
    return one.option + (" (reads the gold)" if one.analysis_only else "")


def _negative_gain(one: OptionFinding) -> float:
    return -one.fitness.mean_difference if one.fitness else 0.0
