"""Reports for programs: CSV that is safe to open in a spreadsheet, and JSON."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from typing import Any

from ragsmith.diagnosis.ablation import Ablation
from ragsmith.diagnosis.contrasts import Estimate
from ragsmith.diagnosis.pooling import Pooled
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.reporting.across import Across
from ragsmith.reporting.values import Answered, Domain, Row, Score
from ragsmith.reporting.verdicts import against
from ragsmith.reporting.wording import NAIVE

Cell = str | int | float | None

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet may run when a cell starts with it."""

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")


def ranking_csv(domain: Domain) -> str:
    """Every pipeline of the search that has a score, with all of them, then what it is compared to; search questions.

    ``<measure>_n`` counts the questions that have a value, where not every question has one. ``ranked_by`` is there
    where a pipeline failed on questions that count.
    """
    compared = {**domain.baselines, **({"random": domain.random} if domain.random else {})}
    rows = [(f"{place}", row) for place, row in enumerate(domain.ranking, 1)]
    rows += [(against(name, len(domain.random_curve)), row) for name, row in compared.items()]
    metrics = list(dict.fromkeys(name for _, row in rows for name in row.scores))
    counted = {name for _, row in rows for name, score in row.scores.items() if score.n is not None}
    usage = list(dict.fromkeys(name for _, row in rows for name in row.usage))
    families = list(dict.fromkeys(name for _, row in rows for name in row.genes))
    head = ["rank", "pipeline", "genomes", "questions", "attempted", "scored", "failed"]
    levels = any(row.ranked_by is not None for _, row in rows)
    head += ["ranked_by"] if levels else []
    for name in metrics:
        head += [name, f"{name}_low", f"{name}_high", *([f"{name}_n"] if name in counted else [])]
    head += [f"{name}_per_question" for name in usage]
    timed = any(row.latency_seconds is not None for _, row in rows)
    head += ["latency_seconds"] * timed + [f"gene_{name}" for name in families]

    def cells(title: str, row: Row) -> list[Cell]:
        found = _ranked(title, row, metrics, counted, usage, levels=levels)
        return found + [number_cell(row.latency_seconds)] * timed + [row.genes[name] for name in families]

    return csv_text(head, (cells(title, row) for title, row in rows))


def activity_csv(domain: Domain) -> str:
    """Every option: alone in naive RAG or in the pipeline ``against``, and among the proposals of the search."""
    head = ["family", "option", "against", "difference", "activity", "questions", "inert", "calls_added"]
    head += ["change", "change_low", "change_high", "retrieval_change", "retrieval_change_low", "retrieval_change_high"]
    head += ["fitness_with", "proposed_with", "fitness_without", "proposed_without"]
    rows = []
    for option in domain.options:
        probe, effect = option.probe, option.effect
        alone: Sequence[Cell] = [None] * 12
        if probe:
            said = (probe.against or NAIVE, probe.difference)
            changes = (*_bounds(probe.change), *_bounds(probe.retrieval))
            inert = str(probe.inert).lower()
            alone = [*said, number_cell(probe.activity), probe.compared, inert, number_cell(probe.calls), *changes]
        found = [number_cell(effect.with_mean), effect.with_n, number_cell(effect.without_mean), effect.without_n]
        rows.append([option.family, option.name, *alone, *found])
    return csv_text(head, rows)


def questions_csv(domain: Domain) -> str:
    """Winner and what it is compared to, question by question; the cause is that of the winner and of naive RAG."""
    asked = {one.question: {"winner": one.winner, "naive": one.naive} for one in domain.questions.asked}

    def cause(a: Answered) -> str:
        treated = asked.get(a.question, {}).get(a.pipeline)
        return treated.cause if treated else ""

    names = sorted({name for answered in domain.answered for name in answered.measures})
    rows = (
        [
            a.split,
            a.question,
            a.type,
            a.modality,
            a.pipeline,
            a.state,
            cause(a),
            *(number_cell(a.measures.get(name)) for name in names),
        ]
        for a in domain.answered
    )
    return csv_text(["split", "question", "type", "modality", "pipeline", "state", "cause", *names], rows)


def groups_csv(domain: Domain) -> str:
    """Winner and what it is compared to, by question type and by kind of document: scores, and costs per question."""
    listed = [("type", group) for group in domain.types] + [("modality", group) for group in domain.modalities]
    costs = list(dict.fromkeys(name for _, group in listed for name in group.costs))
    head = ["split", "by", "group", "pipeline", "questions"]
    for name in HEADLINE:
        head += [name, f"{name}_low", f"{name}_high"]
    rows = (
        [
            *(domain.groups_split, by, group.group, group.pipeline, group.n),
            *(cell for name in HEADLINE for cell in _bounds(group.scores.get(name))),
            *(number_cell(group.costs.get(name)) for name in costs),
        ]
        for by, group in listed
    )
    return csv_text([*head, *(f"{name}_per_question" for name in costs)], rows)


def parts_csv(found: Ablation) -> str:
    """What each part of the winner is worth, taken out (``out``), or against another option (``swap``).

    Of too few ``groups`` there is no interval: its ends are empty.
    """
    head = ["kind", "family", "option", "instead", "together", "questions", "groups"]
    for name in HEADLINE:
        head += [f"{name}_worth", f"{name}_low", f"{name}_high"]
    rows = (
        [
            *(one.kind, one.family, one.option, one.instead, "; ".join(one.together)),
            *((its.n, its.groups) if (its := one.worth.get("fitness")) else (None, None)),
            *(cell for name in HEADLINE for cell in _estimated(one.worth.get(name))),
            *(number_cell(one.calls), number_cell(one.seconds), one.why_not),
        ]
        for one in found.parts
    )
    return csv_text([*head, "calls_saved", "seconds_saved", "why_not"], rows)


def interactions_csv(found: Ablation) -> str:
    """What parts of the winner gain over naive RAG together, if that adds up, and beyond it."""
    names = ("expected", "observed", "beyond")
    head = ["parts", "questions", "groups", *(f"{name}{bound}" for name in names for bound in ("", "_low", "_high"))]
    rows = (
        [
            *("; ".join(one.options), one.beyond.n, one.beyond.groups),
            *(cell for name in names for cell in _estimated(getattr(one, name))),
        ]
        for one in found.interactions
    )
    return csv_text(head, rows)


def run_effects_csv(domain: Domain) -> str:
    """What options gained over the run, over naive RAG's option of their family, in pairs of its pipelines."""
    head = ["family", "option", "instead", "pairs", "questions", "groups", "gain", "low", "high", "error"]
    rows = (
        [
            *(one.family, one.option, one.instead, one.pairs, one.gain.n, one.gain.groups),
            *(*_estimated(one.gain), number_cell(one.gain.error)),
        ]
        for one in domain.effects
    )
    return csv_text(head, rows)


def tested_csv(found: Across) -> str:
    """The winners against their rivals on the test questions: a row for each data set, and one pooled."""
    head = ["against", "dataset", "questions", "groups", "difference", "low", "high", "error", *_POOLED]
    rows: list[Sequence[Cell]] = []
    for one in found.tested:
        for dataset, its in one.each.items():
            rows.append([one.name, dataset, its.n, its.groups, *_estimated(its), number_cell(its.error), *_NOT_POOLED])
        if one.pooled:
            rows.append([one.name, "pooled", None, None, *_pooled(one.pooled)])
    return csv_text(head, rows)


def effects_csv(found: Across) -> str:
    """What options gain over naive RAG's option: a row for each data set, and one pooled."""
    head = ["family", "option", "instead", "dataset", "pairs", "questions", "groups", "gain", "low", "high", "error"]
    rows: list[Sequence[Cell]] = []
    for one in found.effects:
        named = one.family, one.option, one.instead
        for dataset, its in one.each.items():
            counts = its.pairs, its.gain.n, its.gain.groups
            rows.append([*named, dataset, *counts, *_estimated(its.gain), number_cell(its.gain.error), *_NOT_POOLED])
        if one.pooled:
            rows.append([*named, "pooled", None, None, None, *_pooled(one.pooled)])
    return csv_text([*head, *_POOLED], rows)


def transfers_csv(found: Across) -> str:
    """Each winner on each data set: its fitness, and what the winner there is ahead by."""
    head = ["winner_of", "on", "part", "pipeline", "questions", "fitness", "calls", "own_fitness"]
    head += ["behind", "behind_low", "behind_high", "place", "of"]
    rows = (
        [
            *(one.source, one.target, one.part, one.label, one.questions),
            *(number_cell(one.fitness), number_cell(one.calls), number_cell(one.own), number_cell(one.regret)),
            *(_estimated(one.behind)[1:]),
            *(one.place, one.of),
        ]
        for one in found.transfers
    )
    return csv_text(head, rows)


def across_json(found: Across) -> dict[str, Any]:
    """What reports say together, as plain data."""
    plain: dict[str, Any] = _plain(asdict(found))
    return plain


def domain_json(domain: Domain) -> dict[str, Any]:
    """A report as plain data; numbers have at most six decimals."""
    plain: dict[str, Any] = _plain(asdict(domain))
    return plain


def defused(cell: Cell) -> str:
    """The text of a cell; text that a spreadsheet would take for a formula is quoted with an apostrophe."""
    if cell is None:
        return ""
    text = str(cell)
    return f"'{text}" if text.startswith(FORMULA) and not _NUMBER.fullmatch(text) else text


def csv_text(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([defused(cell) for cell in row] for row in rows)
    return out.getvalue()


def _ranked(
    title: str,
    row: Row,
    metrics: Sequence[str],
    counted: AbstractSet[str],
    usage: Sequence[str],
    *,
    levels: bool,
) -> list[Cell]:
    covered = row.coverage
    genomes = row.shared if title.isdigit() else None
    cells: list[Cell] = [
        title,
        row.label,
        genomes,
        covered.questions,
        covered.attempted,
        covered.scored,
        covered.failed,
        *([number_cell(row.level) if row.scores else None] if levels else []),
    ]
    for name in metrics:
        score = row.scores.get(name)
        cells += [*_bounds(score), *([score.n if score else None] if name in counted else [])]
    return cells + [number_cell(row.usage.get(name)) for name in usage]


def _bounds(score: Score | None) -> list[Cell]:
    return [None] * 3 if score is None else [number_cell(score.mean), number_cell(score.low), number_cell(score.high)]


_POOLED = ("between", "datasets", "agree", "unchanged")
_NOT_POOLED = (None,) * len(_POOLED)


def _pooled(found: Pooled) -> list[Cell]:
    bounds = [number_cell(found.mean), number_cell(found.low), number_cell(found.high), None]
    return [*bounds, number_cell(found.between), found.datasets, found.agree, found.unchanged]


def _estimated(found: Estimate | None) -> list[Cell]:
    return [None] * 3 if found is None else [number_cell(found.mean), number_cell(found.low), number_cell(found.high)]


def number_cell(value: float | None) -> float | None:
    """A number with the six decimals that files have."""
    return None if value is None else round(value, 6) + 0.0


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return number_cell(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
