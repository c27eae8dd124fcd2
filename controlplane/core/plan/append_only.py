"""Deciding about datasets with `append_only`: a generation only adds partitions, and
columns at the end, to the one before.

Branches make no such promise. So an edit can be tried there.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.model.branches import MAIN
from controlplane.core.plan import lookups
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Commit, Decision, Keep, Planning, user_error

CODE = "append-only"
NAMED = 3  # partitions that a message names


def gate_on_append_only(
    planning: Planning, node: Source | Transform, decision: Decision
) -> Deciding[Decision]:
    """The decision, or a failed one where its commit would change or remove partitions."""
    state = planning.state(node.dataset)
    # Rows that are taken out of a dataset are no part of the promise
    is_promised = node.component.append_only and not node.output
    if not is_promised or planning.branch != MAIN:
        return decision
    if state is None or not isinstance(decision.step, Commit):
        return decision
    after = decision.step.state
    [changes] = yield from lookups.diffs([(state.root, after.root)])
    rewritten = [
        change.key for change in changes if change.before is not None and change.before.content.rows
    ]
    columns = state.schema["fields"]
    if rewritten:
        changed = _names(rewritten)
    elif columns and after.schema["fields"][: len(columns)] != columns:
        changed = "its columns"
    else:
        return decision
    sentence = (
        f"{node.dataset} is append_only, and a new generation would change or remove {changed}. Its "
        "table stays as it is: remove append_only, or bring the earlier input or code back"
    )
    error = user_error(CODE, sentence)
    return replace(decision, status="failed", step=Keep(), items=(), error=error)


def _names(keys: list[str]) -> str:
    names = ", ".join(key or "the only partition" for key in keys[:NAMED])
    rest = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return names + rest
