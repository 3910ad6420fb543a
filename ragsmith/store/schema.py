"""The tables of the store, and the numbered steps that bring an older file to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    MetaData,
    Table,
    Text,
    delete,
    inspect,
    select,
    text,
)

from ragsmith.errors import WrongStore
from ragsmith.store.rows import seal, unseal

APPLICATION_ID = int.from_bytes(b"RAGs")
"""In the header of every SQLite file of ours, so that nothing else is ever taken for one."""

METADATA = MetaData()


def _table(name: str, *columns: Column[object] | CheckConstraint) -> Table:
    """A table whose rows carry a checksum.

    Without row ids a row lives in one B-tree only. So a key that was damaged on disk is simply absent, and its row can
    be written again; with a second tree, an index would go on claiming that it is there.
    """
    return Table(name, METADATA, *columns, Column("checksum", Text, nullable=False), sqlite_with_rowid=False)


def _key(name: str) -> Column[object]:
    return Column(name, Text, primary_key=True)


def _text(name: str) -> Column[object]:
    return Column(name, Text, nullable=False)


def _json(name: str) -> Column[object]:
    return Column(name, Text, nullable=False, info={"json": True})


def _integer(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=False)  # a server's plain integers end at two thousand million


MODEL_CALL = _table(
    "model_call",
    _key("key"),
    _text("model"),
    _text("task"),
    _json("value"),
    _integer("calls"),
    _integer("input_tokens"),
    _integer("output_tokens"),
    Column("seconds", Double, nullable=False),
)
DATASET = _table("dataset", Column("digest", Text, primary_key=True), _text("name"), _json("value"))
EVALUATION = _table("evaluation", _key("key"), _text("dataset"), _json("configuration"))
RESULT = _table(
    "result",
    _key("evaluation"),
    _key("question"),
    _text("state"),
    _json("value"),
    _integer("attempts"),
    CheckConstraint("state IN ('ok', 'failed')", name="result_state"),
)
RUN = _table(
    "run",
    _key("key"),
    _text("dataset"),
    _text("state"),
    _json("value"),
    Column("started", Text),
    Column("finished", Text),
    CheckConstraint("state IN ('running', 'finished', 'interrupted', 'failed')", name="run_state"),
)
PROPOSAL = _table(
    "proposal",
    _key("run"),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    _integer("step"),
    _json("genome"),
    _text("evaluation"),
    _json("value"),
)
FIT = _table("fit", _key("key"), _text("dataset"), _json("value"))
SPENDING = _table(
    "spending",
    _key("key"),
    _integer("calls"),
    _integer("tokens"),
    Column("cost", Double, nullable=False),
)
TRAITS = _table("traits", _key("model"), _json("value"))
"""What was learnt of chat models: see `ragsmith.models.traits`."""
FAILED_CALL = _table(
    "failed_call",
    _key("key"),
    _text("model"),
    _text("task"),
    _text("kind"),
    _text("message"),
    _integer("attempts"),
    _integer("calls"),
    _integer("input_tokens"),
    _integer("output_tokens"),
)
"""Requests that failed, under the key where the reply would be: see `ragsmith.gateway.failures`."""
CLAIM = _table("claim", _key("key"), _text("owner"))
"""Calls that a process is making now, so that no other makes them, too."""
PROCESS = _table("process", Column("owner", Text, primary_key=True), _text("process"), _integer("beat"))
"""The processes that hold claims; ``beat`` changes while they live."""

EXPENSE = _table(
    "expense",
    _key("run"),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _text("kind"),
    Column("calls", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", Double, nullable=False),
    Column("calls_after", BigInteger, nullable=False),
    Column("tokens_after", BigInteger, nullable=False),
    Column("cost_after", Double, nullable=False),
)
"""What each run has spent, row by row; ``spending`` has the sum after the last of them."""
ORIGIN = _table("origin", _key("key"))
"""One row: a random name of this database, which no other has."""
BATCHED_REQUEST = _table("batched_request", _key("key"), _text("file"), _text("batch"), _integer("max_tokens"))
"""Requests that went off in a batch, and whose replies nobody has yet: see `ragsmith.models.calls.BatchMemory`."""
PAYMENT = _table(
    "payment",
    _key("run"),
    _key("reply"),
    _integer("calls"),
    _integer("tokens"),
    Column("cost", Double, nullable=False),
)
"""What runs had paid when they kept a reply, row by row and since the row before: ``expense`` has at least as much."""
LATENCY = _table(
    "latency",
    _key("evaluation"),
    _key("machine"),
    _key("question"),
    _text("state"),
    _json("value"),
    CheckConstraint("state IN ('ok', 'failed')", name="latency_state"),
)
"""How long pipelines take, by the kind of machine: apart from results, which are equal wherever they are made."""
FINDING = _table("finding", _key("kind"), _key("key"), _text("dataset"), _json("value"))
"""What was worked out of results and is shown with a run, such as what each part of its winner is worth."""
DIAGNOSIS = _table("diagnosis", _key("evaluation"), _key("question"), _json("value"))
"""Why questions went as they did: see `ragsmith.diagnosis.diagnosed`."""
LOOK = _table("look", _key("look"), _integer("number"), _integer("fresh"), _text("day"), _json("questions"))
"""How often test questions were used for a verdict: see `ragsmith.comparison.looks`."""
LOOKED = _table("looked", _key("question"), _key("look"))
"""The same by question, so that a new look reads those at its own questions, however many there are."""

TABLES = (
    *(MODEL_CALL, DATASET, EVALUATION, RESULT, RUN, PROPOSAL, FIT, SPENDING),
    *(CLAIM, TRAITS, PROCESS, FAILED_CALL, EXPENSE, ORIGIN, BATCHED_REQUEST, PAYMENT, LATENCY),
    *(FINDING, DIAGNOSIS, LOOK, LOOKED),
)

Migration = Callable[[Connection], None]
"""Brings the schema from the version before to its own; runs inside the transaction that records the version."""


def create_tables(connection: Connection) -> None:
    """Version 1. When a later step changes a table, spell this version's columns out here: old steps never change."""
    METADATA.create_all(connection, tables=TABLES[:6], checkfirst=False)


def add_fits(connection: Connection) -> None:
    """Version 2: what techniques learned on calibration questions."""
    METADATA.create_all(connection, tables=[FIT], checkfirst=False)


def add_spending(connection: Connection) -> None:
    """Version 3: what runs have spent, and which calls are being made."""
    METADATA.create_all(connection, tables=[SPENDING], checkfirst=False)
    columns = "key TEXT PRIMARY KEY, owner TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL, checksum TEXT NOT NULL"
    connection.execute(text(f"CREATE TABLE claim ({columns})"))


def add_traits(connection: Connection) -> None:
    """Version 4: what was learnt of chat models."""
    METADATA.create_all(connection, tables=[TRAITS], checkfirst=False)


def widen_integers(connection: Connection) -> None:
    """Version 5: 64 bits wherever a number is kept. A file has them anyway, and a new database as well."""
    if connection.dialect.name == "sqlite":
        return
    for table, columns in {
        "model_call": ("calls", "input_tokens", "output_tokens"),
        "result": ("attempts",),
        "proposal": ("position", "step"),
        "spending": ("calls",),
    }.items():
        changes = ", ".join(f"ALTER COLUMN {column} TYPE BIGINT" for column in columns)
        connection.execute(text(f"ALTER TABLE {table} {changes}"))


def let_claims_live_by_beats(connection: Connection) -> None:
    """Version 6: claims end with their owner. Those of before end now."""
    connection.execute(text("DROP TABLE claim"))
    METADATA.create_all(connection, tables=[CLAIM, PROCESS], checkfirst=False)


def add_failed_calls(connection: Connection) -> None:
    """Version 7: requests that failed."""
    METADATA.create_all(connection, tables=[FAILED_CALL], checkfirst=False)


def add_expenses(connection: Connection) -> None:
    """Version 8: what runs have spent, row by row. The sums so far, 0 for runs without one, become the first rows.

    A sum that is damaged stays alone, so that its run finds out.
    """
    METADATA.create_all(connection, tables=[EXPENSE, ORIGIN], checkfirst=False)
    connection.execute(ORIGIN.insert(), seal(ORIGIN, (uuid4().hex,)))
    stored = {str(row[0]): unseal(SPENDING, tuple(row)) for row in connection.execute(select(SPENDING))}
    for run in connection.execute(select(RUN.c.key)).scalars():
        if run not in stored:
            stored[run] = nothing = [run, 0, 0, 0.0]
            connection.execute(SPENDING.insert(), seal(SPENDING, nothing))
    for sums in stored.values():
        if sums is not None:
            run, *spent = sums
            connection.execute(EXPENSE.insert(), seal(EXPENSE, (run, 1, "begun", *spent, *spent)))


def forget_cut_replies(connection: Connection) -> None:
    """Version 9: up to version 3, replies that were cut were kept as whole ones. They are asked for again.

    They have as many tokens as their task allowed then; one in a thousand that has as many and was whole goes as well.
    """
    limits = {
        40: ("write_header",),
        64: ("judge_evidence",),
        96: ("broader_question",),
        128: ("rewrite_query",),
        256: ("imagine_code", "imagine_framed_passage", "imagine_table", "note_on_evidence", "paraphrase_question"),
        512: ("hypothetical_questions", "imagine_passage", "reformulations", "review_answer", "sub_queries"),
        1024: ("answer", "revise_answer", "refine_summary", "summarise_cluster", "summarise_passages"),
    }
    columns = MODEL_CALL.c
    for most, tasks in limits.items():
        cut = (columns.output_tokens == most) & columns.task.in_(tasks)
        connection.execute(delete(MODEL_CALL).where(cut))


def add_batched_requests(connection: Connection) -> None:
    """Version 10: requests that went off in a batch."""
    METADATA.create_all(connection, tables=[BATCHED_REQUEST], checkfirst=False)


def add_payments(connection: Connection) -> None:
    """Version 11: what was paid, kept with the replies; nothing is known of those that are there."""
    METADATA.create_all(connection, tables=[PAYMENT], checkfirst=False)


def add_latencies(connection: Connection) -> None:
    """Version 12: how long pipelines take."""
    METADATA.create_all(connection, tables=[LATENCY], checkfirst=False)


def add_findings(connection: Connection) -> None:
    """Version 13: what was worked out of results."""
    METADATA.create_all(connection, tables=[FINDING], checkfirst=False)


def add_diagnoses(connection: Connection) -> None:
    """Version 14: why questions went as they did."""
    METADATA.create_all(connection, tables=[DIAGNOSIS], checkfirst=False)


def add_looks(connection: Connection) -> None:
    """Version 15: looks at test questions."""
    METADATA.create_all(connection, tables=[LOOK], checkfirst=False)


def list_looks_by_question(connection: Connection) -> None:
    """Version 16: looks by question; those of looks that are damaged are lost with them."""
    METADATA.create_all(connection, tables=[LOOKED], checkfirst=False)
    intact = filter(None, (unseal(LOOK, tuple(row)) for row in connection.execute(select(LOOK))))
    pairs = {(question, look) for look, _, _, _, questions in intact for question in questions}
    if pairs:
        connection.execute(LOOKED.insert(), [seal(LOOKED, pair) for pair in sorted(pairs)])


MIGRATIONS: tuple[Migration, ...] = (
    create_tables,
    add_fits,
    add_spending,
    add_traits,
    widen_integers,
    let_claims_live_by_beats,
    add_failed_calls,
    add_expenses,
    forget_cut_replies,
    add_batched_requests,
    add_payments,
    add_latencies,
    add_findings,
    add_diagnoses,
    add_looks,
    list_looks_by_question,
)
"""Step ``n`` (1-based) leads to version ``n``. Steps are appended, never edited or removed."""


def stored_version(connection: Connection) -> int:
    """The schema version of an open database; 0 when it holds nothing of ours."""
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if not inspect(connection).has_table("ragsmith_schema"):
        return 0
    return int(connection.execute(text("SELECT version FROM ragsmith_schema")).scalar_one())


def migrate(connection: Connection, migrations: Sequence[Migration], name: str) -> None:
    """Apply the steps that ``name`` lacks, in the caller's writing transaction.

    Raises StoreError when the database is newer than the last step, or belongs to something else.
    """
    if connection.dialect.name == "postgresql":  # two processes may meet here; SQLite's writer is alone already
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": APPLICATION_ID})
    version = stored_version(connection)
    refuse_newer(version, migrations, name)
    for step in migrations[version:]:
        step(connection)
    if version < len(migrations):
        _record_version(connection, version, len(migrations))


def refuse_newer(version: int, migrations: Sequence[Migration], name: str) -> None:
    """Raise StoreError when a database of this version was written by a later release."""
    if version > len(migrations):
        raise WrongStore(
            f"{name} has format {version}, written by a newer ragsmith, and this one reads up to {len(migrations)}: "
            "upgrade ragsmith or name another cache"
        )


def _record_version(connection: Connection, before: int, after: int) -> None:
    if connection.dialect.name == "sqlite":  # pragmas take no parameters; both are integers of ours
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {after}")
        return
    if before == 0:
        connection.execute(text("CREATE TABLE ragsmith_schema (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO ragsmith_schema VALUES (:version)"), {"version": after})
    else:
        connection.execute(text("UPDATE ragsmith_schema SET version = :version"), {"version": after})
