"""Tasks, who demands them, and the attempts at them. Does not belong here: when a task is worth
doing.

All changes of tasks but claims hold the lock on the namespace's queue, so rows stay true from read
to write; claims take queued rows only, and skip those that another claim is taking.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Double,
    Row,
    Select,
    Text,
    case,
    delete,
    func,
    select,
    update,
)
from sqlalchemy import bindparam as bind
from sqlalchemy.sql.dml import ReturningUpdate

from controlplane.core.model import change_marks
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.tasks import SIZES, Attempt, Demand, RaisedSize, Size, Task, TaskState
from controlplane.ports.queue import Candidates
from controlplane.store.rules import (
    LONGEST_DELAY_S,
    KindText,
    attempt_prefix,
    kind_texts,
    tried_together,
)
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup
from controlplane.store.sql.row_records import Record, dump, dump_optional
from controlplane.store.sql.statements import among, equal, one_of
from dataplane.contract.kinds import KINDS, PLACEMENTS, Kind, Placement, placement_of
from dataplane.contract.results import TaskError

_REQUESTED = Record(db.tasks, Task, size=None, placement=None, priority=None)
_ATTEMPTS = Record(db.attempts, Attempt, tasks=None)
_RAISED_SIZES = Record(db.raised_sizes, RaisedSize)
_TASK, _DEMAND, _ATTEMPT = db.tasks.c, db.demands.c, db.attempts.c
ORDER = (_TASK.rank, _TASK.queued_us, _TASK.key)
FRESH = {"state": "queued", "attempt": None, "failures": 0, "not_before": 0.0, "error": None}
_TASKS = among(db.tasks, "key")
_OF_TASK = (_DEMAND.namespace == _TASK.namespace) & (_DEMAND.task == _TASK.key)
_OF_DATASET = equal(db.demands, "branch", "dataset")
_IS_DEMANDED = select(_DEMAND.task).where(equal(db.demands), _DEMAND.task == _TASK.key).exists()

_STATES = select(_TASK.key, _TASK.state).where(_TASKS)
_UNDEMANDED = select(_TASK.key).where(_TASKS, ~_IS_DEMANDED)
_RAISE = update(db.tasks).where(_TASKS, _TASK.rank > bind("of_rank")).values(rank=bind("of_rank"))
_SMALLER = _TASKS & one_of(_TASK.kind, "smaller")
_FAILED_SMALLER = update(db.tasks).where(_SMALLER, _TASK.state == "failed")
_ENLARGE = update(db.tasks).where(_SMALLER)
_ENLARGE_QUEUED = update(db.tasks).where(
    equal(db.tasks, "dataset"), one_of(_TASK.kind, "smaller"), _TASK.state == "queued"
)
_OLD_SIZES = delete(db.raised_sizes).where(
    equal(db.raised_sizes), db.raised_sizes.c.at < bind("before")
)
_TASKS_OF_DATASET = select(db.tasks).join(db.demands, _OF_TASK).where(_OF_DATASET)
_DEMANDED = (
    select(_DEMAND.dataset, _TASK.key, _TASK.state, _TASK.kind, _TASK.rank)
    .join(db.demands, _OF_TASK)
    .where(equal(db.demands, "branch"), one_of(_DEMAND.dataset))
)
_COUNTS = (
    select(_DEMAND.dataset, _TASK.state, func.count().label("n"))
    .join_from(db.demands, db.tasks, _OF_TASK)
    .where(equal(db.demands, "branch"))
    .group_by(_DEMAND.dataset, _TASK.state)
)
_DEMANDS_OF_DATASET = select(_DEMAND.task).where(_OF_DATASET)
_END_DEMANDS = (
    delete(db.demands)
    .where(equal(db.demands, "branch"), one_of(_DEMAND.dataset))
    .returning(_DEMAND.dataset, _DEMAND.task)
)
_BELOW = equal(db.demands, "branch") & (
    func.substr(_DEMAND.dataset, 1, func.length(bind("prefix"))) == bind("prefix")
)
_DEMANDS_BELOW, _DROP_BELOW = select(_DEMAND.task).where(_BELOW), delete(db.demands).where(_BELOW)
_DROP_UNDEMANDED = delete(db.tasks).where(
    _TASKS, _TASK.state.in_(("queued", "failed")), ~_IS_DEMANDED
)
_DEMANDING = (
    select(_DEMAND.task, _DEMAND.branch, _DEMAND.dataset)
    .distinct()
    .where(equal(db.demands), one_of(_DEMAND.task))
)
_IS_FAILED_OF_BRANCH = equal(db.tasks) & (_TASK.state == "failed")
_IS_FAILED_OF_BRANCH &= _TASK.key.in_(
    select(_DEMAND.task).where(equal(db.demands, "branch"), one_of(_DEMAND.dataset, "datasets"))
)
_RETRY = update(db.tasks).where(_IS_FAILED_OF_BRANCH)
_RETRY_SOME = _RETRY.where(_TASKS)

# A task whose delay is over, or was set before the clock went back.
_NOW, _LATEST = bind("now", type_=Double), bind("latest", type_=Double)
_IS_TRIED = (_TASK.not_before <= _NOW) | (_TASK.not_before > _LATEST)
_BACKLOG = (
    select(_TASK.kind, func.count().label("n"))
    .where(equal(db.tasks), _TASK.state.in_(("queued", "running")), _IS_TRIED)
    .group_by(_TASK.kind)
)
_WAITING = select(_TASK.attempt).where(equal(db.tasks), _TASK.state == "running", ~_IS_TRIED)
_QUEUED = _TASK.queued_us / 1e6
_DUE_SINCE = case((_TASK.not_before > _QUEUED, _TASK.not_before), else_=_QUEUED)
_WAITING_SINCE = select(func.min(_DUE_SINCE).label("since")).where(
    equal(db.tasks), _TASK.state == "queued", _DUE_SINCE <= _NOW, one_of(_TASK.kind, "kinds")
)


def _due(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Queued tasks in the order of claims; those that another claim is taking are passed over."""
    names = (
        "key",
        "kind",
        "job",
        "dataset",
        "partition",
        "epoch",
        "size_bytes",
        "queued_us",
        "failures",
    )
    is_due = equal(db.tasks) & (_TASK.state == "queued") & _IS_TRIED
    tasks = select(*(_TASK[name] for name in names)).where(is_due, *conditions)
    return tasks.order_by(*ORDER).with_for_update(skip_locked=True)


@lru_cache(maxsize=64)
def _batch(without: int) -> Select[Any]:
    """The first task that is due, of none of so many dataflows, with others of its job. The head is
    locked as well, so that two claims never begin at one task."""
    begins = [bind(f"without_{i}", type_=Text) for i in range(without)]
    others = [func.substr(_TASK.dataset, 1, func.length(begin)) != begin for begin in begins]
    head = _due(one_of(_TASK.kind, "kinds"), *others).limit(1).cte("head")
    same = [
        _TASK[name] == select(head.c[name]).scalar_subquery() for name in ("job", "dataset", "kind")
    ]
    return _due(*same).limit(bind("n", type_=BigInteger))


_CLAIM = update(db.tasks).where(_TASKS).values(epoch=_TASK.epoch + 1).returning(db.tasks)

_OWN = equal(db.attempts, "driver") & one_of(_ATTEMPT.id)
_LOCK_OWN = select(_ATTEMPT.id).where(_OWN).order_by(_ATTEMPT.id).with_for_update()
_RENEW_OWN = update(db.attempts).where(_OWN)
_OTHER_KIND = update(db.tasks).where(equal(db.tasks, "kind"), _TASK.state == "queued")
_IS_HELD = _TASKS & (_TASK.attempt == bind("of_attempt")) & (_TASK.state == "running")
_WAIT = update(db.tasks).where(_IS_HELD)
_SET_HELD = update(db.tasks).where(_IS_HELD).returning(_TASK.key)
_RELEASE_HELD = _SET_HELD.values(failures=_TASK.failures + bind("burned"))


class SqlQueue(TableGroup):
    """Tasks that one transaction queues keep the order in which it does."""

    def __init__(self, transaction: OpenTransaction) -> None:
        super().__init__(transaction)
        self._next_us = 0
        self._is_locked = False
        # Tasks as a claim left them, until the queue is locked
        self._claimed: dict[bytes, Row[Any]] = {}
        self._backlog: Sequence[Row[Any]] | None = (
            None  # of a snapshot, which is read for each pool
        )
        self._demanding: dict[bytes, list[Row[Any]]] = {}  # demands by task, read under the lock

    def lock(self) -> None:
        """Transactions that change demands run one at a time."""
        self._claimed.clear()
        if not self._is_locked:
            now = self._dialect.lock_queue(self._connection, self._namespace)
            if self._transaction.time is None:
                self._transaction.time = now
            self._is_locked = True

    # --- jobs and demand

    def jobs(self, digests: Iterable[bytes]) -> dict[bytes, StoredJob]:
        rows = self._rows_among(db.jobs, "digest", digests)
        return {row.digest: json.loads(row.body) for row in rows}

    def put_job(self, digest: bytes, body: StoredJob) -> None:
        self.put_jobs({digest: body})

    def put_jobs(self, jobs: Mapping[bytes, StoredJob]) -> None:
        if not jobs:
            return
        self.lock()  # one that no task names is dropped
        self._insert(
            db.jobs, [{"digest": digest, "body": dump(body)} for digest, body in jobs.items()]
        )

    def enqueue(
        self, branch: str, dataset: str, tasks: Sequence[Task], *, after_s: float = 0.0
    ) -> int:
        self.lock()
        tasks_by_key = {task.key: task for task in tasks}
        queued_us = max(int(self._now() * 1e6), self._next_us)
        self._next_us = queued_us + len(tasks_by_key)
        queued_us += int(after_s * 1e6)
        rows = {
            key: _queued_row(task, queued_us + i)
            for i, (key, task) in enumerate(tasks_by_key.items())
        }
        queued = self._insert(db.tasks, [{**row, "epoch": 0} for row in rows.values()])
        if queued < len(tasks_by_key):
            queued += self._queue_again(tasks_by_key, rows)
        self._insert(
            db.demands,
            [{"branch": branch, "dataset": dataset, "task": key} for key in tasks_by_key],
        )
        self._demanding.clear()
        self._mark(branch, change_marks.tasks(dataset))
        return queued

    def _queue_again(
        self, tasks_by_key: Mapping[bytes, Task], rows: Mapping[bytes, Mapping[str, Any]]
    ) -> int:
        """Update existing tasks: done ones, and running writes without a demand, start again;
        others become as urgent and as large as requested. Returns how many start again."""
        states = self._states(tasks_by_key)
        writes = [
            key
            for key, state in states.items()
            if state == "running" and tasks_by_key[key].kind == "write"
        ]
        again = [key for key, state in states.items() if state == "done"] + self._undemanded(writes)
        self._requeue(rows[key] for key in again)
        self._raise_priorities(list(tasks_by_key.values()))
        self._raise_sizes(list(tasks_by_key.values()))
        return len(again)

    def _states(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        return {row.key: row.state for row in self._rows_by(_STATES, keys)}

    def _undemanded(self, keys: Iterable[bytes]) -> list[bytes]:
        return [row.key for row in self._rows_by(_UNDEMANDED, keys)]

    def _requeue(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Tasks start again with the new request's values; their epochs go on."""
        changed = [
            {"of_key" if k == "key" else k: v for k, v in row.items() if k != "rank"}
            for row in rows
        ]
        self._update_many(db.tasks, "key", changed)

    def _raise_priorities(self, tasks: Sequence[Task]) -> None:
        ranks: dict[int, list[bytes]] = {}
        for task in tasks:
            ranks.setdefault(-task.priority, []).append(task.key)
        for rank, keys in ranks.items():
            self._change_by(_RAISE, keys, of_rank=rank)

    def _raise_sizes(self, tasks: Sequence[Task]) -> None:
        """A task that failed in a smaller driver is tried in the larger one."""
        alike: dict[KindText, list[bytes]] = {}
        for task in tasks:
            alike.setdefault(_kind_of(task), []).append(task.key)
        for kind, keys in alike.items():
            smaller = kind_texts(
                (kind.kind,), SIZES[: SIZES.index(kind.size)], frozenset(PLACEMENTS)
            )
            if not smaller:
                continue
            self._change_by(_FAILED_SMALLER, keys, smaller=smaller, **FRESH)
            self._change_by(_ENLARGE, keys, smaller=smaller, kind=kind.text)

    def demands(self, branch: str, dataset: str) -> dict[bytes, Task]:
        rows = self._rows(_TASKS_OF_DATASET, of_branch=branch, of_dataset=dataset)
        return {row.key: _task(row) for row in rows}

    def demanded(self, branch: str, datasets: Iterable[str]) -> dict[str, dict[bytes, Demand]]:
        demands: dict[str, dict[bytes, Demand]] = {}
        for row in self._rows_by(_DEMANDED, datasets, of_branch=branch):
            demands.setdefault(row.dataset, {})[row.key] = Demand(
                row.state, KindText.of(row.kind).size, -row.rank
            )
        return demands

    def demand_counts(self, branch: str) -> dict[str, dict[TaskState, int]]:
        counts: dict[str, dict[TaskState, int]] = {}
        for row in self._rows(_COUNTS, of_branch=branch):
            counts.setdefault(row.dataset, {})[row.state] = row.n
        return counts

    def drop_demands(self, branch: str, dataset: str, keep: Iterable[bytes] = ()) -> int:
        kept_keys = set(keep)
        if not kept_keys:
            return self.end_demands(branch, [dataset])
        self.lock()
        rows = self._rows(_DEMANDS_OF_DATASET, of_branch=branch, of_dataset=dataset)
        dropped = {(dataset, row.task) for row in rows if row.task not in kept_keys}
        keys = [key for _, key in dropped]
        self._delete_among(db.demands, "task", keys, branch=branch, dataset=dataset)
        return self._dropped(branch, dropped)

    def end_demands(self, branch: str, datasets: Iterable[str]) -> int:
        self.lock()
        rows = self._rows_by(_END_DEMANDS, datasets, of_branch=branch)
        return self._dropped(branch, {(row.dataset, row.task) for row in rows})

    def _dropped(self, branch: str, demands: Collection[tuple[str, bytes]]) -> int:
        """`demands`: of a dataset each for a task."""
        if demands:
            self._demanding.clear()
            self._delete_undemanded(task for _, task in demands)
            self._mark(branch, *(change_marks.tasks(dataset) for dataset, _ in demands))
        return len(demands)

    def drop_demands_below(self, branch: str, prefix: str) -> None:
        self.lock()
        dropped = [row.task for row in self._rows(_DEMANDS_BELOW, of_branch=branch, prefix=prefix)]
        self._change(_DROP_BELOW, of_branch=branch, prefix=prefix)
        self._demanding.clear()
        self._delete_undemanded(dropped)

    def _delete_undemanded(self, keys: Iterable[bytes]) -> None:
        self._change_by(_DROP_UNDEMANDED, keys)

    def demanding(self, task: bytes) -> tuple[tuple[str, str], ...]:
        rows = self._rows_of(db.demands, task=task)
        return tuple(sorted((row.branch, row.dataset) for row in rows))

    def branches_of(self, tasks: Iterable[bytes]) -> dict[bytes, tuple[str, ...]]:
        demands = self._demands_of(tasks)
        return {
            task: tuple(sorted({row.branch for row in rows}))
            for task, rows in demands.items()
            if rows
        }

    def _demands_of(self, tasks: Iterable[bytes]) -> dict[bytes, list[Row[Any]]]:
        """Read once under the lock on the queue: no other transaction changes them then."""
        keys = list(dict.fromkeys(tasks))
        missing = [key for key in keys if key not in self._demanding]
        demands: dict[bytes, list[Row[Any]]] = {key: [] for key in missing}
        for row in self._rows_by(_DEMANDING, missing):
            demands[row.task].append(row)
        if self._is_locked:
            self._demanding.update(demands)
        return {key: demands[key] if key in demands else self._demanding[key] for key in keys}

    def tasks(self, keys: Iterable[bytes]) -> dict[bytes, Task]:
        keys = list(keys)
        if keys and all(key in self._claimed for key in keys):
            return {key: _task(self._claimed[key]) for key in keys}
        return {row.key: _task(row) for row in self._rows_among(db.tasks, "key", keys)}

    def retry(
        self, branch: str, datasets: Iterable[str], tasks: Collection[bytes] | None = None
    ) -> int:
        self.lock()
        names = list(datasets)
        self._mark(branch, *map(change_marks.tasks, names))
        of = {"of_branch": branch, "datasets": names}
        return (
            self._change(_RETRY, **of, **FRESH)
            if tasks is None
            else self._change_by(_RETRY_SOME, tasks, **of, **FRESH)
        )

    # --- claims

    def backlog(
        self, sizes: Sequence[Size] = SIZES, placements: Collection[Placement] = PLACEMENTS
    ) -> dict[Kind, int]:
        if self._backlog is None or self._transaction.is_writing:
            self._backlog = self._rows(_BACKLOG, **self._times())
        counts: dict[Kind, int] = {}
        for row in self._backlog:
            kind, size, placement = KindText.of(row.kind)
            if size in sizes and placement in placements:
                counts[kind] = counts.get(kind, 0) + row.n
        return counts

    def waiting_since(self, placements: Collection[Placement]) -> float | None:
        stored = kind_texts(tuple(KINDS), SIZES, frozenset(placements))
        row = self._row(_WAITING_SINCE, kinds=stored, now=self._now())
        return None if row is None else row.since

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
        stored = kind_texts(tuple(kinds), tuple(sizes), frozenset(placements))
        begins = {f"without_{i}": f"{flow}." for i, flow in enumerate(without)}
        of = {"kinds": stored, "n": max(1, max_tasks), **begins, **self._times()}
        due = self._rows(_batch(len(without)), **of)
        batch = tried_together(due, max_tasks)
        if not batch:
            return None
        head, kind = batch[0], KindText.of(batch[0].kind).kind
        if len(batch) > 1 and count_of is not None:
            sizes_bytes = [row.size_bytes for row in batch]
            batch = batch[: count_of(Candidates(head.dataset, kind, head.job, sizes_bytes))]
        running = self._rows_by(
            _CLAIM, [row.key for row in batch], state="running", attempt=attempt
        )
        self._claimed = {row.key: row for row in running}
        claimed = Attempt(
            id=attempt,
            dataset=head.dataset,
            driver=driver,
            kind=kind,
            job=head.job,
            prefix=attempt_prefix(self._namespace, head.dataset, attempt),
            tasks={row.key: row.epoch + 1 for row in batch},
            lease_until=self._now() + lease_s,
            at=self._now(),
            queued_at=min(self._now(), min(row.queued_us for row in batch) / 1e6),
            partition=min(row.partition for row in batch),
        )
        self._upsert(db.attempts, [_attempt_row(claimed)])
        return claimed

    def _times(self) -> dict[str, float]:
        now = self._now()
        return {"now": now, "latest": now + LONGEST_DELAY_S}

    def wait_until(self, attempt: Attempt, time: float) -> None:
        self._claimed.clear()
        self._change_by(_WAIT, attempt.tasks, of_attempt=attempt.id, not_before=time)

    def waiting_attempts(self) -> frozenset[str]:
        return frozenset(row.attempt for row in self._rows(_WAITING, **self._times()))

    # --- attempts

    def attempts(self, ids: Iterable[str] | None = None) -> dict[str, Attempt]:
        rows = self._rows_if(db.attempts, "id", ids)
        return {row.id: _attempt(row) for row in rows}

    def extend(self, driver: str, attempts: Sequence[str], lease_s: float) -> frozenset[str]:
        live = [row.id for row in self._rows_by(_LOCK_OWN, sorted(attempts), of_driver=driver)]
        self._change_by(_RENEW_OWN, live, of_driver=driver, lease_until=self._now() + lease_s)
        return frozenset(live)

    def finish(self, attempt: str, done: Sequence[bytes]) -> frozenset[bytes]:
        held = self._set_held(_SET_HELD, attempt, done, state="done", error=None)
        self._mark_demanding(held)
        return frozenset(held)

    def fail(self, attempt: str, task: bytes, error: TaskError) -> bool:
        held = self._set_held(_SET_HELD, attempt, [task], state="failed", error=dump(error))
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
        queued = {
            "state": "queued",
            "attempt": None,
            "not_before": not_before,
            "error": dump_optional(error),
        }
        held = self._set_held(_RELEASE_HELD, attempt, tasks, burned=int(burn), **queued)
        self._mark_demanding(held)
        self._delete_undemanded(held)
        return len(held)

    def raised_sizes(self) -> dict[str, RaisedSize]:
        return {raised.dataset: raised for raised in self._values_of(_RAISED_SIZES)}

    def put_raised_size(self, raised: RaisedSize, kind: Kind) -> None:
        self.lock()
        self._put(_RAISED_SIZES, [raised])
        self._mark(NO_BRANCH, change_marks.SIZES)
        sizes = SIZES[: SIZES.index(raised.size)]
        for placement in PLACEMENTS:
            smaller = kind_texts((kind,), sizes, frozenset((placement,)))
            text = KindText(kind, raised.size, placement).text
            of = {"of_dataset": raised.dataset, "smaller": smaller}
            self._change(_ENLARGE_QUEUED, **of, kind=text, failures=0)

    def drop_raised_sizes(self, before: float) -> int:
        return self._change(_OLD_SIZES, before=before)

    def hand_over(self, attempt: str, tasks: Sequence[Task], kind: Kind) -> frozenset[bytes]:
        alike: dict[str, list[bytes]] = {}
        for task in tasks:
            text = KindText(kind, task.size, placement_of(kind)).text
            alike.setdefault(text, []).append(task.key)
        held: list[bytes] = []
        for text, keys in alike.items():
            queued = {"kind": text, "state": "queued", "attempt": None}
            held += self._set_held(_SET_HELD, attempt, keys, **queued)
        self._mark_demanding(held)
        self._delete_undemanded(held)
        return frozenset(held)

    def hand_over_queued(self, kind: Kind, to: Kind) -> int:
        self.lock()
        count = 0
        for size in SIZES:
            before = KindText(kind, size, placement_of(kind)).text
            after = KindText(to, size, placement_of(to)).text
            count += self._change(_OTHER_KIND, of_kind=before, kind=after)
        return count

    def _mark_demanding(self, tasks: Iterable[bytes]) -> None:
        for rows in self._demands_of(tasks).values():
            for row in rows:
                self._mark(row.branch, change_marks.tasks(row.dataset))

    def _set_held(
        self, statement: ReturningUpdate[Any], by: str, keys: Iterable[bytes], /, **values: Any
    ) -> list[bytes]:
        """Set those of the tasks that are running by this attempt, and name them; a claim by
        another one took others with a higher epoch."""
        self.lock()
        return [row.key for row in self._rows_by(statement, keys, of_attempt=by, **values)]

    def end_attempt(self, attempt: str) -> bool:
        return self._delete(db.attempts, id=attempt) == 1


def _kind_of(task: Task) -> KindText:
    return KindText(task.kind, task.size, task.placement or placement_of(task.kind))


def _queued_row(task: Task, queued_us: int) -> dict[str, Any]:
    return {
        "key": task.key,
        "kind": _kind_of(task).text,
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
    return _REQUESTED.from_row(row, priority=-row.rank, **KindText.of(row.kind)._asdict())


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    tasks = {key.hex(): epoch for key, epoch in attempt.tasks.items()}
    return _ATTEMPTS.to_row(attempt) | {"tasks": dump(tasks)}


def _attempt(row: Row[Any]) -> Attempt:
    """Rows of versions before have no partition, nor when their tasks were queued."""
    return _ATTEMPTS.from_row(
        row,
        tasks={bytes.fromhex(key): epoch for key, epoch in json.loads(row.tasks).items()},
        queued_at=row.at if row.queued_at is None else row.queued_at,
        partition=row.partition or "",
    )
