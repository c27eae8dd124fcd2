"""Namespaces: made, listed and deleted by administrators of the installation, who are those of
`default`.

A namespace begins with a token for its first administrator. The name of a deleted one is never
reused: references that other processes and clients still hold must not change their meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from controlplane.core.errors import (
    BadNamespace,
    NamespaceInUse,
    NameTaken,
    NotAdministered,
    NotFound,
)
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers.namespaces import NamespaceEntry
from controlplane.core.model.branches import MAIN
from controlplane.core.model.namespaces import DEFAULT, Namespace
from controlplane.core.rights import EVERYWHERE, TokenScope
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx


def names(store: Store) -> list[str]:
    """All there are, `default` first."""
    with store.read() as tx:
        return [
            DEFAULT,
            *(namespace.name for namespace in tx.namespaces.all() if namespace.ended is None),
        ]


def create(ctx: Context, name: str) -> NamespaceEntry:
    """An empty one. Raises NotAdministered, BadNamespace, NameTaken."""
    _require(ctx)
    if not namespaces.is_name(name):
        raise BadNamespace(
            f"a namespace cannot be called {name[:100]!r}: it needs {namespaces.SHORTEST} to {namespaces.LONGEST} "
            "lower-case letters, digits and single hyphens, the first one a letter, such as team-a"
        )
    with ctx.store.begin() as tx:
        namespace = _find(tx, name)
        if namespace is not None and namespace.ended is not None:
            raise NameTaken(
                f"there was a namespace {name}, and names are not given again; choose another one"
            )
        if namespace is not None or name == DEFAULT:
            raise NameTaken(
                f"there is a namespace {name}; choose another name, or make a token in that one"
            )
        made = Namespace(name, ctx.actor, tx.now())
        tx.namespaces.put(made)
        note_change(ctx, tx, "namespace.create", name, after={"name": name})
    ctx.wake()  # the loop begins to serve it
    return _entry(ctx.store, made)


def listing(ctx: Context) -> list[NamespaceEntry]:
    """All of them for administrators of the installation, `default` first. Raises
    NotAdministered."""
    _require(ctx)
    with ctx.store.read() as tx:
        current = [namespace for namespace in tx.namespaces.all() if namespace.ended is None]
    return [_entry(ctx.store, namespace) for namespace in (Namespace(DEFAULT, "", 0.0), *current)]


def show(ctx: Context, name: str) -> NamespaceEntry:
    """One of them. Raises NotAdministered, NotFound."""
    _require(ctx)
    with ctx.store.read() as tx:
        return _entry(ctx.store, _current_namespace(tx, name))


def delete(ctx: Context, name: str, lake: ObjectStore) -> None:
    """End one without dataflows: its tokens, keys, audit and events, and the remains of its
    dataflows in the lake. Raises NotAdministered, NotFound, NamespaceInUse."""
    _require(ctx)
    if name == DEFAULT:
        raise NamespaceInUse("default is the namespace of the installation itself, and stays")
    with ctx.store.begin() as tx:
        namespace = _current_namespace(tx, name)
        if tx.namespaces.is_in_use(name):
            raise NamespaceInUse(
                f"namespace {name} is in use: delete its dataflows and branches with a token of it (headgate delete, "
                "headgate branch delete), and try again once no work is under way"
            )
        tx.namespaces.empty(name)
        tx.namespaces.put(replace(namespace, ended=tx.now()))
        note_change(ctx, tx, "namespace.delete", name, before={"name": name})
    lake.delete_prefix(name)
    ctx.wake()


def create_token(
    ctx: Context,
    namespace: str,
    name: str,
    scopes: Sequence[str],
    *,
    ttl_s: float | None = None,
    within: TokenScope = EVERYWHERE,
) -> tuple[str, Token]:
    """As `tokens.create`, for another namespace than the caller's. Raises NotAdministered,
    NotFound, NameTaken."""
    if namespace == ctx.namespace:
        return tokens.create(ctx, name, scopes, ttl_s=ttl_s, is_unique=True, within=within)
    _require(ctx)
    with ctx.store.read() as tx:
        _current_namespace(tx, namespace)
    theirs = replace(ctx, namespace=namespace)
    text, token = tokens.create(theirs, name, scopes, ttl_s=ttl_s, is_unique=True, within=within)
    with ctx.store.begin() as tx:
        note_change(
            ctx,
            tx,
            "namespace.token",
            namespace,
            after={"name": name, "scopes": list(scopes), "id": token.id},
        )
    return text, token


def _require(ctx: Context) -> None:
    """Require a token of namespace `default`, which administers all namespaces. The routes have
    checked the permission."""
    if ctx.namespace != DEFAULT:
        raise NotAdministered(
            "namespaces are made and seen by administrators of the installation: use a token of theirs"
        )


def _find(tx: Tx, name: str) -> Namespace | None:
    return next((namespace for namespace in tx.namespaces.all() if namespace.name == name), None)


def _current_namespace(tx: Tx, name: str) -> Namespace:
    namespace = Namespace(DEFAULT, "", 0.0) if name == DEFAULT else _find(tx, name)
    if namespace is None or namespace.ended is not None:
        raise NotFound(f"there is no namespace {name[:100]}; `headgate namespace list` has them")
    return namespace


def _entry(store: Store, namespace: Namespace) -> NamespaceEntry:
    with store.read(namespace.name) as tx:
        return {
            "name": namespace.name,
            "by": namespace.actor,
            "at": namespace.at,
            "dataflows": len(tx.blueprints.revisions(MAIN)),
            "branches": len(tx.branches.all()),
            "tasks": sum(tx.queue.backlog().values()),
            "drivers": len(tx.drivers.running()),
        }
