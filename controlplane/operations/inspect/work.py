"""What attempts took, one by one and together. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from controlplane.core.model.answers import RunningWork
from controlplane.core.model.answers.work import AttemptEntry, WorkSummary
from controlplane.core.model.past_attempts import Cost, PastAttempt, is_measured, is_slow
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Attempt
from controlplane.operations.inspect import json_views
from controlplane.ports.store import Tx
from dataplane.contract.kinds import Kind

ATTEMPTS_SHOWN = 20_000
# Work that makes no rows of a dataset
UNSEEN: tuple[Kind, ...] = ("pack", "connect", "list", "analyse")


def own(attempts: Iterable[PastAttempt]) -> list[PastAttempt]:
    """Those that are a dataset's own work, not the care for it."""
    return [attempt for attempt in attempts if attempt.kind not in UNSEEN]


def summary(attempts: Sequence[PastAttempt], usual: Cost | None) -> WorkSummary | None:
    """A summary of attempts at one dataset, in any order; None where there are none. `usual`: the
    usual cost of one of its tasks."""
    if not attempts:
        return None
    began, ended = min(a.started_at for a in attempts), max(a.ended_at for a in attempts)
    last = max(attempts, key=lambda a: (a.ended_at, a.id))
    return {
        "attempts": len(attempts),
        "retried": sum(a.outcome == "retried" for a in attempts),
        "tasks": sum(a.done for a in attempts),
        "failed": sum(a.failed for a in attempts),
        "began": json_views.instant(began),
        "ended": json_views.instant(ended),
        "seconds": round(ended - began, 3),
        "work_s": _rounded(_sum(a.seconds for a in attempts)),
        "waited_s": round(max(0.0, began - min(a.queued_at for a in attempts)), 3),
        "rows": sum(a.rows for a in attempts),
        "bytes_written": sum(a.bytes_written for a in attempts),
        "bytes_read": _as_int(_sum(a.bytes_read for a in attempts)),
        "spark_jobs": _as_int(_sum(a.spark_jobs for a in attempts)),
        "spark_stages": _as_int(_sum(a.spark_stages for a in attempts)),
        "spark_ui": last.spark_ui,
        "event_log": last.event_log,
        "slow": slowness(attempts, usual),
        "attempt": last.id,
    }


def slowness(attempts: Iterable[PastAttempt], usual: Cost | None) -> str | None:
    """In words, of the slowest attempt; None where none is slow."""
    shares = [(a.seconds or 0.0) / a.done for a in attempts if is_measured(a)]
    slowest = max(shares, default=0.0)
    if usual is None or not is_slow(slowest, usual):
        return None
    return f"{slowest:.1f} s a task; the median of its last {usual.attempts} attempts is {usual.seconds:.1f} s"


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum of the values that are present; None where none is."""
    present = [value for value in values if value is not None]
    return sum(present) if present else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _as_int(value: float | None) -> int | None:
    return None if value is None else int(value)


def entry(attempt: PastAttempt) -> AttemptEntry:
    return {
        "attempt": attempt.id,
        "dataset": attempt.dataset,
        "kind": attempt.kind,
        "partition": attempt.partition,
        "outcome": attempt.outcome,
        "tasks": attempt.tasks,
        "done": attempt.done,
        "failed": attempt.failed,
        "driver": attempt.driver,
        "queued": json_views.instant(attempt.queued_at),
        "began": json_views.instant(attempt.started_at),
        "ended": json_views.instant(attempt.ended_at),
        "seconds": _rounded(attempt.seconds),
        "waited_s": round(max(0.0, attempt.started_at - attempt.queued_at), 3),
        "rows": attempt.rows,
        "bytes_written": attempt.bytes_written,
        "bytes_read": attempt.bytes_read,
        "spark_jobs": attempt.spark_jobs,
        "spark_stages": attempt.spark_stages,
        "spark_ui": attempt.spark_ui,
        "event_log": attempt.event_log,
        "error": attempt.error,
    }


# --- of commits -------------------------------------------------------------------------------------


def of_states(
    tx: Tx, branch: str, dataset: str, shown: Sequence[State], history: Sequence[State]
) -> dict[int, WorkSummary | None]:
    """The attempts that led to each of these states of a dataset, by `seq`: those that ended after
    the state before it (among the known ones, newest first), and not after it."""
    before = {newer.seq: older.at for newer, older in pairwise(history)} | {1: 0.0}
    spans = {state.seq: (before[state.seq], state.at) for state in shown if state.seq in before}
    if not spans:
        return {state.seq: None for state in shown}
    full_span = (
        min(since for since, _ in spans.values()),
        max(until for _, until in spans.values()),
    )
    attempts = own(tx.past_attempts.newest(branch, [dataset], ended=full_span))
    usual = tx.past_attempts.costs(branch, [dataset]).get(dataset)
    took = {seq: summary(within(attempts, span), usual) for seq, span in spans.items()}
    return {state.seq: took.get(state.seq) for state in shown}


def within(attempts: Iterable[PastAttempt], span: tuple[float, float]) -> list[PastAttempt]:
    return [attempt for attempt in attempts if span[0] < attempt.ended_at <= span[1]]


def of_last_commits(tx: Tx, branch: str, datasets: Sequence[str]) -> dict[str, WorkSummary | None]:
    """The work that led to the newest state of each of these datasets, in three statements. For a
    copy, which has no states, its last attempts."""
    states = tx.states.recent(branch, datasets, 2)
    spans = {name: _last_span(states.get(name, ())) for name in datasets}
    costs = tx.past_attempts.costs(branch, datasets)
    attempts: dict[str, list[PastAttempt]] = {name: [] for name in datasets}
    for attempt in own(tx.past_attempts.newest(branch, datasets, limit=ATTEMPTS_SHOWN)):
        attempts[attempt.dataset].append(attempt)
    return {name: summary(_last(attempts[name], spans[name]), costs.get(name)) for name in datasets}


def _last_span(states: Sequence[State]) -> tuple[float, float] | None:
    """From the commit before the last one, where there is one, to the last one."""
    if not states:
        return None
    return (states[1].at if len(states) > 1 else 0.0, states[0].at)


def _last(
    attempts: Sequence[PastAttempt], span: tuple[float, float] | None
) -> Sequence[PastAttempt]:
    return attempts[:1] if span is None else within(attempts, span)


def running(tx: Tx, datasets: Iterable[str]) -> dict[str, RunningWork]:
    """What runs of each dataset."""
    names = set(datasets)
    by_dataset: dict[str, list[Attempt]] = {}
    for attempt in tx.queue.attempts().values():
        if attempt.dataset in names and attempt.kind not in UNSEEN:
            by_dataset.setdefault(attempt.dataset, []).append(attempt)
    return {name: _running(theirs, tx.now()) for name, theirs in by_dataset.items()}


def _running(attempts: Sequence[Attempt], now: float) -> RunningWork:
    oldest = min(attempts, key=lambda a: (a.at, a.id))
    return {
        "attempts": len(attempts),
        "since": json_views.instant(oldest.at),
        "seconds": round(max(0.0, now - oldest.at), 3),
        "attempt": oldest.id,
    }
