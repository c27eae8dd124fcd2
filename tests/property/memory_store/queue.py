"""The in-memory twin of the queue: tasks, demands, attempts. Does not belong here: when a task is
worth doing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from controlplane.core.model import change_marks
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.tasks import SIZES, Attempt, Demand, RaisedSize, Size, Task, larger
from controlplane.ports.queue import Candidates
from controlplane.store.rules import LONGEST_DELAY_S, attempt_prefix, tried_together
from dataplane.contract.kinds import PLACEMENTS, Kind, Placement
from dataplane.contract.results import TaskError
from tests.property.memory_store.tables import CowDict, K, NamespaceTables, V


def pick(shelf: CowDict[K, V], keys: Iterable[K] | None) -> dict[K, V]:
    """What a shelf has of these keys; all if none are given."""
    return dict(shelf) if keys is None else {key: shelf[key] for key in keys if key in shelf}


class MemoryPart:
    """What the parts of an in-memory transaction share."""

    def __init__(self, space: NamespaceTables, namespace: str, now: float) -> None:
        self._space = space
        self._namespace = namespace
        self._now = now
        # Every namespace, as it was when this began
        self.spaces: Mapping[str, NamespaceTables] = {}
        self.dropped: set[str] = set()  # namespaces that are empty after this transaction

    def now(self) -> float:
        return self._now

    def _count(self, counter: str) -> int:
        number = self._space.counters.get(counter, 0) + 1
        self._space.counters[counter] = number
        return number

    def _mark(self, branch: str, *names: str) -> None:
        number = self._count("marks")
        for name in names:
            self._space.marks[branch, name] = number


class MemoryQueue(MemoryPart):
    _next_us = 0

    def lock(self) -> None:
        """One transaction is open at a time."""

    def jobs(self, digests: Iterable[bytes]) -> dict[bytes, StoredJob]:
        return pick(self._space.jobs, digests)

    def put_job(self, digest: bytes, body: StoredJob) -> None:
        self._space.jobs.setdefault(digest, body)

    def put_jobs(self, jobs: Mapping[bytes, StoredJob]) -> None:
        for digest, body in jobs.items():
            self.put_job(digest, body)

    def enqueue(
        self, branch: str, dataset: str, tasks: Sequence[Task], *, after_s: float = 0.0
    ) -> int:
        asked = {task.key: task for task in tasks}
        first_us = max(int(self._now * 1e6), self._next_us)
        self._next_us = first_us + len(asked)
        first_us += int(after_s * 1e6)
        queued = [self._ask(task, first_us + i) for i, task in enumerate(asked.values())]
        for key in asked:
            self._space.demands[key] = self._space.demands.get(key, frozenset()) | {
                (branch, dataset)
            }
        self._mark(branch, change_marks.tasks(dataset))
        return sum(queued)

    def _ask(self, task: Task, queued_us: int) -> bool:
        """Whether the task became queued."""
        old = self._space.tasks.get(task.key)
        priority = max(task.priority, old.priority) if old else task.priority
        if old and old.state != "done" and not self._is_overtaken(old):
            self._space.tasks[task.key] = replace(old, priority=priority)
            self._raise_size(old, task)
            return False
        epoch = old.epoch if old else 0
        fresh = replace(task, state="queued", attempt=None, failures=0, error=None)
        self._space.tasks[task.key] = replace(fresh, priority=priority, epoch=epoch)
        self._space.queued_us[task.key] = queued_us
        return True

    def _is_overtaken(self, task: Task) -> bool:
        return (
            task.kind == "write" and task.state == "running" and task.key not in self._space.demands
        )

    def _raise_size(self, old: Task, asked: Task) -> None:
        """A task that failed in a smaller driver is tried in the larger one."""
        if (size := larger(asked.size, old.size)) == old.size or asked.kind != old.kind:
            return
        self._set([old.key], size=size, placement=asked.placement)
        if old.state == "failed":
            self._set(
                [old.key], state="queued", attempt=None, failures=0, not_before=0.0, error=None
            )

    def demands(self, branch: str, dataset: str) -> dict[bytes, Task]:
        return {
            k: self._space.tasks[k]
            for k in self._demanded_by(branch, {dataset})
            if k in self._space.tasks
        }

    def demanded(self, branch: str, datasets: Iterable[str]) -> dict[str, dict[bytes, Demand]]:
        theirs = {name: self.demands(branch, name) for name in datasets}
        return {
            n: {k: Demand(t.state, t.size, t.priority) for k, t in tasks.items()}
            for n, tasks in theirs.items()
            if tasks
        }

    def _demanded_by(self, branch: str, datasets: Iterable[str]) -> list[bytes]:
        who = {(branch, dataset) for dataset in datasets}
        return [key for key, theirs in self._space.demands.items() if not theirs.isdisjoint(who)]

    def end_demands(self, branch: str, datasets: Iterable[str]) -> int:
        return sum(self.drop_demands(branch, dataset) for dataset in set(datasets))

    def drop_demands(self, branch: str, dataset: str, keep: Iterable[bytes] = ()) -> int:
        kept = set(keep)
        gone = [key for key in self._demanded_by(branch, {dataset}) if key not in kept]
        for key in gone:
            self._undemand(key, (branch, dataset))
        if gone:
            self._mark(branch, change_marks.tasks(dataset))
        return len(gone)

    def _drop_demands_below(self, branch: str, prefix: str) -> None:
        for key, theirs in list(self._space.demands.items()):
            for name in theirs:
                if name[0] == branch and name[1].startswith(prefix):
                    self._undemand(key, name)

    def _undemand(self, key: bytes, who: tuple[str, str]) -> None:
        left = self._space.demands[key] - {who}
        if left:
            self._space.demands[key] = left
            return
        del self._space.demands[key]
        self._delete_undemanded([key])

    def _delete_undemanded(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            task = self._space.tasks.get(key)
            if task and task.state in ("queued", "failed") and key not in self._space.demands:
                del self._space.tasks[key]

    def demanding(self, task: bytes) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self._space.demands.get(task, ())))

    def branches_of(self, tasks: Iterable[bytes]) -> dict[bytes, tuple[str, ...]]:
        demanded = pick(self._space.demands, tasks)
        return {
            task: tuple(sorted({branch for branch, _ in theirs}))
            for task, theirs in demanded.items()
        }

    def tasks(self, keys: Iterable[bytes]) -> dict[bytes, Task]:
        return pick(self._space.tasks, keys)

    def retry(
        self, branch: str, datasets: Iterable[str], tasks: Collection[bytes] | None = None
    ) -> int:
        named = list(datasets)
        self._mark(branch, *map(change_marks.tasks, named))
        theirs = self._demanded_by(branch, named)
        failed = [
            key for key, task in pick(self._space.tasks, theirs).items() if task.state == "failed"
        ]
        failed = failed if tasks is None else [key for key in failed if key in tasks]
        self._set(failed, state="queued", attempt=None, failures=0, not_before=0.0, error=None)
        return len(failed)

    # --- claims

    def backlog(
        self, sizes: Sequence[Size] = SIZES, placements: Collection[Placement] = PLACEMENTS
    ) -> dict[Kind, int]:
        counts: dict[Kind, int] = {}
        for task in self._space.tasks.values():
            if (
                task.size in sizes
                and task.placement in placements
                and task.state in ("queued", "running")
                and self._is_tried(task)
            ):
                counts[task.kind] = counts.get(task.kind, 0) + 1
        return counts

    def _is_due(self, task: Task) -> bool:
        return task.state == "queued" and self._is_tried(task)

    def _is_tried(self, task: Task) -> bool:
        """A delay that was set before the clock went back is over."""
        return not self._now < task.not_before <= self._now + LONGEST_DELAY_S

    def claim(
        self,
        attempt: str,
        driver: str,
        kinds: Sequence[Kind],
        *,
        max_tasks: int,
        lease_s: float,
        sizes: Sequence[Size] = SIZES,
        placements: Collection[Placement] = PLACEMENTS,
        without: Sequence[str] = (),
        count_of: Callable[[Candidates], int] | None = None,
    ) -> Attempt | None:
        due = sorted(filter(self._is_due, self._space.tasks.values()), key=self._order)
        left_out = tuple(flow + "." for flow in without)
        fitting = (task for task in due if task.kind in kinds and task.size in sizes)
        heads = (task for task in fitting if task.placement in placements)
        head = next((task for task in heads if not task.dataset.startswith(left_out)), None)
        if head is None:
            return None
        alike = (head.job, head.dataset, head.kind, head.size, head.placement)
        same = [t for t in due if (t.job, t.dataset, t.kind, t.size, t.placement) == alike]
        batch = tried_together(same[: max(1, max_tasks)], max_tasks)
        if len(batch) > 1 and count_of is not None:
            sizes_bytes = [task.size_bytes for task in batch]
            batch = batch[: count_of(Candidates(head.dataset, head.kind, head.job, sizes_bytes))]
        for task in batch:
            self._set([task.key], state="running", epoch=task.epoch + 1, attempt=attempt)
        claimed = Attempt(
            id=attempt,
            dataset=head.dataset,
            driver=driver,
            kind=head.kind,
            job=head.job,
            prefix=attempt_prefix(self._namespace, head.dataset, attempt),
            tasks={task.key: task.epoch + 1 for task in batch},
            lease_until=self._now + lease_s,
            at=self._now,
            queued_at=min(self._now, min(self._space.queued_us[task.key] for task in batch) / 1e6),
            partition=min(task.partition for task in batch),
        )
        self._space.attempts[attempt] = claimed
        return claimed

    def _order(self, task: Task) -> tuple[int, int, bytes]:
        return -task.priority, self._space.queued_us[task.key], task.key

    def wait_until(self, attempt: Attempt, time: float) -> None:
        self._set(self._held(attempt.id, attempt.tasks), not_before=time)

    def waiting_attempts(self) -> frozenset[str]:
        running = [task for task in self._space.tasks.values() if task.state == "running"]
        return frozenset(t.attempt for t in running if t.attempt and not self._is_tried(t))

    # --- attempts

    def attempts(self, ids: Iterable[str] | None = None) -> dict[str, Attempt]:
        return pick(self._space.attempts, ids)

    def referenced_attempts(self, ids: Sequence[str]) -> frozenset[str]:
        kept = {f.attempt for f in self._space.fragments.values() if f.status != "deleted"}
        kept |= {left.attempt for left in self._space.leftovers.values()}
        return frozenset(i for i in ids if i in kept or i in self._space.attempts)

    def extend(self, driver: str, attempts: Sequence[str], lease_s: float) -> frozenset[str]:
        live = {i: a for i, a in pick(self._space.attempts, attempts).items() if a.driver == driver}
        for name, attempt in live.items():
            self._space.attempts[name] = replace(attempt, lease_until=self._now + lease_s)
        return frozenset(live)

    def finish(self, attempt: str, done: Sequence[bytes]) -> frozenset[bytes]:
        held = self._held(attempt, done)
        self._set(held, state="done", error=None)
        self._mark_demanding(held)
        return frozenset(held)

    def fail(self, attempt: str, task: bytes, error: TaskError) -> bool:
        held = self._held(attempt, [task])
        self._set(held, state="failed", error=error)
        self._mark_demanding(held)
        return bool(held)

    def release(
        self,
        tasks: Sequence[bytes],
        *,
        attempt: str,
        not_before: float,
        error: TaskError | None,
        burn: bool,
    ) -> int:
        held = self._held(attempt, tasks)
        self._set(held, state="queued", attempt=None, not_before=not_before, error=error)
        for key in held:
            self._set([key], failures=self._space.tasks[key].failures + int(burn))
        self._mark_demanding(held)
        self._delete_undemanded(held)
        return len(held)

    def _mark_demanding(self, tasks: Iterable[bytes]) -> None:
        for task in tasks:
            for branch, dataset in self._space.demands.get(task, ()):
                self._mark(branch, change_marks.tasks(dataset))

    def _held(self, attempt: str, keys: Iterable[bytes]) -> list[bytes]:
        found = pick(self._space.tasks, keys)
        return [
            key
            for key, task in found.items()
            if task.attempt == attempt and task.state == "running"
        ]

    def _set(self, keys: Iterable[bytes], **values: Any) -> None:
        for key in keys:
            self._space.tasks[key] = replace(self._space.tasks[key], **values)

    def raised_sizes(self) -> dict[str, RaisedSize]:
        return dict(self._space.raised_sizes)

    def put_raised_size(self, raised: RaisedSize, kind: Kind) -> None:
        self._space.raised_sizes[raised.dataset] = raised
        self._mark(NO_BRANCH, change_marks.SIZES)
        smaller = SIZES[: SIZES.index(raised.size)]
        for task in list(self._space.tasks.values()):
            is_of_it = (task.dataset, task.kind, task.state) == (raised.dataset, kind, "queued")
            if is_of_it and task.size in smaller:
                self._set([task.key], size=raised.size, failures=0)

    def drop_raised_sizes(self, before: float) -> int:
        old = [name for name, raised in self._space.raised_sizes.items() if raised.at < before]
        for name in old:
            del self._space.raised_sizes[name]
        return len(old)

    def end_attempt(self, attempt: str) -> bool:
        return self._space.attempts.pop(attempt, None) is not None


def _asked(task: Task) -> Demand:
    return Demand(task.state, task.size, task.priority)
