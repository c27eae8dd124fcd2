"""Branches: made, listed and ended. Making one costs a row; ending one releases data that has no
other reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType

from controlplane.core.compile import redirects
from controlplane.core.errors import (
    BadRedirect,
    BranchExists,
    BranchFollows,
    BranchProtected,
    MainStays,
    NotFound,
)
from controlplane.core.model.answers import BranchAnswer, BranchesAnswer, DropBranchAnswer
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.events import NO_BRANCH, Event
from controlplane.core.model.revisions import Revision
from controlplane.core.name_redaction import HIDDEN
from controlplane.core.rights import may, may_see_part
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.inspect.json_views import instant
from controlplane.operations.planning.snapshot import compile_live, desired
from controlplane.ports.store import Store, Tx

DAY_S = 86_400.0
NO_REDIRECTS: Mapping[str, str] = MappingProxyType({})
KEPT_DAYS = 14.0  # by default, since the branch was made or last edited


def create(
    ctx: Context,
    name: str,
    *,
    source: str = MAIN,
    days: float | None = KEPT_DAYS,
    protected: bool = False,
    redirect: Mapping[str, str] = NO_REDIRECTS,
    pinned: bool = False,
    publish: bool = False,
) -> BranchAnswer:
    """A branch of another one. `days`: None keeps it until it is deleted. `redirect`: where write
    components write to, by component. `pinned`: it sees main as it is now, not what comes there
    later; so does each branch of a pinned one. `publish`: datasets of its own also become Delta
    tables, which go with it. Raises BranchExists, BadRedirect, and NotFound for the source."""
    with ctx.begin() as tx:
        if name == MAIN:
            raise BranchExists(name)
        if source != MAIN:
            _existing_branch(tx, source)
        now = tx.now()
        expires = None if days is None else now + days * DAY_S
        branch = Branch(
            name=name, source=source, at=now, actor=ctx.actor, expires=expires, protected=protected
        )
        branch = replace(
            branch, redirects=_redirects(ctx, tx, branch, redirect), pinned=pinned, publish=publish
        )
        tx.branches.create(branch)
        if source != MAIN:
            branch = tx.branches.all()[name]  # one of a pinned branch is pinned
        settings = {
            "source": source,
            "expires": expires,
            "redirects": dict(branch.redirects),
            "pinned": branch.pinned,
        }
        settings |= {"publish": publish}
        _note(ctx, tx, "branch.create", name, None, settings)
        # One of main begins with nothing of its own
        answer = _branch_answer(branch) if source == MAIN else _shown(ctx, tx, branch)
    ctx.wake()
    return answer


def _redirects(
    ctx: Context, tx: Tx, branch: Branch, requested: Mapping[str, str]
) -> dict[str, str]:
    """The places that copies are redirected to. Raises BadRedirect, also where a place belongs to
    another copy."""
    if not requested:
        return {}
    there = compile_live(tx.blueprints.revisions(branch.source).values(), ctx.namespace)
    targets = redirects.named(there, requested)
    made = replace(branch, redirects=targets, at=inf)  # all others are older
    main, moved = desired(tx, MAIN, namespace=ctx.namespace), redirects.applied(there, made)
    for component, reason in redirects.occupied(
        moved, main, made, tx.branches.all().values()
    ).items():
        raise BadRedirect(component, reason)
    return targets


def listing(ctx: Context) -> BranchesAnswer:
    """All that the actor sees beside main, in order of their names."""
    with ctx.read() as tx:
        visible = [
            b
            for name, b in sorted(tx.branches.all().items())
            if may(ctx.principal, "view", branch=name)
        ]
        return {"items": [_shown(ctx, tx, branch) for branch in visible], "next": None}


def names(ctx: Context) -> list[str]:
    """The names of all branches, main first."""
    with ctx.read() as tx:
        return [MAIN, *sorted(tx.branches.all())]


def own_datasets(tx: Tx, name: str) -> frozenset[str] | None:
    """Those with states of their own in a branch; all others are shared with main. None of main,
    which has all."""
    return None if name == MAIN else tx.branches.own_datasets(name)


def branch_named(ctx: Context, name: str) -> BranchAnswer:
    """A branch, or main, which always exists. Raises NotFound."""
    with ctx.read() as tx:
        return _shown(ctx, tx, _main(tx) if name == MAIN else _existing_branch(tx, name))


def protect(ctx: Context, name: str, *, protected: bool) -> BranchAnswer:
    """Whether a branch, or main, changes by merges alone. Raises NotFound."""
    with ctx.begin() as tx:
        before = _main(tx) if name == MAIN else _existing_branch(tx, name)
        after = replace(before, protected=protected)
        tx.branches.put(after)
        _note(ctx, tx, "branch.protect", name, before.protected, protected)
        return _shown(ctx, tx, after)


def update(ctx: Context, name: str) -> BranchAnswer:
    """Have a pinned branch see main as it is now. Raises NotFound, and BranchFollows."""
    with ctx.begin() as tx:
        branch = _existing_branch(tx, name)
        if not branch.pinned:
            raise BranchFollows(name)
        tx.branches.pin(name)
        shared = _merged(tx, name)
        tx.branches.share_dataflows(name, shared)
        lengthen(tx, name)
        _note(ctx, tx, "branch.update", name, None, {"shared_again": shared})
        answer = _shown(ctx, tx, tx.branches.all()[name])
    ctx.wake()
    return answer


def _merged(tx: Tx, name: str) -> list[str]:
    """Dataflows of a branch that main has just so."""
    flows = tx.branches.own_dataflows(name)
    own, mains = tx.blueprints.revisions(name, flows), tx.blueprints.mains_revisions(name, flows)
    return sorted(flow for flow in flows if _text(own.get(flow)) == _text(mains.get(flow)))


def _text(revision: Revision | None) -> object:
    return None if revision is None else (revision.text, dict(revision.files))


def delete(ctx: Context, name: str) -> DropBranchAnswer:
    """End a branch, its demands and all of its own pointers. Raises NotFound, and
    BranchProtected."""
    with ctx.begin() as tx:
        if _existing_branch(tx, name).protected:
            _override(ctx, tx, name)
        _drop(ctx, tx, name, "branch.delete")
    ctx.wake()
    return {"deleted": name}


def drop_expired(store: Store, namespace: str) -> list[str]:
    """End the branches whose time is over; their names."""
    ctx = Context(store, namespace, actor="loop")
    with store.begin(namespace) as tx:
        now = tx.now()
        over = sorted(
            name
            for name, branch in tx.branches.all().items()
            if branch.expires and branch.expires <= now
        )
        for name in over:
            _drop(ctx, tx, name, "branch.expire")
    return over


def require_editable(ctx: Context, tx: Tx, name: str) -> None:
    """Require that the branch exists and may be edited, and extend its lifetime to that of a new
    branch. Raises NotFound, and BranchProtected."""
    require_there(tx, name)
    if tx.branches.is_protected(name):
        _override(ctx, tx, name)
    lengthen(tx, name)


def _override(ctx: Context, tx: Tx, name: str) -> None:
    """Note the change of a protected branch in the audit. Raises BranchProtected."""
    if not ctx.override or not may(ctx.principal, "admin"):
        raise BranchProtected(name)
    _note(ctx, tx, "branch.override", name, True, True)


def lengthen(tx: Tx, name: str) -> None:
    """Extend a branch that is in use to the lifetime of a new one. Raises NotFound."""
    if name == MAIN:
        return
    branch = _existing_branch(tx, name)
    longer = tx.now() + KEPT_DAYS * DAY_S
    if branch.expires is not None and branch.expires < longer:
        tx.branches.put(replace(branch, expires=longer))


def require_there(tx: Tx, *names: str) -> None:
    """Raises NotFound."""
    for name in names:
        if name != MAIN:
            _existing_branch(tx, name)


def _main(tx: Tx) -> Branch:
    """Main as a branch without an author."""
    return Branch(
        name=MAIN, source=MAIN, at=0.0, actor="", protected=tx.branches.is_protected(MAIN)
    )


def _existing_branch(tx: Tx, name: str) -> Branch:
    if name == MAIN:
        raise MainStays
    branch = tx.branches.all().get(name)
    if branch is None:
        raise no_branch(name)
    return branch


def no_branch(name: str) -> NotFound:
    """That there is none, or none that may be seen."""
    return NotFound(f"there is no branch {name[:80]!r}: headgate branch list")


def _drop(ctx: Context, tx: Tx, name: str, action: str) -> None:
    tx.branches.drop(name)
    _note(ctx, tx, action, name, name, None)


def _shown(ctx: Context, tx: Tx, branch: Branch) -> BranchAnswer:
    is_main = branch.name == MAIN
    flows = tx.blueprints.revisions(MAIN) if is_main else tx.branches.own_dataflows(branch.name)
    datasets = (name for name in tx.branches.own_datasets(branch.name) if ctx.sees(name))
    answer = _branch_answer(
        branch,
        [flow for flow in flows if may_see_part(ctx.principal, flow)],
        sum(1 for _ in datasets),
    )
    answer["redirects"] = {name: path for name, path in branch.redirects.items() if ctx.sees(name)}
    is_seen = branch.source == MAIN or may(ctx.principal, "view", branch=branch.source)
    return answer if is_seen else {**answer, "source": HIDDEN}  # also where the source has ended


def _branch_answer(branch: Branch, flows: Iterable[str] = (), datasets: int = 0) -> BranchAnswer:
    """With the dataflows that are its own, and how many datasets are."""
    is_main = branch.name == MAIN
    return {
        "name": branch.name,
        "source": None if is_main else branch.source,
        "created_at": None if is_main else instant(branch.at),
        "actor": None if is_main else branch.actor,
        "expires_at": None if branch.expires is None else instant(branch.expires),
        "protected": branch.protected,
        "redirects": dict(branch.redirects),
        "pinned": branch.pinned,
        "publish": is_main or branch.publish,
        "dataflows": sorted(flows),
        "datasets": datasets,
    }


def _note(ctx: Context, tx: Tx, action: str, name: str, before: object, after: object) -> None:
    # Of no branch: it outlives this one
    note_change(ctx, tx, action, name, before=before, after=after)
    tx.events.put([Event(action, name, 1, {"actor": ctx.actor}, branch=NO_BRANCH)])
