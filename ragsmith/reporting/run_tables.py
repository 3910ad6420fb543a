"""The tables about a run itself: how it was asked for, its steps, models, work and failures."""

from __future__ import annotations

from ragsmith.records.record import CROSSFIT, RunRecord
from ragsmith.reporting import numbers
from ragsmith.reporting.tables import Table, columns
from ragsmith.reporting.values import Domain
from ragsmith.reporting.wording import besides_in_words, identifier, questions_in_words


def history(domain: Domain) -> Table:
    """The steps of the strategy."""
    rows = tuple(
        (
            step.by,
            f"{step.number}",
            f"{step.evaluations}",
            numbers.plain(step.best),
            numbers.plain(step.mean),
            numbers.share(step.diversity),
            numbers.plain(step.mutation_rate),
            f"{step.stagnant}",
        )
        for step in domain.about.record.history
    )
    figures = ["Step", "New pipelines", "Best F", "Mean F", "Distinct", "Mutation rate", "Steps without gain"]
    return Table("Steps of the search", columns(["By"], figures), rows)


def failures(domain: Domain) -> Table:
    """What failed, by stage, class and exception."""
    rows = tuple((f.stage, f.kind, f.exception, f.example, f"{f.count:,}") for f in domain.failures)
    shown = columns(["Stage", "Class", "Exception", "First message"], ["Count"])
    return Table("Failed answers, over all pipelines", shown, rows)


def aside(domain: Domain) -> Table:
    """The questions that failed for every pipeline."""
    rows = tuple((one.question, one.split, one.why.stage, one.why.kind, one.why.error) for one in domain.aside)
    shown = columns(["Question", "Split", "Stage", "Class", "First message"])
    return Table("Questions set aside: every pipeline failed on them", shown, rows)


def calls(domain: Domain) -> Table:
    """Model calls of the last command."""
    rows = tuple(
        (
            kind.replace("_", " "),
            *(f"{n:,}" for n in (counts.asked, counts.distinct, counts.stored, counts.made, counts.cut)),
        )
        for kind, counts in sorted(domain.about.record.account.calls.items())
    )
    heads = ["Asked for", "Distinct", "From the cache", "Made", "Prompts cut"]
    return Table("Model calls", columns(["Kind"], heads), rows)


def models(domain: Domain) -> Table:
    """Which models worked."""
    rows = tuple((model.role.replace("_", " "), model.description, identifier(model.id)) for model in domain.models)
    return Table("Models", columns(["Role", "What it is", "Identifier"]), rows)


def run(domain: Domain) -> Table:
    """How the run was asked for."""
    about, record = domain.about, domain.about.record
    space, settings = record.space, record.settings
    rows = (
        (
            "Data set",
            f"{about.data.documents:,} documents, {about.data.chunks:,} chunks "
            f"of at most {record.chunk_size:,} characters"
            + (", the first size that was searched" if "chunk_size" in space.options else ""),
        ),
        ("Questions", _division(record)),
        (
            "Space",
            f"{space.name}: {space.size:,} pipelines, {space.feasible:,} feasible, "
            f"{domain.proposed:,} proposed and evaluated"
            + (f", {domain.dropped:,} of them dropped before the last question" if domain.dropped else ""),
        ),
        *((("Evaluated", besides),) if (besides := besides_in_words(domain)) else ()),
        ("Strategy", f"{about.record.strategy}, seed {settings.seed}"),
        ("Run", f"{about.run}, {about.state}"),
    )
    return Table("The run", columns(["", ""]), rows)


def _division(record: RunRecord) -> str:
    split = record.split
    if record.settings.verdict == CROSSFIT:
        return f"{questions_in_words(record)}; {split.rule}"
    unused = f", {len(split.unused)} in neither part" if split.unused else ""
    checked = f"; {split.leaks}" if split.leaks and split.test else ""
    return f"{len(split.search)} search, {len(split.test)} test{unused}; split {split.rule}{checked}"


def work(domain: Domain) -> str:
    """What the last command computed and found in the cache."""
    record = domain.about.record
    account, made = record.account, record.settings.fitness.made
    text = f"This run's last command computed {account.computed:,} {made} and took {account.reused:,} from the cache."
    if account.spent.calls:
        text += f" All its commands sent {account.spent.calls:,} requests, of {account.spent.tokens:,} tokens"
        text += f", for {account.spent.cost:.4f} in money." if account.spent.cost else "."
    if not account.stages_requested:
        return f"{text} No stage ran and no model was called."
    ratio = account.stages_computed / account.stages_requested
    return (
        f"{text} Of {account.stages_requested:,} stages that pipelines asked for, {account.stages_computed:,} were "
        f"computed ({numbers.share(ratio)}); the rest was shared."
    )
