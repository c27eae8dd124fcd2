"""Values to store. Digests are told apart by number: `d(7)`."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

from controlplane.core.model.access import Token
from controlplane.core.model.alerts import Alert, Message
from controlplane.core.model.branches import Branch
from controlplane.core.model.browser_sessions import BrowserSession
from controlplane.core.model.drivers import Driver
from controlplane.core.model.event_times import EventTimes, PartitionTime
from controlplane.core.model.events import Event
from controlplane.core.model.feeds import Feed, FeedGrant
from controlplane.core.model.holds import Hold
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.links import Link
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.model.projections import Publication, Target
from controlplane.core.model.reads import RecordedRead
from controlplane.core.model.revisions import AuditedChange, Revision
from controlplane.core.model.shares import SharedTable, ShareRow
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import Consumed, PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.model.trust import TrustRule
from controlplane.core.rights import NamedRole, TokenScope
from dataplane.contract.identity import Content
from dataplane.contract.jobs import AlertItem
from dataplane.contract.kinds import placement_of
from dataplane.contract.results import FileEntry, TaskError
from dataplane.contract.schemas import Schema

SCHEMA: Schema = {
    "type": "struct",
    "fields": [{"name": "größe `x`", "type": "long", "nullable": True, "metadata": {}}],
}
ODD_KEYS = ("", "a/b=c d'\"`\\", "日本語 🛩", "%2F_.", "k" * 1024, "é" * 512, "new\nline\ttab")


def d(number: int) -> bytes:
    return sha256(str(number).encode()).digest()


def error(message: str = "bad \x00 row 🛩") -> TaskError:
    return TaskError(
        kind="user",
        condition="DIVIDE_BY_ZERO",
        sqlstate="22012",
        message=message,
        file="flow.yaml",
        line=3,
        column=None,
        detail="at\n  here",
    )


def branch(name: str = "dev", **other: Any) -> Branch:
    made = Branch(name=name, source="main", at=17.25, actor="ann", expires=99.5)
    return replace(made, **other)


def revision(number: int = 1, dataflow: str = "flights", **other: Any) -> Revision:
    made = Revision(
        branch="main",
        dataflow=dataflow,
        number=number,
        text=f"dataflow: {dataflow} # {number}\n",
        files={"q.sql": "SELECT 'é'"},
        file="flights.yaml",
        uids={"daily": "u1"},
        actor="ann",
        request_id="r-1",
        at=17.25,
    )
    return replace(made, **other)


def change(action: str, branch: str = "main") -> AuditedChange:
    return AuditedChange("ann", "r-1", action, "flights", None, {"revision": 1}, 5.5, branch=branch)


TIMES = EventTimes("at", (PartitionTime(0, 2**50, 17), PartitionTime(11, -3, 0)), 4)


def state(seq: int, dataset: str = "flights.daily", **other: Any) -> State:
    made = State(
        branch="main",
        dataset=dataset,
        seq=seq,
        generation=seq,
        logic=d(1),
        inputs={"raw": Consumed("flights.raw", d(2), d(3), TIMES, -7)},
        root=d(100 + seq),
        schema=SCHEMA,
        cut={"flights.raw": d(2)},
        partitions=365,
        rows=2**40,
        cause="input",
        revision=1,
        at=1e9 + seq / 8,
        lineage=d(7),
    )
    return replace(made, **other)


def hold(dataset: str = "flights.daily", **other: Any) -> Hold:
    made = Hold(
        branch="main", dataset=dataset, seq=3, generation=1, actor="ann", at=17.25, reason="zu früh"
    )
    return replace(made, **other)


def building(dataset: str = "flights.weekly", **other: Any) -> PartialState:
    made = PartialState(
        "main",
        dataset,
        d(8),
        {"daily": Consumed("flights.daily", d(2), d(3), None, 9)},
        d(9),
        SCHEMA,
        {},
    )
    return replace(made, **other)


def unfinished(dataset: str = "flights.weekly", **other: Any) -> UnfinishedRun:
    return replace(
        UnfinishedRun(
            "main", dataset, d(8), {"daily": 3}, {"flights.raw": d(2), "flights.é/salt": b"1 0"}
        ),
        **other,
    )


def fragment(number: int, **other: Any) -> Fragment:
    content = Content(number, 2**64 - 1 - number, 2**63 + number)
    file = FileEntry(
        path=f"default/flights/daily/_frags/aa/{number}.parquet",
        size=2**33,
        rows=number,
        stats={"é": 1.5},
    )
    made = Fragment(d(number), SCHEMA, content, (file,), "flights.daily", f"attempt-{number}")
    return replace(made, **other)


def trace(task: int, *fragments: int, **other: Any) -> Trace:
    outputs = {str(i) if i else "": d(n) for i, n in enumerate(fragments)}
    return replace(Trace(d(task), outputs, home="flights.daily"), **other)


def task(number: int, **other: Any) -> Task:
    made = Task(
        key=d(number),
        kind="transform",
        dataset="flights.daily",
        partition=f"2013-{number}.csv",
        job=d(0),
        spec={"slots": {"raw": ["ff"]}},
        size_bytes=10,
    )
    kind = other.get("kind", made.kind)
    return replace(made, **{"placement": placement_of(kind), **other})


def stored_job(**fields: object) -> StoredJob:
    """As much of a job as a test is about."""
    return cast("StoredJob", fields)


def past(id: str, **other: Any) -> PastAttempt:
    made = PastAttempt(
        id=id,
        branch="main",
        kind="transform",
        dataset="flights.daily",
        partition="2013-é.csv",
        driver="driver-1",
        queued_at=1e9,
        started_at=1e9 + 1,
        ended_at=1e9 + 3,
        seconds=1.5,
        outcome="done",
        tasks=2,
        done=2,
        failed=0,
        rows=10,
        bytes_written=2**40,
        bytes_read=2**41,
        spark_jobs=3,
        spark_stages=5,
        spark_ui="http://127.0.0.1:4040",
        event_log=None,
        error=None,
    )
    return replace(made, **other)


def listing(number: int = 1, **other: Any) -> Listing:
    return replace(Listing(d(number), d(9), 12.5, objects=3, size_bytes=2**50), **other)


def source_partition(key: str, number: int = 1) -> SourcePartition:
    found = {
        "name": key,
        "uri": f"file:///{key}",
        "size": 5,
        "modified_ms": 7,
        "version": "sha256:aa",
        "columns": None,
    }
    return SourcePartition(key, d(number), (found,))  # type: ignore[arg-type]  # a dict of the right shape


def driver(name: str, **other: Any) -> Driver:
    return replace(Driver(name, "local", "driver", 1.5, 2.5), **other)


def publication(generation: int, dataset: str = "flights.daily") -> Publication:
    return Publication("main", dataset, generation, d(1), d(2), generation - 1)


def target(component: str, generation: int = 1) -> Target:
    return Target("main", component, d(1), d(2), generation, error())


def event(kind: str, n: int = 1, branch: str = "main") -> Event:
    return Event(kind, "flights.daily", n, {"task": "ff", "é": [1, None]}, branch=branch)


def token(name: str, **other: Any) -> Token:
    made = Token(
        name, sha256(name.encode()).digest(), "laptop", ("admin", "driver"), "ann", 3.5, 9.5
    )
    return replace(made, **other)


def link(id: str, **other: Any) -> Link:
    made = Link(
        id,
        "token",
        "ann",
        branch="main",
        dataset="flights.a",
        format="csv",
        compression=None,
        point="12",
        partition="a/b=ü",
        columns=("größe `x`", "b"),
        where="k > 'ü\0'",
        limit=7,
        at=3.5,
        expires=9.5,
    )
    return replace(made, **other)


def share(name: str, **other: Any) -> ShareRow:
    return replace(ShareRow(name, f"id of {name}", "ann", 3.5), **other)


def shared_table(name: str, share: str = "a", **other: Any) -> SharedTable:
    made = SharedTable(
        share, "shop", name, branch="main", dataset="flights.a", has_history=True, at=3.5
    )
    return replace(made, **other)


def feed(name: str, **other: Any) -> Feed:
    return replace(Feed(name, "flights.a", SCHEMA, "ann", 3.5), **other)


def feed_grant(feed: str, namespace: str = "team-a", dataflows: str = "*") -> FeedGrant:
    return FeedGrant(feed, namespace, dataflows, "ann", 4.5)


def role(name: str, **other: Any) -> NamedRole:
    within = TokenScope(dataflows=("sales_*",), branches=("main",))
    return replace(
        NamedRole(name, frozenset({"view", "operate"}), within, actor="ann", at=3.5), **other
    )


def trust_rule(name: str, **other: Any) -> TrustRule:
    made = TrustRule(
        name,
        f"id of {name}",
        "exchange",
        "https://token.example.com",
        "https://headgate.example.com",
        {"repository": ("acme/flöws",), "ref": ("refs/heads/main", "refs/tags/*")},
        ("view", "operate"),
        TokenScope(dataflows=("sales_*",), branches=("main",)),
        ttl_s=3600.0,
        actor="ann",
        at=3.5,
    )
    return replace(made, **other)


def read(dataset: str = "flights.a", branch: str = "main", **fields: Any) -> RecordedRead:
    made = RecordedRead(
        "ann ü",
        "r1",
        "records",
        branch,
        dataset,
        3.5,
        what={"generation": 3, "partition": None, "é": ["ü"]},
    )
    return replace(made, **fields)


def browser_session(number: int, **other: Any) -> BrowserSession:
    fields = {"token": "t", "kind": "session", "at": 1000.0, "seen": 1000.0, "ends": 2000.0}
    return BrowserSession(d(number), **{**fields, **other})


def alert(dataset: str = "flights.a", branch: str = "main", **fields: Any) -> Alert:
    return replace(Alert(branch, dataset, "failed", 1.0, text="no nümber\0"), **fields)


def message(id: str = "m", branch: str = "main", **fields: Any) -> Message:
    items: tuple[AlertItem, ...] = (
        {"dataset": "flights.a", "occasion": "failed", "since": "now", "text": "\0"},
    )
    return replace(Message(id, branch, "flights", "hook", items=items, due=2.0), **fields)
