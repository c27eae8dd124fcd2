"""What makes results one component's own: its period, when it was last forced, and code that runs
under a pin.

A salt goes into task keys and build keys, so that such results are frozen, and shared with no other
component. It also stands in the cut of the state that was made with it, and of all that is made of
that state: so a change of the salt is noticed, and results of two different salts are never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from controlplane.core import zone_periods
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Desired, Node, Source, Transform
from controlplane.core.model.states import Cause, PartialState, State, UnfinishedRun
from controlplane.core.plan.plan_values import Planning
from dataplane.contract.encoding import digest

_NAME = "/salt"  # behind a dataset's name: no dataset has a slash


@dataclass(frozen=True, slots=True)
class Salt:
    """`force` grows, also where only a range of partitions is forced. `is_pinned`: the code that
    runs is not that of the logic."""

    period: str = ""
    force: int = 0
    is_pinned: bool = False

    @property
    def encoded(self) -> bytes:
        """As a cut holds it; empty for the default salt."""
        if self == Salt():
            return b""
        return f"{self.period} {self.force}{' pinned' * self.is_pinned}".encode()


def _decoded(encoded: bytes) -> Salt:
    if not encoded:
        return Salt()
    period, force, *pinned = encoded.decode().split(" ")
    return Salt(period, int(force), bool(pinned))


def _salt(planning: Planning, node: Source | Transform) -> Salt:
    forced = planning.world.forced(node.maker)
    if node.is_source:
        return Salt("", forced)
    timezone = str(node.spark["timezone"])
    period = zone_periods.period(node.component.volatile, planning.now, timezone)
    return Salt(period, forced, bool(node.own))


SaltOf: TypeAlias = Callable[[str], bytes | None]


def of(planning: Planning, node: Source | Transform) -> SaltOf:
    """The salts of its tasks, by partition."""
    salt = _salt(planning, node)
    if not node.is_volatile and not salt.encoded:
        return lambda _: None

    def salt_of(partition: str) -> bytes | None:
        own = replace(salt, force=planning.world.forced_at(node.maker, partition))
        if not node.is_volatile and not own.encoded:
            return None
        return ids.salt(node.uid, partition, own.period, own.force, is_pinned=own.is_pinned)

    return salt_of


def of_output(planning: Planning, node: Source | Transform) -> bytes | None:
    """The salt of a whole output. None also for a dataset that is frozen for good: its logic is its
    own."""
    salt = _salt(planning, node).encoded
    if not salt:
        return None
    return digest("whole-salt/1", uid=node.uid, salt=salt)


# --- states ---------------------------------------------------------------------------------------


def cut(planning: Planning, node: Source | Transform) -> dict[str, bytes]:
    """What the cut of a state that is made now says of it."""
    salt = _salt(planning, node).encoded
    if not salt:
        return {}
    return {node.maker + _NAME: salt}


def is_of(
    planning: Planning, node: Source | Transform, used: State | PartialState | UnfinishedRun
) -> bool:
    """Whether a result has the present salt, or that of the code to which the present one is
    pinned."""
    now, then = _salt(planning, node), _of_state(node, used)
    if then == now:
        return True
    return now.is_pinned and then == replace(now, is_pinned=False)


def _of_state(node: Source | Transform, used: State | PartialState | UnfinishedRun) -> Salt:
    return _decoded(used.cut.get(node.maker + _NAME, b""))


def agree(planning: Planning, inputs: Sequence[tuple[str, State | PartialState]]) -> bool:
    """No two of these inputs were made of results of one component with different salts."""
    if len(inputs) < 2:
        return True
    names = {name for _, used in inputs for name in used.cut if name.endswith(_NAME)}
    return all(len(_input_salts(planning, inputs, name)) == 1 for name in names)


def _input_salts(
    planning: Planning, inputs: Sequence[tuple[str, State | PartialState]], name: str
) -> set[bytes]:
    """The salts of one component that these inputs were made with, as far as they are made of its
    results."""
    maker = name.removesuffix(_NAME)
    salts: set[bytes] = set()
    for dataset, used in inputs:
        # One that is made of its results, and says nothing, was made with no salt.
        if (
            name in used.cut
            or maker == dataset
            or maker in planning.desired.graph.upstream([dataset])
        ):
            salts.add(used.cut.get(name, b""))
    return salts


# --- words ----------------------------------------------------------------------------------------


def cause(planning: Planning, node: Source | Transform, state: State) -> Cause | None:
    """Why the present output has to be computed again; None if its salt is no reason."""
    if is_of(planning, node, state):
        return None
    now, then = _salt(planning, node), _of_state(node, state)
    if now.force != then.force:
        return "forced"
    if now.period != then.period:
        return "period"
    return "logic"


def between(node: Source | Transform, older: State, newer: State) -> Cause | None:
    """Why a state was made after another one; None if its salt was no reason."""
    now, then = _of_state(node, newer), _of_state(node, older)
    if now.force != then.force:
        return "forced"
    if now.period != then.period:
        return "period"
    return None


def in_words(planning: Planning, node: Source | Transform, state: State | None) -> str:
    """The same for people; empty where the cause says it all."""
    if state is None:
        return ""
    reason = cause(planning, node, state)
    if reason == "forced":
        return "forced by an operator"
    if reason != "period":
        return ""
    now, then = _salt(planning, node).period, _of_state(node, state).period
    # A day has no time; an hour has one.
    is_same_kind = now and then and ("T" in now) == ("T" in then)
    if not is_same_kind:
        return "volatile: its period was declared anew"
    return f"volatile: the {'hour' if 'T' in now else 'day'} turned"


# --- turning --------------------------------------------------------------------------------------


# How often results are computed again, and in which time zone
PeriodKind: TypeAlias = tuple[str, str]


def kinds(desired: Desired) -> frozenset[PeriodKind]:
    return frozenset(kind for node in desired.nodes.values() if (kind := _kind(node)))


def periods(kinds: frozenset[PeriodKind], now: float) -> Mapping[PeriodKind, str]:
    """The present ones."""
    return {(often, zone): zone_periods.period(often, now, zone) for often, zone in kinds}


def _kind(node: Node) -> PeriodKind | None:
    if not node.is_transform or node.component.volatile in ("", "true"):
        return None
    return node.component.volatile, str(node.spark["timezone"])


def period_changed(
    desired: Desired, before: Mapping[PeriodKind, str], now: Mapping[PeriodKind, str]
) -> set[str]:
    """Datasets whose period is another one than before."""
    moved = {kind for kind, period in now.items() if before.get(kind) != period}
    if not moved:
        return set()
    return {dataset for dataset, node in desired.nodes.items() if _kind(node) in moved}
