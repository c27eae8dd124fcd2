"""Which partitions of a transform's output are to be checked: those that may have changed, on top
of the ones that are right already.

no input is read by partition      -> the whole output (_single)
  |
a partial root of the same code    -> its holes, and what changed since (carried, then _holes)
  |
a state of the same code           -> the keys in which inputs changed since (_changed)
  |
other code, or no state            -> all keys of the inputs
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from controlplane.core import tree
from controlplane.core.model.states import PartialState, State
from controlplane.core.plan import lookups, salts, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.transform.late_slices import added_from
from controlplane.core.plan.work_keys import Keys, lacking, listed, union

REACHED_AT_ONCE = 10_000  # partitions that changes may reach and that are looked up together


@dataclass(frozen=True, slots=True)
class Extent:
    """The partitions to check on top of `base`, which holds those that are right already."""

    base: bytes
    count: int
    keys: Iterable[str]
    keys_summary: Keys  # the same, as a value
    removed: tuple[str, ...] = ()


def extent_of(case: Case) -> Deciding[Extent]:
    """Partitions to look at, and those that vanish."""
    if not case.parted:
        return _single(case)
    if case.node.late is not None and not (yield from _only_added(case)):
        return (yield from _holes(case, tree.EMPTY_ROOT))
    building = _continued(case)
    if building is not None:
        carried_over = yield from carried(case, building)
        return (yield from _holes(case, carried_over))
    state = case.state
    if state is not None and case.is_whole and is_same_code(case, state):
        return (yield from _changed(case, state))
    return (yield from _holes(case, tree.EMPTY_ROOT))


def _only_added(case: Case) -> Deciding[bool]:
    """Whether slices of a topic were added behind all others. Else another row may be late in each
    of them."""
    used = _continued(case) or case.state
    if used is None or not is_same_code(case, used):
        return True
    return (yield from added_from(case, used)) is not None


def _continued(case: Case) -> PartialState | None:
    """The partial root, if it goes on to be right for what the inputs have not changed."""
    building = case.imported or case.planning.building(case.node.dataset)
    if building is None or building.lineage != case.node.lineage:
        return None
    if not is_same_code(case, building):
        return None
    return building


def _single(case: Case) -> Extent:
    """One task for the whole output."""
    # Its code is pinned, and nothing else has changed.
    if case.node.own and case.state is not None and is_same_code(case, case.state):
        return Extent(case.root, 0, (), Keys())
    # One task gives all partitions: what it does not give is gone.
    if case.node.key:
        return Extent(tree.EMPTY_ROOT, 1, ("",), listed(("",)))
    before = [entry.key for entry in tree.scan(case.nodes, case.root)]
    return Extent(case.root, 1, ("",), listed(("",)), tuple(key for key in before if key))


def is_same_code(case: Case, used: State | PartialState) -> bool:
    """The same logic over the same read schemas and the same contents of `all` inputs: only changed
    keys count."""
    if isinstance(used, State) and used.logic != case.node.logic:
        return False
    if not salts.is_of(case.planning, case.node, used):
        return False
    return all(_is_same_input(case, i, used) for i in case.inputs)


def _is_same_input(case: Case, i: Input, used: State | PartialState) -> bool:
    before = used.inputs.get(i.slot.name)
    if before is None or i.tree_name not in used.inputs:
        return False
    if before.schema != i.consumed.schema:
        return False
    if i.is_parted:
        return True
    return tree.totals(case.nodes, before.root).content == i.content(case.planning)


def differences(case: Case, used: State | PartialState) -> Deciding[list[tree.EntryChange]]:
    """The differences of the inputs that are read by partition from those that were used: each is
    about a partition of the output."""
    return (yield from _differences(case.leading, used))


def _reached(case: Case, used: State | PartialState) -> Deciding[set[str]]:
    """The partitions of the output that read neighbouring granules which differ. Few of those that
    a change reaches may exist, so not all are listed at once."""
    reached: set[str] = set()
    for i in case.parted:
        if i.slot.reach is None:
            continue
        changes = yield from _differences([i], used)
        keys: set[str] = set()
        for change in changes:
            keys.update(case.node.keys_reached(i.slot, change.key))
            if len(keys) >= REACHED_AT_ONCE:
                reached |= yield from _present(case, sorted(keys))
                keys.clear()
        reached |= yield from _present(case, sorted(keys))
    return reached


def _present(case: Case, keys: Sequence[str]) -> Deciding[set[str]]:
    """Those of the keys that the inputs have which make partitions."""
    yield from lookups.nodes([(i.root, keys) for i in case.leading])
    present: set[str] = set()
    for i in case.leading:
        present |= tree.lookup(case.nodes, i.root, keys).keys()
    return present


def _differences(
    inputs: Iterable[Input], used: State | PartialState
) -> Deciding[list[tree.EntryChange]]:
    pairs = [(used.inputs[i.tree_name].root, i.root) for i in inputs]
    changes = yield from lookups.diffs(pairs)
    return list(chain.from_iterable(changes))


def _changed(case: Case, state: State) -> Deciding[Extent]:
    """The keys in which the inputs differ from those that the state was built from."""
    changes = yield from differences(case, state)
    reached = yield from _reached(case, state)
    changed = {change.key for change in changes}
    keys = sorted(changed | reached)
    present = yield from _present(case, keys)
    present_keys = [key for key in keys if key in present]
    removed = tuple(key for key in keys if key in changed - present)
    base = state.root
    # Many are computed in windows: then the base is a partial root, whose holes they are.
    if len(present_keys) > case.planning.exact:
        base = _without(case.nodes, base, keys)
    return Extent(base, len(present_keys), present_keys, listed(present_keys), removed)


def carried(case: Case, used: State | PartialState) -> Deciding[bytes]:
    """What a root, mostly a partial root, has that these inputs have not changed."""
    changes = yield from differences(case, used)
    # With several inputs, a key that is new to one of them may be there because of another one.
    several = len(case.parted) > 1
    changed = {change.key for change in changes if several or change.before is not None}
    reached = yield from _reached(case, used)
    changed_keys = sorted(changed | reached)
    yield from lookups.nodes([(used.root, changed_keys)])
    return _without(case.nodes, used.root, changed_keys)


def _without(nodes: tree.NodeStore, root: bytes, keys: Iterable[str]) -> bytes:
    return tree.edit(nodes, root, [(key, None) for key in keys])


def _holes(case: Case, base: bytes) -> Deciding[Extent]:
    """All keys of the inputs that `base` lacks."""
    roots = [i.root for i in case.leading]
    summary = union(lacking(case.nodes, root, base) for root in roots)
    keys = yield from windows.hole_keys(case.planning, roots, base, summary.count)
    if isinstance(keys, list):
        summary = listed(keys)
    removed = yield from vanishing(case, roots)
    return Extent(base, summary.count, keys, summary, removed)


def vanishing(case: Case, roots: Sequence[bytes]) -> Deciding[tuple[str, ...]]:
    """Partitions of the present output that are in no input any longer."""
    # A partial input may not have them yet.
    if case.state is None or not case.is_whole:
        return ()
    missing = yield from lookups.missing_keys([(root, case.root) for root in roots])
    in_none = set(missing[0]).intersection(*missing)
    return tuple(key for key in missing[0] if key in in_none)


def still_right(case: Case) -> Deciding[bytes]:
    """The outputs so far that hold for the known parts of the inputs."""
    used: State | PartialState | None = _continued(case)
    if used is None and case.state is not None and is_same_code(case, case.state):
        used = case.state
    if used is None:
        return tree.EMPTY_ROOT
    return (yield from carried(case, used))
