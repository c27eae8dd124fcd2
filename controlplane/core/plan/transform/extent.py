"""What of a transform's output is to be looked at: the partitions that may be others, on top of what is right already.

Does not belong here: the tasks that they take (tasks), and what follows from their answers (transform).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.core import tree
from controlplane.core.model.states import PartialState, State
from controlplane.core.plan import lookups, salts, windows
from controlplane.core.plan.keys import Keys, lacking, listed, union
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.inputs import Input


@dataclass(frozen=True, slots=True)
class Extent:
    """What is to be looked at: partitions on top of `base`, which holds what is right already."""

    base: bytes
    count: int
    keys: Iterable[str]
    keys_summary: Keys  # the same, as a value
    removed: tuple[str, ...] = ()


def extent_of(case: Case) -> Deciding[Extent]:
    """Partitions to look at, and those that vanish."""
    building = case.planning.building(case.node.dataset)
    if not case.parted:
        if case.node.own and case.state is not None and is_same_code(case, case.state):
            return Extent(case.root, 0, (), Keys())  # pinned, and nothing else has changed
        return _single(case)
    if building is not None and building.lineage == case.node.lineage and is_same_code(case, building):
        return (yield from _holes(case, (yield from carried(case, building))))
    if case.state is not None and case.is_whole and is_same_code(case, case.state):
        return (yield from _changed(case, case.state))
    return (yield from _holes(case, tree.EMPTY_ROOT))


def _single(case: Case) -> Extent:
    if case.node.key:  # one task gives all partitions: what it does not give is gone
        return Extent(tree.EMPTY_ROOT, 1, ("",), listed(("",)))
    before = (e.key for e in tree.scan(case.planning.world.nodes, case.root))
    return Extent(case.root, 1, ("",), listed(("",)), tuple(k for k in before if k))


def is_same_code(case: Case, used: State | PartialState) -> bool:
    """The same logic over the same read schemas and the same contents of `all` inputs: only changed keys count."""
    nodes = case.planning.world.nodes

    def same(i: Input) -> bool:
        one = used.inputs.get(i.slot.name)
        if one is None or one.schema != i.consumed.schema or i.tree_name not in used.inputs:
            return False
        return i.is_parted or tree.totals(nodes, one.root).content == i.content(case.planning)

    same_logic = used.logic == case.node.logic if isinstance(used, State) else True
    return same_logic and salts.is_of(case.planning, case.node, used) and all(map(same, case.inputs))


def differences(case: Case, used: State | PartialState) -> Deciding[list[tree.EntryChange]]:
    found = yield from lookups.changes([(used.inputs[i.tree_name].root, i.root) for i in case.parted])
    return [change for changes in found for change in changes]


def _changed(case: Case, state: State) -> Deciding[Extent]:
    """The keys in which the inputs differ from those that the state was built from."""
    keys = sorted({c.key for c in (yield from differences(case, state))})
    yield from lookups.nodes([(i.root, keys) for i in case.parted])
    nodes = case.planning.world.nodes
    there = set().union(*(tree.lookup(nodes, i.root, keys) for i in case.parted))
    wanted, removed = [k for k in keys if k in there], tuple(k for k in keys if k not in there)
    base = state.root
    if len(wanted) > case.planning.exact:
        base = tree.edit(nodes, base, [(key, None) for key in keys])
    return Extent(base, len(wanted), wanted, listed(wanted), removed)


def carried(case: Case, used: State | PartialState) -> Deciding[bytes]:
    """What a root, mostly a half-built one, has that these inputs have not changed."""
    several = len(case.parted) > 1  # then a key that is new to one input may be there because of another
    changes = yield from differences(case, used)
    gone = sorted({c.key for c in changes if several or c.before is not None})
    yield from lookups.nodes([(used.root, gone)])
    return tree.edit(case.planning.world.nodes, used.root, [(key, None) for key in gone])


def _holes(case: Case, base: bytes) -> Deciding[Extent]:
    """All keys of the inputs that `base` lacks."""
    nodes = case.planning.world.nodes
    roots = [i.root for i in case.parted]
    keys_summary = union(lacking(nodes, root, base) for root in roots)
    keys = yield from windows.hole_keys(case.planning, roots, base, keys_summary.count)
    if isinstance(keys, list):
        keys_summary = listed(keys)
    return Extent(base, keys_summary.count, keys, keys_summary, (yield from vanishing(case, roots)))


def vanishing(case: Case, roots: Sequence[bytes]) -> Deciding[tuple[str, ...]]:
    """Partitions of the present output that no input has any more."""
    if case.state is None or not case.is_whole:
        return ()
    first, *others = yield from lookups.holes([(root, case.root) for root in roots])
    return tuple(key for key in first if all(key in other for other in map(set, others)))


def still_right(case: Case) -> Deciding[bytes]:
    """The outputs so far that hold for what is known of the inputs."""
    building = case.planning.building(case.node.dataset)
    if building is not None and building.lineage == case.node.lineage and is_same_code(case, building):
        return (yield from carried(case, building))
    if case.state is not None and is_same_code(case, case.state):
        return (yield from carried(case, case.state))
    return tree.EMPTY_ROOT
