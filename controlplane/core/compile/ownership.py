"""Which datasets a branch owns: those edited there, and those that read such a dataset. Pure.

All others are main's: they have the same rows, by the same work, under the same checks.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping

from controlplane.core.compile.nodes import Desired, Node, Source, Transform


def own(
    desired: Desired,
    main: Desired,
    forces: Mapping[str, int],
    of_main: Mapping[str, int],
    held: Container[str] = (),
) -> frozenset[str]:
    """Datasets and write components of a branch that are not main's. `forces`: how often each was
    forced, in both. `held`: datasets that were rolled back in the branch itself."""
    owned: set[str] = set()
    for dataset in desired.order:  # inputs first
        is_forced = forces.get(dataset) != of_main.get(dataset)
        if (
            is_forced
            or dataset in held
            or _differs(desired.nodes[dataset], main.nodes.get(dataset), owned)
        ):
            owned.add(dataset)
    return frozenset(owned)


def decided(desired: Desired, owned: Collection[str], off: Container[str] = ()) -> frozenset[str]:
    """The branch's own datasets that are decided about there: write components are off, unless they
    were redirected. `off`: those that are off nevertheless."""
    return frozenset(d for d in owned if d not in off and not is_off(desired.nodes[d]))


def is_off(node: Node) -> bool:
    """Whether it is a write component that would write where main does."""
    return node.is_copy and not node.branch


def is_edited(node: Source | Transform, before: Source | Transform) -> bool:
    """Its own component says something else about its rows; not one upstream."""
    return (node.uid, node.logic) != (before.uid, before.logic) or _gate(node) != _gate(before)


def ends_hold(before: Node | None, after: Node | None) -> bool:
    """Whether an edit ends the hold of a dataset: it is edited itself, or gone. False where it did
    not compile: then the effect of the edit is unknown."""
    if before is None or before.is_copy:
        return False
    if after is None or after.is_copy:
        return True
    return is_edited(after, before)


def _differs(node: Node, in_main: Node | None, owned: Collection[str]) -> bool:
    if node.is_copy or in_main is None or in_main.is_copy:
        return True
    if (node.uid, node.lineage) != (in_main.uid, in_main.lineage):
        return True
    if _gate(node) != _gate(in_main):
        return True
    return any(slot.dataset in owned for slot in node.slots)


def _gate(node: Source | Transform) -> tuple[object, ...]:
    """What decides, besides the logic, whether rows become a generation."""
    checks = tuple((check.id, check.of.on_fail, check.of.threshold) for check in node.checks)
    return checks, node.component.paused, node.component.pin, node.component.volatile
