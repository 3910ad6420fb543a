"""Audits as tables in Markdown: what each option does by itself, and which options never differ."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.records.audit import Audit, Finding, Pair

HEAD = ("option alone", "against naive RAG", "changes", "calls", "ΔF", "95 % interval", "p (Holm)", "ΔR")


def audit_markdown(*audits: Audit) -> str:
    """A section for each audit, and, where there are several of one space, the pairs of options over all of them."""
    parts = [_audit(audit) for audit in audits]
    return "\n".join([*parts, *([_over_all(audits)] if len(audits) > 1 else [])])


def _audit(audit: Audit) -> str:
    """Every option that was switched on alone, a row each; which of them changed nothing, and which never differ."""
    model = audit.models["language_model"].split(":")[0]
    inert = [f"{f.family} `{f.option}`" for f in audit.findings if f.inert]
    lines = [
        f"# Audit of `{audit.space}` on `{audit.dataset}`",
        "",
        f"Every option switched on alone, on {audit.questions} search questions: the share of questions for which the "
        "output of its stage changes, model calls it adds per question, and what it adds to fitness (F) and retrieval "
        "(R), paired by question. p is the sign-flip test's for F, adjusted for all options that were tried: of so "
        "many, some intervals lie beside 0 by chance. "
        f"Language model `{model}`, embedder `{audit.models['embedder']}`.",
        "",
        _row(HEAD),
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
        *(_row(_cells(finding)) for finding in audit.findings),
        "",
        f"Inert here (no output changes): {', '.join(inert)}." if inert else "No option is inert here.",
        "",
        *_alike(audit.pairs),
    ]
    return "\n".join(lines) + "\n"


def _alike(pairs: Sequence[Pair]) -> list[str]:
    """The pairs that nothing tells apart here, and on how many questions the output of their stage differs yet."""
    if not any(pair.alike for pair in pairs):
        return ["Every two options of a family differ here in what is found or answered."]
    listed = [
        f"- {pair.family} `{pair.one}` and `{pair.other}`"
        + (f": the outputs differ on {pair.output:.0%}, where nothing behind them looks" if pair.output else "")
        for pair in pairs
        if pair.alike
    ]
    return ["Pairs that never differ here, in what passes the filter and what is answered:", "", *listed]


def _over_all(audits: Sequence[Audit]) -> str:
    """On how many questions of each data set two options differ; of those pairs that one of them does not tell apart.

    A cell has the share of questions for which the output of the stage differs, and that for which what is found or
    answered does.
    """
    shares = {audit.dataset: {pair.named: pair for pair in audit.pairs} for audit in audits}
    names = list(dict.fromkeys(named for pairs in shares.values() for named in pairs))
    never = [named for named in names if all(named in p and p[named].alike for p in shares.values())]
    some = [named for named in names if any(named in p and p[named].alike for p in shares.values())]
    head = ("family", "option", "other option", *shares, "differ")
    rows = [
        (
            named[0],
            f"`{named[1]}`",
            f"`{named[2]}`",
            *(_cell(pairs.get(named)) for pairs in shares.values()),
            "never" if named in never else "yes",
        )
        for named in some
    ]
    lines = [
        f"# Pairs of options of `{audits[0].space}` on {', '.join(f'`{name}`' for name in shares)}",
        "",
        f"Of {len(names)} pairs of options of one family, each switched on alone, {len(names) - len(some)} differ on "
        f"every data set in what is found or answered, {len(some) - len(never)} on some, {len(never)} on none. Those "
        "that some data set does not tell apart, with the share of its questions for which the output of their own "
        "stage differs / for which what passes the filter or the answer does:",
        "",
        *([_row(head), "|" + " --- |" * len(head), *map(_row, rows)] if rows else []),
    ]
    return "\n".join(lines) + "\n"


def _cell(pair: Pair | None) -> str:
    if pair is None or pair.output is None or pair.result is None:
        return ""
    return f"{pair.output:.0%} / {pair.result:.0%}"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(f: Finding) -> tuple[str, ...]:
    named = f"{f.family} `{f.option}`" + (" (reads the gold)" if f.analysis_only else "")
    changed = f.difference + (f"; same results as {f.same_as}" if f.same_as else "")
    done = "" if f.activity is None else f"{f.activity:.0%}", "" if f.calls is None else f"{f.calls:+.1f}"
    if f.fitness is None:
        return (named, changed, *done, f"{f.failed} failed", "", "", "")
    on = f" on {f.fitness.n}, {f.failed} failed" if f.failed else ""
    gained = f"{f.fitness.mean_difference:+.3f}", f"[{f.fitness.low:+.3f}, {f.fitness.high:+.3f}]{on}"
    p = "" if f.p is None else f"{f.p:.3f}"
    return (named, changed, *done, *gained, p, f"{f.retrieval.mean_difference:+.3f}" if f.retrieval else "")
