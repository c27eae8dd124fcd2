"""What drivers and workers report: files are verified, then all of an attempt is recorded in one
transaction."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TypedDict, cast

from controlplane.core import wire
from controlplane.core.errors import Fenced, HeadgateError
from controlplane.core.model.jobs import StoredJob, datasets_of_followers
from controlplane.core.model.table_paths import attempt_folder
from controlplane.core.model.tasks import Attempt, By, Fragment
from controlplane.operations.context import Context
from controlplane.operations.work import listings
from controlplane.operations.work.listing_diff import Damaged, Found
from controlplane.operations.work.recording import Recording
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Tx
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import ListJob
from dataplane.contract.kinds import KINDS
from dataplane.contract.results import (
    FileEntry,
    Measures,
    TaskError,
    TaskResult,
    infrastructure_error,
)
from dataplane.contract.source_objects import ListingResult

# Tasks of an attempt whose report makes the pass that follows it: its driver waits for the answer
OWN_PASS = 16


class BadReport(HeadgateError):
    """A report does not follow docs/protocol.md. Nothing of it was taken in."""

    code = "invalid-request"


class Busy(HeadgateError):
    """The same report is being processed already: send it again later."""

    code = "unavailable"


_guard = threading.Lock()


_under_way: set[str] = set()  # attempts whose reports this process is taking in


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """What became of an attempt's results: task keys (hex)."""

    accepted: tuple[str, ...]
    fenced: tuple[str, ...]
    is_news: bool = True


class ReportAnswer(TypedDict):
    """Keys (hex) of the tasks whose results were taken in, and of those that are another attempt's
    by now."""

    accepted: list[str]
    fenced: list[str]


def report(
    ctx: Context,
    driver: str,
    attempt: str,
    results: Sequence[object],
    *,
    lake: ObjectStore,
    measures: object = None,
) -> ReportAnswer:
    """Commit the results of an attempt, task by task; `results` and `measures` are as they were
    sent. Raises Fenced if the attempt is not live or not this driver's, and BadReport."""
    with ctx.read() as tx:
        running = tx.queue.attempts([attempt]).get(attempt)
    if running is None or running.driver != driver:
        raise Fenced(f"attempt {attempt} is not live; stop, and delete nothing")
    decoded = wire.results(results, running.kind, running.prefix)
    if decoded.problems:
        raise BadReport(f"body.{decoded.problems[0]}")
    failpoint("before-commit")
    failpoint(f"before-commit-{running.kind}")
    with _once(attempt):
        measured = wire.measures(measures)
        outcome = take_in(ctx, running, decoded.results, lake, by="executed", measures=measured)
    # A pass for each of thousands of listings that found nothing new would leave time for little
    # else.
    if outcome.is_news and not (len(running.tasks) <= OWN_PASS and ctx.make_pass()):
        ctx.wake()
    return {"accepted": list(outcome.accepted), "fenced": list(outcome.fenced)}


@contextmanager
def _once(attempt: str) -> Iterator[None]:
    """A driver repeats a report that takes long; the repetition is not to do the same work beside
    it. Raises Busy."""
    with _guard:
        if attempt in _under_way:
            raise Busy(f"a report of attempt {attempt} is being taken in already")
        _under_way.add(attempt)
    try:
        yield
    finally:
        _under_way.discard(attempt)


def take_in(
    ctx: Context,
    attempt: Attempt,
    results: Sequence[TaskResult],
    lake: ObjectStore,
    *,
    by: By,
    measures: Measures | None = None,
) -> ReportOutcome:
    """Verify files (outside the transaction), then record traces, memos, listings, errors in one
    transaction.

    A task without a result goes back to the queue; the attempt ends.
    """
    try:
        return _take_in(ctx, attempt, results, lake, by=by, measures=measures or {})
    except (
        Damaged
    ) as e:  # seen late: objects of a listing are read in the transaction that keeps them
        damaged = [_damaged(result, e) for result in results]
        return _take_in(ctx, attempt, damaged, lake, by=by, measures=measures or {})


def _take_in(
    ctx: Context,
    attempt: Attempt,
    results: Sequence[TaskResult],
    lake: ObjectStore,
    *,
    by: By,
    measures: Measures,
) -> ReportOutcome:
    job = _job(ctx, attempt)
    followers = frozenset(datasets_of_followers(job or {}))
    checked = _verified(lake, attempt, [_in_order(r, followers) for r in results], followers)
    with _listings(ctx, attempt, job, checked, lake) as listing_changes, ctx.begin() as tx:
        if not tx.queue.end_attempt(attempt.id):
            raise _not_live(attempt)
        recording = Recording(tx, attempt, by, listing_changes, job)
        recording.record([r for r in checked if recording.is_own(r)])
        tx.past_attempts.put(recording.accounts(measures))
        tx.events.put(recording.events)
        unused = _unused_folders(tx, attempt, followers, recording.fragments)
    for folder in unused:
        lake.delete_prefix(folder)
    accepted = tuple(r["task"] for r in checked if recording.is_own(r))
    fenced = tuple(r["task"] for r in checked if not recording.is_own(r))
    return ReportOutcome(accepted, fenced, recording.is_news or recording.is_due)


def _not_live(attempt: Attempt) -> Fenced:
    return Fenced(f"attempt {attempt.id} is not live; stop, and delete nothing")


def _job(ctx: Context, attempt: Attempt) -> StoredJob | None:
    """The job, where its results are not known without it. None if it is gone as well."""
    if attempt.kind not in ("list", "parse", "transform"):
        return None
    with ctx.read() as tx:
        return tx.queue.jobs([attempt.job]).get(attempt.job)


def _in_order(result: TaskResult, followers: frozenset[str]) -> TaskResult:
    """Without results after it of datasets that do not follow, or after a failure."""
    then = result.get("then")
    if not then:
        return result
    is_done = result["state"] == "done"
    remaining = [r for r in then if is_done and ("dataset" not in r or r["dataset"] in followers)]
    return cast("TaskResult", {**result, "then": remaining})


def _verified(
    lake: ObjectStore,
    attempt: Attempt,
    results: Sequence[TaskResult],
    followers: frozenset[str],
) -> list[TaskResult]:
    """Results whose files are there with the sizes that they name; others become infrastructure
    failures, and those of followers are left out."""
    if not any(_files_of(r) or r.get("then") for r in results):
        return list(results)
    named = {f["dataset"] for r in results for f in r.get("then") or () if "dataset" in f}
    sizes: dict[str, int] = {}
    for folder in _folders(attempt, named & followers):
        sizes |= lake.sizes(folder)
    return [_check(r, sizes) for r in results]


def _folders(attempt: Attempt, followers: Collection[str]) -> list[str]:
    """The folders that an attempt wrote to: its own, and those of followers."""
    others = [attempt_folder(attempt.prefix, dataset) for dataset in sorted(followers)]
    return [attempt.prefix, *others]


def delete_folders(ctx: Context, attempt: Attempt, lake: ObjectStore) -> None:
    """All that an attempt wrote."""
    followers = frozenset(datasets_of_followers(_job(ctx, attempt) or {}))
    for folder in _folders(attempt, followers):
        lake.delete_prefix(folder)


def _unused_folders(
    tx: Tx, attempt: Attempt, followers: Collection[str], fragments: Sequence[Fragment]
) -> list[str]:
    """Folders of an attempt that hold no file of a stored fragment. Each result in them was known
    already, was taken in, or failed."""
    if attempt.kind != "list" and not KINDS[attempt.kind].has_manifest:
        return []
    own, *others = _folders(attempt, followers)
    stored = tx.traces.fragments([f.id for f in fragments] if others else ())
    paths = [file["path"] for fragment in stored.values() for file in fragment.files]
    is_kept = any(fragment.attempt == attempt.id for fragment in stored.values())
    if not is_kept and attempt.kind != "list":
        is_kept = bool(tx.traces.referenced_attempts([attempt.id]))
    unused = [f for f in others if not any(path.startswith(f"{f}/") for path in paths)]
    return unused if is_kept else [own, *unused]


def _files_of(result: TaskResult) -> list[FileEntry]:
    """Files without which the result is a failure."""
    taken_out, dealt = result.get("quarantine"), result.get("outputs")
    others = [
        *((taken_out,) if taken_out else ()),
        *(dealt.values() if dealt else ()),
        *(r for r in result.get("then") or () if "dataset" not in r),
    ]
    return [*result.get("files", ()), *(file for output in others for file in output["files"])]


def _check(result: TaskResult, sizes: Mapping[str, int]) -> TaskResult:
    for file in _files_of(result):
        if not _is_there(file, sizes):
            message = f"{file['path']} is not there with {file['size']} bytes"
            return _failure(result, infrastructure_error("file-missing", message))
    if "then" not in result:
        return result
    complete = [r for r in result["then"] if all(_is_there(file, sizes) for file in r["files"])]
    return cast("TaskResult", {**result, "then": complete})


def _is_there(file: FileEntry, sizes: Mapping[str, int]) -> bool:
    return sizes.get(file["path"]) == file["size"]


@contextmanager
def _listings(
    ctx: Context,
    attempt: Attempt,
    job: StoredJob | None,
    results: list[TaskResult],
    lake: ObjectStore,
) -> Iterator[dict[str, Found]]:
    """What listings found, by task, before the transaction that takes it in. Damaged ones become
    failures."""
    with ExitStack() as files:
        by_task: dict[str, Found] = {}
        for i, result in enumerate(results if attempt.kind == "list" else ()):
            if result["state"] == "done":
                try:
                    listing_change = _listing(ctx, attempt, job, result, lake)
                    by_task[result["task"]] = files.enter_context(closing(listing_change))
                except Damaged as e:
                    results[i] = _damaged(result, e)
        yield by_task


def _listing(
    ctx: Context, attempt: Attempt, job: StoredJob | None, result: TaskResult, lake: ObjectStore
) -> Found:
    if job is None:
        raise _not_live(attempt)
    listing_result = cast("ListingResult", result["result"])
    return listings.read(
        ctx.store, ctx.namespace, cast("ListJob", job), listing_result, lake, attempt.prefix
    )


def _damaged(result: TaskResult, error: Damaged) -> TaskResult:
    message = f"what the worker found arrived damaged: {error}"
    return _failure(result, infrastructure_error("listing-damaged", message))


def _failure(result: TaskResult, error: TaskError) -> TaskResult:
    return {"task": result["task"], "epoch": result["epoch"], "state": "failed", "error": error}
