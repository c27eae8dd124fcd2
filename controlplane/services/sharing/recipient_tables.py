"""The tables of a recipient, and their versions: a version is a generation. Changes nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from controlplane.core.errors import GenerationGone, NotFound
from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.branches import MAIN
from controlplane.core.model.shares import SharedTable, ShareRow
from controlplane.core.model.states import State
from controlplane.core.schema.common import common_columns
from controlplane.core.sharing.lines import CHANGE_COLUMNS
from controlplane.core.sharing.sharing_requests import BadRequest, VersionRange, WantedSnapshot
from controlplane.operations.desired.recipients import Recipient
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.inspect.time_travel import state_of
from controlplane.ports.store import Tx
from dataplane.contract.schemas import column_names

NO_HISTORY = "of this table only the newest version is shared"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A state and when its generation came."""

    state: State
    at: float

    @property
    def number(self) -> int:
        return self.state.generation

    @property
    def milliseconds(self) -> int:
        return Moment.of(self.at).milliseconds


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """Versions without a gap, and the one before the first; None where that is the very first."""

    before: TableVersion | None
    versions: tuple[TableVersion, ...]


def share_of(recipient: Recipient, name: str) -> ShareRow:
    """Raises NotFound, whether there is such a share or not."""
    for share in recipient.shares:
        if share.name == name.lower():
            return share
    raise NotFound("there is no share of this name")


def tables_of(tx: Tx, share: ShareRow, schema: str | None = None) -> list[SharedTable]:
    """All, or those of one schema. Raises NotFound where there is no such schema."""
    shared_tables = [
        shared
        for shared in tx.shares.tables(share.id)
        if schema is None or shared.schema == schema.lower()
    ]
    if schema is not None and not shared_tables:
        raise NotFound("there is no schema of this name")
    return shared_tables


def table_of(tx: Tx, share: ShareRow, schema: str, name: str) -> SharedTable:
    """Raises NotFound."""
    for shared in tables_of(tx, share, schema):
        if shared.name == name.lower() and _has_branch(tx, shared):
            return shared
    raise NotFound("there is no table of this name")


def _has_branch(tx: Tx, table: SharedTable) -> bool:
    return table.branch == MAIN or table.branch in tx.branches.all()


def id_of(table: SharedTable) -> str:
    """A UUID that stays, and that other tables do not have."""
    return str(uuid.uuid5(uuid.UUID(table.share), f"{table.schema}.{table.name}"))


def snapshot(tx: Tx, table: SharedTable, request: WantedSnapshot) -> State:
    """Raises NotFound, GenerationGone, BadRequest."""
    newest = state_of(tx, table.branch, table.dataset)
    if request.version is None and request.at is None:
        return newest
    if request.version == newest.generation:
        return newest
    if not table.has_history:
        raise BadRequest(NO_HISTORY)
    if request.version is None:
        return state_of(tx, table.branch, table.dataset, request.at)
    return state_of(tx, table.branch, table.dataset, Generation(request.version))


def version_since(tx: Tx, table: SharedTable, at: Moment | None) -> int:
    """The newest version, or the first one that came then or later. Raises NotFound, BadRequest."""
    if at is None:
        return state_of(tx, table.branch, table.dataset).generation
    if not table.has_history:
        raise BadRequest(NO_HISTORY)
    return _first_since(_versions(tx, table, 0), at).number


def span(tx: Tx, table: SharedTable, request: VersionRange) -> VersionSpan:
    """The versions whose changes are wanted. An end behind the newest version means that one.
    Raises NotFound, BadRequest, and GenerationGone where a version, or the one before the first, is
    no longer kept."""
    if not table.has_history:
        raise BadRequest(NO_HISTORY)
    least = request.first - 1 if isinstance(request.first, int) else 0
    versions = _versions(tx, table, least)
    first = (
        request.first
        if isinstance(request.first, int)
        else _first_since(versions, request.first).number
    )
    last = _last(versions, request.last)
    newest = max(versions)
    if first > newest:
        raise BadRequest(f"there is no version {first}; the newest is {newest}")
    if first > last:
        raise BadRequest(
            f"the changes are to end with version {last}, before they start with version {first}"
        )
    first = max(first, 1)  # versions count from 1: from 0 on means from the very first
    missing = [number for number in range(max(first - 1, 1), last + 1) if number not in versions]
    if missing:
        raise GenerationGone(
            f"version {missing[-1]} is not kept any more; start with version {missing[-1] + 2} or later"
        )
    return VersionSpan(
        versions.get(first - 1), tuple(versions[number] for number in range(first, last + 1))
    )


def check_columns(span: VersionSpan) -> None:
    """All files of the answer are read by the columns of the last version. Raises BadRequest where
    they cannot be."""
    last = span.versions[-1].state
    if reserved := [column for column in CHANGE_COLUMNS if column in column_names(last.schema)]:
        raise BadRequest(
            f"the table has a column {reserved[0]}, which changes are told by; read its versions"
        )
    for version in (span.before, *span.versions):
        if version is None or version.state.schema == last.schema:
            continue
        for column in common_columns(version.state.schema, last.schema).retyped:
            was = f"column {column.name} was {column.before} in version {version.number}"
            raise BadRequest(
                f"{was} and is {column.after} in version {last.generation}; ask for fewer versions"
            )


def _versions(tx: Tx, table: SharedTable, least: int) -> dict[int, TableVersion]:
    """All that are kept, from `least` on."""
    by_number: dict[int, TableVersion] = {}
    for state in kept_states(tx, table.branch, table.dataset):
        if state.generation < least:
            break
        newest = by_number[state.generation].state if state.generation in by_number else state
        by_number[state.generation] = TableVersion(newest, state.at)
    if not by_number:
        state = state_of(tx, table.branch, table.dataset)
        by_number[state.generation] = TableVersion(state, state.at)
    return by_number


def _first_since(by_number: dict[int, TableVersion], at: Moment) -> TableVersion:
    later = [version for version in by_number.values() if version.milliseconds >= at.milliseconds]
    if not later:
        raise BadRequest(f"no version came at {at} or later; the newest is {max(by_number)}")
    return min(later, key=lambda version: version.number)


def _last(by_number: dict[int, TableVersion], limit: int | Moment | None) -> int:
    newest = max(by_number)
    if isinstance(limit, Moment):
        earlier = [
            version.number
            for version in by_number.values()
            if version.milliseconds <= limit.milliseconds
        ]
        return max(earlier, default=0)
    return newest if limit is None else min(limit, newest)
