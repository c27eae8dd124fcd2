"""All tables of the first release. This file never changes: later changes are migrations of their own."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _key(name: str, kind: Any = sa.Text) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False, nullable=False)


def _digest_key(name: str) -> sa.Column[Any]:
    return _key(name, sa.LargeBinary(32))


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _digest(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary(32), nullable=nullable)


def _count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Double, nullable=nullable)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean, nullable=False)


def _table(name: str, keys: list[sa.Column[Any]], *columns: sa.Column[Any], clustered: bool = False) -> None:
    """Its primary key is the namespace and `keys`; clustered: by that key, on SQLite."""
    primary = sa.PrimaryKeyConstraint("namespace", *(k.name for k in keys), name=f"{name}_pkey")
    op.create_table(name, _key("namespace"), *keys, *columns, primary, sqlite_with_rowid=not clustered)


def upgrade() -> None:
    _desired()
    _listed()
    _settled()
    _remembered()
    _queued()
    _projected()
    _noted()


def _desired() -> None:
    flow = ["branch", "dataflow"]
    _table("dataflows", [_key(k) for k in flow], _count("last_number"), _flag("is_live"), clustered=True)
    texts = [_text(t) for t in ("text", "files", "file", "uids", "actor", "request_id")]
    _table("revisions", [*(_key(k) for k in flow), _key("number", sa.BigInteger)], *texts, _time("at"))
    _table("uids", [_key(k) for k in (*flow, "component")], _text("uid"), clustered=True)
    _table("pauses", [_key("branch"), _key("target")], clustered=True)
    texts = [_text(t) for t in ("actor", "request_id", "action", "target", "before", "after")]
    _table("changes", [_key("id", sa.BigInteger)], *texts, _time("at"))
    _table("answers", [_key("key")], _digest("body"), _count("status"), _text("response"), _time("at"))


def _listed() -> None:
    _table("nodes", [_digest_key("digest")], _time("at"), sa.Column("body", sa.LargeBinary, nullable=False))
    if op.get_bind().dialect.name == "postgresql":  # digests do not compress
        op.execute("ALTER TABLE nodes ALTER COLUMN body SET STORAGE EXTERNAL")
    counts = [_count(c) for c in ("objects", "size_bytes", "requested", "served")]
    found = [_digest("root", nullable=True), _time("at", nullable=True)]
    trouble = [_text("error", nullable=True), _text("held", nullable=True)]
    seen = [_digest("digest", nullable=True), _text("columns"), _flag("all_columns")]
    _table("listings", [_digest_key("id")], *found, *counts, *trouble, *seen)
    _table("source_partitions", [_digest_key("listing"), _key("key")], _digest("source"), _text("objects"))


def _settled() -> None:
    dataset = ["branch", "dataset"]
    _table("schemas", [_digest_key("id")], _text("body"))
    _table("heads", [_key(k) for k in dataset], _count("seq"), clustered=True)
    _table(
        "states",
        [*(_key(k) for k in dataset), _key("seq", sa.BigInteger)],
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
        [_key(k) for k in dataset],
        _digest("lineage"),
        _text("inputs"),
        _digest("root"),
        _digest("schema", nullable=True),
        _text("cut"),
        _time("at"),
    )
    _table("marks", [_key("branch"), _key("name")], _count("at"), clustered=True)
    op.create_index("marks_at", "marks", ["namespace", "at"])
    _table("pins", [_key(k) for k in dataset], _digest("settings"), _text("schema"))
    _table("problems", [_key(k) for k in dataset], _text("error"))


def _remembered() -> None:
    content = [_count(c) for c in ("rows", "sum1", "sum2")]
    texts = [_text(t) for t in ("files", "home", "attempt", "status")]
    _table("fragments", [_digest_key("id")], _digest("schema"), *content, *texts)
    op.create_index("fragments_attempt", "fragments", ["namespace", "attempt"])
    _table("traces", [_digest_key("task")], _count("seq"), _text("by"), _text("home"), clustered=True)
    _table("outputs", [_digest_key("task"), _key("suffix")], _digest("fragment"), clustered=True)
    _table("build_traces", [_digest_key("key")], _digest("root"), _digest("schema"), _time("at"), clustered=True)
    _table("memos", [_digest_key("key")], _text("value"))


def _queued() -> None:
    _table("jobs", [_digest_key("digest")], _text("body"))
    _table(
        "tasks",
        [_digest_key("key")],
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
    order = ["rank", "queued_us", "key"]
    op.create_index("tasks_due", "tasks", ["namespace", "state", *order, "kind", "not_before"])
    op.create_index("tasks_batch", "tasks", ["namespace", "job", "dataset", "state", *order])
    _table("demands", [_key("branch"), _key("dataset"), _digest_key("task")], clustered=True)
    op.create_index("demands_task", "demands", ["namespace", "task"])
    work = [_text("dataset"), _text("driver"), _text("kind"), _digest("job"), _text("prefix"), _text("tasks")]
    _table("attempts", [_key("id")], *work, _time("lease_until"), _time("at"))
    times = [_time("at"), _time("seen")]
    _table("drivers", [_key("id")], _text("pool"), _text("kind"), *times, _flag("ended"), _text("reason"))


def _projected() -> None:
    followed = [_count("generation"), _digest("root"), _digest("schema"), _count("version")]
    _table("publications", [_key("branch"), _key("dataset")], *followed, _text("error", nullable=True))
    followed = [_digest("identity"), _digest("root"), _count("generation")]
    _table("targets", [_key("branch"), _key("component")], *followed, _text("error", nullable=True))


def _noted() -> None:
    what = [_text("kind"), _text("dataset"), _count("n"), _text("body"), _time("at")]
    _table("events", [_key("id", sa.BigInteger)], *what)
    texts = [_text(t) for t in ("name", "scopes", "subject")]
    times = [_time("at"), _time("expires", nullable=True)]
    _table("tokens", [_key("id")], _digest("hash"), *texts, *times, _flag("revoked"))
    op.create_index("tokens_hash", "tokens", ["namespace", "hash"], unique=True)
    _table("counters", [_key("name")], _count("value"), clustered=True)
