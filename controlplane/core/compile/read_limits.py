"""Problems of transforms that read more of an input than their `max_recompute` allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.core.blueprint import Component, Position, PythonTransform, SqlTransform
from controlplane.core.blueprint.model import RecomputeLimit, RereadExtent
from controlplane.core.blueprint.problems import did_you_mean, shown
from controlplane.core.compile.nodes import Slot
from controlplane.core.errors import Problem
from controlplane.core.sql.sql_problem import line_column
from dataplane.contract.jobs import Mode

_ALLOWED: Mapping[RereadExtent, tuple[Mode, ...]] = {
    "partition": ("each",),
    "key": ("each", "by"),
}
_EXTENT: Mapping[Mode, str] = {"by": "by key", "all": "whole"}
_BY_KEY = "read rows one by one, or allow it: `max_recompute: {NAME: key}`"
_WHOLE = "let the query read it in part, or remove it from `max_recompute:`"


def problems(
    component: Component, body: SqlTransform | PythonTransform, slots: Sequence[Slot]
) -> Iterator[Problem]:
    """Problems of limits that the inputs exceed. An input whose mode waits for types exceeds none yet."""
    by_name = {slot.name: slot for slot in slots}
    for limit in component.max_recompute:
        slot = by_name.get(limit.name)
        if slot is None:
            message = f"{component.name} has no input {limit.name!r}"
            hint = did_you_mean(limit.name, by_name) or "remove it"
            yield limit.place.problem("unused-input", message, hint)
        elif slot.mode not in _ALLOWED[limit.most] and not slot.awaits_types:
            yield _reads_more(component, body, slot, limit)


def _reads_more(
    component: Component, body: SqlTransform | PythonTransform, slot: Slot, limit: RecomputeLimit
) -> Problem:
    reason = slot.reason.removeprefix("`all`: ")
    words = _words(body, slot)
    quoted = f": {words}" if words else ""
    message = (
        f"{component.name} reads {slot.name} {_EXTENT[slot.mode]}, and max_recompute allows "
        f"one {limit.most} of it; {reason}{quoted}"
    )
    usual = _BY_KEY.replace("NAME", slot.name) if slot.mode == "by" else _WHOLE
    return _place(body, slot, limit).problem("reads-more", message, slot.cure or usual)


def _words(body: SqlTransform | PythonTransform, slot: Slot) -> str:
    """The line of the query that the reason is about, from its words on."""
    if not isinstance(body, SqlTransform) or slot.at is None:
        return ""
    line = body.sql[slot.at :].partition("\n")[0]
    return shown(line.strip())


def _place(body: SqlTransform | PythonTransform, slot: Slot, limit: RecomputeLimit) -> Position:
    """The declared mode, else the words of the query, else the limit."""
    declared = [hint.place for hint in body.inputs if hint.name == slot.name and hint.mode]
    if declared:
        return declared[0]
    if isinstance(body, SqlTransform) and body.is_written and slot.at is not None:
        return body.text.at(*line_column(body.sql, slot.at))
    return limit.place
