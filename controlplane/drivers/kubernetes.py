"""The pool of Jobs in a cluster. The cluster holds all state: this process may end, and another one
goes on.

Each pool has as many slots as it may have Jobs. A Job's name is its slot and a number, so that a
launch into a slot that was just taken is refused: there are never more Jobs than slots, however
many processes try.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, cast
from uuid import uuid4

from controlplane import logs
from controlplane.core.errors import LogGone, PoolUnavailable
from controlplane.core.model import driver_ends, namespaces
from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import surplus
from controlplane.core.model.tasks import Size
from controlplane.drivers import manifests
from controlplane.drivers.backoff import Backoff
from controlplane.drivers.cluster import EVENTS, JOBS, PODS, SECRETS, ApiRefused
from controlplane.drivers.log_tail import last_lines
from controlplane.drivers.manifests import Launch
from controlplane.drivers.pools import Cluster, Pool
from controlplane.drivers.verdicts import PodVerdict, awaits_pod, judge, time_of
from controlplane.ports.pool import LOG_BYTES
from dataplane.contract.failpoints import failpoint

START_S = 600.0  # a launch that only an operator can help is given up and retried after so long
WATCH_PAUSE_S = 5.0
LOOK_AGAIN_S = 0.2
log = logs.get("pool")


class Asks(Protocol):
    """What the pool needs of `cluster.Api`."""

    def list(self, resource: str, labels: str = "", fields: str = "") -> list[dict[str, Any]]: ...

    def create(self, resource: str, body: dict[str, Any]) -> dict[str, Any] | None: ...

    def delete(self, resource: str, name: str, uid: str) -> None: ...

    def watch(self, resource: str, labels: str) -> Iterable[None]: ...

    def log(self, pod: str, container: str, lines: int, limit_bytes: int) -> bytes: ...

    def close(self) -> None: ...


def warnings_of(api: Asks, job: str) -> list[dict[str, Any]]:
    """Events about a Job and its pods, whose names begin with its own. Raises PoolUnavailable."""
    events = api.list(EVENTS, fields="type!=Normal")
    return [
        event
        for event in events
        if str(event.get("involvedObject", {}).get("name", "")).startswith(job)
    ]


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A Job as it was last found."""

    job: str
    uid: str
    launch: Launch
    at: float
    verdict: PodVerdict

    @property
    def is_wanted(self) -> bool:
        return self.verdict.state in ("waiting", "running")

    @property
    def driver(self) -> Driver:
        ended = self.verdict.state == "ended"
        kind = cast("Literal['driver', 'worker']", self.launch.kind)
        at = self.verdict.at if ended else self.at
        verdict, size = self.verdict, self.launch.size
        return Driver(
            self.launch.driver,
            "kubernetes",
            kind,
            at=self.at,
            seen=at,
            ended=ended,
            reason=verdict.reason,
            fault=verdict.fault,
            size=size,
        )


class KubernetesPool:
    """Safe to use from many threads. With `keep`, Jobs go on when it is closed, and the next one
    adopts them."""

    name = "kubernetes"

    def __init__(
        self,
        cluster: Cluster,
        api: Asks,
        mint_token: Callable[[str], str],
        *,
        keep: bool = True,
        nudge: Callable[[], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`mint_token` gives the token of the driver with an id. `nudge` is called when something
        may have happened."""
        self._cluster, self._api, self._mint_token = cluster, api, mint_token
        self._monotonic, self.outlives, self.shares = monotonic, keep, cluster.shares
        # By uid of the Job; None: nothing is known yet
        self._seen_jobs: dict[str, SeenJob] | None = None
        # By pool and slot: the highest that a Job had
        self._numbers: dict[tuple[str, int], int] = {}
        self._supplied: set[str] = set()  # uids of Jobs whose pods have what they are to be given
        self._tokens: dict[str, str] = {}  # by uid of a Job: minted, and not known to be given
        self._end_reasons: dict[str, str] = {}  # by uid of a Job: why it was requested to end
        self._refused: dict[str, Driver] = {}  # by pool: a launch that the cluster does not take
        self._since: dict[str, float] = {}  # uid -> since when it waits for an operator
        self._backoff: dict[str, Backoff] = defaultdict(Backoff)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        if nudge is not None:
            threading.Thread(target=self._watch, args=(nudge,), name="pods", daemon=True).start()

    def scale(
        self,
        kind: str,
        count: int,
        size: Size = "standard",
        busy: Collection[str] = (),
        *,
        namespace: str = DEFAULT,
    ) -> None:
        """Namespaces share the slots of a pool."""
        with self._lock:
            jobs = self._current_jobs()
            pool = self._cluster.pool(kind, size)
            mine = [s for s in jobs.values() if (s.launch.kind, s.launch.size) == (kind, pool.size)]
            running = [s for s in mine if s.is_wanted and s.launch.namespace == namespace]
            idle = sorted((s for s in running if s.launch.driver not in busy), key=_last_to_end)
            for job in surplus(idle, len(running), count):
                self._end(job)
            if count <= len(running):
                self._no_longer_refused(pool, driver_ends.AS_REQUESTED)
            if self._monotonic() >= self._backoff[pool.name].until:
                for slot in _free(mine, pool.limits.maximum)[: max(0, count - len(running))]:
                    self._launch(pool, slot, namespace)

    def end(self, driver: str, reason: str) -> None:
        """The kubelet kills a process that ignores its signal, once `grace_s` is over."""
        with self._lock:
            for job in list(self._current_jobs().values()):
                if job.launch.driver == driver and job.is_wanted:
                    self._end(job, reason)

    def poll(self) -> tuple[Driver, ...]:
        with self._lock:
            before = self._seen_jobs or {}
            now = [_recalling(job, before.get(job.uid)) for job in self._look()]
            self._seen_jobs = {job.uid: job for job in now}
            vanished = [
                s
                for s in before.values()
                if s.uid not in self._seen_jobs and s.verdict.state != "ended"
            ]
            for job in now:
                self._note_end(job, before.get(job.uid))
            self._follow_all(now)
            self._forget()
            drivers = [job.driver for job in now] + [self._vanished(job) for job in vanished]
            return (*drivers, *self._held_up())

    def log(self, driver: str, lines: int) -> str:
        launched = self._api.list(PODS, f"{manifests.selector(self._cluster)},{manifests.KIND}")
        own = [
            p["metadata"]
            for p in launched
            if p["metadata"].get("annotations", {}).get(manifests.DRIVER) == driver
        ]
        if not own:
            rule = f"it is kept for {self._cluster.keep_s} s after an end by itself, not after one that was asked for"
            raise LogGone(f"the pod of {driver} is gone, and its log with it; {rule}")
        pod = max(own, key=lambda about: str(about["creationTimestamp"]))["name"]
        try:
            return last_lines(self._api.log(pod, manifests.CONTAINER, lines, LOG_BYTES), lines)
        except ApiRefused as e:
            raise LogGone(f"pod {pod} of {driver} has no log: {e}") from e

    def seen_jobs(self) -> tuple[SeenJob, ...]:
        """All Jobs as of the last poll."""
        with self._lock:
            return tuple((self._seen_jobs or {}).values())

    def close(self) -> None:
        self._closed.set()
        if not self.outlives:
            with self._lock:
                self._end_all()
        self._api.close()

    def _end_all(self) -> None:
        """As far as the cluster lets us; a Job that stays ends at its deadline."""
        pools = self._cluster.pools.values()
        deadline = self._monotonic() + max(pool.grace_s for pool in pools)
        try:
            for job in self._look():
                self._api.delete(JOBS, job.job, job.uid)
            while self._look() and self._monotonic() < deadline:
                time.sleep(LOOK_AGAIN_S)
        except (PoolUnavailable, ApiRefused) as e:
            log.warning("Jobs are left behind", reason=str(e))

    # --- looking ----------------------------------------------------------------------------------

    def _current_jobs(self) -> dict[str, SeenJob]:
        if self._seen_jobs is None:
            self._seen_jobs = {job.uid: job for job in self._look()}
        return self._seen_jobs

    def _look(self) -> list[SeenJob]:
        """Everything of ours in the cluster. A list that fails raises: it is never an empty one."""
        labels = manifests.selector(self._cluster)
        jobs = self._api.list(JOBS, labels)
        pods = _by_job(self._api.list(PODS, labels))
        events = self._events(
            [j for j in jobs if awaits_pod(j, pods.get(j["metadata"]["uid"], ()))]
        )
        now = [
            _job_seen(j, pods.get(j["metadata"]["uid"], ()), events.get(j["metadata"]["uid"], ()))
            for j in jobs
        ]
        for seen_job in now:
            self._remember(seen_job)
        return now

    def _remember(self, job: SeenJob) -> None:
        """A name must not come again as long as a pod or Secret of the Job that had it may still be
        there."""
        key = self._cluster.pool(job.launch.kind, job.launch.size).name, job.launch.slot
        self._numbers[key] = max(job.launch.number, self._numbers.get(key, 0))

    def _events(self, jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
        """Events of these Jobs and their pods, read only where nothing else explains their
        state."""
        events_by_uid: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        if not jobs:
            return events_by_uid
        uids = {j["metadata"]["name"]: j["metadata"]["uid"] for j in jobs}
        for event in self._api.list(EVENTS, fields="type!=Normal") + self._api.list(
            EVENTS, fields="reason=Preempted"
        ):
            about = event.get("involvedObject", {})
            name = str(about.get("name", ""))
            job = name if about.get("kind") == "Job" else name.rpartition("-")[0]
            if job in uids and (about.get("kind") == "Pod" or about.get("uid") == uids[job]):
                events_by_uid[uids[job]].append(event)
        return events_by_uid

    def _note_end(self, job: SeenJob, before: SeenJob | None) -> None:
        if job.verdict.state == "ended" and before is not None and before.verdict.state != "ended":
            pool = self._cluster.pool(job.launch.kind, job.launch.size)
            self._backoff[pool.name].after(max(0.0, job.verdict.at - job.at), self._monotonic())

    def _follow_all(self, now: Iterable[SeenJob]) -> None:
        """Failed actions are retried at the next poll; the observed state is reported
        regardless."""
        try:
            for job in now:
                self._follow(job)
        except PoolUnavailable as e:
            log.warning("Jobs cannot be looked after", reason=str(e))

    def _follow(self, job: SeenJob) -> None:
        """Act on the state of a Job: supply its pod with its Secret, or end it if it waits in
        vain."""
        state = job.verdict.state
        if state == "waiting":
            self._give(job)
            if not job.verdict.mends:
                since = self._since.setdefault(job.uid, self._monotonic())
                if self._monotonic() - since > START_S:
                    self._end(job)
        else:
            self._since.pop(job.uid, None)

    def _vanished(self, job: SeenJob) -> Driver:
        is_requested = job.uid in self._end_reasons or job.verdict.state == "ending"
        reason = (
            self._end_reasons.get(job.uid, driver_ends.AS_REQUESTED)
            if is_requested
            else "its Job was deleted"
        )
        return replace(
            job.driver,
            ended=True,
            seen=time.time(),
            reason=reason,
            fault="" if is_requested else "disrupted",
        )

    def _forget(self) -> None:
        present = set(self._seen_jobs or ())
        self._supplied &= present
        self._end_reasons = {
            uid: reason for uid, reason in self._end_reasons.items() if uid in present
        }
        self._tokens = {uid: token for uid, token in self._tokens.items() if uid in present}
        self._since = {uid: since for uid, since in self._since.items() if uid in present}

    # --- doing ------------------------------------------------------------------------------------

    def _launch(self, pool: Pool, slot: int, namespace: str) -> None:
        """The Job first: its creator gives its pod a token, which goes with it."""
        number = 1 + self._numbers.get((pool.name, slot), 0)
        driver = namespaces.id_in(namespace, f"{pool.kind}-{uuid4().hex[:12]}")
        launch = Launch(driver, pool.kind, pool.size, slot, number)
        job = self._created(pool, JOBS, manifests.job(self._cluster, launch))
        if not job:
            return  # refused, or another process was faster, and the next poll finds it
        failpoint("after-job-created")
        seen_job = _job_seen(job, (), ())
        self._current_jobs()[seen_job.uid] = seen_job
        self._remember(seen_job)
        self._give(seen_job)
        log.info("launched", job=seen_job.job, driver=launch.driver)

    def _created(self, pool: Pool, resource: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The created object; empty if it exists already, None if it was rejected."""
        try:
            made = self._api.create(resource, body)
        except ApiRefused as e:
            log.warning("launch refused", pool=pool.name, reason=str(e))
            self._refuse(pool, str(e))
            return None
        self._no_longer_refused(pool, driver_ends.LAUNCHED)
        return made or {}

    def _give(self, job: SeenJob) -> None:
        """Create the pod's Secret unless it exists. Repeating is harmless, also after a crash
        before this."""
        if job.uid in self._supplied:
            return
        if job.uid not in self._tokens:
            self._tokens[job.uid] = self._mint_token(job.launch.driver)
        token = self._tokens[job.uid]
        secret = manifests.secret(
            self._cluster, job.launch, token, {"name": job.job, "uid": job.uid}
        )
        pool = self._cluster.pool(job.launch.kind, job.launch.size)
        if self._created(pool, SECRETS, secret) is not None:
            self._supplied.add(job.uid)
            del self._tokens[job.uid]

    def _end(self, job: SeenJob, reason: str = driver_ends.AS_REQUESTED) -> None:
        self._api.delete(JOBS, job.job, job.uid)
        self._end_reasons.setdefault(job.uid, reason)
        self._current_jobs()[job.uid] = replace(
            job, verdict=PodVerdict("ending", driver_ends.ENDING)
        )

    def _refuse(self, pool: Pool, reason: str) -> None:
        """Shown as a driver that does not come to be."""
        now = time.time()
        at = self._refused[pool.name].at if pool.name in self._refused else now
        words = f"cannot be launched: {reason}"
        self._refused[pool.name] = Driver(
            f"{pool.name}-refused", self.name, pool.kind, at, at, reason=words, size=pool.size
        )
        self._backoff[pool.name].after(0.0, self._monotonic())

    def _no_longer_refused(self, pool: Pool, reason: str) -> None:
        if pool.name in self._refused:
            self._refused[pool.name] = replace(self._refused[pool.name], ended=True, reason=reason)

    def _held_up(self) -> list[Driver]:
        """Launches that the cluster does not take; one that it took after all, or that is over,
        comes once more."""
        drivers = list(self._refused.values())
        self._refused = {name: d for name, d in self._refused.items() if not d.ended}
        return drivers

    def _watch(self, nudge: Callable[[], None]) -> None:
        """A hint only: the next poll finds changes that are missed here."""
        while not self._closed.is_set():
            try:
                for _ in self._api.watch(PODS, manifests.selector(self._cluster)):
                    nudge()
            except (PoolUnavailable, ApiRefused):
                """It is asked again."""
            except Exception as e:
                log.exception("watching pods failed", error=str(e))
            # Also after one that ended in order, which may be at once, each time
            self._closed.wait(WATCH_PAUSE_S)


def _job_seen(
    job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]], events: Iterable[Mapping[str, Any]]
) -> SeenJob:
    about = job["metadata"]
    labels, number = about["labels"], about["name"].rpartition("-")[2]
    launch = Launch(
        about["annotations"][manifests.DRIVER],
        labels[manifests.KIND],
        cast("Size", labels[manifests.SIZE]),
        int(labels[manifests.SLOT]),
        int(number),
    )
    at = time_of(about["creationTimestamp"])
    return SeenJob(about["name"], about["uid"], launch, at, judge(job, pods, events))


def _recalling(job: SeenJob, before: SeenJob | None) -> SeenJob:
    return replace(job, verdict=job.verdict.after(before.verdict if before else None))


def _by_job(pods: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """By uid: of a name there may have been another one."""
    pods_by_uid: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for pod in pods:
        pods_by_uid[
            pod["metadata"].get("labels", {}).get("batch.kubernetes.io/controller-uid", "")
        ].append(pod)
    return pods_by_uid


def _last_to_end(job: SeenJob) -> tuple[bool, int]:
    """Waiting Jobs come last, then the higher slot: the last ones end first."""
    return job.verdict.state == "waiting", job.launch.slot


def _free(mine: Iterable[SeenJob], maximum: int) -> list[int]:
    used_slots = {s.launch.slot for s in mine if s.verdict.state != "ended"}
    return [slot for slot in range(maximum) if slot not in used_slots]
