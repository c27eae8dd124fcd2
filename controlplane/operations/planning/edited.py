"""The effects of storing an edit: the holds that it ends, and the records that move with a renamed
component."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.blueprint import QUARANTINE
from controlplane.core.compile import ownership
from controlplane.core.compile.nodes import Desired
from controlplane.core.model.holds import Hold


def holding_still(holds: Mapping[str, Hold], before: Desired, after: Desired) -> dict[str, Hold]:
    """The holds that the edit does not end."""
    names = (d for d in holds if not ownership.ends_hold(before.nodes.get(d), after.nodes.get(d)))
    return {dataset: holds[dataset] for dataset in names}


def renamed(before: Desired, after: Desired) -> dict[str, str]:
    """New names of datasets by their old ones."""
    olds = {
        node.uid: dataset
        for dataset, node in before.nodes.items()
        if not dataset.endswith(QUARANTINE)
    }
    news = {
        node.uid: dataset
        for dataset, node in after.nodes.items()
        if not dataset.endswith(QUARANTINE)
    }
    return {olds[uid]: name for uid, name in news.items() if olds.get(uid, name) != name}


def renamed_forces(forces: Mapping[str, int], names: Mapping[str, str]) -> dict[str, int]:
    """Where both names were forced, the later one counts."""
    moved = {
        new: max(forces[old], forces.get(new, 0)) for old, new in names.items() if old in forces
    }
    return {**forces, **moved}


def renamed_pauses(paused: frozenset[str], names: Mapping[str, str]) -> frozenset[str]:
    moved = paused & names.keys()
    return paused - moved | {names[old] for old in moved}
