"""The tables of the store. They have one format, whose number is kept in the database; any other is refused."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    MetaData,
    Table,
    Text,
    inspect,
    text,
)

from ragsmith.errors import WrongStore

APPLICATION_ID = int.from_bytes(b"RAGs")
"""In the header of every SQLite file of ours, so that no other file is taken for one."""

FORMAT = 1
"""Of the tables and of the checksums of their rows."""

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
    _key("run"),
    _integer("calls"),
    _integer("tokens"),
    Column("cost", Double, nullable=False),
    _text("state"),
    CheckConstraint("state IN ('known', 'in doubt')", name="spending_state"),
)
"""What each run has spent, one row a run: see `ragsmith.store.spending`."""
TRAITS = _table("traits", _key("model"), _json("value"))
"""What was learnt of chat models: see `ragsmith.models.capabilities`."""
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
LEASE = _table("lease", _key("owner"), _text("process"), _integer("heartbeat"))
"""Of the processes that hold claims; ``heartbeat`` changes while they live."""

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

TABLES = tuple(METADATA.sorted_tables)


def stored_format(connection: Connection) -> int:
    """The format of an open database; 0 when it holds nothing of ours."""
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if not inspect(connection).has_table("ragsmith_schema"):
        return 0
    return int(connection.execute(text("SELECT version FROM ragsmith_schema")).scalar_one())


def refuse_other_format(found: int, name: str) -> None:
    """Raise WrongStore for a database ``name`` of a format that is not ours; 0 is one without tables."""
    if found not in (0, FORMAT):
        raise WrongStore(
            f"{name} has format {found}, and this version of ragsmith reads format {FORMAT}: name another cache with "
            "--cache, or delete this one"
        )


def create_tables(connection: Connection, name: str) -> None:
    """Create the tables in the caller's writing transaction, unless another process was first."""
    if connection.dialect.name == "postgresql":  # two processes may meet here; SQLite's writer is alone already
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": APPLICATION_ID})
    found = stored_format(connection)
    refuse_other_format(found, name)
    if found == FORMAT:
        return
    METADATA.create_all(connection, checkfirst=False)
    if connection.dialect.name == "sqlite":  # pragmas take no parameters; both are integers of ours
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
    else:
        connection.execute(text("CREATE TABLE ragsmith_schema (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO ragsmith_schema VALUES (:version)"), {"version": FORMAT})
