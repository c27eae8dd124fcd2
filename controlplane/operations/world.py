"""What planning reads, from one transaction: desired nodes (compiled once per set of revisions) and observed facts."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from controlplane.core.dataflow import Desired, Source, compile_revisions
from controlplane.core.model import Fragment, Listing, Revision, SourcePartition, State, Target, Task, Trace
from controlplane.core.plan import Plan, plan
from controlplane.ports import Tx
from dataplane.contract import Json, Schema

HISTORY = 8  # recent states in which a consistent combination of inputs is looked for
CACHED = 16
_compiled: dict[object, Desired] = {}
_compiling = threading.Lock()  # before 3.11.8 and 3.12.2, CPython's ast.parse is not safe in several threads


def desired(tx: Tx, branch: str, *, namespace: str = "default") -> Desired:
    """All live dataflows of a branch, compiled."""
    return compile_cached(tx.revisions(branch).values(), namespace)


def compile_cached(revisions: Iterable[Revision], namespace: str) -> Desired:
    """Compile, or take what equal revisions compiled to before."""
    ordered = sorted(revisions, key=lambda r: r.dataflow)
    semantics = int(os.environ.get("HEADGATE_SEMANTICS", "1"))  # an operator's number that re-keys on purpose
    key = (namespace, semantics, tuple(map(_identity, ordered)))
    with _compiling:
        found = _compiled.get(key)
        if found is not None:
            return found
        found = compile_revisions(ordered, namespace=namespace, semantics=semantics)
        while len(_compiled) >= CACHED:
            _compiled.pop(next(iter(_compiled)), None)
        _compiled[key] = found
        return found


def _identity(revision: Revision) -> tuple[object, ...]:
    files, uids = tuple(sorted(revision.files.items())), tuple(sorted(revision.uids.items()))
    return (revision.branch, revision.dataflow, revision.number, revision.file, revision.text, files, uids)


class Overlay:
    """Tree nodes of a transaction with writes kept aside until somebody commits them."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.staged: dict[bytes, bytes] = {}

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        found = {d: self.staged[d] for d in digests if d in self.staged}
        missing = [d for d in digests if d not in found]
        return {**self._tx.get_nodes(missing), **found} if missing else found

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.staged.update(nodes)


class Facts:
    """The World of one snapshot. What every pass needs is fetched once, in sets; the rest on demand."""

    def __init__(self, tx: Tx, branch: str, desired: Desired) -> None:
        self.tx, self.branch, self.desired = tx, branch, desired
        self.nodes = Overlay(tx)
        self.known: dict[bytes, Task] = {}

    @cached_property
    def states(self) -> dict[str, State]:
        return self.tx.states(self.branch)

    @cached_property
    def _listings(self) -> dict[bytes, Listing]:
        return self.tx.listings(n.listing for n in self.desired.nodes.values() if isinstance(n, Source))

    @cached_property
    def _targets(self) -> dict[str, Target]:
        return self.tx.targets(self.branch)

    @cached_property
    def _paused(self) -> frozenset[str]:
        return self.tx.paused(self.branch)

    def state(self, dataset: str) -> State | None:
        return self.states.get(dataset)

    def history(self, dataset: str) -> tuple[State, ...]:
        return self.tx.history(self.branch, dataset, HISTORY)

    def listing(self, id: bytes) -> Listing | None:
        return self._listings.get(id)

    def source_partitions(self, listing: bytes, keys: Sequence[str]) -> Mapping[str, SourcePartition]:
        return self.tx.source_partitions(listing, keys)

    def pinned(self, dataset: str) -> tuple[bytes, Schema] | None:
        return self.tx.pinned_schema(self.branch, dataset)

    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]:
        return self.tx.traces(keys) if keys else {}

    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]:
        return self.tx.fragments(dict.fromkeys(ids)) if ids else {}

    def build_trace(self, key: bytes) -> tuple[bytes, Schema] | None:
        return self.tx.build_trace(key)

    def memo(self, key: bytes) -> Json | None:
        return self.tx.memos([key]).get(key)

    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]:
        found = self.tx.tasks(keys) if keys else {}
        self.known.update(found)
        return found

    def target(self, component: str) -> Target | None:
        return self._targets.get(component)

    def is_paused(self, dataset: str) -> bool:
        flow = dataset.partition(".")[0]
        component = self.desired.nodes[dataset].component
        return flow in self._paused or dataset in self._paused or component.paused


def plan_now(
    tx: Tx, branch: str, flows: Iterable[str] | None, *, namespace: str = "default", proposed: Desired | None = None
) -> tuple[Plan, Facts]:
    """The plan of these dataflows and their upstream (all by default), and the facts that it rests on."""
    nodes = proposed or desired(tx, branch, namespace=namespace)
    facts = Facts(tx, branch, nodes)
    scope = None if flows is None else nodes.scope(flows)
    return plan(nodes, facts, branch, scope, now=tx.now()), facts
