"""The inputs of a transform with `emit: final`: their keys are those that the watermark has closed.

An input with a reach keeps all of its keys: a closed partition reads neighbours of its own granule,
too.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.model.states import CLOSED, KEYS
from controlplane.core.plan import event_watermarks
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input


def with_closed_keys(case: Case) -> Case:
    """The case over the closed keys of its inputs, where only these are in the output."""
    if not case.node.body.is_final:
        return case
    reaches = [i.slot.reach for i in case.parted if i.slot.reach is not None]
    after_s = max((reach.after_s for reach in reaches), default=0)
    leading = {i.slot.name for i in case.leading}
    watermark = case.watermark_us
    inputs = [
        _closed(case, i, watermark, after_s) if i.slot.name in leading else i for i in case.inputs
    ]
    return replace(case, inputs=tuple(inputs))


def _closed(case: Case, of: Input, watermark: int | None, after_s: int) -> Input:
    if of.index is None:
        return of
    keys, granule = of.index[of.slot.name + KEYS], case.node.key[0].granule
    closed = event_watermarks.closed(case.nodes, keys, granule, watermark, after_s)
    return replace(of, index={**of.index, of.slot.name + CLOSED: closed})
