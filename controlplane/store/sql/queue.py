"""Tasks, who demands them, and the attempts at them. Does not belong here: when a task is worth doing.

Everything but claims changes tasks under the lock on the namespace's queue, so what was read stays true until it is
written; claims take queued rows only, and skip those that somebody else is taking.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, case, delete, func, select, update

from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.tasks import SIZES, Attempt, Demand, Size, Task, TaskState
from controlplane.store.rules import LONGEST_DELAY_S, attempt_prefix, kind_and_size, kind_text, within
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump, dump_optional, load_optional
from dataplane.contract.kinds import Kind
from dataplane.contract.results import TaskError

ORDER = (db.tasks.c.rank, db.tasks.c.queued_us, db.tasks.c.key)


class SqlQueue(Part):
    """Tasks that one transaction queues keep the order in which it does."""

    _next_us = 0

    # --- jobs and demand

    def jobs(self, digests: Iterable[bytes]) -> dict[bytes, StoredJob]:
        rows = self._among(self._select(db.jobs), db.jobs.c.digest, digests)
        return {row.digest: json.loads(row.body) for row in rows}

    def put_job(self, digest: bytes, body: StoredJob) -> None:
        self._lock_queue()  # one that no task names is dropped
        self._insert(db.jobs, [{"digest": digest, "body": dump(body)}])

    def enqueue(self, branch: str, dataset: str, tasks: Sequence[Task], *, after_s: float = 0.0) -> int:
        self._lock_queue()
        asked = {task.key: task for task in tasks}
        found = self._states(asked)
        queued_us = max(int(self.now() * 1e6), self._next_us)
        self._next_us = queued_us + len(asked)
        queued_us += int(after_s * 1e6)
        rows = {k: _queued_row(task, queued_us + i) for i, (k, task) in enumerate(asked.items())}
        writes = [k for k, state in found.items() if state == "running" and asked[k].kind == "write"]
        again = [k for k, state in found.items() if state == "done"] + self._undemanded(writes)
        self._insert_tasks(row for k, row in rows.items() if k not in found)
        self._requeue(rows[k] for k in again)
        again_asked = [task for k, task in asked.items() if k in found]
        self._raise_priorities(again_asked)
        self._raise_sizes(again_asked)
        self._insert(db.demands, [{"branch": branch, "dataset": dataset, "task": k} for k in asked])
        self._mark(branch, dataset)
        return len(asked) - len(found) + len(again)

    def _states(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        wanted = select(db.tasks.c.key, db.tasks.c.state).where(self._mine(db.tasks))
        return {row.key: row.state for row in self._among(wanted, db.tasks.c.key, keys)}

    def _undemanded(self, keys: Iterable[bytes]) -> list[bytes]:
        wanted = select(db.tasks.c.key).where(self._mine(db.tasks), ~self._is_demanded())
        return [row.key for row in self._among(wanted, db.tasks.c.key, keys)]

    def _insert_tasks(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._insert(db.tasks, [{**row, "epoch": 0} for row in rows])

    def _requeue(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Tasks start again under what is asked now; their epochs go on."""
        changed = [{"the_key" if k == "key" else k: v for k, v in row.items() if k != "rank"} for row in rows]
        self._update_many(db.tasks, "key", changed)

    def _raise_priorities(self, asked: Sequence[Task]) -> None:
        ranks: dict[int, list[bytes]] = {}
        for task in asked:
            ranks.setdefault(-task.priority, []).append(task.key)
        for rank, keys in ranks.items():
            lower = update(db.tasks).where(self._mine(db.tasks), db.tasks.c.rank > rank)
            self._change_among(lower.values(rank=rank), db.tasks.c.key, keys)

    def _raise_sizes(self, asked: Sequence[Task]) -> None:
        """A task that failed in a smaller driver is tried in the larger one."""
        kinds: dict[tuple[Kind, Size], list[bytes]] = {}
        for task in asked:
            kinds.setdefault((task.kind, task.size), []).append(task.key)
        for (kind, size), keys in kinds.items():
            smaller = [kind_text(kind, s) for s in SIZES[: SIZES.index(size)]]
            if not smaller:
                continue
            theirs = self._mine(db.tasks) & db.tasks.c.kind.in_(smaller)
            fresh = {"state": "queued", "attempt": None, "failures": 0, "not_before": 0.0, "error": None}
            failed = update(db.tasks).where(theirs, db.tasks.c.state == "failed").values(fresh)
            self._change_among(failed, db.tasks.c.key, keys)
            self._change_among(update(db.tasks).where(theirs).values(kind=kind_text(kind, size)), db.tasks.c.key, keys)

    def demands(self, branch: str, dataset: str) -> dict[bytes, Task]:
        theirs = (db.demands.c.namespace == db.tasks.c.namespace) & (db.demands.c.task == db.tasks.c.key)
        wanted = select(db.tasks).join(db.demands, theirs).where(self._mine(db.demands, branch=branch, dataset=dataset))
        return {row.key: _task(row) for row in self._rows(wanted)}

    def demanded(self, branch: str, datasets: Iterable[str]) -> dict[str, dict[bytes, Demand]]:
        task, theirs = (
            db.tasks.c,
            (db.demands.c.namespace == db.tasks.c.namespace) & (db.demands.c.task == db.tasks.c.key),
        )
        columns = select(db.demands.c.dataset, task.key, task.state, task.kind, task.rank).join(db.demands, theirs)
        wanted = columns.where(self._mine(db.demands, branch=branch))
        found: dict[str, dict[bytes, Demand]] = {}
        for row in self._among(wanted, db.demands.c.dataset, datasets):
            found.setdefault(row.dataset, {})[row.key] = Demand(row.state, kind_and_size(row.kind)[1], -row.rank)
        return found

    def demand_counts(self, branch: str) -> dict[str, dict[TaskState, int]]:
        demand, task = db.demands.c, db.tasks.c
        theirs = (demand.namespace == task.namespace) & (demand.task == task.key)
        counts = select(demand.dataset, task.state, func.count().label("n")).join_from(db.demands, db.tasks, theirs)
        grouped = counts.where(self._mine(db.demands, branch=branch)).group_by(demand.dataset, task.state)
        found: dict[str, dict[TaskState, int]] = {}
        for row in self._rows(grouped):
            found.setdefault(row.dataset, {})[row.state] = row.n
        return found

    def drop_demands(self, branch: str, dataset: str, keep: Iterable[bytes] = ()) -> int:
        self._lock_queue()
        mine = self._mine(db.demands, branch=branch, dataset=dataset)
        kept = set(keep)
        all_of_them = {row.task for row in self._rows(select(db.demands.c.task).where(mine))}
        gone = all_of_them - kept
        if gone == all_of_them:
            self._delete(db.demands, branch=branch, dataset=dataset)
        else:
            self._change_among(delete(db.demands).where(mine), db.demands.c.task, gone)
        self._delete_undemanded(gone)
        if gone:
            self._mark(branch, dataset)
        return len(gone)

    def _drop_demands_below(self, branch: str, prefix: str) -> None:
        self._lock_queue()
        below = self._mine(db.demands, branch=branch) & (func.substr(db.demands.c.dataset, 1, len(prefix)) == prefix)
        gone = [row.task for row in self._rows(select(db.demands.c.task).where(below))]
        self._change(delete(db.demands).where(below))
        self._delete_undemanded(gone)

    def _delete_undemanded(self, keys: Iterable[bytes]) -> None:
        idle = self._mine(db.tasks) & db.tasks.c.state.in_(("queued", "failed"))
        self._change_among(delete(db.tasks).where(idle, ~self._is_demanded()), db.tasks.c.key, keys)

    def _is_demanded(self) -> ColumnElement[bool]:
        return select(db.demands.c.task).where(self._mine(db.demands), db.demands.c.task == db.tasks.c.key).exists()

    def demanding(self, task: bytes) -> tuple[tuple[str, str], ...]:
        rows = self._rows(self._select(db.demands, task=task))
        return tuple(sorted((row.branch, row.dataset) for row in rows))

    def branches_of(self, tasks: Iterable[bytes]) -> dict[bytes, tuple[str, ...]]:
        demand = db.demands.c
        wanted = select(demand.task, demand.branch).where(self._mine(db.demands)).distinct()
        found: dict[bytes, set[str]] = {}
        for row in self._among(wanted, demand.task, tasks):
            found.setdefault(row.task, set()).add(row.branch)
        return {task: tuple(sorted(branches)) for task, branches in found.items()}

    def tasks(self, keys: Iterable[bytes]) -> dict[bytes, Task]:
        return {row.key: _task(row) for row in self._among(self._select(db.tasks), db.tasks.c.key, keys)}

    def retry(self, branch: str, datasets: Iterable[str], tasks: Collection[bytes] | None = None) -> int:
        self._lock_queue()
        theirs = select(db.demands.c.task).where(self._mine(db.demands, branch=branch))
        named = list(datasets)
        self._mark(branch, *named)
        wanted = theirs.where(db.demands.c.dataset.in_(named))
        failed = self._mine(db.tasks, state="failed") & db.tasks.c.key.in_(wanted)
        fresh = {"state": "queued", "attempt": None, "failures": 0, "not_before": 0.0, "error": None}
        change = update(db.tasks).where(failed).values(fresh)
        return self._change(change) if tasks is None else self._change_among(change, db.tasks.c.key, tasks)

    # --- claims

    def backlog(self, sizes: Sequence[Size] = SIZES) -> dict[Kind, int]:
        task = db.tasks.c
        waiting = (task.state == "running") | ((task.state == "queued") & self._is_tried())
        counts = select(task.kind, func.count().label("n")).where(self._mine(db.tasks), waiting).group_by(task.kind)
        found: dict[Kind, int] = {}
        for row in self._rows(counts):
            kind, size = kind_and_size(row.kind)
            if size in sizes:
                found[kind] = found.get(kind, 0) + row.n
        return found

    def waiting_since(self, kinds: Sequence[Kind]) -> float | None:
        task = db.tasks.c
        stored = [kind_text(kind, size) for kind in kinds for size in SIZES]
        queued = task.queued_us / 1e6
        due = case((task.not_before > queued, task.not_before), else_=queued)
        waiting = self._mine(db.tasks, state="queued") & (due <= self.now()) & task.kind.in_(stored)
        row = self._row(select(func.min(due).label("since")).where(waiting))
        return None if row is None else row.since

    def claim(
        self,
        attempt: str,
        driver: str,
        kinds: Sequence[Kind],
        *,
        max_tasks: int,
        max_bytes: int,
        lease_s: float,
        sizes: Sequence[Size] = SIZES,
        without: Sequence[str] = (),
    ) -> Attempt | None:
        stored = [kind_text(kind, size) for kind in kinds for size in sizes]
        heads = self._due().where(db.tasks.c.kind.in_(stored))
        for flow in without:
            heads = heads.where(func.substr(db.tasks.c.dataset, 1, len(flow) + 1) != flow + ".")
        head = self._row(heads.limit(1))
        if head is None:
            return None
        task = db.tasks.c
        same = self._due().where(task.job == head.job, task.dataset == head.dataset, task.kind == head.kind)
        batch = within(self._rows(same.limit(max(1, max_tasks))), max_bytes)
        self._set([row.key for row in batch], state="running", epoch=task.epoch + 1, attempt=attempt)
        claimed = Attempt(
            id=attempt,
            dataset=head.dataset,
            driver=driver,
            kind=kind_and_size(head.kind)[0],
            job=head.job,
            prefix=attempt_prefix(self._namespace, head.dataset, attempt),
            tasks={row.key: row.epoch + 1 for row in batch},
            lease_until=self.now() + lease_s,
            at=self.now(),
            queued_at=min(self.now(), min(row.queued_us for row in batch) / 1e6),
            partition=min(row.partition for row in batch),
        )
        self._upsert(db.attempts, [_attempt_row(claimed)])
        return claimed

    def _due(self) -> Select[Any]:
        """Queued tasks in the order of claims; those that another claim is taking are passed over."""
        task = db.tasks.c
        names = ("key", "kind", "job", "dataset", "partition", "epoch", "size_bytes", "queued_us")
        due = self._mine(db.tasks, state="queued") & self._is_tried()
        return select(*(task[name] for name in names)).where(due).order_by(*ORDER).with_for_update(skip_locked=True)

    def _is_tried(self) -> ColumnElement[bool]:
        """The task's delay is over, or was set before the clock went back."""
        not_before, now = db.tasks.c.not_before, self.now()
        return (not_before <= now) | (not_before > now + LONGEST_DELAY_S)

    # --- attempts

    def attempts(self, ids: Iterable[str] | None = None) -> dict[str, Attempt]:
        rows = self._some(self._select(db.attempts), db.attempts.c.id, ids)
        return {row.id: _attempt(row) for row in rows}

    def extend(self, driver: str, attempts: Sequence[str], lease_s: float) -> frozenset[str]:
        own = self._mine(db.attempts, driver=driver)
        locked = select(db.attempts.c.id).where(own).order_by(db.attempts.c.id).with_for_update()
        live = [row.id for row in self._among(locked, db.attempts.c.id, sorted(attempts))]
        renewed = update(db.attempts).where(own).values(lease_until=self.now() + lease_s)
        self._change_among(renewed, db.attempts.c.id, live)
        return frozenset(live)

    def finish(self, attempt: str, done: Sequence[bytes]) -> frozenset[bytes]:
        held = self._set_held(attempt, done, state="done", error=None)
        self._mark_demanding(held)
        return frozenset(held)

    def fail(self, attempt: str, task: bytes, error: TaskError) -> bool:
        held = self._set_held(attempt, [task], state="failed", error=dump(error))
        self._mark_demanding(held)
        return bool(held)

    def release(
        self, tasks: Sequence[bytes], *, attempt: str, not_before: float, error: TaskError | None, burn: bool
    ) -> int:
        failures = db.tasks.c.failures + int(burn)
        queued = {"state": "queued", "attempt": None, "not_before": not_before, "failures": failures}
        held = self._set_held(attempt, tasks, **queued, error=dump_optional(error))
        self._mark_demanding(held)
        self._delete_undemanded(held)
        return len(held)

    def _mark_demanding(self, tasks: Iterable[bytes]) -> None:
        who = select(db.demands.c.branch, db.demands.c.dataset).distinct().where(self._mine(db.demands))
        for row in self._among(who, db.demands.c.task, tasks):
            self._mark(row.branch, row.dataset)

    def _set_held(self, attempt: str, keys: Iterable[bytes], /, **values: Any) -> list[bytes]:
        """Set those of the tasks that are running by this attempt, and name them; a claim by another one took others
        with a higher epoch."""
        self._lock_queue()
        held = self._mine(db.tasks, attempt=attempt, state="running")
        changed = update(db.tasks).where(held).values(values).returning(db.tasks.c.key)
        return [row.key for row in self._among(changed, db.tasks.c.key, keys)]

    def _set(self, keys: Iterable[bytes], **values: Any) -> None:
        self._change_among(update(db.tasks).where(self._mine(db.tasks)).values(values), db.tasks.c.key, keys)

    def end_attempt(self, attempt: str) -> None:
        self._delete(db.attempts, id=attempt)


def _queued_row(task: Task, queued_us: int) -> dict[str, Any]:
    return {
        "key": task.key,
        "kind": kind_text(task.kind, task.size),
        "dataset": task.dataset,
        "partition": task.partition,
        "job": task.job,
        "spec": dump(task.spec),
        "size_bytes": task.size_bytes,
        "rank": -task.priority,
        "queued_us": queued_us,
        "state": "queued",
        "attempt": None,
        "failures": 0,
        "not_before": task.not_before,
        "error": None,
    }


def _task(row: Row[Any]) -> Task:
    kind, size = kind_and_size(row.kind)
    return Task(
        key=row.key,
        kind=kind,
        size=size,
        dataset=row.dataset,
        partition=row.partition,
        job=row.job,
        spec=json.loads(row.spec),
        size_bytes=row.size_bytes,
        priority=-row.rank,
        state=row.state,
        epoch=row.epoch,
        attempt=row.attempt,
        failures=row.failures,
        not_before=row.not_before,
        error=load_optional(row.error),
    )


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "dataset": attempt.dataset,
        "driver": attempt.driver,
        "kind": attempt.kind,
        "job": attempt.job,
        "prefix": attempt.prefix,
        "tasks": dump({key.hex(): epoch for key, epoch in attempt.tasks.items()}),
        "lease_until": attempt.lease_until,
        "at": attempt.at,
        "queued_at": attempt.queued_at,
        "partition": attempt.partition,
    }


def _attempt(row: Row[Any]) -> Attempt:
    return Attempt(
        id=row.id,
        dataset=row.dataset,
        driver=row.driver,
        kind=row.kind,
        job=row.job,
        prefix=row.prefix,
        tasks={bytes.fromhex(key): epoch for key, epoch in json.loads(row.tasks).items()},
        lease_until=row.lease_until,
        at=row.at,
        queued_at=row.at if row.queued_at is None else row.queued_at,
        partition=row.partition or "",
    )
