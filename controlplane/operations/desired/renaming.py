"""What goes with a component to its new name: how often it was forced, its inferred schema, and its
pause."""

from __future__ import annotations

from controlplane.core.model.revisions import Revision
from controlplane.ports.store import Tx


def carry(tx: Tx, before: Revision | None, after: Revision) -> None:
    """From the revision before to the next one."""
    olds = {uid: name for name, uid in before.uids.items()} if before else {}
    names = {name: olds[uid] for name, uid in after.uids.items() if olds.get(uid, name) != name}
    if not names:
        return
    moved = {f"{after.dataflow}.{old}": f"{after.dataflow}.{new}" for new, old in names.items()}
    forces = tx.blueprints.forces(after.branch)
    tx.blueprints.bring_forces(
        after.branch, {new: forces[old] for old, new in moved.items() if old in forces}
    )
    for old, pin in tx.states.pinned_schemas(after.branch, list(moved)).items():
        tx.states.pin_schema(after.branch, moved[old], pin)
    for old in sorted(tx.blueprints.paused(after.branch) & moved.keys()):
        tx.blueprints.set_paused(after.branch, moved[old], True)
        tx.blueprints.set_paused(after.branch, old, False)
