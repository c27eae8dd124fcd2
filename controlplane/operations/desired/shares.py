"""Shares: which datasets are given to others through Delta Sharing, and under which names."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from controlplane.core.errors import BadScope, NameTaken, NotFound
from controlplane.core.model.access import Token
from controlplane.core.model.answers.shares import SharedTableEntry, ShareEntry
from controlplane.core.model.branches import MAIN
from controlplane.core.model.shares import NAME, SHARE_NAME, SharedTable, ShareRow
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.request_body import BranchName, DatasetName, RequestBody
from controlplane.ports.store import Tx

TABLE = rf"^{NAME}\.{NAME}$"  # by the names that recipients know
SCOPE = "share:"  # starts the scopes of recipients' tokens; the share's id follows


def create(ctx: Context, name: str) -> ShareEntry:
    """A share without datasets. Raises NameTaken, BadScope."""
    _check(name, "share")
    with ctx.begin() as tx:
        if any(share.name == name for share in tx.shares.all()):
            raise NameTaken(
                f"there is a share {name}; choose another name, or add datasets to that one"
            )
        share = ShareRow(name, uuid.uuid4().hex, ctx.actor, tx.now())
        tx.shares.put(share)
        note_change(ctx, tx, "share.create", share.name, after={"name": name})
        return _shown(tx, share)


def delete(ctx: Context, name: str) -> None:
    """Delete a share: its recipients read nothing from now on. Raises NotFound."""
    with ctx.begin() as tx:
        share = share_named(tx, name)
        before = [_entry(table) for table in tx.shares.tables(share.id)]
        tx.shares.drop(share)
        note_change(ctx, tx, "share.delete", share.name, before={"name": name, "tables": before})


@dataclass(frozen=True, slots=True)
class NewTable(RequestBody):
    """A dataset for a share. `as`: how recipients name it, `schema.table`; `history`: with its
    earlier generations."""

    dataset: DatasetName
    alias: Annotated[str | None, Field(alias="as", pattern=TABLE)] = None
    branch: BranchName = MAIN
    history: bool = False


def add(ctx: Context, name: str, new: NewTable) -> ShareEntry:
    """Add a dataset that has data to a share, under its own name if it has no alias. Raises
    NotFound, NameTaken where the share has another dataset under this name, BadScope for an invalid
    name."""
    schema, _, table = (new.alias or new.dataset).partition(".")
    _check(schema, "schema")
    _check(table, "table")
    with ctx.begin() as tx:
        share = share_named(tx, name)
        state_of(tx, new.branch, new.dataset)
        added = SharedTable(
            share.id,
            schema,
            table,
            branch=new.branch,
            dataset=new.dataset,
            has_history=new.history,
            at=tx.now(),
        )
        before = _find(tx, share, f"{schema}.{table}")
        if before is not None and (before.branch, before.dataset) != (new.branch, new.dataset):
            conflict = f"{name} has {before.dataset} of branch {before.branch} as {schema}.{table}"
            raise NameTaken(f"{conflict}; remove that one first, or choose another name")
        tx.shares.put_table(added)
        note_change(
            ctx, tx, "share.add", share.name, before=before and _entry(before), after=_entry(added)
        )
        return _shown(tx, share)


def remove(ctx: Context, name: str, table: str) -> ShareEntry:
    """Take a dataset out, by the name that recipients know, `schema.table`. Raises NotFound."""
    with ctx.begin() as tx:
        share = share_named(tx, name)
        shared = _find(tx, share, table)
        if shared is None:
            raise NotFound(
                f"share {name} has no {table}; `headgate share show {name}` has its tables"
            )
        tx.shares.drop_table(shared)
        note_change(ctx, tx, "share.remove", share.name, before=_entry(shared))
        return _shown(tx, share)


def listing(ctx: Context) -> list[ShareEntry]:
    """All shares, by name."""
    with ctx.read() as tx:
        return [_shown(tx, share) for share in tx.shares.all()]


def show(ctx: Context, name: str) -> ShareEntry:
    """Raises NotFound."""
    with ctx.read() as tx:
        return _shown(tx, share_named(tx, name))


def share_named(tx: Tx, name: str) -> ShareRow:
    """Raises NotFound."""
    for share in tx.shares.all():
        if share.name == name:
            return share
    raise NotFound(f"there is no share {name[:100]}; `headgate share list` has them")


def readers(tx: Tx, share: ShareRow) -> list[Token]:
    """The live tokens of recipients that read it."""
    every = (
        tokens.live(tx, token)
        for token in tx.access.tokens()
        if f"{SCOPE}{share.id}" in token.scopes
    )
    return [token for token in every if token is not None]


def _find(tx: Tx, share: ShareRow, table: str) -> SharedTable | None:
    tables = (
        shared for shared in tx.shares.tables(share.id) if f"{shared.schema}.{shared.name}" == table
    )
    return next(tables, None)


def _check(name: str, kind: str) -> None:
    if not SHARE_NAME.fullmatch(name):
        raise BadScope(
            f"{name[:100]!r} is no name of a {kind}; write lower-case letters, digits and _, such as sales"
        )


def _shown(tx: Tx, share: ShareRow) -> ShareEntry:
    return {
        "name": share.name,
        "by": share.actor,
        "at": share.at,
        "tables": [_entry(table) for table in tx.shares.tables(share.id)],
        "recipients": sorted(token.name for token in readers(tx, share)),
    }


def _entry(table: SharedTable) -> SharedTableEntry:
    return {
        "table": f"{table.schema}.{table.name}",
        "branch": table.branch,
        "dataset": table.dataset,
        "history": table.has_history,
        "at": table.at,
    }
