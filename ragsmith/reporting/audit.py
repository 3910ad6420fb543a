"""An audit as a table in Markdown."""

from __future__ import annotations

from ragsmith.runs.audit import Audit, Finding

HEAD = ("option alone", "against naive RAG", "changes", "calls", "ΔF", "95 % interval", "p (Holm)", "ΔR")


def audit_markdown(audit: Audit) -> str:
    """Every option that was switched on alone, a row each, and which of them changed nothing."""
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
    ]
    return "\n".join(lines) + "\n"


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
