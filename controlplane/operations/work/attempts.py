"""What drivers and workers call: claim, heartbeat, report; and adopting the work of those who fell silent.

Does not belong here: deciding what is to be computed (plan) or when attempts are looked after (reconciler).
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from controlplane import logs
from controlplane.core import tree, wire
from controlplane.core.compile.checks import dropped_key
from controlplane.core.errors import Fenced, HeadgateError, NotFound
from controlplane.core.model.drivers import Fault
from controlplane.core.model.events import CLAIMED, Event
from controlplane.core.model.tasks import SIZES, Attempt, By, Fragment, Size, Task, Trace
from controlplane.core.plan.sink import anew
from controlplane.operations.context import Context
from controlplane.operations.projections import compaction
from controlplane.operations.work import fold_runs, listings, targets
from controlplane.operations.work.listing_diff import Damaged, Found
from controlplane.ports import ObjectStore, Tx
from dataplane.contract import (
    CONTRACT,
    MANIFEST,
    TARGET_GONE,
    Claim,
    Encoded,
    FileEntry,
    Json,
    Kind,
    Output,
    TaskError,
    TaskResult,
    TaskSpec,
    encoded,
    failpoint,
    fragment_id,
    infrastructure_error,
    output_results,
    pair_key,
    partition_result,
)

LEASE_S = 30.0
MAX_TASKS = 500
MAX_BYTES = 256 << 20
CLAIM_NODES = 64 << 20  # bytes of tree nodes that are kept while one claim is made
BUDGET = 4  # infrastructure failures that a task may have
BACKOFF_S = (1.0, 5.0, 20.0, 60.0)
MANIFEST_BYTES = 64 << 20  # of a manifest: 500 tasks with thousands of files each have less
PROVEN: frozenset[Kind] = frozenset({"parse", "index", "transform", "pack"})  # kinds that write a manifest
LOST: Mapping[Fault, str] = {"memory": "driver-out-of-memory", "deadline": "driver-deadline"}
log = logs.get("work")


class UnknownContract(HeadgateError):
    """A driver or worker of a version that this control plane cannot talk to."""

    code = "unknown-contract"


class BadReport(HeadgateError):
    """A report is not what docs/protocol.md says. Nothing of it was taken in."""

    code = "invalid-request"


class Busy(HeadgateError):
    """The same is being done already: ask again later."""

    code = "unavailable"


_guard = threading.Lock()
_under_way: set[str] = set()  # attempts whose reports this process is taking in


# --- claim ----------------------------------------------------------------------------------------


def claim(
    ctx: Context,
    driver: str,
    contract: int,
    kinds: Sequence[Kind],
    *,
    sizes: Sequence[Size] = SIZES,
    without: Sequence[str] = (),
    lake: str = "",
) -> Claim | None:
    """Hand out a batch of queued tasks with all that it takes to run them, or None. `without`: of no such dataflow."""
    if contract != CONTRACT:
        raise UnknownContract(f"contract {contract} is not spoken here; this control plane speaks {CONTRACT}")
    with ctx.store.begin(ctx.namespace) as tx:
        limits = {"max_tasks": MAX_TASKS, "max_bytes": MAX_BYTES}
        attempt = tx.claim(uuid.uuid4().hex, driver, kinds, **limits, lease_s=LEASE_S, sizes=sizes, without=without)
        if attempt is None:
            return None
        answer = _claim(tx, attempt, lake)
        if not answer["tasks"]:
            tx.end_attempt(attempt.id)
            return None
        body = {"attempt": attempt.id, "driver": driver}
        tx.put_events([Event(CLAIMED, attempt.dataset, len(attempt.tasks), body)])
    failpoint("after-claim")
    return answer


def _claim(tx: Tx, attempt: Attempt, lake: str) -> Claim:
    job = listings.with_known(tx, dict(tx.jobs([attempt.job])[attempt.job]))
    tasks = sorted(tx.tasks(attempt.tasks).values(), key=lambda t: t.partition)
    if "fold" in job:
        tasks = fold_runs.without_known(tx, attempt, tasks)
    if attempt.kind == "write":
        job |= targets.begun(tx, tasks)
    tasks = targets.with_fragments(tx, _with_parts(tx, tasks, job.pop("pairs", {})))
    files = _files(tx, _fragment_ids(tasks))
    if "shared" in job:
        job["shared"] = {name: compaction.files(tx, bytes.fromhex(root)) for name, root in job["shared"].items()}
    return {
        "contract": CONTRACT,
        "attempt": attempt.id,
        "dataset": attempt.dataset,
        "prefix": attempt.prefix,
        "lake": lake,
        "lease_s": LEASE_S,
        "kind": attempt.kind,
        "job": job,
        "tasks": [_spec(t, attempt.tasks[t.key], files) for t in tasks],
    }


def _with_parts(tx: Tx, tasks: list[Task], pairs: Mapping[str, str]) -> list[Task]:
    """Tasks with the fragments that hold their key, of each input that is read by key."""
    if not pairs:
        return tasks
    nodes = tree.NodeCache(CLAIM_NODES).over(tx)
    roots = {slot: bytes.fromhex(root) for slot, root in pairs.items()}
    prefixes = sorted(pair_key(t.partition, "") for t in tasks)
    tree.warm(nodes, [(root, prefixes) for root in roots.values()])
    return [replace(t, spec={**t.spec, "slots": t.spec["slots"] | _parts(nodes, t, roots)}) for t in tasks]


def _parts(nodes: tree.NodeStore, task: Task, roots: Mapping[str, bytes]) -> dict[str, list[str]]:
    prefix = pair_key(task.partition, "")
    return {slot: [e.fragment.hex() for e in tree.scan(nodes, root, prefix=prefix)] for slot, root in roots.items()}


def _fragment_ids(tasks: Iterable[Task]) -> Iterator[bytes]:
    for task in tasks:
        for spec in (task.spec, *task.spec.get("then", ())):
            for fragments in spec.get("slots", {}).values():
                yield from map(bytes.fromhex, fragments)
        if "fragment" in task.spec:
            yield bytes.fromhex(task.spec["fragment"])


def _files(tx: Tx, ids: Iterable[bytes]) -> dict[str, list[str]]:
    """Fragment id (hex) -> paths in the lake."""
    found = tx.fragments(dict.fromkeys(ids))
    return {id.hex(): [f["path"] for f in fragment.files] for id, fragment in found.items()}


def _spec(task: Task, epoch: int, files: dict[str, list[str]]) -> TaskSpec:
    spec: TaskSpec = {"task": task.key.hex(), "epoch": epoch, "partition": task.partition}
    extra: Json = _with_files(task.spec, files)
    if "then" in extra:
        extra["then"] = [_with_files(one, files) for one in extra["then"]]
    if "fragment" in extra:
        extra["files"] = files[extra.pop("fragment")]
    return {**spec, **extra}


def _with_files(spec: Json, files: Mapping[str, list[str]]) -> dict[str, Json]:
    if "slots" not in spec:
        return dict(spec)
    return {**spec, "slots": {n: [p for id in ids for p in files[id]] for n, ids in spec["slots"].items()}}


def heartbeat(ctx: Context, driver: str, attempts: Sequence[str]) -> Json:
    """Extend leases. What is not live any more is fenced: its driver stops and deletes nothing."""
    with ctx.store.begin(ctx.namespace) as tx:
        live = tx.extend(driver, attempts, LEASE_S)
    return {"fenced": [a for a in attempts if a not in live], "drain": False}


# --- report ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an attempt's results: task keys (hex)."""

    accepted: tuple[str, ...]
    fenced: tuple[str, ...]
    is_news: bool = True


def report(ctx: Context, driver: str, attempt: str, results: Sequence[object], *, lake: ObjectStore) -> Json:
    """Commit what an attempt computed, task by task; `results` are as they were sent. Raises Fenced if the attempt is
    not live or not this driver's, and BadReport."""
    with ctx.store.read(ctx.namespace) as tx:
        known = tx.attempts([attempt]).get(attempt)
    if known is None or known.driver != driver:
        raise Fenced(f"attempt {attempt} is not live; stop, and delete nothing")
    decoded = wire.results(results, known.kind, known.prefix)
    if decoded.problems:
        raise BadReport(f"body.{decoded.problems[0]}")
    failpoint("before-commit")
    failpoint(f"before-commit-{known.kind}")
    with _once(attempt):
        outcome = take_in(ctx, known, decoded.results, lake, by="executed")
    # A pass for each of thousands of listings that found nothing new would leave time for little else.
    if outcome.is_news:
        ctx.wake()
    return {"accepted": list(outcome.accepted), "fenced": list(outcome.fenced)}


@contextmanager
def _once(attempt: str) -> Iterator[None]:
    """A driver repeats a report that takes long; the repetition is not to do the same work beside it. Raises Busy."""
    with _guard:
        if attempt in _under_way:
            raise Busy(f"a report of attempt {attempt} is being taken in already")
        _under_way.add(attempt)
    try:
        yield
    finally:
        _under_way.discard(attempt)


def take_in(ctx: Context, attempt: Attempt, results: Sequence[TaskResult], lake: ObjectStore, *, by: By) -> Outcome:
    """Verify files (outside the transaction), then record traces, memos, listings, errors in one transaction.

    A task without a result goes back to the queue; the attempt ends.
    """
    try:
        return _take_in(ctx, attempt, results, lake, by)
    except Damaged as e:  # seen late: objects of a listing are read in the transaction that keeps them
        return _take_in(ctx, attempt, [_damaged(result, e) for result in results], lake, by)


def _take_in(ctx: Context, attempt: Attempt, results: Sequence[TaskResult], lake: ObjectStore, by: By) -> Outcome:
    checked = _verified(lake, attempt, results)
    with _listings(ctx, attempt, checked, lake) as found, ctx.store.begin(ctx.namespace) as tx:
        if attempt.id not in tx.attempts([attempt.id]):
            raise Fenced(f"attempt {attempt.id} is not live; stop, and delete nothing")
        recording = _Recording(tx, attempt, by, found)
        recording.record([r for r in checked if recording.is_own(r)])
        tx.end_attempt(attempt.id)
        tx.put_events(recording.events)
        is_kept = attempt.kind != "list" and bool(tx.referenced_attempts([attempt.id]))
    if attempt.kind in PROVEN | {"list"} and not is_kept:
        lake.delete_prefix(attempt.prefix)  # everything in it was known already, was taken in, or failed
    accepted = tuple(r["task"] for r in checked if recording.is_own(r))
    fenced = tuple(r["task"] for r in checked if not recording.is_own(r))
    return Outcome(accepted, fenced, recording.is_news)


def _verified(lake: ObjectStore, attempt: Attempt, results: Sequence[TaskResult]) -> list[TaskResult]:
    """Results whose files are there with the sizes that they name; others become infrastructure failures."""
    if not any(map(_files_of, results)):
        return list(results)
    sizes = lake.sizes(attempt.prefix)
    return [_check(attempt, r, sizes) for r in results]


def _files_of(result: TaskResult) -> list[FileEntry]:
    taken_out, dealt = result.get("quarantine"), result.get("outputs")
    others = [*((taken_out,) if taken_out else ()), *(dealt.values() if dealt else ()), *(result.get("then") or ())]
    return [*result.get("files", ()), *(file for one in others for file in one["files"])]


def _check(attempt: Attempt, result: TaskResult, sizes: dict[str, int]) -> TaskResult:
    for file in _files_of(result):
        if not file["path"].startswith(attempt.prefix + "/") or sizes.get(file["path"]) != file["size"]:
            message = f"{file['path']} is not there with {file['size']} bytes"
            return _failure(result, infrastructure_error("file-missing", message))
    return result


@contextmanager
def _listings(
    ctx: Context, attempt: Attempt, results: list[TaskResult], lake: ObjectStore
) -> Iterator[dict[str, Found]]:
    """What listings found, by task, before the transaction that takes it in. Damaged ones become failures."""
    with ExitStack() as files:
        found: dict[str, Found] = {}
        for i, result in enumerate(results if attempt.kind == "list" else ()):
            if result["state"] == "done":
                try:
                    one = _listing(ctx, attempt, result, lake)
                    found[result["task"]] = files.enter_context(closing(one))
                except Damaged as e:
                    results[i] = _damaged(result, e)
        yield found


def _listing(ctx: Context, attempt: Attempt, result: TaskResult, lake: ObjectStore) -> Found:
    with ctx.store.read(ctx.namespace) as tx:
        job = tx.jobs([attempt.job]).get(attempt.job)
    if job is None:
        raise Fenced(f"attempt {attempt.id} is not live; stop, and delete nothing")
    return listings.read(ctx.store, ctx.namespace, job, result.get("result"), lake, attempt.prefix)


def _damaged(result: TaskResult, error: Damaged) -> TaskResult:
    message = f"what the worker found arrived damaged: {error}"
    return _failure(result, infrastructure_error("listing-damaged", message))


def _failure(result: TaskResult, error: TaskError) -> TaskResult:
    return {"task": result["task"], "epoch": result["epoch"], "state": "failed", "error": error}


class _Recording:
    """The transaction that takes in one attempt."""

    def __init__(self, tx: Tx, attempt: Attempt, by: By, found: Mapping[str, Found] = MappingProxyType({})) -> None:
        self.tx, self.attempt, self.by, self.found = tx, attempt, by, found
        self.events: list[Event] = []
        self.is_news = attempt.kind != "list"  # whether there may be more to do, for the loop or for a claim
        self.job = tx.jobs([attempt.job]).get(attempt.job)

    @cached_property
    def tasks(self) -> Mapping[bytes, Task]:
        """With their specs, which finished tasks of fragments are not asked for."""
        return self.tx.tasks(self.attempt.tasks)

    def is_own(self, result: TaskResult) -> bool:
        return self.attempt.tasks.get(bytes.fromhex(result["task"])) == result["epoch"]

    def record(self, results: list[TaskResult]) -> None:
        by_state: dict[str, list[TaskResult]] = {"done": [], "failed": [], "void": []}
        for result in results:
            by_state[result["state"]].append(result)
        self._done(by_state["done"])
        for result in by_state["failed"]:
            self._failed(bytes.fromhex(result["task"]), result["error"])
        self._found([r for r in by_state["failed"] if self.attempt.kind == "parse" and r.get("result")])
        self._void(by_state["void"])
        silent = set(self.attempt.tasks) - {bytes.fromhex(r["task"]) for r in results}
        if silent := {key for key in silent if self._is_open(key)}:
            error = infrastructure_error("no-result", "the attempt ended without a result for this task")
            self._release(sorted(silent), error)

    def _is_open(self, key: bytes) -> bool:
        """Not one that was known already when the others were handed out."""
        task = self.tasks.get(key)
        return task is not None and task.state != "done"

    def _done(self, results: list[TaskResult]) -> None:
        then = fold_runs.proven(self.job, self.tasks, results) if any("then" in r for r in results) else {}
        keys = self.tx.finish(self.attempt.id, [bytes.fromhex(r["task"]) for r in results])
        kept = [r for r in results if bytes.fromhex(r["task"]) in keys]
        if then:
            kept += fold_runs.taken_in(self.tx, {head: of for head, of in then.items() if bytes.fromhex(head) in keys})
        match self.attempt.kind:
            case "parse" | "transform":
                self._traces(kept)
            case "index":
                self.tx.put_memos({bytes.fromhex(r["task"]): r.get("result") for r in kept})
                self._count("task.executed" if self.by == "executed" else "task.recovered", len(kept))
            case "pack":
                self.events += compaction.take_in(self.tx, self.attempt, kept)
            case "infer" | "analyse" | "check" | "connect":
                self.tx.put_memos({bytes.fromhex(r["task"]): r.get("result") for r in kept})
                self._count("task.other", len(kept))
            case "list":
                for r in kept:
                    request = self.tasks[bytes.fromhex(r["task"])].spec["request"]
                    taken = listings.take_in(self.tx, self.job, request, self.found[r["task"]])
                    self.events.append(taken.event)
                    self.is_news |= taken.is_news
                self.is_news |= len(kept) < len(self.attempt.tasks)
                self._count("task.other", len(kept))
            case "write":
                self._synced([bytes.fromhex(r["task"]) for r in kept])

    def _traces(self, results: list[TaskResult]) -> None:
        each = [(bytes.fromhex(r["task"]), name, one) for r in results for name, one in output_results(r).items()]
        fragments = list(self._fragments(one for *_, one in each))
        outputs: dict[bytes, dict[str, bytes]] = {bytes.fromhex(r["task"]): {} for r in results}
        for (task, name, _), fragment in zip(each, fragments, strict=True):
            outputs[task][name] = fragment.id
        traces = [Trace(task, found, by=self.by, home=self.attempt.dataset) for task, found in outputs.items()]
        self.tx.put_traces(traces, fragments)
        self._count("task.executed" if self.by == "executed" else "task.recovered", len(results))
        self._dropped({r["task"]: r["metrics"] for r in results if (r.get("metrics") or {}).get("dropped_rows")})

    def _fragments(self, results: Iterable[TaskResult | Output]) -> Iterator[Fragment]:
        home, attempt, schema, encoding = self.attempt.dataset, self.attempt.id, None, Encoded()
        for result in results:
            found, content, files = partition_result(result)
            if schema != found:  # one object, which is then stored and encoded once
                schema, encoding = found, encoded(found)
            yield Fragment(fragment_id(encoding, content), schema, content, tuple(files), home, attempt)

    def _dropped(self, metrics: Mapping[str, Json]) -> None:
        """Of the tasks that left rows out: how many, and for which of the dataset's expectations."""
        counts = {
            dropped_key(bytes.fromhex(task)): told["dropped"] for task, told in metrics.items() if "dropped" in told
        }
        self.tx.put_memos(counts)
        by_check: Counter[str] = Counter()
        for dropped in counts.values():
            by_check.update(dropped)
        self._count("rows.dropped", sum(m["dropped_rows"] for m in metrics.values()), {"checks": dict(by_check)})

    def _synced(self, keys: list[bytes]) -> None:
        """Move the target's root to what these tasks wrote."""
        if not keys:
            return
        tasks = [self.tasks[key] for key in keys]
        for branch, name in self.tx.demanding(keys[0]):
            target = self.tx.targets(branch).get(name)
            if target is not None and name == tasks[0].dataset:
                self.tx.put_target(targets.synced(self.tx, target, tasks))
        self._count("partitions.written", targets.written(tasks))

    def _failed(self, key: bytes, error: TaskError) -> None:
        if self.attempt.kind == "write" and error["condition"] == TARGET_GONE:
            self._gone(key, error)
        elif self.attempt.kind != "list" and error["kind"] == "infrastructure":
            self._release([key], error)
        else:
            self._give_up(key, error)

    def _found(self, results: list[TaskResult]) -> None:
        """The types that a driver found in files that it could not read."""
        if results:
            self.tx.put_memos({bytes.fromhex(r["task"]): r["result"] for r in results})

    def _give_up(self, key: bytes, error: TaskError) -> None:
        if self.attempt.kind == "list":
            if self.tx.finish(self.attempt.id, [key]):
                self.events.append(listings.fail(self.tx, self.job, self.tasks[key].spec["request"], error))
        elif self.tx.fail(self.attempt.id, key, self._here(error)):
            self._count("task.failed", 1, {"message": error["message"], "partition": self.tasks[key].partition})

    def _void(self, results: list[TaskResult]) -> None:
        """Source objects changed under the reader: ask for a new listing. The tasks end without a trace, so that who
        still wants them asks again, naming the objects as they are by then."""
        keys = self.tx.finish(self.attempt.id, [bytes.fromhex(r["task"]) for r in results])
        self._count("source.changed", len(keys))
        self._count("task.retried", len(keys), {"message": "a source object changed while it was read"})
        for id in {self.tasks[k].spec["listing"] for k in keys}:
            listings.ask(self.tx, bytes.fromhex(id))

    def _gone(self, key: bytes, error: TaskError) -> None:
        """The task ends without a result, and who still wants it wants all of the target: what others have under way
        may have been written before."""
        for branch, name in self.tx.demanding(key):
            if (target := self.tx.targets(branch).get(name)) is not None:
                self.tx.put_target(anew(self.tx, target))
            self.tx.drop_demands(branch, name)
        self.tx.finish(self.attempt.id, [key])
        self._count("task.retried", 1, {"message": error["message"]})

    def _release(self, keys: list[bytes], error: TaskError, *, burn: bool = True) -> None:
        for key in keys:
            task = self.tasks[key]
            if burn and task.failures + 1 >= BUDGET:
                self._give_up(key, error)
            else:
                disrupted = _disrupted(task)
                later = self.tx.now() + BACKOFF_S[min(task.failures + disrupted, len(BACKOFF_S) - 1)]
                told = self._here(error)
                if disrupted or not burn:
                    told["disrupted"] = disrupted + (not burn)
                self.tx.release([key], attempt=self.attempt.id, not_before=later, error=told, burn=burn)
                self._count("task.retried", 1, {"message": error["message"]})

    def _here(self, error: TaskError) -> TaskError:
        """With the attempt that it came of, whose driver's log may tell more."""
        return {**error, "attempt": self.attempt.id}

    def _count(self, kind: str, n: int, body: Json = None) -> None:
        if n:
            self.events.append(Event(kind, self.attempt.dataset, n, body or {}))


def _disrupted(task: Task) -> int:
    """How often in its present life this task lost its driver to something else. It delays the next try, no more: a
    task that takes the whole machine down each time must not keep the others from their turn."""
    return task.error.get("disrupted", 0) if task.error else 0


# --- rescue ---------------------------------------------------------------------------------------


def adopt(ctx: Context, attempt: Attempt, lake: ObjectStore, *, reason: str, fault: Fault = "crashed") -> bool:
    """End an attempt whose driver is gone: adopt what its manifest proves, put the rest back. True if any was kept."""
    results = read_manifest(lake, attempt) if attempt.kind in PROVEN else []
    if not results:
        if _abandon(ctx, attempt, reason, fault):
            lake.delete_prefix(attempt.prefix)
        return False
    try:
        return bool(take_in(ctx, attempt, results, lake, by="adopted").accepted)
    except Fenced:
        return False  # its own report came first


def abandon(ctx: Context, attempt: Attempt, *, reason: str, fault: Fault = "crashed") -> bool:
    """End an attempt without a look at its manifest. Its files stay until orphans are swept. False if it ended."""
    return _abandon(ctx, attempt, reason, fault)


def read_manifest(lake: ObjectStore, attempt: Attempt) -> list[TaskResult]:
    """The results that the attempt's manifest proves; none where there is no manifest, or one that nobody can read."""
    path = f"{attempt.prefix}/{MANIFEST}"
    try:
        raw = _bounded(lake, path)
    except NotFound:
        return []
    decoded = wire.manifest(raw, attempt.id, attempt.kind, attempt.prefix, len(attempt.tasks))
    if decoded.problems:
        log.warning("manifest damaged", path=path, problems=decoded.problems)
    return decoded.results


def _bounded(lake: ObjectStore, path: str) -> bytes:
    """The bytes of a manifest; of one that is too large so many that it cannot be read as JSON."""
    found = bytearray()
    for piece in lake.stream(path):
        found += piece
        if len(found) > MANIFEST_BYTES:
            break
    return bytes(found[:MANIFEST_BYTES])


def _abandon(ctx: Context, attempt: Attempt, reason: str, fault: Fault) -> bool:
    """What took the driver away for reasons of its own does not count against its tasks. False if the attempt's own
    report came first: then what it wrote may be in use."""
    with ctx.store.begin(ctx.namespace) as tx:
        if attempt.id not in tx.attempts([attempt.id]):
            return False
        recording = _Recording(tx, attempt, "adopted")
        error = infrastructure_error(LOST.get(fault, "driver-lost"), reason)
        recording._release(sorted(attempt.tasks), error, burn=fault != "disrupted")
        tx.end_attempt(attempt.id)
        tx.put_events(recording.events)
    return True
