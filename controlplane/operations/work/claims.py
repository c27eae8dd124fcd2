"""What drivers and workers call to get work and to keep it: claim, heartbeat."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypedDict, assert_never, cast

from controlplane import logs
from controlplane.core import tree
from controlplane.core.errors import CorruptNode, HeadgateError
from controlplane.core.model.events import NO_BRANCH, Event, claimed
from controlplane.core.model.jobs import (
    FragmentsSpec,
    StoredCheckJob,
    StoredFollower,
    StoredJob,
    StoredTransformJob,
    WriteSpec,
)
from controlplane.core.model.table_paths import attempt_folder
from controlplane.core.model.tasks import SIZES, Attempt, Size, Task
from controlplane.core.plan.plan_values import INTERNAL
from controlplane.operations.context import Context
from controlplane.operations.projections import compaction
from controlplane.operations.work import (
    following_results,
    listings,
    long_polls,
    slices,
    targets,
)
from controlplane.ports.store import Tx
from dataplane.contract.claims import CONTRACT, Claim, TaskSpec, WriteTask, WrittenFragment
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import (
    CheckJob,
    Follower,
    InputJob,
    Job,
    ListJob,
    SqlJob,
    TransformJob,
    WriteJob,
    keys_read,
)
from dataplane.contract.keys import pair_key
from dataplane.contract.kinds import Kind, placements_for
from dataplane.contract.results import FileEntry, infrastructure_error

log = logs.get("claims")

LEASE_S = 30.0


MAX_TASKS = 500


CLAIM_NODES = 64 << 20  # bytes of tree nodes that are kept while one claim is made


class HeartbeatAnswer(TypedDict):
    fenced: list[str]  # attempts that are not live: stop them, delete nothing
    drain: bool  # finish and end


class UnknownContract(HeadgateError):
    """A driver or worker of a version that this control plane cannot talk to."""

    code = "unknown-contract"


def claim(
    ctx: Context,
    driver: str,
    contract: int,
    kinds: Sequence[Kind],
    *,
    sizes: Sequence[Size] = SIZES,
    without: Sequence[str] = (),
    takes_packages: bool = True,
    lake: str = "",
) -> Claim | None:
    """Hand out a batch of queued tasks with all that it takes to run them, or None. `without`: of
    no such dataflow. `takes_packages`: also of a source with packages."""
    if contract != CONTRACT:
        raise UnknownContract(
            f"contract {contract} is not spoken here; this control plane speaks {CONTRACT}"
        )
    with ctx.begin() as tx:
        slices.note_reader(tx, kinds, lake)
        attempt = tx.queue.claim(
            uuid.uuid4().hex,
            driver,
            kinds,
            # A server that is slow holds up one slice, not those that others may read meanwhile
            max_tasks=1 if slices.is_reader(kinds) else MAX_TASKS,
            lease_s=LEASE_S,
            sizes=sizes,
            placements=placements_for(kinds, takes_packages=takes_packages),
            without=without,
            count_of=lambda of: ctx.batch_sizes.limits(tx, ctx.namespace, of).tasks,
        )
        if attempt is None:
            return None
        try:
            answer = _claim(tx, attempt, lake)
        except (CorruptNode, LookupError, ValueError) as e:
            _give_up(tx, attempt, e)
            return None  # the next claim gets other work
        if not answer["tasks"]:  # they have results by now: there may be other work
            tx.queue.end_attempt(attempt.id)
            ctx.wake()
            return None
        if answer["kind"] == "list":  # most find nothing new, which is no event
            long_polls.begin(tx, attempt, answer["job"])
        else:
            branches = tx.queue.branches_of(attempt.tasks)
            tx.events.put(claimed(attempt.id, driver, attempt.dataset, attempt.tasks, branches))
    failpoint("after-claim")
    return answer


def _give_up(tx: Tx, attempt: Attempt, error: Exception) -> None:
    """Fail work whose claim cannot be built: else each driver would be refused all work."""
    fault = infrastructure_error(INTERNAL, f"its work cannot be handed out: {error}")
    for task in attempt.tasks:
        tx.queue.fail(attempt.id, task, fault)
    tx.queue.end_attempt(attempt.id)
    log.error(
        "work cannot be handed out",
        dataset=attempt.dataset,
        tasks=len(attempt.tasks),
        reason=str(error),
    )
    body = {"message": str(error)}
    tx.events.put(
        [Event("claim.failed", attempt.dataset, len(attempt.tasks), body, branch=NO_BRANCH)]
    )


class NamedFiles:
    """The files of the lake that a claim names, with their sizes; one that is named twice counts
    once."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def paths(self, files: Iterable[FileEntry]) -> list[str]:
        """The paths of these files, as often as they are given; they are named from now on."""
        named = list(files)
        self._sizes.update((file["path"], file["size"]) for file in named)
        return [file["path"] for file in named]

    @property
    def size_bytes(self) -> int:
        return sum(self._sizes.values())


def _claim(tx: Tx, attempt: Attempt, lake: str) -> Claim:
    tasks = sorted(tx.queue.tasks(attempt.tasks).values(), key=lambda t: t.partition)
    stored = tx.queue.jobs([attempt.job])[attempt.job]
    if attempt.kind == "transform":
        tasks = following_results.without_known(tx, attempt, tasks)
    tasks = _with_pairs(tx, attempt, stored, tasks)
    named = NamedFiles()
    files = _files(tx, _fragment_ids(tasks), named)
    claim = {
        "contract": CONTRACT,
        "attempt": attempt.id,
        "dataset": attempt.dataset,
        "prefix": attempt.prefix,
        "lake": lake,
        "lease_s": LEASE_S,
        "kind": attempt.kind,
        "job": _job(tx, attempt, stored, tasks, named),
        "tasks": [_task(tx, t, attempt.tasks[t.key], files, named) for t in tasks],
    }
    claim["reads_bytes"] = _objects_bytes(tasks) + named.size_bytes
    # The kind decides which one; its job and its tasks were stored together
    return cast("Claim", claim)


# --- jobs ---------------------------------------------------------------------------------------


def _job(
    tx: Tx, attempt: Attempt, stored: StoredJob, tasks: Sequence[Task], named: NamedFiles
) -> Job:
    """The job with the facts that only a claim adds: known contents of a place, files in place of
    roots. A task that failed before is tried alone: a follower may have ended its driver."""
    if any(task.failures or task.error for task in tasks):
        stored = cast("StoredJob", {k: v for k, v in stored.items() if k != "followers"})
    match attempt.kind:
        case "list":
            return listings.with_known(tx, cast("ListJob", stored), tasks)
        case "write":
            job = cast("WriteJob", stored)
            return {**job, "goes_on": True} if targets.is_there(tx, tasks) else job
        case "transform":
            return _transform_job(tx, attempt, cast("StoredTransformJob", stored), named)
        case "check":
            return _check_job(tx, cast("StoredCheckJob", stored), named)
        case "parse":
            return cast("Job", _with_followers(tx, attempt, stored, named))
        case "slice" | "footers" | "infer" | "analyse" | "index" | "pack" | "connect" | "notify":
            return cast("Job", stored)
        case other:
            assert_never(other)


def _transform_job(
    tx: Tx, attempt: Attempt, stored: StoredTransformJob, named: NamedFiles
) -> TransformJob:
    shared = _shared(tx, stored["shared"], named)
    job = {name: value for name, value in stored.items() if name != "pairs"} | {"shared": shared}
    return cast("TransformJob", _with_followers(tx, attempt, job, named))


def _with_followers(
    tx: Tx, attempt: Attempt, stored: Mapping[str, object], named: NamedFiles
) -> Mapping[str, object]:
    """A job with the files that its followers read whole, without those whose files are gone."""
    if "followers" not in stored:
        return stored
    followers: list[Follower] = []
    for follower in cast("list[StoredFollower]", stored["followers"]):
        with suppress(CorruptNode, LookupError):
            job = cast("SqlJob", _transform_job(tx, attempt, follower["job"], named))
            prefix = attempt_folder(attempt.prefix, follower["dataset"])
            followers.append({**follower, "job": job, "prefix": prefix})
    return {**stored, "followers": followers}


def _check_job(tx: Tx, stored: StoredCheckJob, named: NamedFiles) -> CheckJob:
    if "shared" not in stored:
        return cast("CheckJob", stored)
    return {**stored, "shared": _shared(tx, stored["shared"], named)}


def _shared(tx: Tx, roots: Mapping[str, str], named: NamedFiles) -> dict[str, list[str]]:
    """The files of whole datasets, by input."""
    return {
        name: named.paths(compaction.files(tx, bytes.fromhex(root))) for name, root in roots.items()
    }


# --- tasks --------------------------------------------------------------------------------------


def _with_pairs(tx: Tx, attempt: Attempt, stored: StoredJob, tasks: list[Task]) -> list[Task]:
    """Tasks with the fragments that hold their key, of each input that is read by key."""
    if attempt.kind != "transform":
        return tasks
    job = cast("StoredTransformJob", stored)
    pairs = job.get("pairs")
    if not pairs:
        return tasks
    nodes = tree.NodeCache(CLAIM_NODES).over(tx.nodes)
    trees = {slot: (job["inputs"][slot], bytes.fromhex(root)) for slot, root in pairs.items()}
    prefixes = [
        (root, sorted({prefix for task in tasks for prefix in _pair_prefixes(read, task)}))
        for read, root in trees.values()
    ]
    tree.warm(nodes, prefixes)
    return [_with_pairs_of(nodes, task, trees) for task in tasks]


def _pair_prefixes(read: InputJob, task: Task) -> list[str]:
    return [pair_key(key, "") for key in keys_read(read, task.partition)]


def _with_pairs_of(
    nodes: tree.NodeStore, task: Task, trees: Mapping[str, tuple[InputJob, bytes]]
) -> Task:
    """`trees`: how each input by key is read, and the root of its pairs."""
    spec = task.spec
    assert "slots" in spec
    fragment_ids: dict[str, list[str]] = {}
    for slot, (read, root) in trees.items():
        # A partition that holds several of the keys is read once
        fragments: dict[str, str] = {}
        for prefix in _pair_prefixes(read, task):
            pairs = tree.scan(nodes, root, prefix=prefix)
            fragments |= {pair.key.removeprefix(prefix): pair.fragment.hex() for pair in pairs}
        fragment_ids[slot] = list(fragments.values())
    return replace(task, spec={**spec, "slots": spec["slots"] | fragment_ids})


def _fragment_ids(tasks: Iterable[Task]) -> Iterator[bytes]:
    for task in tasks:
        spec = task.spec
        if "slots" in spec:
            yield from _ids_in(spec["slots"])
            for following in spec.get("then", ()):
                yield from _ids_in(following["slots"])
        elif "generation" in spec and "root" not in spec and "fragment" in spec:
            yield bytes.fromhex(spec["fragment"])


def _ids_in(slots: Mapping[str, Sequence[str]]) -> Iterator[bytes]:
    for fragments in slots.values():
        yield from map(bytes.fromhex, fragments)


def _files(tx: Tx, ids: Iterable[bytes], named: NamedFiles) -> dict[str, list[str]]:
    """Fragment id (hex) -> paths in the lake."""
    by_id = tx.traces.fragments(dict.fromkeys(ids))
    return {id.hex(): named.paths(fragment.files) for id, fragment in by_id.items()}


def _objects_bytes(tasks: Iterable[Task]) -> int:
    """The bytes of the source objects that tasks read."""
    return sum(
        source_object["size"]
        for task in tasks
        if "objects" in task.spec
        for source_object in task.spec["objects"]
    )


def _task(
    tx: Tx, task: Task, epoch: int, files: Mapping[str, list[str]], named: NamedFiles
) -> TaskSpec:
    """The task with files in place of ids of fragments and of roots."""
    head: TaskSpec = {"task": task.key.hex(), "epoch": epoch, "partition": task.partition}
    spec = task.spec
    if "slots" in spec:
        return _reading(head, spec, files)
    if "root" in spec:
        fragments = targets.fragments_of(tx, spec)
        named.paths(file for fragment in fragments for file in fragment["files"])
        return _writing_all(head, spec["generation"], fragments)
    if "generation" in spec:
        return _writing(head, spec, files)
    return cast("TaskSpec", {**head, **spec})  # source objects are given as they are


def _reading(head: TaskSpec, spec: FragmentsSpec, files: Mapping[str, list[str]]) -> TaskSpec:
    full_spec = {**head, **spec, "slots": _of_slots(spec["slots"], files)}
    if "then" in spec:
        full_spec["then"] = [
            {**next_spec, "slots": _of_slots(next_spec["slots"], files)}
            for next_spec in spec["then"]
        ]
    return cast("TaskSpec", full_spec)


def _of_slots(
    slots: Mapping[str, Sequence[str]], files: Mapping[str, list[str]]
) -> dict[str, list[str]]:
    return {name: [path for id in ids for path in files[id]] for name, ids in slots.items()}


def _writing(head: TaskSpec, spec: WriteSpec, files: Mapping[str, list[str]]) -> WriteTask:
    if "fragment" in spec:
        return {**head, "generation": spec["generation"], "files": files[spec["fragment"]]}
    return {**head, "generation": spec["generation"], "remove": True}


def _writing_all(head: TaskSpec, generation: int, fragments: list[WrittenFragment]) -> WriteTask:
    return {**head, "generation": generation, "fragments": fragments}


def heartbeat(
    ctx: Context, driver: str, attempts: Sequence[str], *, drain: bool = False
) -> HeartbeatAnswer:
    """Extend leases. An attempt that is no longer live is fenced: its driver stops and deletes
    nothing. `drain`: the driver is to finish its attempts, and end."""
    with ctx.begin() as tx:
        live = tx.queue.extend(driver, attempts, LEASE_S)
    return {"fenced": [a for a in attempts if a not in live], "drain": drain}
