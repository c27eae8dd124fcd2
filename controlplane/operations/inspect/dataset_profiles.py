"""Profiles of datasets: those of fragments, merged along the tree; and over generations.

The profile of a tree node is stored beside the node, so a second request reads only the changes
since the first one. One request reads a bounded number of leaves; the next one continues from
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from controlplane.core import profile_figures, tree
from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.model.addresses import Point
from controlplane.core.model.answers.profiles import (
    ColumnHistory,
    ColumnProfile,
    ProfileAnswer,
    ProfileHistoryAnswer,
    ProfilePoint,
)
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree.codec import Node
from controlplane.core.tree.tree_values import EMPTY_ROOT
from controlplane.core.tree.walk import NodeRef, all_children, load, load_root
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.datasets import newest_generations
from controlplane.operations.inspect.time_travel import state_of
from controlplane.ports.store import Tx
from dataplane.contract.profiles import (
    LONGEST,
    ColumnCounts,
    Profile,
    Value,
    merged,
    nothing,
    packed,
    shape_of,
    unknown,
    unpacked,
)
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json

LEAVES_A_LOOK: Final = 8  # of about 512 partitions each: two or three seconds
GENERATIONS: Final = 20
# Kinds of columns whose Delta statistics are values as profiles have them
_BOUNDED: Final = ("number", "text", "flag")


def profile(
    ctx: Context,
    branch: str,
    name: str,
    point: Point | None = None,
    *,
    partition: str | None = None,
    column: str | None = None,
    with_values: bool,
) -> ProfileAnswer:
    """The profile of one generation, the newest by default, or of one of its partitions. Raises
    NotFound, GenerationGone."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, point, sees=ctx.sees)
        look = ProfileRequest(tx)
        content = (
            look.at(state.root, state.rows) if partition is None else look.at_key(state, partition)
        )
    _keep(ctx, look)
    return {
        "dataset": name,
        "generation": state.generation,
        "partition": partition,
        "partitions": state.partitions if partition is None else 1,
        "rows": content["rows"],
        "unprofiled_rows": content.get("unprofiled", 0),
        "is_partial": look.is_partial,
        "sample": {"rows": len(content["sample"]["marks"]), "of": content["sample"]["of"]},
        "columns": _columns(content, state, column, with_values=with_values),
        "values_need": None if with_values else "data",
    }


def history(
    ctx: Context, branch: str, name: str, *, column: str | None = None, with_values: bool
) -> ProfileHistoryAnswer:
    """The profiles of the last generations, oldest first, and the columns that moved. Raises
    NotFound."""
    with ctx.read() as tx:
        state_of(tx, branch, name)
        look = ProfileRequest(tx)
        profiled: list[tuple[State, Profile]] = []
        states = newest_generations(tx, branch, name, GENERATIONS)
        look.stored_profiles = tx.traces.profiles(state.root for state in states)
        for state in states:
            try:
                profiled.append((state, look.at(state.root, state.rows)))
            except CorruptNode:  # a tree that only an older state has may have been collected
                break
    _keep(ctx, look)
    profiled.reverse()
    columns = _histories(profiled, with_values=with_values)
    chosen = [
        column_history for column_history in columns if column in (None, column_history["name"])
    ]
    if column is not None and not chosen:
        raise NotFound(
            f"dataset {name} has no column {column!r} in its last {GENERATIONS} generations"
        )
    return {"dataset": name, "is_partial": look.is_partial, "columns": chosen}


def _columns(
    content: Profile, state: State, column: str | None, *, with_values: bool
) -> list[ColumnProfile]:
    fields = [f for f in state.schema["fields"] if column in (None, f["name"])]
    if column is not None and not fields:
        raise NotFound(
            f"dataset {state.dataset} has no column {column!r} in generation {state.generation}"
        )
    return [profile_figures.column(content, f, with_values=with_values) for f in fields]


def _histories(
    profiled: Sequence[tuple[State, Profile]], *, with_values: bool
) -> list[ColumnHistory]:
    points: dict[str, list[ProfilePoint]] = {}
    if profiled:
        points = {f["name"]: [] for f in profiled[-1][0].schema["fields"]}
    before: Mapping[str, ColumnProfile] = {}
    size = 0
    for i, (state, content) in enumerate(profiled):
        columns = {c["name"]: c for c in _columns(content, state, None, with_values=True)}
        few, size = min(size, len(content["sample"]["marks"])), len(content["sample"]["marks"])
        for name, column in columns.items():
            moved = profile_figures.moved(before.get(name), column, few) if i else []
            point = _point(state, content, column, moved, with_values=with_values)
            points.setdefault(name, []).append(point)
        before = columns
    return [{"name": name, "points": of} for name, of in points.items()]


def _point(
    state: State, content: Profile, column: ColumnProfile, moved: list[str], *, with_values: bool
) -> ProfilePoint:
    return {
        "generation": state.generation,
        "at": json_views.instant(state.at),
        "rows": content["rows"],
        "null_share": column["null_share"],
        "distinct": column["distinct"],
        "mean": column["values"]["mean"] if with_values else None,
        "moved": moved if with_values else [move for move in moved if not move.startswith("mean ")],
    }


# --- along the tree -------------------------------------------------------------------------------


@dataclass(slots=True)
class ProfileRequest:
    """One request for the profiles of some trees. `stored_profiles`: those of roots, stored by
    earlier requests. `new`: those that this request computed for nodes, to be stored."""

    tx: Tx
    left: int = LEAVES_A_LOOK
    stored_profiles: dict[bytes, bytes] = field(default_factory=dict)
    new: dict[bytes, Profile] = field(default_factory=dict)
    is_partial: bool = False

    def at(self, root: bytes, rows: int) -> Profile:
        """The profile of a tree. No node is read where an earlier request stored it. Raises
        CorruptNode."""
        if root == EMPTY_ROOT:
            return nothing()
        if root in self.new:
            return self.new[root]
        if root not in self.stored_profiles:
            self.stored_profiles |= self.tx.traces.profiles([root])
        if root in self.stored_profiles:
            return unpacked(self.stored_profiles[root], rows)
        ref, node = load_root(self.tx.nodes, root)
        return self._of(ref, node, rows)

    def at_key(self, state: State, key: str) -> Profile:
        entry = tree.lookup(self.tx.nodes, state.root, [key]).get(key)
        if entry is None:
            raise NotFound(
                f"dataset {state.dataset} has no partition {key!r} in generation {state.generation}"
            )
        return self._fragments([entry])

    def _of(self, ref: NodeRef, node: Node, rows: int) -> Profile:
        """The profile of a node without a stored one. A part that is left out this time is stored
        neither for it nor above it."""
        if not node.level:
            if self.left <= 0:
                self.is_partial = True
                return unknown(rows)
            self.left -= 1
            return self._cached(node, self._fragments(list(node.columns.entries())))
        refs = list(all_children(ref, node))
        counts = [node.row_totals(i).content.rows for i in range(len(refs))]
        stored = self.tx.traces.profiles(child.digest for child in refs)
        parts: list[Profile] = []
        is_whole = True
        for below, count in zip(refs, counts, strict=True):
            if below.digest in self.new:
                parts.append(self.new[below.digest])
            elif below.digest in stored:
                parts.append(unpacked(stored[below.digest], count))
            elif self.left <= 0:
                self.is_partial, is_whole = True, False
                parts.append(unknown(count))
            else:
                [loaded] = load(self.tx.nodes, [below])
                parts.append(self._of(below, loaded, count))
                is_whole &= below.digest in self.new
        combined = merged(parts)
        return self._cached(node, combined) if is_whole else combined

    def _cached(self, node: Node, content: Profile) -> Profile:
        self.new[node.digest] = content
        return content

    def _fragments(self, entries: Sequence[tree.Entry]) -> Profile:
        ids = [entry.fragment for entry in entries]
        stored = self.tx.traces.profiles(ids)
        others = self.tx.traces.fragments(id for id in ids if id not in stored)
        return merged(
            unpacked(stored[e.fragment], e.content.rows)
            if e.fragment in stored
            else _of_footers(others.get(e.fragment), e.content.rows)
            for e in entries
        )


def _keep(ctx: Context, look: ProfileRequest) -> None:
    """Store new profiles for the next request. A database that takes no writes is tolerated: they
    are then computed again."""
    if look.new:
        with suppress(OSError), ctx.begin() as tx:
            tx.traces.put_profiles(
                {digest: packed(content) for digest, content in look.new.items()}
            )


# --- fragments without a profile ------------------------------------------------------------------


def _of_footers(fragment: Fragment | None, rows: int) -> Profile:
    """The profile by the statistics that were read from the footers when the fragment was
    written."""
    if fragment is None or not all(entry["stats"] for entry in fragment.files):
        return unknown(rows)
    kinds = {f["name"]: f["type"] for f in fragment.schema["fields"]}
    combined = merged(
        {**nothing(), "rows": e["rows"], "columns": dict(_counts(e, kinds))} for e in fragment.files
    )
    return {**combined, "rows": rows}


def _counts(entry: FileEntry, kinds: Mapping[str, Json]) -> list[tuple[str, ColumnCounts]]:
    stats, rows = entry["stats"], entry["rows"]
    counts: list[tuple[str, ColumnCounts]] = []
    for name, kind in kinds.items():
        nulls = stats.get("nullCount", {}).get(name)
        shape = shape_of(kind)
        ends: list[Value] = []
        if shape in _BOUNDED and name in stats.get("minValues", {}):
            ends = [_short(stats[key][name]) for key in ("minValues", "maxValues")]
        is_known = bool(ends) or nulls == rows
        counts.append(
            (
                name,
                {
                    "shape": shape,
                    "nulls": nulls or 0,
                    "nulls_of": 0 if nulls is None else rows,
                    "bounds": ends,
                    "bounds_of": rows if is_known else 0,
                },
            )
        )
    return counts


def _short(value: Json) -> Value:
    return value[:LONGEST] if isinstance(value, str) else value
