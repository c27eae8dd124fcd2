"""Feeds: which datasets are offered under a name, with which contract, and to whom.

For administrators: granted data leaves the dataflow, and perhaps the namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from controlplane.core.blueprint import QUARANTINE
from controlplane.core.errors import (
    BadFeed,
    FeedInUse,
    InvalidBlueprint,
    NameTaken,
    NotFound,
    Problem,
)
from controlplane.core.model import namespaces
from controlplane.core.model.answers.feeds import (
    FeedColumn,
    FeedEntry,
    FeedGrantEntry,
    FeedReader,
    OfferedFeed,
)
from controlplane.core.model.branches import MAIN
from controlplane.core.model.feeds import DATAFLOWS, FEED_NAME, Feed, FeedAddress, FeedGrant
from controlplane.core.schema.contracts import breaches, broken_promises
from controlplane.core.schema.ddl_schemas import InvalidSchema, parse_ddl, types
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired.namespaces import names
from controlplane.operations.feeds import readers
from controlplane.operations.feeds.offers import Offer, offer
from controlplane.operations.feeds.readers import ReadComponent
from controlplane.operations.inspect.time_travel import state_of
from controlplane.ports.store import Tx
from dataplane.contract.schemas import Schema
from dataplane.contract.types import in_words


def create(ctx: Context, name: str, dataset: str, columns: str | None = None) -> FeedEntry:
    """Offer a dataset of main that has data, granted to no namespace yet. `columns`: the contract
    as DDL, all present columns by default. Raises BadFeed, NameTaken, NotFound."""
    if not FEED_NAME.fullmatch(name):
        raise BadFeed(
            f"{name[:100]!r} is no name of a feed; write lower-case letters, digits and _, such as orders"
        )
    with ctx.begin() as tx:
        if tx.feeds.get(name) is not None:
            raise NameTaken(
                f"there is a feed {name}; choose another name, or delete that one first"
            )
        _require_declared(tx, dataset)
        state = state_of(tx, MAIN, dataset)
        contract = state.schema if columns is None else _contract(columns, state.schema, dataset)
        feed = Feed(name, dataset, contract, ctx.actor, tx.now())
        tx.feeds.put(feed)
        note_change(
            ctx, tx, "feed.create", name, after={"dataset": dataset, "columns": _columns(contract)}
        )
    return show(ctx, name)


def change(ctx: Context, name: str, columns: str | None = None) -> FeedEntry:
    """Promise more: the columns that the dataset has now, or these, as DDL. Readers go on, also
    those that waited because it broke the earlier contract. Raises NotFound, and BadFeed where the
    new contract takes something away."""
    with ctx.begin() as tx:
        feed = _feed_named(tx, name)
        state = state_of(tx, MAIN, feed.dataset)
        contract = (
            state.schema if columns is None else _contract(columns, state.schema, feed.dataset)
        )
        lost = broken_promises(feed.columns, contract)
        if lost:
            raise BadFeed(
                f"feed {name} promises more than that: {'; '.join(lost)}. A contract takes further columns and wider "
                "types; bring these back, or offer the dataset as another feed, and end this one once it has no readers"
            )
        if contract != feed.columns:
            tx.feeds.put(replace(feed, columns=contract))
            before, after = _columns(feed.columns), _columns(contract)
            note_change(
                ctx, tx, "feed.change", name, before={"columns": before}, after={"columns": after}
            )
        grants = tx.feeds.grants(name)
    _wake(ctx, grants)
    return show(ctx, name)


def _require_declared(tx: Tx, dataset: str) -> None:
    """Rows of a deleted dataflow are kept for a while, without upkeep: they are no dataset to
    offer."""
    flow, _, name = dataset.removesuffix(QUARANTINE).partition(".")
    revision = tx.blueprints.revisions(MAIN, [flow]).get(flow)
    if revision is None or name not in revision.uids:
        raise NotFound(f"main has no dataset {dataset}")


def _contract(text: str, schema: Schema, dataset: str) -> Schema:
    try:
        contract = parse_ddl(text)
    except InvalidSchema as e:
        raise BadFeed(f"{e}; write columns and types, such as id BIGINT, name STRING") from e
    broken = breaches(contract, schema)
    if broken:
        raise BadFeed(
            f"{dataset} does not keep this contract now: {'; '.join(broken)}; leave these columns out"
        )
    return contract


def delete(ctx: Context, name: str) -> None:
    """Delete a feed without readers. Raises NotFound, FeedInUse."""
    with ctx.read() as tx:
        grants = tx.feeds.grants(_feed_named(tx, name).name)
    _require_unread(ctx, name, grants)
    with ctx.begin() as tx:
        feed = _feed_named(tx, name)
        granted = [_grant_entry(feed_grant) for feed_grant in tx.feeds.grants(name)]
        tx.feeds.drop(name)
        note_change(
            ctx, tx, "feed.delete", name, before={"dataset": feed.dataset, "grants": granted}
        )
    _wake(ctx, grants)


def _require_unread(ctx: Context, name: str, grants: Sequence[FeedGrant]) -> None:
    feed_readers = _shown_readers(
        ctx, readers.of_feed(ctx.store, FeedAddress(ctx.namespace, name), grants)
    )
    if not feed_readers:
        return
    shown = ", ".join(_reader_in_words(reader) for reader in feed_readers[:10])
    rest = f" and {len(feed_readers) - 10} more" if len(feed_readers) > 10 else ""
    raise FeedInUse(
        f"feed {name} is read by {shown}{rest}; take it out of their blueprints first, or take their grants away "
        f"(headgate feed revoke {name} NAMESPACE): then they keep what they have, and get nothing new"
    )


def _reader_in_words(reader: FeedReader) -> str:
    if reader["dataset"] is None:
        return f"namespace {reader['namespace']}"
    return (
        reader["dataset"]
        if reader["branch"] == MAIN
        else f"{reader['dataset']} (branch {reader['branch']})"
    )


def grant(ctx: Context, name: str, namespace: str, dataflows: str = "*") -> FeedEntry:
    """Let dataflows of a namespace read a feed. Raises NotFound, BadFeed. The answer does not
    reveal whether the namespace exists."""
    with ctx.begin() as tx:
        _feed_named(tx, name)
        _check_grant(namespace, dataflows)
        feed_grant = FeedGrant(name, namespace, dataflows, ctx.actor, tx.now())
        tx.feeds.put_grant(feed_grant)
        note_change(
            ctx, tx, "feed.grant", name, after={"namespace": namespace, "dataflows": dataflows}
        )
    _wake(ctx, [feed_grant])
    return show(ctx, name)


def revoke(ctx: Context, name: str, namespace: str, dataflows: str | None = None) -> FeedEntry:
    """Take grants of a namespace away: that with this pattern, or all of them. Readers keep what
    they have. Raises NotFound."""
    with ctx.begin() as tx:
        _feed_named(tx, name)
        feed_grants = [
            feed_grant for feed_grant in tx.feeds.grants(name) if feed_grant.namespace == namespace
        ]
        feed_grants = [
            feed_grant for feed_grant in feed_grants if dataflows in (None, feed_grant.dataflows)
        ]
        if not feed_grants:
            raise NotFound(
                f"feed {name} is not granted so; `headgate feed show {name}` has its grants"
            )
        for feed_grant in feed_grants:
            tx.feeds.drop_grant(feed_grant)
            note_change(
                ctx,
                tx,
                "feed.revoke",
                name,
                before={"namespace": namespace, "dataflows": feed_grant.dataflows},
            )
    _wake(ctx, feed_grants)
    return show(ctx, name)


def _check_grant(namespace: str, dataflows: str) -> None:
    if not namespaces.is_name(namespace):
        raise BadFeed(f"{namespace[:100]!r} is no name of a namespace, such as team-a")
    if not DATAFLOWS.fullmatch(dataflows):
        raise BadFeed(
            f"{dataflows[:100]!r} names no dataflows; write a name, or a pattern such as sales* or *"
        )


def listing(ctx: Context) -> list[FeedEntry]:
    """All feeds of the namespace, by name."""
    with ctx.read() as tx:
        offers, granted = [offer(tx, feed) for feed in tx.feeds.all()], tx.feeds.grants()
    grants = {
        feed_offer.feed.name: [grant for grant in granted if grant.feed == feed_offer.feed.name]
        for feed_offer in offers
    }
    readers_by_feed = readers.of_feeds(ctx.store, ctx.namespace, grants)
    return [
        _shown(ctx, feed_offer, grants[feed_offer.feed.name], readers_by_feed[feed_offer.feed.name])
        for feed_offer in offers
    ]


def show(ctx: Context, name: str) -> FeedEntry:
    """Raises NotFound."""
    with ctx.read() as tx:
        offered, grants = offer(tx, _feed_named(tx, name)), tx.feeds.grants(name)
    return _shown(
        ctx, offered, grants, readers.of_feed(ctx.store, FeedAddress(ctx.namespace, name), grants)
    )


def offered(ctx: Context) -> list[OfferedFeed]:
    """Feeds that dataflows of this namespace may read, of all namespaces, by namespace and name."""
    feeds: list[OfferedFeed] = []
    for namespace in names(ctx.store):
        with ctx.store.read(namespace) as tx:
            mine = [
                feed_grant
                for feed_grant in tx.feeds.grants()
                if feed_grant.namespace == ctx.namespace
            ]
            for name in sorted({feed_grant.feed for feed_grant in mine}):
                feed = tx.feeds.get(name)
                if feed is not None:
                    patterns = [
                        feed_grant.dataflows for feed_grant in mine if feed_grant.feed == name
                    ]
                    feeds.append(_offered(namespace, offer(tx, feed), patterns))
    return sorted(feeds, key=lambda feed_grant: (feed_grant["namespace"], feed_grant["feed"]))


def require_kept(
    tx: Tx, before: Iterable[str], after: Iterable[str], files: Mapping[str, str]
) -> None:
    """Raises InvalidBlueprint if a dataset of main would go that a feed offers. `before`, `after`:
    datasets of main. `files`: those of blueprints, by dataflow."""
    removed = set(before) - set(after)
    if not removed:
        return
    problems = [_offered_by(feed, files) for feed in tx.feeds.all() if feed.dataset in removed]
    if problems:
        raise InvalidBlueprint(tuple(problems))


def _offered_by(feed: Feed, files: Mapping[str, str]) -> Problem:
    message = f"{feed.dataset} is offered as feed {feed.name}"
    hint = f"delete the feed first (headgate feed delete {feed.name}), which names who reads it"
    return Problem(
        files.get(feed.dataset.partition(".")[0], ""), 0, 0, "offered-by-feed", message, hint
    )


# --- pieces ---------------------------------------------------------------------------------------


def _feed_named(tx: Tx, name: str) -> Feed:
    feed = tx.feeds.get(name)
    if feed is None:
        raise NotFound(f"there is no feed {name[:100]}; `headgate feed list` has them")
    return feed


def _wake(ctx: Context, grants: Sequence[FeedGrant]) -> None:
    ctx.wake()
    for namespace in {feed_grant.namespace for feed_grant in grants} - {ctx.namespace}:
        ctx.wake_of(namespace)


def _shown_readers(ctx: Context, reading: Iterable[ReadComponent]) -> list[FeedReader]:
    """The readers of a feed. Another namespace is shown by its name alone, without its datasets."""
    shown_readers: list[FeedReader] = []
    for reader in reading:
        is_own = reader.namespace == ctx.namespace
        shown: FeedReader = {
            "namespace": reader.namespace,
            "branch": reader.branch if is_own else None,
            "dataset": reader.dataset if is_own else None,
        }
        if shown not in shown_readers:
            shown_readers.append(shown)
    return shown_readers


def _shown(
    ctx: Context, offered: Offer, grants: Sequence[FeedGrant], reading: Iterable[ReadComponent]
) -> FeedEntry:
    feed = offered.feed
    return {
        "name": feed.name,
        "dataset": feed.dataset,
        "columns": _columns(feed.columns),
        "by": feed.actor,
        "at": feed.at,
        "generation": offered.state.generation if offered.state else None,
        "newest": offered.newest.generation if offered.newest else None,
        "breaches": list(offered.breaches),
        "grants": [_grant_entry(feed_grant) for feed_grant in grants],
        "readers": _shown_readers(ctx, reading),
    }


def _offered(namespace: str, offered: Offer, patterns: list[str]) -> OfferedFeed:
    return {
        "namespace": namespace,
        "feed": offered.feed.name,
        "dataflows": patterns,
        "columns": _columns(offered.feed.columns),
        "generation": offered.state.generation if offered.state else None,
        "breaches": list(offered.breaches),
    }


def _columns(schema: Schema) -> list[FeedColumn]:
    return [{"name": name, "type": in_words(kind)} for name, kind in types(schema).items()]


def _grant_entry(feed_grant: FeedGrant) -> FeedGrantEntry:
    return {
        "namespace": feed_grant.namespace,
        "dataflows": feed_grant.dataflows,
        "by": feed_grant.actor,
        "at": feed_grant.at,
    }
