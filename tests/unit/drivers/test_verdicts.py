"""What is told of Jobs whose cluster is hard to bring about: nodes that go, events that outlive
pods."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.drivers.verdicts import PodVerdict, awaits_pod, judge

AT = "2026-01-02T03:04:05Z"
AT_S = 1767323045.0


def job(reason: str = "", kind: str = "Failed", **metadata: Any) -> dict[str, Any]:
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "lastTransitionTime": AT,
            "message": "said",
        }
    ]
    return {
        "metadata": metadata,
        "spec": {},
        "status": {"conditions": conditions if reason else []},
    }


def pod(phase: str = "Failed", **status: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": [{}]}, "status": {"phase": phase, **status}}


def disrupted(reason: str) -> dict[str, Any]:
    return pod(
        conditions=[
            {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "because"}
        ]
    )


ENDS = [
    (
        [disrupted("DeletionByTaintManager")],
        [],
        "evicted: its node no longer takes pods like it",
        "disrupted",
    ),
    ([disrupted("DeletionByPodGC")], [], "its node is gone", "disrupted"),
    ([disrupted("Novelty")], [], "disrupted: because", "disrupted"),
    (
        [pod(reason="NodeShutdown", message="Pod was terminated")],
        [],
        "its node shut down: Pod was",
        "disrupted",
    ),
    (
        [],
        [{"reason": "Preempted"}],
        "preempted: a pod of higher priority took its place",
        "disrupted",
    ),
    ([], [{"reason": "Evicted"}], "evicted", "evicted"),
    ([], [{"reason": "Pulled"}], "the cluster took its pod away: said", "disrupted"),
]


@pytest.mark.parametrize(("pods", "events", "words", "fault"), ENDS)
def test_ends(pods: list, events: list, words: str, fault: str) -> None:
    found = judge(job("PodFailurePolicy"), pods, events)
    assert found.reason.startswith(words)
    assert (found.state, found.fault, found.at) == ("ended", fault, AT_S)


def test_why_a_pod_is_taken_away_is_remembered_once_it_has_gone() -> None:
    conditions = disrupted("EvictionByEvictionAPI")["status"]["conditions"]
    taken = judge(job(), [pod("Running", conditions=conditions)], [])
    assert (taken.state, taken.reason) == ("running", "")
    gone = judge(job(), [], []).after(taken)
    ended = judge(job("PodFailurePolicy"), [], []).after(gone)
    assert (ended.reason, ended.fault) == ("evicted: its node is being emptied", "disrupted")
    assert judge(job("DeadlineExceeded"), [], []).after(gone).reason.startswith("ran for longer")


def test_a_job_that_is_being_deleted_is_no_driver_to_count_on() -> None:
    assert judge(job(deletionTimestamp=AT), [pod("Running")], []) == PodVerdict(
        "ending", "is being ended"
    )


def test_the_newest_refusal_counts() -> None:
    events = [
        {
            "reason": "FailedCreate",
            "message": "exceeded quota: small",
            "lastTimestamp": "2026-01-01T00:00:02Z",
        },
        {
            "reason": "FailedCreate",
            "message": "violates PodSecurity",
            "lastTimestamp": "2026-01-01T00:00:03Z",
        },
    ]
    assert judge(job(), [], events).fault == "refused"
    assert judge(job(), [], events[:1]).fault == "quota"


def test_events_are_asked_for_only_where_no_pod_tells() -> None:
    assert awaits_pod(job(), [])
    assert awaits_pod(job("PodFailurePolicy"), [])
    assert not awaits_pod(job("done", "Complete"), [])
    assert not awaits_pod(job(), [pod("Pending")])


def being_made(**more: Any) -> dict[str, Any]:
    waiting = [{"image": "i", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    return (
        pod(
            "Pending",
            conditions=[{"type": "PodScheduled", "status": "True"}],
            containerStatuses=waiting,
        )
        | more
    )


def test_a_pod_that_cannot_be_made_says_what_its_node_says() -> None:
    """Such as where a Secret is not there: the pod itself says ContainerCreating for ever."""
    missing = 'MountVolume.SetUp failed for volume "secret-0" : secret "warehouse" not found'
    events = [
        {"reason": "FailedMount", "message": missing, "lastTimestamp": "2026-01-01T00:00:03Z"},
        {
            "reason": "FailedCreatePodSandBox",
            "message": "no network",
            "lastTimestamp": "2026-01-01T00:00:02Z",
        },
        {"reason": "Unhealthy", "message": "of no matter", "lastTimestamp": "2026-01-01T00:00:04Z"},
    ]
    assert awaits_pod(job(), [being_made()])
    told = judge(job(), [being_made()], events)
    assert (told.state, told.reason, told.fault) == (
        "waiting",
        f"cannot be started: {missing}",
        "refused",
    )
    assert told.mends, "it begins once the Secret is there"
    assert judge(job(), [being_made()], events[2:]).reason == ""


def test_what_a_pod_waited_for_before_its_image_came_is_not_told_on() -> None:
    made = being_made()
    made["status"]["conditions"].append({"type": "PodReadyToStartContainers", "status": "True"})
    assert not awaits_pod(job(), [made])
    assert judge(job(), [made], [{"reason": "FailedMount", "message": "then"}]).reason == ""


def test_a_pod_that_was_not_looked_at_yet_waits() -> None:
    found = judge(job(), [{"metadata": {}, "spec": {}, "status": {}}], [])
    assert (found.state, found.reason) == ("waiting", "")
