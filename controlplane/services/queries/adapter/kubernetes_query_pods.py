"""The pod in a cluster that answers queries by Spark: one for all replicas of a service, started by
the first query.

The cluster holds all state: a Job's name has a digest of its settings and a number, so that the
second replica to request one finds the first one's.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane import logs
from controlplane.core.errors import EngineUnavailable, PoolUnavailable
from controlplane.drivers import pod_kinds
from controlplane.drivers.cluster import JOBS, PODS, SECRETS, ApiRefused
from controlplane.drivers.kubernetes import Asks, warnings_of
from controlplane.drivers.pools import Cluster
from controlplane.drivers.verdicts import PodVerdict, awaits_pod, judge
from controlplane.services.queries.adapter import query_pod_manifest
from controlplane.services.queries.adapter.query_pod_manifest import NONCE
from controlplane.services.queries.port import PodPlace

Found = Mapping[str, Any]
LATELY_S = 120.0  # a pod that failed in this time is started once more, and not a third time
REQUESTED_FOR = "it was asked for"
STARTS = "it is being started"
AWAY = "the cluster cannot be asked: {reason}"
REFUSED = "Spark has no pod: {reason}; ask DuckDB, or tell who runs this service"
log = logs.get("queries")


class KubernetesQueryPods:
    """`QueryPods`. `secret`: of the installation, the same in every replica."""

    def __init__(
        self,
        cluster: Cluster,
        lake: str,
        secret: bytes,
        open_api: Callable[[], Asks],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`open_api` raises PoolUnavailable where there is no way to the cluster."""
        assert cluster.queries is not None
        self._cluster, self._lake, self._secret, self._now = cluster, lake, secret, now
        self._port, self._open_api = cluster.queries.port, open_api
        self._settings = query_pod_manifest.settings(cluster, lake, secret)
        self._api: Asks | None = None
        self._supplied = set[str]()  # uids of Jobs whose Secrets are there
        self._lock = threading.Lock()

    def look(self) -> PodPlace | str:
        with self._lock:
            try:
                return self._look()
            except PoolUnavailable as e:
                return AWAY.format(reason=e)
            except ApiRefused as e:
                raise EngineUnavailable(REFUSED.format(reason=e)) from e

    def close(self) -> None:
        if self._api is not None:  # a look that hangs is not waited for
            self._api.close()

    def _look(self) -> PodPlace | str:
        if self._api is None:
            self._api = self._open_api()
        labels = query_pod_manifest.selector(self._cluster, self._settings)
        jobs = sorted(self._api.list(JOBS, labels), key=pod_kinds.number_of)
        verdicts = [(job, *self._pod_and_verdict(self._api, job, labels)) for job in jobs]
        for job, pod, verdict in reversed(verdicts):
            if verdict.state in ("waiting", "running"):
                return self._waited_for(self._api, job, pod, verdict)
        self._check_failures([verdict for _, _, verdict in verdicts])
        self._start(self._api, 1 + max(map(pod_kinds.number_of, jobs), default=0))
        return REQUESTED_FOR

    def _pod_and_verdict(self, api: Asks, job: Found, labels: str) -> tuple[Found, PodVerdict]:
        """Its pod, and the verdict of cluster and pod."""
        uid = job["metadata"]["uid"]
        pods = [pod for pod in api.list(PODS, labels) if _job_of(pod) == uid]
        events = warnings_of(api, job["metadata"]["name"]) if awaits_pod(job, pods) else ()
        return pods[0] if pods else {}, judge(job, pods, events)

    def _waited_for(self, api: Asks, job: Found, pod: Found, verdict: PodVerdict) -> PodPlace | str:
        about = job["metadata"]
        token = query_pod_manifest.token(self._secret, about["annotations"][NONCE])
        self._give(api, about, token)
        # It would wait for ever, and the next query asks with the settings of that moment
        if not verdict.mends:
            api.delete(JOBS, about["name"], about["uid"])
            raise EngineUnavailable(REFUSED.format(reason=verdict.reason))
        address = pod.get("status", {}).get("podIP", "")
        if verdict.state == "running" and address:
            return PodPlace(address, self._port, token)
        return verdict.reason or STARTS

    def _give(self, api: Asks, about: Found, token: str) -> None:
        """Its Secret, also where another replica made the Job and died before this. Repeating is
        harmless."""
        if about["uid"] in self._supplied:
            return
        owner = {"name": about["name"], "uid": about["uid"]}
        api.create(
            SECRETS,
            pod_kinds.secret_manifest(self._cluster, about["labels"], owner, {"token": token}),
        )
        self._supplied.add(about["uid"])

    def _check_failures(self, verdicts: Sequence[PodVerdict]) -> None:
        failed = [
            verdict for verdict in verdicts if verdict.fault and self._now() - verdict.at < LATELY_S
        ]
        if len(failed) > 1:
            raise EngineUnavailable(REFUSED.format(reason=f"the last one {failed[-1].reason}"))

    def _start(self, api: Asks, number: int) -> None:
        nonce = secrets.token_hex(16)
        made = api.create(
            JOBS, query_pod_manifest.job(self._cluster, self._lake, self._settings, number, nonce)
        )
        if made is None:
            return  # another replica was faster, and the next look finds it
        about = made["metadata"]
        self._give(api, about, query_pod_manifest.token(self._secret, about["annotations"][NONCE]))
        log.info("launched", job=about["name"])


def _job_of(pod: Found) -> str:
    return str(pod["metadata"].get("labels", {}).get("batch.kubernetes.io/controller-uid", ""))
