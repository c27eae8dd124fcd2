"""All tables of the first release. This file never changes: later changes are migrations of their
own.

Its number is that of the last migration before the release. The earlier ones are part of it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = None
branch_labels = None
depends_on = None

DIGEST = sa.LargeBinary(32)


def _column(name: str, kind: Any, *, nullable: bool = False, default: Any = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=nullable, server_default=default)


def _key(name: str, kind: Any = sa.Text) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False, nullable=False)


def _text(name: str, **options: Any) -> sa.Column[Any]:
    return _column(name, sa.Text, **options)


def _digest(name: str, **options: Any) -> sa.Column[Any]:
    return _column(name, DIGEST, **options)


def _blob(name: str) -> sa.Column[Any]:
    return _column(name, sa.LargeBinary)


def _count(name: str, **options: Any) -> sa.Column[Any]:
    return _column(name, sa.BigInteger, **options)


def _time(name: str, **options: Any) -> sa.Column[Any]:
    return _column(name, sa.Double, **options)


def _flag(name: str, **options: Any) -> sa.Column[Any]:
    return _column(name, sa.Boolean, **options)


def _table(name: str, *columns: sa.Column[Any], clustered: bool = False) -> None:
    """Its primary key begins with the namespace. A clustered table is stored by that key on
    SQLite."""
    keys = ["namespace", *(column.name for column in columns if column.primary_key)]
    primary = sa.PrimaryKeyConstraint(*keys, name=f"{name}_pkey")
    op.create_table(name, _key("namespace"), *columns, primary, sqlite_with_rowid=not clustered)


def upgrade() -> None:
    _blueprints()
    _trees()
    _states()
    _memory()
    _tasks()
    _projections()
    _events()
    _alerts()
    _namespaces()
    _leases()


def _blueprints() -> None:
    _table(
        "branches",
        _key("name"),
        _text("source"),
        _time("at"),
        _text("actor"),
        _time("expires", nullable=True),
        _flag("protected"),
        _text("redirects", default="{}"),
        _count("base", nullable=True),
        _flag("publish", default=sa.false()),
        clustered=True,
    )
    _table(
        "replaced",
        _key("kind"),
        _key("name"),
        _key("until", sa.BigInteger),
        _text("value"),
        _count("seq", nullable=True),
        clustered=True,
    )
    _table(
        "dataflows",
        _key("branch"),
        _key("dataflow"),
        _count("last_number"),
        _flag("is_live"),
        _count("fork", default="0"),
        clustered=True,
    )
    _table(
        "revisions",
        _key("branch"),
        _key("dataflow"),
        _key("number", sa.BigInteger),
        _text("text"),
        _text("files"),
        _text("file"),
        _text("uids"),
        _text("actor"),
        _text("request_id"),
        _time("at"),
    )
    _table(
        "uids", _key("branch"), _key("dataflow"), _key("component"), _text("uid"), clustered=True
    )
    _table(
        "pauses",
        _key("branch"),
        _key("target"),
        _flag("lifted", default=sa.false()),
        clustered=True,
    )
    _table("forces", _key("branch"), _key("dataset"), _count("number"), clustered=True)
    _table(
        "changes",
        _key("id", sa.BigInteger),
        _text("actor"),
        _text("request_id"),
        _text("action"),
        _text("target"),
        _text("before"),
        _text("after"),
        _time("at"),
        _text("branch", default="main"),
    )
    _table(
        "answers", _key("key"), _digest("body"), _count("status"), _text("response"), _time("at")
    )


def _trees() -> None:
    _table("nodes", _key("digest", DIGEST), _time("at"), _blob("body"))
    if op.get_bind().dialect.name == "postgresql":  # digests do not compress
        op.execute("ALTER TABLE nodes ALTER COLUMN body SET STORAGE EXTERNAL")
    _table(
        "listings",
        _key("id", DIGEST),
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
    _table(
        "source_partitions",
        _key("listing", DIGEST),
        _key("key"),
        _digest("source"),
        _text("objects"),
    )


def _states() -> None:
    _table("schemas", _key("id", DIGEST), _text("body"))
    _table(
        "heads",
        _key("branch"),
        _key("dataset"),
        _count("seq"),
        _count("fork", default="0"),
        clustered=True,
    )
    _table(
        "states",
        _key("branch"),
        _key("dataset"),
        _key("seq", sa.BigInteger),
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
    _table(
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
    _table(
        "begun", _key("branch"), _key("dataset"), _digest("lineage"), _text("states"), _text("cut")
    )
    _table("marks", _key("branch"), _key("name"), _count("at"), clustered=True)
    op.create_index("marks_at", "marks", ["namespace", "at"])
    _table(
        "pins",
        _key("branch"),
        _key("dataset"),
        _digest("settings"),
        _text("schema"),
        _text("widened", nullable=True),
    )
    _table(
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
    _table("problems", _key("branch"), _key("dataset"), _text("error"))


def _memory() -> None:
    _table(
        "fragments",
        _key("id", DIGEST),
        _digest("schema"),
        _count("rows"),
        _count("sum1"),
        _count("sum2"),
        _text("files"),
        _text("home"),
        _text("attempt"),
        _text("status"),
    )
    op.create_index("fragments_attempt", "fragments", ["namespace", "attempt"])
    _table("profiles", _key("id", DIGEST), _blob("body"))
    _table(
        "traces", _key("task", DIGEST), _count("seq"), _text("by"), _text("home"), clustered=True
    )
    _table("outputs", _key("task", DIGEST), _key("suffix"), _digest("fragment"), clustered=True)
    _table(
        "build_traces",
        _key("key", DIGEST),
        _digest("root"),
        _digest("schema"),
        _time("at"),
        clustered=True,
    )
    _table("memos", _key("key", DIGEST), _text("value"))
    _table(
        "pack_origins",
        _key("pack", DIGEST),
        _digest("leaf"),
        _digest("member"),
        _time("at"),
        clustered=True,
    )
    _table("leftovers", _key("folder"), _text("attempt"), _time("due"), clustered=True)


def _tasks() -> None:
    _table("jobs", _key("digest", DIGEST), _text("body"))
    _table(
        "tasks",
        _key("key", DIGEST),
        _text("kind"),
        _text("dataset"),
        _text("partition"),
        _digest("job"),
        _text("spec"),
        _count("size_bytes"),
        _count("rank"),
        _count("queued_us"),
        _text("state"),
        _count("epoch"),
        _text("attempt", nullable=True),
        _count("failures"),
        _time("not_before"),
        _text("error", nullable=True),
    )
    op.create_index(
        "tasks_due",
        "tasks",
        ["namespace", "state", "rank", "queued_us", "key", "kind", "not_before"],
    )
    op.create_index(
        "tasks_batch", "tasks", ["namespace", "job", "dataset", "state", "rank", "queued_us", "key"]
    )
    _table("demands", _key("branch"), _key("dataset"), _key("task", DIGEST), clustered=True)
    op.create_index("demands_task", "demands", ["namespace", "task"])
    _table(
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
    _table(
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
    op.create_index(
        "past_attempts_dataset", "past_attempts", ["namespace", "branch", "dataset", "ended_at"]
    )
    op.create_index("past_attempts_ended", "past_attempts", ["namespace", "ended_at"])
    _table(
        "drivers",
        _key("id"),
        _text("pool"),
        _text("kind"),
        _time("at"),
        _time("seen"),
        _flag("ended"),
        _text("reason"),
    )


def _projections() -> None:
    _table(
        "publications",
        _key("branch"),
        _key("dataset"),
        _count("generation"),
        _digest("root"),
        _digest("schema"),
        _count("version"),
        _text("error", nullable=True),
    )
    _table(
        "targets",
        _key("branch"),
        _key("component"),
        _digest("identity"),
        _digest("root"),
        _count("generation"),
        _text("error", nullable=True),
    )
    _table(
        "wishes",
        _key("branch"),
        _key("component"),
        _count("order"),
        _digest("wish"),
        clustered=True,
    )


def _events() -> None:
    _table(
        "events",
        _key("id", sa.BigInteger),
        _text("kind"),
        _text("dataset"),
        _count("n"),
        _text("body"),
        _time("at"),
        _text("branch", default="main"),
    )
    _table(
        "tokens",
        _key("id"),
        _digest("hash"),
        _text("name"),
        _text("scopes"),
        _text("subject"),
        _time("at"),
        _time("expires", nullable=True),
        _flag("revoked"),
        _text("narrowed", default="{}"),
        _text("parent", nullable=True),
        _time("used", nullable=True),
    )
    op.create_index("tokens_hash", "tokens", ["namespace", "hash"], unique=True)
    _table(
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
    _table("shares", _key("name"), _text("id"), _text("actor"), _time("at"))
    _table(
        "shared_tables",
        _key("share"),
        _key("schema"),
        _key("name"),
        _text("branch"),
        _text("dataset"),
        _flag("has_history"),
        _time("at"),
    )
    _table("feeds", _key("name"), _text("dataset"), _text("columns"), _text("actor"), _time("at"))
    _table(
        "feed_grants", _key("feed"), _key("reader"), _key("dataflows"), _text("actor"), _time("at")
    )
    _table(
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
    _table(
        "roles", _key("name"), _text("permissions"), _text("narrowed"), _text("actor"), _time("at")
    )
    op.create_index("trust_rules_id", "trust_rules", ["namespace", "id"], unique=True)
    _table(
        "reads",
        _key("id", sa.BigInteger),
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
    op.create_index("reads_at", "reads", ["namespace", "at"])
    _table(
        "browser_sessions",
        _key("hash", DIGEST),
        _text("token"),
        _text("kind"),
        _time("at"),
        _time("seen"),
        _time("ends"),
        clustered=True,
    )
    _table("counters", _key("name"), _count("value"), clustered=True)
    _table("cursors", _key("name"), _count("event"), clustered=True)


def _alerts() -> None:
    _table(
        "alerts",
        _key("branch"),
        _key("dataset"),
        _key("condition"),
        _time("since"),
        _text("text"),
        _text("told"),
        _time("ended", nullable=True),
    )
    _table(
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


def _namespaces() -> None:
    _table("namespaces", _key("name"), _text("actor"), _time("at"), _time("ended", nullable=True))


def _leases() -> None:
    _table(
        "leases",
        _key("name"),
        _text("holder"),
        _count("epoch"),
        _time("since"),
        _time("until"),
        clustered=True,
    )
