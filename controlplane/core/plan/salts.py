"""What makes results one component's own: the period that they belong to, when they were last forced, and whether other
code than their logic gave them under a pin.

A salt goes into task keys and build keys, so that such results are frozen, and shared with nobody. It also stands in
the cut of the state that was made with it, and of all that is made of that: so a change of it is noticed, and what
reflects two of them is never mixed. Does not belong here: which code is volatile (sql, code).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from controlplane.core import zones
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Desired, Node, Source, Transform
from controlplane.core.model.states import Cause, PartialState, State, UnfinishedRun
from controlplane.core.plan.values import Planning
from dataplane.contract.encoding import digest

_NAME = "/salt"  # behind a dataset's name: no dataset has a slash


@dataclass(frozen=True, slots=True)
class Salt:
    """`force` grows; `is_pinned`: the code that runs is not that of the logic."""

    period: str = ""
    force: int = 0
    is_pinned: bool = False

    @property
    def told(self) -> bytes:
        """As a cut holds it; empty if there is nothing to tell."""
        if self == Salt():
            return b""
        return f"{self.period} {self.force}{' pinned' * self.is_pinned}".encode()


def _read(told: bytes) -> Salt:
    if not told:
        return Salt()
    period, force, *pinned = told.decode().split(" ")
    return Salt(period, int(force), bool(pinned))


def _salt(planning: Planning, node: Source | Transform) -> Salt:
    forced = planning.world.forced(node.maker)
    if isinstance(node, Source):
        return Salt("", forced)
    return Salt(
        zones.period(node.component.volatile, planning.now, str(node.spark["timezone"])), forced, bool(node.own)
    )


SaltOf: TypeAlias = Callable[[str], bytes | None]


def of(planning: Planning, node: Source | Transform) -> SaltOf:
    """The salts of its tasks, by partition."""
    salt, is_volatile = _salt(planning, node), isinstance(node, Transform) and node.is_volatile
    if not (is_volatile or salt.told):
        return lambda _: None
    return lambda key: ids.salt(node.uid, key, salt.period, salt.force, is_pinned=salt.is_pinned)


def whole(planning: Planning, node: Source | Transform) -> bytes | None:
    """The salt of a whole output. None also for what is frozen for good: its logic is its own."""
    told = _salt(planning, node).told
    return digest("whole-salt/1", uid=node.uid, salt=told) if told else None


# --- states ---------------------------------------------------------------------------------------


def cut(planning: Planning, node: Source | Transform) -> dict[str, bytes]:
    """What the cut of a state that is made now says of it."""
    told = _salt(planning, node).told
    return {node.maker + _NAME: told} if told else {}


def is_of(planning: Planning, node: Source | Transform, used: State | PartialState | UnfinishedRun) -> bool:
    """What was made is of the present salt; or of the code that the present one is pinned to."""
    now, then = _salt(planning, node), _of_state(node, used)
    return then == now or (now.is_pinned and then == replace(now, is_pinned=False))


def _of_state(node: Source | Transform, used: State | PartialState | UnfinishedRun) -> Salt:
    return _read(used.cut.get(node.maker + _NAME, b""))


def agree(planning: Planning, inputs: Sequence[tuple[str, State | PartialState]]) -> bool:
    """No two of these inputs were made of results of one component with different salts."""
    if len(inputs) < 2:
        return True
    names = {name for _, used in inputs for name in used.cut if name.endswith(_NAME)}
    return all(len(_found(planning, inputs, name)) == 1 for name in names)


def _found(planning: Planning, inputs: Sequence[tuple[str, State | PartialState]], name: str) -> set[bytes]:
    """What they say of one component, as far as they are made of it."""
    maker, upstream = name.removesuffix(_NAME), planning.desired.graph.upstream
    return {used.cut.get(name, b"") for d, used in inputs if name in used.cut or maker == d or maker in upstream([d])}


# --- words ----------------------------------------------------------------------------------------


def cause(planning: Planning, node: Source | Transform, state: State) -> Cause | None:
    """Why what there is has to be made anew; None if its salt is no reason."""
    now, then = _salt(planning, node), _of_state(node, state)
    if is_of(planning, node, state):
        return None
    if now.force != then.force:
        return "forced"
    return "period" if now.period != then.period else "logic"


def in_words(planning: Planning, node: Source | Transform, state: State | None) -> str:
    found = cause(planning, node, state) if state is not None else None
    if state is None or found not in ("period", "forced"):
        return ""
    if found == "forced":
        return "forced by an operator"
    now, then = _salt(planning, node).period, _of_state(node, state).period
    if not now or not then or ("T" in now) != ("T" in then):
        return "volatile: its period was declared anew"
    return f"volatile: the {'hour' if 'T' in now else 'day'} turned"


# --- turning --------------------------------------------------------------------------------------


Kind: TypeAlias = tuple[str, str]  # how often results are made anew, and in which time zone


def kinds(desired: Desired) -> frozenset[Kind]:
    return frozenset(kind for node in desired.nodes.values() if (kind := _kind(node)))


def periods(kinds: frozenset[Kind], now: float) -> Mapping[Kind, str]:
    """The present ones."""
    return {(often, zone): zones.period(often, now, zone) for often, zone in kinds}


def _kind(node: Node) -> Kind | None:
    if not isinstance(node, Transform) or node.component.volatile in ("", "true"):
        return None
    return node.component.volatile, str(node.spark["timezone"])


def period_changed(desired: Desired, before: Mapping[Kind, str], now: Mapping[Kind, str]) -> set[str]:
    """Datasets whose period is another one than before."""
    moved = {kind for kind, period in now.items() if before.get(kind) != period}
    return {dataset for dataset, node in desired.nodes.items() if _kind(node) in moved} if moved else set()
