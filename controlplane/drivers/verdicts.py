"""What Jobs, pods and events of a cluster say of a driver, in words and as a kind of fault.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from controlplane.core.model import driver_ends
from controlplane.core.model.drivers import Fault

State: TypeAlias = Literal["waiting", "running", "ending", "ended"]
Found: TypeAlias = Mapping[str, Any]
LONGEST = 400  # characters of what the cluster says

DISRUPTIONS = {
    "PreemptionByScheduler": "preempted: a pod of higher priority took its place",
    "EvictionByEvictionAPI": "evicted: its node is being emptied",
    "DeletionByTaintManager": "evicted: its node no longer takes pods like it",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "evicted: its node ran short of something, or shut down",
}
NOT_MADE = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
NO_IMAGE = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
)


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """`mends`: waiting may help by itself; else a new launch is needed after a change from outside.
    `disruption`: why the cluster takes its pod away, which only a pod that still exists shows."""

    state: State
    reason: str = ""
    fault: Fault = ""
    at: float = 0.0
    mends: bool = True
    disruption: str = ""

    def after(self, before: PodVerdict | None) -> PodVerdict:
        """This verdict, with the cause of an earlier one, which is no longer visible."""
        cause = self.disruption or (before.disruption if before else "")
        reason = cause if cause and self.fault == "disrupted" else self.reason
        return replace(self, reason=reason, disruption=cause)


def judge(job: Found, pods: Sequence[Found], events: Iterable[Found]) -> PodVerdict:
    """`pods` and `events` are those of this Job. The Job shows whether it is over, its pods show
    why."""
    conditions = _true(job)
    if (failed := conditions.get("Failed")) is not None:
        return _failed(job, failed, pods, events)
    if (complete := conditions.get("Complete")) is not None:
        return PodVerdict(
            "ended", driver_ends.BY_ITSELF, at=time_of(complete.get("lastTransitionTime"))
        )
    if "deletionTimestamp" in job["metadata"]:
        return PodVerdict("ending", driver_ends.ENDING)
    alive = [p for p in pods if _phase(p) in ("Pending", "Running")]
    if not alive:
        return _without_pod(events)
    if _phase(alive[0]) == "Running":
        return PodVerdict("running", disruption=_disruption(alive[0]))
    return _pending(alive[0], events)


def awaits_pod(job: Found, pods: Sequence[Found]) -> bool:
    """True if only events show the problem of the Job, a present or a past one."""
    return "Complete" not in _true(job) and (not pods or _is_being_made(pods[0]))


# --- over ---------------------------------------------------------------------------------------


def _failed(
    job: Found, condition: Found, pods: Sequence[Found], events: Iterable[Found]
) -> PodVerdict:
    at = time_of(condition.get("lastTransitionTime"))
    if condition.get("reason") == "DeadlineExceeded":
        words = f"ran for longer than its deadline of {job['spec'].get('activeDeadlineSeconds')} s"
        return PodVerdict("ended", words, "deadline", at)
    for pod in pods:
        if (disruption := _of_pod(pod)) is not None:
            return PodVerdict("ended", *disruption, at=at)
    if (disruption := _disrupted_by_events(events)) is not None:
        return PodVerdict("ended", *disruption, at=at)
    if condition.get("reason") == "PodFailurePolicy":
        return PodVerdict(
            "ended",
            f"the cluster took its pod away: {_short(condition.get('message'))}",
            "disrupted",
            at,
        )
    return PodVerdict("ended", "its pod was deleted", "disrupted", at)


def _of_pod(pod: Found) -> tuple[str, Fault] | None:
    status = pod.get("status", {})
    if status.get("reason") in ("Evicted", "Preempting", "NodeShutdown", "Terminated"):
        words = "evicted" if status["reason"] == "Evicted" else "its node shut down"
        return (
            f"{words}: {_short(status.get('message'))}",
            "evicted" if words == "evicted" else "disrupted",
        )
    if disruption := _disruption(pod):
        return disruption, "disrupted"
    for container in status.get("containerStatuses", ()):
        if (ended := container.get("state", {}).get("terminated")) is not None:
            return _exit(pod, ended)
    return None


def _disruption(pod: Found) -> str:
    """Why the cluster decided to take it away, if it did."""
    target = _true(pod).get("DisruptionTarget")
    if target is None:
        return ""
    return DISRUPTIONS.get(target.get("reason", ""), f"disrupted: {_short(target.get('message'))}")


def _exit(pod: Found, ended: Found) -> tuple[str, Fault]:
    code, message = ended.get("exitCode", -1), str(ended.get("message") or "")
    if ended.get("reason") == "OOMKilled":
        limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        return (
            f"ran out of memory: killed at its limit of {limits.get('memory', 'its node')}",
            "memory",
        )
    if "deletionTimestamp" in pod["metadata"]:
        return "its pod was deleted", "disrupted"
    if "OutOfMemoryError" in message or "MemoryError" in message:
        return f"ran out of memory (exited with code {code})", "memory"
    last = message.strip().rpartition("\n")[2]
    words = f"killed by signal {code - 128}" if 128 < code < 192 else f"exited with code {code}"
    return words + (f": {_short(last)}" if code and last else ""), "crashed" if code else ""


def _disrupted_by_events(events: Iterable[Found]) -> tuple[str, Fault] | None:
    """Pods that are gone may have left events: of a scheduler that preempted, of a kubelet that
    evicted."""
    words: dict[str, tuple[str, Fault]] = {
        "Preempted": (DISRUPTIONS["PreemptionByScheduler"], "disrupted"),
        "Evicted": ("evicted", "evicted"),
        "TaintManagerEviction": (DISRUPTIONS["DeletionByTaintManager"], "disrupted"),
    }
    for event in events:
        if (disruption := words.get(event.get("reason", ""))) is not None:
            return disruption
    return None


# --- not begun ----------------------------------------------------------------------------------


def _without_pod(events: Iterable[Found]) -> PodVerdict:
    """The Job stays active for ever where its pods are refused; only events show that."""
    refused = [e for e in events if e.get("reason") == "FailedCreate"]
    if not refused:
        return PodVerdict("waiting")
    message = str(max(refused, key=last_seen).get("message") or "")
    if "quota" in message:
        return PodVerdict("waiting", f"waits for room in a quota: {_short(message)}", "quota")
    return PodVerdict(
        "waiting", f"the cluster refuses its pod: {_short(message)}", "refused", mends=False
    )


def _is_being_made(pod: Found) -> bool:
    """It has a node, and that has not mounted its volumes yet, or not given it a network."""
    true_conditions = _true(pod)
    return (
        _phase(pod) == "Pending"
        and "PodScheduled" in true_conditions
        and "PodReadyToStartContainers" not in true_conditions
    )


def _pending(pod: Found, events: Iterable[Found]) -> PodVerdict:
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in NO_IMAGE:
            words = (
                f"image {container.get('image')} cannot be had: "
                f"{_short(waiting.get('message') or waiting['reason'])}"
            )
            return PodVerdict("waiting", words, "image", mends=False)
        if waiting.get("reason") in (
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
        ):
            return PodVerdict(
                "waiting",
                f"cannot be started: {_short(waiting.get('message'))}",
                "refused",
                mends=False,
            )
    placed: Found = next(
        (c for c in pod.get("status", {}).get("conditions", ()) if c.get("type") == "PodScheduled"),
        {},
    )
    if placed.get("status") == "False":
        return PodVerdict(
            "waiting", f"waits for a node: {_short(placed.get('message'))}", "unschedulable"
        )
    failed = [e for e in events if e.get("reason") in NOT_MADE] if _is_being_made(pod) else []
    if failed:
        return PodVerdict(
            "waiting",
            f"cannot be started: {_short(max(failed, key=last_seen).get('message'))}",
            "refused",
        )
    return PodVerdict("waiting")


# --- reading ------------------------------------------------------------------------------------


def time_of(text: str | None) -> float:
    """Seconds since 1970 by the cluster's clock, for people; 0 where there is no time."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def last_seen(event: Found) -> str:
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    )


def _true(pod: Found) -> dict[str, Found]:
    conditions = pod.get("status", {}).get("conditions") or ()
    return {c["type"]: c for c in conditions if c.get("status") == "True"}


def _phase(pod: Found) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def _short(text: Any) -> str:
    words = " ".join(str(text or "nothing was said").split())
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
