"""Events as users see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.core.model.states import State

NO_BRANCH = ""  # for events of the whole installation: they are shown in every branch
CLAIMED = "task.claimed"  # the kind of event that begins an attempt: `{attempt, driver}`
ADOPTED = "partitions.adopted"  # the kind of event for partitions that no task computed
COMMITTED = "dataset.committed"  # the kind of event for a new state: `committed_body`


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a branch, or in none (`NO_BRANCH`). `n` is what counters add
    up."""

    kind: str
    dataset: str = ""
    n: int = 0
    body: Mapping[str, object] = field(default_factory=dict)
    id: int = 0
    at: float = 0.0
    branch: str = field(kw_only=True)


def committed_body(state: State) -> dict[str, object]:
    """The part of a state that the event of its commit has. `seq` finds it again."""
    return {
        "seq": state.seq,
        "generation": state.generation,
        "root": state.root.hex(),
        "cause": state.cause,
        "rows": state.rows,
    }


def claimed(
    attempt: str,
    driver: str,
    dataset: str,
    tasks: Iterable[bytes],
    demanding: Mapping[bytes, Sequence[str]],
) -> list[Event]:
    """That an attempt began, for each branch that demands tasks of it."""
    body = {"attempt": attempt, "driver": driver}
    shares = by_branch(tasks, demanding)
    return [
        Event(CLAIMED, dataset, len(theirs), body, branch=branch)
        for branch, theirs in shares.items()
    ]


def by_branch(
    tasks: Iterable[bytes], demanding: Mapping[bytes, Sequence[str]]
) -> dict[str, list[bytes]]:
    """The tasks that each branch demands. Those without a demand stand under NO_BRANCH."""
    tasks_of: dict[str, list[bytes]] = {}
    for task in tasks:
        for branch in demanding.get(task, (NO_BRANCH,)):
            tasks_of.setdefault(branch, []).append(task)
    return tasks_of
