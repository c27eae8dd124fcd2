"""The pod of a Spark session: its manifest, as plain JSON. Pure functions of the settings and a
note."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controlplane.drivers import side_manifests
from controlplane.drivers.manifests import OURS, SLOT
from controlplane.drivers.pod_kinds import POD_KINDS, JobParts, Manifest, job_manifest
from controlplane.drivers.pod_kinds import selector as selector_of
from controlplane.drivers.pools import Cluster, SessionsPod
from controlplane.services.sessions.port import SessionNote

SESSION = POD_KINDS["session"]
ID, NOTE = f"{OURS}/session", f"{OURS}/note"


def selector(cluster: Cluster) -> str:
    return selector_of(SESSION.labels(cluster))


def job(
    cluster: Cluster, lake: str, note: SessionNote, place: tuple[int, int], deadline_s: float
) -> Manifest:
    """`place`: slot, and the number of launches in it, so that of two replicas that take the same
    slot one is refused. The note is for a replica that finds the Job, and has nothing that opens
    the session."""
    slot, number = place
    name, labels = (
        f"{cluster.instance}-session-{slot}-{number}",
        {**SESSION.labels(cluster), SLOT: str(slot)},
    )
    labels[ID] = note.entry["id"]
    text = json.dumps({"namespace": note.namespace, "token": note.token, "entry": note.entry})
    pod = side_manifests.spec(cluster, settings(cluster), lake, SESSION, name)
    return job_manifest(cluster, JobParts(name, labels, {NOTE: text}, pod, int(deadline_s)))


def note_of(job: Mapping[str, Any]) -> SessionNote:
    note = json.loads(job["metadata"]["annotations"][NOTE])
    return SessionNote(note["namespace"], note["token"], note["entry"])


def slot_of(job: Mapping[str, Any]) -> int:
    return int(job["metadata"]["labels"][SLOT])


def settings(cluster: Cluster) -> SessionsPod:
    assert cluster.sessions is not None
    return cluster.sessions
