"""The tables of the store and the validation of their rows.

A row with a valid checksum may still lack the structure that readers expect, for example if another program wrote it.
Such a row counts as damaged: it is reported and computed again. Only the fields that readers use are validated.
"""

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

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
from ragsmith.models.calls import Json

APPLICATION_ID = int.from_bytes(b"RAGs")
"""The application id in the header of the SQLite files of the store."""

FORMAT = 1
"""The version of the tables and checksums, which is stored in the database."""

METADATA = MetaData()


def _table(name: str, *columns: Column[object] | CheckConstraint) -> Table:
    """Return a table whose rows have a checksum.

    Without row ids, a row is stored in a single B-tree. A row whose key is damaged is therefore absent and can be
    written again, whereas a separate index would still contain the key.
    """
    return Table(name, METADATA, *columns, Column("checksum", Text, nullable=False), sqlite_with_rowid=False)


def _key(name: str) -> Column[object]:
    return Column(name, Text, primary_key=True)


def _text(name: str) -> Column[object]:
    return Column(name, Text, nullable=False)


def _json(name: str) -> Column[object]:
    return Column(name, Text, nullable=False, info={"json": True})


def _integer(name: str) -> Column[object]:
    return Column(name, BigInteger, nullable=False)  # INTEGER has 32 bits on a server


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
"""The spending of each run: see `ragsmith.store.spending`."""
TRAITS = _table("traits", _key("model"), _json("value"))
"""Capabilities of chat models: see `ragsmith.models.capabilities`."""
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
"""Failed requests, under the key of the reply: see `ragsmith.gateway.failures`."""
CLAIM = _table("claim", _key("key"), _text("owner"))
"""Calls that a process is making, for which other processes wait instead of repeating them."""
LEASE = _table("lease", _key("owner"), _text("process"), _integer("heartbeat"))
"""Leases of the processes with claims; ``heartbeat`` changes while they run."""

LATENCY = _table(
    "latency",
    _key("evaluation"),
    _key("machine"),
    _key("question"),
    _text("state"),
    _json("value"),
    CheckConstraint("state IN ('ok', 'failed')", name="latency_state"),
)
"""Latencies of pipelines by kind of machine; results do not depend on the machine."""
FINDING = _table("finding", _key("kind"), _key("key"), _text("dataset"), _json("value"))
"""Values derived from results and reported with a run, such as an ablation of its winner."""
DIAGNOSIS = _table("diagnosis", _key("evaluation"), _key("question"), _json("value"))
"""Diagnoses of questions: see `ragsmith.diagnosis.diagnosed`."""
LOOK = _table("look", _key("look"), _integer("number"), _integer("fresh"), _text("day"), _json("questions"))
"""Uses of test questions for a verdict: see `ragsmith.comparison.questions`."""
LOOKED = _table("looked", _key("question"), _key("look"))
"""Uses of test questions by question; a new use reads only the rows of its questions."""

TABLES = tuple(METADATA.sorted_tables)


def stored_format(connection: Connection) -> int:
    """Return the format of an open database, or 0 if it has no tables of the store."""
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if not inspect(connection).has_table("ragsmith_schema"):
        return 0
    return int(connection.execute(text("SELECT version FROM ragsmith_schema")).scalar_one())


def refuse_other_format(version: int, name: str) -> None:
    """Raise WrongStore if the database ``name`` has another format; 0 is a database without tables."""
    if version not in (0, FORMAT):
        raise WrongStore(
            f"{name} has format {version}, and this version of ragsmith reads format {FORMAT}: name another cache with "
            "--cache, or delete this one"
        )


def create_tables(connection: Connection, name: str) -> None:
    """Create the tables in the current transaction unless another process has created them."""
    if connection.dialect.name == "postgresql":  # SQLite has a single writer
        connection.execute(text("SELECT pg_advisory_xact_lock(:id)"), {"id": APPLICATION_ID})
    version = stored_format(connection)
    refuse_other_format(version, name)
    if version == FORMAT:
        return
    METADATA.create_all(connection, checkfirst=False)
    if connection.dialect.name == "sqlite":  # pragmas take no parameters
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {FORMAT}")
    else:
        connection.execute(text("CREATE TABLE ragsmith_schema (version INTEGER NOT NULL)"))
        connection.execute(text("INSERT INTO ragsmith_schema VALUES (:version)"), {"version": FORMAT})


# --- validation of rows ----------------------------------------------------------------------------------------------

Validator: TypeAlias = Callable[[Sequence[Json]], bool]
"""Returns whether the decoded columns of a row have the structure that readers expect."""

VECTOR_TASKS = ("text", "query")
"""The tasks of model calls whose values are vectors."""

_RANKING_MEASURES = frozenset(("recall", "map", "ndcg", "mrr"))
_ANSWER_MEASURES = _RANKING_MEASURES | {"judge", "similarity"}
"""The measures that every result of a ranking, or with an answer, has: those of R and G."""

_COUNTS = frozenset(("calls", "texts_embedded", "pairs_scored", "input_tokens", "output_tokens"))
"""The counts of the usage of a result."""

_TEXTS = frozenset({str})
_INTEGERS = frozenset({int})
_NUMBERS = frozenset({int, float})
_SCORES = _NUMBERS | {type(None)}


def _has(value: Json, **kinds: type | tuple[type, ...]) -> bool:
    """Return whether ``value`` is a mapping with these keys and types of values."""
    return isinstance(value, dict) and all(
        name in value and isinstance(value[name], kind) for name, kind in kinds.items()
    )


def _lists(value: Json, kinds: frozenset[type]) -> bool:
    """Return whether all items of the list ``value`` have one of these types; booleans are not numbers."""
    return isinstance(value, list) and kinds.issuperset(map(type, value))


def _maps(value: Json, kinds: frozenset[type]) -> bool:
    """Return whether all values of the mapping ``value`` have one of these types; booleans are not numbers."""
    return isinstance(value, dict) and kinds.issuperset(map(type, value.values()))


def _model_call(row: Sequence[Json]) -> bool:
    task, value = row[2], row[3]
    if type(value) in _NUMBERS:
        return True
    return isinstance(value, str) and (task not in VECTOR_TASKS or _is_vector(value))


def _is_vector(value: str) -> bool:
    try:
        decoded = base64.b64decode(value, validate=True)
    except ValueError:
        return False
    return len(decoded) > 0 and len(decoded) % 4 == 0


def _result(row: Sequence[Json]) -> bool:
    """Validate a result; optimised, as commands read tens of thousands of results."""
    state, value, attempts = row[2:5]
    if type(attempts) is not int or not isinstance(value, dict):
        return False
    if state == "failed":
        return _has(value, stage=str, error=str)
    is_answer = type(value.get("answer")) is str
    return (
        (is_answer or value.get("part") == "ranking")
        and _lists(value.get("retrieved"), _TEXTS)
        and _maps(value.get("stages"), _TEXTS)
        and _maps(value.get("usage"), _INTEGERS)
        and value["usage"].keys() >= _COUNTS
        and min(value["usage"].values()) >= 0
        and _maps(value.get("measures"), _SCORES)
        and value["measures"].keys() >= (_ANSWER_MEASURES if is_answer else _RANKING_MEASURES)
    )


def _run(row: Sequence[Json]) -> bool:
    value = row[3]
    return (
        _has(value, space=dict, settings=dict, models=dict, model_names=dict, chunk_size=int, split=dict)
        and _has(value["space"], name=str, digest=str, size=int, feasible=int, options=dict)
        and _has(value["settings"], genetic=dict, strategy=str)
        and _has(value["split"], rule=str, search=list, test=list)
        and all(isinstance(value.get(name, []), list) for name in ("probes", "history", "random", "imports"))
        and all(isinstance(value.get(name, {}), dict) for name in ("baselines", "test", "account"))
        and all(time is None or _is_time(time) for time in row[4:6])
    )


def _is_time(text: str) -> bool:
    try:
        return bool(datetime.fromisoformat(text))
    except ValueError:
        return False


VALIDATORS: dict[str, Validator] = {
    "model_call": _model_call,
    "dataset": lambda row: (
        _has(row[2], title=str, description=str, documents=int, chunks=int) and _maps(row[2].get("questions"), _TEXTS)
    ),
    "evaluation": lambda row: (
        _has(row[2], pipeline=dict)
        and all(_has(gene, technique=str, parameters=dict) for gene in row[2]["pipeline"].values())
    ),
    "result": _result,
    "run": _run,
    "proposal": lambda row: _lists(row[3], frozenset({int})) and _has(row[5], fitness=(int, float, type(None))),
    "fit": lambda row: (
        _has(row[2], numbers=dict, held_out=list)
        and all(_has(fold, questions=list, numbers=dict) for fold in row[2]["held_out"])
    ),
    "traits": lambda row: _has(row[1], refuses=list, thinking_tokens=int) and _lists(row[1]["refuses"], _TEXTS),
    "latency": lambda row: _has(row[4], stage=str, error=str) if row[3] == "failed" else type(row[4]) in _NUMBERS,
    "finding": lambda row: isinstance(row[3], dict),
    "diagnosis": lambda row: (
        _has(row[2], code=str, cause=str, gold=int, read=int)
        and all(isinstance(row[2].get(name, []), list) for name in ("passages", "evidence"))
        and type(row[2].get("further", 0)) is int
    ),
    "look": lambda row: row[1] >= 1 and _lists(row[4], _TEXTS),
}
"""Validators by table; other tables need none."""
