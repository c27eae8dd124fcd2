"""Spark Connect sessions: which datasets one shows, whose it is, and how it ends.

What a session shows is as of the moment when it was opened.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from controlplane.core.errors import GenerationGone, HeadgateError, NotFound, QueryLimit
from controlplane.core.model import addresses
from controlplane.core.model.addresses import Moment
from controlplane.core.model.answers.spark_sessions import NewSparkSessionAnswer, SparkSessionEntry
from controlplane.core.model.dataset_names import DATASET_NAME
from controlplane.core.model.reads import RecordedRead
from controlplane.core.model.states import State
from controlplane.core.rights import may
from controlplane.operations import known_fragments
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, tokens
from controlplane.operations.inspect import time_travel
from controlplane.ports.store import Store, Tx
from controlplane.services.sessions.port import NoServers, SessionNote, SparkServers
from dataplane.contract.query_protocol import SparkTable

MOST_VIEWS = 200
TOO_MANY = "{n} datasets are meant, and a session shows {most} at most: name those that you need, as in {example}"
PYTHON = (
    'from pyspark.sql import SparkSession\n\nspark = SparkSession.builder.remote("{url}").create()'
)
NAME = re.compile(DATASET_NAME)


@dataclass(frozen=True, slots=True)
class SparkSessions:
    """Those of one kind of servers, which know the live sessions. Safe to use from many threads."""

    servers: SparkServers = field(default_factory=NoServers)

    def of(self, namespace: str) -> list[SparkSessionEntry]:
        return [note.entry for note in self.servers.notes() if note.namespace == namespace]

    def is_open(self, id: str) -> bool:
        return self.servers.is_alive(id)

    def end(self, id: str) -> None:
        self.servers.end(id)


def end_without_token(store: Store, sessions: SparkSessions) -> None:
    """Those whose token has ended, of any process. What keeps one from being ended
    keeps no other."""
    for note in sessions.servers.notes():
        if not tokens.is_live(store, note.token):
            with suppress(HeadgateError):
                sessions.end(note.entry["id"])


def begin(
    ctx: Context,
    sessions: SparkSessions,
    branch: str,
    patterns: Sequence[str],
    at: Moment | None,
    ttl_s: float,
    *,
    token: str,
) -> NewSparkSessionAnswer:
    """A session of one's own. `wanted`: `shop.orders`, `shop.orders@12`, or a pattern such as
    `shop.*`; nothing for all datasets with data. `token`: the id of the token that it ends with.

    Raises NotFound, GenerationGone, QueryLimit, QueriesBusy, EngineUnavailable.
    """
    with ctx.read() as tx:
        branches.require_there(tx, branch)
        states = dict(_states(ctx, tx, branch, patterns, at))
        tables = [_table(tx, name, state) for name, state in states.items()]
    made = time.time()
    entry: SparkSessionEntry = {
        "id": secrets.token_hex(8),
        "branch": branch,
        "by": ctx.actor,
        "at": made,
        "expires": made + ttl_s,
        "views": [{"name": name, "generation": state.generation} for name, state in states.items()],
    }
    server = sessions.servers.open(SessionNote(ctx.namespace, token, entry), tables, ttl_s)
    try:
        _note(ctx, branch, entry["id"], states)
    except BaseException:  # no read without its entry in the audit
        sessions.servers.end(entry["id"])
        raise
    return {
        **entry,
        "url": server.url,
        "python": PYTHON.format(url=server.url),
        "forward": server.forward or None,
    }


def _note(ctx: Context, branch: str, id: str, states: Mapping[str, State]) -> None:
    """Note the session and its datasets in the audit, before its address is given out."""
    with ctx.begin() as tx:
        note_change(ctx, tx, "spark-session.open", id, after={"views": list(states)}, branch=branch)
        at = tx.now()
        tx.audit.put_reads(
            [
                RecordedRead(
                    ctx.actor,
                    ctx.request_id,
                    "spark-session",
                    branch=branch,
                    dataset=state.dataset,
                    at=at,
                    what={"generation": state.generation, "view": name},
                )
                for name, state in states.items()
            ]
        )


def listing(ctx: Context, sessions: SparkSessions) -> list[SparkSessionEntry]:
    """The caller's, or all of the namespace for an administrator."""
    return [entry for entry in sessions.of(ctx.namespace) if _is_ones_own(ctx, entry)]


def end(ctx: Context, sessions: SparkSessions, id: str) -> None:
    """Raises NotFound."""
    session = next((entry for entry in listing(ctx, sessions) if entry["id"] == id), None)
    if session is None:
        raise NotFound(f"there is no Spark session {id} that you may end")
    sessions.end(id)
    with ctx.begin() as tx:
        note_change(
            ctx, tx, "spark-session.end", id, before={"by": session["by"]}, branch=session["branch"]
        )


def _is_ones_own(ctx: Context, entry: SparkSessionEntry) -> bool:
    return entry["by"] == ctx.actor or may(ctx.principal, "admin")


# --- views --------------------------------------------------------------------------------------


def _states(
    ctx: Context, tx: Tx, branch: str, patterns: Sequence[str], at: Moment | None
) -> Iterator[tuple[str, State]]:
    """By the names of their views. Patterns stand for the datasets that had data at the requested
    time."""
    newest = tx.states.newest(branch)
    readable = [name for name in newest if may(ctx.principal, "data", dataset=name, branch=branch)]
    names = list(dict.fromkeys(_named(patterns, readable)))
    if len(names) > MOST_VIEWS:
        example = f"headgate connect {readable[0]}"
        raise QueryLimit(TOO_MANY.format(n=len(names), most=MOST_VIEWS, example=example))
    for name in names:
        dataset, _, point = name.partition("@")
        if not NAME.fullmatch(dataset):
            raise NotFound(
                f"{name!r} names no dataset: write shop.orders, shop.orders@12 or shop.*"
            )
        if at is None and not point and dataset in newest:
            yield name, newest[dataset]
            continue
        try:
            yield (
                name,
                time_travel.state_of(
                    tx, branch, dataset, addresses.point_of(point) if point else at
                ),
            )
        except (NotFound, GenerationGone):
            if name in patterns:
                raise


def _named(patterns: Iterable[str], readable: Sequence[str]) -> Iterator[str]:
    for name in patterns or ("*",):
        if "*" in name:
            yield from (dataset for dataset in readable if fnmatchcase(dataset, name))
        else:
            yield name


def _table(tx: Tx, name: str, state: State) -> SparkTable:
    paths = known_fragments.paths(tx, state.root)
    return {"view": f"`{name}`", "name": name, "files": paths, "schema": state.schema}
