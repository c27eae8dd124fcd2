"""The pod that answers queries by Spark: its manifest, as plain JSON. Pure functions of the
settings."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256

from controlplane.drivers import side_manifests
from controlplane.drivers.manifests import OURS
from controlplane.drivers.pod_kinds import POD_KINDS, JobParts, Manifest, job_manifest
from controlplane.drivers.pod_kinds import selector as selector_of
from controlplane.drivers.pools import Cluster

QUERY = POD_KINDS["query"]
SETTINGS, NONCE = f"{OURS}/settings", f"{OURS}/nonce"
DERIVED = b"headgate/query-pod/1\n"


def selector(cluster: Cluster, settings: str) -> str:
    return selector_of({**QUERY.labels(cluster), SETTINGS: settings})


def settings(cluster: Cluster, lake: str, secret: bytes) -> str:
    """A digest of image, bounds and secret. Pods of other settings are not used, and end once they
    are idle."""
    text = json.dumps(_spec(cluster, lake, token(secret, "")), sort_keys=True)
    return sha256(text.encode()).hexdigest()[:10]


def token(secret: bytes, nonce: str) -> str:
    """The token by which a pod authenticates callers. Every replica of a service derives it;
    listing Jobs does not reveal it."""
    return hmac.new(secret, DERIVED + nonce.encode(), sha256).hexdigest()


def job(cluster: Cluster, lake: str, made_of: str, number: int, nonce: str) -> Manifest:
    """`made_of`: see `settings`. `number`: of launches, so that a second replica that launches the
    same gets a conflict."""
    name, labels = (
        f"{cluster.instance}-query-{made_of}-{number}",
        {**QUERY.labels(cluster), SETTINGS: made_of},
    )
    return job_manifest(cluster, JobParts(name, labels, {NONCE: nonce}, _spec(cluster, lake, name)))


def _spec(cluster: Cluster, lake: str, name: str) -> Manifest:
    assert cluster.queries is not None
    return side_manifests.spec(cluster, cluster.queries, lake, QUERY, name)
