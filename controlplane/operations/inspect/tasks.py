"""Records of work: the tasks that a dataset demands, and the log of an attempt's driver. Changes
nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from controlplane.core.compile.nodes import Node
from controlplane.core.errors import LogGone, NotFound
from controlplane.core.model import namespaces
from controlplane.core.model.answers import TaskEntry, TasksAnswer
from controlplane.core.model.answers.work import AttemptAnswer, AttemptsAnswer
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.model.tasks import Attempt, Task, TaskState
from controlplane.core.redaction import redacted
from controlplane.core.rights import may
from controlplane.operations.context import Context
from controlplane.operations.inspect import attempt_log, json_views, work
from controlplane.operations.inspect.attempt_log import AttemptLog
from controlplane.operations.inspect.time_travel import no_dataset
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx

LINES_READ = 10_000  # of a driver's log, among which are those of an attempt


def tasks(ctx: Context, branch: str, dataset: str, *, after: int, limit: int) -> TasksAnswer:
    """The tasks that a dataset demands at present, in order of partitions; `next` is the `after` of
    the next page."""
    with ctx.read() as tx:
        node = _node(ctx, tx, branch, dataset)
        demanded = sorted(
            tx.queue.demands(branch, dataset).values(), key=lambda t: (t.partition, t.key)
        )
        page = demanded[after : after + limit]
        attempts = tx.queue.attempts(
            [t.attempt for t in page if t.attempt is not None and t.state == "running"]
        )
    end = after + len(page)
    items = [_task(t, node, attempts.get(t.attempt or "")) for t in page]
    return {
        "items": items,
        "total": len(demanded),
        "next": str(end) if end < len(demanded) else None,
    }


def of_partition(tx: Tx, branch: str, node: Node, partition: str) -> list[Task]:
    """The tasks that stand for a partition of a dataset or copy. The empty name is the whole of an
    unpartitioned one: all of its tasks belong to it, also those that read one partition of an
    input."""
    names = {node.dataset, node.maker}
    demanded = (task for name in names for task in tx.queue.demands(branch, name).values())
    return [task for task in demanded if partition in ("", task.partition)]


def counts_of(ctx: Context, branch: str, dataset: str, partition: str) -> dict[TaskState, int]:
    """How many tasks of a partition there are, by their states. Raises NotFound where there is no
    such dataset."""
    with ctx.read() as tx:
        node = _node(ctx, tx, branch, dataset)
        return dict(Counter(task.state for task in of_partition(tx, branch, node, partition)))


def _node(ctx: Context, tx: Tx, branch: str, dataset: str) -> Node:
    nodes = desired(tx, branch, namespace=ctx.namespace).nodes
    if dataset not in nodes:
        raise no_dataset(branch, dataset, filter(ctx.sees, nodes))
    return nodes[dataset]


def ended(ctx: Context, branch: str, dataset: str, limit: int) -> AttemptsAnswer:
    """Attempts at a dataset that are over, the last ones first. Raises NotFound."""
    with ctx.read() as tx:
        _node(ctx, tx, branch, dataset)
        attempts = tx.past_attempts.newest(branch, [dataset], limit=limit)
    return {"items": list(map(work.entry, attempts)), "next": None}


def attempt(ctx: Context, id: str) -> AttemptAnswer:
    """One attempt, whether it runs or is over. Raises NotFound, also for one of a dataset that the
    actor does not see."""
    with ctx.read() as tx:
        live = tx.queue.attempts([id]).get(id)
        past = tx.past_attempts.find([id]).get(id)
    if past is not None and may(ctx.principal, "view", dataset=past.dataset, branch=past.branch):
        return {**_attempt(past, past.started_at, past.tasks), "ended": work.entry(past)}
    if live is not None and past is None and ctx.sees(live.dataset):
        return running(live)
    raise NotFound(f"there is no attempt {id}, or it is too long ago")


def running(attempt: Attempt) -> AttemptAnswer:
    """An attempt that is not over."""
    return _attempt(attempt, attempt.at, len(attempt.tasks))


def _attempt(source: Attempt | PastAttempt, began: float, tasks: int) -> AttemptAnswer:
    return {
        "attempt": source.id,
        "dataset": source.dataset,
        "kind": source.kind,
        "partition": source.partition,
        "driver": source.driver,
        "queued": json_views.instant(source.queued_at),
        "began": json_views.instant(began),
        "tasks": tasks,
        "ended": None,
    }


def _task(task: Task, node: Node, attempt: Attempt | None) -> TaskEntry:
    return {
        "task": task.key.hex(),
        "kind": task.kind,
        "partition": task.partition,
        "state": task.state,
        "attempt": task.attempt,
        "since": json_views.instant(attempt.at) if attempt else None,
        "driver": attempt.driver if attempt else None,
        "failures": task.failures,
        "not_before": json_views.when(task.not_before) if task.not_before else None,
        "bytes": task.size_bytes,
        "priority": task.priority,
        "resources": task.size,
        "error": json_views.error(task.error, node),
    }


def log(ctx: Context, attempt: str, lines: int, of: Callable[[str, int], str]) -> AttemptLog:
    """The last lines about an attempt, of the log of the driver or worker that has, or had, it.

    `of` queries the pool (`DriverPool.log`). Raises NotFound, LogGone, PoolUnavailable.
    """
    with ctx.read() as tx:
        driver = _driver_of(tx, attempt)
    return _log_of(driver, attempt, lines, of)


def _log_of(driver: str, attempt: str, lines: int, of: Callable[[str, int], str]) -> AttemptLog:
    return attempt_log.of_attempt(redacted(of(driver, LINES_READ)), attempt, lines)


def log_of_driver(ctx: Context, driver: str, lines: int, of: Callable[[str, int], str]) -> str:
    """The last lines of a driver or worker, as `status` names it. Raises LogGone,
    PoolUnavailable."""
    if namespaces.of_id(driver) != ctx.namespace:
        raise LogGone(f"there is no log of {driver}")
    return redacted(of(driver, lines))


def log_of_dataset(
    ctx: Context, branch: str, dataset: str, lines: int, of: Callable[[str, int], str]
) -> tuple[str, str]:
    """The newest attempt at a dataset, one that runs or else the last, and its last lines."""
    with ctx.read() as tx:
        _node(ctx, tx, branch, dataset)
        under_way = [a for a in tx.queue.attempts().values() if a.dataset == dataset]
        newest = max(under_way, key=lambda a: (a.at, a.id), default=None)
        attempt, driver = (newest.id, newest.driver) if newest else _last_of(tx, branch, dataset)
    return attempt, _log_of(driver, attempt, lines, of).text


def _last_of(tx: Tx, branch: str, dataset: str) -> tuple[str, str]:
    """The last attempt, and its driver."""
    newest = tx.past_attempts.newest(branch, [dataset], limit=1)
    if not newest:
        raise NotFound(
            f"no attempt at {dataset} is known: nothing was computed for it, or it is too long ago"
        )
    return newest[0].id, newest[0].driver


def _driver_of(tx: Tx, attempt: str) -> str:
    if live := tx.queue.attempts([attempt]).get(attempt):
        return live.driver
    if past := tx.past_attempts.find([attempt]).get(attempt):
        return past.driver
    claim = tx.events.claim_of(attempt)
    if claim is None:
        raise NotFound(f"there is no attempt {attempt}, or it is too long ago")
    if "driver" not in claim.body:
        raise LogGone(f"it was not noted which driver had attempt {attempt}")
    return str(claim.body["driver"])
