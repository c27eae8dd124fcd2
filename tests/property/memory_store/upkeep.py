"""Collecting and checking in memory: the twin of `sql.upkeep`. Does not belong here: how long
anything is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile

from controlplane.core.model.branches import MAIN
from controlplane.core.model.jobs import roots_in
from controlplane.core.model.retention import HOLDERS, Files, Pointer, PointerKind, Span, Stored
from controlplane.core.model.states import PartialState, State
from tests.property.memory_store.queue import pick
from tests.property.memory_store.snapshots import MemorySnapshots
from tests.property.memory_store.tables import CowDict, K, V


def _drop(shelf: CowDict[K, V], keys: Iterable[K], limit: int | None = None) -> int:
    gone = list(islice(keys, limit))
    for key in gone:
        del shelf[key]
    return len(gone)


class MemoryCollected(MemorySnapshots):
    # --- collections of tree nodes

    def collections(self) -> int:
        return self._space.counters.get("collections", 0)

    def begin_collection(self) -> int:
        self._space.counters["collected"] = self._changes()
        return self._count("collections")

    def _changes(self) -> int:
        commits = sum(states[-1].seq for states in self._space.states.values())
        return commits + self._space.counters.get("marks", 0)

    # --- references

    def pointers(self, holders: Iterable[PointerKind] = HOLDERS) -> Iterator[Pointer]:
        reading: Mapping[PointerKind, Callable[[], Iterator[Pointer]]] = {
            "state": self._state_pointers,
            "input": self._input_pointers,
            "building": self._building_pointers,
            "build": self._build_pointers,
            "listing": self._listing_pointers,
            "target": self._target_pointers,
            "task": self._task_pointers,
            "publication": self._publication_pointers,
        }
        for holder in holders:
            yield from reading[holder]()

    def _state_pointers(self) -> Iterator[Pointer]:
        for s in (state for states in self._space.states.values() for state in states):
            yield Pointer(
                "state",
                s.dataset,
                s.root,
                branch=s.branch,
                number=s.seq,
                partitions=s.partitions,
                rows=s.rows,
            )

    def _input_pointers(self) -> Iterator[Pointer]:
        newest = (states[-1] for states in self._space.states.values())
        made: list[State | PartialState] = [*newest, *self._space.buildings.values()]
        for one in made:
            for consumed in one.inputs.values():
                yield Pointer("input", one.dataset, consumed.root, one.branch)
        for unfinished in self._space.unfinished.values():
            # Of a read component; states hold on to theirs
            if unfinished.dataset in unfinished.cut:
                yield Pointer(
                    "input",
                    unfinished.dataset,
                    unfinished.cut[unfinished.dataset],
                    unfinished.branch,
                )

    def _building_pointers(self) -> Iterator[Pointer]:
        return (
            Pointer("building", b.dataset, b.root, b.branch) for b in self._space.buildings.values()
        )

    def _build_pointers(self) -> Iterator[Pointer]:
        return (
            Pointer("build", key.hex(), root)
            for key, (_, (root, _)) in self._space.build_traces.items()
        )

    def _listing_pointers(self) -> Iterator[Pointer]:
        found = self._space.listings.values()
        return (Pointer("listing", one.id.hex(), one.root) for one in found if one.root is not None)

    def _target_pointers(self) -> Iterator[Pointer]:
        return (
            Pointer("target", t.component, t.root, t.branch) for t in self._space.targets.values()
        )

    def _task_pointers(self) -> Iterator[Pointer]:
        for digest, body in self._space.jobs.items():
            for root in roots_in(body):
                yield Pointer("task", digest.hex(), bytes.fromhex(root))

    def _publication_pointers(self) -> Iterator[Pointer]:
        return (
            Pointer("publication", p.dataset, p.root, p.branch)
            for p in self._space.publications.values()
        )

    # --- tree nodes

    def node_digests(self, after: bytes, limit: int) -> tuple[bytes, ...]:
        return tuple(sorted(digest for digest in self._space.nodes if digest > after)[:limit])

    def drop_nodes(self, digests: Sequence[bytes], before: float) -> int:
        found = pick(self._space.nodes, dict.fromkeys(digests))
        gone = [digest for digest, (at, _) in found.items() if at < before]
        _drop(self._space.profiles, [digest for digest in gone if digest in self._space.profiles])
        return _drop(self._space.nodes, gone)

    # --- history

    def spans(self) -> Iterator[Span]:
        for (branch, dataset), states in self._space.states.items():
            loose = [s for s in states if branch != MAIN or not self._is_held(dataset, s.seq)]
            new, old = states[-1], loose[0]
            yield Span(
                branch,
                dataset,
                new.seq,
                generation=new.generation,
                oldest_seq=old.seq,
                oldest_generation=old.generation,
                oldest_at=old.at,
            )

    def builds(self, before: float) -> Iterator[tuple[bytes, bytes]]:
        return (
            (key, root) for key, (at, (root, _)) in self._space.build_traces.items() if at < before
        )

    def drop_builds(self, keys: Sequence[bytes], before: float) -> int:
        found = pick(self._space.build_traces, dict.fromkeys(keys))
        return _drop(
            self._space.build_traces, (key for key, (at, _) in found.items() if at < before)
        )

    # --- what piles up beside

    def drop_done(self, limit: int) -> int:
        space = self._space
        done = [k for k, t in space.tasks.items() if t.state == "done" and k not in space.demands]
        tasks = _drop(
            space.tasks, (k for k in done if space.tasks[k].attempt not in space.attempts), limit
        )
        named = {t.job for t in space.tasks.values()} | {a.job for a in space.attempts.values()}
        return tasks + _drop(
            space.jobs, (digest for digest in space.jobs if digest not in named), limit
        )

    def drop_events(self, before: float, limit: int) -> int:
        oldest = sorted(self._space.events.items())[:limit]
        return _drop(
            self._space.events,
            (number for number, _ in takewhile(lambda e: e[1].at < before, oldest)),
        )

    def drop_answers(self, before: float, limit: int) -> int:
        return _drop(
            self._space.answers,
            (key for key, (at, _) in self._space.answers.items() if at < before),
            limit,
        )

    def drop_drivers(self, before: float, limit: int) -> int:
        over = [d.id for d in self._space.drivers.values() if d.ended and d.seen < before][:limit]
        ours = (t for t in self._space.tokens.values() if t.scopes == ("driver",))
        gone = (
            t.id
            for t in ours
            if (t.expires is not None and t.expires < before) or t.subject in over
        )
        return _drop(self._space.tokens, gone, 2 * limit) + _drop(self._space.drivers, over)

    # --- checks

    def stored(self, fragments: Iterable[bytes]) -> dict[bytes, Stored]:
        return {
            id: Stored(f.status, f.content)
            for id, f in pick(self._space.fragments, fragments).items()
        }

    def condemn(self, fragments: Sequence[bytes]) -> None:
        for fragment in pick(self._space.fragments, fragments).values():
            if fragment.status == "stored":
                self._space.fragments[fragment.id] = replace(fragment, status="condemned")

    def files(self) -> Iterator[Files]:
        stored = (f for f in self._space.fragments.values() if f.status == "stored")
        return (Files(f.id, f.attempt, f.files) for f in sorted(stored, key=lambda f: f.attempt))

    def loose_heads(self) -> Iterator[tuple[str, str, int]]:
        """A state is the newest by being the last: there are no heads apart from it."""
        return iter(())

    def loose_outputs(self) -> Iterator[tuple[bytes, bytes]]:
        outputs = (
            (t.task, fragment)
            for t in self._space.traces.values()
            for fragment in t.outputs.values()
        )
        return (
            (task, fragment) for task, fragment in outputs if fragment not in self._space.fragments
        )
