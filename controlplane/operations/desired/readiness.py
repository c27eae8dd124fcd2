"""Whether a merge leaves anything to compute: then it is not ready.

Checked in the transaction that moves the texts, so that it is about the inputs which that
transaction sees. Does not belong here: waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.core.compile import ownership
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import MergeNotReady, Problem
from controlplane.core.plan import Commit, Decision
from controlplane.operations.desired.compile_edit import CompiledEdit
from controlplane.operations.planning.snapshot import plan_now
from controlplane.ports.store import Tx

REASONS = {
    "stale": "is not up to date",
    "building": "is being computed",
    "waiting": "waits",
    "paused": "is paused",
    "held": "is held",
    "failed": "failed",
    "blocked": "reads what failed",
}
HINT = "merge again when branch {0} is up to date over what {1} has: headgate branch merge {0} --into {1} --when-ready"


def require(
    tx: Tx, namespace: str, source: str, edit: CompiledEdit, forces: Mapping[str, int]
) -> None:
    """Raises MergeNotReady with each dataset that the merge changes and that would be computed, or
    whose checks failed. `forces`: of the target, before it had those of the source. Write
    components are written afterwards, and do not count."""
    into, after = edit.branch, edit.proposed
    changed = ownership.decided(
        after, ownership.own(after, edit.before, tx.blueprints.forces(into), forces)
    )
    if not changed:
        return
    flows = sorted({dataset.partition(".")[0] for dataset in changed})
    plan, _ = plan_now(tx, into, flows, namespace=namespace, proposed=after)
    left = [
        decision
        for decision in plan.decisions
        if decision.dataset in changed and not _is_ready(decision)
    ]
    if left:
        raise MergeNotReady(source, into, list(_problems(after, left, HINT.format(source, into))))


def _is_ready(decision: Decision) -> bool:
    return decision.status == "up_to_date" or isinstance(decision.step, Commit)


def _problems(desired: Desired, left: list[Decision], hint: str) -> Iterator[Problem]:
    for decision in left:
        place = desired.nodes[decision.dataset].component.place
        reason = f": {decision.reason}" if decision.reason else ""
        words = f"{decision.dataset} {REASONS[decision.status]}{reason}"
        yield place.problem("merge-not-ready", words, hint)
