"""Transforms with `emit: final`: what they need so that a watermark can close their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.blueprint.text_places import Position
from controlplane.core.compile.nodes import Node, Slot
from controlplane.core.errors import Problem
from dataplane.contract.zones import UTC_NAMES

_Fault = tuple[str, str, str]  # a code, a message and a hint
_GRANULE = "partition_by: [{minute: hour}], a granule of the time first"
_DECLARE = "event_time: {column: at, delay: 10m} on the read component of its stream"


@dataclass(frozen=True, slots=True)
class FinalRules:
    """`nodes`: the inputs, and what they read, as far as they were compiled."""

    body: SqlTransform | PythonTransform
    slots: Sequence[Slot]
    nodes: Mapping[str, Node]
    timezone: str
    place: Position

    def problems(self) -> Iterator[Problem]:
        fault = self._fault() if self.body.is_final else None
        if fault is not None:
            yield self.place.problem(*fault)

    def _fault(self) -> _Fault | None:
        key = self.body.partition_by
        if self.body.previous is not None or not key or not key[0].granule:
            message = "emit: final publishes closed partitions, and these have no time that ends"
            return "conflicting-keys", message, _GRANULE
        if self.timezone not in UTC_NAMES:
            message = f"emit: final needs the time zone UTC, this dataflow has {self.timezone}"
            return "not-supported", message, "cast times to UTC before, and write timezone: UTC"
        leading = [slot for slot in self.slots if slot.mode == "by" or slot.awaits_types]
        if not leading:
            reasons = "; ".join(f"{slot.name}: {slot.reason}" for slot in self.slots)
            message = f"emit: final needs an input that is read by the key ({reasons})"
            return "conflicting-keys", message, "group by the window or the column of the key"
        return next(filter(None, map(self._fault_of, leading)), None)

    def _fault_of(self, slot: Slot) -> _Fault | None:
        if slot.dataset not in self.nodes:
            return None
        columns = self._event_columns(slot.dataset)
        if not columns:
            message = f"emit: final needs a watermark, and {slot.name} has no event time"
            return "conflicting-keys", message, _DECLARE
        node = self.nodes[slot.dataset]
        names = {column.lower() for column in columns}
        if node.is_source and slot.columns and slot.columns[0].lower() not in names:
            message = (
                f"the key is of {slot.columns[0]}, and the watermark of {slot.name} follows"
                f" {' and '.join(sorted(columns))}"
            )
            return "conflicting-keys", message, "partition by a granule of the event time"
        return None

    def _event_columns(self, dataset: str) -> set[str]:
        """The columns of event times among all that a dataset is made of."""
        columns: set[str] = set()
        for name in _upstream(self.nodes, dataset):
            node = self.nodes[name]
            if node.is_source and node.read.event_time is not None:
                columns.add(node.read.event_time.column)
        return columns


def _upstream(nodes: Mapping[str, Node], dataset: str) -> Iterable[str]:
    """The dataset and all that it reads."""
    reached: set[str] = set()
    waiting = [dataset]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in nodes:
            continue
        reached.add(name)
        waiting += [slot.dataset for slot in nodes[name].slots]
    return reached
