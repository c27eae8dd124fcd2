"""The pod of a Spark session: its manifest, as plain JSON. Pure functions of the settings and a note."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from controlplane.drivers import side_manifests
from controlplane.drivers.manifests import DISRUPTED, OURS, SLOT, Manifest
from controlplane.drivers.pools import Cluster, SessionsPod
from controlplane.services.sessions.port import Note

SESSION = "session"
MANAGER = "headgate-sessions"
ID, NOTE = f"{OURS}/session", f"{OURS}/note"


def selector(cluster: Cluster) -> str:
    return side_manifests.selector(_labels(cluster))


def job(cluster: Cluster, lake: str, note: Note, place: tuple[int, int], deadline_s: float) -> Manifest:
    """`place`: slot, and the number of launches in it, so that of two replicas that take the same slot one is refused.
    The note is for a replica that finds the Job, and has nothing that opens the session."""
    slot, number = place
    name, labels = f"{cluster.instance}-session-{slot}-{number}", {**_labels(cluster), SLOT: str(slot)}
    labels[ID] = note.entry["id"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": labels,
            "annotations": {NOTE: json.dumps({"namespace": note.namespace, "token": note.token, "entry": note.entry})},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(deadline_s),
            "ttlSecondsAfterFinished": cluster.keep_s,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [DISRUPTED]},
            "template": {
                "metadata": {"labels": labels},
                "spec": side_manifests.spec(cluster, settings(cluster), lake, SESSION, name),
            },
        },
    }


def note_of(job: Mapping[str, Any]) -> Note:
    note = json.loads(job["metadata"]["annotations"][NOTE])
    return Note(note["namespace"], note["token"], note["entry"])


def slot_of(job: Mapping[str, Any]) -> int:
    return int(job["metadata"]["labels"][SLOT])


def settings(cluster: Cluster) -> SessionsPod:
    assert cluster.sessions is not None
    return cluster.sessions


def _labels(cluster: Cluster) -> dict[str, str]:
    return side_manifests.labels(cluster, SESSION, MANAGER)
