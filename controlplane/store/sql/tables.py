"""The tables of the metadata database, as the newest migration leaves them.

Does not belong here: queries, and how values become columns. A change here needs a migration of its
own.

Every primary key starts with the namespace. Digests are 32 raw bytes, JSON is text, times are
seconds since 1970. Tables of small rows are clustered by their key on SQLite; those with payloads
(blobs, JSON) keep a row id, because wide rows make a clustered tree deep.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    false,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData(naming_convention={"pk": "%(table_name)s_pkey"})


class Blob(LargeBinary):
    """Bytes as they are: both drivers take them without the wrapper that SQLAlchemy makes for each
    value."""

    cache_ok = True

    def bind_processor(self, _dialect: object) -> None:
        return None


def _key(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any] = Text) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _digest_key(name: str) -> Column[Any]:
    return _key(name, Blob(32))


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, nullable=nullable)


def _digest(name: str, *, nullable: bool = False) -> Column[bytes]:
    return Column(name, Blob(32), nullable=nullable)


def _count(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column[float]:
    return Column(name, Double, nullable=nullable)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _branch_of_row() -> Column[str]:
    """No part of the key."""
    return Column("branch", Text, nullable=False, server_default="main")


def _fork() -> Column[int]:
    """The last number that a branch shares with main. All that is newer is its own."""
    return Column("fork", BigInteger, nullable=False, server_default="0")


def _table(name: str, *columns: Column[Any], clustered: bool = False) -> Table:
    return Table(name, metadata, _key("namespace"), *columns, sqlite_with_rowid=not clustered)


# --- blueprints and operators' requests -----------------------------------------------------------

branches = _table(
    "branches",
    _key("name"),
    _text("source"),
    _time("at"),
    _text("actor"),
    _time("expires", nullable=True),
    _flag("protected"),
    Column("redirects", Text, nullable=False, server_default="{}"),
    _count("base", nullable=True),  # of a pinned one: the last number of marks in main that it sees
    Column("publish", Boolean, nullable=False, server_default=false()),
    clustered=True,
)
replaced = _table(  # what pointers of main were until a number of marks, for pinned branches
    "replaced",
    _key("kind"),
    _key("name"),
    _key("until", BigInteger),
    _text("value"),
    _count("seq", nullable=True),  # of a dataset: the value
    clustered=True,
)
dataflows = _table(
    "dataflows",
    _key("branch"),
    _key("dataflow"),
    _count("last_number"),
    _flag("is_live"),
    _fork(),
    clustered=True,
)
revisions = _table(
    "revisions",
    _key("branch"),
    _key("dataflow"),
    _key("number", BigInteger),
    _text("text"),
    _text("files"),
    _text("file"),
    _text("uids"),
    _text("actor"),
    _text("request_id"),
    _time("at"),
)
uids = _table(
    "uids", _key("branch"), _key("dataflow"), _key("component"), _text("uid"), clustered=True
)
pauses = _table(
    "pauses",
    _key("branch"),
    _key("target"),
    # In a branch, what main has paused goes on
    Column("lifted", Boolean, nullable=False, server_default=false()),
    clustered=True,
)
forces = _table("forces", _key("branch"), _key("dataset"), _count("number"), clustered=True)
forced_ranges = _table(  # of numbers that stand for a range of partitions
    "forced_ranges",
    _key("id", BigInteger),
    _text("first"),
    _text("last"),
    _count("number"),
    _count("before"),
    clustered=True,
)
changes = _table(
    "changes",
    _key("id", BigInteger),
    _text("actor"),
    _text("request_id"),
    _text("action"),
    _text("target"),
    _text("before"),
    _text("after"),
    _time("at"),
    _branch_of_row(),
)
answers = _table(
    "answers", _key("key"), _digest("body"), _count("status"), _text("response"), _time("at")
)

# --- trees and listings ---------------------------------------------------------------------------

# at: last put
nodes = _table("nodes", _digest_key("digest"), _time("at"), Column("body", Blob, nullable=False))
listings = _table(
    "listings",
    _digest_key("id"),
    _digest("root", nullable=True),
    _time("at", nullable=True),
    _count("objects"),
    _count("size_bytes"),
    _count("requested"),
    _count("served"),
    _text("error", nullable=True),
    _text("held", nullable=True),
    _digest("digest", nullable=True),
    _text("columns"),
    _flag("all_columns"),
)
source_partitions = _table(
    "source_partitions", _digest_key("listing"), _key("key"), _digest("source"), _text("objects")
)

# --- states ---------------------------------------------------------------------------------------

# id: SHA-256 of the body; what many rows share
schemas = _table("schemas", _digest_key("id"), _text("body"))
heads = _table("heads", _key("branch"), _key("dataset"), _count("seq"), _fork(), clustered=True)
states = _table(
    "states",
    _key("branch"),
    _key("dataset"),
    _key("seq", BigInteger),
    _count("generation"),
    _digest("logic"),
    _text("inputs"),
    _digest("root"),
    _digest("schema"),
    _text("cut"),
    _count("partitions"),
    _count("rows"),
    _text("cause"),
    _count("revision"),
    _time("at"),
    _digest("lineage"),
)
buildings = _table(
    "buildings",
    _key("branch"),
    _key("dataset"),
    _digest("lineage"),
    _text("inputs"),
    _digest("root"),
    _digest("schema", nullable=True),
    _text("cut"),
    _time("at"),
)
unfinished = _table(
    "begun", _key("branch"), _key("dataset"), _digest("lineage"), _text("states"), _text("cut")
)
marks = _table("marks", _key("branch"), _key("name"), _count("at"), clustered=True)
Index("marks_at", marks.c.namespace, marks.c.at)
pins = _table(
    "pins",
    _key("branch"),
    _key("dataset"),
    _digest("settings"),
    _text("schema"),
    _text("widened", nullable=True),
)
holds = _table(
    "holds",
    _key("branch"),
    _key("dataset"),
    _count("seq"),
    _count("generation"),
    _text("actor"),
    _time("at"),
    _text("reason"),
    clustered=True,
)
problems = _table("problems", _key("branch"), _key("dataset"), _text("error"))  # has no rows

# --- memory ---------------------------------------------------------------------------------------

fragments = _table(
    "fragments",
    _digest_key("id"),
    _digest("schema"),
    _count("rows"),
    _count("sum1"),
    _count("sum2"),
    _text("files"),
    _text("home"),
    _text("attempt"),
    _text("status"),
)
Index("fragments_attempt", fragments.c.namespace, fragments.c.attempt)
# Of fragments, and merged ones of tree nodes, which can be made again; digests of the two never
# meet.
profiles = _table("profiles", _digest_key("id"), Column("body", Blob, nullable=False))
traces = _table(
    "traces", _digest_key("task"), _count("seq"), _text("by"), _text("home"), clustered=True
)
outputs = _table(
    "outputs", _digest_key("task"), _key("suffix"), _digest("fragment"), clustered=True
)
build_traces = _table(
    "build_traces",
    _digest_key("key"),
    _digest("root"),
    _digest("schema"),
    _time("at"),
    clustered=True,
)
memos = _table("memos", _digest_key("key"), _text("value"))
pack_origins = _table(
    "pack_origins",
    _digest_key("pack"),
    _digest("leaf"),
    _digest("member"),
    _time("at"),
    clustered=True,
)
leftovers = _table("leftovers", _key("folder"), _text("attempt"), _time("due"), clustered=True)

# --- tasks and attempts ---------------------------------------------------------------------------

jobs = _table("jobs", _digest_key("digest"), _text("body"))
tasks = _table(
    "tasks",
    _digest_key("key"),
    _text("kind"),
    _text("dataset"),
    _text("partition"),
    _digest("job"),
    _text("spec"),
    _count("size_bytes"),
    _count("rank"),  # minus the priority, so that an ascending index gives the order of claims
    _count("queued_us"),
    _text("state"),
    _count("epoch"),
    _text("attempt", nullable=True),
    _count("failures"),
    _time("not_before"),
    _text("error", nullable=True),
)
Index(
    "tasks_due",
    *(tasks.c[n] for n in ("namespace", "state", "rank", "queued_us", "key", "kind", "not_before")),
)
Index(
    "tasks_batch",
    *(tasks.c[n] for n in ("namespace", "job", "dataset", "state", "rank", "queued_us", "key")),
)
demands = _table("demands", _key("branch"), _key("dataset"), _digest_key("task"), clustered=True)
Index("demands_task", demands.c.namespace, demands.c.task)
attempts = _table(
    "attempts",
    _key("id"),
    _text("dataset"),
    _text("driver"),
    _text("kind"),
    _digest("job"),
    _text("prefix"),
    _text("tasks"),
    _time("lease_until"),
    _time("at"),
    _time("queued_at", nullable=True),
    _text("partition", nullable=True),
)
raised_sizes = _table(  # of datasets with tasks that ran out of memory
    "raised_sizes", _key("dataset"), _text("size"), _time("at"), clustered=True
)
past_attempts = _table(
    "past_attempts",
    _key("id"),
    _key("branch"),
    _text("kind"),
    _text("dataset"),
    _text("partition"),
    _text("driver"),
    _time("queued_at"),
    _time("started_at"),
    _time("ended_at"),
    _time("seconds", nullable=True),
    _text("outcome"),
    _count("tasks"),
    _count("done"),
    _count("failed"),
    _count("rows"),
    _count("bytes_written"),
    _count("bytes_read", nullable=True),
    _count("spark_jobs", nullable=True),
    _count("spark_stages", nullable=True),
    _text("spark_ui", nullable=True),
    _text("event_log", nullable=True),
    _text("error", nullable=True),
)
Index(
    "past_attempts_dataset",
    *(past_attempts.c[n] for n in ("namespace", "branch", "dataset", "ended_at")),
)
Index("past_attempts_ended", past_attempts.c.namespace, past_attempts.c.ended_at)
drivers = _table(
    "drivers",
    _key("id"),
    _text("pool"),
    _text("kind"),
    _time("at"),
    _time("seen"),
    _flag("ended"),
    _text("reason"),
)

# --- projections ----------------------------------------------------------------------------------

publications = _table(
    "publications",
    _key("branch"),
    _key("dataset"),
    _count("generation"),
    _digest("root"),
    _digest("schema"),
    _count("version"),
    _text("error", nullable=True),
)
targets = _table(
    "targets",
    _key("branch"),
    _key("component"),
    _digest("identity"),
    _digest("root"),
    _count("generation"),
    _text("error", nullable=True),
)

wishes = _table(
    "wishes", _key("branch"), _key("component"), _count("order"), _digest("wish"), clustered=True
)

# --- events, tokens, counters -----------------------------------------------------------------------

events = _table(
    "events",
    _key("id", BigInteger),
    _text("kind"),
    _text("dataset"),
    _count("n"),
    _text("body"),
    _time("at"),
    _branch_of_row(),
)
tokens = _table(
    "tokens",
    _key("id"),
    _digest("hash"),
    _text("name"),
    _text("scopes"),
    _text("subject"),
    _time("at"),
    _time("expires", nullable=True),
    _flag("revoked"),
    Column("narrowed", Text, nullable=False, server_default="{}"),
    _text("parent", nullable=True),  # of an S3 key: the token that made it
    _time("used", nullable=True),
)
Index("tokens_hash", tokens.c.namespace, tokens.c.hash, unique=True)
links = _table(
    "links",
    _key("id"),
    _text("maker"),
    _text("actor"),
    _text("branch"),
    _text("dataset"),
    _text("asked"),
    _time("at"),
    _time("expires"),
    _flag("revoked"),
)
shares = _table("shares", _key("name"), _text("id"), _text("actor"), _time("at"))
shared_tables = _table(
    "shared_tables",
    _key("share"),
    _key("schema"),
    _key("name"),
    _text("branch"),
    _text("dataset"),
    _flag("has_history"),
    _time("at"),
)
feeds = _table(
    "feeds", _key("name"), _text("dataset"), _text("columns"), _text("actor"), _time("at")
)
feed_grants = _table(
    "feed_grants", _key("feed"), _key("reader"), _key("dataflows"), _text("actor"), _time("at")
)
trust_rules = _table(
    "trust_rules",
    _key("name"),
    _text("id"),
    _text("use"),
    _text("issuer"),
    _text("audience"),
    _text("claims"),
    _text("roles"),
    _text("narrowed"),
    _time("ttl_s"),
    _text("actor"),
    _time("at"),
)
roles = _table(
    "roles",
    _key("name"),
    _text("permissions"),
    _text("narrowed"),
    _text("actor"),
    _time("at"),
)
Index("trust_rules_id", trust_rules.c.namespace, trust_rules.c.id, unique=True)
reads = _table(
    "reads",
    _key("id", BigInteger),
    _text("actor"),
    _text("request_id"),
    _text("how"),
    _text("branch"),
    _text("dataset"),
    _time("at"),
    _count("times"),
    _count("bytes", nullable=True),
    _text("what"),
)
Index("reads_at", reads.c.namespace, reads.c.at)
browser_sessions = _table(
    "browser_sessions",
    _digest_key("hash"),
    _text("token"),
    _text("kind"),
    _time("at"),
    _time("seen"),
    _time("ends"),
    clustered=True,
)
counters = _table("counters", _key("name"), _count("value"), clustered=True)

# How far readers of events are.
cursors = _table("cursors", _key("name"), _count("event"), clustered=True)

# --- alerts ------------------------------------------------------------------------------------------

alerts = _table(
    "alerts",
    _key("branch"),
    _key("dataset"),
    _key("condition"),
    _time("since"),
    _text("text"),
    _text("told"),
    _time("ended", nullable=True),
)
messages = _table(
    "messages",
    _key("id"),
    _text("branch"),
    _text("dataflow"),
    _text("channel"),
    _text("items"),
    _time("due"),
    _count("tries"),
    _digest("task", nullable=True),
    _text("error", nullable=True),
)

# --- the installation: rows of the namespace `default` ----------------------------------------------

namespaces = _table(
    "namespaces", _key("name"), _text("actor"), _time("at"), _time("ended", nullable=True)
)

# --- leases of what one process does at a time ------------------------------------------------------

leases = _table(
    "leases",
    _key("name"),
    _text("holder"),
    _count("epoch"),
    _time("since"),
    _time("until"),
    clustered=True,
)
