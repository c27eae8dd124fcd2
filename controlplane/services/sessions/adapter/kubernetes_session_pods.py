"""Pods of Spark sessions in a cluster, one for each. What there is, the cluster knows: another
replica, or this one once it was started again, finds sessions by their Jobs, with whose they
are."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from controlplane import logs
from controlplane.core.errors import EngineUnavailable, PoolUnavailable, QueriesBusy
from controlplane.drivers import pod_kinds
from controlplane.drivers.cluster import JOBS, PODS, SECRETS, ApiRefused
from controlplane.drivers.kubernetes import Asks, warnings_of
from controlplane.drivers.pools import Cluster
from controlplane.drivers.verdicts import awaits_pod, judge, time_of
from controlplane.services.sessions.adapter import session_pod_manifest
from controlplane.services.sessions.port import SessionNote, SessionPod

Found = Mapping[str, Any]
KNOWN_S = 2.0  # for which a list of Jobs is not asked for again
LOST_S = 300.0  # longer than a client that opens a session waits for its pod
DEADLINE_S = 600  # beside a session's time: its pod has to start
BUSY = "{most} Spark sessions are open in the cluster, as many as `sessions` of the pools file allows; end one"
REFUSED = "the session has no pod: {reason}"
STARTS = "its pod is being started"
AWAY = "the cluster cannot be asked: {reason}"
log = logs.get("sessions")


class KubernetesSessionPods:
    """`SessionPods`. Safe to use from many threads."""

    def __init__(
        self,
        cluster: Cluster,
        lake: str,
        open_api: Callable[[], Asks],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`open_api` raises PoolUnavailable where there is no way to the cluster."""
        self._cluster, self._lake, self._open_api, self._now = cluster, lake, open_api, now
        self._settings = session_pod_manifest.settings(cluster)
        self._labels = session_pod_manifest.selector(cluster)
        self._opened: Asks | None = None
        # when, and what there was
        self._cached_notes: tuple[float, list[SessionNote]] = (-KNOWN_S, [])
        self._lock = threading.Lock()

    def start(self, note: SessionNote, ttl_s: float) -> str:
        try:
            return self._start(self._api(), note, ttl_s)
        except (PoolUnavailable, ApiRefused) as e:
            raise EngineUnavailable(REFUSED.format(reason=e)) from e
        finally:
            self._forget()

    def look(self, id: str) -> SessionPod | str:
        try:
            return self._look(self._api(), id)
        except (PoolUnavailable, ApiRefused) as e:
            return AWAY.format(reason=e)

    def notes(self) -> list[SessionNote]:
        with self._lock:
            at, current_notes = self._cached_notes
            if time.monotonic() - at < KNOWN_S:
                return current_notes
        with suppress(PoolUnavailable):
            jobs = self._api().list(JOBS, self._labels)
            current_notes = [
                note for job in jobs if _is_alive(job) and (note := _note(job)) is not None
            ]
        with self._lock:
            self._cached_notes = time.monotonic(), current_notes
        return current_notes

    def end(self, id: str) -> None:
        api = self._api()
        for job in api.list(JOBS, self._of(id)):
            api.delete(JOBS, job["metadata"]["name"], job["metadata"]["uid"])
        self._forget()

    def forwarding(self, pod: SessionPod, port: int) -> str:
        return f"kubectl --namespace {self._cluster.namespace} port-forward pod/{pod.name} {port}:{port}"

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    def _api(self) -> Asks:
        with self._lock:
            if self._opened is None:
                self._opened = self._open_api()
            return self._opened

    def _of(self, id: str) -> str:
        return f"{self._labels},{session_pod_manifest.ID}={id}"

    def _forget(self) -> None:
        with self._lock:
            self._cached_notes = -KNOWN_S, self._cached_notes[1]

    def _start(self, api: Asks, note: SessionNote, ttl_s: float) -> str:
        """The Job first: its creator gives its pod a token, which goes with it."""
        while True:
            jobs = api.list(JOBS, self._labels)
            place = self._free(jobs) or self._freed(api, jobs)
            job = api.create(
                JOBS,
                session_pod_manifest.job(
                    self._cluster, self._lake, note, place, ttl_s + DEADLINE_S
                ),
            )
            if job is not None:
                break  # else another replica took the slot meanwhile
        about, token = job["metadata"], secrets.token_urlsafe(32)
        owner = {"name": about["name"], "uid": about["uid"]}
        try:
            api.create(
                SECRETS,
                pod_kinds.secret_manifest(self._cluster, about["labels"], owner, {"token": token}),
            )
        except BaseException:
            api.delete(JOBS, about["name"], about["uid"])
            raise
        log.info("launched", job=about["name"], session=note.entry["id"])
        return token

    def _free(self, jobs: Sequence[Found]) -> tuple[int, int] | None:
        """A slot, and the number of the next launch in it."""
        used_slots = {session_pod_manifest.slot_of(job) for job in jobs if _is_alive(job)}
        slot = next((n for n in range(self._settings.maximum) if n not in used_slots), None)
        return None if slot is None else (slot, _following(jobs, slot))

    def _freed(self, api: Asks, jobs: Sequence[Found]) -> tuple[int, int]:
        """The slot of a Job that came to nothing: its maker died before its pod had its token.
        Raises QueriesBusy."""
        lost = next((job for job in jobs if _is_alive(job) and _is_lost(job, self._now())), None)
        if lost is None:
            raise QueriesBusy(BUSY.format(most=self._settings.maximum))
        api.delete(JOBS, lost["metadata"]["name"], lost["metadata"]["uid"])
        slot = session_pod_manifest.slot_of(lost)
        return slot, _following(jobs, slot)

    def _look(self, api: Asks, id: str) -> SessionPod | str:
        job = next(iter(api.list(JOBS, self._of(id))), None)
        if job is None:
            raise EngineUnavailable(REFUSED.format(reason="its Job was deleted"))
        pods = api.list(PODS, self._of(id))
        verdict = judge(
            job, pods, warnings_of(api, job["metadata"]["name"]) if awaits_pod(job, pods) else ()
        )
        if verdict.state in ("ended", "ending") or not verdict.mends:
            raise EngineUnavailable(REFUSED.format(reason=verdict.reason))
        address = pods[0].get("status", {}).get("podIP", "") if pods else ""
        if verdict.state == "running" and address:
            return SessionPod(pods[0]["metadata"]["name"], address, self._settings.port)
        return verdict.reason or STARTS


def _note(job: Found) -> SessionNote | None:
    """The note of a Job. None where it was changed from outside."""
    try:
        return session_pod_manifest.note_of(job)
    except (KeyError, TypeError, ValueError):
        log.warning("a session cannot be told", job=job["metadata"]["name"])
        return None


def _following(jobs: Iterable[Found], slot: int) -> int:
    """The number of the next launch in a slot."""
    numbers = (
        pod_kinds.number_of(job) for job in jobs if session_pod_manifest.slot_of(job) == slot
    )
    return 1 + max(numbers, default=0)


def _is_lost(job: Found, now: float) -> bool:
    """Without a pod that runs, long after it was made."""
    is_running = bool(job.get("status", {}).get("ready"))
    return not is_running and now - time_of(job["metadata"]["creationTimestamp"]) > LOST_S


def _is_alive(job: Found) -> bool:
    return judge(job, (), ()).state in ("waiting", "running")
