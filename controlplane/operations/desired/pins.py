"""Pins that a blueprint may declare: only to logic that its component has had in this branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.core.blueprint import parse
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import InvalidBlueprint, Problem
from controlplane.core.model.revisions import Revision
from controlplane.ports.store import Tx

STATES = 10_000  # that are looked through, newest first


def check(
    tx: Tx, live: Mapping[str, Revision], revisions: Sequence[Revision], proposed: Desired
) -> None:
    """Raises InvalidBlueprint if a new revision pins a component to logic that no kept state of it
    has."""
    new = [r for r in revisions if live.get(r.dataflow) is not r]
    problems = [p for r in new for p in _problems(tx, live.get(r.dataflow), r, proposed)]
    if problems:
        raise InvalidBlueprint(tuple(sorted(problems)))


def _problems(
    tx: Tx, before: Revision | None, revision: Revision, proposed: Desired
) -> Iterator[Problem]:
    pinned = [n for n in proposed.nodes.values() if n.is_transform and n.own and not n.output]
    own = [n for n in pinned if n.dataset.partition(".")[0] == revision.dataflow]
    earlier_pins = _pins(before) if own else {}
    for node in own:
        had = (s.logic for s in tx.states.history(revision.branch, node.dataset, STATES))
        if earlier_pins.get(node.component.name) != node.component.pin and node.logic not in had:
            place, pin = node.component.place, node.component.pin
            message = f"{node.component.name} has never had the logic {pin[:12]}..."
            hint = "`headgate why` tells the logic that it has"
            yield place.problem("unknown-pin", message, hint)


def _pins(revision: Revision | None) -> dict[str, str]:
    """Those that hold already, by component."""
    if revision is None:
        return {}
    blueprint = parse(revision.text, file=revision.file, files=revision.files)
    return {c.name: c.pin for c in blueprint.components}
