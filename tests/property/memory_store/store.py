"""The store without a database, for property worlds: what the planner uses, under the contract of
the SQL store."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from controlplane.core.errors import NotFound, StaleRevision, StaleState
from controlplane.core.model import change_marks, forces
from controlplane.core.model.addresses import Generation, Moment, Point
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import NO_BRANCH, Event
from controlplane.core.model.forces import ForcedRange
from controlplane.core.model.memos import Memo, Memos
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import Publication, Target
from controlplane.core.model.revisions import AuditedChange, Revision
from controlplane.core.model.sources import Listing, SourcePartition, StoredPlanListing
from controlplane.core.model.states import PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Fragment, Trace
from controlplane.store.rules import NODE_FRESH_S, firsts
from dataplane.contract.identity import Content
from dataplane.contract.schemas import Schema
from tests.property.memory_store.branches import MemoryBranches
from tests.property.memory_store.feeds import MemoryFeeds
from tests.property.memory_store.packs import MemorySuperseded
from tests.property.memory_store.past_attempts import MemoryPastAttempts
from tests.property.memory_store.queue import pick
from tests.property.memory_store.reads import MemoryReads
from tests.property.memory_store.tables import CowDict, Named, NamespaceTables, V
from tests.property.memory_store.upkeep import MemoryCollected


def _of_branch(
    shelf: CowDict[Named, V], branch: str, names: Iterable[str] | None = None
) -> dict[str, V]:
    wanted = None if names is None else set(names)
    return {n: v for (b, n), v in shelf.items() if b == branch and (wanted is None or n in wanted)}


def _over_main(
    shelf: CowDict[Named, V], branch: str, names: Iterable[str] | None = None
) -> dict[str, V]:
    """A branch's own, and for the rest what main has."""
    wanted = None if names is None else list(names)
    return {**_of_branch(shelf, MAIN, wanted), **_of_branch(shelf, branch, wanted)}


def _is_meant(state: State, point: Point | None) -> bool:
    match point:
        case Generation(number):
            return state.generation == number
        case Moment(end=end):
            return state.at < end
        case None:
            return True


class FlatTx(
    MemoryBranches,
    MemoryPastAttempts,
    MemoryCollected,
    MemoryReads,
    MemorySuperseded,
    MemoryFeeds,
):
    # --- blueprints and operators' requests

    def revisions(self, branch: str, dataflows: Iterable[str] | None = None) -> dict[str, Revision]:
        own = self._of(self._space.dataflows, branch) if branch != MAIN else {}
        shared = {
            name: r
            for name, r in self.mains_revisions(branch, dataflows).items()
            if name not in own
        }
        live = {name for name, (_, is_live) in own.items() if is_live}
        mine = {
            name: r
            for name, r in _of_branch(self._space.revisions, branch, dataflows).items()
            if name in live
        }
        return {**shared, **mine}

    def mains_revisions(
        self, branch: str, dataflows: Iterable[str] | None = None
    ) -> dict[str, Revision]:
        wanted = None if dataflows is None else set(dataflows)
        heads = self._as_seen("dataflow", branch, self._of(self._space.dataflows, MAIN, wanted))
        there = {name: number for name, (number, is_live) in heads.items() if is_live and number}
        return {
            name: self._space.texts[MAIN, name, n]
            for name, n in there.items()
            if wanted is None or name in wanted
        }

    def _dataflow(self, branch: str, dataflow: str) -> tuple[int, bool]:
        """Its last number, and whether it is live."""
        of_main = self._as_seen(
            "dataflow", branch, self._of(self._space.dataflows, MAIN, [dataflow])
        )
        known = {
            **of_main,
            **(self._of(self._space.dataflows, branch, [dataflow]) if branch != MAIN else {}),
        }
        found: tuple[int, bool] = known.get(dataflow, (0, False))
        return found

    def revision(self, branch: str, dataflow: str, number: int) -> Revision | None:
        return self._space.texts.get((branch, dataflow, number))

    def put_revision(self, revision: Revision, expected: int | None) -> None:
        name = (revision.branch, revision.dataflow)
        last, live = self._dataflow(*name)
        newest = last if live else 0
        if expected not in (None, newest):
            raise StaleRevision(revision.dataflow, expected or 0, newest)
        if revision.number != last + 1:
            raise StaleRevision(revision.dataflow, revision.number - 1, last)
        self._note_move("dataflow", revision.branch, revision.dataflow, (last, live))
        self._mark(revision.branch, change_marks.flow(revision.dataflow))
        if name not in self._space.dataflows:
            self._space.flow_forks[name] = last
        self._space.dataflows[name] = (revision.number, True)
        self._space.revisions[name] = revision
        self._space.texts[revision.branch, revision.dataflow, revision.number] = revision
        self._space.uids[name] = self._space.uids.get(name, {}) | dict(revision.uids)

    def last_number(self, branch: str, dataflow: str) -> int:
        return self._dataflow(branch, dataflow)[0]

    def delete_dataflow(self, branch: str, dataflow: str) -> None:
        last, live = self._dataflow(branch, dataflow)
        if not live:
            raise NotFound(f"there is no dataflow {dataflow}")
        self._note_move("dataflow", branch, dataflow, (last, True))
        for target in self._of(self._space.pauses, branch):
            if target == dataflow or target.startswith(f"{dataflow}."):
                self._note_move("pause", branch, target, True)
        self._mark(branch, change_marks.flow(dataflow), change_marks.PAUSES, change_marks.HOLDS)
        if (branch, dataflow) not in self._space.dataflows:
            self._space.flow_forks[branch, dataflow] = last
        self._space.dataflows[branch, dataflow] = (last, False)
        prefix = f"{dataflow}."
        self._drop_demands_below(branch, prefix)
        space = self._space
        shelves: tuple[CowDict[Named, Any], ...] = (space.pauses, space.unfinished, space.holds)
        for shelf in shelves:
            for b, name in list(shelf):
                if b == branch and (name == dataflow or name.startswith(prefix)):
                    del shelf[b, name]

    def known_uids(self, branch: str, dataflow: str) -> dict[str, str]:
        main = self._space.uids.get((MAIN, dataflow), {})
        return {**main, **self._space.uids.get((branch, dataflow), {})}

    def paused(self, branch: str) -> frozenset[str]:
        of_main = {**self._of(self._space.pauses, MAIN), **self._moved("pause", branch)}
        known = {**of_main, **self._of(self._space.pauses, branch)}
        return frozenset(target for target, is_paused in known.items() if is_paused)

    def set_paused(self, branch: str, target: str, paused: bool) -> None:
        self._note_move("pause", branch, target, (branch, target) in self._space.pauses)
        self._mark(branch, change_marks.PAUSES)
        if paused or branch != MAIN:
            self._space.pauses[branch, target] = paused
        else:
            self._space.pauses.pop((branch, target), None)

    def forces(self, branch: str) -> dict[str, int]:
        own = self._of(self._space.forces, branch) if branch != MAIN else {}
        return {**self.mains_forces(branch), **own}

    def mains_forces(self, branch: str) -> dict[str, int]:
        return self._as_seen("force", branch, self._of(self._space.forces, MAIN))

    def bring_forces(self, branch: str, numbers: Mapping[str, int]) -> None:
        known = self.forces(branch)
        newer = {name: number for name, number in numbers.items() if number > known.get(name, 0)}
        if not newer:
            return
        newer = {name: self._joined(known.get(name, 0), number) for name, number in newer.items()}
        for name in newer:
            self._note_move("force", branch, name, known.get(name))
        self._space.forces.update({(branch, name): number for name, number in newer.items()})
        self._mark(branch, change_marks.FORCED, *newer)

    def _joined(self, own: int, number: int) -> int:
        joined = forces.joined(self._space.forced_ranges, own, number)
        last = joined.number
        for forced in joined.ranges:
            id = self._count("forces")
            self._space.forced_ranges[id] = replace(forced, before=last)
            last = id
        return last

    def forced_ranges(self) -> dict[int, ForcedRange]:
        return dict(self._space.forced_ranges)

    def drop_ranges(self) -> int:
        numbers = list(self._space.forces.values())
        for (kind, *_), before in self._space.replaced.items():
            if kind == "force":
                numbers.append(int(str(before or 0)))
        unused = forces.unused(self._space.forced_ranges, numbers)
        for id in unused:
            del self._space.forced_ranges[id]
        return len(unused)

    def force_range(self, branch: str, dataset: str, first: str, last: str) -> int:
        before = self.forces(branch).get(dataset, 0)
        number = self.force(branch, [dataset])
        self._space.forced_ranges[number] = ForcedRange(first, last, number, before)
        return number

    def force(self, branch: str, datasets: Iterable[str]) -> int:
        number, names = self._count("forces"), list(datasets)
        for name in names:
            self._note_move("force", branch, name, self._space.forces.get((branch, name)))
        self._space.forces.update({(branch, name): number for name in names})
        self._mark(branch, change_marks.FORCED, *names)
        return number

    def put_change(self, change: AuditedChange) -> None:
        self._space.changes[self._count("changes")] = change

    # --- trees and listings

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {digest: body for digest, (_, body) in pick(self._space.nodes, digests).items()}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        for digest, body in nodes.items():
            at, there = self._space.nodes.get(digest, (self._now, body))
            self._space.nodes[digest] = (self._now if at < self._now - NODE_FRESH_S else at, there)

    def listings(self, ids: Iterable[bytes]) -> dict[bytes, Listing]:
        return pick(self._space.listings, ids)

    def put_listing(self, listing: Listing) -> None:
        self._mark("", change_marks.listing(listing.id))
        old = self._space.listings.get(listing.id, listing)
        requested, served = max(old.requested, listing.requested), max(old.served, listing.served)
        self._space.listings[listing.id] = replace(listing, requested=requested, served=served)

    def request_again(self, ids: Iterable[bytes]) -> None:
        for id, listing in self.listings(ids).items():
            requested = max(listing.requested, listing.served + 1)
            self._space.listings[id] = replace(listing, requested=requested)

    def confirm_listing(self, id: bytes, served: int) -> None:
        listing = self._space.listings[id]
        at, newest = self.now(), max(listing.served, served)
        self._space.listings[id] = replace(listing, at=at, served=newest)

    def source_partitions(self, listing: bytes, keys: Iterable[str]) -> dict[str, SourcePartition]:
        found = pick(self._space.source_partitions, ((listing, key) for key in keys))
        return {key: partition for (_, key), partition in found.items()}

    def partitions_of(
        self, keys: Mapping[bytes, Sequence[str]]
    ) -> dict[bytes, dict[str, SourcePartition]]:
        return {listing: self.source_partitions(listing, some) for listing, some in keys.items()}

    def put_source_partitions(
        self, listing: bytes, changed: Iterable[SourcePartition], gone: Iterable[str]
    ) -> None:
        for key in gone:
            self._space.source_partitions.pop((listing, key), None)
        for partition in changed:
            self._space.source_partitions[listing, partition.key] = partition

    def plan_listings(self) -> Sequence[StoredPlanListing]:
        looks = {id: listing.look for id, listing in self._space.listings.items()}
        sizes = Counter[bytes]()
        for (id, key), partition in self._space.source_partitions.items():
            if looks.get(id) is not None:
                sizes[id] += len(key) + len(json.dumps(partition.objects))
        return [
            StoredPlanListing(id, look["since"], sizes[id])
            for id, look in looks.items()
            if look is not None
        ]

    def drop_listings(self, ids: Iterable[bytes]) -> None:
        gone = set(ids)
        for id in gone:
            self._space.listings.pop(id, None)
        for place in [place for place in self._space.source_partitions if place[0] in gone]:
            del self._space.source_partitions[place]

    # --- states and projections

    def states(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, State]:
        names = _over_main(self._space.states, branch, datasets)
        lines = {name: self._line(branch, name) for name in names}
        return {name: line[-1] for name, line in lines.items() if line}

    def state_of(self, branch: str, dataset: str, point: Point | None = None) -> State | None:
        newest_first = reversed(self._readable(branch, dataset))
        return next((state for state in newest_first if _is_meant(state, point)), None)

    def _readable(self, branch: str, dataset: str) -> tuple[State, ...]:
        """Its line; only its own states where the branch has deleted the dataflow."""
        _, is_live = self._space.dataflows.get((branch, dataset.partition(".")[0]), (0, True))
        line = self._line(branch, dataset)
        return line if is_live or branch == MAIN else tuple(s for s in line if s.branch == branch)

    def history(
        self, branch: str, dataset: str, limit: int, before_seq: int | None = None
    ) -> tuple[State, ...]:
        newest_first = reversed(self._line(branch, dataset))
        return tuple(s for s in newest_first if before_seq is None or s.seq < before_seq)[:limit]

    def _line(self, branch: str, dataset: str) -> tuple[State, ...]:
        """All its states that are kept, oldest first: up to the fork those of main."""
        own, main = (
            self._space.states.get((branch, dataset), ()),
            self._space.states.get((MAIN, dataset), ()),
        )
        if branch == MAIN:
            return main
        if not own:
            last = self._moved("head", branch).get(dataset)
            return main if last is None else tuple(s for s in main if s.seq <= last)
        return (*(s for s in main if s.seq <= self._space.forks[branch, dataset]), *own)

    def commit_state(self, state: State, expected_seq: int) -> None:
        name = (state.branch, state.dataset)
        line = self._line(*name)
        newest = line[-1].seq if line else 0
        if newest != expected_seq or state.seq != expected_seq + 1:
            raise StaleState(f"{state.dataset} is not at state {expected_seq}")
        if name not in self._space.states:
            self._space.forks[name] = newest
        self._space.states[name] = (*self._space.states.get(name, ()), state)
        self._note_move("head", state.branch, state.dataset, expected_seq)
        self._mark(state.branch, state.dataset)

    def commit_states(self, branch: str, states: Sequence[State]) -> frozenset[str]:
        stale = set()
        for state in states:
            try:
                self.commit_state(state, state.seq - 1)
            except StaleState:
                stale.add(state.dataset)
        return frozenset(stale)

    def unfinished(
        self, branch: str, datasets: Iterable[str] | None = None
    ) -> tuple[dict[str, PartialState], dict[str, UnfinishedRun]]:
        names = None if datasets is None else list(datasets)
        return _of_branch(self._space.buildings, branch, names), _of_branch(
            self._space.unfinished, branch, names
        )

    def put_building(self, building: PartialState) -> None:
        self._mark(building.branch, change_marks.progress(building.dataset))
        self._space.buildings[building.branch, building.dataset] = building

    def drop_building(self, branch: str, dataset: str) -> None:
        self._mark(branch, change_marks.progress(dataset))
        self._space.buildings.pop((branch, dataset), None)

    def settled(self, branch: str, states: Iterable[tuple[str, int]]) -> tuple[State, ...]:
        wanted = set(states)
        found: dict[tuple[str, int], State] = {}
        for home in (MAIN, branch):
            for dataset in {d for d, _ in wanted}:
                found.update(
                    {(dataset, s.seq): s for s in self._space.states.get((home, dataset), ())}
                )
        return tuple(s for key, s in found.items() if key in wanted)

    def put_unfinished(self, unfinished: UnfinishedRun) -> None:
        self._mark(unfinished.branch, change_marks.progress(unfinished.dataset))
        self._space.unfinished[unfinished.branch, unfinished.dataset] = unfinished

    def drop_unfinished(self, branch: str, datasets: Iterable[str]) -> None:
        for dataset in datasets:
            self._mark(branch, change_marks.progress(dataset))
            self._space.unfinished.pop((branch, dataset), None)

    def marked(self, branch: str, after: int) -> tuple[int, frozenset[str]]:
        told = (NO_BRANCH, MAIN, branch) if self._base(branch) is None else (branch,)
        seen = [(name, at) for (b, name), at in self._space.marks.items() if b in told]
        newer = [(name, at) for name, at in seen if at > after]
        return max((at for _, at in newer), default=after), frozenset(name for name, _ in newer)

    def pinned_schemas(self, branch: str, datasets: Iterable[str]) -> dict[str, Pin]:
        names = set(datasets)
        of_main = self._as_seen("pin", branch, self._of(self._space.pins, MAIN, names))
        known = {**of_main, **(self._of(self._space.pins, branch, names) if branch != MAIN else {})}
        return {name: pin for name, pin in known.items() if name in names}

    def pin_schema(self, branch: str, dataset: str, pin: Pin) -> None:
        self._note_move("pin", branch, dataset, self._space.pins.get((branch, dataset)))
        self._mark(branch, dataset)
        self._space.pins[branch, dataset] = pin

    def branch_publications(self) -> tuple[Publication, ...]:
        return tuple(
            found
            for (branch, _), found in sorted(self._space.publications.items())
            if branch != MAIN
        )

    def targets(self, branch: str, components: Iterable[str] | None = None) -> dict[str, Target]:
        return _of_branch(self._space.targets, branch, components)

    def put_target(self, target: Target) -> None:
        self._mark(target.branch, target.component)
        self._space.targets[target.branch, target.component] = target

    # --- memory

    def traces(self, keys: Sequence[bytes]) -> dict[bytes, Trace]:
        hits = {key: t for key, t in pick(self._space.traces, keys).items() if self._is_hit(t)}
        return {key: replace(trace, contents=self._contents(trace)) for key, trace in hits.items()}

    def _contents(self, trace: Trace) -> dict[str, Content]:
        return {suffix: self._space.fragments[f].content for suffix, f in trace.outputs.items()}

    def _is_hit(self, trace: Trace) -> bool:
        return all(self._is_stored(fragment) for fragment in trace.outputs.values())

    def _is_stored(self, fragment: bytes) -> bool:
        return (
            fragment in self._space.fragments and self._space.fragments[fragment].status == "stored"
        )

    def put_traces(self, traces: Sequence[Trace], fragments: Sequence[Fragment]) -> None:
        hits = self.traces([trace.task for trace in traces])
        for trace in firsts((t.task, t) for t in traces if t.task not in hits):
            self._space.traces[trace.task] = replace(trace, seq=self._count("traces"))
        for fragment in firsts((f.id, f) for f in fragments):
            if not self._is_stored(fragment.id):
                self._space.fragments[fragment.id] = fragment

    def put_profiles(self, bodies: Mapping[bytes, bytes]) -> None:
        for id, body in bodies.items():
            if id not in self._space.profiles:
                self._space.profiles[id] = body

    def fragments(self, ids: Iterable[bytes]) -> dict[bytes, Fragment]:
        return pick(self._space.fragments, ids)

    def remembered(
        self, builds: Iterable[bytes], memos: Iterable[bytes]
    ) -> tuple[dict[bytes, tuple[bytes, Schema]], dict[bytes, Memo]]:
        found = pick(self._space.build_traces, builds)
        return {key: of for key, (_, of) in found.items()}, pick(self._space.memos, memos)

    def put_build_trace(self, key: bytes, root: bytes, schema: Schema) -> None:
        self._space.build_traces[key] = (self._now, (root, schema))

    def put_build_traces(self, builds: Mapping[bytes, tuple[bytes, Schema]]) -> None:
        for key, (root, schema) in builds.items():
            self.put_build_trace(key, root, schema)

    def executed(self, keys: Iterable[bytes], after: int) -> dict[bytes, str]:
        there = pick(self._space.traces, keys)
        return {
            key: trace.home
            for key, trace in there.items()
            if trace.by == "executed" and trace.seq > after
        }

    def memos(self, keys: Iterable[bytes]) -> dict[bytes, Memo]:
        return pick(self._space.memos, keys)

    def forget_memos(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._space.memos.pop(key, None)

    def put_memos(self, values: Memos) -> None:
        self._space.memos.update(values)

    # --- events, drivers, tokens

    def put_events(self, events: Sequence[Event]) -> None:
        for event in events:
            number = self._count("events")
            self._space.events[number] = replace(event, id=number, at=self._now)

    def events(self, branch: str | None, after: int, limit: int = 1000) -> tuple[Event, ...]:
        newer = (event for event in self._space.events.values() if event.id > after)
        return tuple(
            event for event in newer if branch is None or event.branch in (NO_BRANCH, branch)
        )[:limit]

    def last_event(self) -> int:
        return self._space.counters.get("events", 0)

    def count_events(
        self, branch: str, after: int, among: Callable[[str], bool] | None = None
    ) -> dict[str, int]:
        sums: dict[str, int] = {}
        for event in self._space.events.values():
            is_newer = event.id > after and event.branch in (NO_BRANCH, branch)
            if is_newer and (among is None or not event.dataset or among(event.dataset)):
                sums[event.kind] = sums.get(event.kind, 0) + event.n
        return sums


MEMORY = "memory:"
NAMES = {  # of the methods of each collaborator, and of those of `FlatTx` where they differ
    "blueprints": (
        "put=put_revision uids=known_uids revisions revision last_number delete_dataflow paused "
        "set_paused forces force force_range forced_ranges drop_ranges bring_forces mains_revisions "
        "mains_forces"
    ),
    "audit": "put_change drop_reads drop_answers",
    "branches": (
        "all=branches create=create_branch put=put_branch pin=pin_now hold=hold_branch "
        "drop=drop_branch is_protected own_dataflows own_datasets share share_dataflows"
    ),
    "nodes": "get_nodes put_nodes",
    "listings": (
        "get=listings locked=listings put=put_listing confirm=confirm_listing request_again "
        "partitions=source_partitions partitions_of put_partitions=put_source_partitions "
        "of_plans=plan_listings drop=drop_listings"
    ),
    "states": (
        "newest=states find=state_of commit=commit_state commit_all=commit_states history unfinished put_building "
        "drop_building settled put_unfinished drop_unfinished marked pinned_schemas pin_schema holds "
        "put_hold drop_holds"
    ),
    "traces": (
        "hits=traces put=put_traces executed put_build=put_build_trace put_builds=put_build_traces "
        "fragments put_profiles remembered memos put_memos forget_memos referenced_attempts stored "
        "condemn files loose_outputs"
    ),
    "queue": (
        "lock jobs put_job put_jobs enqueue demands demanded drop_demands end_demands demanding "
        "branches_of tasks backlog claim wait_until waiting_attempts attempts extend finish fail release "
        "end_attempt retry raised_sizes put_raised_size drop_raised_sizes"
    ),
    "past_attempts": (
        "put=put_past_attempts newest=newest_past costs=past_costs drop=drop_past_attempts"
    ),
    "drivers": "drop=drop_drivers",
    "projections": "branch_publications targets put_target",
    "events": "put=put_events newer=events last=last_event count=count_events drop=drop_events",
    "upkeep": (
        "collections begin_collection pointers node_digests drop_nodes spans builds drop_builds "
        "drop_done loose_heads origins"
    ),
    "feeds": "all=feeds",
}
COLLABORATORS = {
    part: {new: old or new for new, _, old in (name.partition("=") for name in names.split())}
    for part, names in NAMES.items()
}


class MemoryTx:
    """The collaborators of a transaction, over one flat object."""

    def __init__(self, flat: FlatTx) -> None:
        self.now = flat.now
        self._flat = flat

    def __getattr__(self, part: str) -> Any:
        if part not in COLLABORATORS:
            raise AttributeError(part)
        group = SimpleNamespace(
            **{new: getattr(self._flat, old) for new, old in COLLABORATORS[part].items()}
        )
        setattr(self, part, group)
        return group


class MemoryStore:
    """One writer at a time; readers keep the snapshot that they began with."""

    statements = 0

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._spaces: dict[str, NamespaceTables] = {}
        self._writing = threading.Lock()

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Any]:
        with self._writing:
            space = self._spaces.get(namespace, NamespaceTables()).fork(is_open=True)
            tx = FlatTx(space, namespace, self._clock())
            tx.spaces = self._spaces
            yield MemoryTx(tx)
            tx.flush()
            self._spaces[namespace] = space
            for dropped in tx.dropped:
                self._spaces.pop(dropped, None)

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Any]:
        space = self._spaces.get(namespace, NamespaceTables()).fork(is_open=False)
        tx = FlatTx(space, namespace, self._clock())
        tx.spaces = dict(self._spaces)
        yield MemoryTx(tx)

    def close(self) -> None:
        """What it holds goes with it."""
