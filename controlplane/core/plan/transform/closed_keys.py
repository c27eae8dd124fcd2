"""The inputs of a transform with `emit: final`: their keys are those that the watermark has closed.

An input with a reach keeps all of its keys: a closed partition reads neighbours of its own granule,
too.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.model.states import CLOSED, KEYS
from controlplane.core.plan import event_time
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input


def watermark_us(case: Case) -> int | None:
    """Up to which time all inputs are complete; None where that of an input by key is not known."""
    if any(i.consumed.watermark_us is None for i in case.parted):
        return None
    marks = [i.consumed.watermark_us for i in case.inputs]
    return min((mark for mark in marks if mark is not None), default=None)


def with_closed_keys(case: Case) -> Case:
    """The case over the closed keys of its inputs, where only these are in the output."""
    if not case.node.body.is_final:
        return case
    reaches = [i.slot.reach for i in case.parted if i.slot.reach is not None]
    after_s = max((reach.after_s for reach in reaches), default=0)
    leading = {i.slot.name for i in case.leading}
    watermark = watermark_us(case)
    inputs = [
        _closed(case, i, watermark, after_s) if i.slot.name in leading else i for i in case.inputs
    ]
    return replace(case, inputs=tuple(inputs))


def _closed(case: Case, of: Input, watermark: int | None, after_s: int) -> Input:
    if of.index is None:
        return of
    keys, granule = of.index[of.slot.name + KEYS], case.node.key[0].granule
    closed = event_time.closed(case.nodes, keys, granule, watermark, after_s)
    return replace(of, index={**of.index, of.slot.name + CLOSED: closed})
